package filters

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
)

var (
	germany = netip.MustParsePrefix("10.1.2.0/24")
	sender  = netip.MustParseAddr("192.0.2.53")
)

// runner is one query again and again, as a worker runs it.
func (w *world) runner(ecs netip.Prefix, sender netip.Addr) func() {
	c := geo.NewClient(ecs.Addr(), uint8(max(0, ecs.Bits())), sender)
	x := &Exec{Client: &c, Atlas: w.atlas, View: w.view, QName: []byte(testName), V6: w.twin.v6, Rand: rand.New(rand.NewPCG(1, 2))}
	return func() {
		x.Begin(w.pool)
		for i := range w.pool.Answers {
			if w.pool.Answers[i].Serves(x.V6) {
				x.Add(i)
			}
		}
		w.chain.Run(x)
	}
}

// crowd is a scene of n PoPs spread over the globe, each with a country.
func crowd(tb testing.TB, n int, chain string) *world {
	countries := []string{"US", "CA", "BR", "GB", "DE", "FR", "ZA", "AE", "IN", "SG", "JP", "AU"}
	var spots []spot
	for i := range n {
		spots = append(spots, spot{name: fmt.Sprintf("pop%d", i), country: countries[i%len(countries)], answer: func(a *Answer) {
			if i >= len(countries) {
				a.Place.Countries = nil
			}
			a.Place.Coords, a.Place.Lat, a.Place.Lon = true, float64(i*37%120-60), float64(i*73%360-180)
		}})
	}
	return scene(tb, spots, chain, "")
}

func BenchmarkChain(b *testing.B) {
	const primary = "up; shed_load metric=connections; geotarget_country; select_first_n"
	const backup = "up; shed_load metric=connections; geotarget_country; select_first_n N=3; shuffle; select_first_n"
	drained := func(w *world) {
		w.view.States[4] = pops.State{Share: 50, Said: 50, Shift: pops.NoUnit, ShiftShare: 100} // Germany's own
		sum(w.view)
	}
	far := func(w *world) {
		w.view.States[10] = pops.State{Share: 1, Said: 1, Shift: pops.NoUnit, ShiftShare: 100}
		sum(w.view)
	}
	for _, bb := range []struct {
		name, chain string
		pops        int
		state       func(*world)
	}{
		{"primary", primary, 12, nil},
		{"backup", backup, 12, nil},
		{"primary, the first drained by half", primary, 12, drained},
		{"primary, a far one drained by 99 %", primary, 12, far},
		{"primary, 200 PoPs", primary, 200, nil},
		{"sticky by network", "up; sticky sticky_by_network=1; select_first_n", 12, nil},
		{"weighted shuffle", "up; weighted_shuffle; select_first_n", 12, nil},
	} {
		b.Run(bb.name, func(b *testing.B) {
			w := crowd(b, bb.pops, bb.chain)
			if bb.state != nil {
				bb.state(w)
			}
			run := w.runner(germany, sender)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}

// BenchmarkFilter measures each filter of the registry alone on 12 PoPs.
func BenchmarkFilter(b *testing.B) {
	args := map[string]string{"shed_load": " metric=connections", "shuffle_shard": " size=2", "avoid_record": " record=other"}
	for i := range registry {
		name := registry[i].Name
		b.Run(name, func(b *testing.B) {
			run := crowd(b, 12, name+args[name]).runner(germany, sender)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}
