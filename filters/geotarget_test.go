package filters

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/edgesteer/edgesteer/geo"
)

func at(lat, lon float64) func(*Answer) {
	return func(a *Answer) { a.Place.Coords, a.Place.Lat, a.Place.Lon = true, lat, lon }
}

func regions(rs ...geo.Region) func(*Answer) {
	return func(a *Answer) { a.Place.Regions = rs }
}

// TestGeotarget: steering.md section 3 (`geotarget_country`, `geotarget_regional`, `geotarget_latlong`).
func TestGeotarget(t *testing.T) {
	const unplaced = "223.0.0.0/24"
	table(t, []row{
		{name: "country: one that lists it first, then by distance", chain: "geotarget_country",
			spots: []spot{{name: "us", country: "US"}, {name: "pl", country: "PL"}, {name: "de", country: "DE"}}, want: "de pl us"},
		{name: "country: the nearest listed place counts", chain: "geotarget_country",
			spots: []spot{{name: "pl", country: "PL"}, {name: "us,at", country: "US,AT"}}, want: "us,at pl"},
		{name: "country: own coordinates count instead of the centre", chain: "geotarget_country",
			spots: []spot{{name: "pl", country: "PL"}, {name: "us", country: "US", answer: at(50, 9)}}, want: "us pl"},
		{name: "country: coordinates alone", chain: "geotarget_country", spots: []spot{{name: "us", country: "US"}, {name: "near", answer: at(50, 9)}}, want: "near us"},
		{name: "country: among those that list it, by distance", chain: "geotarget_country",
			spots: []spot{{name: "far", country: "DE", answer: at(0, 0)}, {name: "near", country: "DE", answer: at(51, 10)}}, want: "near far"},
		{name: "country: unplaced answers last, in input order", chain: "geotarget_country",
			spots: []spot{{name: "x"}, {name: "y"}, {name: "us", country: "US"}}, want: "us x y"},
		{name: "country: an unplaced client leaves the order alone", chain: "geotarget_country", client: unplaced,
			spots: []spot{{name: "us", country: "US"}, {name: "x"}, {name: "de", country: "DE"}}, want: "us x de"},
		{name: "country: ties stay in the order of an earlier filter", chain: "priority; geotarget_country",
			spots: []spot{{name: "a", country: "DE", answer: ranked(2, 0)}, {name: "b", country: "DE", answer: ranked(1, 0)}, {name: "us", country: "US"}}, want: "b a us"},
		{name: "regional: one that lists it first, then by distance", chain: "geotarget_regional",
			spots: []spot{{name: "asia", answer: regions(geo.AsiaPac)}, {name: "africa", answer: regions(geo.Africa)}, {name: "europe", answer: regions(geo.Europe)}}, want: "europe africa asia"},
		{name: "regional: a country in the US may lie in any of its regions", chain: "geotarget_regional", client: "192.0.0.0/24",
			spots: []spot{{name: "europe", answer: regions(geo.Europe)}, {name: "west", answer: regions(geo.USWest)}, {name: "east", answer: regions(geo.USEast)}}, want: "west east europe"},
		{name: "regional: unplaced answers last", chain: "geotarget_regional", spots: []spot{{name: "x", country: "DE"}, {name: "asia", answer: regions(geo.AsiaPac)}}, want: "asia x"},
		{name: "latlong: by distance", chain: "geotarget_latlong",
			spots: []spot{{name: "tokyo", answer: at(35.6, 139.7)}, {name: "fra", answer: at(50.1, 8.7)}, {name: "ams", answer: at(52.4, 4.9)}}, want: "fra ams tokyo"},
		{name: "latlong: countries do not count", chain: "geotarget_latlong", spots: []spot{{name: "de", country: "DE"}, {name: "tokyo", answer: at(35.6, 139.7)}}, want: "tokyo de"},
		{name: "the two orders of a cut are one", chain: "geotarget_country; select_first_n N=2",
			spots: []spot{{name: "us", country: "US"}, {name: "pl", country: "PL"}, {name: "x"}, {name: "de", country: "DE"}}, want: "de pl"},
		{name: "a cut through those that tie", chain: "geotarget_country; select_first_n N=2",
			spots: []spot{{name: "x"}, {name: "b", country: "DE"}, {name: "a", country: "DE"}, {name: "c", country: "DE"}}, want: "b a"},
		{name: "a cut with a shifted candidate", chain: "up; geotarget_country; select_first_n N=2",
			spots: []spot{{name: "us", country: "US"}, {name: "pl", country: "PL", state: shift(0, 2)}, {name: "de", country: "DE"}}, want: "de us"},
	})
}

