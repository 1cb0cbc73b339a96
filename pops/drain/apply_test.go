package drain

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/pops"
)

func TestApply(t *testing.T) {
	n := newNode(t, "a")
	r := drain("fra", 37)
	r.Ticket = "INC-7"
	result, err := n.Apply(r)
	if err != nil {
		t.Fatal(err)
	}
	e := result.Statements[0]
	if !result.Durable || result.Repeated || len(result.Ended) != 0 {
		t.Errorf("result: %+v", result)
	}
	if diff := cmp.Diff([]Change{{Target: target("fra"), Before: 100, After: 63}}, result.Changes); diff != "" {
		t.Errorf("changes (-want +got)\n%s", diff)
	}
	if e.Author != "ann" || e.Reason != "fibre works" || e.Ticket != "INC-7" || e.By != 37 || e.Version != 1 || e.Stamp.Node != "a" || !e.Created.Equal(noon) {
		t.Errorf("statement: %+v", e)
	}
	if want := noon.Add(8 * time.Hour); !e.Expires.Equal(want) {
		t.Errorf("expires %v, want %v", e.Expires, want)
	}
	n.want("fra 63")
	n.restart(true)
	n.want("fra 63")
	if got := n.ops(); got != "problem accepted" {
		t.Errorf("history: %q", got)
	}
	h := n.History(Query{Limit: 1})[0]
	if h.Author != "ann" || h.Reason != "fibre works" || h.Ticket != "INC-7" || h.Before != nil || h.After == nil || len(h.Changes) != 1 || !h.Time.Equal(noon) || h.Node != "a" {
		t.Errorf("record: %+v", h)
	}
	n.pass(8*time.Hour - time.Second)
	n.want("fra 63")
	n.pass(time.Second)
	n.want("")
	n.flush()
	if got := n.ops(); got != "problem accepted expired" {
		t.Errorf("history: %q", got)
	}
	n.restart(true)
	n.flush()
	if got := n.ops(); got != "problem accepted expired" {
		t.Errorf("history after a restart: %q", got)
	}
}

// TestReplace: by 20 % after by 38 % gives 20 back, and says so.
func TestReplace(t *testing.T) {
	n := newNode(t, "a")
	first := n.apply(drain("fra", 38))
	r := drain("fra", 20)
	r.Author = "bob"
	result, err := n.Apply(r)
	if err != nil {
		t.Fatal(err)
	}
	second := result.Statements[0]
	n.want("fra 80")
	if second.Version != 2 || second.Replaces != first.ID || second.ID == first.ID {
		t.Errorf("second: %+v", second)
	}
	if len(result.Ended) != 1 || result.Ended[0].ID != first.ID || result.Ended[0].Lift.For != second.ID || result.Ended[0].Phase(noon) != Replaced {
		t.Errorf("ended: %+v", result.Ended)
	}
	if diff := cmp.Diff([]Change{{Target: target("fra"), Before: 62, After: 80}}, result.Changes); diff != "" {
		t.Errorf("changes (-want +got)\n%s", diff)
	}
	for name, other := range map[string]Request{
		"another target":   drain("fra/envoy-wss", 50),
		"another kind":     shift("fra", "iad"),
		"automation":       automation("fra", "o"),
		"another's drills": {Kind: pops.Drain, Target: target("fra"), By: 5, Author: "drill", Role: pops.Drill, Reason: "practice"},
	} {
		if result, err := n.Apply(other); err != nil || len(result.Ended) != 0 {
			t.Errorf("%s replaces %+v, %v", name, result.Ended, err)
		}
	}
	if got := n.ops(); !strings.HasPrefix(got, "problem accepted replaced lifted accepted") {
		t.Errorf("history: %q", got)
	}
}

