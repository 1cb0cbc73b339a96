package transfer

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/zones"
)

// Results of transfers to others.
const (
	sentWhole   = "whole"
	sentCurrent = "current"
	sentFailed  = "failed"
)

// Results of NOTIFYs to others.
const (
	toldAnswered = "answered"
	toldRefused  = "refused"
	toldLost     = "lost"
)

type outMetrics struct {
	sent      *prometheus.CounterVec
	refused   *prometheus.CounterVec
	signature *prometheus.CounterVec
	told      *prometheus.CounterVec
}

func newOutMetrics() *outMetrics {
	m := &outMetrics{
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_transfer_out_total", Help: "Zone transfers to secondaries, by result; current: IXFR of a client that has the version.",
		}, []string{"result"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_transfer_refused_total", Help: "Requests for a zone transfer that were refused, by reason.",
		}, []string{"reason"}),
		signature: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_tsig_refused_total", Help: "Messages of any kind that were refused for their TSIG record, by error.",
		}, []string{"error"}),
		told: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_notify_out_total", Help: "NOTIFYs to secondaries, by result; each is tried several times before it counts as lost.",
		}, []string{"result"}),
	}
	for _, v := range []string{sentWhole, sentCurrent, sentFailed} {
		m.sent.WithLabelValues(v)
	}
	for _, v := range []string{refusedZone, refusedAddress, refusedUnsigned, refusedKey, refusedSignature, refusedSteered} {
		m.refused.WithLabelValues(v)
	}
	for _, v := range []string{"badkey", "badsig", "badtime", "badtrunc", "malformed"} {
		m.signature.WithLabelValues(v)
	}
	for _, v := range []string{toldAnswered, toldRefused, toldLost} {
		m.told.WithLabelValues(v)
	}
	return m
}

func (m *outMetrics) register(r prometheus.Registerer) error {
	return errors.Join(r.Register(m.sent), r.Register(m.refused), r.Register(m.signature), r.Register(m.told))
}

func (m *outMetrics) refuse(reason string) { m.refused.WithLabelValues(reason).Inc() }

// tsig counts a refusal; nil: there was nothing to answer to.
func (m *outMetrics) tsig(s *Signer) {
	name := "malformed"
	if s != nil {
		switch s.fault {
		case badSig:
			name = "badsig"
		case badKey:
			name = "badkey"
		case badTime:
			name = "badtime"
		case badTrunc:
			name = "badtrunc"
		}
	}
	m.signature.WithLabelValues(name).Inc()
}

// What became of NOTIFYs that came.
const (
	notifyTaken   = "taken"
	notifyZone    = "zone"    // no secondary zone
	notifyType    = "type"    // of something else than a SOA
	notifyAddress = "address" // no primary of the zone
	notifyKey     = "key"     // not signed with the primary's key
)

// inMetrics are the counters of secondary zones, and what can be said of each when somebody asks (prometheus.Collector). The label zone has the zones of the configuration.
type inMetrics struct {
	in          *In
	checks      *prometheus.CounterVec
	notified    *prometheus.CounterVec
	expired     prometheus.Counter
	storeErrors prometheus.Counter
	serial      *prometheus.Desc
	expiry      *prometheus.Desc
}

func newInMetrics(in *In) *inMetrics {
	m := &inMetrics{
		in: in,
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_secondary_checks_total", Help: "Checks of secondary zones with a primary, by result; refused: a version that is broken or not believed, behind: older than that at hand.",
		}, []string{"result"}),
		notified: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_notify_in_total", Help: "NOTIFYs received, by result.",
		}, []string{"result"}),
		expired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "edgesteer_secondary_expired_total", Help: "Secondary zones that were taken out of service because no primary could be reached for too long.",
		}),
		storeErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "edgesteer_secondary_store_errors_total", Help: "Copies of secondary zones that could not be written or read.",
		}),
		serial: prometheus.NewDesc("edgesteer_secondary_serial", "Serial of a secondary zone; absent before the first transfer.", []string{"zone"}, nil),
		expiry: prometheus.NewDesc("edgesteer_secondary_expiry_seconds", "Seconds until a secondary zone expires if no primary is reached; 0: it is not served.", []string{"zone"}, nil),
	}
	for _, v := range []string{"transferred", "current", "behind", "refused", "failed"} {
		m.checks.WithLabelValues(v)
	}
	for _, v := range []string{notifyTaken, notifyZone, notifyType, notifyAddress, notifyKey} {
		m.notified.WithLabelValues(v)
	}
	return m
}

// count notes a check that gave z or err.
func (m *inMetrics) count(z *zones.Zone, err error) {
	result := "transferred"
	_, refused := errors.AsType[refusal](err)
	switch {
	case errors.Is(err, errBehind):
		result = "behind"
	case refused:
		result = "refused"
	case err != nil:
		result = "failed"
	case z == nil:
		result = "current"
	}
	m.checks.WithLabelValues(result).Inc()
}

func (m *inMetrics) notify(result string) { m.notified.WithLabelValues(result).Inc() }

// Describe implements prometheus.Collector.
func (m *inMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range []prometheus.Collector{m.checks, m.notified, m.expired, m.storeErrors} {
		c.Describe(ch)
	}
	ch <- m.serial
	ch <- m.expiry
}

// Collect implements prometheus.Collector.
func (m *inMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{m.checks, m.notified, m.expired, m.storeErrors} {
		c.Collect(ch)
	}
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	for _, s := range m.in.zones {
		left := 0.0
		if s.serving {
			left = max(0, time.Until(s.checked.Add(timersOf(s.copy).expire)).Seconds())
		}
		ch <- prometheus.MustNewConstMetric(m.expiry, prometheus.GaugeValue, left, s.name)
		if s.copy != nil {
			ch <- prometheus.MustNewConstMetric(m.serial, prometheus.GaugeValue, float64(s.copy.Serial()), s.name)
		}
	}
}
