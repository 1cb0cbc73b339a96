package gossip

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one node's membership. Every label comes from a closed set: the names of states, states of members, and words of this file.
type metrics struct {
	members   *prometheus.GaugeVec
	sent      *prometheus.CounterVec
	octets    *prometheus.CounterVec
	merged    *prometheus.CounterVec
	refused   *prometheus.CounterVec
	dropped   *prometheus.CounterVec
	joins     *prometheus.CounterVec
	differing *prometheus.CounterVec
	conflicts prometheus.Counter
	faults    prometheus.Counter
}

func newMetrics(r prometheus.Registerer, states map[string]State) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "edgesteer_gossip_" + name, Help: help}, labels)
	}
	m := &metrics{
		members: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "edgesteer_gossip_members", Help: "Nodes of the fleet by state, this one included; dead and left ones of the last 24 h.",
		}, []string{"state"}),
		sent:      counter("sent_total", "Messages sent to one node, by the way they went.", "way"),
		octets:    counter("sent_bytes_total", "Octets of messages sent, by the way they went; before compression, without membership and exchanges.", "way"),
		merged:    counter("merged_total", "Pieces of states that were merged, whole states included.", "state"),
		refused:   counter("merge_errors_total", "Pieces of states of which something could not be merged.", "state"),
		dropped:   counter("dropped_total", "Pieces of states that were given up: exchanges make up for them.", "why"),
		joins:     counter("joins_total", "Attempts to reach seeds and lost members.", "outcome"),
		differing: counter("differences_total", "Exchanges because another node's state was found to differ.", "state"),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{Name: "edgesteer_gossip_name_conflicts_total", Help: "Times that another node was heard of that calls itself as a member does."}),
		faults:    prometheus.NewCounter(prometheus.CounterOpts{Name: "edgesteer_gossip_faults_total", Help: "Messages that could not be read or sent, wrong keys among them, as the library counts them."}),
	}
	for _, s := range []Liveness{Alive, Suspect, Dead, Left} {
		m.members.WithLabelValues(string(s))
	}
	for _, way := range []string{wayPacket, wayStream} {
		m.sent.WithLabelValues(way)
		m.octets.WithLabelValues(way)
	}
	for name := range states {
		m.merged.WithLabelValues(name)
		m.refused.WithLabelValues(name)
		m.differing.WithLabelValues(name)
	}
	for _, why := range []string{dropInbox, dropOutbox, dropUnsent, dropUnknown} {
		m.dropped.WithLabelValues(why)
	}
	for _, outcome := range []string{joinDone, joinFailed} {
		m.joins.WithLabelValues(outcome)
	}
	if r != nil {
		r.MustRegister(m.members, m.sent, m.octets, m.merged, m.refused, m.dropped, m.joins, m.differing, m.conflicts, m.faults)
	}
	return m
}

// Values of labels.
const (
	wayPacket = "packet"
	wayStream = "stream"

	dropInbox   = "inbox"   // too much came at once
	dropOutbox  = "outbox"  // too much was to be sent at once
	dropUnsent  = "unsent"  // a node could not be reached over TCP
	dropUnknown = "unknown" // a state that this version does not have, or not a message

	joinDone   = "done"
	joinFailed = "failed"
)
