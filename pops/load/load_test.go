package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server/config"
)

func fleet() *pops.Fleet {
	return &pops.Fleet{
		PoPs: []pops.PoP{{Name: "fra"}, {Name: "dub"}}, Services: []pops.Service{{Name: "wss"}, {Name: "edge"}},
		Endpoints: []pops.Endpoint{{PoP: 0, Service: 0}, {PoP: 1, Service: 0}, {PoP: 0, Service: 1}},
		Feeds:     []string{"lb-eu", "other"},
	}
}

func configured(l *config.Metric) *config.Config {
	return &config.Config{
		Services: []config.Service{{Name: "wss", Load: l}, {Name: "edge"}},
		Feeds:    []config.Feed{{Name: "lb-eu", MaxAge: 30 * time.Second}, {Name: "nobody", MaxAge: time.Second}},
	}
}

func store(t *testing.T, node string, cfg *config.Config) *Store {
	t.Helper()
	s, err := New(Config{Node: node, Plan: NewPlan(cfg, fleet()), Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func target(s string) pops.Target {
	t, err := pops.ParseTarget(s)
	if err != nil {
		panic(err)
	}
	return t
}

func TestPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t, "n1", configured(&config.Metric{MaxAge: 20 * time.Second}))
		now := time.Now()
		for _, tt := range []struct {
			name  string
			loads []Load
			index int
			err   string
		}{
			{"unknown endpoint", []Load{{Target: target("fra/wss"), Value: 1}, {Target: target("dub/edge"), Value: 1}}, 1, "dub/edge is no endpoint"},
			{"a whole PoP", []Load{{Target: target("fra"), Value: 1}}, 0, "fra is no endpoint"},
			{"negative", []Load{{Target: target("fra/wss"), Value: -1}}, 0, "load -1 is no load"},
			{"not a number", []Load{{Target: target("fra/wss"), Value: math.NaN()}}, 0, "load NaN is no load"},
			{"to come", []Load{{Target: target("fra/wss"), Value: 1, At: now.Add(2 * time.Minute)}}, 0, "its time is in the future"},
		} {
			err := s.Push(tt.loads)
			var bad *InvalidError
			if !errors.As(err, &bad) || bad.Index != tt.index || bad.Text != tt.err {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
		if diff := cmp.Diff(make([]pops.Load, 3), s.Loads(fleet())); diff != "" {
			t.Error("what was refused changed something:", diff)
		}
		if err := s.Push([]Load{{Target: target("fra/wss"), Value: 81}, {Target: target("fra/edge"), Value: 5, At: now.Add(-30 * time.Second)}}); err != nil {
			t.Fatal(err)
		}
		want := []pops.Load{{Value: 81, At: now, Fresh: now.Add(20 * time.Second)}, {}, {Value: 5, At: now.Add(-30 * time.Second), Fresh: now.Add(30 * time.Second)}}
		if diff := cmp.Diff(want, s.Loads(fleet())); diff != "" {
			t.Error(diff)
		}
		select {
		case <-s.Changed():
		default:
			t.Error("no change was told")
		}
		// An older sample changes nothing.
		if err := s.Push([]Load{{Target: target("fra/wss"), Value: 1, At: now.Add(-time.Second)}}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, s.Loads(fleet())); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t, "n1", configured(nil))
		if err := s.Feed("nobody", 1, nil, time.Time{}); !errors.Is(err, ErrUnknownFeed) {
			t.Errorf("a feed that nothing is bound to: %v", err)
		}
		if err := s.Feed("lb-eu", math.Inf(1), nil, time.Time{}); err == nil {
			t.Error("infinity is a value")
		}
		nan := func() []float64 { return []float64{math.NaN(), math.NaN()} }
		equal := cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })
		if diff := cmp.Diff(nan(), s.Feeds(fleet()), equal); diff != "" {
			t.Error(diff)
		}
		now := time.Now()
		if err := s.Feed("lb-eu", 0, nil, time.Time{}); err != nil {
			t.Fatal(err)
		}
		want := nan()
		want[0] = 0
		if diff := cmp.Diff(want, s.Feeds(fleet()), equal); diff != "" {
			t.Error(diff)
		}
		if next := s.NextChange(now); !next.Equal(now.Add(30 * time.Second)) {
			t.Errorf("next change %s", next)
		}
		time.Sleep(30 * time.Second)
		if diff := cmp.Diff(nan(), s.Feeds(fleet()), equal); diff != "" {
			t.Error("stale:", diff)
		}
		if next := s.NextChange(time.Now()); !next.IsZero() {
			t.Errorf("next change %s", next)
		}
		want2 := []Status{{Name: "lb-eu", Known: true, Sample: Sample{Value: 0, At: now, Node: "n1"}, Stale: true, MaxAge: 30 * time.Second}, {Name: "other", Stale: true, MaxAge: time.Minute}}
		if diff := cmp.Diff(want2, s.FeedStatus()); diff != "" {
			t.Error(diff)
		}
	})
}

