package server_test

import (
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server"
)

// crowd is a mix of queries, asked through a handler: networks 198.51.100.0/24 (near iad) and 203.0.113.0/24 (near fra), so many of each.
func crowd(t testing.TB, p *server.Publisher, mix *server.Mix, now time.Time, name string, counts map[string]int) {
	t.Helper()
	h := server.NewHandlers(server.HandlerConfig{Publisher: p, Mix: mix}).New()
	for subnet, n := range counts {
		for range n {
			ask(t, h, query(name, dns.TypeA, subnet), "127.0.0.1", server.UDP)
		}
	}
	mix.Collect(now)
}

func TestMixAndPrediction(t *testing.T) {
	p := publisher(t, world, zoneText, pops.Input{})
	now := time.Unix(1_700_000_000, 0)
	mix := server.NewMix(p, now)
	crowd(t, p, mix, now.Add(time.Second), "wss-primary.edge.example", map[string]int{"198.51.100.0/24": 300, "203.0.113.0/24": 100})
	records := mix.Snapshot(1000)
	if len(records) != 1 || math.Abs(records[0].Rate-400) > 1 {
		t.Fatalf("mix %+v", records)
	}
	if h := records[0].Heavy; len(h) != 2 || h[0].Client.Addr != netip.MustParseAddr("198.51.100.0") || math.Abs(h[0].Share-0.75) > 0.001 {
		t.Errorf("heavy networks %+v", h)
	}

	s := p.Snapshot()
	drained := pops.NewView(s.View.Fleet, pops.Input{Intents: []pops.Intent{{ID: "a", Kind: pops.Drain, Class: pops.Person, Target: target(t, "iad")}}})
	got := server.Predict(s, records, s.View, drained)[0]
	iad, fra := 0, 1
	if got.Assumed || math.Abs(got.Before[iad]-0.75) > 0.001 || got.After[iad] != 0 || math.Abs(got.After[fra]-1) > 0.001 {
		t.Errorf("prediction %+v", got)
	}
	if len(got.Heavy) != 1 || got.Heavy[0].From != "iad" || got.Heavy[0].To != "fra" {
		t.Errorf("heavy networks that move %+v", got.Heavy)
	}
	// load'(fra) = load(fra) + load(iad) x 1; iad keeps nothing.
	loads := func(e int) (float64, bool) { return []float64{1000, 200, 10}[e], true }
	if l, ok := got.Load(fra, loads); !ok || math.Abs(l-1200) > 1e-6 {
		t.Errorf("load of fra %v %v", l, ok)
	}
	if l, ok := got.Load(iad, loads); !ok || math.Abs(l) > 1e-6 {
		t.Errorf("load of iad %v %v", l, ok)
	}
	if _, ok := got.Load(fra, func(e int) (float64, bool) { return 0, e != iad }); ok {
		t.Error("a load that counts is unknown, yet the prediction is known")
	}
	all := pops.NewView(s.View.Fleet, pops.Input{Intents: []pops.Intent{{ID: "a", Kind: pops.Drain, Class: pops.Person, Target: target(t, "*/wss")}}})
	if last := server.Predict(s, records, s.View, all)[0].Last; len(last) == 0 {
		t.Error("nothing is left, and no record says so")
	}
}

// Counts fade with a half-life of five minutes, over any number of them, and what is asked now stays in proportion.
func TestMixFades(t *testing.T) {
	p := publisher(t, world, zoneText, pops.Input{})
	now := time.Unix(1_700_000_000, 0)
	mix := server.NewMix(p, now)
	crowd(t, p, mix, now, "wss-primary.edge.example", map[string]int{"198.51.100.0/24": 1024})
	for i, want := range []float64{1024, 512, 256, 128} {
		mix.Collect(now.Add(time.Duration(i) * 5 * time.Minute))
		if got := mix.Snapshot(1000)[0].Rate; math.Abs(got-want) > 1 {
			t.Errorf("after %d half-lives %v, want %v", i, got, want)
		}
	}
	later := now.Add(24 * time.Hour)
	mix.Collect(later)
	crowd(t, p, mix, later.Add(time.Second), "wss-primary.edge.example", map[string]int{"203.0.113.0/24": 100})
	r := mix.Snapshot(1000)
	if len(r) != 1 || math.Abs(r[0].Rate-100) > 1 || len(r[0].Heavy) != 1 || r[0].Heavy[0].Client.Addr.String() != "203.0.113.0" {
		t.Errorf("a day later: %+v", r)
	}
}

