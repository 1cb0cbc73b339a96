package admin

import (
	"crypto/x509"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/server/api"
)

// metrics of the API. Every label comes from a closed set.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  prometheus.Histogram
	denied   *prometheus.CounterVec
	streams  prometheus.Gauge
	alerts   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, routes []route) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_admin_requests_total",
			Help: "Requests of the admin API, by route and class of status.",
		}, []string{"route", "status"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "edgesteer_admin_request_seconds",
			Help:    "Time that requests of the admin API took, event streams apart.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10, 60},
		}),
		denied: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_admin_denied_total",
			Help: "Requests of the admin API that were turned away: for their credentials or their role.",
		}, []string{"reason"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "edgesteer_admin_event_streams",
			Help: "Open event streams.",
		}),
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_admin_alerts_total",
			Help: "Alerts that came to the webhook, by what was done.",
		}, []string{"outcome"}),
	}
	for i := range routes {
		for _, status := range []string{"2xx", "4xx", "5xx"} {
			m.requests.WithLabelValues(routes[i].name(), status)
		}
	}
	for _, reason := range []string{"credentials", "role"} {
		m.denied.WithLabelValues(reason)
	}
	for _, outcome := range []api.AlertOutcome{api.AlertDrained, api.AlertLifted, api.AlertHeld, api.AlertIgnored, api.AlertRefused, api.AlertFailed} {
		m.alerts.WithLabelValues(string(outcome))
	}
	r.MustRegister(m.requests, m.seconds, m.denied, m.streams, m.alerts)
	return m
}

// register shows when the certificate expires.
func (c *certificates) register(r prometheus.Registerer) {
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "edgesteer_admin_certificate_expiry_timestamp_seconds",
		Help: "When the certificate of the admin API expires, Unix time; absent without TLS.",
	}, func() float64 {
		chain := c.current(time.Now()).Certificates[0].Certificate
		leaf, err := x509.ParseCertificate(chain[0])
		if err != nil { // it was parsed when it was loaded
			return 0
		}
		return float64(leaf.NotAfter.Unix())
	}))
}
