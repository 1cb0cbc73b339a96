package filters

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// FuzzChain runs random chains of all filters of the registry over random pools, views and clients: no panic; no answer twice and none that is no candidate; something is left
// unless a fence took all; the same again if the chain is static; and a trace changes nothing.
func FuzzChain(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, seed*31)
	}
	f.Fuzz(func(t *testing.T, seed, clients uint64) {
		r := rand.New(rand.NewPCG(seed, 5))
		c := rand.New(rand.NewPCG(clients, 6))
		x, y := &Exec{}, &Exec{}
		for _, w := range newWorlds(r, 4) {
			for range 4 {
				w.setView(testView(c, w.view.Fleet))
				ecs, sender := testClient(c)
				dice := c.Uint64()
				x.Rand, y.Rand = rand.New(rand.NewPCG(dice, 1)), rand.New(rand.NewPCG(dice, 1))
				y.Trace = &Trace{}
				got, bits := w.run(x, ecs, sender)
				traced, tracedBits := w.run(y, ecs, sender)
				if got != traced || bits != tracedBits {
					t.Fatalf("%s /%d, and with a trace %s /%d\n%v", got, bits, traced, tracedBits, w)
				}
				checkList(t, w, x)
				if w.chain.Static {
					if again, againBits := w.run(x, ecs, sender); again != got || againBits != bits {
						t.Fatalf("%s /%d, then %s /%d\n%v", got, bits, again, againBits, w)
					}
				}
			}
		}
	})
}

func checkList(t *testing.T, w *world, x *Exec) {
	t.Helper()
	candidates := 0
	for i := range w.pool.Answers {
		if w.pool.Answers[i].Serves(x.V6) {
			candidates++
		}
	}
	var serve []uint16
	for _, c := range x.List {
		if int(c.Answer) >= len(w.pool.Answers) || !w.pool.Answers[c.Answer].Serves(x.V6) || !w.pool.Answers[c.Serve].Serves(x.V6) {
			t.Fatalf("%v is no candidate\n%v", c, w)
		}
		if slices.Contains(serve, c.Serve) {
			t.Fatalf("%d is served twice: %v\n%v", c.Serve, x.List, w)
		}
		serve = append(serve, c.Serve)
	}
	fenced := slices.ContainsFunc(w.chain.Steps, func(s Step) bool { _, ok := s.Filter.(*fence); return ok })
	if candidates > 0 && len(serve) == 0 && !fenced {
		t.Fatalf("nothing is left\n%v", w)
	}
	if slices.ContainsFunc(x.slots, func(s uint16) bool { return s != 0 }) {
		t.Fatalf("slots are left: %v\n%v", x.slots, w)
	}
}
