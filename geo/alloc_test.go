//go:build !race

package geo_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/geo/geotest"
)

// TestAllocations: nothing is allocated on the way of a query.
func TestAllocations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	src := geotest.Table(r)
	var maps []*geo.Map
	for k := geo.SortCountry; k <= geo.MatchPrefix; k++ {
		m, err := geo.Compile(src, geotest.Plan(r, k, 100))
		if err != nil {
			t.Fatal(err)
		}
		maps = append(maps, m)
	}
	var ecs []netip.Prefix
	for range 64 {
		ecs = append(ecs, geotest.Prefix(r))
	}
	sender := netip.MustParseAddr("2002:0a00:0001::1")
	order, tied := make([]uint16, 0, 100), make([]bool, 0, 100)
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		p := ecs[i%len(ecs)]
		i++
		c := geo.NewClient(p.Addr(), uint8(p.Bits()), sender)
		for _, m := range maps {
			l := m.Lookup(&c)
			m.LookupTo(&c, 1, &l)
			_ = c.Scope(l.BitsAt(3))
			m.Full(&c, order[:0], tied[:0])
		}
		_ = c.Network()
	}); n != 0 {
		t.Errorf("%v allocations per query", n)
	}
}
