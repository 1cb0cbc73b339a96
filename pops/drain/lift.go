package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edgesteer/edgesteer/pops"
)

// Lift ends statements, or says in a *Refusal why not. It never looks at guard rails: giving back must always work.
func (l *Ledger) Lift(r LiftRequest) (Result, error) {
	plain := r
	plain.Key, plain.DryRun = "", false
	record := Record{Target: r.Target, Author: r.Author, Role: r.Role, Reason: r.Reason, Ticket: r.Ticket}
	return l.order("lift", plain, r.Key, r.DryRun, record, func(digest string) (Result, *Refusal) { return l.lift(r, digest) })
}

func (l *Ledger) lift(r LiftRequest, digest string) (Result, *Refusal) {
	now := l.clock.Now()
	s := l.state.Load()
	if bad := cmp.Or(checkWho(r.Author, r.Role, r.Reason, true, r.Ticket, r.Key), r.Back.check("ramp back"), checkOverride(r.Override, r.Role)); bad != nil {
		return Result{}, bad
	}
	found, bad := l.pick(s, r.Target, r.IDs, r.Role, toRestore, now)
	if bad != nil {
		return Result{}, bad
	}
	var result Result
	var ids []string
	var records []Record
	for _, old := range found {
		e := old.copied()
		e.Lift = &Lift{At: now, Author: r.Author, Role: r.Role, Reason: strings.TrimSpace(r.Reason), Ticket: r.Ticket, Back: r.Back, Stamp: l.clock.Stamp(old.Stamp)}
		switch {
		case r.Now:
			e.Lift.Back = Way{}
		case r.Back.Over == 0:
			e.Lift.Back = old.Back
		}
		if old.Lift != nil {
			if !hurries(e.Lift, old, now) { // asked for by its id, as webhooks do more than once
				result.Ended = append(result.Ended, old)
				continue
			}
			e.Lift.From = old.Share(now)
			if old.Lift.Stamp.Compare(old.Stamp) > 0 {
				e.Lift.Stamp = l.clock.Stamp(old.Lift.Stamp)
			}
		}
		e.cover()
		result.Ended, ids = append(result.Ended, e), append(ids, e.ID)
		records = append(records, lifted(old, e))
	}
	if len(ids) == 0 && len(r.IDs) == 0 {
		return Result{}, coming(found[0], r.Role)
	}
	if len(ids) == 0 {
		result.Repeated, result.Durable = true, !l.dirty
		return result, nil
	}
	receipt := l.receipt(r.Author, r.Key, digest, nil, result.Ended, result.Ended[len(result.Ended)-1].Lift.Stamp, now)
	next := s.with(result.Ended, receipt)
	result.Remaining = next.touching(result.Ended, now)
	if predicted, err := l.predict(s, next, ids, now); err == nil {
		result.Report, result.Changes = predicted.report, predicted.changes
	} else {
		result.Warnings = append(result.Warnings, err.Error())
	}
	if r.DryRun {
		return result, nil
	}
	for i := range records {
		records[i].Changes = result.Changes
	}
	l.settleGuards(&result.Report)
	if result.Durable, bad = l.commit(s, next, records, slices.Contains(r.Override, Volatile)); bad != nil {
		return Result{}, bad
	}
	l.tell(result.Ended, receipt)
	return result, nil
}

// hurries tells whether a lift gives back sooner than the one that stands, of which a share is still on its way. Only a person hurries: a webhook that repeats itself changes nothing.
func hurries(l *Lift, old *Entry, now time.Time) bool {
	return l.Role == pops.Person && old.Phase(now) == Restoring && l.done().Before(old.Lift.done())
}

// done is when everything is given back.
func (l *Lift) done() time.Time { return l.At.Add(l.Back.Over) }

// coming refuses to lift by its target what comes back already, and not later than asked for.
func coming(e *Entry, role pops.Class) *Refusal {
	bad := &Refusal{Code: Conflict, IDs: []string{e.ID}, Message: fmt.Sprintf("%s comes back already, until %s: %s %s was lifted by %s: %s", e.Target, e.Lift.done().Format(time.RFC3339), e.Kind, e.ID, e.Lift.Author, e.Lift.Reason)}
	if role == pops.Person {
		bad.Hint = fmt.Sprintf("edgesteer restore %s --now gives back at once", e.Target)
	}
	return bad
}

// lifted is the record of a lift: who lifted, not who said it.
func lifted(old, e *Entry) Record {
	r := about(e, Record{Op: LiftedOp, Before: old, After: e})
	r.Author, r.Role, r.Reason, r.Ticket = e.Lift.Author, e.Lift.Role, e.Lift.Reason, e.Lift.Ticket
	return r
}

// Renew gives statements another end, or says in a *Refusal why not. Nothing else of them changes.
func (l *Ledger) Renew(r RenewRequest) (Result, error) {
	plain := r
	plain.Key, plain.DryRun = "", false
	record := Record{Target: r.Target, Author: r.Author, Role: r.Role, Reason: r.Reason}
	return l.order("renew", plain, r.Key, r.DryRun, record, func(digest string) (Result, *Refusal) { return l.renew(r, digest) })
}