// Whatever the order and however often: the newest sample counts everywhere.
func TestMerge(t *testing.T) {
	base := time.Unix(1e9, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	var states [][]byte
	for i := range 8 {
		samples := map[string]Sample{"nonsense": {}, "load nowhere/wss": {}}
		for _, key := range []string{"load fra/wss", "load dub/wss", "feed lb-eu"} {
			if rng.IntN(2) == 0 {
				samples[key] = Sample{Value: float64(rng.IntN(3)), At: base.Add(time.Duration(rng.IntN(3)) * time.Second), Node: fmt.Sprint("n", i%2)}
			}
		}
		states = append(states, encode(samples))
	}
	var want []byte
	for n := range 100 {
		s := store(t, "n1", configured(nil))
		for range 2 {
			for _, i := range rng.Perm(len(states)) {
				if err := s.Merge(states[i]); err != nil {
					t.Fatal(err)
				}
			}
		}
		got, err := s.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			want = got
		}
		if string(got) != string(want) {
			t.Fatalf("%s\n%s", got, want)
		}
	}
	for _, bad := range []string{"", "{", "[]", `{"version": 9}`} {
		if store(t, "n1", configured(nil)).Merge([]byte(bad)) == nil {
			t.Errorf("%q was merged", bad)
		}
	}
}

// A sample of a clock that was far ahead does not stand in the way of all later ones.
func TestMergeAhead(t *testing.T) {
	s, now := store(t, "n1", configured(nil)), time.Now()
	for _, sample := range []Sample{
		{Value: 1, At: now.Add(30 * time.Second), Node: "n2"}, // clocks differ
		{Value: 2, At: now.Add(time.Hour), Node: "n3"},
		{Value: 3, At: now.Add(50 * 365 * 24 * time.Hour), Node: "n4"},
	} {
		if err := s.Merge(encode(map[string]Sample{"load fra/wss": sample})); err != nil {
			t.Error(err)
		}
	}
	if got := s.Loads(fleet())[0].Value; got != 1 {
		t.Errorf("load %v, want 1", got)
	}
}

