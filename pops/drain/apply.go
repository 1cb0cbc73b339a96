package drain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edgesteer/edgesteer/pops"
)

// Result is what an operation did, or with DryRun would do.
type Result struct {
	Statements []*Entry // made or renewed, as they are now
	Ended      []*Entry // lifted or replaced, as they are now
	Remaining  []*Entry // of a lift: what else still bears on the target
	Changes    []Change // what becomes of shares when every ramp is over
	Report     Report   // what Effect found
	Warnings   []string // for people
	Repeated   bool     // the request was done before: its key is known, or automation said nothing new
	Durable    bool     // it is on disk; false only after an override of Volatile, or where the disk did not confirm it
}

// Apply makes a statement, or says in a *Refusal why not. When it returns without an error the statement is on disk and in force.
func (l *Ledger) Apply(r Request) (Result, error) {
	return l.order("apply", r.withoutKey(), r.Key, r.DryRun, r.record(), func(digest string) (Result, *Refusal) { return l.apply(r, digest) })
}

func (r Request) withoutKey() Request {
	r.Key, r.DryRun = "", false
	return r
}

func (r Request) record() Record {
	return Record{Kind: r.Kind, Target: r.Target, To: r.To, Author: r.Author, Role: r.Role, Reason: r.Reason, Ticket: r.Ticket}
}

func (l *Ledger) apply(r Request, digest string) (Result, *Refusal) {
	now := l.clock.Now()
	s := l.state.Load()
	if r.Kind == pops.Shift && r.To.Service == "" {
		r.To.Service = r.Target.Service
	}
	last, bad := r.check(l.config.Fleet(), now)
	if bad != nil {
		return Result{}, bad
	}
	if bad := s.conflict(&r, now); bad != nil {
		return Result{}, bad
	}
	e, earlier, bad := l.draft(s, &r, last, now)
	if bad != nil {
		return Result{}, bad
	}
	var old *Entry
	if len(earlier) > 0 {
		old = earlier[0]
	}
	if old == e { // automation has said all of it before
		return Result{Statements: []*Entry{e}, Repeated: true, Durable: !l.dirty}, nil
	}
	edit := old != nil && old.ID == e.ID
	entries, ids := []*Entry{e}, []string{e.ID}
	var result Result
	if !edit {
		for _, o := range earlier {
			ended := o.copied()
			ended.Lift = &Lift{At: now, Author: r.Author, Role: r.Role, Reason: r.Reason, Ticket: r.Ticket, For: e.ID, Stamp: e.Stamp}
			ended.cover()
			entries, ids = append(entries, ended), append(ids, ended.ID)
			result.Ended = append(result.Ended, ended)
		}
	}
	receipt := l.receipt(r.Author, r.Key, digest, []string{e.ID}, result.Ended, e.Stamp, now)
	next := s.with(entries, receipt)
	predicted, err := l.predict(s, next, ids, now)
	if err != nil {
		return Result{}, &Refusal{Code: Conflict, Message: err.Error(), Err: err}
	}
	if r.Role == pops.Automation && l.config.Bound != nil && !(edit && old.Live(now)) {
		if why := l.config.Bound(predicted.before, predicted.after); why != "" {
			return Result{}, &Refusal{Code: Guard, Message: why, Hint: "a person can drain it: edgesteer drain " + r.Target.String()}
		}
	}
	result.Statements, result.Report, result.Changes = []*Entry{e}, predicted.report, predicted.changes
	result.Warnings = s.warnings(e, now)
	if broken := predicted.report.not(r.Override); len(broken) > 0 {
		return result, guarded(&r, &predicted.report, broken)
	}
	if r.DryRun {
		return result, nil
	}
	op := Accepted
	if edit {
		op = Edited
	} else if old != nil {
		op = ReplacedOp
	}
	records := []Record{about(e, Record{Op: op, Before: old, After: e, Changes: predicted.changes})}
	if guards := predicted.report.guards(); len(guards) > 0 {
		records = append(records, about(e, Record{Op: Overridden, Guards: guards, Message: details(&predicted.report), After: e}))
	}
	for i, ended := range result.Ended {
		record := lifted(earlier[i], ended)
		record.Message = fmt.Sprintf("replaced by %s: %s %s", r.Author, e.Kind, e.ID)
		records = append(records, record)
	}
	l.settleGuards(&predicted.report)
	result.Durable, bad = l.commit(s, next, records, slices.Contains(r.Override, Volatile))
	if bad != nil {
		return Result{}, bad
	}
	l.tell(entries, receipt)
	return result, nil
}

// draft makes the entry that a request asks for. earlier are the entries that it replaces, the newest first, or the one of which it is the next version; that is e itself when there is nothing new.
func (l *Ledger) draft(s *state, r *Request, last time.Duration, now time.Time) (e *Entry, earlier []*Entry, bad *Refusal) {
	e = &Entry{
		Statement: Statement{
			Kind: r.Kind, Target: r.Target, To: r.To, By: r.By,
			Author: r.Author, Role: r.Role, Reason: strings.TrimSpace(r.Reason), Ticket: r.Ticket, Outage: r.Outage, Override: r.Override,
			Created: now, Start: r.Start.UTC().Round(0), Back: r.Back, Version: 1,
		},
		Evidence: union(r.Evidence, nil),
	}
	if r.Start.IsZero() {
		e.Start = time.Time{}
	}
	begin := now
	if e.Start.After(now) {
		begin = e.Start
	}
	if last > 0 {
		e.Expires = begin.Add(last)
	}
	if r.Outage != "" && r.Role != pops.Person {
		e.ID = OutageID(r.Target, r.Outage)
		if old := s.entries[e.ID]; old != nil {
			if bad = continued(old, now); bad != nil {
				return nil, nil, bad
			}
			e.Evidence = union(old.Evidence, r.Evidence)
			earlier = []*Entry{old}
		}
	} else {
		earlier = s.replaced(e, now)
	}
	from := pops.Share(100)
	var old *Entry
	for _, o := range earlier {
		from = min(from, o.Share(now))
	}
	if len(earlier) > 0 {
		old = earlier[0]
		e.Version = old.Version + 1
		e.Stamp = l.clock.Stamp(old.Stamp)
		e.Horizon, e.Forever = old.Horizon, old.Forever
	} else {
		e.Stamp = l.clock.Stamp(Stamp{})
	}
	e.Ramp = pops.Ramp{From: from, To: pops.Share(100 - r.By), Over: r.Over.Over, Steps: r.Over.Steps}
	if e.Ramp.Over > 0 || e.Start.After(now) {
		e.Ramp.Start = begin
	}
	if e.ID == "" {
		e.ID = newID(s, e)
		if old != nil {
			e.Replaces, e.Horizon, e.Forever = old.ID, time.Time{}, false
		}
	}
	e.cover()
	if old != nil && old.ID == e.ID {
		e = sameOutage(old, e, now)
	}
	return e, earlier, nil
}

