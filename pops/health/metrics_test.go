package health

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		m, stop := start(t, Config{Registerer: r, Plan: plan(4, 1, &fake{result: func(a netip.Addr, n int) error {
			if a == address(0) && n > 1 {
				return errBad
			}
			return nil
		}})})
		time.Sleep(2 * time.Minute)
		stop()
		if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
		for state, want := range map[string]float64{"up": 3, "down": 1, "unknown": 0, "gray": 0} {
			if got := testutil.ToFloat64(m.metrics.targets.WithLabelValues(state)); got != want {
				t.Errorf("%s: %g, want %g", state, got, want)
			}
		}
		if got := testutil.ToFloat64(m.metrics.turned.WithLabelValues("down")); got != 1 {
			t.Errorf("%g verdicts turned down", got)
		}
		text := `
# HELP edgesteer_health_down 1 while the shared verdict on an endpoint is down, 0 while it is up or unknown.
# TYPE edgesteer_health_down gauge
DOWN
# HELP edgesteer_health_votes Fresh votes on an endpoint.
# TYPE edgesteer_health_votes gauge
VOTES
`
		var down, votes strings.Builder
		for i := range m.plan.targets {
			pop, service, _ := strings.Cut(m.plan.targets[i].name, "/")
			is := 0
			if i == 0 {
				is = 1
			}
			fmt.Fprintf(&down, "edgesteer_health_down{pop=%q,service=%q} %d\n", pop, service, is)
			fmt.Fprintf(&votes, "edgesteer_health_votes{pop=%q,service=%q,vote=\"down\"} %d\nedgesteer_health_votes{pop=%q,service=%q,vote=\"up\"} %d\n", pop, service, is, pop, service, 1-is)
		}
		text = strings.NewReplacer("DOWN\n", down.String(), "VOTES\n", votes.String()).Replace(text)
		if err := testutil.GatherAndCompare(r, strings.NewReader(text), "edgesteer_health_down", "edgesteer_health_votes"); err != nil {
			t.Error(err)
		}
		good, bad := testutil.ToFloat64(m.metrics.checks.WithLabelValues("tcp", "good")), testutil.ToFloat64(m.metrics.checks.WithLabelValues("tcp", "bad"))
		if good < 35 || good > 45 || bad < 8 || bad > 12 {
			t.Errorf("%g good and %g bad checks", good, bad)
		}
	})
}

// Zero series are there from the start.
func TestZeroSeries(t *testing.T) {
	r := prometheus.NewRegistry()
	newMetrics(r)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	for _, want := range []string{"edgesteer_health_checks_total", "edgesteer_health_targets", "edgesteer_health_verdict_changes_total"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not there from the start: %v", want, names)
		}
	}
}
