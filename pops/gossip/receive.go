package gossip

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// inboxSize is how many messages wait to be merged. The library's listener does not wait for states.
const inboxSize = 4096

// hooks is what the library calls. None of it may wait.
type hooks struct{ g *Gossip }

// NodeMeta implements memberlist.Delegate.
func (h *hooks) NodeMeta(int) []byte { return h.g.config.Meta }

// NotifyMsg implements memberlist.Delegate.
func (h *hooks) NotifyMsg(b []byte) {
	select {
	case h.g.inbox <- slices.Clone(b):
	default:
		h.g.metrics.dropped.WithLabelValues(dropInbox).Inc()
	}
}

// GetBroadcasts implements memberlist.Delegate.
func (h *hooks) GetBroadcasts(overhead, limit int) [][]byte {
	return h.g.sender.queue.GetBroadcasts(overhead, limit)
}

// LocalState implements memberlist.Delegate: it is for an exchange of everything.
func (h *hooks) LocalState(bool) []byte {
	g := h.g
	m := message{kind: whole, sender: g.config.Node}
	for name, s := range g.config.States {
		b, err := s.MarshalBinary()
		if err != nil {
			g.log.Error("writing down a state for the fleet", "state", name, "err", err)
			continue
		}
		m.records = append(m.records, record{state: name, data: b})
	}
	return m.encode()
}

// MergeRemoteState implements memberlist.Delegate: it has a goroutine of its own, and who joins waits for it.
func (h *hooks) MergeRemoteState(b []byte, _ bool) { h.g.take(b) }

// NotifyJoin implements memberlist.EventDelegate.
func (h *hooks) NotifyJoin(n *memberlist.Node) { h.g.members.is(n, Alive) }

// NotifyUpdate implements memberlist.EventDelegate.
func (h *hooks) NotifyUpdate(n *memberlist.Node) { h.g.members.is(n, Alive) }

// NotifyLeave implements memberlist.EventDelegate.
func (h *hooks) NotifyLeave(n *memberlist.Node) { h.g.members.is(n, Dead) }

// AckPayload implements memberlist.PingDelegate.
func (h *hooks) AckPayload() []byte { return nil }

// NotifyPingComplete implements memberlist.PingDelegate.
func (h *hooks) NotifyPingComplete(n *memberlist.Node, rtt time.Duration, _ []byte) {
	h.g.members.heard(n.Name, rtt)
}

// NotifyConflict implements memberlist.ConflictDelegate.
func (h *hooks) NotifyConflict(have, other *memberlist.Node) {
	h.g.metrics.conflicts.Inc()
	h.g.log.Error("two nodes of the fleet have the same name: give one of them another server.node", "node", have.Name, "addr", addrPort(have), "other", addrPort(other))
}

// receive takes what came.
func (g *Gossip) receive(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-g.inbox:
			g.take(b)
		}
	}
}

// take merges a message and passes on what is new in it.
func (g *Gossip) take(b []byte) {
	m, err := decode(b)
	if err != nil || m.sender == g.config.Node {
		if err != nil {
			g.metrics.dropped.WithLabelValues(dropUnknown).Inc()
		}
		return
	}
	g.members.heard(m.sender, 0)
	switch m.kind {
	case pieces, whole:
		for _, r := range m.records {
			if r.id != 0 && !g.seen.add(r.id) {
				continue
			}
			if g.merge(r) && r.id != 0 {
				g.sender.put(waiting{record: r, way: passed})
			}
		}
	case digests:
		g.compare.heard(&m)
	case goodbye:
		g.members.leaves(m.sender)
	default:
		g.metrics.dropped.WithLabelValues(dropUnknown).Inc()
	}
}

// merge hands a piece to its state; false if there is none of that name.
func (g *Gossip) merge(r record) bool {
	s, ok := g.config.States[r.state]
	if !ok {
		g.metrics.dropped.WithLabelValues(dropUnknown).Inc()
		return false
	}
	g.metrics.merged.WithLabelValues(r.state).Inc()
	if err := s.Merge(r.data); err != nil {
		g.metrics.refused.WithLabelValues(r.state).Inc()
		g.log.Debug("merging what another node sent", "state", r.state, "err", err)
	}
	return true
}

// seen remembers the broadcasts that were passed on: the last 8,192 at least.
type seen struct {
	mu       sync.Mutex
	now, old map[uint64]struct{}
}

const seenSize = 8192

func newSeen() *seen { return &seen{now: map[uint64]struct{}{}, old: map[uint64]struct{}{}} }

// add is true for a broadcast that was not seen before.
func (s *seen) add(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, recent := s.now[id]
	_, older := s.old[id]
	if recent || older {
		return false
	}
	if len(s.now) == seenSize {
		s.now, s.old = map[uint64]struct{}{}, s.now
	}
	s.now[id] = struct{}{}
	return true
}

// libraryLog counts what the library complains of, and logs it only for those who look closely: any packet can make it complain.
type libraryLog struct {
	log     *slog.Logger
	metrics *metrics
}

func (l *libraryLog) Write(b []byte) (int, error) {
	line := strings.TrimSpace(string(b))
	if _, text, ok := strings.Cut(line, "memberlist: "); ok {
		if strings.Contains(line, "[ERR") {
			l.metrics.faults.Inc()
		}
		line = text
	}
	l.log.Debug("memberlist", "says", line)
	return len(b), nil
}
