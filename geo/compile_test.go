package geo_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/geo/geotest"
)

// place parses "US", "US-CA", "US@38.9,-77.4", "AS64500" and joins of them with "+".
func place(t *testing.T, s string) (l geo.Location) {
	t.Helper()
	for w := range strings.SplitSeq(s, "+") {
		var lat, lon float32
		var n uint32
		name, at, _ := strings.Cut(w, "@")
		if at != "" {
			if _, err := fmt.Sscanf(at, "%f,%f", &lat, &lon); err != nil {
				t.Fatal(err)
			}
			l.Lat, l.Lon, l.Coords = lat, lon, true
		}
		switch {
		case name == "":
		case strings.HasPrefix(name, "AS") && len(name) > 2:
			if _, err := fmt.Sscanf(name, "AS%d", &n); err != nil {
				t.Fatal(err)
			}
			l.ASN = n
		case strings.Contains(name, "-"):
			d, err := geo.ParseSubdivision(name)
			if err != nil {
				t.Fatal(err)
			}
			l.Country, l.Subdivision = d.Country(), d
		default:
			c, err := geo.ParseCountry(name)
			if err != nil {
				t.Fatal(err)
			}
			l.Country = c
		}
	}
	return l
}

// table makes a source of "prefix place" rows.
func table(t *testing.T, rows ...string) *geo.Table {
	t.Helper()
	var list []geo.Entry
	for _, r := range rows {
		p, l, _ := strings.Cut(r, " ")
		list = append(list, geo.Entry{Prefix: netip.MustParsePrefix(p), Location: place(t, l)})
	}
	src, err := geo.NewTable(list)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// target parses words: countries, subdivisions, georegions, AS numbers, prefixes, "@lat,lon".
func target(t *testing.T, s string) (g geo.Target) {
	t.Helper()
	for w := range strings.FieldsSeq(s) {
		if r, err := geo.ParseRegion(w); err == nil {
			g.Regions = append(g.Regions, r)
			continue
		}
		if p, err := netip.ParsePrefix(w); err == nil {
			g.Prefixes = append(g.Prefixes, p)
			continue
		}
		switch l := place(t, w); {
		case l.ASN != 0:
			g.ASNs = append(g.ASNs, l.ASN)
		case l.Coords:
			g.Lat, g.Lon, g.Coords = float64(l.Lat), float64(l.Lon), true
		case l.Subdivision != 0:
			g.Subdivisions = append(g.Subdivisions, l.Subdivision)
		default:
			g.Countries = append(g.Countries, l.Country)
		}
	}
	return g
}

func plan(t *testing.T, k geo.Kind, targets ...string) geo.Plan {
	t.Helper()
	p := geo.Plan{Kind: k}
	for _, s := range targets {
		p.Targets = append(p.Targets, target(t, s))
	}
	return p
}

func compile(t *testing.T, src geo.Source, p geo.Plan) *geo.Map {
	t.Helper()
	m, err := geo.Compile(src, p)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func client(ecs, sender string) geo.Client {
	var p netip.Prefix
	if ecs != "" {
		p = netip.MustParsePrefix(ecs)
	}
	return geo.NewClient(p.Addr(), uint8(max(p.Bits(), 0)), netip.MustParseAddr(sender))
}

// order renders an order with its ties: "2 0=1 3".
func order(o *geo.Outcome) string {
	if o.Order == nil {
		return "unplaced"
	}
	var b strings.Builder
	for i, n := range o.Order {
		fmt.Fprint(&b, n)
		switch {
		case o.Tied[i]:
			b.WriteString("=")
		case i+1 < len(o.Order):
			b.WriteString(" ")
		}
	}
	return b.String()
}

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    geo.Kind
		targets []string
		client  string
		want    string
	}{
		{"subdivision before country before distance", geo.SortCountry, []string{"CA", "US", "US-CA"}, "US-CA", "2 1 0"},
		{"another state is no match of the subdivision, and does not list the country", geo.SortCountry, []string{"US-CA", "US", "CA"}, "US-NY", "1 2 0"},
		{"by distance to the nearest listed centre", geo.SortCountry, []string{"BR", "JP CH", "DE"}, "FR", "1 2 0"},
		{"own coordinates replace the centres", geo.SortCountry, []string{"JP @48,2", "DE"}, "FR", "0 1"},
		{"the client's country by distance, then the others", geo.SortCountry, []string{"US @37.4,-121.9", "US @38.9,-77.4", "CA @43.6,-79.4"}, "US@40.7,-74", "1 0 2"},
		{"a far answer of the country before a near one of another", geo.SortCountry, []string{"CA @45.5,-73.6", "US @21.3,-157.8"}, "US-NY", "1 0"},
		{"unplaced last, in input order", geo.SortCountry, []string{"", "DE", "", "FR"}, "FR", "3 1 0=2"},
		{"same place ties", geo.SortCountry, []string{"DE", "FR", "DE", "JP"}, "DE", "0=2 1 3"},
		{"a place without country", geo.SortCountry, []string{"DE", "@35,139"}, "JP", "1 0"},
		{"AS number only: unplaced", geo.SortCountry, []string{"DE", "FR"}, "AS64500", "unplaced"},
		{"region, then distance", geo.SortRegion, []string{"US-WEST", "EUROPE", "US-EAST"}, "US-NY", "2 0 1"},
		{"a country that may lie in several regions", geo.SortRegion, []string{"EUROPE", "US-WEST", "US-CENTRAL", "US-EAST"}, "US", "2 1 3 0"},
		{"region ignores country", geo.SortRegion, []string{"DE", "EUROPE"}, "DE", "1 0"},
		{"coordinates only", geo.SortDistance, []string{"DE", "@35,139", "@50,8"}, "DE", "2 1 0"},
		{"latlong from the database's coordinates", geo.SortDistance, []string{"@50,8", "@35,139"}, "DE@34,138", "1 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := compile(t, table(t, "198.51.100.0/24 "+c.client, "203.0.113.0/24 FR"), plan(t, c.kind, c.targets...))
			ask := client("198.51.100.0/24", "192.0.2.1")
			l := m.Lookup(&ask)
			if got := order(l.Outcome); got != c.want {
				t.Errorf("order %s, want %s", got, c.want)
			}
			if l.Outcome.Placed != (c.want != "unplaced") {
				t.Errorf("placed: %v", l.Outcome.Placed)
			}
		})
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    geo.Kind
		targets []string
		client  string
		want    []int
	}{
		{"country or subdivision", geo.MatchCountry, []string{"US", "US-CA", "DE US-CA", "US-NY", ""}, "US-CA", []int{0, 1, 2}},
		{"country only", geo.MatchCountry, []string{"US", "US-CA"}, "US", []int{0}},
		{"none", geo.MatchCountry, []string{"US", "US-CA"}, "DE", nil},
		{"region", geo.MatchRegion, []string{"US-WEST", "EUROPE US-EAST", ""}, "US-NY", []int{1}},
		{"any of the regions a country may lie in", geo.MatchRegion, []string{"US-WEST", "EUROPE", "US-EAST"}, "US", []int{0, 2}},
		{"AS number", geo.MatchASN, []string{"AS64500", "AS64501 AS64502", ""}, "DE+AS64502", []int{1}},
		{"located, AS number unknown", geo.MatchASN, []string{"AS64500"}, "DE", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := compile(t, table(t, "198.51.100.0/24 "+c.client, "203.0.113.0/24 US-CA+AS64500"), plan(t, c.kind, c.targets...))
			ask := client("198.51.100.0/24", "203.0.113.1")
			l := m.Lookup(&ask)
			var got []int
			for i := range c.targets {
				if l.Outcome.Matches(i) {
					got = append(got, i)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || l.Sender {
				t.Errorf("matches (-want +got):\n%s sender %v", diff, l.Sender)
			}
		})
	}
}

