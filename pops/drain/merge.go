package drain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/edgesteer/edgesteer/pops"
)

// state is the replicated part of a ledger. It is immutable once published; its single writer is the Ledger. A join of two states is commutative, associative and idempotent.
type state struct {
	entries  map[string]*Entry
	receipts map[string]*Receipt
}

// Receipt remembers a request that came with an idempotency key, so that a retry, at whichever node, is the same request.
type Receipt struct {
	Key    string    `json:"key"`    // author and key
	Digest string    `json:"digest"` // of the request
	IDs    []string  `json:"ids"`    // what it made or changed
	Ended  []string  `json:"ended,omitempty"`
	At     time.Time `json:"at"`
	Stamp  Stamp     `json:"stamp"`
}

// receiptLife is how long a retry is recognised.
const receiptLife = 24 * time.Hour

func newState() *state {
	return &state{entries: map[string]*Entry{}, receipts: map[string]*Receipt{}}
}

// with gives a copy of s in which some entries and receipts stand in place of the old ones.
func (s *state) with(entries []*Entry, receipt *Receipt) *state {
	n := &state{entries: maps.Clone(s.entries), receipts: s.receipts}
	for _, e := range entries {
		n.entries[e.ID] = e
	}
	if receipt != nil {
		n.receipts = maps.Clone(s.receipts)
		n.receipts[receipt.Key] = receipt
	}
	return n
}

// sorted gives the entries in order of id.
func (s *state) sorted() []*Entry {
	return slices.SortedFunc(maps.Values(s.entries), func(a, b *Entry) int { return cmp.Compare(a.ID, b.ID) })
}

// join merges two states. changed are the ids whose entry is not as it was in a; news says that anything is not.
func join(a, b *state) (joined *state, changed []string, news bool) {
	joined = &state{entries: maps.Clone(a.entries), receipts: maps.Clone(a.receipts)}
	for id, theirs := range b.entries {
		ours, ok := a.entries[id]
		merged := theirs
		if ok {
			if ours == theirs {
				continue
			}
			merged = joinEntry(ours, theirs)
			if equal(ours, merged) {
				continue
			}
		}
		joined.entries[id] = merged
		changed = append(changed, id)
	}
	for key, theirs := range b.receipts {
		if ours, ok := a.receipts[key]; !ok || order(ours.Stamp.Compare(theirs.Stamp), ours, theirs) > 0 {
			joined.receipts[key] = theirs
			news = true
		}
	}
	slices.Sort(changed)
	return joined, changed, news || len(changed) > 0
}

// joinEntry merges what two sides know of one id: the version with the highest stamp, of the lifts the one that is done first, all the evidence.
func joinEntry(a, b *Entry) *Entry {
	high, low := a, b
	if order(a.Stamp.Compare(b.Stamp), &a.Statement, &b.Statement) < 0 {
		high, low = b, a
	}
	merged := high.copied()
	merged.Evidence = union(high.Evidence, low.Evidence)
	merged.Forever = high.Forever || low.Forever
	if low.Horizon.After(high.Horizon) {
		merged.Horizon = low.Horizon
	}
	if merged.Lift == nil || low.Lift != nil && orderLifts(low.Lift, merged.Lift) < 0 {
		merged.Lift = low.Lift
	}
	return merged
}

// orderLifts puts the lift first that gives everything back first, so that a merge never takes away again what one side had given back.
func orderLifts(a, b *Lift) int {
	end := a.done().Compare(b.done())
	return order(cmp.Or(end, a.Stamp.Compare(b.Stamp)), a, b)
}

// order decides between two things of one stamp, which only a broken clock or a forged message makes, by what they hold: all nodes must decide the same.
func order(by int, a, b any) int {
	if by != 0 {
		return by
	}
	return bytes.Compare(encoded(a), encoded(b))
}

func equal(a, b *Entry) bool { return a == b || bytes.Equal(encoded(a), encoded(b)) }

