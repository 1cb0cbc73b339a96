package admin

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

func TestDrills(t *testing.T) {
	configured := []api.Drill{{Target: "fra/wss", By: 100, Window: "Tue 10:00-11:00 UTC", Next: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)}}
	f := newFixture(t, func(c *Config) {
		c.Drills = func() []api.Drill { return configured }
		c.Drill = func(target pops.Target, last time.Duration) (drain.Request, error) {
			if target.String() != "fra/wss" {
				return drain.Request{}, errors.New("no drill of " + target.String() + " is configured, there are fra/wss")
			}
			if last == 0 {
				last = time.Hour
			}
			return drain.Request{Kind: pops.Drain, Target: target, By: 100, Role: pops.Drill, For: last}, nil
		}
	})
	var list api.Drills
	f.do(t, f.tcp, "GET", "/v1/drills", "viewer", nil).into(t, &list)
	if diff := cmp.Diff(api.Drills{Schema: api.Schema, Drills: configured}, list); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct {
		name, role string
		request    api.DrillRequest
		status     int
	}{
		{"a viewer may not", "viewer", api.DrillRequest{Target: "fra/wss", Order: because("practice")}, 403},
		{"automation may not", "automation", api.DrillRequest{Target: "fra/wss", Order: because("practice")}, 403},
		{"no such PoP", "operator", api.DrillRequest{Target: "frb", Order: because("practice")}, 404},
		{"not configured", "operator", api.DrillRequest{Target: "fra", Order: because("practice")}, 404},
		{"for ever", "operator", api.DrillRequest{Target: "fra/wss", For: api.Forever, Order: because("practice")}, 422},
		{"no reason", "operator", api.DrillRequest{Target: "fra/wss"}, 422},
		{"an override", "operator", api.DrillRequest{Target: "fra/wss", Order: api.Order{Reason: "practice", Override: []string{"half"}}}, 403},
	} {
		if a := f.do(t, f.tcp, "POST", "/v1/drills", tt.role, tt.request); a.status != tt.status {
			t.Errorf("%s: %d %s", tt.name, a.status, a.body)
		}
	}
	if n := len(f.ledger.Statements()); n != 0 {
		t.Errorf("%d statements", n)
	}
	var done api.Change
	f.do(t, f.tcp, "POST", "/v1/drills", "operator", api.DrillRequest{Target: "fra/wss", For: api.Duration(30 * time.Minute), Order: because("practice")}).into(t, &done)
	if s := done.Statements[0]; s.Class != api.ClassDrill || s.Author != "oscar" || s.Reason != "practice" || s.Target != "fra/wss" || s.End == nil || done.Undo == "" {
		t.Errorf("%+v", done)
	}
}

// Every alert is told of to whom it may concern, whatever it is about.
func TestAlerted(t *testing.T) {
	var got []string
	f := newFixture(t, func(c *Config) {
		c.Alerted = func(name string, firing bool) {
			if firing {
				name += "!"
			}
			got = append(got, name)
		}
	})
	f.do(t, f.tcp, "POST", "/v1/webhooks/alertmanager", "automation", firing)
	if diff := cmp.Diff([]string{"EnvoyHandshakeFailing!", "DiskFull!"}, got); diff != "" {
		t.Error(diff)
	}
}
