package server

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// streamCounters are one stream transport's. They are written once per batch of messages or seldomer.
type streamCounters struct {
	_               [64]byte
	queries         atomic.Uint64
	answers         atomic.Uint64
	accepted        atomic.Uint64
	acceptErrors    atomic.Uint64
	closed          [closeReasons]atomic.Uint64
	handshakes      atomic.Uint64
	handshakeErrors atomic.Uint64
	transfers       atomic.Uint64
	transferErrors  atomic.Uint64
	statuses        [len(dohStatuses)]atomic.Uint64
	proxy           [proxyReasons]atomic.Uint64
	_               [64]byte
}

// transportMetrics reads the counters of the listeners when it is asked (prometheus.Collector). Labels are addresses of the configuration and names out of closed sets.
type transportMetrics struct {
	l       *Listeners
	stream  [Transports]streamCounters // that of UDP is not used
	streams atomic.Pointer[streams]    // nil before Start

	reloads, reloadErrors atomic.Uint64
}

func newTransportMetrics(l *Listeners) *transportMetrics { return &transportMetrics{l: l} }

func (m *transportMetrics) serve(s *streams) { m.streams.Store(s) }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("edgesteer_"+name, help, labels, nil)
}

// transportDescs are the metrics of the transports.
type transportDescs struct {
	udpReceived, udpAnswered, udpSilent, udpBatches, udpSendErrors, udpReceiveErrors, udpKernelDrops, udpWorkers, udpBuffer *prometheus.Desc
	accepted, acceptErrors, open, closed, queries, answers, limit                                                           *prometheus.Desc
	transfers, transferErrors, transfersRunning                                                                             *prometheus.Desc
	handshakes, reloads, notAfter                                                                                           *prometheus.Desc
	statuses, proxy                                                                                                         *prometheus.Desc
}

func newTransportDescs() *transportDescs {
	return &transportDescs{
		udpReceived:      desc("udp_received_total", "Datagrams received.", "address"),
		udpAnswered:      desc("udp_answered_total", "Datagrams answered.", "address"),
		udpSilent:        desc("udp_silent_total", "Datagrams that got no answer: no query, rate limited, or dropped by PROXY protocol.", "address"),
		udpBatches:       desc("udp_batches_total", "Batches of datagrams; received / batches is the mean size.", "address"),
		udpSendErrors:    desc("udp_send_errors_total", "Answers that the kernel did not take.", "address"),
		udpReceiveErrors: desc("udp_receive_errors_total", "Errors of receiving.", "address"),
		udpKernelDrops:   desc("udp_kernel_drops_total", "Datagrams that the kernel dropped because the receive buffer was full (Linux).", "address"),
		udpWorkers:       desc("udp_workers", "Workers.", "address"),
		udpBuffer:        desc("udp_receive_buffer_bytes", "Receive buffer of each socket that the kernel granted (Linux).", "address"),
		accepted:         desc("stream_accepted_total", "Connections accepted.", "transport"),
		acceptErrors:     desc("stream_accept_errors_total", "Errors of accepting, such as too many open files.", "transport"),
		open:             desc("stream_connections", "Open connections.", "transport"),
		closed:           desc("stream_closed_total", "Connections closed, by reason; limit and client_limit: the one idle for longest gave way to a new one.", "transport", "reason"),
		queries:          desc("stream_queries_total", "Messages received.", "transport"),
		answers:          desc("stream_answers_total", "Messages answered, zone transfers aside.", "transport"),
		limit:            desc("stream_limit", "Limits in force.", "limit"),
		transfers:        desc("stream_transfers_total", "Zone transfers begun.", "transport"),
		transferErrors:   desc("stream_transfer_errors_total", "Zone transfers that broke off.", "transport"),
		transfersRunning: desc("stream_transfers", "Zone transfers that run."),
		handshakes:       desc("tls_handshakes_total", "TLS handshakes; those of HTTPS that succeeded are not counted.", "transport", "result"),
		reloads:          desc("tls_reloads_total", "Reloads of the certificate.", "result"),
		notAfter:         desc("tls_certificate_expiry_timestamp_seconds", "When the certificate in use expires, Unix time; absent without TLS."),
		statuses:         desc("doh_responses_total", "HTTP responses.", "status"),
		proxy:            desc("proxy_dropped_total", "Datagrams and connections dropped on account of their PROXY header.", "transport", "reason"),
	}
}

