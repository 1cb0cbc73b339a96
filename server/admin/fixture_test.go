package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
)

// fleet is three PoPs with two services; ams has one of them.
func fleet() *pops.Fleet {
	watermark := func(v float64) pops.Value { return pops.Value{Set: true, Const: v} }
	endpoint := func(pop, service int, capacity float64) pops.Endpoint {
		e := pops.Endpoint{PoP: pop, Service: service, Capacity: capacity, Addresses: []netip.Addr{
			netip.AddrFrom4([4]byte{192, 0, 2, byte(10*pop + service)}), netip.MustParseAddr(fmt.Sprintf("2001:db8::%d:%d", pop+1, service+1)),
		}}
		if service == 0 {
			e.Low, e.High = watermark(80), watermark(100)
		}
		return e
	}
	return &pops.Fleet{
		PoPs:     []pops.PoP{{Name: "fra"}, {Name: "dub"}, {Name: "ams"}},
		Services: []pops.Service{{Name: "wss", Metric: pops.Connections}, {Name: "edge", Metric: pops.Requests}},
		Endpoints: []pops.Endpoint{
			endpoint(0, 0, 120), endpoint(0, 1, 0),
			endpoint(1, 0, 100), endpoint(1, 1, 0),
			endpoint(2, 0, 80),
		},
	}
}

// guard is an Effect that breaks the guard rail "last" when all of ams leaves.
type guard struct{}

func (guard) Effect(_ *pops.View, after ...*pops.View) (drain.Report, error) {
	last := after[len(after)-1]
	r := drain.Report{Detail: &api.Effect{Queries: 100, Moved: 12, PoPs: []api.PoPEffect{{PoP: "fra"}}}, Warnings: []string{"the load of dub is unknown"}}
	if ams := last.Fleet.FindPoP("ams"); ams >= 0 && last.States[last.Fleet.PoPUnit(ams)].Share == 0 {
		r.Broken = []drain.Broken{{Guard: "last", Detail: "wss.example.com has no other PoP"}}
	}
	return r, nil
}

// Tokens of the fixture, by role.
var tokens = map[string]string{"viewer": "token-of-vera", "operator": "token-of-oscar", "automation": "token-of-autumn"}

func hash(token string) string {
	h := sha256.Sum256([]byte(token))
	return hex.EncodeToString(h[:])
}

func settings(dir string) config.Admin {
	return config.Admin{
		Listen: []string{"unix:" + filepath.Join(dir, "admin.sock"), "127.0.0.1:0"},
		Mode:   "0660",
		Hosts:  []string{"dns1.example.com"},
		Tokens: []config.Token{
			{Name: "vera", Role: "viewer", SHA256: hash(tokens["viewer"])},
			{Name: "oscar", Role: "operator", SHA256: strings.ToUpper(hash(tokens["operator"]))},
			{Name: "autumn", Role: "automation", SHA256: hash(tokens["automation"])},
		},
		MaxBody:  64 << 10,
		Requests: 8,
		Timeout:  time.Minute,
	}
}

// fixture is a server with a real ledger and a real snapshot, on a unix socket and on loopback.
type fixture struct {
	*Server
	fleet  *pops.Fleet
	ledger *drain.Ledger
	dir    string
	unix   *http.Client
	tcp    *http.Client
}

func newFixture(t *testing.T, change ...func(*Config)) *fixture {
	t.Helper()
	f := &fixture{fleet: fleet(), dir: t.TempDir()}
	var err error
	f.ledger, err = drain.New(drain.Config{
		Node: "node1", Dir: f.dir, Fleet: func() *pops.Fleet { return f.fleet }, Effect: guard{}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.ledger.Close() })
	atlas, err := geo.BuildAtlas(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	set := zones.New(nil, zones.NewPlanTable(nil))
	publisher := new(server.Publisher)
	rebuild := func() error {
		now := f.ledger.Now()
		return publisher.Publish(&server.Snapshot{Zones: set, Atlas: atlas, View: pops.NewView(f.fleet, pops.Input{
			Now: now, Intents: f.ledger.Intents(now), Loads: []pops.Load{{Value: 90, Fresh: now.Add(time.Hour)}},
		})})
	}
	if err := rebuild(); err != nil {
		t.Fatal(err)
	}
	c := Config{
		Settings:  settings(f.dir),
		Node:      api.Node{Name: "node1", Version: "1.2.3", Started: f.ledger.Now()},
		Publisher: publisher,
		Ledger:    f.ledger,
		Places: func() map[string]api.PoP {
			lat, long := 50.1, 8.7
			return map[string]api.PoP{"fra": {Country: []string{"DE"}, Latitude: &lat, Longitude: &long}}
		},
		Answers: func() Answers { return Answers{Queries: 250, PoPs: map[string]float64{"fra": 60}} },
		Explain: func(q api.ExplainQuery) (*api.Explanation, error) {
			if q.Client == "nonsense" {
				return nil, fmt.Errorf("client %q is neither a network nor an address", q.Client)
			}
			return &api.Explanation{Schema: api.Schema, Name: q.Name, Type: q.Type}, nil
		},
		Zones: func() []api.ZoneInfo {
			return []api.ZoneInfo{{Name: "example.com.", Serial: 7, Source: "example.com.zone"}}
		},
		Reload:   func() *api.Reload { return &api.Reload{Schema: api.Schema, Changed: []string{"example.com."}} },
		Rebuild:  rebuild,
		Registry: newRegistry(),
		Log:      slog.New(slog.DiscardHandler),
	}
	for _, ch := range change {
		ch(&c)
	}
	if f.Server, err = New(c); err != nil {
		t.Fatal(err)
	}
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	f.unix = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(f.dir, "admin.sock"))
	}}}
	f.tcp = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		f.unix.CloseIdleConnections()
		f.tcp.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := f.Stop(ctx); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	return f
}

// url is where the client reaches the server.
func (f *fixture) url(client *http.Client) string {
	if client == f.unix {
		return "http://localhost"
	}
	return "http://" + f.Addrs()[1].String()
}

type answer struct {
	status  int
	header  http.Header
	body    []byte
	problem api.Problem // if it is one
}

// do sends a request. Headers are pairs; over TCP token may be a role of the fixture.
func (f *fixture) do(t *testing.T, client *http.Client, method, path, token string, body any, headers ...string) answer {
	t.Helper()
	var r io.Reader
	switch body := body.(type) {
	case nil:
	case io.Reader:
		r = body
	case string:
		r = strings.NewReader(body)
	default:
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, f.url(client)+path, r)
	if err != nil {
		t.Fatal(err)
	}
	if r != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if known := tokens[token]; known != "" {
		token = known
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	a := answer{status: res.StatusCode, header: res.Header}
	if a.body, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	if res.Header.Get("Content-Type") == "application/problem+json" {
		if err := json.Unmarshal(a.body, &a.problem); err != nil {
			t.Fatal(err)
		}
		if a.problem.Status != a.status || a.problem.Title == "" || !strings.HasPrefix(a.problem.Type, "urn:edgesteer:problem:") {
			t.Errorf("%s %s: problem %+v with status %d", method, path, a.problem, a.status)
		}
	}
	return a
}

// into reads an answer strictly: what the types do not know is an error.
func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	d := json.NewDecoder(bytes.NewReader(a.body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// change does an order that must be accepted.
func (f *fixture) change(t *testing.T, client *http.Client, path, token string, body any, headers ...string) api.Change {
	t.Helper()
	var c api.Change
	f.do(t, client, "POST", path, token, body, headers...).into(t, &c)
	return c
}

func newRegistry() *prometheus.Registry { return prometheus.NewRegistry() }
