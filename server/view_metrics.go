package server

import (
	"math/bits"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/pops"
)

// viewMetrics show what the answers rest on (prometheus.Collector). Labels are names of the configuration.
type viewMetrics struct {
	publisher *Publisher

	version, at                       *prometheus.Desc
	share, said, shed, load, capacity *prometheus.Desc
	watermark, dead, moving           *prometheus.Desc
	panics, lost                      *prometheus.Desc
}

// Register registers what is to be seen of the published snapshots.
func (p *Publisher) Register(r prometheus.Registerer) error {
	const pop, service = "pop", "service"
	return r.Register(&viewMetrics{
		publisher: p,
		version:   desc("snapshot_version", "Number of the snapshot that is served; it counts up with each that is published."),
		at:        desc("snapshot_timestamp_seconds", "Moment that the PoP view was computed for, in fleet time."),
		share:     desc("endpoint_share_ratio", "Share of clients that may be sent to an endpoint, 0 to 1: the least of what statements and health leave.", pop, service),
		said:      desc("endpoint_statement_share_ratio", "Share of clients that statements alone leave to an endpoint, 0 to 1: 1 less this is drained.", pop, service),
		shed:      desc("endpoint_shed_ratio", "Probability with which shed_load takes a network away from an endpoint, 0 to 1.", pop, service),
		load:      desc("endpoint_load", "Load of an endpoint, in the unit of its service's metric; absent while unknown or stale.", pop, service),
		capacity:  desc("endpoint_capacity", "Capacity of an endpoint, in the unit of its service's metric; absent where none is configured.", pop, service),
		watermark: desc("endpoint_watermark", "Watermarks of an endpoint, in the unit of its service's metric; absent where none are configured.", pop, service, "mark"),
		dead:      desc("endpoint_dead_addresses", "Addresses of an endpoint that are left out of answers because their checks fail.", pop, service),
		moving:    desc("endpoint_moving", "1 while the share of an endpoint is on a ramp.", pop, service),
		panics:    desc("service_panic", "1 while health has removed so much of a service that further down verdicts are not obeyed.", service),
		lost:      desc("lost_statements", "Statements whose target is not in the configuration, so that they do nothing."),
	})
}

func (m *viewMetrics) descs() []*prometheus.Desc {
	return []*prometheus.Desc{m.version, m.at, m.share, m.said, m.shed, m.load, m.capacity, m.watermark, m.dead, m.moving, m.panics, m.lost}
}

// Describe implements prometheus.Collector.
func (m *viewMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range m.descs() {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *viewMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	snap := m.publisher.Snapshot()
	v := snap.View
	f := v.Fleet
	gauge(m.version, float64(snap.Version))
	gauge(m.at, float64(v.At.UnixMilli())/1000)
	for e := range f.Endpoints {
		u := f.EndpointUnit(e)
		s, t := &v.States[u], f.UnitTarget(u)
		number := func(d *prometheus.Desc, value pops.Value, labels ...string) {
			if n, ok := v.Number(value); ok {
				gauge(d, n, append([]string{t.PoP, t.Service}, labels...)...)
			}
		}
		gauge(m.share, float64(s.Share)/100, t.PoP, t.Service)
		gauge(m.said, float64(s.Said)/100, t.PoP, t.Service)
		gauge(m.shed, s.Shed, t.PoP, t.Service)
		gauge(m.dead, float64(bits.OnesCount64(s.Dead)), t.PoP, t.Service)
		gauge(m.moving, one(s.Moving), t.PoP, t.Service)
		if s.HasLoad {
			gauge(m.load, s.Load, t.PoP, t.Service)
		}
		if c := f.Endpoints[e].Capacity; c > 0 {
			gauge(m.capacity, c, t.PoP, t.Service)
		}
		number(m.watermark, f.Endpoints[e].Low, "low")
		number(m.watermark, f.Endpoints[e].High, "high")
	}
	panics := map[int]bool{}
	for _, service := range v.Panic {
		panics[service] = true
	}
	for i := range f.Services {
		gauge(m.panics, one(panics[i]), f.Services[i].Name)
	}
	gauge(m.lost, float64(len(v.Lost)))
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
