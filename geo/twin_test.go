package geo_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/geo/geotest"
)

// worlds is how many random sources TestTwin tries; go test ./geo -run Twin -worlds 100000 for a long run.
var worlds = flag.Int("worlds", 400, "random sources of TestTwin")

// TestTwin compares compiled maps with the slow twin on random sources, and checks that scopes are honest: whatever network lies inside the scope of a depth, the twin
// gives it the same first places.
func TestTwin(t *testing.T) {
	for seed := range uint64(*worlds) {
		r := rand.New(rand.NewPCG(seed, 1))
		src := geotest.Table(r)
		k := geo.Kind(r.IntN(int(geo.MatchPrefix) + 1))
		n := 6
		if r.IntN(10) == 0 {
			n = 50
		}
		p := geotest.Plan(r, k, n)
		m, err := geo.Compile(src, p)
		if lack := (*geo.LackError)(nil); errors.As(err, &lack) {
			continue
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for range 20 {
			ecs, sender := geotest.Prefix(r), geotest.Addr(r)
			if r.IntN(8) == 0 {
				ecs = netip.Prefix{}
			}
			check(t, r, seed, src, m, ecs, sender)
		}
	}
}

// TestTwinFine is TestTwin where the order changes from network to network and the first places seldom do, as with a City database: maps keep tables of these.
func TestTwinFine(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := geo.Plan{Kind: geo.SortDistance}
		for range 20 + r.IntN(40) {
			p.Targets = append(p.Targets, geo.Target{Lat: r.Float64()*160 - 80, Lon: r.Float64()*360 - 180, Coords: true})
		}
		var entries []geo.Entry
		for i := range 1 << 11 {
			n := i / 2
			a := netip.AddrFrom4([4]byte{20, byte(n >> 4), byte(n << 4)})
			if i%2 == 1 {
				a = netip.AddrFrom16([16]byte{0x2a, 1, byte(n >> 4), byte(n << 4)})
			}
			if n%50 != 0 { // holes
				entries = append(entries, geo.Entry{Prefix: netip.PrefixFrom(a, []int{20, 28}[i%2]), Location: geo.Location{Lat: 50, Lon: float32(n)/5 - 100, Coords: true}})
			}
		}
		src, err := geo.NewTable(entries)
		if err != nil {
			t.Fatal(err)
		}
		m, err := geo.Compile(src, p)
		if err != nil {
			t.Fatal(err)
		}
		var l geo.Leaf
		c := geo.NewClient(netip.AddrFrom4([4]byte{20}), 24, netip.Addr{})
		if m.LookupTo(&c, 1, &l); l.Known >= len(p.Targets) {
			t.Errorf("seed %d: no table of the first places, of %d", seed, len(p.Targets))
		}
		for range 100 {
			e := entries[r.IntN(len(entries))].Prefix
			check(t, r, seed, src, m, geotest.Within(r, e), entries[r.IntN(len(entries))].Prefix.Addr())
		}
	}
}

