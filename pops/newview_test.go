package pops

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// said makes an intent from a few words.
func said(id string, kind Kind, class Class, target string, share Share) Intent {
	t, err := ParseTarget(target)
	if err != nil {
		panic(err)
	}
	return Intent{ID: id, Kind: kind, Class: class, Target: t, Share: share, Author: "ann", Note: "why"}
}

func unit(f *Fleet, target string) Unit {
	t, err := f.ParseTarget(target)
	if err != nil {
		panic(err)
	}
	for u := range Unit(f.Units()) {
		if f.UnitTarget(u) == t {
			return u
		}
	}
	panic(target)
}

// TestWhoWins is steering.md section 4, line by line, seen at fra/envoy-wss.
func TestWhoWins(t *testing.T) {
	down := func(target string) Input {
		in := Input{Verdicts: make([]Verdict, 5)}
		in.Verdicts[unit(testFleet(), target)] = Verdict{Down: true, Since: noon}
		return in
	}
	tests := []struct {
		name    string
		in      Input
		intents []Intent
		share   Share
		said    Share
		reasons []string
	}{
		{name: "nothing said", share: 100, said: 100},
		{
			name:    "a drain of the PoP",
			intents: []Intent{said("d1", Drain, Person, "fra", 63)},
			share:   63, said: 63,
			reasons: []string{"drain d1 by ann (person): 63 % stay, decides: why"},
		},
		{
			name:    "a drain of the endpoint",
			intents: []Intent{said("d1", Drain, Person, "fra/envoy-wss", 0)},
			reasons: []string{"drain d1 by ann (person): 0 % stay, decides: why"},
		},
		{
			name:    "a drain of the service everywhere",
			intents: []Intent{said("d1", Drain, Person, "*/envoy-wss", 99.5)},
			share:   99.5, said: 99.5,
			reasons: []string{"drain d1 by ann (person): 99.5 % stay, decides: why"},
		},
		{
			name:    "drains of other places",
			intents: []Intent{said("d1", Drain, Person, "iad", 0), said("d2", Drain, Person, "fra/envoy-edge", 0), said("d3", Drain, Person, "*/envoy-edge", 0)},
			share:   100, said: 100,
		},
		{
			name:    "the lowest of two drains counts",
			intents: []Intent{said("d1", Drain, Person, "fra", 80), said("d2", Drain, Person, "*/envoy-wss", 60)},
			share:   60, said: 60,
			reasons: []string{"drain d2 by ann (person): 60 % stay, decides: why", "drain d1 by ann (person): 80 % stay: why"},
		},
		{
			name:    "automation below a person",
			intents: []Intent{said("d1", Drain, Person, "fra", 80), said("a1", Drain, Automation, "fra", 10)},
			share:   10, said: 10,
			reasons: []string{"drain a1 by ann (automation): 10 % stay, decides: why", "drain d1 by ann (person): 80 % stay: why"},
		},
		{
			name:    "a person below automation",
			intents: []Intent{said("d1", Drain, Person, "fra", 10), said("a1", Drain, Automation, "fra", 80)},
			share:   10, said: 10,
			reasons: []string{"drain d1 by ann (person): 10 % stay, decides: why", "drain a1 by ann (automation): 80 % stay: why"},
		},
		{
			name:  "down",
			in:    down("fra/envoy-wss"),
			share: 0, said: 100,
			reasons: []string{"health: 0 % stay, decides: down"},
		},
		{
			name:    "a 10 % drain of what then dies does not keep 90 % on it",
			in:      down("fra/envoy-wss"),
			intents: []Intent{said("d1", Drain, Person, "fra", 90)},
			share:   0, said: 90,
			reasons: []string{"health: 0 % stay, decides: down", "drain d1 by ann (person): 90 % stay: why"},
		},
		{
			name:    "a recovered check lifts nothing",
			intents: []Intent{said("d1", Drain, Person, "fra", 0)},
			in:      Input{Verdicts: make([]Verdict, 5)},
			reasons: []string{"drain d1 by ann (person): 0 % stay, decides: why"},
		},
		{
			name:    "drained and down: the statement is named first",
			in:      down("fra/envoy-wss"),
			intents: []Intent{said("d1", Drain, Person, "fra", 0)},
			reasons: []string{"drain d1 by ann (person): 0 % stay, decides: why", "health: 0 % stay: down"},
		},
		{
			name:    "a pin takes health out",
			in:      down("fra/envoy-wss"),
			intents: []Intent{said("p1", Pin, Person, "fra", 100)},
			share:   100, said: 100,
			reasons: []string{"pin p1 by ann (person): why", "health: 0 % stay, not applied: pinned by p1: down"},
		},
		{
			name:    "a pin takes automation out",
			intents: []Intent{said("p1", Pin, Person, "fra/envoy-wss", 100), said("a1", Drain, Automation, "fra", 0)},
			share:   100, said: 100,
			reasons: []string{"pin p1 by ann (person): why", "drain a1 by ann (automation): 0 % stay, not applied: pinned by p1: why"},
		},
		{
			name:    "a pin takes a shift by automation out",
			intents: []Intent{said("p1", Pin, Person, "fra/envoy-wss", 100), {ID: "s1", Kind: Shift, Class: Automation, Target: Target{PoP: "fra"}, To: Target{PoP: "iad"}, Author: "bot"}},
			share:   100, said: 100,
			reasons: []string{"pin p1 by ann (person): why", "shift s1 by bot (automation): 0 % stay, not applied: pinned by p1"},
		},
		{
			name:    "a pin never takes a person's drain out",
			in:      down("fra/envoy-wss"),
			intents: []Intent{said("p1", Pin, Person, "fra", 100), said("d1", Drain, Person, "fra", 40)},
			share:   40, said: 40,
			reasons: []string{
				"drain d1 by ann (person): 40 % stay, decides: why", "pin p1 by ann (person): why",
				"health: 0 % stay, not applied: pinned by p1: down",
			},
		},
		{
			name:    "a pin of another endpoint",
			in:      down("fra/envoy-wss"),
			intents: []Intent{said("p1", Pin, Person, "fra/envoy-edge", 100)},
			share:   0, said: 100,
			reasons: []string{"health: 0 % stay, decides: down"},
		},
		{
			name:    "automation cannot pin",
			in:      down("fra/envoy-wss"),
			intents: []Intent{said("p1", Pin, Automation, "fra", 100)},
			share:   0, said: 100,
			reasons: []string{"health: 0 % stay, decides: down", "pin p1 by ann (automation), not applied: only a person can pin: why"},
		},
		{
			name:    "a drill",
			intents: []Intent{said("r1", Drain, Drill, "fra", 90)},
			share:   90, said: 90,
			reasons: []string{"drain r1 by ann (drill): 90 % stay, decides: why"},
		},
		{
			name:    "a drill ends when a statement touches its target anywhere",
			intents: []Intent{said("r1", Drain, Drill, "fra", 50), said("d1", Drain, Person, "*/envoy-edge", 90)},
			share:   100, said: 100,
			reasons: []string{"drain r1 by ann (drill): 50 % stay, not applied: the drill ends, drain d1 touches its target: why"},
		},
		{
			name:    "a drill ends when a pin touches its target",
			intents: []Intent{said("r1", Drain, Drill, "fra", 50), said("p1", Pin, Person, "fra/envoy-edge", 100)},
			share:   100, said: 100,
			reasons: []string{"drain r1 by ann (drill): 50 % stay, not applied: the drill ends, pin p1 touches its target: why"},
		},
		{
			name:    "a drill ends when something of its target is down",
			in:      down("fra/envoy-edge"),
			intents: []Intent{said("r1", Drain, Drill, "fra", 50)},
			share:   100, said: 100,
			reasons: []string{"drain r1 by ann (drill): 50 % stay, not applied: the drill ends, fra/envoy-edge is down: why"},
		},
		{
			name:    "a drill goes on when something else is down",
			in:      down("iad/envoy-wss"),
			intents: []Intent{said("r1", Drain, Drill, "fra", 50)},
			share:   50, said: 50,
			reasons: []string{"drain r1 by ann (drill): 50 % stay, decides: why"},
		},
		{
			name:    "shares out of range",
			intents: []Intent{said("d1", Drain, Person, "fra", -3), said("d2", Drain, Person, "fra", 300)},
			reasons: []string{"drain d1 by ann (person): 0 % stay, decides: why", "drain d2 by ann (person): 100 % stay: why"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := testFleet()
			u := unit(f, "fra/envoy-wss")
			in := test.in
			in.Intents = test.intents
			for range 2 { // the order of the intents does not matter
				v := NewView(f, in)
				if s := v.States[u]; s.Share != test.share || s.Said != test.said {
					t.Errorf("share %v, said %v; want %v, %v", s.Share, s.Said, test.share, test.said)
				}
				var reasons []string
				for _, r := range v.Reasons(u) {
					reasons = append(reasons, r.String())
				}
				if diff := cmp.Diff(test.reasons, reasons); diff != "" {
					t.Errorf("reasons (-want +got)\n%s", diff)
				}
				slices.Reverse(in.Intents)
			}
		})
	}
}

