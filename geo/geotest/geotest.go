// Package geotest is the slow, obvious twin of package geo's compiled maps, and a maker of random sources, plans and clients, for tests.
//
// The twin reads the source anew for each question, compares every target in the plainest way and shares no code with the compiler: it uses only the tables of places
// (Point, Distance, RegionsOf). What it is not: fast, or meant for anything but tests.
package geotest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sort"
	"strings"

	"github.com/edgesteer/edgesteer/geo"
)

// Answer is what the twin says.
type Answer struct {
	Groups [][]int // of a sort plan: target numbers that rank the same, best group first; nil for an unplaced client
	Match  []int   // of a match plan
	Placed bool
	Sender bool // the sender was asked because the client's own prefix has no location
}

// Order is the groups in one list.
func (a Answer) Order() []int { return slices.Concat(a.Groups...) }

// First describes the first n places with all that tie with them, or the whole of a match.
func (a Answer) First(n int) string {
	if a.Groups == nil {
		return fmt.Sprint("placed ", a.Placed, " sender ", a.Sender, " match ", a.Match)
	}
	var b strings.Builder
	fmt.Fprint(&b, "sender ", a.Sender)
	for _, g := range a.Groups {
		if n <= 0 {
			break
		}
		fmt.Fprint(&b, g)
		n -= len(g)
	}
	return b.String()
}

// Evaluate answers a plan for a client with the given client subnet (the zero Prefix for none) and sender.
func Evaluate(src geo.Source, p geo.Plan, ecs netip.Prefix, sender netip.Addr) Answer {
	own := netip.PrefixFrom(sender, sender.BitLen())
	if ecs.IsValid() && ecs.Bits() > 0 {
		own = ecs
	} else {
		ecs = netip.Prefix{}
	}
	own = plain(own)
	if p.Kind == geo.MatchPrefix {
		a := Answer{Placed: true}
		for i, t := range p.Targets {
			if slices.ContainsFunc(t.Prefixes, func(q netip.Prefix) bool {
				return plain(q).Contains(own.Addr()) && plain(q).Addr().BitLen() == own.Addr().BitLen()
			}) {
				a.Match = append(a.Match, i)
			}
		}
		return a
	}
	l := at(src, own.Addr())
	var fromSender bool
	if !knows(p.Kind, l) && ecs.IsValid() {
		if s := at(src, plain(netip.PrefixFrom(sender, sender.BitLen())).Addr()); knows(p.Kind, s) {
			l, fromSender = s, true
		}
	}
	if !knows(p.Kind, l) {
		return Answer{}
	}
	a := judge(p, l)
	a.Sender = fromSender
	return a
}

// at reads the source; an address in an embedded range that was not taken apart has no location.
func at(src geo.Source, a netip.Addr) geo.Location {
	for _, r := range []string{"::ffff:0:0/96", "64:ff9b::/96", "2001::/32", "2002::/16"} {
		if a.BitLen() == 128 && netip.MustParsePrefix(r).Contains(a) {
			return geo.Location{}
		}
	}
	l, _ := src.Lookup(a)
	return l
}

func knows(k geo.Kind, l geo.Location) bool {
	if k == geo.MatchASN {
		return l != geo.Location{}
	}
	l.ASN = 0
	return l != geo.Location{}
}

// plain takes an embedded IPv4 prefix out of its IPv6 form.
func plain(p netip.Prefix) netip.Prefix {
	p = p.Masked()
	if p.Addr().BitLen() != 128 {
		return p
	}
	b := p.Addr().As16()
	in := func(s string) bool { return netip.MustParsePrefix(s).Contains(p.Addr()) }
	v4 := func(from, bits int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(b[from:from+4])), min(bits, 32))
	}
	switch {
	case in("::ffff:0:0/96") && p.Bits() >= 104, in("64:ff9b::/96") && p.Bits() >= 104:
		return v4(12, p.Bits()-96)
	case in("2002::/16") && p.Bits() >= 24:
		return v4(2, p.Bits()-16)
	case in("2001::/32") && p.Bits() == 128:
		for i := range b {
			b[i] ^= 0xff
		}
		return v4(12, 32)
	}
	return p
}

