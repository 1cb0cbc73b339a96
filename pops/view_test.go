package pops

import (
	"math"
	"net/netip"
	"testing"
)

func TestLadder(t *testing.T) {
	f := testFleet()
	in := Input{
		Verdicts: []Verdict{{Down: true}},                                                                       // iad/envoy-wss
		Intents:  []Intent{said("d1", Drain, Person, "fra", 40), said("d2", Drain, Person, "sin/envoy-wss", 0)}, // and iad/envoy-edge is whole
	}
	v := NewView(f, in)
	low, high := networkWith(f, "fra", 0, 40), networkWith(f, "fra", 40, 100)
	tests := []struct {
		target  string
		network netip.Addr
		in      [5]bool // by rung
		drawn   bool    // on the first rung
	}{
		{"iad/envoy-edge", low, [5]bool{1: true, 2: true, 3: true, 4: true}, false},
		{"fra/envoy-wss", low, [5]bool{1: true, 2: true, 3: true, 4: true}, true},
		{"fra/envoy-wss", high, [5]bool{2: true, 3: true, 4: true}, true},
		{"fra", high, [5]bool{2: true, 3: true, 4: true}, true},
		{"iad/envoy-wss", low, [5]bool{3: true, 4: true}, false},
		{"sin/envoy-wss", low, [5]bool{4: true}, false},
		{"sin", low, [5]bool{1: true, 2: true, 3: true, 4: true}, false},
	}
	for _, test := range tests {
		for rung := 1; rung <= 4; rung++ {
			in, drawn := v.Available(unit(f, test.target), test.network, rung)
			if in != test.in[rung] || drawn != (test.drawn && rung == 1) {
				t.Errorf("%s for %s on rung %d: in %v, drawn %v", test.target, test.network, rung, in, drawn)
			}
		}
	}
	if in, drawn := v.Available(NoUnit, low, 1); !in || drawn {
		t.Errorf("no unit: in %v, drawn %v", in, drawn)
	}
}

// networkWith finds a network whose bucket at a PoP is in [from, below).
func networkWith(f *Fleet, pop string, from, below float64) netip.Addr {
	for _, n := range networks(10_000) {
		if b := Bucket(TagUp, n, pop); b >= from && b < below {
			return n
		}
	}
	panic("no such network")
}

