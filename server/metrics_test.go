package server_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server"
)

// Each kind of query moves its counters, all series are there from the start, and no query can add one.
func TestMetrics(t *testing.T) {
	hs := server.NewHandlers(server.HandlerConfig{Publisher: publisher(t, world, zoneText, pops.Input{})})
	registry := prometheus.NewRegistry()
	if err := hs.Register(registry); err != nil {
		t.Fatal(err)
	}
	h := hs.New()
	series := func() int {
		n, err := testutil.GatherAndCount(registry)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	start := series()
	for typ := range uint16(200) {
		ask(t, h, query("wss-primary.edge.example", typ+1, "198.51.100.0/24"), "203.0.113.9", server.UDP)
	}
	if now := series(); now != start {
		t.Errorf("%d series, %d at the start", now, start)
	}
	value := func(name, labels string) (sum float64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.Metric {
				if f.GetName() == name && strings.Contains(m.String(), labels) {
					sum += m.GetCounter().GetValue()
				}
			}
		}
		return sum
	}
	for _, tt := range []struct {
		name, subnet, metric, labels string
		transport                    server.Transport
	}{
		{"wss-primary", "198.51.100.0/24", "edgesteer_queries_total", `"udp"`, server.UDP},
		{"wss-primary", "198.51.100.0/24", "edgesteer_queries_total", `"doh"`, server.DoH},
		{"wss-primary", "198.51.100.0/24", "edgesteer_answers_total", `"steered"`, server.UDP},
		{"wss-primary", "198.51.100.0/24", "edgesteer_ladder_rung_total", `"1"`, server.UDP},
		{"wss-primary", "198.51.100.0/24", "edgesteer_pop_answers_total", `"iad"`, server.UDP},
		{"wss-primary", "203.0.113.0/24", "edgesteer_pop_answers_total", `"fra"`, server.UDP},
		{"wss-primary", "198.51.100.0/24", "edgesteer_query_types_total", `"A"`, server.UDP},
		{"wss-primary", "198.51.100.0/24", "edgesteer_responses_total", `"NOERROR"`, server.DoT},
		{"wss-primary", "198.51.100.0/24", "edgesteer_cookies_total", `"none"`, server.TCP},
		{"wss-primary", "10.0.0.0/24", "edgesteer_client_subnet_unlocated_total", "", server.UDP},
		{"wss-primary", "2001:db8:100::/48", "edgesteer_client_subnet_total", `"ipv6"`, server.UDP},
		{"wss-primary", "0.0.0.0/0", "edgesteer_client_subnet_total", `"zero"`, server.UDP},
		{"static", "", "edgesteer_answers_total", `"static"`, server.UDP},
		{"static", "", "edgesteer_client_subnet_total", `"none"`, server.UDP},
		{"nosuch", "", "edgesteer_responses_total", `"NXDOMAIN"`, server.UDP},
		{"nosuch", "", "edgesteer_answers_total", `"nxdomain"`, server.UDP},
		{"host.sub", "", "edgesteer_answers_total", `"referral"`, server.UDP},
		{"loop1", "", "edgesteer_responses_total", `"SERVFAIL"`, server.UDP},
	} {
		before := value(tt.metric, tt.labels)
		ask(t, h, query(tt.name+".edge.example", dns.TypeA, tt.subnet), "203.0.113.9", tt.transport)
		if got := value(tt.metric, tt.labels) - before; got != 1 {
			t.Errorf("%s for %q: %s%s moved by %v", tt.name, tt.subnet, tt.metric, tt.labels, got)
		}
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// Answers per PoP add up to the steered answers, whatever the chain gives, and live on when the fleet changes.
func TestUnitAnswers(t *testing.T) {
	p := publisher(t, world, zoneText, pops.Input{})
	hs := server.NewHandlers(server.HandlerConfig{Publisher: p})
	h := hs.New()
	for _, name := range []string{"wss-primary", "wss-backup", "nodata"} {
		for range 10 {
			ask(t, h, query(name+".edge.example", dns.TypeA, "198.51.100.0/24"), "203.0.113.9", server.UDP)
		}
	}
	count := func() map[string]float64 {
		out := map[string]float64{}
		f := p.Snapshot().View.Fleet
		for _, u := range hs.UnitAnswers(f) {
			out[f.UnitTarget(u.Unit).String()] += u.Answers
		}
		return out
	}
	before, sum := count(), 0.0
	for _, n := range before {
		sum += n
	}
	if math.Abs(sum-30) > 1e-9 || before["iad/wss"] <= 10 {
		t.Fatalf("30 answers are counted %v", before)
	}
	renamed := strings.NewReplacer(`name = "fra"`, `name = "fra2"`, `service.at.fra`, `service.at.fra2`, `pop = "fra"`, `pop = "fra2"`).Replace(world)
	next := publisher(t, renamed, zoneText, pops.Input{}).Snapshot()
	if err := p.Publish(&server.Snapshot{Zones: next.Zones, Atlas: next.Atlas, View: next.View}); err != nil {
		t.Fatal(err)
	}
	rungs := func() string {
		registry := prometheus.NewRegistry()
		if err := hs.Register(registry); err != nil {
			t.Fatal(err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "edgesteer_ladder_rung_total" {
				return f.String()
			}
		}
		return ""
	}
	want := rungs()
	if !strings.Contains(want, "value:30") {
		t.Errorf("30 answers of rung 1: %s", want)
	}
	for range 2 { // before and after the worker has seen it
		if got := rungs(); got != want {
			t.Errorf("rungs after the change %s, before %s", got, want)
		}
		after := count()
		if _, there := after["fra/wss"]; there || after["iad/wss"] != before["iad/wss"] || after["fra2/wss"] != 0 {
			t.Errorf("after the change %v, before %v", after, before)
		}
		h.Refresh()
	}
}

// What the view says of endpoints is what scrapers see.
func TestViewMetrics(t *testing.T) {
	p := publisher(t, world, zoneText, pops.Input{
		Now: time.Unix(1_700_000_000, 0),
		Intents: []pops.Intent{
			{ID: "a", Kind: pops.Drain, Class: pops.Person, Target: target(t, "fra"), Share: 63, Moving: true},
			{ID: "b", Kind: pops.Drain, Class: pops.Person, Target: target(t, "elsewhere")},
		},
		Verdicts: []pops.Verdict{{}, {}, {Down: true}},
		Loads:    []pops.Load{{Value: 17, Fresh: time.Unix(1_700_000_060, 0)}},
	})
	registry := prometheus.NewRegistry()
	if err := p.Register(registry); err != nil {
		t.Fatal(err)
	}
	want := `
# HELP edgesteer_endpoint_load Load of an endpoint, in the unit of its service's metric; absent while unknown or stale.
# TYPE edgesteer_endpoint_load gauge
edgesteer_endpoint_load{pop="iad",service="wss"} 17
# HELP edgesteer_endpoint_moving 1 while the share of an endpoint is on a ramp.
# TYPE edgesteer_endpoint_moving gauge
edgesteer_endpoint_moving{pop="fra",service="wss"} 1
edgesteer_endpoint_moving{pop="iad",service="wss"} 0
edgesteer_endpoint_moving{pop="sin",service="wss"} 0
# HELP edgesteer_endpoint_share_ratio Share of clients that may be sent to an endpoint, 0 to 1: the least of what statements and health leave.
# TYPE edgesteer_endpoint_share_ratio gauge
edgesteer_endpoint_share_ratio{pop="fra",service="wss"} 0.63
edgesteer_endpoint_share_ratio{pop="iad",service="wss"} 1
edgesteer_endpoint_share_ratio{pop="sin",service="wss"} 0
# HELP edgesteer_endpoint_statement_share_ratio Share of clients that statements alone leave to an endpoint, 0 to 1: 1 less this is drained.
# TYPE edgesteer_endpoint_statement_share_ratio gauge
edgesteer_endpoint_statement_share_ratio{pop="fra",service="wss"} 0.63
edgesteer_endpoint_statement_share_ratio{pop="iad",service="wss"} 1
edgesteer_endpoint_statement_share_ratio{pop="sin",service="wss"} 1
# HELP edgesteer_lost_statements Statements whose target is not in the configuration, so that they do nothing.
# TYPE edgesteer_lost_statements gauge
edgesteer_lost_statements 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "edgesteer_endpoint_load", "edgesteer_endpoint_moving", "edgesteer_endpoint_share_ratio",
		"edgesteer_endpoint_statement_share_ratio", "edgesteer_lost_statements"); err != nil {
		t.Error(err)
	}
}
