package admin

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/server/api"
)

func TestStatus(t *testing.T) {
	f := newFixture(t)
	f.change(t, f.unix, "/v1/pins", "", api.PinRequest{Target: "dub/edge", Start: f.ledger.Now().Add(time.Hour), Order: because("later")})
	shift := f.change(t, f.unix, "/v1/shifts", "", api.ShiftRequest{From: "fra/wss", To: "dub", By: new(40.0), Order: api.Order{Reason: "works", Author: "alice"}}).Statements[0]
	id, end := shift.ID, shift.End
	var got api.Status
	f.do(t, f.tcp, "GET", "/v1/status", "viewer", nil).into(t, &got)
	ptr := func(v float64) *float64 { return &v }
	want := api.Status{
		Schema: 1, Ready: true, Queries: ptr(250),
		Node:   api.Node{Name: "node1", Version: "1.2.3"},
		Ledger: api.Ledger{Active: 1, Scheduled: 1, Durable: true},
		PoPs: []api.PoP{
			{
				Name: "fra", Country: []string{"DE"}, Latitude: ptr(50.1), Longitude: ptr(8.7), Share: 100, Answers: ptr(60),
				Endpoints: []api.Endpoint{
					{
						Service: "wss", Addresses: []api.Address{{Address: "192.0.2.0"}, {Address: "2001:db8::1:1"}}, Share: 60, ShiftTo: "dub", Shed: 50,
						Load: &api.Load{Metric: "connections", Value: ptr(90), Low: ptr(80), High: ptr(100)}, Capacity: ptr(120),
						Why: []api.Reason{{Kind: api.KindShift, Class: api.ClassPerson, Statement: id, Text: "works", Share: 60, Decides: true, Applied: true, ShiftTo: "dub", End: end}},
					},
					{Service: "edge", Addresses: []api.Address{{Address: "192.0.2.1"}, {Address: "2001:db8::1:2"}}, Share: 100},
				},
			},
			{
				Name: "dub", Share: 100,
				Endpoints: []api.Endpoint{
					{Service: "wss", Addresses: []api.Address{{Address: "192.0.2.10"}, {Address: "2001:db8::2:1"}}, Share: 100, Load: &api.Load{Metric: "connections", Stale: true, Low: ptr(80), High: ptr(100)}, Capacity: ptr(100)},
					{Service: "edge", Addresses: []api.Address{{Address: "192.0.2.11"}, {Address: "2001:db8::2:2"}}, Share: 100},
				},
			},
			{
				Name: "ams", Share: 100,
				Endpoints: []api.Endpoint{
					{Service: "wss", Addresses: []api.Address{{Address: "192.0.2.20"}, {Address: "2001:db8::3:1"}}, Share: 100, Load: &api.Load{Metric: "connections", Stale: true, Low: ptr(80), High: ptr(100)}, Capacity: ptr(80)},
				},
			},
		},
	}
	if diff := cmp.Diff(want, got,
		cmpopts.IgnoreFields(api.Status{}, "Time", "Snapshot", "Statements", "Warnings"),
		cmpopts.IgnoreFields(api.Node{}, "Started"), cmpopts.IgnoreFields(api.Ledger{}, "Version"), cmpopts.IgnoreFields(api.Reason{}, "Author"),
	); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if got.Snapshot == 0 || got.Time.IsZero() || got.Ledger.Version == "" || len(got.Statements) != 2 || got.Statements[0].ID != id || got.Statements[1].State != api.StateScheduled {
		t.Errorf("%+v", got)
	}
	var all api.PoPs
	f.do(t, f.tcp, "GET", "/v1/pops", "viewer", nil).into(t, &all)
	if diff := cmp.Diff(got.PoPs, all.PoPs); diff != "" {
		t.Errorf("status and pops differ:\n%s", diff)
	}
}

