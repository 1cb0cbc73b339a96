package load

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	samples *prometheus.CounterVec
	fetches *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		samples: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_load_samples_total", Help: "Loads and values of feeds that came to this node, by how.",
		}, []string{"by"}),
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_load_fetches_total", Help: "Polls and queries of loads; absent where none are configured.",
		}, []string{"service", "result"}),
	}
	for _, by := range []string{"push", "feed", "fetch"} {
		m.samples.WithLabelValues(by)
	}
	if r != nil {
		r.MustRegister(m.samples, m.fetches)
	}
	return m
}

// expect makes the series of what a plan fetches.
func (m *metrics) expect(p *Plan) {
	for i := range p.sources {
		for _, result := range []string{"good", "bad"} {
			m.fetches.WithLabelValues(p.sources[i].service, result)
		}
	}
}

// ages shows how old loads and values of feeds are (prometheus.Collector). Labels are names of the configuration.
type ages struct {
	store *Store

	age, stale, feedAge, feedStale *prometheus.Desc
}

func (s *Store) register(r prometheus.Registerer) {
	if r == nil {
		return
	}
	r.MustRegister(&ages{
		store: s,
		age:   prometheus.NewDesc("edgesteer_load_age_seconds", "Age of the newest load of an endpoint; absent while there was none.", []string{"pop", "service"}, nil),
		stale: prometheus.NewDesc("edgesteer_load_stale", "1 while the load of an endpoint is too old to count, or there was none although this node fetches it; absent where no load was ever expected.",
			[]string{"pop", "service"}, nil),
		feedAge:   prometheus.NewDesc("edgesteer_feed_age_seconds", "Age of the newest value of a feed; absent while there was none.", []string{"feed"}, nil),
		feedStale: prometheus.NewDesc("edgesteer_feed_stale", "1 while the value of a feed is too old to count, or there was none: what is bound to it has its configured value; absent without feeds.", []string{"feed"}, nil),
	})
}

// Describe implements prometheus.Collector.
func (a *ages) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{a.age, a.stale, a.feedAge, a.feedStale} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (a *ages) Collect(ch chan<- prometheus.Metric) {
	s := a.store
	s.mu.Lock()
	now := s.now()
	loads, feeds := s.status(loadKey, s.plan.loads), s.status(feedKey, s.plan.feeds)
	fetched := map[string]bool{}
	for i := range s.plan.sources {
		fetched[s.plan.sources[i].service] = true
	}
	s.mu.Unlock()
	show := func(age, stale *prometheus.Desc, of *Status, expected bool, labels ...string) {
		if of.Known {
			ch <- prometheus.MustNewConstMetric(age, prometheus.GaugeValue, max(0, now.Sub(of.Sample.At).Seconds()), labels...)
		}
		if of.Known || expected {
			ch <- prometheus.MustNewConstMetric(stale, prometheus.GaugeValue, map[bool]float64{true: 1}[of.Stale], labels...)
		}
	}
	for i := range loads {
		pop, service, _ := strings.Cut(loads[i].Name, "/")
		show(a.age, a.stale, &loads[i], fetched[service], pop, service)
	}
	for i := range feeds {
		show(a.feedAge, a.feedStale, &feeds[i], true, feeds[i].Name)
	}
}
