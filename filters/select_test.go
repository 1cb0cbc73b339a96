package filters

import "testing"

// TestSelect: steering.md section 3 (`select_first_n`, `select_first_region`, `priority`, `cost`).
func TestSelect(t *testing.T) {
	four := []spot{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}
	groups := []spot{{name: "a", group: "eu"}, {name: "b"}, {name: "c", group: "eu"}, {name: "d"}, {name: "e", group: "us"}}
	tiers := []spot{{name: "a", answer: ranked(2, 1)}, {name: "b"}, {name: "c", answer: ranked(1, 2)}, {name: "d", answer: ranked(1, 1)}}
	table(t, []row{
		{name: "N is 1", chain: "select_first_n", spots: four, want: "a"},
		{name: "N as text", chain: "select_first_n N=3", spots: four, want: "a b c"},
		{name: "N above the number", chain: "select_first_n N=9", spots: four, want: "a b c d"},
		{name: "the group of the first", chain: "select_first_region", spots: groups, want: "a c"},
		{name: "no group is one group", chain: "select_first_region", spots: groups[1:], want: "b d"},
		{name: "after a sort", chain: "cost; select_first_region", spots: []spot{groups[0], {name: "f", group: "us", answer: ranked(1, 1)}, groups[4]}, want: "f e"},
		{name: "priority: lowest first, missing last, stable", chain: "priority", spots: tiers, want: "c d a b"},
		{name: "priority: the best tier", chain: "priority eliminate=true", spots: tiers, want: "c d"},
		{name: "priority: eliminate as 1", chain: "priority eliminate=1", spots: tiers, want: "c d"},
		{name: "priority: all missing", chain: "priority eliminate=true", spots: four, want: "a b c d"},
		{name: "priority: the next tier when the first is drained", chain: "up; priority eliminate=true",
			spots: []spot{{name: "a", state: share(0), answer: ranked(1, 1)}, {name: "b", answer: ranked(2, 1)}, {name: "c", answer: ranked(3, 1)}}, want: "b"},
		{name: "cost", chain: "cost", spots: tiers, want: "a d c b"},
		{name: "cost: the best tier", chain: "cost eliminate=true", spots: tiers, want: "a d"},
		{name: "cost within priority", chain: "cost; priority", spots: tiers, want: "d c a b"},
		{name: "an empty chain returns every answer", chain: "", spots: four, want: "a b c d"},
	})
}

// TestSingle: of a CNAME record the first answer is given and no other. So what is behind it narrows no scope, is not avoided, and cannot be given by chance.
func TestSingle(t *testing.T) {
	spots := []spot{{name: "no", country: "NO"}, {name: "gr", country: "GR"}, {name: "jp", country: "JP"}}
	for _, tt := range []struct{ chain, other, cut, possible string }{
		{"geotarget_country", "", "geotarget_country; select_first_n", "no"},
		{"up; sticky sticky_by_network=1", "", "up; sticky sticky_by_network=1; select_first_n", "jp"},
		{"up; shuffle", "", "up; shuffle; select_first_n", "no gr jp"},
		{"geotarget_country; select_first_n N=2; shuffle", "", "geotarget_country; select_first_n N=2; shuffle; select_first_n", "no gr"},
		{"avoid_record record=other; geotarget_country", "geotarget_country", "avoid_record record=other; geotarget_country; select_first_n", "gr"},
	} {
		single, want := scene(t, spots, tt.chain, tt.other), scene(t, spots, tt.cut, tt.other)
		single.chain.Single = true
		for _, w := range []*world{single, want} {
			if a, ok := w.chain.Steps[0].Filter.(*avoidRecord); ok {
				a.chain.Single = true
			}
		}
		x, y := &Exec{Rand: newRand(1)}, &Exec{Rand: newRand(1)}
		got, bits := single.names(x, germany)
		if cut, scope := want.names(y, germany); got != cut || bits != scope {
			t.Errorf("%s: %s with scope %d, cut to one %s with %d", tt.chain, got, bits, cut, scope)
		}
		if possible, exact := single.possible(germany); possible != tt.possible || !exact {
			t.Errorf("%s: possible are %s (exact %v), want %s", tt.chain, possible, exact, tt.possible)
		}
	}
}