func check(t *testing.T, r *rand.Rand, seed uint64, src geo.Source, m *geo.Map, ecs netip.Prefix, sender netip.Addr) {
	t.Helper()
	p := m.Plan()
	c := geo.NewClient(ecs.Addr(), uint8(max(ecs.Bits(), 0)), sender)
	want := geotest.Evaluate(src, p, ecs, sender)
	l := m.Lookup(&c)
	if !tagged(p) { // nothing to tell apart: no place is looked up
		if l.Bits != [len(geo.Depths)]uint8{} || l.Outcome.Order != nil || len(want.Match) > 0 || len(want.Groups) > 1 {
			t.Fatalf("seed %d: %v without tags: %v", seed, p.Kind, l)
		}
		return
	}
	if l.Outcome.Placed != want.Placed || l.Sender != want.Sender {
		t.Fatalf("seed %d: %v ecs %v sender %v: placed %v by sender %v, twin %v %v", seed, p.Kind, ecs, sender, l.Outcome.Placed, l.Sender, want.Placed, want.Sender)
	}
	if m.Outcome(l.Class) != l.Outcome {
		t.Fatalf("seed %d: class %d is not the outcome's", seed, l.Class)
	}
	if p.Kind.Sorts() {
		order, tied, _ := m.Full(&c, nil, nil)
		if wantOrder := want.Order(); !slices.EqualFunc(order, wantOrder, func(a uint16, b int) bool { return int(a) == b }) {
			t.Fatalf("seed %d: %v ecs %v sender %v: order %v, twin %v", seed, p.Kind, ecs, sender, order, want.Groups)
		}
		if !slices.Equal(l.Outcome.Order, order[:min(len(order), geo.MaxOrder)]) || !slices.Equal(l.Outcome.Tied, tied[:min(len(tied), geo.MaxOrder)]) {
			t.Fatalf("seed %d: stored part %v of %v", seed, l.Outcome.Order, order)
		}
		i := 0
		for _, g := range want.Groups {
			for n := range g {
				if i < len(tied) && tied[i] != (n+1 < len(g)) {
					t.Fatalf("seed %d: ties %v, twin %v", seed, tied, want.Groups)
				}
				i++
			}
		}
	} else {
		for i := range p.Targets {
			if l.Outcome.Matches(i) != slices.Contains(want.Match, i) {
				t.Fatalf("seed %d: %v ecs %v sender %v: target %d matches %v, twin %v", seed, p.Kind, ecs, sender, i, l.Outcome.Matches(i), want.Match)
			}
		}
	}
	for _, d := range geo.Depths {
		var s geo.Leaf
		m.LookupTo(&c, d, &s)
		same := s.Outcome.Placed == l.Outcome.Placed && s.Sender == l.Sender && s.Known >= d
		for _, n := range []int{1, d, s.Known} {
			same = same && s.BitsAt(n) == l.BitsAt(n)
		}
		n := len(s.Outcome.Order)
		same = same && n >= min(d, len(l.Outcome.Order)) && slices.Equal(s.Outcome.Order, l.Outcome.Order[:n]) && slices.Equal(s.Outcome.Tied, l.Outcome.Tied[:n])
		if !same {
			t.Fatalf("seed %d: %v ecs %v sender %v: to depth %d %+v %+v, to all %+v %+v", seed, p.Kind, ecs, sender, d, s, s.Outcome, l, l.Outcome)
		}
	}
	if !ecs.IsValid() {
		return
	}
	for _, d := range []int{1, 2, 3, 4, 5, 8, 20, geo.MaxOrder, 40, 1 << 16} {
		bits := l.BitsAt(d)
		if d > geo.MaxOrder && p.Kind.Sorts() && r.IntN(2) == 0 {
			_, _, bits = m.Full(&c, nil, nil)
		}
		honest(t, r, seed, src, p, ecs, sender, &c, d, bits, want)
	}
}

func honest(t *testing.T, r *rand.Rand, seed uint64, src geo.Source, p geo.Plan, ecs netip.Prefix, sender netip.Addr, c *geo.Client, d int, bits uint8, want geotest.Answer) {
	t.Helper()
	scope := int(c.Scope(bits))
	if scope > ecs.Addr().BitLen() {
		t.Fatalf("seed %d: scope %d of %v", seed, scope, ecs)
	}
	if c.Offset == 0 && embedded(ecs.Addr()) {
		// Too little of an embedded address is known to locate it. The scope reaches to where that changes: whoever sends more is another client.
		if bits > 0 && scope < int(c.Floor) {
			t.Fatalf("seed %d: scope %d of %v, want at least %d", seed, scope, ecs, c.Floor)
		}
		return
	}
	in, err := ecs.Addr().Prefix(scope)
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		other := geotest.Within(r, in)
		if r.IntN(2) == 0 { // near the others, where something is
			if q := geotest.Prefix(r); in.Contains(q.Addr()) && q.Bits() >= in.Bits() {
				other = q
			}
		}
		if other.Bits() == 0 {
			continue
		}
		if got := geotest.Evaluate(src, p, other, sender); got.First(d) != want.First(d) {
			t.Fatalf("seed %d: %v depth %d: %v has scope %d (%s), but %v inside it gets %s", seed, p.Kind, d, ecs, scope, want.First(d), other, got.First(d))
		}
	}
}

// tagged reports whether any target has a tag that the kind looks at.
func tagged(p geo.Plan) bool {
	return slices.ContainsFunc(p.Targets, func(t geo.Target) bool {
		switch p.Kind {
		case geo.SortCountry, geo.MatchCountry:
			return p.Kind.Sorts() && t.Coords || len(t.Countries)+len(t.Subdivisions) > 0
		case geo.SortRegion, geo.MatchRegion:
			return p.Kind.Sorts() && t.Coords || len(t.Regions) > 0
		case geo.SortDistance:
			return t.Coords
		case geo.MatchASN:
			return len(t.ASNs) > 0
		default:
			return len(t.Prefixes) > 0
		}
	})
}

// embedded reports whether a lies in a range of embedded IPv4 addresses.
func embedded(a netip.Addr) bool {
	return slices.ContainsFunc([]string{"::ffff:0:0/96", "64:ff9b::/96", "2001::/32", "2002::/16"}, func(s string) bool { return netip.MustParsePrefix(s).Contains(a) })
}