func TestEndedAndLost(t *testing.T) {
	f := testFleet()
	v := NewView(f, Input{Intents: []Intent{
		said("r1", Drain, Drill, "fra", 50), said("r2", Drain, Drill, "fra/envoy-wss", 50), said("r3", Drain, Drill, "iad", 50),
		said("d1", Drain, Person, "tyo", 0), said("d2", Drain, Person, "sin/envoy-edge", 0),
	}})
	if diff := cmp.Diff([]string{"r1", "r2"}, v.Ended); diff != "" {
		t.Errorf("ended drills (-want +got)\n%s", diff)
	}
	var lost []string
	for _, i := range v.Lost {
		lost = append(lost, i.ID)
	}
	if diff := cmp.Diff([]string{"d1", "d2"}, lost); diff != "" {
		t.Errorf("lost statements (-want +got)\n%s", diff)
	}
}

// TestPanic gives verdicts in an order of time and looks which of them count.
func TestPanic(t *testing.T) {
	fleet := func(capacity ...float64) *Fleet {
		f := &Fleet{Services: []Service{{Name: "s"}}}
		for i, c := range capacity {
			f.PoPs = append(f.PoPs, PoP{Name: fmt.Sprintf("p%d", i)})
			f.Endpoints = append(f.Endpoints, Endpoint{PoP: i, Capacity: c})
		}
		return f
	}
	tests := []struct {
		name    string
		fleet   *Fleet
		down    []int // in order of time
		intents []Intent
		panic   float64
		removed []int
		alarm   bool
	}{
		{name: "half", fleet: fleet(1, 1, 1, 1), down: []int{3, 0}, removed: []int{0, 3}},
		{name: "all: half is kept", fleet: fleet(1, 1, 1, 1), down: []int{3, 0, 2, 1}, removed: []int{0, 3}, alarm: true},
		{name: "by capacity, not by number", fleet: fleet(60, 10, 10, 10, 10), down: []int{0, 1}, removed: []int{0}, alarm: true},
		{name: "small ones", fleet: fleet(60, 10, 10, 10, 10), down: []int{1, 2, 3, 4, 0}, removed: []int{1, 2, 3, 4}, alarm: true},
		{name: "a smaller one still fits", fleet: fleet(30, 40, 10, 20), down: []int{0, 1, 2}, removed: []int{0, 2}, alarm: true},
		{name: "unknown capacity counts as the mean", fleet: fleet(30, 0, 10, 0), down: []int{2, 3, 1}, removed: []int{2, 3}, alarm: true},
		{name: "all capacities unknown", fleet: fleet(0, 0, 0), down: []int{0, 1, 2}, removed: []int{0}, alarm: true},
		{name: "another bound", fleet: fleet(1, 1, 1, 1), down: []int{0, 1, 2}, panic: 20, removed: []int{0}, alarm: true},
		{name: "no bound", fleet: fleet(1, 1, 1, 1), down: []int{0, 1, 2, 3}, panic: 100, removed: []int{0, 1, 2, 3}},
		{name: "the only one", fleet: fleet(7), down: []int{0}, removed: []int{0}},
		{name: "a pinned one is not removed by health", fleet: fleet(1, 1, 1, 1), down: []int{0, 1, 2}, intents: []Intent{said("p", Pin, Person, "p0", 100)}, removed: []int{1, 2}},
		{name: "a drained one was not removed by health", fleet: fleet(1, 1, 1, 1), down: []int{0, 1, 2}, intents: []Intent{said("d", Drain, Person, "p0", 0)}, removed: []int{0, 1, 2}},
		{name: "one that automation drained was", fleet: fleet(1, 1, 1, 1), down: []int{0, 1, 2}, intents: []Intent{said("a", Drain, Automation, "p2", 0)}, removed: []int{0, 2}, alarm: true},
		{name: "unless a person has drained it, too", fleet: fleet(1, 1, 1, 1), down: []int{0, 1, 2}, intents: []Intent{said("a", Drain, Automation, "p2", 0), said("d", Drain, Person, "p2", 0)}, removed: []int{0, 1, 2}},
		{name: "a partly drained one is", fleet: fleet(1, 1, 1, 1), down: []int{0, 1, 2}, intents: []Intent{said("d", Drain, Person, "p0", 1)}, removed: []int{0, 1}, alarm: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := Input{Verdicts: make([]Verdict, len(test.fleet.Endpoints)), Intents: test.intents, Panic: test.panic}
			for i, e := range test.down {
				in.Verdicts[e] = Verdict{Down: true, Since: noon.Add(time.Duration(i) * time.Second), Dead: 1}
			}
			v := NewView(test.fleet, in)
			var removed []int
			for e := range test.fleet.Endpoints {
				s := v.States[e]
				if s.Share == 0 {
					removed = append(removed, e)
				} else if s.Dead != 0 {
					t.Errorf("p%d is in with dead addresses", e)
				}
			}
			if diff := cmp.Diff(test.removed, removed); diff != "" {
				t.Errorf("removed (-want +got)\n%s", diff)
			}
			if got := len(v.Panic) > 0; got != test.alarm {
				t.Errorf("panic %v, want %v", got, test.alarm)
			}
		})
	}
}