// Describe implements prometheus.Collector.
func (m *transportMetrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m *transportMetrics) Collect(ch chan<- prometheus.Metric) {
	d := newTransportDescs()
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	var udpProxy [proxyReasons]uint64
	for _, u := range m.l.udp {
		var received, answered, batches, sendErrors, readErrors, drops uint64
		for _, c := range u.count {
			// Answered first: what is received between the two reads must not make silence negative.
			answered += c.answered.Load()
			sendErrors += c.sendErrors.Load()
			received += c.received.Load()
			batches += c.batches.Load()
			readErrors += c.readErrors.Load()
			for i := range udpProxy {
				udpProxy[i] += c.proxy[i].Load()
			}
		}
		for _, loop := range u.loops {
			drops += loop.kernelDrops()
		}
		a := u.addr.String()
		count(d.udpReceived, received, a)
		count(d.udpAnswered, answered, a)
		count(d.udpSilent, received-answered-sendErrors, a)
		count(d.udpBatches, batches, a)
		count(d.udpSendErrors, sendErrors, a)
		count(d.udpReceiveErrors, readErrors, a)
		count(d.udpKernelDrops, drops, a)
		gauge(d.udpWorkers, float64(len(u.loops)), a)
		gauge(d.udpBuffer, float64(u.loops[0].room()), a)
	}
	streams := m.streams.Load()
	for t := TCP; t < Transports; t++ {
		c, name := &m.stream[t], transportNames[t]
		count(d.accepted, c.accepted.Load(), name)
		count(d.acceptErrors, c.acceptErrors.Load(), name)
		open := 0
		if streams != nil {
			open = streams.conns.opened(t)
		}
		gauge(d.open, float64(open), name)
		for why := closedClient; int(why) < closeReasons; why++ {
			count(d.closed, c.closed[why].Load(), name, closeReasonNames[why])
		}
		count(d.queries, c.queries.Load(), name)
		count(d.answers, c.answers.Load(), name)
		if t != DoH {
			count(d.transfers, c.transfers.Load(), name)
			count(d.transferErrors, c.transferErrors.Load(), name)
		}
	}
	count(d.handshakes, m.stream[DoT].handshakes.Load(), "dot", "done")
	count(d.handshakes, m.stream[DoT].handshakeErrors.Load(), "dot", "failed")
	count(d.handshakes, m.stream[DoH].handshakeErrors.Load(), "doh", "failed")
	for i, status := range dohStatuses {
		count(d.statuses, m.stream[DoH].statuses[i].Load(), strconv.Itoa(status))
	}
	for i, reason := range proxyReasonNames {
		count(d.proxy, udpProxy[i], transportNames[UDP], reason)
		for t := TCP; t < Transports; t++ {
			count(d.proxy, m.stream[t].proxy[i].Load(), transportNames[t], reason)
		}
	}
	running := 0
	if streams != nil {
		running = len(streams.transfers)
	}
	gauge(d.transfersRunning, float64(running))
	for _, l := range []struct {
		name  string
		value int
	}{{"connections", m.l.cfg.MaxConns}, {"connections_per_client", m.l.cfg.MaxConnsPerClient}, {"transfers", m.l.cfg.MaxTransfers}, {"https_streams", m.l.cfg.HTTPSStreams}} {
		gauge(d.limit, float64(l.value), l.name)
	}
	count(d.reloads, m.reloads.Load(), "done")
	count(d.reloads, m.reloadErrors.Load(), "failed")
	if m.l.certs != nil {
		gauge(d.notAfter, float64(m.l.certs.notAfter().Unix()))
	}
}
