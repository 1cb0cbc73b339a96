package drain

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/pops"
)

// TestGuards: a broken guard rail refuses unless it is named; refusal and override are both in the history.
func TestGuards(t *testing.T) {
	n := newNode(t, "a")
	n.effect.report = func(_ *pops.View, after []*pops.View) Report {
		r := Report{Detail: "table", Warnings: []string{"sin: capacity unknown"}}
		for _, v := range after {
			if v.States[0].Share == 0 && len(r.Broken) == 0 {
				r.Broken = []Broken{{Guard: "half", Detail: "2 of 3 endpoints of envoy-wss"}, {Guard: "capacity", Detail: "fra at 130 %"}}
			}
		}
		return r
	}
	result, err := n.Apply(drain("iad", 50))
	if err != nil || result.Report.Detail != "table" || len(result.Report.Warnings) != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	for _, override := range [][]string{nil, {"half"}, {"last", "half"}} {
		r := drain("iad", 100)
		r.Override = override
		result, err := n.Apply(r)
		bad := refused(t, err)
		if bad.Code != Guard || bad.Message != "half: 2 of 3 endpoints of envoy-wss; capacity: fra at 130 %" || bad.Report == nil || result.Report.Detail != "table" {
			t.Errorf("%v: %+v", override, bad)
		}
		if want := map[int]string{0: "half,capacity", 1: "capacity", 2: "capacity"}[len(override)]; bad.Hint != "to do it all the same: --override "+want {
			t.Errorf("%v: hint %q", override, bad.Hint)
		}
		n.want("iad 50")
	}
	_, err = n.Apply(automation("iad", "o"))
	if bad := refused(t, err); bad.Code != Guard || bad.Hint != "" {
		t.Errorf("automation: %+v", bad)
	}
	r := drain("iad", 100)
	r.Override = []string{"half", "capacity"}
	n.apply(r)
	n.want("iad 0")
	if got := n.ops(); got != "problem accepted refused refused refused refused replaced overridden lifted" {
		t.Errorf("history: %q", got)
	}
	h := n.History(Query{Limit: 3})[1]
	if diff := cmp.Diff([]string{"half", "capacity"}, h.Guards); diff != "" || h.Message == "" || h.Author != "ann" {
		t.Errorf("override: %+v", h)
	}
	n.lift(restore("iad")) // giving back is never refused

	n.effect.report, n.effect.err = nil, errors.New("iad is in no record of fra's")
	_, err = n.Apply(shift("fra", "iad"))
	if bad := refused(t, err); bad.Code != Conflict || bad.Message != "iad is in no record of fra's" {
		t.Errorf("effect fails: %+v", bad)
	}
	n.effect.err = nil
}

// TestBound: automation has a bound that persons have not, and that is looked at when it makes a statement, not when it says it again.
func TestBound(t *testing.T) {
	n := newNode(t, "a")
	why := ""
	n.Ledger.config.Bound = func(before, after *pops.View) string {
		if before.States[0].Said != 100 || after.States[0].Said != 0 {
			t.Errorf("asked about %v -> %v", before.States[0].Said, after.States[0].Said)
		}
		return why
	}
	why = "50 % of envoy-wss would be drained"
	_, err := n.Apply(automation("iad", "o"))
	if bad := refused(t, err); bad.Code != Guard || bad.Message != why || bad.Hint != "a person can drain it: edgesteer drain iad" {
		t.Errorf("%+v", bad)
	}
	n.want("")
	why = ""
	n.apply(automation("iad", "o"))
	n.want("iad 0")
	why = "too late"
	n.pass(5 * time.Hour) // more than half of its time is gone: its end moves
	if e := n.apply(automation("iad", "o")); e.Version != 2 {
		t.Errorf("%+v", e)
	}
	n.apply(drain("fra", 100))
}

// TestPredictedViews: the effect is asked for each step of the ramp, for the final share, and for where other ramps end.
func TestPredictedViews(t *testing.T) {
	n := newNode(t, "a")
	ask := func(r Request) (shares [][2]pops.Share) {
		t.Helper()
		n.effect.report = func(_ *pops.View, after []*pops.View) Report {
			for _, v := range after {
				shares = append(shares, [2]pops.Share{v.States[0].Share, v.States[1].Share}) // iad, fra
			}
			return Report{}
		}
		r.DryRun = true
		if _, err := n.Apply(r); err != nil {
			t.Fatal(err)
		}
		return shares
	}
	slow := drain("fra", 40)
	slow.Over.Over = 10 * time.Minute
	stepped := drain("fra", 100)
	stepped.Over = Way{10 * time.Minute, []float64{10, 50, 100}}
	tests := []struct {
		name    string
		request Request
		want    [][2]pops.Share
	}{
		{"at once", drain("fra", 40), [][2]pops.Share{{100, 60}}},
		{"linear", slow, [][2]pops.Share{{100, 90}, {100, 80}, {100, 70}, {100, 60}}},
		{"steps", stepped, [][2]pops.Share{{100, 90}, {100, 50}, {100, 0}}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, ask(test.request)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.name, diff)
		}
	}
	other := drain("iad", 100)
	other.Over.Over = 10 * time.Minute
	n.effect.report = nil
	n.apply(other)
	n.pass(5 * time.Minute)
	if diff := cmp.Diff([][2]pops.Share{{50, 60}, {0, 60}}, ask(drain("fra", 40))); diff != "" {
		t.Errorf("while another ramp is under way (-want +got)\n%s", diff)
	}
	n.effect.report = nil
	n.lift(restore("iad"))
	later := drain("iad", 100)
	later.Start, later.For = n.Now().Add(2*time.Hour), time.Hour
	n.apply(later)
	if diff := cmp.Diff([][2]pops.Share{{100, 60}, {0, 60}}, ask(drain("fra", 40))); diff != "" {
		t.Errorf("with a drain scheduled within its time (-want +got)\n%s", diff)
	}
	short := drain("fra", 40)
	short.For = time.Hour
	if diff := cmp.Diff([][2]pops.Share{{100, 60}}, ask(short)); diff != "" {
		t.Errorf("with a drain scheduled after its end (-want +got)\n%s", diff)
	}
}

// TestChangesNameWhatDiffers: a PoP stands for its endpoints only where all of them change alike.
func TestChangesNameWhatDiffers(t *testing.T) {
	n := newNode(t, "a")
	n.apply(drain("fra/envoy-wss", 50))
	result, err := n.Apply(drain("fra", 20))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Change{{Target: target("fra/envoy-edge"), Before: 100, After: 80}}, result.Changes); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestPreviewWithHealth: previews are made with the view that is handed in, health included.
func TestPreviewWithHealth(t *testing.T) {
	n := newNode(t, "a")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	config := n.Ledger.config
	config.View = func(intents []pops.Intent, now time.Time) *pops.View {
		return pops.NewView(fleet, pops.Input{Now: now, Intents: intents, Verdicts: []pops.Verdict{0: {}, 1: {Down: true}}})
	}
	l, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	n.Ledger = l
	result, err := n.Apply(drain("fra", 50))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Change{{Target: target("fra/envoy-edge"), Before: 100, After: 50}}, result.Changes); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
