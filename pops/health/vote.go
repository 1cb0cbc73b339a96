package health

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Vote is what one node believes of one endpoint.
type Vote struct {
	Down  bool         `json:"down,omitempty"`
	Since time.Time    `json:"since"`           // of Down
	Dead  []netip.Addr `json:"dead,omitempty"`  // addresses that fail, sorted
	Error string       `json:"error,omitempty"` // the last fault of one of them
	Set   time.Time    `json:"set"`             // when any of this was last changed: of two the newer counts
}

func (v *Vote) same(o *Vote) bool {
	return v.Down == o.Down && v.Error == o.Error && slices.Equal(v.Dead, o.Dead)
}

// Report is all that one node believes. Reports form a lattice: of two of one node that with the later Epoch counts; of the same epoch the votes are joined, each the newer, and the later At
// counts. So the order in which they come, and how often, does not matter.
type Report struct {
	Node  string          `json:"node"`
	PoP   string          `json:"pop,omitempty"` // where the node stands
	Epoch time.Time       `json:"epoch"`         // of the node's process and plan
	At    time.Time       `json:"at"`            // the node still believes it then
	Votes map[string]Vote `json:"votes,omitempty"`

	heard time.Time // when At was last heard to advance, by this machine's clock
}

// join takes in another report of the same node and says whether it brought a vote or a new epoch, and whether anything at all.
func (r *Report) join(o *Report, now time.Time) (votes, news bool) {
	switch r.Epoch.Compare(o.Epoch) {
	case 1:
		return false, false
	case -1:
		*r = *o
		r.Votes = maps.Clone(o.Votes)
		r.heard = now
		return true, true
	}
	if o.At.After(r.At) {
		r.At, r.heard, news = o.At, now, true
	}
	for name, v := range o.Votes {
		mine, ok := r.Votes[name]
		if ok && compare(&v, &mine) <= 0 {
			continue
		}
		if r.Votes == nil {
			r.Votes = map[string]Vote{}
		}
		r.Votes[name] = v
		votes, news = true, true
	}
	return votes, news
}

// compare orders votes: later is more, and of two of the same moment, which no node makes, some fixed one.
func compare(a, b *Vote) int {
	if c := a.Set.Compare(b.Set); c != 0 {
		return c
	}
	if a.same(b) && a.Since.Equal(b.Since) {
		return 0
	}
	return slices.Compare(a.bytes(), b.bytes())
}

func (v *Vote) bytes() []byte {
	b, _ := json.Marshal(v) // times and texts always can be
	return b
}

// age is how old a report is, whichever of the two clocks says so.
func (r *Report) age(now time.Time) time.Duration {
	at := r.At
	if r.heard.Before(at) {
		at = r.heard
	}
	return now.Sub(at)
}

// messageVersion is that of the form in which reports travel.
const messageVersion = 1

type message struct {
	Version int      `json:"version"`
	Reports []Report `json:"reports"`
}

func encode(reports ...Report) []byte {
	b, _ := json.Marshal(message{messageVersion, reports}) // times and texts always can be
	return b
}

func decode(b []byte) ([]Report, error) {
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("merging a peer's votes: %w", err)
	}
	if m.Version != messageVersion {
		return nil, fmt.Errorf("merging a peer's votes: version %d, this node knows %d", m.Version, messageVersion)
	}
	return slices.DeleteFunc(m.Reports, func(r Report) bool { return r.Node == "" }), nil
}

// forget is how long a node that is not heard of remains a voter.
const forget = 24 * time.Hour

// MarshalBinary gives all that is known of every node's votes, for another Monitor's Merge.
func (m *Monitor) MarshalBinary() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beat(m.now())
	reports := make([]Report, 0, len(m.reports))
	for _, name := range slices.Sorted(maps.Keys(m.reports)) {
		reports = append(reports, *m.reports[name])
	}
	return encode(reports...), nil
}

// Merge takes in what another node knows, all of it or a part: in any order and any number of times.
func (m *Monitor) Merge(b []byte) error {
	reports, err := decode(b)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for i := range reports {
		r := &reports[i]
		if r.Node == m.node {
			m.met(r)
			continue
		}
		if now.Sub(r.At) > forget {
			continue
		}
		r.At = notAhead(r.At, now)
		mine := m.reports[r.Node]
		if mine == nil {
			mine = &Report{Node: r.Node}
			m.reports[r.Node] = mine
		}
		votes, news := mine.join(r, now)
		m.dirty = m.dirty || news
		if votes {
			m.nudge()
		}
	}
	return nil
}

// met takes in a report of this very node, of an earlier life: its present words must count for more.
func (m *Monitor) met(r *Report) {
	own := m.reports[m.node]
	if !r.Epoch.After(own.Epoch) {
		return
	}
	own.Epoch = r.Epoch.Add(1)
	if !own.At.After(r.At) {
		own.At = r.At.Add(1)
	}
	m.send(own.Votes)
}

// beat notes that this node still believes what it said. Where that was said by a clock that was ahead then, the word of now is the next one all the same: else the others would take the node for silent
// until time has caught up.
func (m *Monitor) beat(now time.Time) {
	own := m.reports[m.node]
	if !now.After(own.At) {
		now = own.At.Add(1)
	}
	own.At, own.heard = now, m.now()
}

// maxAhead is how far in the future a report may be: clocks differ.
const maxAhead = time.Minute

// notAhead is a node's last word as far as it can be: one of a clock that is far ahead counts as of now, or the node would be a voter long after it is gone.
func notAhead(at, now time.Time) time.Time {
	if at.Sub(now) > maxAhead {
		return now
	}
	return at
}

// send tells the other nodes votes of this node; none is a sign of life.
func (m *Monitor) send(votes map[string]Vote) {
	if m.config.Broadcast == nil {
		return
	}
	m.beat(m.now())
	own := *m.reports[m.node]
	if len(votes) == 0 {
		own.Votes = nil
		m.config.Broadcast("", encode(own))
		return
	}
	for name, v := range votes {
		own.Votes = map[string]Vote{name: v}
		m.config.Broadcast(name, encode(own))
	}
}