func judge(p geo.Plan, l geo.Location) Answer {
	country := l.Country
	if country == 0 {
		country = l.Subdivision.Country()
	}
	regions := geo.RegionsOf(country, l.Subdivision)
	inRegion := func(t geo.Target) bool { return slices.ContainsFunc(t.Regions, regions.Has) }
	inCountry := func(t geo.Target) bool { return country != 0 && slices.Contains(t.Countries, country) }
	inState := func(t geo.Target) bool { return l.Subdivision != 0 && slices.Contains(t.Subdivisions, l.Subdivision) }
	a := Answer{Placed: true}
	switch p.Kind {
	case geo.MatchCountry, geo.MatchRegion, geo.MatchASN:
		for i, t := range p.Targets {
			if p.Kind == geo.MatchCountry && (inCountry(t) || inState(t)) || p.Kind == geo.MatchRegion && inRegion(t) ||
				p.Kind == geo.MatchASN && l.ASN != 0 && slices.Contains(t.ASNs, l.ASN) {
				a.Match = append(a.Match, i)
			}
		}
		return a
	}
	from, ok := l.Point()
	if !ok {
		return Answer{}
	}
	type place struct{ target, tier, metres int }
	var list []place
	for i, t := range p.Targets {
		var points []geo.Point
		switch {
		case t.Coords:
			points = []geo.Point{{Lat: t.Lat, Lon: t.Lon}}
		case p.Kind == geo.SortCountry:
			for _, c := range t.Countries {
				q, _ := c.Point()
				points = append(points, q)
			}
			for _, d := range t.Subdivisions {
				q, _ := d.Point()
				points = append(points, q)
			}
		case p.Kind == geo.SortRegion:
			for _, r := range t.Regions {
				q, _ := r.Point()
				points = append(points, q)
			}
		}
		if len(points) == 0 {
			list = append(list, place{target: i, tier: 9})
			continue
		}
		x := place{target: i, tier: 5, metres: 1 << 40}
		for _, q := range points {
			x.metres = min(x.metres, int(geo.Distance(from, q)))
		}
		switch {
		case p.Kind == geo.SortCountry && inState(t):
			x.tier = 1
		case p.Kind == geo.SortCountry && inCountry(t), p.Kind == geo.SortRegion && inRegion(t):
			x.tier = 2
		}
		list = append(list, x)
	}
	sort.SliceStable(list, func(i, j int) bool {
		if list[i].tier != list[j].tier {
			return list[i].tier < list[j].tier
		}
		return list[i].metres < list[j].metres
	})
	a.Groups = [][]int{}
	for i, x := range list {
		if i == 0 || x.tier != list[i-1].tier || x.metres != list[i-1].metres {
			a.Groups = append(a.Groups, nil)
		}
		a.Groups[len(a.Groups)-1] = append(a.Groups[len(a.Groups)-1], x.target)
	}
	return a
}

// Location makes a random location out of few values, so that neighbours are often alike: sometimes only a country, a country and a state, coordinates, an AS number, nothing.
func Location(r *rand.Rand) geo.Location {
	var l geo.Location
	if r.IntN(8) == 0 {
		return l
	}
	country := pick(r, "US", "US", "DE", "JP", "BR", "CA", "GB")
	if r.IntN(10) > 0 {
		l.Country = must(geo.ParseCountry(country))
		if r.IntN(2) == 0 {
			switch country {
			case "US":
				l.Subdivision = must(geo.ParseSubdivision(pick(r, "US-CA", "US-NY", "US-TX")))
			case "CA":
				l.Subdivision = must(geo.ParseSubdivision(pick(r, "CA-ON", "CA-BC")))
			}
		}
	}
	if r.IntN(3) == 0 {
		l.Coords, l.Lat, l.Lon = true, float32(r.IntN(5)*20-40), float32(r.IntN(9)*40-160)
	}
	if r.IntN(3) == 0 {
		l.ASN = 64500 + uint32(r.IntN(4))
	}
	return l
}

