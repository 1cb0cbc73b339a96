package admin

import (
	"errors"
	"testing"

	"github.com/edgesteer/edgesteer/server/api"
)

// keeper keeps loads for a test.
type keeper struct {
	loads []api.LoadSample
	feeds map[string]float64
}

func (k *keeper) Status() *api.Loads {
	return &api.Loads{Loads: []api.Value{{Name: "fra/wss", Stale: true}}, Feeds: []api.Value{}}
}

func (k *keeper) Push(l []api.LoadSample) (int, error) {
	for i := range l {
		if *l[i].Value < 0 {
			return i, errors.New("no load")
		}
	}
	k.loads = append(k.loads, l...)
	return 0, nil
}

func (k *keeper) Feed(name string, r *api.FeedReport) (bool, error) {
	if name != "lb-eu" {
		return false, nil
	}
	k.feeds[name] = *r.Value
	return true, nil
}

func TestLoads(t *testing.T) {
	k := &keeper{feeds: map[string]float64{}}
	f := newFixture(t, func(c *Config) { c.Loads = k })
	for _, tt := range []struct {
		path, body string
		status     int
		field      string
	}{
		{"/v1/loads", `{"loads": [{"target": "fra/wss", "value": 81200}, {"target": "dub/wss", "value": 0, "time": "2026-01-02T03:04:05Z"}]}`, 200, ""},
		{"/v1/loads", `{"loads": []}`, 422, "loads"},
		{"/v1/loads", `{}`, 422, "loads"},
		{"/v1/loads", `{"loads": [{"target": "fra/wss", "value": 1}, {"target": "frb/wss", "value": 1}]}`, 404, "loads[1].target"},
		{"/v1/loads", `{"loads": [{"target": "fra/wss"}]}`, 422, "loads[0].value"},
		{"/v1/loads", `{"loads": [{"target": "fra/wss", "value": 1}, {"target": "dub/wss", "value": -1}]}`, 422, "loads[1]"},
		{"/v1/loads", `{"loads": [{"target": "fra/wss", "valu": 1}]}`, 400, ""},
		{"/v1/feeds/lb-eu", `{"value": 1}`, 200, ""},
		{"/v1/feeds/lb-eu", `{}`, 422, "value"},
		{"/v1/feeds/other", `{"value": 1}`, 404, ""},
	} {
		a := f.do(t, f.tcp, "POST", tt.path, "automation", tt.body)
		if a.status != tt.status && !(tt.status == 400 && a.status == 422) || tt.field != "" && a.problem.Field != tt.field {
			t.Errorf("%s %s: %d %+v", tt.path, tt.body, a.status, a.problem)
		}
	}
	if len(k.loads) != 2 || k.feeds["lb-eu"] != 1 {
		t.Errorf("%+v", k)
	}
	var l api.Loads
	f.do(t, f.tcp, "GET", "/v1/loads", "viewer", nil).into(t, &l)
	if len(l.Loads) != 1 || !l.Loads[0].Stale || l.Schema != api.Schema {
		t.Errorf("%+v", l)
	}
	if a := f.do(t, f.tcp, "POST", "/v1/loads", "viewer", `{"loads": []}`); a.status != 403 {
		t.Errorf("a viewer reports loads: %d", a.status)
	}
}