// A flood of more than a handler's ring holds between two collections is still counted whole.
func TestMixOverflow(t *testing.T) {
	p := publisher(t, world, zoneText, pops.Input{})
	now := time.Unix(1_700_000_000, 0)
	mix := server.NewMix(p, now)
	crowd(t, p, mix, now, "wss-primary.edge.example", map[string]int{"198.51.100.0/24": 10_000})
	if got := mix.Snapshot(1000)[0].Rate; math.Abs(got-10_000) > 1 {
		t.Errorf("10,000 queries count %v", got)
	}
}

// Many records and networks: what a snapshot gives stays within its limit, and no query is missing from the rates.
func TestMixLimit(t *testing.T) {
	p := publisher(t, world, zoneText, pops.Input{})
	now := time.Unix(1_700_000_000, 0)
	mix := server.NewMix(p, now)
	counts := map[string]int{}
	for i := range 256 {
		counts[fmt.Sprintf("100.64.%d.0/24", i)] = 2
	}
	crowd(t, p, mix, now, "wss-primary.edge.example", counts)
	crowd(t, p, mix, now, "wss-backup.edge.example", counts)
	for _, limit := range []int{1, 10, 1000} {
		clients, rate, weight := 0, 0.0, 0.0
		for _, r := range mix.Snapshot(limit) {
			clients += len(r.Clients)
			rate += r.Rate
			for _, c := range r.Clients {
				weight += c.Weight
			}
		}
		if math.Abs(rate-1024) > 1 || math.Abs(weight-1024) > 1 {
			t.Errorf("limit %d: rate %v, weights %v, want 1024", limit, rate, weight)
		}
		if clients > limit+8 {
			t.Errorf("limit %d: %d clients", limit, clients)
		}
	}
}

// Queries are counted for each record, also those that found no place in the ring, and do not fade.
func TestRecordQueries(t *testing.T) {
	p := publisher(t, world, zoneText, pops.Input{})
	now := time.Unix(1_700_000_000, 0)
	mix := server.NewMix(p, now)
	crowd(t, p, mix, now, "wss-primary.edge.example", map[string]int{"198.51.100.0/24": 10_000})
	crowd(t, p, mix, now.Add(time.Hour), "wss-backup.edge.example", map[string]int{"198.51.100.0/24": 7})
	mix.Collect(now.Add(48 * time.Hour))
	registry := prometheus.NewRegistry()
	if err := mix.Register(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatal(families, err)
	}
	got := map[string]float64{}
	for _, m := range families[0].Metric {
		got[m.Label[0].GetValue()] = m.Counter.GetValue()
	}
	if math.Abs(got["wss-primary.edge.example. A"]-10_000) > 1e-6 || math.Abs(got["wss-backup.edge.example. A"]-7) > 1e-6 || got["other"] != 0 || len(got) < 5 {
		t.Errorf("%v", got)
	}
}

// Of a flood one query of so many is sampled, spread over all the time between two collections; when it is over, single queries count at once.
func TestMixStride(t *testing.T) {
	p := publisher(t, world, zoneText, pops.Input{})
	now := time.Unix(1_700_000_000, 0)
	mix := server.NewMix(p, now)
	h := server.NewHandlers(server.HandlerConfig{Publisher: p, Mix: mix}).New()
	ask := func(network string) {
		q, err := query("wss-primary.edge.example", dns.TypeA, network).Pack()
		if err != nil {
			t.Fatal(err)
		}
		h.Handle(q, make([]byte, 0, 4096), &server.Peer{Addr: netip.MustParseAddrPort("203.0.113.9:5")})
		h.Done()
	}
	flood := func(first, second string) {
		for i := range 40_000 {
			if i < 30_000 { // one after the other, so that whoever looks at the beginning only sees one of them
				ask(first)
			} else {
				ask(second)
			}
		}
	}
	flood("198.51.100.0/24", "198.51.100.0/24")
	mix.Collect(now)
	flood("192.0.2.0/24", "203.0.113.0/24")
	mix.Collect(now)
	shares := map[string]float64{}
	for _, heavy := range mix.Snapshot(1000)[0].Heavy {
		shares[heavy.Client.Addr.String()] = heavy.Share
	}
	if a, b := shares["192.0.2.0"], shares["203.0.113.0"]; math.Abs(a-0.375) > 0.02 || math.Abs(b-0.125) > 0.02 {
		t.Errorf("30,000 and 10,000 of 80,000 queries count %.3f and %.3f of all: %v", a, b, shares)
	}
	later := now.Add(24 * time.Hour)
	for range 3 { // the flood is over
		ask("198.51.100.0/24")
		mix.Collect(later)
	}
	if got := mix.Snapshot(1000)[0].Rate; math.Abs(got-3) > 0.1 {
		t.Errorf("3 queries count %v", got)
	}
}
