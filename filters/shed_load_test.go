package filters

import (
	"net/netip"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/pops"
)

// TestShedLoad: steering.md section 3 (`shed_load`).
func TestShedLoad(t *testing.T) {
	own := func(load, low, high pops.Value) func(*Answer) {
		return func(a *Answer) { a.Load[pops.LoadAvg] = Load{load, low, high} }
	}
	stale := func(s *pops.State) { s.Metric, s.Shed = pops.Connections, 1 }
	table(t, []row{
		{name: "at the low mark: kept", chain: "shed_load", spots: []spot{{name: "a", answer: own(num(1), num(1), num(2))}, {name: "b"}}, want: "a b"},
		{name: "at the high mark: removed", chain: "shed_load", spots: []spot{{name: "a", answer: own(num(2), num(1), num(2))}, {name: "b"}}, want: "b"},
		{name: "no load", chain: "shed_load", spots: []spot{{name: "a", answer: own(none, num(1), num(2))}, {name: "b"}}, want: "a b"},
		{name: "no low mark", chain: "shed_load", spots: []spot{{name: "a", answer: own(num(9), none, num(2))}, {name: "b"}}, want: "a b"},
		{name: "no high mark", chain: "shed_load", spots: []spot{{name: "a", answer: own(num(9), num(1), none)}, {name: "b"}}, want: "a b"},
		{name: "another metric", chain: "shed_load metric=requests", spots: []spot{{name: "a", answer: own(num(9), num(1), num(2))}, {name: "b"}}, want: "a b"},
		{name: "a feed without data gives the last configured value", chain: "shed_load", spots: []spot{{name: "a", answer: own(fed(9), num(1), num(2))}, {name: "b"}}, want: "b"},
		{name: "of the endpoint", chain: "shed_load metric=connections", spots: []spot{{name: "a", state: shed(1)}, {name: "b"}}, want: "b"},
		{name: "of the endpoint, in another metric", chain: "shed_load", spots: []spot{{name: "a", state: shed(1)}, {name: "b"}}, want: "a b"},
		{name: "of the endpoint, stale", chain: "shed_load metric=connections", spots: []spot{{name: "a", state: stale}, {name: "b"}}, want: "a b"},
		{name: "all would go: none does", chain: "shed_load metric=connections", spots: []spot{{name: "a", state: shed(1)}, {name: "b", state: shed(1)}}, want: "a b"},
		{name: "a shifted candidate is judged by where it goes", chain: "up; shed_load metric=connections",
			spots: []spot{{name: "a", state: both(shed(1), shift(0, 1))}, {name: "b"}, {name: "c", state: shed(1)}}, want: "b"},
		{name: "and goes with it", chain: "up; shed_load metric=connections", spots: []spot{{name: "a", state: shift(0, 1)}, {name: "b", state: shed(1)}, {name: "c"}}, want: "c"},
	})
}

// TestShedIgnored: the server counts it.
func TestShedIgnored(t *testing.T) {
	x := &Exec{}
	scene(t, []spot{{name: "a", state: shed(1)}}, "shed_load metric=connections", "").names(x, germany)
	if !x.Ignored {
		t.Error("all would have gone, and Ignored is not set")
	}
	scene(t, []spot{{name: "a", state: shed(1)}, {name: "b"}}, "shed_load metric=connections", "").names(x, germany)
	if x.Ignored {
		t.Error("Ignored is set though an answer was left")
	}
}

// TestShedIsStable: a rising load only adds to those removed, in proportion, and the draw is not that of `up`.
func TestShedIsStable(t *testing.T) {
	x := &Exec{}
	var removed [3][]netip.Prefix
	for i, p := range []float64{0.25, 0.5, 0.75} {
		w := scene(t, []spot{{name: "a", state: shed(p)}, {name: "b"}}, "shed_load metric=connections", "")
		networks(10000, func(client netip.Prefix) {
			if got, _ := w.names(x, client); got == "b" {
				removed[i] = append(removed[i], client)
			}
		})
		if n := float64(len(removed[i])); n < 10000*p-150 || n > 10000*p+150 {
			t.Errorf("p %v: %v of 10000 removed", p, n)
		}
	}
	for i := range 2 {
		more := map[netip.Prefix]bool{}
		for _, c := range removed[i+1] {
			more[c] = true
		}
		for _, c := range removed[i] {
			if !more[c] {
				t.Errorf("%v came back under a higher load", c)
			}
		}
	}
	both := 0
	for _, c := range removed[1] {
		if pops.Bucket("up", c.Addr(), "a") < 50 {
			both++
		}
	}
	if both < 2300 || both > 2700 {
		t.Errorf("%d of 5000 shed networks are in the lower half of the draw of `up`, want about half", both)
	}
}

// An answer's own load that falls gives its networks back slowly.
func TestShedOwnFalls(t *testing.T) {
	load := func(a *Answer) {
		a.Load[pops.LoadAvg] = Load{Load: pops.Value{Set: true, Feed: 1}, Low: num(1), High: num(2)}
	}
	w := scene(t, []spot{{name: "a", answer: load}, {name: "b"}}, "shed_load", "")
	fleet := w.view.Fleet
	at := func(now time.Time, previous *pops.View, load float64) *pops.View {
		return pops.NewView(fleet, pops.Input{Now: now, Previous: previous, Feeds: []float64{load}, Own: []pops.OwnLoad{pops.OwnLoad(w.pool.Answers[0].Load[pops.LoadAvg])}})
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	full := at(now, nil, 2)
	w.setView(at(now.Add(time.Minute), full, 0))
	x, kept := &Exec{}, 0
	networks(1000, func(ecs netip.Prefix) {
		if got, _ := w.names(x, ecs); got == "a b" {
			kept++
		}
	})
	if kept < 60 || kept > 140 {
		t.Errorf("after a minute %d of 1000 networks are back, want 100", kept)
	}
}

// TestShedFalls: a load below its marks that was above them a moment ago still sheds, and explain says why.
func TestShedFalls(t *testing.T) {
	w := scene(t, []spot{{name: "a"}, {name: "b"}}, "shed_load metric=connections", "")
	f := w.view.Fleet
	f.Services[0].Metric = pops.Connections
	for i := range f.Endpoints {
		f.Endpoints[i].Low, f.Endpoints[i].High = num(80), num(100)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, load := range []float64{110, 60} {
		w.view = pops.NewView(f, pops.Input{Now: now, Previous: w.view, Loads: []pops.Load{{Value: load, At: now, Fresh: now.Add(time.Minute)}}})
		now = now.Add(30 * time.Second)
	}
	x := &Exec{Trace: &Trace{}}
	w.names(x, germany)
	if notes := x.Trace.Steps[0].Notes; len(notes) == 0 || notes[0].Text != "load 60 (it was higher, and gives back slowly): p 0.95, draw 0.618: removed" {
		t.Errorf("%+v", notes)
	}
}
