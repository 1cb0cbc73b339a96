package admin

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

// firing is what Alertmanager 0.28 posts for two alerts.
const firing = `{
  "receiver": "edgesteer",
  "status": "firing",
  "alerts": [
    {
      "status": "firing",
      "labels": {"alertname": "EnvoyHandshakeFailing", "job": "blackbox", "pop": "fra", "service": "wss", "severity": "page"},
      "annotations": {"description": "Value 0.43 is above 0.05", "summary": "Websocket handshakes fail at fra:\r\n43 % in 5 minutes", "runbook_url": "https://runbooks.example.com/wss"},
      "startsAt": "2026-03-04T03:12:45.123Z",
      "endsAt": "0001-01-01T00:00:00Z",
      "generatorURL": "http://prometheus:9090/graph?g0.expr=probe_success+%3C+1&g0.tab=1",
      "fingerprint": "5f972974ccf1ee9b"
    },
    {
      "status": "firing",
      "labels": {"alertname": "DiskFull", "instance": "db1"},
      "annotations": {},
      "startsAt": "2026-03-04T03:00:00Z",
      "endsAt": "0001-01-01T00:00:00Z",
      "generatorURL": "",
      "fingerprint": "aaaa2974ccf1ee9b"
    }
  ],
  "groupLabels": {"alertname": "EnvoyHandshakeFailing"},
  "commonLabels": {},
  "commonAnnotations": {},
  "externalURL": "http://alertmanager:9093",
  "version": "4",
  "groupKey": "{}:{alertname=\"EnvoyHandshakeFailing\"}",
  "truncatedAlerts": 0
}`

func TestAlertmanager(t *testing.T) {
	f := newFixture(t)
	post := func(body string) api.AlertAnswer {
		var a api.AlertAnswer
		f.do(t, f.tcp, "POST", "/v1/webhooks/alertmanager", "automation", body).into(t, &a)
		return a
	}
	first := post(firing)
	want := []api.AlertResult{
		{Fingerprint: "5f972974ccf1ee9b", Target: "fra/wss", Outcome: api.AlertDrained, Statement: first.Alerts[0].Statement},
		{Fingerprint: "aaaa2974ccf1ee9b", Outcome: api.AlertIgnored},
	}
	if diff := cmp.Diff(want, first.Alerts); diff != "" || first.Alerts[0].Statement == "" {
		t.Errorf("first post (-want +got):\n%s", diff)
	}
	var said api.Statements
	f.do(t, f.tcp, "GET", "/v1/statements", "viewer", nil).into(t, &said)
	wantStatement := api.Statement{
		ID: first.Alerts[0].Statement, Version: 1, Kind: api.KindDrain, Class: api.ClassAutomation, Target: "fra/wss", By: 100, State: api.StateActive,
		Author: "autumn", Reason: "alert EnvoyHandshakeFailing: Websocket handshakes fail at fra:  43 % in 5 minutes",
		Ticket: "http://prometheus:9090/graph?g0.expr=probe_success+%3C+1&g0.tab=1",
		Outage: "5f972974ccf1ee9b 2026-03-04T03:12:45.123Z", Evidence: []string{"alert EnvoyHandshakeFailing 5f972974ccf1ee9b"}, Node: "node1",
	}
	if diff := cmp.Diff([]api.Statement{wantStatement}, said.Statements, cmpopts.IgnoreFields(api.Statement{}, "Made", "Start", "End")); diff != "" {
		t.Errorf("statements (-want +got):\n%s", diff)
	}
	// Alertmanager says it again every few hours, and another one of its cluster does too.
	if diff := cmp.Diff(first, post(firing)); diff != "" || len(f.ledger.Statements()) != 1 {
		t.Errorf("second post, %d statements:\n%s", len(f.ledger.Statements()), diff)
	}
	resolved := strings.ReplaceAll(strings.ReplaceAll(firing, `"firing"`, `"resolved"`), "0001-01-01T00:00:00Z", "2026-03-04T04:00:00Z")
	want[0].Outcome, want[1].Outcome = api.AlertLifted, api.AlertIgnored
	for range 2 {
		if diff := cmp.Diff(want, post(resolved).Alerts); diff != "" {
			t.Errorf("resolved (-want +got):\n%s", diff)
		}
	}
	if e, _ := f.ledger.Statement(want[0].Statement); e.Lift == nil || !strings.HasPrefix(e.Lift.Reason, "resolved: alert EnvoyHandshakeFailing") {
		t.Errorf("%+v", e)
	}
	// It fires again: another outage.
	next := post(strings.ReplaceAll(firing, "2026-03-04T03:12:45.123Z", "2026-03-04T05:00:00Z"))
	if a := next.Alerts[0]; a.Outcome != api.AlertDrained || a.Statement == want[0].Statement {
		t.Errorf("%+v", a)
	}
	if n := testutil.ToFloat64(f.metrics.alerts.WithLabelValues("drained")); n != 3 {
		t.Errorf("%v alerts counted as drained", n)
	}
}

