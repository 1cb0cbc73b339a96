package api

import "time"

// Kind is what a statement says about its target.
type Kind string

// The kinds of statements.
const (
	KindDrain Kind = "drain" // a share of the networks leaves
	KindShift Kind = "shift" // a share of the networks goes to another PoP
	KindPin   Kind = "pin"   // health and automation do not count
)

// KindHealth is the kind of a Reason that is no statement: the verdict of health checks.
const KindHealth Kind = "health"

// Class is who stands behind a statement.
type Class string

// The classes of authors, strongest first.
const (
	ClassPerson     Class = "person"
	ClassAutomation Class = "automation"
	ClassDrill      Class = "drill" // practice
)

// StatementState is how far a statement is in its life.
type StatementState string

// The states of a statement.
const (
	StateScheduled StatementState = "scheduled" // its start is still to come
	StateActive    StatementState = "active"    // in force
	StateRestoring StatementState = "restoring" // taken back or expired; the networks are on their way back
	StateLifted    StatementState = "lifted"    // over: taken back
	StateReplaced  StatementState = "replaced"  // over: another one took its place
	StateExpired   StatementState = "expired"   // over: its time had come
)

// Statement is what a person, automation or a drill has said about a part of the fleet.
type Statement struct {
	ID        string         `json:"id"`                  // unique in the fleet, for ever
	Version   int            `json:"version"`             // counts the edits and renewals of the id, from 1
	Kind      Kind           `json:"kind"`                // what it says
	Class     Class          `json:"class"`               // who stands behind it
	Target    string         `json:"target"`              // POP, POP/SERVICE or */SERVICE
	To        string         `json:"to,omitempty"`        // of a shift: the PoP that gets the networks
	By        float64        `json:"by"`                  // percent of the target's networks that leave once the ramp is over, 0..100; 0 for a pin
	Share     float64        `json:"share"`               // percent of the target's networks that it leaves there now, 0..100
	State     StatementState `json:"state"`               // how far it is in its life
	Author    string         `json:"author"`              // who made this version
	Reason    string         `json:"reason"`              // why, as given
	Outage    string         `json:"outage,omitempty"`    // of automation: what it is about
	Ticket    string         `json:"ticket,omitempty"`    // number or address of a ticket, as given
	Evidence  []string       `json:"evidence,omitempty"`  // of automation: what was seen, by whom
	Overrides []string       `json:"overrides,omitempty"` // guard rails that were overridden: capacity, half, last
	Node      string         `json:"node"`                // node that it was made on
	Made      time.Time      `json:"made"`                // when this version was made
	Start     time.Time      `json:"start"`               // from when it counts
	End       *time.Time     `json:"end,omitempty"`       // when it expires; left out: never
	Replaces  string         `json:"replaces,omitempty"`  // id of the statement whose place it took
	Ramp      *Ramp          `json:"ramp,omitempty"`      // how the networks leave; left out: at once
	Restore   Duration       `json:"restore,omitempty"`   // they come back over this time after its end; left out: at once
	Lifted    *Lift          `json:"lifted,omitempty"`    // how it was taken back; left out: it was not
}

// Ramp is a share as a function of time, which every node evaluates by itself.
type Ramp struct {
	Start time.Time `json:"start"`           // before it the share is From
	From  float64   `json:"from"`            // percent, 0..100
	To    float64   `json:"to"`              // percent, 0..100, from the end on
	Over  Duration  `json:"over"`            // from start to end
	Steps []float64 `json:"steps,omitempty"` // percent of the way, rising to 100, evenly spaced in time; left out: a straight line
}

// Lift is how a statement was taken back.
type Lift struct {
	Author string    `json:"author"`           // who did it
	Reason string    `json:"reason"`           // why
	Ticket string    `json:"ticket,omitempty"` // number or address of a ticket
	Node   string    `json:"node"`             // node that it was done on
	Time   time.Time `json:"time"`             // when
	Over   Duration  `json:"over,omitempty"`   // how long the share takes to come back; left out: at once
	Steps  []float64 `json:"steps,omitempty"`  // of Over: percents of the way; left out: a straight line
}

// Statements is the answer of GET /v1/statements.
type Statements struct {
	Schema     int         `json:"schema"`     // version of these types
	Version    string      `json:"version"`    // of the ledger, for If-Match
	Statements []Statement `json:"statements"` // newest first
}
