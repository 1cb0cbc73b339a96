package cli

import (
	"encoding/json"
	"flag"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

// fake is an admin API that gives prepared answers, by method and path.
type fake struct {
	http.ServeMux
	server string // as --server takes it
}

func newFake(t *testing.T) *fake {
	t.Helper()
	dir, err := os.MkdirTemp("", "f") // a short path, for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &fake{server: "unix:" + filepath.Join(dir, "s")}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(f)
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return f
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if p, ok := v.(*api.Problem); ok {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(p.Status)
	}
	_ = json.NewEncoder(w).Encode(v)
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func moments(text string) *time.Time {
	t := at(text)
	return &t
}

// night is the status of a fleet with something of everything.
func night() *api.Status {
	return &api.Status{
		Schema: 1, Ready: true, Time: at("2026-03-29T03:10:00Z"), Queries: new(21_400.0),
		Node:   api.Node{Name: "dns-a", Started: at("2026-03-20T03:00:00Z")},
		Ledger: api.Ledger{Durable: false, Error: "no space left on device"},
		PoPs: []api.PoP{
			{Name: "eu-west-1", Share: 100, Answers: new(12.25), Endpoints: []api.Endpoint{{Service: "envoy-wss", Share: 100, Shed: 25, Capacity: new(100_000.0),
				Load: &api.Load{Metric: "connections", Value: new(85_000.0), Low: new(80_000.0), High: new(100_000.0)}}}},
			{Name: "eu-west-3", Share: 63, Answers: new(0.04), Why: []api.Reason{
				{Kind: api.KindDrain, Class: api.ClassPerson, Statement: "d-aaaaaaaaaa", Author: "alice", Text: "fibre works", Share: 63, Decides: true, Applied: true}},
				Endpoints: []api.Endpoint{
					{Service: "envoy-wss", Share: 63, Load: &api.Load{Metric: "connections", Stale: true}, Why: []api.Reason{{Kind: api.KindDrain, Decides: true, Applied: true}}},
					{Service: "envoy-edge", Share: 0, Addresses: []api.Address{{Address: "192.0.2.1", Down: true}}, Why: []api.Reason{
						{Kind: api.KindHealth, Text: "down", Decides: true, Applied: true},
						{Kind: api.KindDrain, Class: api.ClassPerson, Statement: "d-aaaaaaaaaa", Author: "alice", Text: "fibre works", Share: 63, Applied: true}}},
				}},
			{Name: "ap-northeast-1", Share: 100, Answers: new(87.7), Endpoints: []api.Endpoint{{Service: "envoy-wss", Share: 100}}},
		},
		Statements: []api.Statement{
			{ID: "d-aaaaaaaaaa", Kind: api.KindDrain, Class: api.ClassPerson, Target: "eu-west-3", By: 50, Share: 63, State: api.StateActive, Author: "alice", Ticket: "NET-123",
				Reason: "fibre works in the street before the building, again", End: moments("2026-03-29T11:00:00Z")},
			{ID: "p-bbbbbbbbbb", Kind: api.KindPin, Class: api.ClassPerson, Target: "eu-west-1/envoy-wss", Share: 100, State: api.StateActive, Author: "bob", Reason: "check is wrong"},
			{ID: "a-cccccccccc", Kind: api.KindDrain, Class: api.ClassAutomation, Target: "ap-northeast-1", By: 100, Share: 100, State: api.StateScheduled, Author: "alertmanager",
				Reason: "errors", Start: at("2026-03-29T04:00:00Z"), End: moments("2026-03-30T04:00:00Z")},
			{ID: "s-dddddddddd", Kind: api.KindShift, Class: api.ClassPerson, Target: "eu-west-1", To: "eu-west-3", By: 20, Share: 90, State: api.StateRestoring, Author: "bob", Reason: "peak"},
		},
		Warnings: []string{"clock_back: this machine's clock has jumped back"},
	}
}

// preview is a drain with something of everything.
func preview() *api.Change {
	made := at("2026-03-29T03:10:00Z")
	return &api.Change{
		Schema: 1, DryRun: true, Version: "v1", Expires: moments("2026-03-29T05:10:00Z"), Undo: "edgesteer restore eu-west-3 --reason 'undo d-new'",
		Statements: []api.Statement{{ID: "d-new", Kind: api.KindDrain, Class: api.ClassPerson, Target: "eu-west-3", By: 100, Made: made, Start: made, Node: "dns-a",
			Ramp: &api.Ramp{Over: api.Duration(10 * time.Minute), Steps: []float64{10, 100}}}},
		Ended: []api.Statement{{ID: "d-old", Kind: api.KindDrain, Class: api.ClassPerson, Target: "eu-west-3", By: 37, Made: made.Add(-90 * time.Minute), State: api.StateReplaced, Author: "bob",
			Reason: "it is slow"}},
		Shares: []api.ShareChange{{Target: "eu-west-3", Before: 63, After: 0}},
		Effect: &api.Effect{
			Queries: 2140, Moved: 8.31,
			PoPs: []api.PoPEffect{
				{PoP: "ap-northeast-1", ShareBefore: 100, ShareAfter: 100, AnswersBefore: new(40.0), AnswersAfter: new(40.25)},
				{PoP: "eu-west-1", ShareBefore: 100, ShareAfter: 100, AnswersBefore: new(51.69), AnswersAfter: new(59.75)},
				{PoP: "eu-west-3", ShareBefore: 63, ShareAfter: 0, AnswersBefore: new(8.31), AnswersAfter: new(0.0)},
			},
			Loads: []api.LoadEffect{
				{PoP: "eu-west-1", Service: "envoy-wss", Metric: "connections", Before: new(91_500.0), After: new(101_234.0), Peak: new(103_000.0), Capacity: new(100_000.0), Over: true},
				{PoP: "eu-west-3", Service: "envoy-wss", Metric: "connections", Before: new(9_900.0), After: new(0.0), Peak: new(0.0), Capacity: new(80_000.0)},
				{PoP: "ap-northeast-1", Service: "envoy-wss", Metric: "connections", Capacity: new(80_000.0)},
			},
			Heavy: []api.HeavyNetwork{{Network: "90.0.0.0/24", Record: "a.example.com. A", Percent: 11.7, From: "eu-west-3", To: "eu-west-1"}},
		},
		Guards: []api.Guard{
			{Name: api.GuardCapacity, Text: "eu-west-1/envoy-wss would have connections 103000, its capacity is 100000", Overridden: true},
			{Name: api.GuardLast, Text: "no available endpoint is left for a.example.com. A"},
			{Name: api.GuardLast, Text: "no available endpoint is left for b.example.com. A"},
			{Name: api.GuardLast, Text: "no available endpoint is left for c.example.com. A"},
			{Name: api.GuardLast, Text: "no available endpoint is left for d.example.com. A"},
			{Name: api.GuardLast, Text: "no available endpoint is left for e.example.com. A"},
		},
		Warnings: []string{"load after the change is unknown (no fresh load, or no capacity): ap-northeast-1/envoy-wss"},
	}
}

// golden compares with a file of testdata; -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if updating() {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s is not what is written; if it should be: go test -run %s . -update\n%s", file, t.Name(), got)
	}
	for i, line := range strings.Split(got, "\n") {
		if n := len([]rune(line)); n > 80 && !strings.Contains(line, "undo") && strings.HasSuffix(name, ".80") {
			t.Errorf("%s:%d has %d columns", file, i+1, n)
		}
	}
}

func updating() bool {
	return flag.Lookup("update").Value.String() == "true" // of TestMain
}