func TestBroadcast(t *testing.T) {
	other := store(t, "n2", configured(nil))
	n := 0
	s, err := New(Config{Node: "n1", Plan: NewPlan(configured(nil), fleet()), Broadcast: func(_ string, b []byte) {
		n++
		if err := other.Merge(b); err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Push([]Load{{Target: target("fra/wss"), Value: 7}, {Target: target("dub/wss"), Value: 8}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Loads(fleet()), other.Loads(fleet())); diff != "" || n != 2 {
		t.Error(n, diff)
	}
}

func TestReload(t *testing.T) {
	s := store(t, "n1", configured(nil))
	if err := s.Push([]Load{{Target: target("fra/wss"), Value: 7}, {Target: target("dub/wss"), Value: 8}}); err != nil {
		t.Fatal(err)
	}
	f := fleet()
	f.Endpoints = f.Endpoints[:1]
	s.Reload(NewPlan(configured(nil), f))
	if l := s.Loads(fleet()); l[0].Value != 7 || l[1].Value != 0 {
		t.Errorf("%+v", l)
	}
}

// fetchOnce is what one fetch of a source gives: loads by endpoint, or a fault.
func fetchOnce(t *testing.T, cfg *config.Config) (loads map[string]float64, fault string) {
	t.Helper()
	s := store(t, "n1", cfg)
	src := &s.plan.sources[0]
	got, err := s.fetch(t.Context(), src)
	s.fetched(src, got, err)
	loads = map[string]float64{}
	for _, st := range s.LoadStatus() {
		if st.Known {
			loads[st.Name] = st.Sample.Value
		}
	}
	return loads, s.sources["wss"].fault
}

func TestPoll(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		status     int
		want       map[string]float64
		fault      string
	}{
		{"good", `{"fra": 81200, "dub": 0.5}`, 200, map[string]float64{"fra/wss": 81200, "dub/wss": 0.5}, ""},
		{"another PoP, too", `{"fra": 1, "nowhere": 2}`, 200, map[string]float64{"fra/wss": 1}, ""},
		{"one is bad", `{"fra": 1, "dub": -2}`, 200, map[string]float64{"fra/wss": 1}, "load -2 of dub is no load"},
		{"none", `{}`, 200, map[string]float64{}, "no loads of any endpoint"},
		{"no JSON", `hello`, 200, map[string]float64{}, "the answer is no JSON object of numbers by PoP"},
		{"no numbers", `{"fra": "many"}`, 200, map[string]float64{}, "the answer is no JSON object of numbers by PoP"},
		{"broken", `{}`, 500, map[string]float64{}, "status 500"},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			fmt.Fprint(w, tt.body)
		}))
		loads, fault := fetchOnce(t, configured(&config.Metric{URL: srv.URL}))
		srv.Close()
		if diff := cmp.Diff(tt.want, loads); diff != "" || fault != tt.fault {
			t.Errorf("%s: %q %s", tt.name, fault, diff)
		}
	}
	if _, fault := fetchOnce(t, configured(&config.Metric{URL: "http://127.0.0.1:1/secret"})); fault != "dial tcp 127.0.0.1:1: connect: connection refused" {
		t.Error(fault)
	}
}