func TestShift(t *testing.T) {
	shift := func(id, target, to string, share Share) Intent {
		i := said(id, Shift, Person, target, share)
		i.To, _ = ParseTarget(to)
		return i
	}
	f := testFleet()
	drained, whole := networkWith(f, "fra", 0, 30), networkWith(f, "fra", 70, 100)
	between := networkWith(f, "fra", 30, 70)
	tests := []struct {
		name    string
		intents []Intent
		down    string
		at      string
		network netip.Addr
		rung    int
		to      string // "" leaves
		drawn   bool
	}{
		{"all to iad", []Intent{shift("s", "fra", "iad", 0)}, "", "fra/envoy-wss", whole, 1, "iad/envoy-wss", false},
		{"the service's own endpoint", []Intent{shift("s", "fra", "iad", 0)}, "", "fra/envoy-edge", whole, 1, "iad/envoy-edge", false},
		{"one endpoint to a PoP", []Intent{shift("s", "fra/envoy-wss", "iad", 0)}, "", "fra/envoy-wss", whole, 1, "iad/envoy-wss", false},
		{"one endpoint, named", []Intent{shift("s", "fra/envoy-wss", "iad/envoy-wss", 0)}, "", "fra/envoy-wss", whole, 1, "iad/envoy-wss", false},
		{"a PoP that does not serve it", []Intent{shift("s", "fra", "sin", 0)}, "", "fra/envoy-edge", whole, 1, "", false},
		{"what is tied to the PoP just leaves", []Intent{shift("s", "fra", "iad", 0)}, "", "fra", whole, 1, "", false},
		{"a part of it: who leaves", []Intent{shift("s", "fra", "iad", 70)}, "", "fra/envoy-wss", whole, 1, "iad/envoy-wss", true},
		{"a drain below the shift: who leaves by the shift", []Intent{shift("s", "fra", "iad", 70), said("d", Drain, Person, "fra", 30)}, "", "fra/envoy-wss", whole, 1, "iad/envoy-wss", true},
		{"a drain below the shift: who leaves by the drain", []Intent{shift("s", "fra", "iad", 70), said("d", Drain, Person, "fra", 30)}, "", "fra/envoy-wss", between, 1, "", true},
		{"a drain above the shift", []Intent{shift("s", "fra", "iad", 30), said("d", Drain, Person, "fra", 70)}, "", "fra/envoy-wss", between, 1, "iad/envoy-wss", true},
		{"fra dies: who had not left by the shift just leaves", []Intent{shift("s", "fra", "iad", 30)}, "fra/envoy-wss", "fra/envoy-wss", drained, 1, "", true},
		{"iad is down: a plain drain", []Intent{shift("s", "fra", "iad", 0)}, "iad/envoy-wss", "fra/envoy-wss", whole, 1, "", false},
		{"iad is down, but health is ignored", []Intent{shift("s", "fra", "iad", 0)}, "iad/envoy-wss", "fra/envoy-wss", whole, 3, "iad/envoy-wss", false},
		{"iad is drained, too: a plain drain", []Intent{shift("s", "fra", "iad", 0), said("d", Drain, Person, "iad", 0)}, "", "fra/envoy-wss", whole, 1, "", false},
		{"iad shifts, too (after a merge): one step only", []Intent{shift("s", "fra", "iad", 0), shift("t", "iad", "sin", 0)}, "", "fra/envoy-wss", whole, 1, "", false},
		{"two shifts: the lower share counts", []Intent{shift("s", "fra", "iad", 30), shift("t", "fra", "sin", 10)}, "", "fra/envoy-wss", whole, 1, "sin/envoy-wss", true},
		{"no shift", nil, "", "fra/envoy-wss", whole, 1, "", false},
		{"a shift of nothing", []Intent{shift("s", "fra", "iad", 100)}, "", "fra/envoy-wss", whole, 1, "", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := Input{Intents: test.intents, Verdicts: make([]Verdict, len(f.Endpoints))}
			if test.down != "" {
				in.Verdicts[unit(f, test.down)].Down = true
			}
			v := NewView(f, in)
			to, drawn := v.Shift(unit(f, test.at), test.network, test.rung)
			if got := f.UnitTarget(to).String(); got != test.to || drawn != test.drawn {
				t.Errorf("goes to %q, drawn %v; want %q, %v", got, drawn, test.to, test.drawn)
			}
		})
	}
	v := NewView(f, Input{})
	if to, drawn := v.Shift(NoUnit, whole, 1); to != NoUnit || drawn {
		t.Errorf("no unit goes to %v", to)
	}
	// Where iad is partly drained its own bucket decides.
	v = NewView(f, Input{Intents: []Intent{shift("s", "fra", "iad", 0), said("d", Drain, Person, "iad", 50)}})
	for _, n := range networks(100) {
		to, drawn := v.Shift(1, n, 1)
		if want := Bucket(TagUp, n, "iad") < 50; (to == 0) != want || !drawn {
			t.Errorf("%s: goes to %v, drawn %v", n, to, drawn)
		}
	}
}

func TestNumber(t *testing.T) {
	v := NewView(&Fleet{Feeds: []string{"a", "b", "c"}}, Input{Feeds: []float64{7, math.NaN()}})
	tests := []struct {
		name  string
		value Value
		want  float64
		ok    bool
	}{
		{"missing", Value{}, 0, false},
		{"constant", Value{Set: true, Const: 3}, 3, true},
		{"feed", Value{Set: true, Const: 3, Feed: 1}, 7, true},
		{"stale feed", Value{Set: true, Const: 3, Feed: 2}, 3, true},
		{"feed never seen", Value{Set: true, Const: 3, Feed: 3}, 3, true},
		{"stale feed without a configured value", Value{Set: true, Const: math.NaN(), Feed: 2}, math.NaN(), false},
		{"feed without a configured value", Value{Set: true, Const: math.NaN(), Feed: 1}, 7, true},
	}
	for _, test := range tests {
		got, ok := v.Number(test.value)
		if ok != test.ok || ok && got != test.want {
			t.Errorf("%s: %v, %v", test.name, got, ok)
		}
	}
}