// Table makes a random source: nested networks of both families with holes, single addresses, whole spaces, embedded ranges.
func Table(r *rand.Rand) *geo.Table {
	var list []geo.Entry
	for range r.IntN(40) + 1 {
		list = append(list, geo.Entry{Prefix: Prefix(r), Location: Location(r)})
	}
	if r.IntN(4) == 0 {
		list = append(list, geo.Entry{Prefix: netip.MustParsePrefix(pick(r, "0.0.0.0/0", "::/0", "::/1")), Location: Location(r)})
	}
	return must(geo.NewTable(list))
}

// Prefix makes a random prefix out of a small part of the address space, so that random prefixes meet.
func Prefix(r *rand.Rand) netip.Prefix {
	a := Addr(r)
	n := a.BitLen()
	bits := 1 + r.IntN(n)
	if r.IntN(2) == 0 {
		bits = n - r.IntN(10)
	}
	return netip.PrefixFrom(a, bits).Masked()
}

// Addr makes a random address; see Prefix.
func Addr(r *rand.Rand) netip.Addr {
	v4 := [4]byte{10, byte(r.IntN(2)), byte(r.IntN(4)) << 6, byte(r.IntN(4))}
	if r.IntN(4) == 0 {
		v4[r.IntN(4)] = byte(r.IntN(256))
	}
	var b [16]byte
	switch r.IntN(8) {
	default:
		return netip.AddrFrom4(v4)
	case 0, 1:
		b = [16]byte{0x20, byte(1 + r.IntN(3)), 0x0d, 0xb8, byte(r.IntN(2)), 0, byte(r.IntN(4)) << 6, 15: byte(r.IntN(4))}
		if r.IntN(4) == 0 {
			b[r.IntN(16)] = byte(r.IntN(256))
		}
	case 2:
		copy(b[:], []byte{0x20, 0x02, v4[0], v4[1], v4[2], v4[3]})
	case 3:
		copy(b[:], []byte{0, 0x64, 0xff, 0x9b, 12: v4[0], v4[1], v4[2], v4[3]})
		b[11] = byte(r.IntN(8) / 7)
	case 4:
		copy(b[:], []byte{10: 0xff, 0xff, v4[0], v4[1], v4[2], v4[3]})
		b[9] = byte(r.IntN(8) / 7)
	case 5:
		copy(b[:], []byte{0x20, 0x01, 12: ^v4[0], ^v4[1], ^v4[2], ^v4[3]})
	}
	return netip.AddrFrom16(b)
}

// Plan makes a random plan of a kind with up to n targets.
func Plan(r *rand.Rand, k geo.Kind, n int) geo.Plan {
	p := geo.Plan{Kind: k, Targets: make([]geo.Target, 1+r.IntN(n))}
	for i := range p.Targets {
		t := &p.Targets[i]
		for range r.IntN(3) {
			t.Countries = append(t.Countries, must(geo.ParseCountry(pick(r, "US", "DE", "JP", "BR", "CA", "GB", "ZA", "AU"))))
		}
		for range r.IntN(3) {
			t.Subdivisions = append(t.Subdivisions, must(geo.ParseSubdivision(pick(r, "US-CA", "US-NY", "US-TX", "CA-ON", "CA-BC"))))
		}
		for range r.IntN(3) {
			t.Regions = append(t.Regions, geo.USWest+geo.Region(r.IntN(7)))
		}
		for range r.IntN(3) {
			t.ASNs = append(t.ASNs, 64500+uint32(r.IntN(6)))
		}
		for range r.IntN(4) {
			t.Prefixes = append(t.Prefixes, Prefix(r))
		}
		if r.IntN(2) == 0 {
			t.Coords, t.Lat, t.Lon = true, float64(r.IntN(5)*20-40), float64(r.IntN(5)*40-80)
		}
	}
	return p
}

// Within makes a random client subnet inside a prefix.
func Within(r *rand.Rand, p netip.Prefix) netip.Prefix {
	n := p.Addr().BitLen()
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < n; i++ {
		if r.IntN(2) == 0 {
			b[i/8] |= 0x80 >> (i % 8)
		}
	}
	a, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(a, p.Bits()+r.IntN(n-p.Bits()+1)).Masked()
}

func pick(r *rand.Rand, s ...string) string { return s[r.IntN(len(s))] }

// must panics on an error: the tables of this package are constant.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