// TestReplaceWithRamp goes on from where the share is.
func TestReplaceWithRamp(t *testing.T) {
	n := newNode(t, "a")
	r := drain("fra", 100)
	r.Over.Over = 100 * time.Minute
	n.apply(r)
	n.pass(40 * time.Minute)
	n.want("fra 60")
	r.By = 20
	r.Over.Over = 20 * time.Minute
	n.apply(r)
	n.want("fra 60")
	n.pass(time.Minute)
	n.want("fra 61")
	n.pass(19 * time.Minute)
	n.want("fra 80")

	later := drain("fra", 90) // scheduled: until then what it replaces stands on
	later.Start = n.Now().Add(time.Hour)
	e := n.apply(later)
	if e.Phase(n.Now()) != Scheduled || !e.Expires.Equal(later.Start.Add(8*time.Hour)) {
		t.Errorf("%s until %v", e.Phase(n.Now()), e.Expires)
	}
	n.want("fra 80")
	n.pass(time.Hour)
	n.want("fra 10")
}

func TestConflicts(t *testing.T) {
	tests := []struct {
		name   string
		before []Request
		then   Request
		code   Code // "" is accepted
		says   string
	}{
		{"a pin of what a person drains", []Request{drain("fra", 1)}, pin("fra"), Conflict, "fra is drained by ann: drain ID0 by 1%: fibre works"},
		{"a pin of a part of it", []Request{drain("fra", 1)}, pin("fra/envoy-wss"), Conflict, "fra is drained by ann"},
		{"a pin of what is around it", []Request{drain("*/envoy-wss", 1)}, pin("fra"), Conflict, "*/envoy-wss is drained by ann"},
		{"a pin of what a person shifts", []Request{shift("fra", "iad")}, pin("fra"), Conflict, "fra is drained by ann: shift ID0"},
		{"a pin of something else", []Request{drain("fra", 1)}, pin("iad"), "", ""},
		{"a pin of what automation drains", []Request{automation("fra", "o")}, pin("fra"), "", ""},
		{"a drain of what is pinned", []Request{pin("fra")}, drain("fra", 1), "", ""},
		{"a shift back", []Request{shift("fra", "iad")}, shift("iad", "fra"), Conflict, "a shift from iad to fra makes a chain with ID0 from fra to iad by ann"},
		{"a shift from where another leads", []Request{shift("fra", "iad")}, shift("iad", "sin"), Conflict, "a shift from iad to sin makes a chain with ID0"},
		{"a shift to where another begins", []Request{shift("iad", "sin")}, shift("fra", "iad"), Conflict, "a shift from fra to iad makes a chain with ID0"},
		{"a shift of another service", []Request{shift("fra/envoy-edge", "iad")}, shift("iad/envoy-wss", "sin"), "", ""},
		{"a shift of the whole PoP against one of a service", []Request{shift("fra/envoy-edge", "iad")}, shift("iad", "sin"), Conflict, "makes a chain"},
		{"two shifts to one place", []Request{shift("fra", "iad")}, shift("sin", "iad"), "", ""},
		{"another shift of the same PoP", []Request{shift("fra", "iad")}, shift("fra", "sin"), "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t, "a")
			says := test.says
			for _, r := range test.before {
				says = strings.ReplaceAll(says, "ID0", n.apply(r).ID)
			}
			before := n.shares()
			_, err := n.Apply(test.then)
			if test.code == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			bad := refused(t, err)
			if bad.Code != test.code || !strings.Contains(bad.Message, says) || len(bad.IDs) != 1 || bad.Hint == "" {
				t.Errorf("refusal: %+v", bad)
			}
			n.want(before)
		})
	}
}

func TestWarnings(t *testing.T) {
	n := newNode(t, "a")
	p := n.apply(pin("fra"))
	for _, test := range []struct {
		request Request
		want    []string
	}{
		{drain("fra/envoy-wss", 10), []string{"fra is pinned by ann (" + p.ID + "): a person's drain counts all the same"}},
		{automation("fra", "o"), []string{"fra is pinned by ann (" + p.ID + "): this is not applied there"}},
		{drain("iad", 10), nil},
	} {
		result, err := n.Apply(test.request)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, result.Warnings); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.request.Target, diff)
		}
	}
}

