package server

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"
)

// recordsShown is how many steered records have a series of their own, the first by name of zone and record; the others are counted together.
const recordsShown = 1000

// mixMetrics show how often each steered record was asked for (prometheus.Collector).
type mixMetrics struct {
	mix  *Mix
	desc *prometheus.Desc
}

// Register registers what the mix counts.
func (m *Mix) Register(r prometheus.Registerer) error {
	return r.Register(&mixMetrics{m, desc("record_queries_total", "Queries for each steered record, of the first 1000; the others together are other. A worker that answers more than 4096 in a second shares them out by what it has sampled.", "record")})
}

// Describe implements prometheus.Collector.
func (m *mixMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.desc }

// Collect implements prometheus.Collector.
func (m *mixMetrics) Collect(ch chan<- prometheus.Metric) {
	other, n := 0.0, 0
	asked := m.mix.records()
	for zone := range m.mix.publisher.Snapshot().Zones.Zones() {
		for _, rec := range zone.Records() {
			count := asked[MixKey{string(rec.Name), rec.Type}]
			if n++; n > recordsShown {
				other += count
				continue
			}
			ch <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, count, rec.String())
		}
	}
	ch <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, other, "other")
}

// records counts the queries for each steered record since the start.
func (m *Mix) records() map[MixKey]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.asked)
}
