package filters

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
)

// possible gives what chance can give a client, labels in the order of the pool.
func (w *world) possible(ecs netip.Prefix) (string, bool) {
	c := geo.NewClient(ecs.Addr(), uint8(ecs.Bits()), netip.MustParseAddr("192.0.2.53"))
	x := &Exec{Client: &c, Atlas: w.atlas, View: w.view, QName: []byte(testName), V6: w.twin.v6}
	x.Begin(w.pool)
	for i := range w.pool.Answers {
		if w.pool.Answers[i].Serves(x.V6) {
			x.Add(i)
		}
	}
	answers, exact := w.chain.Possible(x)
	var s []string
	for _, a := range answers {
		s = append(s, w.pool.Answers[a].Label)
	}
	return strings.Join(s, " "), exact
}

// TestPossible: what chance can give is neither what has weight 0 nor what a later filter always takes away.
func TestPossible(t *testing.T) {
	weigh := func(w pops.Value) func(*Answer) { return func(a *Answer) { a.Weight = w } }
	weights := []spot{{name: "a", answer: weigh(num(0))}, {name: "b", answer: weigh(num(2.5))}, {name: "c"}}
	places := []spot{{name: "de", country: "DE"}, {name: "jp", country: "JP"}, {name: "us", country: "US"}}
	groups := []spot{{name: "a", group: "eu"}, {name: "b", group: "us", state: share(0)}, {name: "c", group: "eu", state: share(0)}, {name: "d", group: "us"}}
	for _, tt := range []struct {
		name, chain string
		spots       []spot
		want        string
	}{
		{"no weight", "weighted_shuffle; select_first_n", weights, "b c"},
		{"one has weight", "weighted_shuffle; select_first_n", weights[:2], "b"},
		{"only weight 0", "weighted_shuffle; select_first_n", weights[:1], "a"},
		{"no shuffle", "up; geotarget_country; select_first_n", places, "de"},
		{"a fence behind the shuffle", "shuffle; geofence_country", places, "de"},
		{"a fence behind the cut", "shuffle; select_first_n N=2; geofence_country; select_first_n", places, "de"},
		{"sorted again", "shuffle; geotarget_country; select_first_n", places, "de"},
		{"of the three nearest", "geotarget_country; select_first_n N=2; shuffle; select_first_n", places, "de us"},
		{"any group, but nobody who is drained", "shuffle; select_first_region; up", groups, "a d"},
		{"a cut that may leave the drained alone", "shuffle; select_first_n; up", groups, "a b c d"},
		{"nothing is cut", "shuffle", places, "de jp us"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, exact := scene(t, tt.spots, tt.chain, "").possible(germany)
			if got != tt.want || !exact {
				t.Errorf("%s: %s (exact %v), want %s", tt.chain, got, exact, tt.want)
			}
		})
	}
}

// Where nobody counts as available, a record that withholds gives nothing.
func TestPossibleWithheld(t *testing.T) {
	w := scene(t, []spot{{name: "a"}, {name: "b", state: share(0)}, {name: "c"}}, "shuffle; select_first_n; up", "")
	w.chain.Withholds = true
	if got, exact := w.possible(germany); got != "a c" || !exact {
		t.Errorf("%s, exact %v", got, exact)
	}
}

// What cannot be followed is bounded: nothing that may be given is left out, and it is said.
func TestPossibleBound(t *testing.T) {
	var spots []spot
	for i := range 20 {
		s := spot{name: fmt.Sprintf("p%02d", i), country: "JP"}
		if i == 0 {
			s.country = "DE"
		}
		spots = append(spots, s)
	}
	got, exact := scene(t, spots, "shuffle; select_first_n N=10; geotarget_country; select_first_n; shuffle", "").possible(germany)
	if exact || len(strings.Fields(got)) != len(spots) {
		t.Errorf("%s, exact %v", got, exact)
	}
}

// TestPossibleTwin: in random worlds it is the union of all lists that the twin can come to.
func TestPossibleTwin(t *testing.T) {
	batches := 150
	if testing.Short() {
		batches = 20
	}
	for seed := range batches {
		r := rand.New(rand.NewPCG(uint64(seed), 19))
		for _, w := range newWorlds(r, 8) {
			for range 4 {
				w.setView(testView(r, w.view.Fleet))
				ecs, sender := testClient(r)
				want := map[string]bool{}
				for _, list := range w.twin.for_(ecs, sender).possible() {
					for a := range strings.FieldsSeq(strings.Trim(list, "[]")) {
						want[a] = true
					}
				}
				x := &Exec{Rand: rand.New(rand.NewPCG(1, 1))}
				w.run(x, ecs, sender)
				x.List = append(x.List[:0], x.start...)
				got, exact := w.chain.Possible(x)
				if !exact || len(got) != len(want) || slices.ContainsFunc(got, func(a uint16) bool { return !want[fmt.Sprint(a)] }) {
					t.Fatalf("client %v, sender %v: got %v (exact %v), want %v\n%v", ecs, sender, got, exact, want, w)
				}
			}
		}
	}
}