// TestWarnings takes a PoP out of the configuration while a statement stands for it.
func TestWarnings(t *testing.T) {
	f := newFixture(t)
	id := f.change(t, f.unix, "/v1/drains", "", api.DrainRequest{Target: "ams", Order: api.Order{Reason: "works", Override: []string{"last"}}}).Statements[0].ID
	f.fleet = &pops.Fleet{PoPs: f.fleet.PoPs[:2], Services: f.fleet.Services, Endpoints: f.fleet.Endpoints[:4]}
	if err := f.cfg.Rebuild(); err != nil {
		t.Fatal(err)
	}
	var got api.Status
	f.do(t, f.unix, "GET", "/v1/status", "", nil).into(t, &got)
	if want := "statement " + id + " does nothing: ams does not exist any more"; !slices.Contains(got.Warnings, want) {
		t.Errorf("warnings %q", got.Warnings)
	}
	// It can still be taken back.
	f.change(t, f.unix, "/v1/restores", "", api.RestoreRequest{Target: "ams", Order: because("gone")})
}

func TestPoP(t *testing.T) {
	f := newFixture(t)
	f.change(t, f.unix, "/v1/drains", "", api.DrainRequest{Target: "*/edge", By: new(10.0), Order: because("works")})
	f.change(t, f.unix, "/v1/shifts", "", api.ShiftRequest{From: "fra/wss", To: "dub", Order: because("works")})
	for pop, want := range map[string]int{"fra": 2, "dub": 2, "ams": 1} { // a pattern touches everything, a shift where it leads, too
		var got api.PoPDetail
		f.do(t, f.unix, "GET", "/v1/pops/"+pop, "", nil).into(t, &got)
		if got.PoP.Name != pop || len(got.Statements) != want {
			t.Errorf("%s: %+v", pop, got)
		}
	}
	a := f.do(t, f.unix, "GET", "/v1/pops/fro", "", nil)
	if a.status != 404 || a.problem.Name() != "unknown-target" || a.problem.Near[0] != "fra" {
		t.Errorf("%d %+v", a.status, a.problem)
	}
}

// TestReads checks the parameters of what only looks.
func TestReads(t *testing.T) {
	f := newFixture(t)
	for _, target := range []string{"fra", "dub", "fra/wss"} {
		f.change(t, f.unix, "/v1/drains", "", api.DrainRequest{Target: target, By: new(10.0), Order: because("works")})
	}
	id := f.change(t, f.unix, "/v1/restores", "", api.RestoreRequest{Target: "dub", Order: because("done")}).Ended[0].ID
	for path, want := range map[string]int{
		"/v1/statements":                     2,
		"/v1/statements?all=false":           2,
		"/v1/statements?all=true":            3,
		"/v1/history":                        5, // the first start, too
		"/v1/history?target=fra":             2,
		"/v1/history?target=dub":             2,
		"/v1/history?target=gone":            0,
		"/v1/history?limit=2":                2,
		"/v1/history?before=3":               2,
		"/v1/history?id=" + id:               2,
		"/v1/explain?name=a&client=10.0.0.0": -1,
		"/v1/explain?name=a":                 -1, // whoever explains says what is missing
		"/v1/zones":                          1,
	} {
		a := f.do(t, f.unix, "GET", path, "", nil)
		n := -1
		switch {
		case strings.HasPrefix(path, "/v1/statements"):
			var v api.Statements
			a.into(t, &v)
			n = len(v.Statements)
		case strings.HasPrefix(path, "/v1/history"):
			var v api.History
			a.into(t, &v)
			n = len(v.Entries)
		case strings.HasPrefix(path, "/v1/zones"):
			var v api.Zones
			a.into(t, &v)
			n = len(v.Zones)
		default:
			a.into(t, new(api.Explanation))
		}
		if n != want {
			t.Errorf("%s: %d, want %d: %s", path, n, want, a.body)
		}
	}
	var page api.History
	f.do(t, f.unix, "GET", "/v1/history?limit=2", "", nil).into(t, &page)
	seen := len(page.Entries)
	for page.Before != 0 {
		before := page.Before
		page = api.History{}
		f.do(t, f.unix, "GET", "/v1/history?limit=2&before="+strconv.FormatUint(before, 10), "", nil).into(t, &page)
		seen += len(page.Entries)
	}
	if seen != 5 {
		t.Errorf("%d entries by pages", seen)
	}
	for path, field := range map[string]string{
		"/v1/statements?all=yes":                   "all",
		"/v1/statements?al=true":                   "al",
		"/v1/history?limit=0":                      "limit",
		"/v1/history?limit=1001":                   "limit",
		"/v1/history?limit=-1":                     "limit",
		"/v1/history?before=x":                     "before",
		"/v1/history?target=*":                     "target",
		"/v1/history?limit=1&limit=2":              "limit",
		"/v1/explain?client=192.0.2.1":             "name",
		"/v1/explain?name=a&client=nonsense":       "",
		"/v1/explain?name=a&client=10.0.0.0&x=%zz": "",
	} {
		a := f.do(t, f.unix, "GET", path, "", nil)
		if (a.status != 422 && a.status != 400) || a.problem.Field != field {
			t.Errorf("%s: %d %+v", path, a.status, a.problem)
		}
	}
}

