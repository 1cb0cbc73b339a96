package drain

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// MarshalBinary gives all that the ledger remembers, for another ledger's Merge. Ledgers that agree give the same octets.
func (l *Ledger) MarshalBinary() ([]byte, error) {
	return encoded(l.state.Load().message()), nil
}

// Merge takes in the state of another node, or a part of it. The result is the same in whatever order and however often states are merged; nothing is undone and nothing forgotten,
// and a lift is final. It is in force on return, and written by the next Flush or by Run: the node that accepted it has it on disk. It does not wait for the disk, however long that takes.
// What cannot be read is left out and is the error.
func (l *Ledger) Merge(b []byte) error {
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		err = fmt.Errorf("merging a peer's statements: %w", err)
		l.raise(ForeignState, err.Error())
		return err
	}
	theirs, bad, err := m.state()
	if err != nil {
		err = fmt.Errorf("merging a peer's statements: %w", err)
		l.raise(ForeignState, err.Error())
		return err
	}
	if l.closed.Load() {
		return ErrClosed
	}
	for _, e := range theirs.entries {
		l.observe(e)
	}
	if l.hear(theirs.prune(l.clock.Now())) && l.mu.TryLock() { // else who has it, perhaps waiting for the disk, or Run
		l.noteMerges()
		l.mu.Unlock()
	}
	if !l.foreign(bad, "a peer's state") {
		return errors.New("merging a peer's statements: some are not valid")
	}
	return nil
}

// hear puts what another node says in force; false if nothing of it is new.
func (l *Ledger) hear(theirs *state) bool {
	l.joining.Lock()
	defer l.joining.Unlock()
	ours := l.state.Load()
	joined, changed, news := join(ours, theirs)
	if !news {
		return false
	}
	for _, id := range changed {
		l.heard = append(l.heard, heard(ours.entries[id], joined.entries[id]))
		l.metrics.operations.WithLabelValues(string(Merged)).Inc()
	}
	if l.before == nil {
		l.before = ours
	}
	l.publish(joined)
	l.settle(NoState)
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return true
}

// noteMerges takes down what was merged, which is yet to be written. It holds mu.
func (l *Ledger) noteMerges() {
	l.joining.Lock()
	records, before := l.heard, l.before
	l.heard, l.before = nil, nil
	l.joining.Unlock()
	if before == nil {
		return
	}
	for i := range records {
		l.pending = append(l.pending, l.number(records[i]))
	}
	if l.merged == nil && len(records) > 0 {
		l.merged = before
	}
	l.dirty = true
	l.showPending()
}

func (l *Ledger) observe(e *Entry) {
	ok := l.clock.Observe(e.Stamp)
	if e.Lift != nil {
		ok = l.clock.Observe(e.Lift.Stamp) && ok
	}
	if !ok {
		l.metrics.ahead.Inc()
	}
}

// foreign reports statements that came from outside and are not valid; false if there are any.
func (l *Ledger) foreign(bad int, where string) bool {
	if bad > 0 {
		l.raise(ForeignState, fmt.Sprintf("%d statements in %s are not valid and were left out", bad, where))
	}
	return bad == 0
}

// lookAtMerges looks whether what came from other nodes breaks a guard rail together with what was here. Nothing is undone: it is told.
func (l *Ledger) lookAtMerges(now time.Time) {
	before := l.merged
	l.merged = nil
	if before == nil || l.config.Effect == nil {
		return
	}
	s := l.state.Load()
	var ids, overridden []string
	for _, e := range s.sorted() {
		if e.Live(now) {
			overridden = append(overridden, e.Override...)
		}
		if before.entries[e.ID] != e {
			ids = append(ids, e.ID)
		}
	}
	p, err := l.predict(before, s, ids, now)
	if err != nil {
		l.log.Warn("effect of a merge is unknown", "err", err)
		return
	}
	broken := p.report.not(overridden)
	if len(broken) == 0 {
		l.settleGuards(&p.report)
		return
	}
	l.metrics.guardBroken.Inc()
	l.raise(GuardByMerge, "statements of several nodes together break "+details(&p.report))
	l.pending = append(l.pending, l.number(Record{Op: GuardBroken, Guards: broken, Message: details(&p.report), Changes: p.changes}))
	l.dirty = true
}

// settleGuards ends the alert of a broken guard rail when a newer look at everything finds none broken.
func (l *Ledger) settleGuards(report *Report) {
	if len(report.Broken) == 0 && l.config.Effect != nil {
		l.settle(GuardByMerge)
	}
}

// heard is the record of what came from another node: of a lift, who lifted and why.
func heard(old, e *Entry) Record {
	if e.Lift != nil && (old == nil || old.Lift == nil) {
		r := lifted(old, e)
		r.Op, r.Message = Merged, "lifted"
		return r
	}
	return about(e, Record{Op: Merged, Before: old, After: e})
}
