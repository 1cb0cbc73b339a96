package drain

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/pops"
)

func TestLift(t *testing.T) {
	n := newNode(t, "a")
	d := n.apply(drain("fra", 100))
	a := n.apply(automation("fra", "o"))
	part := n.apply(drain("fra/envoy-wss", 50))
	result := n.lift(restore("fra"))
	var ended, remaining []string
	for _, e := range result.Ended {
		ended = append(ended, e.ID)
	}
	for _, e := range result.Remaining {
		remaining = append(remaining, e.ID)
	}
	want := []string{d.ID, a.ID}
	slices.Sort(want)
	if diff := cmp.Diff(want, ended); diff != "" {
		t.Errorf("lifted (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{part.ID}, remaining); diff != "" {
		t.Errorf("remaining (-want +got)\n%s", diff)
	}
	n.want("fra/envoy-wss 50")
	n.restart(true)
	n.want("fra/envoy-wss 50")
	h := n.History(Query{ID: d.ID, Limit: 1})[0]
	if h.Op != LiftedOp || h.Author != "bob" || h.Reason != "works done" || h.Before.Lift != nil || h.After.Lift == nil {
		t.Errorf("record: %+v", h)
	}
	again := n.apply(drain("fra", 100)) // what was lifted stays lifted, a new drain is a new statement
	if again.ID == d.ID || again.Version != 1 {
		t.Errorf("drained again: %+v", again)
	}
}

// TestLiftRampsBack: on lifting and on expiry the share ramps back if asked.
func TestLiftRampsBack(t *testing.T) {
	n := newNode(t, "a")
	n.apply(drain("fra", 100))
	back := restore("fra")
	back.Back = Way{Over: 100 * time.Minute}
	n.lift(back)
	n.want("fra 0")
	n.pass(time.Minute)
	n.want("fra 1")
	n.pass(50 * time.Minute)
	n.restart(false)
	n.want("fra 51")
	n.pass(49 * time.Minute)
	n.want("")

	r := drain("fra", 100)
	r.For, r.Back = time.Hour, Way{Over: 4 * time.Minute, Steps: []float64{1, 10, 25, 50, 100}}
	n.apply(r)
	for _, want := range []string{"fra 1", "fra 10", "fra 25", "fra 50", ""} {
		if want == "fra 1" {
			n.pass(time.Hour)
		} else {
			n.pass(time.Minute)
		}
		n.want(want)
	}

	n.apply(r) // and a restore that does not say how takes the statement's way
	n.lift(restore("fra"))
	n.want("fra 1")
	if _, err := n.Lift(restore("fra")); err == nil {
		t.Error("a lift was lifted")
	}
	n.apply(r)
	now := restore("fra")
	now.Now = true
	n.lift(now) // both: the first is on its way still
	n.want("")
}

// TestHurry: a slow lift can be hurried, by its target and by its id, is in the history, and goes on from what has come back; one that would not hurry changes nothing.
func TestHurry(t *testing.T) {
	n := newNode(t, "a")
	e := n.apply(drain("fra", 100))
	slow := restore("fra")
	slow.Back = Way{Over: 100 * time.Minute}
	n.lift(slow)
	n.pass(20 * time.Minute)
	n.want("fra 20")

	_, err := n.Lift(slow)
	if bad := refused(t, err); bad.Code != Conflict || bad.Hint != "edgesteer restore fra --now gives back at once" ||
		bad.Message != "fra comes back already, until 2026-03-01T13:40:00Z: drain "+e.ID+" was lifted by bob: works done" {
		t.Errorf("a slower lift: %+v", bad)
	}
	again := slow
	again.Target, again.IDs = pops.Target{}, []string{e.ID}
	if result := n.lift(again); !result.Repeated {
		t.Errorf("a slower lift by its id: %+v", result)
	}
	machine := again
	machine.Role, machine.Author, machine.Now = pops.Automation, "hook", true
	if _, err := n.Lift(machine); refused(t, err).Code != Forbidden {
		t.Errorf("automation: %v", err)
	}

	sooner := again
	sooner.Author, sooner.Back, sooner.DryRun = "eve", Way{Over: 40 * time.Minute, Steps: []float64{50, 100}}, true
	result := n.lift(sooner)
	want := []Change{{Target: target("fra"), Before: 20, After: 100}}
	if diff := cmp.Diff(want, result.Changes); diff != "" {
		t.Errorf("preview (-want +got)\n%s", diff)
	}
	n.want("fra 20")
	sooner.DryRun = false
	n.lift(sooner)
	n.want("fra 60") // the first step of two
	n.restart(true)
	n.want("fra 60")
	h := n.History(Query{ID: e.ID, Limit: 1})[0]
	if h.Op != LiftedOp || h.Author != "eve" || h.Before.Lift.Author != "bob" || h.After.Lift.Author != "eve" {
		t.Errorf("record: %+v", h)
	}

	now := restore("fra")
	now.Now = true
	if result := n.lift(now); result.Repeated || len(result.Ended) != 1 {
		t.Errorf("at once: %+v", result)
	}
	n.want("")
	if _, err := n.Lift(now); refused(t, err).Message != "nothing stands for fra" {
		t.Errorf("what is over: %v", err)
	}
}

// TestHurryOfAutomation: a webhook that repeats itself does not hurry what a person gives back slowly.
func TestHurryOfAutomation(t *testing.T) {
	n := newNode(t, "a")
	e := n.apply(automation("fra", "o"))
	slow := restore("fra")
	slow.Back = Way{Over: 100 * time.Minute}
	n.lift(slow)
	if result := n.lift(LiftRequest{IDs: []string{e.ID}, Author: e.Author, Role: pops.Automation, Reason: "resolved"}); !result.Repeated {
		t.Errorf("%+v", result)
	}
	n.pass(10 * time.Minute)
	n.want("fra 10")
}

// TestHurryMerges: nodes that hear of a lift and of the one that hurries it in any order agree, and no share goes back.
func TestHurryMerges(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	a, b, c := newNode(t, "a"), newNode(t, "b"), newNode(t, "c")
	a.apply(drain("fra", 100))
	exchange(t, r, a, b, c)
	slow := restore("fra")
	slow.Back = Way{Over: 100 * time.Minute}
	a.lift(slow)
	exchange(t, r, a, b)
	for _, n := range []*node{a, b, c} {
		n.pass(50 * time.Minute)
	}
	slow.Back.Over = 10 * time.Minute
	b.lift(slow)
	exchange(t, r, a, b, c)
	agree(t, a, b, c)
	c.want("fra 50")
	c.pass(5 * time.Minute)
	c.want("fra 75")
	e, _ := c.Statement(c.Statements()[0].ID)
	if got := e.Share(e.Lift.At.Add(-time.Second)); got != 50 {
		t.Errorf("share of a node whose clock is behind: %v", got)
	}
}

// TestLiftOnTheWayBack: a share that comes back slowly after an expiry can be given back at once.
func TestLiftOnTheWayBack(t *testing.T) {
	n := newNode(t, "a")
	r := drain("fra", 100)
	r.For, r.Back = time.Hour, Way{Over: 100 * time.Minute}
	n.apply(r)
	n.pass(61 * time.Minute)
	n.want("fra 1")
	now := restore("fra")
	now.Now = true
	n.lift(now)
	n.want("")
}

func TestRenew(t *testing.T) {
	n := newNode(t, "a")
	r := drain("fra", 37)
	r.For = time.Hour
	first := n.apply(r)
	n.pass(50 * time.Minute)
	renew := RenewRequest{Target: target("fra"), Author: "bob", Role: pops.Person, For: 2 * time.Hour}
	result, err := n.Renew(renew)
	if err != nil {
		t.Fatal(err)
	}
	e := result.Statements[0]
	if e.ID != first.ID || e.Version != 2 || !e.Expires.Equal(noon.Add(170*time.Minute)) || e.Author != "ann" || e.Stamp.Compare(first.Stamp) <= 0 {
		t.Errorf("renewed: %+v", e)
	}
	n.pass(119 * time.Minute)
	n.restart(true)
	n.want("fra 63")
	renew.Forever, renew.For = true, 0
	if _, err := n.Renew(renew); err != nil {
		t.Fatal(err)
	}
	n.pass(1000 * time.Hour)
	n.want("fra 63")
	for name, test := range map[string]struct {
		change  func(*RenewRequest)
		code    Code
		message string
		hint    string // of another statement: what renews it, never what ends it
	}{
		"too long":      {func(r *RenewRequest) { r.Forever, r.For = false, 100*time.Hour }, Invalid, "an expiry of 100h0m0s is not between 1m0s and 72h0m0s", "for longer say --for forever"},
		"nothing there": {func(r *RenewRequest) { r.Target = target("iad") }, Unknown, "nothing stands for iad", ""},
		"something wider": {
			func(r *RenewRequest) { r.Target = target("fra/envoy-wss") }, Unknown, "nothing stands for fra/envoy-wss, but it is touched by drain " + e.ID + " of fra by ann", "edgesteer renew fra --for 8h",
		},
		"automation": {
			func(r *RenewRequest) { r.Role, r.Forever = pops.Automation, false }, Unknown, "nothing stands for fra, but it is touched by drain " + e.ID + " of fra by ann", "edgesteer renew fra --for 8h",
		},
		"automation, for ever": {func(r *RenewRequest) { r.Role = pops.Automation }, Forbidden, "only a person can make a statement that never expires, this is automation", ""},
	} {
		r := renew
		test.change(&r)
		_, err := n.Renew(r)
		if bad := refused(t, err); bad.Code != test.code || bad.Message != test.message || bad.Hint != test.hint {
			t.Errorf("%s: %+v", name, bad)
		}
	}
	n.lift(restore("fra"))
	renew.Target, renew.IDs = pops.Target{}, []string{e.ID}
	_, err = n.Renew(renew)
	if bad := refused(t, err); bad.Code != Conflict || bad.Message != "drain "+e.ID+" is lifted: it cannot be renewed" {
		t.Errorf("what is lifted: %+v", bad)
	}
	n.want("")
	if got := n.ops(); got != "problem accepted renewed renewed refused refused refused refused refused lifted refused" {
		t.Errorf("history: %q", got)
	}
}

// TestRenewWithinRamp: an end cannot come before the ramp has arrived.
func TestRenewWithinRamp(t *testing.T) {
	n := newNode(t, "a")
	r := drain("fra", 100)
	r.Over.Over = 4 * time.Hour
	e := n.apply(r)
	renew := RenewRequest{IDs: []string{e.ID}, Author: "bob", Role: pops.Person, For: time.Hour}
	_, err := n.Renew(renew)
	if bad := refused(t, err); bad.Code != Invalid || bad.Message != "the ramp of "+e.ID+" ends at 2026-03-01T16:00:00Z, later than the new expiry" {
		t.Errorf("%+v", bad)
	}
	later := drain("iad", 100) // one that is to come counts from its start
	later.Start = noon.Add(3 * time.Hour)
	scheduled := n.apply(later)
	renew.IDs = []string{scheduled.ID}
	result, err := n.Renew(renew)
	if err != nil || !result.Statements[0].Expires.Equal(noon.Add(4*time.Hour)) {
		t.Errorf("%+v, %v", result.Statements, err)
	}
}