func TestScope(t *testing.T) {
	src := table(t,
		"203.0.113.0/25 US", "203.0.113.128/25 DE",
		"10.0.0.0/8 JP", "10.1.0.0/16 DE",
		"2001:db8:1::/56 US", "2001:db8:2::/56 DE",
		"198.51.100.0/24 FR",
	)
	p := plan(t, geo.SortCountry, "US", "DE", "JP")
	m := compile(t, src, p)
	for _, c := range []struct {
		name, ecs, sender string
		want              string // "order scope", of the first place
		bySender          bool
	}{
		{"a source that is shorter than the difference", "203.0.113.0/24", "192.0.2.1", "0 1 2 /25", false},
		{"most specific wins", "10.1.2.0/24", "192.0.2.1", "1 0 2 /16", false},
		{"the wide one around it", "10.2.0.0/16", "192.0.2.1", "2 1 0 /15", false},
		{"unlocated beside located space", "203.0.112.0/24", "192.0.2.1", "unplaced /24", false},
		{"unlocated, placed by the sender", "192.168.1.0/24", "198.51.100.7", "1 0 2 /6", true},
		{"apart in IPv6", "2001:db8:1::/56", "192.0.2.1", "0 1 2 /56", false},
		{"apart in IPv6, the other", "2001:db8:2::/56", "192.0.2.1", "1 0 2 /56", false},
		{"NAT64", "64:ff9b::cb00:7180/121", "192.0.2.1", "1 0 2 /121", false},
		{"6to4", "2002:0a01:0200::/40", "192.0.2.1", "1 0 2 /32", false},
		{"6to4, too short", "2002:0a00::/20", "198.51.100.7", "1 0 2 /24", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ask := client(c.ecs, c.sender)
			l := m.Lookup(&ask)
			got := fmt.Sprintf("%s /%d", order(l.Outcome), ask.Scope(l.BitsAt(1)))
			if got != c.want || l.Sender != c.bySender {
				t.Errorf("%s sender %v, want %s", got, l.Sender, c.want)
			}
		})
	}
}