func TestPanicReason(t *testing.T) {
	f := testFleet()
	in := Input{Verdicts: make([]Verdict, 3)}
	for e := range in.Verdicts {
		in.Verdicts[e] = Verdict{Down: true, Since: noon.Add(time.Duration(e))}
	}
	v := NewView(f, in)
	want := "health: 0 % stay, not applied: panic, health has removed 33 % of envoy-wss: down"
	if got := v.Reasons(2)[0].String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDeadAddresses(t *testing.T) {
	f := testFleet()
	f.Endpoints[1].Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::1")}
	in := Input{Verdicts: []Verdict{{}, {Dead: 0b101}}}
	v := NewView(f, in)
	for rung, want := range map[int]uint64{RungBucket: 0b101, RungShare: 0b101, RungSaid: 0, RungAll: 0} {
		if got := v.Dead(1, rung); got != want {
			t.Errorf("rung %d: %b, want %b", rung, got, want)
		}
	}
	if got := v.Dead(NoUnit, 1); got != 0 {
		t.Errorf("no unit: %b", got)
	}
	if got, want := v.Reasons(1)[0].String(), "health: 100 % stay: 2 of 3 addresses fail"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	in.Intents = []Intent{said("p", Pin, Person, "fra", 100)}
	if got := NewView(f, in).Dead(1, RungBucket); got != 0 {
		t.Errorf("pinned: %b", got)
	}
}

func TestShed(t *testing.T) {
	f := testFleet()
	for e := range f.Endpoints {
		f.Endpoints[e].Low, f.Endpoints[e].High = Value{Set: true, Const: 80}, Value{Set: true, Const: 120}
	}
	f.Endpoints[2].High.Set = false
	at := func(now time.Time, previous *View, load ...float64) *View {
		in := Input{Now: now, Previous: previous}
		for _, l := range load {
			in.Loads = append(in.Loads, Load{Value: l, Fresh: now.Add(time.Minute)})
		}
		return NewView(f, in)
	}
	shed := func(v *View, want ...float64) {
		t.Helper()
		for e, w := range want {
			if got := v.States[e].Shed; got < w-1e-9 || got > w+1e-9 {
				t.Errorf("%s: shed %v, want %v", f.UnitTarget(Unit(e)), got, w)
			}
		}
	}
	v := at(noon, nil, 80, 100, 500, 120, 1000)
	shed(v, 0, 0.5, 0, 1, 1) // the third lacks a watermark
	if s := v.States[1]; !s.HasLoad || s.Load != 100 || s.Metric != Connections {
		t.Errorf("state of fra/envoy-wss: %+v", s)
	}
	v = at(noon.Add(time.Second), v, 110, 120, 0, 0, 0)
	shed(v, 0.75, 1, 0, 1-0.1/60, 1-0.1/60) // rises at once, falls slowly
	if v.ShedFalls(1) || !v.ShedFalls(3) || v.ShedFalls(NoUnit) {
		t.Error("ShedFalls is wrong")
	}
	if want := v.At.Add(6 * time.Second); !v.Next.Equal(want) {
		t.Errorf("falling: next %v, want %v", v.Next, want)
	}
	v = at(noon.Add(time.Minute+time.Second), v, 0, 0, 0, 0, 0)
	shed(v, 0.65, 0.9, 0, 0.9-0.1/60, 0.9-0.1/60)
	v = at(noon.Add(5*time.Minute), v, 70, 90, 0, 0)
	shed(v, 0.65-0.1*239/60, 0.9-0.1*239/60, 0, 0.9-0.1*240/60, 0)
	v = at(noon.Add(9*time.Minute), v, 70, 90, 0, 0)
	shed(v, 0, (90*1.11-80)/40, 0, 0.1, 0) // for a while no lower than a load 11 % higher would have it
	if want := noon.Add(9*time.Minute + 6*time.Second); !v.Next.Equal(want) {
		t.Errorf("falling: next %v, want %v", v.Next, want)
	}
	v = at(noon.Add(9*time.Minute+30*time.Second), v, 70, 90)
	if want := noon.Add(10 * time.Minute); !v.Next.Equal(want) {
		t.Errorf("held: next %v, want %v", v.Next, want)
	}
	v = at(noon.Add(10*time.Minute), v, 70, 90, 0, 0)
	shed(v, 0, (90*1.11-80)/40, 0, 0, 0)
	v = at(noon.Add(20*time.Minute), v, 70, 90, 0, 0)
	shed(v, 0, 0.25, 0, 0, 0) // and then as the load has it
	if want := v.At.Add(time.Minute); !v.Next.Equal(want) {
		t.Errorf("fresh loads: next %v, want %v", v.Next, want)
	}
	if v.States[4].HasLoad {
		t.Error("a missing load is known")
	}

	stale := NewView(f, Input{Now: noon, Loads: []Load{{Value: 1000, Fresh: noon}, {Value: 1000}}})
	shed(stale, 0, 0)
	if stale.States[0].HasLoad || stale.States[1].HasLoad {
		t.Error("a stale load is known")
	}

	// A reload that moves an endpoint to another place in the fleet keeps its probability.
	full := at(noon, nil, 120, 0, 0, 0, 0)
	turned := testFleet()
	slices.Reverse(turned.Endpoints)
	for e := range turned.Endpoints {
		turned.Endpoints[e].Low, turned.Endpoints[e].High = Value{Set: true, Const: 80}, Value{Set: true, Const: 120}
	}
	loads := make([]Load, 5)
	for e := range loads {
		loads[e] = Load{Fresh: noon.Add(time.Hour)}
	}
	next := NewView(turned, Input{Now: noon.Add(time.Minute), Loads: loads, Previous: full})
	for e := range turned.Endpoints {
		want := 0.0
		if turned.UnitTarget(Unit(e)).String() == "iad/envoy-wss" {
			want = 0.9
		}
		if got := next.States[e].Shed; got < want-1e-9 || got > want+1e-9 {
			t.Errorf("after a reload, %s: shed %v, want %v", turned.UnitTarget(Unit(e)), got, want)
		}
	}
}

// A load that swings by 5 %, ten minutes long or faster, moves nobody after its first peak; where it comes to rest it sheds what the watermarks say, and nothing at the lower one.
func TestShedSwings(t *testing.T) {
	f := testFleet()
	f.Endpoints[0].Low, f.Endpoints[0].High = Value{Set: true, Const: 80}, Value{Set: true, Const: 100}
	for _, period := range []time.Duration{10 * time.Second, time.Minute, 2 * time.Minute, 10 * time.Minute} {
		var v *View
		peak := 0.0
		look := func(now time.Time, load float64) float64 {
			v = NewView(f, Input{Now: now, Previous: v, Loads: []Load{{Value: load, Fresh: now.Add(time.Minute)}}})
			return v.States[0].Shed
		}
		now := noon
		for ; now.Before(noon.Add(time.Hour)); now = now.Add(time.Second) {
			shed := look(now, 90*(1+0.05*math.Sin(2*math.Pi*now.Sub(noon).Seconds()/period.Seconds())))
			if now.Sub(noon) > period && math.Abs(shed-peak) > 1e-9 {
				t.Fatalf("period %s: %v after %s, the peak was %v", period, shed, now.Sub(noon), peak)
			}
			peak = max(peak, shed)
		}
		if peak < 0.7 || peak > 0.73 {
			t.Errorf("period %s: a peak of %v, want (94.5-80)/20", period, peak)
		}
		for _, rest := range []struct {
			load, want float64
			within     time.Duration
		}{{85, 0.25, 25 * time.Minute}, {79, 0, 25 * time.Minute}, {95, 0.75, time.Second}, {80, 0, 30 * time.Minute}, {95, 0.75, time.Second}, {70, 0, 8 * time.Minute}} {
			for end := now.Add(rest.within); now.Before(end); now = now.Add(time.Second) {
				look(now, rest.load)
			}
			if shed := v.States[0].Shed; math.Abs(shed-rest.want) > 1e-9 {
				t.Errorf("period %s: at rest at %v it sheds %v, want %v", period, rest.load, shed, rest.want)
			}
		}
	}
}

// TestShareIsTheLowest compares NewView with the sentence of section 4, on random statements and verdicts.
func TestShareIsTheLowest(t *testing.T) {
	f := testFleet()
	targets := []string{"iad", "fra", "sin", "*/envoy-wss", "*/envoy-edge", "fra/envoy-wss", "sin/envoy-wss", "iad/envoy-edge"}
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		in := Input{Panic: 1000, Verdicts: make([]Verdict, 5)}
		for e := range in.Verdicts {
			in.Verdicts[e].Down = r.IntN(4) == 0
		}
		for i := range r.IntN(6) {
			class := Class(1 + r.IntN(2))
			kind := Drain
			if class == Person && r.IntN(3) == 0 {
				kind = Pin
			}
			in.Intents = append(in.Intents, said(fmt.Sprint(i), kind, class, targets[r.IntN(len(targets))], Share(r.IntN(101))))
		}
		v := NewView(f, in)
		for u := range Unit(f.Units()) {
			person, others, pinned := Share(100), Share(100), false
			for _, i := range in.Intents {
				if !slices.Contains(f.Match(i.Target), u) {
					continue
				}
				switch {
				case i.Kind == Pin:
					pinned = true
				case i.Class == Person:
					person = min(person, i.Share)
				default:
					others = min(others, i.Share)
				}
			}
			health := Share(100)
			if int(u) < len(in.Verdicts) && in.Verdicts[u].Down {
				health = 0
			}
			share, said := min(person, others, health), min(person, others)
			if pinned {
				share, said = person, person
			}
			if s := v.States[u]; s.Share != share || s.Said != said {
				t.Fatalf("%s: share %v said %v, want %v %v\n%+v", f.UnitTarget(u), s.Share, s.Said, share, said, in)
			}
			applied := Share(100)
			for _, reason := range v.Reasons(u) {
				if reason.Applied && reason.Kind != Pin {
					applied = min(applied, reason.Share)
				}
				if !reason.Applied && reason.Why == "" {
					t.Fatalf("%s: %v does not say why", f.UnitTarget(u), reason)
				}
			}
			if applied != share {
				t.Fatalf("%s: the reasons give %v, the share is %v", f.UnitTarget(u), applied, share)
			}
		}
	}
}

