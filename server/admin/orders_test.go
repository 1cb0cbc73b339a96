package admin

import (
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

func because(reason string) api.Order { return api.Order{Reason: reason} }

func TestDrain(t *testing.T) {
	f := newFixture(t)
	request := api.DrainRequest{Target: "fra", By: new(37.0), For: api.Duration(time.Hour), Order: api.Order{Reason: "fibre works", Ticket: "NET-1", DryRun: true}}

	preview := f.change(t, f.unix, "/v1/drains", "", request)
	if !preview.DryRun || preview.Effect == nil || preview.Version == "" || len(f.ledger.Statements()) != 0 {
		t.Errorf("preview %+v with %d statements", preview, len(f.ledger.Statements()))
	}
	want := []api.ShareChange{{Target: "fra", Before: 100, After: 63}}
	if diff := cmp.Diff(want, preview.Shares); diff != "" {
		t.Error(diff)
	}

	request.DryRun, request.Wait = false, api.Duration(time.Second)
	done := f.change(t, f.unix, "/v1/drains", "", request)
	if diff := cmp.Diff(want, done.Shares); diff != "" {
		t.Error(diff)
	}
	s := done.Statements[0]
	if s.Kind != api.KindDrain || s.Class != api.ClassPerson || s.Target != "fra" || s.By != 37 || s.Share != 63 || s.State != api.StateActive || s.Reason != "fibre works" || s.Ticket != "NET-1" || s.Node != "node1" {
		t.Errorf("statement %+v", s)
	}
	if done.Expires == nil || !done.Expires.Equal(*s.End) || s.End.Sub(s.Made) != time.Hour {
		t.Errorf("expires %v, statement %+v", done.Expires, s)
	}
	if !done.Durable || done.DryRun || done.Repeated || done.Version == preview.Version {
		t.Errorf("%+v", done)
	}
	if len(done.Nodes) != 1 || !done.Nodes[0].Applied || done.Nodes[0].Node != "node1" {
		t.Errorf("nodes %+v", done.Nodes)
	}
	if len(done.Warnings) != 1 || done.Warnings[0] != "the load of dub is unknown" {
		t.Errorf("warnings %q", done.Warnings)
	}
	if want := "edgesteer restore fra --reason 'undo " + s.ID + "'"; done.Undo != want {
		t.Errorf("undo %s, want %s", done.Undo, want)
	}
	// What is served obeys when the answer is there.
	view := f.cfg.Publisher.Snapshot().View
	if share := view.States[view.Fleet.PoPUnit(0)].Share; share != 63 {
		t.Errorf("served share %v", share)
	}

	// The same target again: the next version in the place of the first.
	request.By = new(20.0)
	second := f.change(t, f.unix, "/v1/drains", "", request)
	if len(second.Ended) != 1 || second.Ended[0].ID != s.ID || second.Ended[0].State != api.StateReplaced || second.Statements[0].Replaces != s.ID {
		t.Errorf("%+v", second)
	}
	if diff := cmp.Diff([]api.ShareChange{{Target: "fra", Before: 63, After: 80}}, second.Shares); diff != "" {
		t.Error(diff)
	}
	if second.Before != nil {
		t.Errorf("a new statement was there before: %+v", second.Before)
	}
	if want := "edgesteer drain fra --by 37% --for 1h0m --reason 'undo " + second.Statements[0].ID + "' --ticket NET-1"; second.Undo != want {
		t.Errorf("undo %s, want %s", second.Undo, want)
	}
}

// TestRenewal: a renewal tells the end that was, before and after it is done; a repeated one has renewed nothing.
func TestRenewal(t *testing.T) {
	f := newFixture(t)
	old := f.change(t, f.unix, "/v1/drains", "", api.DrainRequest{Target: "fra", For: api.Duration(time.Hour), Order: because("works")}).Statements[0]
	request := api.RenewRequest{Target: "fra", For: api.Duration(2 * time.Hour), Order: api.Order{Reason: "renewed", DryRun: true}}
	for _, request.DryRun = range []bool{true, false} {
		c := f.change(t, f.unix, "/v1/renewals", "", request)
		if len(c.Before) != 1 || c.Before[0].ID != old.ID || c.Before[0].Version != 1 || !c.Before[0].End.Equal(*old.End) || len(c.Statements) != 1 || c.Statements[0].Version != 2 || !c.Statements[0].End.After(*old.End) {
			t.Errorf("dry run %v: before %+v, statements %+v", request.DryRun, c.Before, c.Statements)
		}
	}
}

func TestOrders(t *testing.T) {
	f := newFixture(t)
	oscar := func(path string, body any) api.Change { return f.change(t, f.tcp, path, "operator", body) }

	pinned := oscar("/v1/pins", api.PinRequest{Target: "dub/edge", For: api.Forever, Order: because("false alarm")})
	if s := pinned.Statements[0]; s.Kind != api.KindPin || s.By != 0 || s.End != nil || s.Target != "dub/edge" || pinned.Expires != nil {
		t.Errorf("pin %+v", s)
	}
	shifted := oscar("/v1/shifts", api.ShiftRequest{From: "fra", To: "dub", By: new(50.0), Over: api.Duration(10 * time.Minute), Steps: []float64{10, 100}, Order: because("works")})
	if s := shifted.Statements[0]; s.Kind != api.KindShift || s.To != "dub" || s.Ramp == nil || s.Ramp.To != 50 || s.Ramp.Over.String() != "10m" || len(s.Ramp.Steps) != 2 {
		t.Errorf("shift %+v", s)
	}
	renewed := oscar("/v1/renewals", api.RenewRequest{Target: "fra", For: api.Duration(24 * time.Hour), Order: because("longer")})
	if s := renewed.Statements[0]; s.ID != shifted.Statements[0].ID || s.Version != 2 || s.End.Sub(s.Made) != 24*time.Hour {
		t.Errorf("renewal %+v", s)
	}
	if want := "edgesteer renew fra --for 8h0m"; renewed.Undo != want {
		t.Errorf("undo %s", renewed.Undo)
	}
	lifted := oscar("/v1/restores", api.RestoreRequest{ID: shifted.Statements[0].ID, Order: because("done")})
	if len(lifted.Statements) != 0 || len(lifted.Ended) != 1 || lifted.Ended[0].Lifted.Author != "oscar" || lifted.Ended[0].Lifted.Reason != "done" {
		t.Errorf("lift %+v", lifted)
	}
	if want := "edgesteer shift fra dub --by 5% --for 24h0m --reason 'undo lift of " + shifted.Statements[0].ID + "' && edgesteer shift fra dub --by 50% --start "; !strings.HasPrefix(lifted.Undo, want) {
		t.Errorf("undo %s", lifted.Undo) // its second step is to come
	}
	everywhere := oscar("/v1/drains", api.DrainRequest{Target: "*/edge", By: new(10.0), Order: because("works")})
	if want := "edgesteer restore '*/edge' --reason 'undo " + everywhere.Statements[0].ID + "'"; everywhere.Undo != want {
		t.Errorf("undo %s", everywhere.Undo)
	}
	ramped := oscar("/v1/restores", api.RestoreRequest{Target: "*/edge", Over: api.Duration(30 * time.Minute), Order: because("done")})
	if s := ramped.Ended[0]; s.State != api.StateRestoring || s.Share < 89 || s.Share > 91 {
		t.Errorf("ramp back %+v", s)
	}
}

func TestRefusals(t *testing.T) {
	f := newFixture(t)
	f.change(t, f.unix, "/v1/drains", "", api.DrainRequest{Target: "dub/edge", Order: api.Order{Reason: "works", Author: "alice"}})
	for _, test := range []struct {
		name, path   string
		body         any
		status       int
		problem      string
		field        string
		detail, hint string
	}{
		{"no reason", "/v1/drains", api.DrainRequest{Target: "fra"}, 422, "invalid", "", "no reason given", "say why"},
		{"unknown PoP", "/v1/drains", api.DrainRequest{Target: "frb", Order: because("x")}, 404, "unknown-target", "target", `unknown PoP "frb": did you mean "fra"`, "edgesteer pop list"},
		{"unknown service", "/v1/drains", api.DrainRequest{Target: "fra/wws", Order: because("x")}, 404, "unknown-target", "target", `did you mean "fra/wss"`, ""},
		{"no endpoint", "/v1/drains", api.DrainRequest{Target: "ams/edge", Order: because("x")}, 404, "unknown-target", "target", `unknown endpoint "ams/edge"`, ""},
		{"everything", "/v1/drains", api.DrainRequest{Target: "*", Order: because("x")}, 422, "invalid", "target", "everything cannot be a target", ""},
		{"no target", "/v1/drains", api.DrainRequest{Order: because("x")}, 422, "invalid", "target", "empty target", ""},
		{"too little", "/v1/drains", api.DrainRequest{Target: "fra", By: new(0.0), Order: because("x")}, 422, "invalid", "", "does nothing", "edgesteer restore fra"},
		{"too much", "/v1/drains", api.DrainRequest{Target: "fra", By: new(101.0), Order: because("x")}, 422, "invalid", "", "not between", ""},
		{"too long", "/v1/drains", api.DrainRequest{Target: "fra", For: api.Duration(100 * time.Hour), Order: because("x")}, 422, "invalid", "", "not between", "--for forever"},
		{"too short", "/v1/drains", api.DrainRequest{Target: "fra", For: 1, Order: because("x")}, 422, "invalid", "", "not between", ""},
		{"control characters", "/v1/drains", api.DrainRequest{Target: "fra", Order: because("\x1b[2J")}, 422, "invalid", "", "control character", ""},
		{"evidence of a person", "/v1/drains", api.DrainRequest{Target: "fra", Outage: "o", Order: because("x")}, 422, "invalid", "outage", "only automation", ""},
		{"unknown guard rail", "/v1/drains", api.DrainRequest{Target: "fra", Order: api.Order{Reason: "x", Override: []string{"all"}}}, 422, "invalid", "", `unknown override "all"`, ""},
		{"long wait", "/v1/drains", api.DrainRequest{Target: "fra", Order: api.Order{Reason: "x", Wait: api.Duration(time.Hour)}}, 422, "invalid", "wait", "longer than 5m", ""},
		{"guard rail", "/v1/drains", api.DrainRequest{Target: "ams", Order: because("x")}, 409, "guard-rail", "", "last: wss.example.com has no other PoP", "--override last"},
		{"guard rail in a preview", "/v1/drains", api.DrainRequest{Target: "ams", Order: api.Order{Reason: "x", DryRun: true}}, 409, "guard-rail", "", "last:", ""},
		{"pin against a person", "/v1/pins", api.PinRequest{Target: "dub", Order: because("x")}, 409, "conflict", "", "dub/edge is drained by alice", "edgesteer restore dub/edge"},
		{"shift to nowhere", "/v1/shifts", api.ShiftRequest{From: "fra", To: "dup", Order: because("x")}, 404, "unknown-target", "to", `did you mean "dub"`, ""},
		{"shift to itself", "/v1/shifts", api.ShiftRequest{From: "fra", To: "fra", Order: because("x")}, 422, "invalid", "", "to itself", ""},
		{"nothing to restore", "/v1/restores", api.RestoreRequest{Target: "fra", Order: because("x")}, 404, "unknown-target", "", "nothing stands for fra", ""},
		{"restore of a part", "/v1/restores", api.RestoreRequest{Target: "dub", Order: because("x")}, 404, "unknown-target", "", "touched by", "edgesteer restore dub/edge"},
		{"restore of what", "/v1/restores", api.RestoreRequest{Order: because("x")}, 422, "invalid", "target", "one of the two", ""},
		{"restore of both", "/v1/restores", api.RestoreRequest{Target: "fra", ID: "d-1", Order: because("x")}, 422, "invalid", "target", "one of the two", ""},
		{"unknown statement", "/v1/restores", api.RestoreRequest{ID: "d-1", Order: because("x")}, 404, "unknown-target", "", `unknown statement "d-1"`, ""},
		{"now and later", "/v1/restores", api.RestoreRequest{Target: "fra", Now: true, Over: 1, Order: because("x")}, 422, "invalid", "now", "contradict", ""},
		{"nothing to renew", "/v1/renewals", api.RenewRequest{Target: "fra", Order: because("x")}, 404, "unknown-target", "", "nothing stands for fra", ""},
		{"unknown field", "/v1/drains", `{"target":"fra","reson":"x"}`, 422, "invalid", "reson", "unknown field", `did you mean "reason"?`},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := len(f.ledger.Statements())
			a := f.do(t, f.unix, "POST", test.path, "", test.body)
			p := a.problem
			if a.status != test.status || p.Name() != test.problem || p.Field != test.field || !strings.Contains(p.Detail, test.detail) || !strings.Contains(p.Hint, test.hint) {
				t.Errorf("%d %+v", a.status, p)
			}
			if len(f.ledger.Statements()) != before {
				t.Error("a statement was made")
			}
		})
	}
}