// TestIdempotent: a retried request is one request, at this node after a restart and at another that heard of it.
func TestIdempotent(t *testing.T) {
	a, b := newNode(t, "a"), newNode(t, "b")
	r := drain("fra", 37)
	r.Key = "k1"
	first := a.apply(r)
	a.restart(true)
	state, _ := a.MarshalBinary()
	if err := b.Merge(state); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{a, b} {
		result, err := n.Apply(r)
		if err != nil || !result.Repeated || len(result.Statements) != 1 || result.Statements[0].ID != first.ID || result.Statements[0].Version != 1 {
			t.Errorf("%+v, %v", result, err)
		}
		other := r
		other.By = 38
		_, err = n.Apply(other)
		if bad := refused(t, err); bad.Code != Conflict || bad.Message != `idempotency key "k1" was used for another request` {
			t.Errorf("another request: %+v", bad)
		}
		other.Author = "bob" // keys are each author's own
		dry := other
		dry.DryRun = true
		if result, err := n.Apply(dry); err != nil || result.Repeated {
			t.Errorf("another author: %+v, %v", result, err)
		}
	}
	lift := restore("fra")
	lift.Key = "k2"
	a.lift(lift)
	if result := a.lift(lift); !result.Repeated || len(result.Ended) != 1 || result.Ended[0].ID != first.ID {
		t.Errorf("lifted again: %+v", result)
	}
	if result, err := a.Apply(r); err != nil || !result.Repeated || result.Statements[0].Lift == nil {
		t.Errorf("a retry after the lift: %+v, %v", result, err)
	}
	a.want("")
	a.pass(25 * time.Hour)
	a.flush()
	if result, err := a.Apply(r); err != nil || result.Repeated {
		t.Errorf("a day later: %+v, %v", result, err)
	}
}

func TestDryRun(t *testing.T) {
	n := newNode(t, "a")
	n.apply(drain("fra", 10))
	before, ops := encoded(n.Ledger.state.Load().message()), n.ops()
	r := drain("fra", 50)
	r.DryRun = true
	result, err := n.Apply(r)
	if err != nil || len(result.Ended) != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if diff := cmp.Diff([]Change{{Target: target("fra"), Before: 90, After: 50}}, result.Changes); diff != "" {
		t.Errorf("changes (-want +got)\n%s", diff)
	}
	l := restore("fra")
	l.DryRun = true
	if result := n.lift(l); len(result.Ended) != 1 || len(result.Changes) != 1 || result.Changes[0].After != 100 {
		t.Errorf("restore: %+v", result)
	}
	if _, err := n.Renew(RenewRequest{Target: target("fra"), Author: "x", Role: pops.Person, DryRun: true}); err != nil {
		t.Error(err)
	}
	r.By = 0
	if _, err := n.Apply(r); err == nil {
		t.Error("accepted")
	}
	if after := encoded(n.Ledger.state.Load().message()); string(after) != string(before) || n.ops() != ops {
		t.Errorf("it was not dry: %s, %s", after, n.ops())
	}
}

func TestAutomation(t *testing.T) {
	a, b := newNode(t, "a"), newNode(t, "b")
	r := automation("fra", "fingerprint 2026-03-01T11:59:00Z")
	r.Evidence = []string{"a: timeout"}
	first := a.apply(r)
	b.pass(time.Second)
	r.Evidence = []string{"b: refused"}
	if second := b.apply(r); second.ID != first.ID {
		t.Errorf("ids %s and %s of one outage", first.ID, second.ID)
	}
	state, _ := b.MarshalBinary()
	if err := a.Merge(state); err != nil {
		t.Fatal(err)
	}
	e, _ := a.Statement(first.ID)
	if diff := cmp.Diff([]string{"a: timeout", "b: refused"}, e.Evidence); diff != "" {
		t.Errorf("evidence (-want +got)\n%s", diff)
	}

	// The webhook repeats itself: nothing is written until half of the time is gone.
	a.flush()
	calls := a.fs.calls
	result, err := a.Apply(r)
	if err != nil || !result.Repeated || a.fs.calls != calls {
		t.Errorf("again: %+v, %v, %d writes", result, err, a.fs.calls-calls)
	}
	a.pass(5 * time.Hour)
	if e := a.apply(r); e.Version != 2 || !e.Expires.Equal(a.Now().Add(8*time.Hour)) {
		t.Errorf("after five hours: %+v", e)
	}

	// Another outage of the same target stands beside it; another share of the same outage is an edit.
	other := automation("fra", "another")
	other.By = 20
	if e := a.apply(other); e.ID == first.ID {
		t.Error("another outage has the same id")
	}
	other.By = 30
	if e := a.apply(other); e.Version != 2 || e.By != 30 {
		t.Errorf("edited: %+v", e)
	}
	a.want("fra 0, fra 70")

	// Resolved: a lift by id, twice. A person's drain of the same target stands.
	a.apply(drain("fra", 10))
	resolve := LiftRequest{IDs: []string{first.ID}, Author: "alertmanager", Role: pops.Automation, Reason: "resolved"}
	a.lift(resolve)
	if result := a.lift(resolve); !result.Repeated {
		t.Errorf("resolved again: %+v", result)
	}
	a.want("fra 70, fra 90")
	_, err = a.Apply(r)
	if bad := refused(t, err); bad.Code != Conflict || !strings.Contains(bad.Message, "for this outage was lifted by alertmanager 0s ago: resolved") {
		t.Errorf("the outage again: %+v", bad)
	}
	if id := OutageID(target("fra"), "another"); id != a.apply(other).ID {
		t.Errorf("OutageID gives %s", id)
	}
}

