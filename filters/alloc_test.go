//go:build !race

package filters

import (
	"math/rand/v2"
	"testing"
)

// TestNoAllocations runs random chains of all filters, calm and drained, twice: the second time the scratch space is there.
func TestNoAllocations(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		for _, w := range newWorlds(r, 8) {
			for range 3 {
				w.setView(testView(r, w.view.Fleet))
				ecs, sender := testClient(r)
				run := w.runner(ecs, sender)
				run()
				if n := testing.AllocsPerRun(10, run); n > 0 {
					t.Fatalf("%v allocations for client %v\n%v", n, ecs, w)
				}
				for _, s := range w.chain.Steps {
					seen[s.Name] = true
				}
			}
		}
	}
	for i := range registry {
		if !seen[registry[i].Name] {
			t.Errorf("filter %s was in no chain", registry[i].Name)
		}
	}
}

// TestNoAllocationsInManyPlaces: a pool with more targets than a leaf stores.
func TestNoAllocationsInManyPlaces(t *testing.T) {
	w := crowd(t, 200, "up; shed_load metric=connections; geotarget_latlong; select_first_n N=150; weighted_shuffle; sticky; shuffle_shard size=60")
	run := w.runner(germany, sender)
	run()
	if n := testing.AllocsPerRun(10, run); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