// TestGuardRail checks that a refusal shows what would happen, and that both it and the override are in the history.
func TestGuardRail(t *testing.T) {
	f := newFixture(t)
	request := api.DrainRequest{Target: "ams", Order: because("it burns")}
	a := f.do(t, f.tcp, "POST", "/v1/drains", "operator", request)
	if a.status != 409 || a.problem.Effect == nil || len(a.problem.Guards) != 1 || a.problem.Guards[0].Name != api.GuardLast || a.problem.Guards[0].Overridden {
		t.Errorf("%d %+v", a.status, a.problem)
	}
	request.Override = []string{"last"}
	done := f.change(t, f.tcp, "/v1/drains", "operator", request)
	if len(done.Guards) != 1 || !done.Guards[0].Overridden || len(done.Statements[0].Overrides) != 1 {
		t.Errorf("%+v", done)
	}
	var h api.History
	f.do(t, f.tcp, "GET", "/v1/history?target=ams", "viewer", nil).into(t, &h)
	var actions []api.Action
	for _, e := range h.Entries {
		actions = append(actions, e.Action)
		if e.Author != "oscar" || e.Reason != "it burns" {
			t.Errorf("entry %+v", e)
		}
	}
	if diff := cmp.Diff([]api.Action{api.ActionOverridden, api.ActionAccepted, api.ActionRefused}, actions); diff != "" {
		t.Error(diff)
	}
	// Automation cannot override.
	if a := f.do(t, f.tcp, "POST", "/v1/drains", "automation", request); a.status != 403 {
		t.Errorf("automation: %d %s", a.status, a.body)
	}
}