// TestGeotargetManyPlaces: beyond what a leaf stores (geo.MaxOrder) the order is computed, and it is the same as the twin's; the whole of it has the scope of the location.
func TestGeotargetManyPlaces(t *testing.T) {
	for _, n := range []int{1, geo.MaxOrder, geo.MaxOrder + 1, 200} {
		w := crowd(t, n, "geotarget_latlong")
		want := w.twin.for_(germany, sender).possible()
		if got, _ := w.run(&Exec{}, germany, sender); got != want[0] {
			t.Errorf("%d places: got %s, want %s", n, got, want[0])
		}
	}
	w := crowd(t, 200, "up; geotarget_latlong; select_first_n N=2")
	order := w.twin.for_(germany, sender)
	groups := order.ask(geo.SortDistance).Groups
	for _, g := range groups[:len(groups)-2] {
		for _, i := range g {
			w.view.States[i] = idle
			share(0)(&w.view.States[i])
		}
	}
	sum(w.view)
	got, bits := w.run(&Exec{}, germany, sender)
	if want := order.possible()[0]; got != want {
		t.Errorf("the two farthest: got %s, want %s", got, want)
	}
	if bits != 2 { // as wide as Germany is: its order is another than Italy's
		t.Errorf("scope %d, want 2", bits)
	}
}

// TestGeotargetSender: a private or unlocated prefix is placed by the sender, and its scope stays inside the unlocated space.
func TestGeotargetSender(t *testing.T) {
	w := scene(t, []spot{{name: "us", country: "US"}, {name: "de", country: "DE"}}, "geotarget_country; select_first_n", "")
	x := &Exec{}
	for sender, want := range map[string]string{"10.0.0.1": "[1]", "192.0.0.1": "[0]"} {
		got, bits := w.run(x, netip.MustParsePrefix("223.1.2.0/24"), netip.MustParseAddr(sender))
		if got != want || bits == 0 || bits > 24 {
			t.Errorf("sender %s: got %s with scope %d, want %s", sender, got, bits, want)
		}
	}
}

// TestPlaceOrder: place and first give what a stable sort by rank gives, whatever ties and is missing.
func TestPlaceOrder(t *testing.T) {
	r := newRand(5)
	for range 2000 {
		n := 1 + r.IntN(12)
		order := make([]uint16, n)
		tied := make([]bool, n)
		for i, v := range r.Perm(n) {
			order[i] = uint16(v)
			tied[i] = i+1 < n && r.IntN(3) == 0
		}
		rank := make([]int, n)
		for i := range order {
			if i > 0 {
				rank[order[i]] = rank[order[i-1]]
				if !tied[i-1] {
					rank[order[i]]++
				}
			}
		}
		x := &Exec{}
		for _, v := range r.Perm(n)[:1+r.IntN(n)] {
			x.Add(v)
			if r.IntN(3) == 0 && len(x.List) > 1 {
				x.List[len(x.List)-1].block = x.List[len(x.List)-2].block
			}
		}
		want := slices.Clone(x.List)
		slices.SortStableFunc(want, func(a, b Candidate) int { return rank[a.Answer] - rank[b.Answer] })
		for k := 1; k <= maxFirst && k < len(x.List); k++ {
			y := &Exec{List: slices.Clone(x.List)}
			if !y.first(&geo.Outcome{Order: order, Tied: tied}, k) {
				continue
			}
			if names(y.List[:k]) != names(want[:k]) || y.List[k].block == y.List[k-1].block {
				t.Fatalf("first %d of %v by %v %v: got %v, want %v", k, x.List, order, tied, y.List, want[:k])
			}
		}
		before := slices.Clone(x.List)
		x.fill(n)
		x.place(order, tied)
		if names(x.next) != names(want) {
			t.Fatalf("%v by %v %v: got %v, want %v", before, order, tied, x.next, want)
		}
		for i := 1; i < len(x.next); i++ {
			a, b := want[i-1], want[i]
			if same := a.block == b.block && rank[a.Answer] == rank[b.Answer]; same != (x.next[i-1].block == x.next[i].block) {
				t.Fatalf("%v by %v %v: blocks of %v, place %d", before, order, tied, x.next, i)
			}
		}
		if slices.Max(x.slots) != 0 {
			t.Fatalf("slots are left: %v", x.slots)
		}
	}
}

func names(list []Candidate) string {
	var s []string
	for _, c := range list {
		s = append(s, fmt.Sprint(c.Answer))
	}
	return strings.Join(s, " ")
}
