package filters

import (
	"math"
	"testing"
)

// count runs a chain for one client often and counts the answers.
func count(t *testing.T, spots []spot, chain string, n int) map[string]int {
	t.Helper()
	w := scene(t, spots, chain, "")
	x := &Exec{Rand: newRand(1)}
	counts := map[string]int{}
	for range n {
		got, _ := w.names(x, germany)
		counts[got]++
	}
	return counts
}

// near fails unless each count is within five standard deviations of its share.
func near(t *testing.T, counts map[string]int, n int, want map[string]float64) {
	t.Helper()
	for k := range counts {
		if _, ok := want[k]; !ok {
			t.Errorf("unexpected %q", k)
		}
	}
	for k, p := range want {
		if d := math.Abs(float64(counts[k]) - float64(n)*p); d > 5*math.Sqrt(float64(n)*p*(1-p)) {
			t.Errorf("%q: %d of %d, want %.4f", k, counts[k], n, p)
		}
	}
}

// TestShuffle: uniform, another order per query.
func TestShuffle(t *testing.T) {
	const n = 60000
	orders := map[string]float64{}
	for _, o := range []string{"a b c", "a c b", "b a c", "b c a", "c a b", "c b a"} {
		orders[o] = 1.0 / 6
	}
	near(t, count(t, []spot{{name: "a"}, {name: "b"}, {name: "c"}}, "shuffle", n), n, orders)
	near(t, count(t, []spot{{name: "a"}}, "shuffle", 10), 10, map[string]float64{"a": 1})
}

// TestWeightedShuffle: without replacement in proportion to weight; 0 is never drawn; missing = 1.
func TestWeightedShuffle(t *testing.T) {
	const n = 60000
	spots := []spot{{name: "a", answer: weight(5)}, {name: "b"}, {name: "c", answer: weight(2)}}
	near(t, count(t, spots, "weighted_shuffle", n), n, map[string]float64{
		"a b c": 5. / 8 * 1 / 3, "a c b": 5. / 8 * 2 / 3, "b a c": 1. / 8 * 5 / 7, "b c a": 1. / 8 * 2 / 7, "c a b": 2. / 8 * 5 / 6, "c b a": 2. / 8 * 1 / 6})
	zero := []spot{{name: "z", answer: weight(0)}, {name: "a", answer: weight(0.5)}, {name: "b", answer: weight(0.5)}}
	near(t, count(t, zero, "weighted_shuffle", 1000), 1000, map[string]float64{"a b": 0.5, "b a": 0.5})
	zeros := []spot{{name: "y", answer: weight(0)}, {name: "z", answer: weight(0)}}
	near(t, count(t, zeros, "weighted_shuffle", 10), 10, map[string]float64{"y z": 1})
	left := []spot{{name: "z", answer: weight(0)}, {name: "a", answer: weight(3), state: share(0)}}
	near(t, count(t, left, "up; weighted_shuffle", 10), 10, map[string]float64{"z": 1})
}

// TestShuffledBackup: the second chain the service exists for: one of the three nearest, each as often.
func TestShuffledBackup(t *testing.T) {
	const n = 30000
	spots := []spot{{name: "us", country: "US"}, {name: "de", country: "DE"}, {name: "pl", country: "PL"}, {name: "fr", country: "FR"}, {name: "jp", country: "JP"}}
	counts := count(t, spots, "up; shed_load; geotarget_country; select_first_n N=3; shuffle; select_first_n N=1", n)
	near(t, counts, n, map[string]float64{"de": 1. / 3, "pl": 1. / 3, "fr": 1. / 3})
}
