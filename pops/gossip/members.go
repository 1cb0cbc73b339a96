package gossip

import (
	"cmp"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Liveness is what is known of a member.
type Liveness string

// The states of members.
const (
	Alive   Liveness = "alive"
	Suspect Liveness = "suspect" // a member that has been silent for a while
	Dead    Liveness = "dead"    // gone without a word; it is looked for
	Left    Liveness = "left"    // gone, and said so
)

// Member is one node of the fleet.
type Member struct {
	Name     string
	Addr     string // HOST:PORT
	State    Liveness
	Meta     []byte
	Since    time.Time     // of State; Suspect counts from the last word
	LastSeen time.Time     // when something last came from it; zero: only others have told of it
	RTT      time.Duration // of the last probe; 0: unknown
}

// remembered is how long a member that is gone is known.
const remembered = 24 * time.Hour

// silence is how long a member may say nothing before it is suspect; in fleets above 6 nodes, where each says something to a few others a second, longer in proportion.
const silence = 5 * time.Second

// members is who is there, kept from the events of the library.
type members struct {
	self    string
	log     *slog.Logger
	metrics *metrics

	mu      sync.Mutex
	all     map[string]*member
	leaving map[string]time.Time // who said goodbye, and when
	changed chan struct{}        // closed and replaced when somebody comes or goes
}

type member struct {
	Member
	node memberlist.Node
}

func newMembers(self string, log *slog.Logger, m *metrics) *members {
	return &members{self: self, log: log, metrics: m, all: map[string]*member{}, leaving: map[string]time.Time{}, changed: make(chan struct{})}
}

// Members are all nodes of the fleet, this one included, by name. Those that are gone are remembered for 24 h.
func (g *Gossip) Members() []Member { return g.members.list() }

func (ms *members) list() []Member {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	now := time.Now()
	ms.forget(now)
	limit := silence * time.Duration(max(1, len(ms.all)/6))
	count := map[Liveness]int{Alive: 0, Suspect: 0, Dead: 0, Left: 0}
	out := make([]Member, 0, len(ms.all))
	for _, m := range ms.all {
		one := m.Member
		if heard := later(one.LastSeen, one.Since); one.State == Alive && one.Name != ms.self && now.Sub(heard) > limit {
			one.State, one.Since = Suspect, heard
		}
		count[one.State]++
		out = append(out, one)
	}
	for state, n := range count {
		ms.metrics.members.WithLabelValues(string(state)).Set(float64(n))
	}
	slices.SortFunc(out, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (ms *members) forget(now time.Time) {
	gone := func(at time.Time) bool { return now.Sub(at) > remembered }
	maps.DeleteFunc(ms.all, func(_ string, m *member) bool { return m.State != Alive && gone(m.Since) })
	maps.DeleteFunc(ms.leaving, func(_ string, at time.Time) bool { return gone(at) })
}

// others gives at most n members besides this node, in random order. They are not to be changed.
func (ms *members) others(n int) []*memberlist.Node {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	out := make([]*memberlist.Node, 0, len(ms.all))
	for _, m := range ms.all {
		if m.State == Alive && m.Name != ms.self {
			out = append(out, &m.node)
		}
	}
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:min(n, len(out))]
}

// alive gives a member that is there.
func (ms *members) alive(name string) (*memberlist.Node, bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m, ok := ms.all[name]; ok && m.State == Alive {
		return &m.node, true
	}
	return nil, false
}

// lost gives the addresses of members that went without a word.
func (ms *members) lost() (out []string) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, m := range ms.all {
		if m.State == Dead {
			out = append(out, m.Addr)
		}
	}
	return out
}

// has tells whether a member is at an address, this node included.
func (ms *members) has(addr string) bool {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, m := range ms.all {
		if m.State == Alive && m.Addr == addr {
			return true
		}
	}
	return false
}

// count is how many others there are, and a channel that is closed when that changes.
func (ms *members) count() (others int, changed <-chan struct{}) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, m := range ms.all {
		if m.State == Alive && m.Name != ms.self {
			others++
		}
	}
	return others, ms.changed
}

// is takes note of what the library says of a node, which it must not be asked about meanwhile.
func (ms *members) is(n *memberlist.Node, state Liveness) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	now := time.Now()
	if state == Dead {
		if at, ok := ms.leaving[n.Name]; ok && now.Sub(at) < time.Minute {
			state = Left
		}
		delete(ms.leaving, n.Name)
	}
	// A node that is being sent to keeps its value: the entry is replaced.
	m := &member{Member: Member{Name: n.Name, Since: now}, node: *n}
	m.node.Meta = slices.Clone(n.Meta)
	if old, ok := ms.all[n.Name]; ok {
		m.LastSeen, m.RTT = old.LastSeen, old.RTT
		if old.State == state {
			m.Since = old.Since
		}
	}
	m.Addr, m.Meta, m.State = addrPort(&m.node), m.node.Meta, state
	ms.all[n.Name] = m
	close(ms.changed)
	ms.changed = make(chan struct{})
	if n.Name != ms.self {
		ms.log.Info("member of the fleet", "peer", n.Name, "addr", m.Addr, "state", state)
	}
}

// heard takes note that something came from a node.
func (ms *members) heard(name string, rtt time.Duration) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m, ok := ms.all[name]; ok {
		m.LastSeen = time.Now()
		if rtt > 0 {
			m.RTT = rtt
		}
	}
}

// leaves takes note that a node is about to leave.
func (ms *members) leaves(name string) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.leaving[name] = time.Now()
	if m, ok := ms.all[name]; ok && m.State == Dead {
		m.State = Left // the library was faster
	}
}