// TestIdempotency checks that a retried drain is one drain, for each author.
func TestIdempotency(t *testing.T) {
	f := newFixture(t)
	request := api.DrainRequest{Target: "fra", Order: because("works")}
	first := f.change(t, f.tcp, "/v1/drains", "operator", request, "Idempotency-Key", "k1")
	again := f.change(t, f.tcp, "/v1/drains", "operator", request, "Idempotency-Key", "k1")
	if first.Repeated || !again.Repeated || first.Statements[0].ID != again.Statements[0].ID || len(f.ledger.Statements()) != 1 || again.Undo != "" {
		t.Errorf("first %+v, again %+v, %d statements", first, again, len(f.ledger.Statements()))
	}
	request.By = new(50.0)
	if a := f.do(t, f.tcp, "POST", "/v1/drains", "operator", request, "Idempotency-Key", "k1"); a.status != 409 || a.problem.Name() != "conflict" || !strings.Contains(a.problem.Detail, "was used for another request") {
		t.Errorf("other request with the key: %d %s", a.status, a.body)
	}
	other := f.change(t, f.unix, "/v1/drains", "", request, "Idempotency-Key", "k1") // another author's key
	if other.Repeated {
		t.Errorf("%+v", other)
	}
	restore := api.RestoreRequest{Target: "fra", Order: because("done")}
	lifted := f.change(t, f.tcp, "/v1/restores", "operator", restore, "Idempotency-Key", "k2")
	relifted := f.change(t, f.tcp, "/v1/restores", "operator", restore, "Idempotency-Key", "k2")
	if len(lifted.Ended) != 1 || !relifted.Repeated || len(relifted.Ended) != 1 || relifted.Ended[0].ID != lifted.Ended[0].ID {
		t.Errorf("first %+v, again %+v", lifted, relifted)
	}
	// Many retries at the same time.
	request = api.DrainRequest{Target: "dub", Order: because("works")}
	before := len(f.ledger.Statements())
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { f.do(t, f.tcp, "POST", "/v1/drains", "operator", request, "Idempotency-Key", "k3") })
	}
	all.Wait()
	if n := len(f.ledger.Statements()) - before; n != 1 {
		t.Errorf("%d statements", n)
	}
}