// TestAutomationWithoutOutage replaces its author's earlier statement, as a person's would.
func TestAutomationWithoutOutage(t *testing.T) {
	n := newNode(t, "a")
	r := automation("fra", "")
	r.By = 50
	first := n.apply(r)
	r.By = 20
	if second := n.apply(r); second.Replaces != first.ID {
		t.Errorf("second: %+v", second)
	}
	r.Author, r.By = "other", 10
	n.apply(r)
	n.want("fra 80, fra 90")
}

func TestRefusalsOfAutomationAreQuiet(t *testing.T) {
	n := newNode(t, "a")
	for range 10 {
		_, err := n.Apply(automation("fraa", "o"))
		refused(t, err)
		n.pass(10 * time.Second)
	}
	if got := n.ops(); got != "problem refused refused" {
		t.Errorf("history of 100 s: %q", got)
	}
}

func TestSubscribe(t *testing.T) {
	n := newNode(t, "a")
	changed, stop := n.Subscribe()
	n.apply(drain("fra", 50))
	n.apply(drain("fra", 60))
	<-changed
	select {
	case <-changed:
		t.Error("two changes that nobody had looked at are told twice")
	default:
	}
	stop()
	n.apply(drain("fra", 70))
	select {
	case <-changed:
		t.Error("told after the end")
	default:
	}
}

func TestNextChange(t *testing.T) {
	n := newNode(t, "a")
	if got := n.NextChange(noon); !got.IsZero() {
		t.Errorf("of nothing: %v", got)
	}
	n.apply(drain("iad", 50))
	r := drain("fra", 100)
	r.Over.Over = 10 * time.Minute
	n.apply(r)
	if got := n.NextChange(noon); !got.Equal(noon.Add(6 * time.Second)) {
		t.Errorf("within a ramp: %v", got)
	}
	if got := n.NextChange(noon.Add(10 * time.Minute)); !got.Equal(noon.Add(8 * time.Hour)) {
		t.Errorf("after the ramp: %v", got)
	}
}

func TestClosed(t *testing.T) {
	n := newNode(t, "a")
	n.apply(drain("fra", 50))
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	_, err := n.Apply(drain("fra", 60))
	if !errors.Is(err, ErrClosed) {
		t.Errorf("apply: %v", err)
	}
	if _, err := n.Lift(restore("fra")); !errors.Is(err, ErrClosed) {
		t.Errorf("lift: %v", err)
	}
	n.want("fra 50") // what is in force stays
	n.open("a")      // and the folder is free
}

// TestDeny: who was turned away before the ledger was asked is in the history, but cannot fill it.
func TestDeny(t *testing.T) {
	n := newNode(t, "a")
	for range 3 {
		n.Deny("mallory", "token viewer-1 may not drain")
	}
	n.pass(2 * refusalQuiet)
	n.flush()
	n.Deny("mallory", "token viewer-1 may not drain")
	if got := n.ops(); got != "problem refused refused" {
		t.Errorf("history: %q", got)
	}
	if h := n.History(Query{Limit: 1})[0]; h.Author != "mallory" || h.Code != Forbidden || h.Message != "token viewer-1 may not drain" {
		t.Errorf("record: %+v", h)
	}
}