// TestDepth: who needs only the first place does not pay for differences further back.
func TestDepth(t *testing.T) {
	src := table(t, "10.0.0.0/9 JP@34,135", "10.128.0.0/9 JP@36,140", "11.0.0.0/8 DE")
	m := compile(t, src, plan(t, geo.SortDistance, "@35.6,139.7", "@37,127", "@43,141", "@1,104"))
	west, east := client("10.0.0.0/16", "192.0.2.1"), client("10.128.0.0/16", "192.0.2.1")
	l, r := m.Lookup(&west), m.Lookup(&east)
	if order(l.Outcome) == order(r.Outcome) {
		t.Fatalf("both get %s", order(l.Outcome))
	}
	if l.BitsAt(1) != 8 || l.BitsAt(4) != 9 || l.BitsAt(100) != 9 || l.BitsAt(0) != 0 {
		t.Errorf("bits at depths 1, 4, 100, 0: %d %d %d %d", l.BitsAt(1), l.BitsAt(4), l.BitsAt(100), l.BitsAt(0))
	}
}

// TestTieGroups: what ties with the last place that a decision looked at belongs to it.
func TestTieGroups(t *testing.T) {
	src := table(t, "10.0.0.0/9 DE", "10.128.0.0/9 FR")
	m := compile(t, src, plan(t, geo.SortCountry, "DE FR @0,0", "DE @0,0", "FR @0,0"))
	a := client("10.0.0.0/16", "192.0.2.1")
	l := m.Lookup(&a)
	if got := order(l.Outcome); got != "0=1 2" || l.BitsAt(1) != 9 {
		t.Errorf("order %s, %d bits: the tie of target 1 is gone on the other side", got, l.BitsAt(1))
	}
}

func TestPrefixPlan(t *testing.T) {
	p := plan(t, geo.MatchPrefix, "10.0.0.0/8", "10.1.0.0/16 2001:db8::/32", "::ffff:192.0.2.0/120", "")
	m := compile(t, table(t), p)
	for _, c := range []struct {
		ecs   string
		want  []uint64
		scope uint8
	}{
		{"10.1.2.0/24", []uint64{0b011}, 16},
		{"10.2.0.0/24", []uint64{0b001}, 15},
		{"192.0.2.0/24", []uint64{0b100}, 24},
		{"11.0.0.0/8", []uint64{0}, 8},
		{"203.0.113.0/24", []uint64{0}, 5},
		{"2001:db8:5::/48", []uint64{0b010}, 32},
		{"2002:0a01:0200::/40", []uint64{0b011}, 32},
	} {
		ask := client(c.ecs, "10.1.0.1")
		l := m.Lookup(&ask)
		if !slices.Equal(l.Outcome.Match, c.want) || ask.Scope(l.BitsAt(1)) != c.scope || l.Sender {
			t.Errorf("%s: match %b scope %d sender %v, want %b %d", c.ecs, l.Outcome.Match, ask.Scope(l.BitsAt(1)), l.Sender, c.want, c.scope)
		}
	}
}

