package drain

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/pops"
)

type metrics struct {
	statements  *prometheus.GaugeVec
	operations  *prometheus.CounterVec
	refused     *prometheus.CounterVec
	problems    *prometheus.GaugeVec
	expiry      *prometheus.GaugeVec
	writes      prometheus.Histogram
	writeErrors prometheus.Counter
	guardBroken prometheus.Counter
	ahead       prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		statements: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "edgesteer_drain_statements", Help: "Statements that stand, scheduled ones included.",
		}, []string{"kind", "role"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_drain_operations_total", Help: "Changes of the ledger, by what the history calls them.",
		}, []string{"op"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_drain_refused_total", Help: "Requests that were not accepted.",
		}, []string{"code"}),
		problems: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "edgesteer_drain_problem", Help: "1 while a problem of this kind stands.",
		}, []string{"kind"}),
		expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "edgesteer_drain_next_expiry_timestamp_seconds", Help: "When the first of the statements that stand expires, in fleet time; absent while none does.",
		}, []string{"role"}),
		writes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "edgesteer_drain_write_seconds", Help: "Time to make the ledger file durable.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5},
		}),
		writeErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "edgesteer_drain_write_errors_total", Help: "Writes of ledger, history or clock that the disk refused.",
		}),
		guardBroken: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "edgesteer_drain_guard_broken_by_merge_total", Help: "Merges after which the statements of several nodes together broke a guard rail.",
		}),
		ahead: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "edgesteer_drain_stamps_ahead_total", Help: "Stamps more than a minute ahead of fleet time: they count, but do not move the clock.",
		}),
	}
	for _, kind := range []pops.Kind{pops.Drain, pops.Shift, pops.Pin} {
		for _, role := range []pops.Class{pops.Person, pops.Automation, pops.Drill} {
			m.statements.WithLabelValues(kind.String(), role.String())
		}
	}
	for _, op := range []Op{Accepted, ReplacedOp, Edited, Overridden, Renewed, LiftedOp, ExpiredOp, Merged} {
		m.operations.WithLabelValues(string(op))
	}
	for _, code := range codes {
		m.refused.WithLabelValues(string(code))
	}
	for _, kind := range problemKinds {
		m.problems.WithLabelValues(string(kind))
	}
	if r != nil {
		r.MustRegister(m.statements, m.operations, m.refused, m.problems, m.expiry, m.writes, m.writeErrors, m.guardBroken, m.ahead)
	}
	return m
}

// count sets the number of statements that stand, and when the first of them expires.
func (m *metrics) count(s *state, now time.Time) {
	for _, role := range []pops.Class{pops.Person, pops.Automation, pops.Drill} {
		var first time.Time
		for _, e := range s.entries {
			if e.Role == role && e.Live(now) && !e.Expires.IsZero() && (first.IsZero() || e.Expires.Before(first)) {
				first = e.Expires
			}
		}
		if first.IsZero() {
			m.expiry.DeleteLabelValues(role.String())
		} else {
			m.expiry.WithLabelValues(role.String()).Set(float64(first.Unix()))
		}
		for _, kind := range []pops.Kind{pops.Drain, pops.Shift, pops.Pin} {
			n := 0
			for _, e := range s.entries {
				if e.Kind == kind && e.Role == role && e.Live(now) {
					n++
				}
			}
			m.statements.WithLabelValues(kind.String(), role.String()).Set(float64(n))
		}
	}
}