// TestConflict has two operators act on the same preview: the second hears of the first. A retry of the first does not.
func TestConflict(t *testing.T) {
	f := newFixture(t)
	preview := func(client, author string) api.Change {
		return f.change(t, f.unix, "/v1/drains", "", api.DrainRequest{Target: client, Order: api.Order{Reason: "works", Author: author, DryRun: true}})
	}
	alice, bob := preview("fra", "alice"), preview("dub", "bob")
	if alice.Version != bob.Version {
		t.Fatal("two versions of one ledger")
	}
	order := api.DrainRequest{Target: "fra", Order: api.Order{Reason: "fibre works", Author: "alice"}}
	first := f.change(t, f.unix, "/v1/drains", "", order, "If-Match", `"`+alice.Version+`"`, "Idempotency-Key", "k")
	a := f.do(t, f.unix, "POST", "/v1/drains", "", api.DrainRequest{Target: "dub", Order: api.Order{Reason: "overheated", Author: "bob"}}, "If-Match", `"`+bob.Version+`"`, "Idempotency-Key", "l")
	p := a.problem
	if a.status != 412 || p.Name() != "conflict" || !strings.HasPrefix(p.By, "alice") || p.ID != first.Statements[0].ID || !strings.Contains(p.Detail, "was first: drain "+p.ID+" of fra, 0s ago: fibre works") {
		t.Errorf("%d %+v", a.status, p)
	}
	again := f.change(t, f.unix, "/v1/drains", "", order, "If-Match", `"`+alice.Version+`"`, "Idempotency-Key", "k")
	if !again.Repeated || again.Statements[0].ID != first.Statements[0].ID {
		t.Errorf("%+v", again)
	}
	bob = preview("dub", "bob")
	f.change(t, f.unix, "/v1/drains", "", api.DrainRequest{Target: "dub", Order: api.Order{Reason: "overheated", Author: "bob"}}, "If-Match", `"`+bob.Version+`"`)
	f.change(t, f.unix, "/v1/restores", "", api.RestoreRequest{Target: "dub", Order: because("cool")}, "If-Match", "*")
	for _, bad := range []string{"7", `W/"7"`, `"`, ""} {
		if a := f.do(t, f.unix, "POST", "/v1/drains", "", order, "If-Match", bad); a.status != 422 || a.problem.Field != "If-Match" {
			t.Errorf("If-Match %s: %d", bad, a.status)
		}
	}
	a = f.do(t, f.unix, "POST", "/v1/drains", "", order, "If-Match", `"`+bob.Version+`"`)
	if a.status != 412 || !strings.Contains(a.problem.Detail, "was first: lifted drain") {
		t.Errorf("%d %+v", a.status, a.problem)
	}
}

