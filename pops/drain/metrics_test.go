package drain

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	n := newNode(t, "a")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	config := n.Ledger.config
	config.Registerer = registry
	l, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	n.Ledger = l
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("names: %v, %v", problems, err)
	}
	series, err := testutil.GatherAndCount(registry)
	if err != nil {
		t.Fatal(err)
	}
	n.apply(drain("fra", 10))
	n.apply(drain("fra", 20))
	n.apply(pin("iad"))
	_, err = n.Apply(drain("fraa", 10))
	refused(t, err)
	n.lift(restore("iad"))
	short := automation("sin", "o")
	short.For = time.Minute
	n.apply(short)
	n.pass(time.Minute)
	n.flush()
	n.fs.fault = func(int, string, string) error { return errNoRoom }
	_, err = n.Apply(drain("fra", 30))
	refused(t, err)
	peer := newNode(t, "b")
	peer.wall = peer.wall.Add(time.Hour)
	peer.apply(drain("sin", 1))
	state, _ := peer.MarshalBinary()
	if err := n.Merge(state); err != nil {
		t.Fatal(err)
	}
	want := `
# HELP edgesteer_drain_statements Statements that stand, scheduled ones included.
# TYPE edgesteer_drain_statements gauge
edgesteer_drain_statements{kind="drain",role="automation"} 0
edgesteer_drain_statements{kind="drain",role="drill"} 0
edgesteer_drain_statements{kind="drain",role="person"} 2
edgesteer_drain_statements{kind="pin",role="automation"} 0
edgesteer_drain_statements{kind="pin",role="drill"} 0
edgesteer_drain_statements{kind="pin",role="person"} 0
edgesteer_drain_statements{kind="shift",role="automation"} 0
edgesteer_drain_statements{kind="shift",role="drill"} 0
edgesteer_drain_statements{kind="shift",role="person"} 0
# HELP edgesteer_drain_operations_total Changes of the ledger, by what the history calls them.
# TYPE edgesteer_drain_operations_total counter
edgesteer_drain_operations_total{op="accepted"} 3
edgesteer_drain_operations_total{op="edited"} 0
edgesteer_drain_operations_total{op="expired"} 1
edgesteer_drain_operations_total{op="lifted"} 2
edgesteer_drain_operations_total{op="merged"} 1
edgesteer_drain_operations_total{op="overridden"} 0
edgesteer_drain_operations_total{op="renewed"} 0
edgesteer_drain_operations_total{op="replaced"} 1
# HELP edgesteer_drain_refused_total Requests that were not accepted.
# TYPE edgesteer_drain_refused_total counter
edgesteer_drain_refused_total{code="conflict"} 0
edgesteer_drain_refused_total{code="disk"} 1
edgesteer_drain_refused_total{code="forbidden"} 0
edgesteer_drain_refused_total{code="guard"} 0
edgesteer_drain_refused_total{code="invalid"} 0
edgesteer_drain_refused_total{code="unknown"} 1
# HELP edgesteer_drain_stamps_ahead_total Stamps more than a minute ahead of fleet time: they count, but do not move the clock.
# TYPE edgesteer_drain_stamps_ahead_total counter
edgesteer_drain_stamps_ahead_total 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "edgesteer_drain_statements", "edgesteer_drain_operations_total", "edgesteer_drain_refused_total", "edgesteer_drain_stamps_ahead_total"); err != nil {
		t.Error(err)
	}
	if got := testutil.ToFloat64(n.metrics.problems.WithLabelValues(string(DiskFailing))); got != 1 {
		t.Errorf("problem %v", got)
	}
	if got := testutil.ToFloat64(n.metrics.writeErrors); got < 1 {
		t.Errorf("write errors: %v", got)
	}
	if now, _ := testutil.GatherAndCount(registry); now != series+1 { // and when the next statement of a person expires
		t.Errorf("%d series, %d at the start", now, series)
	}
}

var _ Effect = (*fakeEffect)(nil)
var _ FS = OS{}