// alerts makes a post of alerts with these labels.
func alerts(t *testing.T, labels ...map[string]string) string {
	g := api.AlertGroup{Version: "4", Status: "firing"}
	for i, l := range labels {
		a := api.Alert{Status: "firing", Labels: l, Fingerprint: strings.Repeat("f", i+1)}
		if err := a.StartsAt.UnmarshalText([]byte("2026-03-04T03:12:45Z")); err != nil {
			t.Fatal(err)
		}
		g.Alerts = append(g.Alerts, a)
	}
	data, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAlertmanagerRefusals(t *testing.T) {
	f := newFixture(t)
	good, lost, guarded := map[string]string{"pop": "fra"}, map[string]string{"pop": "frb"}, map[string]string{"pop": "ams"}
	everywhere := map[string]string{"service": "edge"}
	for _, test := range []struct {
		name, body string
		status     int
		detail     string
		statements int // in all, afterwards
	}{
		{"guard rail holds", alerts(t, guarded), 200, "", 0},
		{"unknown PoP beside a good one", alerts(t, lost, good), 422, `alert f: labels: unknown PoP "frb": did you mean "fra"`, 1},
		{"a service everywhere", alerts(t, everywhere), 200, "", 2},
		{"other version", strings.Replace(firing, `"version": "4"`, `"version": "5"`, 1), 422, `version "5"`, 2},
		{"no JSON", "alert!", 400, "not what Alertmanager sends", 2},
		{"no fingerprint", strings.Replace(firing, "5f972974ccf1ee9b", "", 1), 422, "cannot be told from others", 2},
		{"too many", alerts(t, make([]map[string]string, maxAlerts+1)...), 413, "more than 1000", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			f.cfg.Settings.MaxBody = 1 << 20
			a := f.do(t, f.tcp, "POST", "/v1/webhooks/alertmanager", "automation", test.body)
			if a.status != test.status || !strings.Contains(a.problem.Detail, test.detail) {
				t.Errorf("%d %s", a.status, a.body)
			}
			if n := len(f.ledger.Statements()); n != test.statements {
				t.Errorf("%d statements, want %d", n, test.statements)
			}
		})
	}
	f.ledger.Close()
	if a := f.do(t, f.tcp, "POST", "/v1/webhooks/alertmanager", "automation", alerts(t, good)); a.status != 503 {
		t.Errorf("a node that cannot: %d, want 503 so that it is sent again", a.status)
	}
}

// A resolved alert's drain is held for as long as the rules say, and then gives back along the ramp; whoever says it again moves nothing.
func TestAlertmanagerHolds(t *testing.T) {
	rules := Automation{Enabled: true, Hold: 10 * time.Minute, Back: drain.Way{Over: 2 * time.Minute, Steps: []float64{50, 100}}}
	f := newFixture(t, func(c *Config) { c.Automation = func(pops.Target) Automation { return rules } })
	post := func(body string) api.AlertResult {
		t.Helper()
		var a api.AlertAnswer
		f.do(t, f.tcp, "POST", "/v1/webhooks/alertmanager", "automation", body).into(t, &a)
		return a.Alerts[0]
	}
	id := post(firing).Statement
	end := f.ledger.Now().Add(-4 * time.Minute)
	resolved := strings.ReplaceAll(strings.ReplaceAll(firing, `"firing"`, `"resolved"`), "0001-01-01T00:00:00Z", end.UTC().Format(time.RFC3339))
	var first *drain.Entry
	for range 2 {
		if a := post(resolved); a.Outcome != api.AlertHeld || a.Statement != id {
			t.Fatalf("%+v", a)
		}
		e, _ := f.ledger.Statement(id)
		if first == nil {
			first = e
		}
		if left := e.Expires.Sub(end); e.Lift != nil || left < 9*time.Minute || left > 11*time.Minute || e.Version != first.Version {
			t.Fatalf("ends %s after the outage, want 10m: %+v", left, e)
		}
	}
	if share := first.Share(first.Expires.Add(time.Second)); share != 50 {
		t.Errorf("%v %% right after the end, want 50", share)
	}
	// An outage that ended long ago needs no holding.
	next := strings.ReplaceAll(firing, "2026-03-04T03:12:45.123Z", "2026-03-04T05:00:00Z")
	id = post(next).Statement
	resolved = strings.ReplaceAll(strings.ReplaceAll(next, `"firing"`, `"resolved"`), "0001-01-01T00:00:00Z", end.Add(-time.Hour).UTC().Format(time.RFC3339))
	if a := post(resolved); a.Outcome != api.AlertLifted || a.Statement != id {
		t.Errorf("%+v", a)
	}
	// Where automation is switched off alerts do nothing, but what stands can still end.
	rules.Enabled = false
	if a := post(strings.ReplaceAll(firing, "2026-03-04T03:12:45.123Z", "2026-03-04T06:00:00Z")); a.Outcome != api.AlertIgnored || a.Error == "" {
		t.Errorf("%+v", a)
	}
}