// continued refuses to bring an outage back that somebody has ended.
func continued(old *Entry, now time.Time) *Refusal {
	if old.Lift == nil {
		return nil
	}
	return &Refusal{
		Code: Conflict, IDs: []string{old.ID},
		Message: fmt.Sprintf("%s %s for this outage was lifted by %s %s ago: %s", old.Kind, old.ID, old.Lift.Author, now.Sub(old.Lift.At).Round(time.Second), old.Lift.Reason),
		Hint:    "a lift is final; a new outage makes a new statement",
	}
}

// sameOutage gives what becomes of a statement of automation that is made again: itself when that says nothing new, else its next version. Its end moves only when half of the time
// is gone, or a webhook that repeats itself would write all day.
func sameOutage(old, e *Entry, now time.Time) *Entry {
	fresh := e.Expires.Sub(now)
	if !old.Live(now) || old.By != e.By || old.Kind != e.Kind || old.To != e.To || old.Expires.Sub(now) < fresh/2 {
		if old.Live(now) && old.By == e.By { // only longer: a ramp under way goes on
			e.Ramp, e.Start = old.Ramp, old.Start
		}
		return e
	}
	if slices.Equal(old.Evidence, e.Evidence) {
		return old
	}
	c := old.copied()
	c.Evidence = e.Evidence
	return c
}

// replaced finds the earlier statements that a new one takes the place of, the newest first: of the same kind and target and, unless a person makes it, of the same author. Several are those
// that were made on two sides of a cut, or at the same moment on two nodes: who knows of all of them ends all of them, or the lowest share would count whatever is said afterwards.
func (s *state) replaced(e *Entry, now time.Time) (earlier []*Entry) {
	for _, o := range s.entries {
		if o.Live(now) && o.Kind == e.Kind && o.Target == e.Target && o.Role == e.Role && o.Outage == "" && (o.Role == pops.Person || o.Author == e.Author) {
			earlier = append(earlier, o)
		}
	}
	slices.SortFunc(earlier, func(a, b *Entry) int { return b.Stamp.Compare(a.Stamp) })
	return earlier
}

// conflict finds the statement that stands against a request.
func (s *state) conflict(r *Request, now time.Time) *Refusal {
	for _, o := range s.sorted() {
		if !o.Live(now) {
			continue
		}
		switch {
		case r.Kind == pops.Pin && o.Kind != pops.Pin && o.Role == pops.Person && o.Target.Touches(r.Target):
			return &Refusal{
				Code: Conflict, IDs: []string{o.ID},
				Message: fmt.Sprintf("%s is drained by %s: %s %s by %.0f%%: %s", o.Target, o.Author, o.Kind, o.ID, o.By, o.Reason),
				Hint:    fmt.Sprintf("a pin never outweighs a person; lift it first: edgesteer restore %s", o.Target),
			}
		case r.Kind == pops.Shift && o.Kind == pops.Shift && chained(r.Target, r.To, o.Target, o.To):
			return &Refusal{
				Code: Conflict, IDs: []string{o.ID},
				Message: fmt.Sprintf("a shift from %s to %s makes a chain with %s from %s to %s by %s", r.Target, r.To, o.ID, o.Target, o.To, o.Author),
				Hint:    fmt.Sprintf("lift the other first: edgesteer restore %s", o.Target),
			}
		}
	}
	return nil
}

// warnings says what people should know of the statement beside what it changes.
func (s *state) warnings(e *Entry, now time.Time) (list []string) {
	for _, o := range s.sorted() {
		if e.Kind != pops.Pin && e.Role != pops.Person && o.Kind == pops.Pin && o.Live(now) && o.Target.Touches(e.Target) {
			list = append(list, fmt.Sprintf("%s is pinned by %s (%s): this is not applied there", o.Target, o.Author, o.ID))
		}
		if e.Kind != pops.Pin && e.Role == pops.Person && o.Kind == pops.Pin && o.Live(now) && o.Target.Touches(e.Target) {
			list = append(list, fmt.Sprintf("%s is pinned by %s (%s): a person's drain counts all the same", o.Target, o.Author, o.ID))
		}
	}
	return list
}

func guarded(r *Request, report *Report, broken []string) *Refusal {
	bad := &Refusal{Code: Guard, Message: details(report), Report: report}
	if r.Role == pops.Person {
		bad.Hint = "to do it all the same: --override " + strings.Join(broken, ",")
	}
	return bad
}

func details(report *Report) string {
	var list []string
	for _, b := range report.Broken {
		list = append(list, b.Guard+": "+b.Detail)
	}
	return strings.Join(list, "; ")
}