func TestProbes(t *testing.T) {
	missing := []string{"no location database", "no statements from peers yet"}
	f := newFixture(t, func(c *Config) { c.NotReady = func() []string { return missing } })
	if a := f.do(t, f.tcp, "GET", "/healthz", "", nil); a.status != 200 || string(a.body) != `{"schema":1,"ok":true}`+"\n" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := f.do(t, f.tcp, "GET", "/readyz", "", nil); a.status != 503 || a.problem.Detail != "no location database; no statements from peers yet" {
		t.Errorf("%d %+v", a.status, a.problem)
	}
	missing = nil
	if a := f.do(t, f.tcp, "GET", "/readyz", "", nil); a.status != 200 {
		t.Errorf("%d", a.status)
	}
}

func TestNothingServed(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Publisher = new(server.Publisher) })
	for _, path := range []string{"/v1/status", "/v1/pops", "/v1/pops/fra", "/v1/explain?name=a&client=10.0.0.0"} {
		if a := f.do(t, f.unix, "GET", path, "", nil); a.status != 503 || a.problem.Name() != "unavailable" {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

// TestMetrics checks that every series is there from the start, is named as Prometheus wants it, and moves.
func TestMetrics(t *testing.T) {
	f := newFixture(t)
	problems, err := testutil.GatherAndLint(f.cfg.Registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	scrape := func() string {
		a := f.do(t, f.tcp, "GET", "/metrics", "viewer", nil)
		if a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return string(a.body)
	}
	before := scrape()
	for _, line := range []string{
		`edgesteer_admin_requests_total{route="POST /v1/drains",status="2xx"} 0`,
		`edgesteer_admin_denied_total{reason="credentials"} 0`,
		`edgesteer_admin_denied_total{reason="role"} 0`,
		`edgesteer_admin_alerts_total{outcome="failed"} 0`,
		`edgesteer_admin_event_streams 0`,
	} {
		if !strings.Contains(before, line+"\n") {
			t.Errorf("no %s at the start", line)
		}
	}
	f.change(t, f.unix, "/v1/drains", "", api.DrainRequest{Target: "fra", Order: because("works")})
	f.do(t, f.tcp, "POST", "/v1/drains", "viewer", "{}")
	f.do(t, f.tcp, "POST", "/v1/drains", "guess", "{}")
	f.do(t, f.tcp, "GET", "/v1/nothing/"+strings.Repeat("x", 100), "", nil)
	after := scrape()
	for _, line := range []string{
		`edgesteer_admin_requests_total{route="POST /v1/drains",status="2xx"} 1`,
		`edgesteer_admin_requests_total{route="POST /v1/drains",status="4xx"} 2`,
		`edgesteer_admin_requests_total{route="other",status="4xx"} 1`,
		`edgesteer_admin_denied_total{reason="credentials"} 1`,
		`edgesteer_admin_denied_total{reason="role"} 1`,
	} {
		if !strings.Contains(after, line+"\n") {
			t.Errorf("no %s afterwards", line)
		}
	}
	if strings.Contains(after, "xxx") {
		t.Error("a label took its value from a request")
	}
}