func TestPrometheus(t *testing.T) {
	sample := func(pop, value string) map[string]any {
		return map[string]any{"metric": map[string]string{"pop": pop}, "value": []any{1e9, value}}
	}
	for _, tt := range []struct {
		name   string
		result []any
		want   map[string]float64
		fault  string
	}{
		{"good", []any{sample("fra", "81200"), sample("dub", "0.5")}, map[string]float64{"fra/wss": 81200, "dub/wss": 0.5}, ""},
		{"nothing", []any{}, map[string]float64{}, "no loads of any endpoint"},
		{"no label", []any{map[string]any{"metric": map[string]string{}, "value": []any{1e9, "1"}}}, map[string]float64{}, "a sample has no label pop"},
		{"twice", []any{sample("fra", "1"), sample("fra", "2")}, map[string]float64{}, "two samples of fra: sum by (pop) makes one of them"},
		{"NaN", []any{sample("fra", "NaN"), sample("dub", "1")}, map[string]float64{"dub/wss": 1}, "load NaN of fra is no load"},
	} {
		token := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/query" || r.FormValue("query") != "sum by (pop) (conns)" || r.Header.Get("Authorization") != "Bearer secret" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": tt.result}})
		}))
		cfg := configured(&config.Metric{Query: "sum by (pop) (conns)"})
		cfg.Prometheus = config.Prometheus{URL: srv.URL, TokenFile: token}
		loads, fault := fetchOnce(t, cfg)
		srv.Close()
		if diff := cmp.Diff(tt.want, loads); diff != "" || fault != tt.fault {
			t.Errorf("%s: %q %s", tt.name, fault, diff)
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"status":"error","errorType":"bad_data","error":"parse error at char 1"}`)
	}))
	defer srv.Close()
	cfg := configured(&config.Metric{Query: "("})
	cfg.Prometheus = config.Prometheus{URL: srv.URL}
	if _, fault := fetchOnce(t, cfg); fault != "prometheus: parse error at char 1" {
		t.Error(fault)
	}
}

// fakeTransport answers polls without a network.
type fakeTransport struct {
	n    atomic.Int64
	body atomic.Pointer[string]
}

func (f *fakeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	f.n.Add(1)
	w := httptest.NewRecorder()
	fmt.Fprint(w, *f.body.Load())
	res := w.Result()
	res.Request = r
	return res, nil
}

// A source is asked once per interval; when it stops, its loads grow stale.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, good, none := &fakeTransport{}, `{"fra": 5}`, `{}`
		f.body.Store(&good)
		cfg := configured(&config.Metric{URL: "http://192.0.2.1/", Interval: 10 * time.Second, MaxAge: 25 * time.Second})
		r := prometheus.NewRegistry()
		s, err := New(Config{Node: "n1", Plan: NewPlan(cfg, fleet()), Transport: f, Log: slog.New(slog.DiscardHandler), Registerer: r})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		defer func() { stop(); <-done }()
		go func() { defer close(done); s.Run(ctx) }()
		time.Sleep(65 * time.Second)
		synctest.Wait()
		if n := f.n.Load(); n != 7 {
			t.Errorf("%d polls in 65 s", n)
		}
		if st := s.LoadStatus(); st[2].Name != "fra/wss" || st[2].Stale || st[2].Sample.Value != 5 {
			t.Errorf("%+v", st)
		}
		f.body.Store(&none)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if st := s.LoadStatus(); !st[2].Stale || st[2].Sample.Value != 5 {
			t.Errorf("%+v", st)
		}
		s.Reload(NewPlan(configured(nil), fleet()))
		synctest.Wait()
		before := f.n.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		if f.n.Load() != before {
			t.Error("a source that is not configured any more is polled")
		}
		if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
	})
}

// What feeds say of places and notes, as a configuration would have it; numbers only where numbers are wanted.
func TestSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := configured(nil)
		cfg.PoPs = []config.PoP{{Name: "fra", Country: map[string]any{"feed": "place"}, Meta: config.Meta{
			"asn": map[string]any{"feed": "asn"}, "latitude": map[string]any{"feed": "lat"}, "note": map[string]any{"feed": "note"}, "weight": map[string]any{"feed": "lb-eu"},
		}}}
		s := store(t, "n1", cfg)
		if err := s.Feed("lb-eu", 0, []string{"DE"}, time.Time{}); err == nil {
			t.Error("a number is a text")
		}
		for name, text := range map[string][]string{"place": {"DE", "FR"}, "note": {"works"}, "asn": nil, "lat": nil} {
			if err := s.Feed(name, map[string]float64{"asn": 64496, "lat": 50.1}[name], text, time.Time{}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		want := map[string]any{"place": []any{"DE", "FR"}, "note": "works", "asn": int64(64496), "lat": 50.1}
		if diff := cmp.Diff(want, s.Said()); diff != "" {
			t.Error(diff)
		}
		other := store(t, "n2", cfg)
		state, err := s.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Merge(state); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, other.Said()); diff != "" {
			t.Errorf("another node: %s", diff)
		}
		time.Sleep(time.Minute)
		if got := s.Said(); len(got) != 0 {
			t.Errorf("stale: %v", got)
		}
	})
}

// Scrapers see how old loads and values of feeds are, and which are too old; what nobody ever reported is not stale unless it is fetched.
func TestAgeMetrics(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	registry := prometheus.NewRegistry()
	s, err := New(Config{
		Node: "a", Now: func() time.Time { return now }, Registerer: registry,
		Plan: &Plan{
			loads:   map[string]time.Duration{"fra/wss": time.Minute, "iad/wss": time.Minute, "sin/edge": time.Minute},
			feeds:   map[string]time.Duration{"weather": time.Minute},
			sources: []source{{service: "edge"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Push([]Load{{Target: pops.Target{PoP: "fra", Service: "wss"}, Value: 1}}); err != nil {
		t.Fatal(err)
	}
	want := func(fra, weather string) {
		t.Helper()
		text := `
# HELP edgesteer_feed_stale 1 while the value of a feed is too old to count, or there was none: what is bound to it has its configured value; absent without feeds.
# TYPE edgesteer_feed_stale gauge
edgesteer_feed_stale{feed="weather"} ` + weather + `
# HELP edgesteer_load_stale 1 while the load of an endpoint is too old to count, or there was none although this node fetches it; absent where no load was ever expected.
# TYPE edgesteer_load_stale gauge
edgesteer_load_stale{pop="fra",service="wss"} ` + fra + `
edgesteer_load_stale{pop="sin",service="edge"} 1
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text), "edgesteer_feed_stale", "edgesteer_load_stale"); err != nil {
			t.Error(err)
		}
	}
	want("0", "1")
	if err := s.Feed("weather", 1, nil, now); err != nil {
		t.Fatal(err)
	}
	want("0", "0")
	now = now.Add(time.Minute)
	want("1", "1")
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}