// TestAutomation checks what automation may not: touch what a person said.
func TestAutomation(t *testing.T) {
	f := newFixture(t)
	person := f.change(t, f.tcp, "/v1/drains", "operator", api.DrainRequest{Target: "fra", By: new(10.0), Order: because("works")}).Statements[0]
	robot := f.change(t, f.tcp, "/v1/drains", "automation", api.DrainRequest{Target: "fra", By: new(60.0), Outage: "probe 2026-01-02", Evidence: []string{"node1: timeout"}, Order: because("probe")}).Statements[0]
	if robot.Class != api.ClassAutomation || robot.Author != "autumn" || robot.Outage != "probe 2026-01-02" || len(robot.Evidence) != 1 {
		t.Errorf("%+v", robot)
	}
	var detail api.PoPDetail
	f.do(t, f.tcp, "GET", "/v1/pops/fra", "viewer", nil).into(t, &detail)
	if detail.PoP.Share != 40 || len(detail.Statements) != 2 || len(detail.PoP.Why) != 2 || detail.PoP.Why[0].Statement != robot.ID || !detail.PoP.Why[0].Decides || detail.PoP.Why[1].Author != "oscar" {
		t.Errorf("%+v", detail)
	}
	for path, body := range map[string]any{
		"/v1/restores": api.RestoreRequest{ID: person.ID, Order: because("up again")},
		"/v1/renewals": api.RenewRequest{ID: person.ID, Order: because("longer")},
	} {
		if a := f.do(t, f.tcp, "POST", path, "automation", body); a.status != 403 || a.problem.Name() != "forbidden" || a.problem.ID != person.ID {
			t.Errorf("%s: %d %+v", path, a.status, a.problem)
		}
	}
	lifted := f.change(t, f.tcp, "/v1/restores", "automation", api.RestoreRequest{Target: "fra", Order: because("up again")})
	if len(lifted.Ended) != 1 || lifted.Ended[0].ID != robot.ID || len(lifted.Remaining) != 1 || lifted.Remaining[0].ID != person.ID {
		t.Errorf("%+v", lifted)
	}
	if diff := cmp.Diff([]api.ShareChange{{Target: "fra", Before: 40, After: 90}}, lifted.Shares); diff != "" {
		t.Error(diff)
	}
	// A person lifts what automation said.
	robot = f.change(t, f.tcp, "/v1/drains", "automation", api.DrainRequest{Target: "dub", Order: because("probe")}).Statements[0]
	f.change(t, f.tcp, "/v1/restores", "operator", api.RestoreRequest{ID: robot.ID, Order: because("false alarm")})
}