// encoded is the JSON of one of this package's types, which have nothing that does not encode.
func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("drain: " + err.Error())
	}
	return b
}

// prune drops what can be forgotten. It gives s itself if that is nothing.
func (s *state) prune(now time.Time) *state {
	stale := func(e *Entry) bool {
		until, ever := e.keepUntil()
		return ever && now.After(until)
	}
	old := func(r *Receipt) bool { return now.Sub(r.At) > receiptLife }
	n := s
	for id, e := range s.entries {
		if stale(e) {
			if n == s {
				n = &state{entries: maps.Clone(s.entries), receipts: maps.Clone(s.receipts)}
			}
			delete(n.entries, id)
		}
	}
	for key, r := range s.receipts {
		if old(r) {
			if n == s {
				n = &state{entries: maps.Clone(s.entries), receipts: maps.Clone(s.receipts)}
			}
			delete(n.receipts, key)
		}
	}
	return n
}

// stateVersion is the version of message.
const stateVersion = 1

// message is a state, or a part of one, between nodes and in the ledger file.
type message struct {
	Version  int        `json:"version"`
	Entries  entries    `json:"entries"`
	Receipts []*Receipt `json:"receipts,omitempty"`
}

// entries are read each for itself: one that holds what this version does not know is nil, and does not hold back the others.
type entries []*Entry

// UnmarshalJSON implements json.Unmarshaler.
func (l *entries) UnmarshalJSON(b []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*l = make(entries, len(list))
	for i, text := range list {
		if json.Unmarshal(text, &(*l)[i]) != nil {
			(*l)[i] = nil
		}
	}
	return nil
}

// message gives the state in canonical order: equal states are equal octets.
func (s *state) message() message {
	return message{
		Version:  stateVersion,
		Entries:  s.sorted(),
		Receipts: slices.SortedFunc(maps.Values(s.receipts), func(a, b *Receipt) int { return cmp.Compare(a.Key, b.Key) }),
	}
}

var errNewer = errors.New("made by a newer version of edgesteer")

// state gives the valid part of a message, and how many entries were not.
func (m message) state() (s *state, bad int, err error) {
	if m.Version != stateVersion {
		return nil, 0, fmt.Errorf("version %d of statements, this is version %d: %w", m.Version, stateVersion, errNewer)
	}
	s = newState()
	for _, e := range m.Entries {
		if e == nil || !e.valid() {
			bad++
			continue
		}
		e = e.copied()
		e.Evidence = union(e.Evidence, nil)
		e.cover()
		if other, ok := s.entries[e.ID]; ok {
			e = joinEntry(other, e)
		}
		s.entries[e.ID] = e
	}
	for _, r := range m.Receipts {
		if r == nil || r.Key == "" {
			bad++
			continue
		}
		if other, ok := s.receipts[r.Key]; ok && order(other.Stamp.Compare(r.Stamp), other, r) <= 0 {
			continue
		}
		s.receipts[r.Key] = r
	}
	return s, bad, nil
}

// valid says whether an entry that came from outside can be worked with.
func (e *Entry) valid() bool {
	if e.ID == "" || len(e.ID) > 128 || !e.Kind.Valid() || !e.Role.Valid() || e.Target == (pops.Target{}) || !e.Stamp.valid() {
		return false
	}
	for _, t := range []time.Time{e.Created, e.Start, e.Expires, e.Ramp.Start, e.Horizon} {
		if t.Year() > lastYear {
			return false
		}
	}
	if e.Ramp.Check() != nil || !e.Back.valid() || e.Kind == pops.Shift && e.To == (pops.Target{}) {
		return false
	}
	return e.Lift == nil || e.Lift.Back.valid() && e.Lift.Role.Valid() && e.Lift.Stamp.valid() && e.Lift.At.Year() <= lastYear
}

// lastYear of the times in a statement: what follows from them must still be a time that JSON can say.
const lastYear = 9000

func (w Way) valid() bool {
	return pops.Ramp{To: 100, Over: w.Over, Steps: w.Steps}.Check() == nil
}
