package dnstap

import "github.com/prometheus/client_golang/prometheus"

// collector shows what became of the messages (prometheus.Collector).
type collector struct {
	out                           *Output
	messages, connected, connects *prometheus.Desc
}

// Register registers the metrics of an Output and its taps.
func (o *Output) Register(r prometheus.Registerer) error {
	return r.Register(&collector{
		out:       o,
		messages:  prometheus.NewDesc("edgesteer_dnstap_messages_total", "Messages for the dnstap reader; dropped: it was away or slow; absent without [dnstap].", []string{"result"}, nil),
		connected: prometheus.NewDesc("edgesteer_dnstap_connected", "1 while the dnstap reader is connected; absent without [dnstap].", nil, nil),
		connects:  prometheus.NewDesc("edgesteer_dnstap_connects_total", "Connections to the dnstap reader; absent without [dnstap].", nil, nil),
	})
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.messages
	ch <- c.connected
	ch <- c.connects
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	o := c.out
	dropped := o.dropped.Load()
	o.mu.Lock()
	for _, t := range o.taps {
		dropped += t.dropped.Load()
	}
	o.mu.Unlock()
	connected := 0.0
	if o.connected.Load() {
		connected = 1
	}
	ch <- prometheus.MustNewConstMetric(c.messages, prometheus.CounterValue, float64(o.sent.Load()), "sent")
	ch <- prometheus.MustNewConstMetric(c.messages, prometheus.CounterValue, float64(dropped), "dropped")
	ch <- prometheus.MustNewConstMetric(c.connected, prometheus.GaugeValue, connected)
	ch <- prometheus.MustNewConstMetric(c.connects, prometheus.CounterValue, float64(o.connects.Load()))
}
