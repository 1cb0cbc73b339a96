package admin

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/server/api"
)

func TestHealth(t *testing.T) {
	f := newFixture(t, func(c *Config) {
		c.Health = func() []api.EndpointHealth {
			return []api.EndpointHealth{{Target: "fra/wss", Verdict: api.HealthUp}, {Target: "fra/edge", Verdict: api.HealthUnknown}, {Target: "dub/wss", Verdict: api.HealthDown, Gray: true}}
		}
		c.Probe = func(_ context.Context, target, node string) ([]api.ProbeResult, error) {
			if target != "fra/wss" {
				return nil, errors.New(target + " is not checked")
			}
			return []api.ProbeResult{{Node: "node1", Address: "192.0.2.1", Error: "timeout"}}, nil
		}
	})
	for target, want := range map[string][]string{
		"": {"fra/wss", "fra/edge", "dub/wss"}, "?target=fra": {"fra/wss", "fra/edge"}, "?target=*/wss": {"fra/wss", "dub/wss"}, "?target=dub/wss": {"dub/wss"}, "?target=ams": nil,
	} {
		var h api.Health
		f.do(t, f.unix, "GET", "/v1/health"+target, "", nil).into(t, &h)
		var got []string
		for _, e := range h.Endpoints {
			got = append(got, e.Target)
		}
		if diff := cmp.Diff(want, got); diff != "" || h.Node != "node1" || h.Schema != api.Schema {
			t.Errorf("%q: %+v %s", target, h, diff)
		}
	}
	for _, path := range []string{"?target=fr", "?target=fra/", "?tarrget=fra"} {
		if a := f.do(t, f.unix, "GET", "/v1/health"+path, "", nil); a.status != 404 && a.status != 422 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	var r api.ProbeResults
	f.do(t, f.unix, "POST", "/v1/health/run", "", api.ProbeRequest{Target: "fra/wss"}).into(t, &r)
	want := api.ProbeResults{Schema: api.Schema, Target: "fra/wss", Results: []api.ProbeResult{{Node: "node1", Address: "192.0.2.1", Error: "timeout"}}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	for target, want := range map[string]int{"fra": 422, "*/wss": 422, "ams/wss": 404, "ams/edge": 404, "frra/wss": 404} {
		if a := f.do(t, f.unix, "POST", "/v1/health/run", "", api.ProbeRequest{Target: target}); a.status != want || a.problem.Field != "target" {
			t.Errorf("%s: %d %+v", target, a.status, a.problem)
		}
	}
}
