package health

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	checks      *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	late        prometheus.Histogram
	targets     *prometheus.GaugeVec
	dissent     prometheus.Gauge
	abstaining  prometheus.Gauge
	turned      *prometheus.CounterVec
	writeErrors prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_health_checks_total", Help: "Probes of addresses by this node.",
		}, []string{"kind", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "edgesteer_health_check_seconds", Help: "Time that probes took.",
			Buckets: []float64{.001, .005, .02, .1, .5, 1, 5},
		}, []string{"kind"}),
		late: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "edgesteer_health_late_seconds", Help: "Time by which probes began after they were due.",
			Buckets: []float64{.02, .1, .5, 1, 5},
		}),
		targets: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "edgesteer_health_targets", Help: "Endpoints that are checked, by the shared verdict; gray ones are counted once more.",
		}, []string{"state"}),
		dissent: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "edgesteer_health_dissenting_votes", Help: "Votes that differ from the verdict.",
		}),
		abstaining: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "edgesteer_health_abstaining_nodes", Help: "Nodes that fail more than half of their targets while others do not.",
		}),
		turned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_health_verdict_changes_total", Help: "Changes of shared verdicts, by what they became.",
		}, []string{"verdict"}),
		writeErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "edgesteer_health_write_errors_total", Help: "Writes of the verdicts that the disk refused.",
		}),
	}
	for _, k := range kinds() {
		for _, result := range []string{"good", "bad", "impossible"} {
			m.checks.WithLabelValues(k.name, result)
		}
		m.seconds.WithLabelValues(k.name)
	}
	for _, state := range targetStates() {
		m.targets.WithLabelValues(state)
	}
	for _, v := range []mood{up, down} {
		m.turned.WithLabelValues(v.String())
	}
	if r != nil {
		r.MustRegister(m.checks, m.seconds, m.late, m.targets, m.dissent, m.abstaining, m.turned, m.writeErrors)
	}
	return m
}

// votes shows what the nodes believe of each endpoint that is checked (prometheus.Collector). Labels are names of the configuration.
type votes struct {
	monitor *Monitor

	down, gray, quorum, cast, voters *prometheus.Desc
}

func newVotes(m *Monitor) *votes {
	d := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc("edgesteer_health_"+name, help, append([]string{"pop", "service"}, more...), nil)
	}
	return &votes{
		monitor: m,
		down:    d("down", "1 while the shared verdict on an endpoint is down, 0 while it is up or unknown."),
		gray:    d("gray", "1 while the nodes disagree so much on an endpoint that its verdict stays: a person has to look."),
		quorum:  d("quorum", "1 while more than half of the voters on an endpoint have a fresh vote, else 0: the verdict stays."),
		cast:    d("votes", "Fresh votes on an endpoint.", "vote"),
		voters:  d("voters", "Nodes that may vote on an endpoint."),
	}
}

// register shows the votes.
func (m *Monitor) register(r prometheus.Registerer) {
	if r != nil {
		r.MustRegister(newVotes(m))
	}
}

// Describe implements prometheus.Collector.
func (v *votes) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{v.down, v.gray, v.quorum, v.cast, v.voters} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (v *votes) Collect(ch chan<- prometheus.Metric) {
	m := v.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.plan.targets {
		pop, service, _ := strings.Cut(m.plan.targets[i].name, "/")
		is := m.verdicts[m.plan.targets[i].name]
		if is == nil {
			is = &verdict{}
		}
		gauge := func(d *prometheus.Desc, value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{pop, service}, labels...)...)
		}
		flag := map[bool]float64{true: 1}
		gauge(v.down, flag[is.Known && is.Down])
		gauge(v.gray, flag[!is.gray.IsZero()])
		gauge(v.quorum, flag[is.outcome.quorum])
		gauge(v.cast, float64(is.outcome.Down), "down")
		gauge(v.cast, float64(is.outcome.Fresh-is.outcome.Down), "up")
		gauge(v.voters, float64(is.outcome.Voters))
	}
}

func targetStates() []string { return []string{"up", "down", "unknown", "gray"} }

// count counts a probe.
func (m *metrics) count(kind string, err error, took time.Duration) {
	result := "good"
	switch {
	case is[*localError](err):
		result = "impossible"
	case err != nil:
		result = "bad"
	}
	m.checks.WithLabelValues(kind, result).Inc()
	m.seconds.WithLabelValues(kind).Observe(took.Seconds())
}

// measure sets the gauges. It holds mu.
func (m *Monitor) measure() {
	n := map[string]int{}
	dissent := 0
	for i := range m.plan.targets {
		v := m.verdicts[m.plan.targets[i].name]
		switch {
		case v == nil || !v.Known:
			n["unknown"]++
		case v.Down:
			n["down"]++
		default:
			n["up"]++
		}
		if v != nil && !v.gray.IsZero() {
			n["gray"]++
		}
		if v != nil {
			dissent += len(v.dissent)
		}
	}
	for _, state := range targetStates() {
		m.metrics.targets.WithLabelValues(state).Set(float64(n[state]))
	}
	m.metrics.dissent.Set(float64(dissent))
	m.metrics.abstaining.Set(float64(len(m.sick)))
}