func (l *Ledger) renew(r RenewRequest, digest string) (Result, *Refusal) {
	now := l.clock.Now()
	s := l.state.Load()
	if bad := cmp.Or(checkWho(r.Author, r.Role, r.Reason, false, r.Key), checkOverride(r.Override, r.Role)); bad != nil {
		return Result{}, bad
	}
	last, bad := checkFor(r.For, r.Forever, r.Role)
	if bad != nil {
		return Result{}, bad
	}
	found, bad := l.pick(s, r.Target, r.IDs, r.Role, toRenew, now)
	if bad != nil {
		return Result{}, bad
	}
	var result Result
	var ids []string
	var records []Record
	for _, old := range found {
		if !old.Live(now) {
			if len(r.IDs) == 0 {
				continue
			}
			return Result{}, &Refusal{Code: Conflict, IDs: []string{old.ID}, Message: fmt.Sprintf("%s %s is %s: it cannot be renewed", old.Kind, old.ID, old.Phase(now)), Hint: "make it again"}
		}
		e := old.copied()
		e.Version, e.Created, e.Stamp = old.Version+1, now, l.clock.Stamp(old.Stamp)
		e.Expires = time.Time{}
		if last > 0 {
			e.Expires = now.Add(last)
			if e.Start.After(now) {
				e.Expires = e.Start.Add(last)
			}
		}
		if end := e.Ramp.End(); !e.Expires.IsZero() && end.After(now) && !end.Before(e.Expires) {
			return Result{}, invalid("", "the ramp of %s ends at %s, later than the new expiry", e.ID, end.Format(time.RFC3339))
		}
		e.cover()
		record := about(e, Record{Op: Renewed, Before: old, After: e})
		record.Author, record.Role, record.Reason = r.Author, r.Role, r.Reason
		result.Statements, ids, records = append(result.Statements, e), append(ids, e.ID), append(records, record)
	}
	if len(ids) == 0 {
		return Result{}, nothing(s, r.Target, toRenew, now)
	}
	if r.DryRun {
		return result, nil
	}
	receipt := l.receipt(r.Author, r.Key, digest, ids, nil, result.Statements[len(ids)-1].Stamp, now)
	if result.Durable, bad = l.commit(s, s.with(result.Statements, receipt), records, slices.Contains(r.Override, Volatile)); bad != nil {
		return Result{}, bad
	}
	l.tell(result.Statements, receipt)
	return result, nil
}

// What would do to a target what was asked of one that no statement names, with a place for the target.
const (
	toRestore = "edgesteer restore %s"
	toRenew   = "edgesteer renew %s --for 8h"
)

// pick finds the statements that a lift or a renewal is about. The command is what does the same to other statements.
func (l *Ledger) pick(s *state, target pops.Target, ids []string, role pops.Class, command string, now time.Time) ([]*Entry, *Refusal) {
	var found []*Entry
	switch {
	case (len(ids) > 0) == (target != pops.Target{}):
		return nil, invalid("", "give a target or the ids of statements, one of the two")
	case len(ids) > 0:
		for _, id := range ids {
			e, ok := s.entries[id]
			if !ok {
				return nil, &Refusal{Code: Unknown, Message: fmt.Sprintf("unknown statement %q", id), Hint: "see edgesteer status", IDs: []string{id}}
			}
			found = append(found, e)
		}
	default:
		for _, e := range s.sorted() {
			if e.Target == target && (e.Live(now) || e.Phase(now) == Restoring) && (role == pops.Person || e.Role == role) {
				found = append(found, e)
			}
		}
		if len(found) == 0 {
			if bad := checkTarget(l.config.Fleet(), target); bad != nil && len(s.touching([]*Entry{{Statement: Statement{Target: target}}}, now)) == 0 {
				return nil, bad
			}
			return nil, nothing(s, target, command, now)
		}
	}
	for _, e := range found {
		if role != pops.Person && e.Role != role {
			return nil, &Refusal{Code: Forbidden, IDs: []string{e.ID}, Message: fmt.Sprintf("%s %s is by %s (%s): %s cannot change it", e.Kind, e.ID, e.Author, e.Role, role)}
		}
	}
	return found, nil
}

// nothing refuses an operation on a target that no statement names exactly.
func nothing(s *state, target pops.Target, command string, now time.Time) *Refusal {
	bad := &Refusal{Code: Unknown, Message: fmt.Sprintf("nothing stands for %s", target)}
	var others []string
	for _, e := range s.touching([]*Entry{{Statement: Statement{Target: target}}}, now) {
		bad.IDs = append(bad.IDs, e.ID)
		others = append(others, fmt.Sprintf("%s %s of %s by %s", e.Kind, e.ID, e.Target, e.Author))
		bad.Hint = fmt.Sprintf(command, e.Target)
	}
	if len(others) > 0 {
		bad.Message += ", but it is touched by " + strings.Join(others, ", ")
	}
	return bad
}

// touching gives the live statements, other than those of list, whose target touches one of theirs.
func (s *state) touching(list []*Entry, now time.Time) (others []*Entry) {
	for _, e := range s.sorted() {
		if e.Live(now) && slices.ContainsFunc(list, func(o *Entry) bool { return o.ID != e.ID && o.Target.Touches(e.Target) }) {
			others = append(others, e)
		}
	}
	return others
}