// fullDisk refuses to write files once it is full.
type fullDisk struct {
	drain.OS
	full *bool
}

func (d fullDisk) Open(name string, flag int, mode fs.FileMode) (drain.File, error) {
	if *d.full && flag != 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOSPC}
	}
	return d.OS.Open(name, flag, mode)
}

func TestFullDisk(t *testing.T) {
	full := false
	f := newFixture(t)
	ledger, err := drain.New(drain.Config{Node: "node1", Dir: t.TempDir(), Fleet: func() *pops.Fleet { return f.fleet }, FS: fullDisk{full: &full}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	f = newFixture(t, func(c *Config) { c.Ledger = ledger })
	full = true
	request := api.DrainRequest{Target: "fra", Order: because("works")}
	a := f.do(t, f.unix, "POST", "/v1/drains", "", request)
	if a.status != 503 || a.problem.Name() != "unavailable" || !strings.Contains(a.problem.Detail, "no space left on device") || !strings.Contains(a.problem.Hint, "--override volatile") || a.header.Get("Retry-After") != "" {
		t.Errorf("%d %+v", a.status, a.problem)
	}
	request.Override = []string{"volatile"}
	done := f.change(t, f.unix, "/v1/drains", "", request)
	if done.Durable || len(done.Warnings) == 0 || !strings.Contains(strings.Join(done.Warnings, "\n"), "this node's disk has not confirmed it") {
		t.Errorf("%+v", done)
	}
	var status api.Status
	f.do(t, f.unix, "GET", "/v1/status", "", nil).into(t, &status)
	if status.Ledger.Durable || status.Ledger.Error == "" || status.Ledger.Active != 1 || !strings.Contains(strings.Join(status.Warnings, "\n"), "disk_failing: ") {
		t.Errorf("%+v %q", status.Ledger, status.Warnings)
	}
}

func TestNotServed(t *testing.T) {
	f := newFixture(t, func(c *Config) {
		c.Rebuild = func() error { return errors.New("geography was compiled for other zones") }
	})
	done := f.change(t, f.unix, "/v1/drains", "", api.DrainRequest{Target: "fra", Order: because("works")})
	if got := strings.Join(done.Warnings, "\n"); !strings.Contains(got, "not in the answers of this node yet: geography was compiled") {
		t.Error(got)
	}
	f.ledger.Close()
	if a := f.do(t, f.unix, "POST", "/v1/drains", "", api.DrainRequest{Target: "fra", Order: because("works")}); a.status != 503 || a.problem.Name() != "unavailable" {
		t.Errorf("%d %+v", a.status, a.problem)
	}
}