// bigFleet is 100 PoPs with 20 services each, and what bears on it in a bad night.
func bigFleet() (*Fleet, Input) {
	f := &Fleet{}
	in := Input{Now: noon}
	for s := range 20 {
		f.Services = append(f.Services, Service{Name: fmt.Sprintf("service-%d", s)})
	}
	for p := range 100 {
		f.PoPs = append(f.PoPs, PoP{Name: fmt.Sprintf("pop-%d", p)})
		for s := range 20 {
			f.Endpoints = append(f.Endpoints, Endpoint{PoP: p, Service: s, Capacity: 100, Low: Value{Set: true, Const: 50}, High: Value{Set: true, Const: 90}})
			in.Loads = append(in.Loads, Load{Value: float64(p), Fresh: noon.Add(time.Minute)})
			in.Verdicts = append(in.Verdicts, Verdict{Down: p%7 == 0, Since: noon.Add(time.Duration(s))})
		}
	}
	for i := range 100 {
		in.Intents = append(in.Intents, said(fmt.Sprint("d", i), Drain, Class(1+i%2), fmt.Sprintf("pop-%d", i), Share(i)))
	}
	for i := range 20 {
		in.Intents = append(in.Intents, said(fmt.Sprint("s", i), Drain, Person, fmt.Sprintf("*/service-%d", i), 90))
		shift := said(fmt.Sprint("x", i), Shift, Person, fmt.Sprintf("pop-%d", i), 50)
		shift.To = Target{PoP: fmt.Sprintf("pop-%d", i+50)}
		in.Intents = append(in.Intents, shift)
	}
	in.Previous = NewView(f, in)
	return f, in
}

func BenchmarkNewView(b *testing.B) {
	f, in := bigFleet()
	b.ReportAllocs()
	for b.Loop() {
		NewView(f, in)
	}
}
