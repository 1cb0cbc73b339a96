package drain

import (
	"slices"
	"time"

	"github.com/edgesteer/edgesteer/pops"
)

// Statement is what somebody said about a target. It is immutable: a change is a new version with a higher stamp.
type Statement struct {
	ID     string      `json:"id"`
	Kind   pops.Kind   `json:"kind"`
	Target pops.Target `json:"target"`
	To     pops.Target `json:"to,omitzero"` // of a shift
	By     float64     `json:"by,omitzero"` // percent of networks that leave, 1..100; 0 for a pin

	Author   string     `json:"author"`
	Role     pops.Class `json:"role"`
	Reason   string     `json:"reason"`
	Ticket   string     `json:"ticket,omitempty"`
	Outage   string     `json:"outage,omitempty"`   // automation: what it is about; the id is a hash of it and the target
	Override []string   `json:"override,omitempty"` // guard rails that its author named

	Created time.Time `json:"created"`          // fleet time of this version
	Start   time.Time `json:"start,omitzero"`   // zero: on receipt
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Ramp    pops.Ramp `json:"ramp"`             // of what stays, while it has not ended
	Back    Way       `json:"back,omitzero"`    // how the share comes back on expiry, and on a lift that does not say

	Version  int    `json:"version"`            // 1, and one more for each renewal, edit or replacement
	Replaces string `json:"replaces,omitempty"` // the statement that this one is the next version of
	Stamp    Stamp  `json:"stamp"`
}

// Way is how a share gets from where it is to another: at once, on a straight line, or by steps. The zero Way is at once.
type Way struct {
	Over  time.Duration `json:"over,omitzero"`
	Steps []float64     `json:"steps,omitempty"` // see pops.Ramp.Steps
}

// Lift is the end of a statement that somebody said. It is final: another lift can only hurry it.
type Lift struct {
	At     time.Time  `json:"at"`
	Author string     `json:"author"`
	Role   pops.Class `json:"role"`
	Reason string     `json:"reason"`
	Ticket string     `json:"ticket,omitempty"`
	Back   Way        `json:"back,omitzero"`
	From   pops.Share `json:"from,omitzero"` // the share that an earlier lift had given back when this one hurried it; else 0
	For    string     `json:"for,omitempty"` // the statement that replaces it, which carries the share on
	Stamp  Stamp      `json:"stamp"`
}

// Entry is all that a ledger knows of one id. It is immutable.
type Entry struct {
	Statement
	Lift     *Lift     `json:"lift,omitempty"`
	Evidence []string  `json:"evidence,omitempty"` // of automation, sorted
	Horizon  time.Time `json:"horizon,omitzero"`   // the latest end that any version had
	Forever  bool      `json:"forever,omitempty"`  // some version had no end
}

// Share is what the statement leaves at its target at t, were it alone. A statement without a start or a ramp counts from its receipt, and a lift without a ramp, too, whatever
// the time is.
func (e *Entry) Share(t time.Time) pops.Share {
	if e.Lift == nil {
		return e.unlifted(t)
	}
	if e.Lift.For != "" || e.Lift.Back.Over == 0 {
		return 100
	}
	if t.Before(e.Lift.At) {
		return max(e.unlifted(t), e.Lift.From)
	}
	return e.afterLift().Share(t)
}

func (e *Entry) unlifted(t time.Time) pops.Share {
	if e.expired(t) {
		return e.afterExpiry().Share(t)
	}
	return e.Ramp.Share(t)
}

func (e *Entry) expired(t time.Time) bool { return !e.Expires.IsZero() && !t.Before(e.Expires) }

func (e *Entry) afterExpiry() pops.Ramp {
	return pops.Ramp{Start: e.Expires, From: e.Ramp.Share(e.Expires), To: 100, Over: e.Back.Over, Steps: e.Back.Steps}
}

func (e *Entry) afterLift() pops.Ramp {
	return pops.Ramp{Start: e.Lift.At, From: max(e.unlifted(e.Lift.At), e.Lift.From), To: 100, Over: e.Lift.Back.Over, Steps: e.Lift.Back.Steps}
}

