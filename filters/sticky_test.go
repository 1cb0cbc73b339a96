package filters

import (
	"net/netip"
	"strings"
	"testing"
)

// each runs a chain for n networks and gives their answers.
func each(t *testing.T, spots []spot, chain string, n int) map[netip.Prefix]string {
	t.Helper()
	w := scene(t, spots, chain, "")
	x := &Exec{}
	out := map[netip.Prefix]string{}
	networks(n, func(p netip.Prefix) { out[p], _ = w.names(x, p) })
	return out
}

func tally(of map[netip.Prefix]string) map[string]int {
	n := map[string]int{}
	for _, v := range of {
		n[v]++
	}
	return n
}

// TestSticky: an order per client, all orders as often, and an answer that goes moves only its own clients (steering.md section 3, `sticky`).
func TestSticky(t *testing.T) {
	const n = 20000
	spots := []spot{{name: "a"}, {name: "b"}, {name: "c"}}
	orders := map[string]float64{}
	for _, o := range []string{"a b c", "a c b", "b a c", "b c a", "c a b", "c b a"} {
		orders[o] = 1.0 / 6
	}
	before := each(t, spots, "sticky sticky_by_network=true", n)
	near(t, tally(before), n, orders)
	spots[1].state = share(0)
	for p, order := range each(t, spots, "up; sticky sticky_by_network=true", n) {
		if want := strings.Join(strings.Fields(strings.ReplaceAll(before[p], "b", "")), " "); order != want {
			t.Fatalf("%v had %s and has %s without b", p, before[p], order)
		}
	}
}

// TestStickyTags: sticky filters are independent of each other (steering.md section 4): one behind another shares out what the first has left.
func TestStickyTags(t *testing.T) {
	const n = 20000
	spots := []spot{{name: "a", group: "x"}, {name: "b", group: "x"}, {name: "c", group: "x"}, {name: "d", group: "x"}}
	pairs := each(t, spots, "weighted_sticky sticky_by_network=true; select_first_n N=2", n)
	first := map[string]int{}
	for p, got := range each(t, spots, "weighted_sticky sticky_by_network=true; select_first_n N=2; sticky sticky_by_network=true; select_first_n", n) {
		if a, b, _ := strings.Cut(pairs[p], " "); got == a {
			first["first"]++
		} else if got == b {
			first["second"]++
		}
	}
	near(t, first, n, map[string]float64{"first": 0.5, "second": 0.5})
	// A group named like an answer: the order of groups is none of the orders of answers.
	spots = []spot{{name: "a", group: "a"}, {name: "b", group: "b"}}
	groups := each(t, spots, "sticky_region sticky_by_network=true", n)
	same := map[string]int{}
	for p, got := range each(t, spots, "sticky sticky_by_network=true", n) {
		if got == groups[p] {
			same["same"]++
		} else {
			same["other"]++
		}
	}
	near(t, same, n, map[string]float64{"same": 0.5, "other": 0.5})
}

// TestStickyNetwork: by network all of a /24 or /56 is one client, else the prefix as it was sent is.
func TestStickyNetwork(t *testing.T) {
	spots := []spot{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}, {name: "e"}}
	byNetwork, byPrefix := scene(t, spots, "sticky sticky_by_network=true", ""), scene(t, spots, "sticky", "")
	x := &Exec{}
	differ := false
	for i := range byte(200) {
		wide := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, i, 0}), 24)
		narrow := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, i, 7}), 32)
		a, bits := byNetwork.names(x, wide)
		b, _ := byNetwork.names(x, narrow)
		if a != b || bits != 24 {
			t.Errorf("by network: %v has %s with scope %d, %v has %s", wide, a, bits, narrow, b)
		}
		_, wideBits := byPrefix.names(x, wide)
		c, bits := byPrefix.names(x, narrow)
		if wideBits != 32 || bits != 32 { // also that of the /24: each longer prefix in it is a client of its own
			t.Errorf("by prefix: scopes %d and %d, want 32", wideBits, bits)
		}
		differ = differ || c != a
	}
	if !differ {
		t.Error("by prefix: all addresses have the order of their network")
	}
	six := netip.MustParsePrefix("2001:db8:1:200::/64")
	if _, bits := byNetwork.names(x, six); bits != 56 {
		t.Errorf("by network: scope %d for IPv6, want 56", bits)
	}
}

// TestWeightedSticky: in proportion to weight; a weight that grows moves clients to that answer only.
func TestWeightedSticky(t *testing.T) {
	const n = 20000
	spots := []spot{{name: "a", answer: weight(5)}, {name: "b"}, {name: "c", answer: weight(2)}, {name: "z", answer: weight(0)}}
	const chain = "weighted_sticky sticky_by_network=true; select_first_n"
	before := each(t, spots, chain, n)
	near(t, tally(before), n, map[string]float64{"a": 5. / 8, "b": 1. / 8, "c": 2. / 8})
	spots[2].answer = weight(4)
	after := each(t, spots, chain, n)
	near(t, tally(after), n, map[string]float64{"a": 5. / 10, "b": 1. / 10, "c": 4. / 10})
	for p, v := range after {
		if v != before[p] && v != "c" {
			t.Fatalf("%v moved from %s to %s when c grew", p, before[p], v)
		}
	}
}

// TestStickyRegion: groups in an order per client, the order within a group left alone; no group is one group.
func TestStickyRegion(t *testing.T) {
	const n = 20000
	spots := []spot{{name: "a", group: "1"}, {name: "x"}, {name: "b", group: "1"}, {name: "c", group: "2"}, {name: "y"}}
	near(t, tally(each(t, spots, "sticky_region sticky_by_network=true", n)), n, map[string]float64{
		"a b c x y": 1. / 6, "a b x y c": 1. / 6, "c a b x y": 1. / 6, "c x y a b": 1. / 6, "x y a b c": 1. / 6, "x y c a b": 1. / 6})
	near(t, tally(each(t, spots, "sticky_region sticky_by_network=true; select_first_region", n)), n, map[string]float64{
		"a b": 1. / 3, "c": 1. / 3, "x y": 1. / 3})
}