func TestLack(t *testing.T) {
	src := table(t, "10.0.0.0/8 DE")
	for _, c := range []struct {
		name string
		src  geo.Source
		plan geo.Plan
		want string // part of the error
	}{
		{"no AS numbers", src, plan(t, geo.MatchASN, "AS64500"), "netfence_asn can match nothing: no network in the table database has AS number (it holds country)"},
		{"no subdivisions", src, plan(t, geo.MatchCountry, "US-CA"), "geofence_country can match nothing: no network in the table database has subdivision (it holds country)"},
		{"AS numbers only", table(t, "10.0.0.0/8 AS64500"), plan(t, geo.SortCountry, "DE"), "geotarget_country can match nothing: no network in the table database has country or subdivision or coordinates (it holds AS number)"},
		{"nothing at all", table(t), plan(t, geo.SortRegion, "EUROPE"), "(it holds nothing)"},
		{"some rule can match", src, plan(t, geo.MatchCountry, "US-CA", "DE"), ""},
		{"no rule asks", table(t), plan(t, geo.MatchASN, "", "DE"), ""},
		{"no database needed", table(t), plan(t, geo.MatchPrefix, "10.0.0.0/8"), ""},
	} {
		_, err := geo.Compile(c.src, c.plan)
		var lack *geo.LackError
		if errors.As(err, &lack) != (c.want != "") || err != nil && (!strings.Contains(err.Error(), c.want) || lack.Hint() == "") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	m := compile(t, src, plan(t, geo.MatchCountry, "US-CA", "DE", "", "FR"))
	if diff := cmp.Diff([]int{0, 3}, m.Unmatched()); diff != "" {
		t.Errorf("unmatched targets (-want +got):\n%s", diff)
	}
	if _, err := geo.Compile(src, geo.Plan{Targets: make([]geo.Target, geo.MaxTargets+1)}); err == nil {
		t.Error("too many targets were taken")
	}
}

// TestUniform: where the whole address space is alike, a decision depends on nothing.
func TestUniform(t *testing.T) {
	m := compile(t, table(t, "0.0.0.0/0 DE", "::/0 DE"), plan(t, geo.MatchCountry, "DE"))
	a := client("10.0.0.0/24", "192.0.2.1")
	if l := m.Lookup(&a); l.BitsAt(1) != 1 {
		t.Errorf("%d bits: the embedded ranges differ, and a scope of 0 would hold for them", l.BitsAt(1))
	}
	m = compile(t, table(t, "0.0.0.0/0 DE"), plan(t, geo.MatchCountry, "", ""))
	if l := m.Lookup(&a); l.BitsAt(1) != 0 {
		t.Errorf("%d bits for a plan that asks nothing", l.BitsAt(1))
	}
}

// TestWidth: a scope is as wide as honesty allows. One bit fewer would take in a network with another outcome.
func TestWidth(t *testing.T) {
	sender := netip.MustParseAddr("192.0.2.1")
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		src := geotest.Table(r)
		p := geotest.Plan(r, geo.Kind(r.IntN(int(geo.MatchASN)+1)), 6)
		m, err := geo.Compile(src, p)
		if err != nil || !tagged(p) {
			continue
		}
		edges := []netip.Prefix{}
		err = src.Networks(geo.FieldsPlace, func(q netip.Prefix, _ geo.Location) bool {
			edges = append(edges, whole(q.Addr()))
			if n := last(q).Next(); n.IsValid() {
				edges = append(edges, whole(n))
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			ecs := geotest.Prefix(r)
			c := geo.NewClient(ecs.Addr(), uint8(ecs.Bits()), sender)
			if ecs.Bits() == 0 || embedded(ecs.Addr()) || c.Floor > 0 {
				continue
			}
			l := m.Lookup(&c)
			own := geotest.Evaluate(src, p, ecs, sender)
			for _, d := range []int{1, 2, 3, 4, 8} {
				bits := int(l.BitsAt(d))
				if bits <= 1 {
					continue
				}
				wider, err := ecs.Addr().Prefix(bits - 1)
				if err != nil {
					t.Fatal(err)
				}
				differs := slices.ContainsFunc(append(edges, whole(wider.Addr()), whole(last(wider))), func(q netip.Prefix) bool {
					return wider.Contains(q.Addr()) && (embedded(q.Addr()) || geotest.Evaluate(src, p, q, sender).First(d) != own.First(d) || located(src, p.Kind, q) != located(src, p.Kind, ecs))
				}) || slices.ContainsFunc([]string{"::ffff:0:0", "64:ff9b::", "2001::", "2002::"}, func(s string) bool { return wider.Contains(netip.MustParseAddr(s)) })
				if !differs {
					t.Fatalf("seed %d: %v depth %d: %v has %d bits, but all of %v is alike (%s)", seed, p.Kind, d, ecs, bits, wider, own.First(d))
				}
			}
		}
	}
}

func whole(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func located(src geo.Source, k geo.Kind, p netip.Prefix) bool {
	l, _ := src.Lookup(p.Addr())
	return k.Knows(l)
}

// broken is a source whose networks are not what the contract says.
type broken struct {
	*geo.Table
	nets []netip.Prefix
	err  error
}

func (b broken) Networks(_ geo.Fields, yield func(netip.Prefix, geo.Location) bool) error {
	for _, p := range b.nets {
		if !yield(p, geo.Location{Country: 'D'<<8 | 'E'}) {
			return nil
		}
	}
	return b.err
}

func TestBrokenSource(t *testing.T) {
	for name, b := range map[string]broken{
		"out of order":  {nets: []netip.Prefix{netip.MustParsePrefix("11.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}},
		"overlapping":   {nets: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.1.0.0/16")}},
		"after the end": {nets: []netip.Prefix{netip.MustParsePrefix("::/0"), netip.MustParsePrefix("2001:db8::/32")}},
		"failing":       {err: errors.New("disk on fire")},
	} {
		if _, err := geo.Compile(b, plan(t, geo.SortCountry, "DE")); err == nil || !strings.Contains(err.Error(), "reading the location database") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