// Next is the first moment after t at which Share or Phase changes by itself; the zero time if none does.
func (e *Entry) Next(t time.Time) time.Time {
	var next time.Time
	soon := func(c time.Time) {
		if c.After(t) && (next.IsZero() || c.Before(next)) {
			next = c
		}
	}
	if l := e.Lift; l != nil {
		if l.For != "" || l.Back.Over == 0 {
			return next
		}
		soon(l.At)
		if !t.Before(l.At) {
			soon(e.afterLift().Next(t))
			return next
		}
	}
	soon(e.Start)
	soon(e.Expires)
	if e.expired(t) {
		soon(e.afterExpiry().Next(t))
	} else {
		soon(e.Ramp.Next(t))
	}
	return next
}

// Phase is where in its life a statement is.
type Phase string

// The phases.
const (
	Scheduled Phase = "scheduled" // its start is to come
	Active    Phase = "active"
	Restoring Phase = "restoring" // it has ended, the share is on its way back
	Lifted    Phase = "lifted"    // over
	Replaced  Phase = "replaced"  // over
	Expired   Phase = "expired"   // over
)

// Phase is the phase at t.
func (e *Entry) Phase(t time.Time) Phase {
	switch {
	case e.Lift != nil && e.Lift.For != "":
		return Replaced
	case (e.Lift != nil || e.expired(t)) && e.Kind != pops.Pin && e.Share(t) < 100:
		return Restoring
	case e.Lift != nil:
		return Lifted
	case e.expired(t):
		return Expired
	case t.Before(e.Start):
		return Scheduled
	}
	return Active
}

// Live says whether the statement still stands at t, perhaps only scheduled: it can be renewed, replaced and lifted.
func (e *Entry) Live(t time.Time) bool {
	return e.Lift == nil && !e.expired(t)
}

// intent is what the statement means at t for NewView; false if nothing. final takes the share at the end of its ramps instead.
func (e *Entry) intent(t time.Time, final bool) (pops.Intent, bool) {
	i := pops.Intent{ID: e.ID, Kind: e.Kind, Class: e.Role, Target: e.Target, To: e.To, Share: e.Share(t), Author: e.Author, Note: e.Reason}
	switch {
	case e.Kind == pops.Pin:
		i.Share = 100
		return i, e.Phase(t) == Active || final && e.Live(t)
	case final && e.Live(t):
		i.Share = e.Ramp.To
	case final:
		i.Share = 100
	}
	if next := e.Next(t); !next.IsZero() && next.Sub(t) < restless {
		i.Moving = true
	}
	return i, i.Share < 100
}

// restless is how long before a change of its share the target of a statement counts as moving: as long as the longest TTL that steered records usually have.
const restless = 5 * time.Minute

// keepUntil is when nothing of the fleet can bring the statement back any more, so that its tombstone can go; false: never.
func (e *Entry) keepUntil() (time.Time, bool) {
	return e.Horizon.Add(MaxFor + tombstone), !e.Forever
}

// tombstone is how long a statement is remembered after its last possible end: the end of its last version, and of a renewal that another node may have made of it.
const tombstone = 7 * 24 * time.Hour

// end moves the horizon to cover the entry's present version and lift.
func (e *Entry) cover() {
	if e.Expires.IsZero() {
		e.Forever = true
	} else if end := e.Expires.Add(e.Back.Over); end.After(e.Horizon) {
		e.Horizon = end
	}
	if e.Lift != nil {
		if end := e.Lift.At.Add(e.Lift.Back.Over); end.After(e.Horizon) {
			e.Horizon = end
		}
	}
}

// copied gives a copy whose fields may be replaced.
func (e *Entry) copied() *Entry {
	c := *e
	return &c
}

// maxEvidence is how many pieces of evidence are kept of one outage.
const maxEvidence = 128

// union merges two sorted sets, up to maxEvidence, lowest first.
func union(a, b []string) []string {
	u := slices.Concat(a, b)
	slices.Sort(u)
	u = slices.Compact(u)
	return slices.Clip(u[:min(len(u), maxEvidence)])
}
