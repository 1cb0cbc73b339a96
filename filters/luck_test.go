package filters

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// byLuck runs a chain once for each of many Lucks and counts the orders.
func byLuck(t *testing.T, spots []spot, chain string, n int) map[string]int {
	t.Helper()
	w := scene(t, spots, chain, "")
	x, lucks := &Exec{}, rand.New(rand.NewPCG(3, 4))
	counts := map[string]int{}
	for range n {
		x.Luck = lucks.Uint64() | 1
		got, _ := w.names(x, germany)
		counts[got]++
	}
	return counts
}

// By Luck every order is as likely as by Rand.
func TestLuckIsFair(t *testing.T) {
	const n = 60000
	spots := []spot{{name: "a", answer: weight(5)}, {name: "b"}, {name: "c", answer: weight(2)}}
	orders := map[string]float64{}
	for _, o := range []string{"a b c", "a c b", "b a c", "b c a", "c a b", "c b a"} {
		orders[o] = 1.0 / 6
	}
	near(t, byLuck(t, spots, "shuffle", n), n, orders)
	near(t, byLuck(t, spots, "shuffle; select_first_n N=2; shuffle", n), n, map[string]float64{"a b": 1. / 6, "b a": 1. / 6, "a c": 1. / 6, "c a": 1. / 6, "b c": 1. / 6, "c b": 1. / 6})
	near(t, byLuck(t, spots, "weighted_shuffle", n), n, map[string]float64{
		"a b c": 5. / 8 * 1 / 3, "a c b": 5. / 8 * 2 / 3, "b a c": 1. / 8 * 5 / 7, "b c a": 1. / 8 * 2 / 7, "c a b": 2. / 8 * 5 / 6, "c b a": 2. / 8 * 1 / 6})
}

// With one Luck the others keep their order when an answer goes.
func TestLuckKeepsTheOthers(t *testing.T) {
	for _, chain := range []string{"up; shuffle", "up; weighted_shuffle", "up; weighted_shuffle; shuffle"} {
		spots := []spot{{name: "a", answer: weight(5)}, {name: "b"}, {name: "c", answer: weight(2)}, {name: "d", answer: weight(3)}}
		all := scene(t, spots, chain, "")
		spots[1].state = share(0)
		less := scene(t, spots, chain, "")
		lucks := rand.New(rand.NewPCG(3, 4))
		for range 200 {
			luck := lucks.Uint64() | 1
			was, _ := all.names(&Exec{Luck: luck}, germany)
			is, _ := less.names(&Exec{Luck: luck}, germany)
			if want := slices.DeleteFunc(strings.Fields(was), func(s string) bool { return s == "b" }); !slices.Equal(strings.Fields(is), want) {
				t.Fatalf("%s: %q became %q", chain, was, is)
			}
		}
	}
}
