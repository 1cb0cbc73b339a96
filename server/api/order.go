package api

import "time"

// Order is what all requests that change traffic have in common.
type Order struct {
	Reason   string   `json:"reason"`             // why; required but of renewals, at most 4096 octets
	Ticket   string   `json:"ticket,omitempty"`   // number or address of a ticket, at most 256 octets
	Author   string   `json:"author,omitempty"`   // who, when many people share one account; through the unix socket only
	DryRun   bool     `json:"dry_run,omitempty"`  // compute and show, change nothing
	Override []string `json:"override,omitempty"` // guard rails that may be broken: capacity, half, last; volatile: accept it though the disk refuses it
	Wait     Duration `json:"wait,omitempty"`     // answer only when every reachable node obeys, or after this time, at most 5m; left out: at once

	Key string `json:"-"` // header Idempotency-Key: a retry with the same key is the same request; Client makes one up
	If  string `json:"-"` // header If-Match: version of the ledger that the author looked at; the request is refused if it has changed since
}

// DrainRequest takes a part of the fleet out of the answers: POST /v1/drains.
//
// A person's drain of exactly the target of an earlier one replaces it. With a token of the automation role it is an automation drain.
type DrainRequest struct {
	Target   string    `json:"target"`             // POP, POP/SERVICE or */SERVICE
	By       *float64  `json:"by,omitempty"`       // percent of the target's networks that leave, whole, 1..100; left out: 100
	For      Duration  `json:"for,omitempty"`      // until it expires, 1m to 72h or forever; left out: 8h
	Start    time.Time `json:"start,omitzero"`     // from when it counts; left out: now
	Over     Duration  `json:"over,omitempty"`     // the networks leave over this time; left out: at once
	Steps    []float64 `json:"steps,omitempty"`    // percent of the way, rising to 100, evenly spaced over that time; left out: a straight line
	Restore  Duration  `json:"restore,omitempty"`  // they come back over this time after its end; left out: at once
	Outage   string    `json:"outage,omitempty"`   // automation only: which outage this is, so that several nodes say it once, for example the alert's fingerprint and start
	Evidence []string  `json:"evidence,omitempty"` // automation only: what was seen, and by whom
	Order
}

// ShiftRequest sends the networks of one PoP to another: POST /v1/shifts.
type ShiftRequest struct {
	From    string    `json:"from"`              // POP, POP/SERVICE or */SERVICE
	To      string    `json:"to"`                // PoP that gets them
	By      *float64  `json:"by,omitempty"`      // percent of the networks that go, whole, 1..100; left out: 100
	For     Duration  `json:"for,omitempty"`     // until it expires, 1m to 72h or forever; left out: 8h
	Start   time.Time `json:"start,omitzero"`    // from when it counts; left out: now
	Over    Duration  `json:"over,omitempty"`    // the networks go over this time; left out: at once
	Steps   []float64 `json:"steps,omitempty"`   // percent of the way, rising to 100, evenly spaced over that time; left out: a straight line
	Restore Duration  `json:"restore,omitempty"` // they come back over this time after its end; left out: at once
	Order
}

// PinRequest keeps a target in the answers whatever health and automation say: POST /v1/pins.
type PinRequest struct {
	Target string    `json:"target"`         // POP, POP/SERVICE or */SERVICE
	For    Duration  `json:"for,omitempty"`  // until it expires, 1m to 72h or forever; left out: 8h
	Start  time.Time `json:"start,omitzero"` // from when it counts; left out: now
	Order
}

// RenewRequest moves the expiry of statements: POST /v1/renewals.
type RenewRequest struct {
	Target string   `json:"target,omitempty"` // all statements of exactly this target
	ID     string   `json:"id,omitempty"`     // or this one statement
	For    Duration `json:"for,omitempty"`    // from now until it expires, 1m to 72h or forever; left out: 8h
	Order
}

// RestoreRequest takes statements back, those that this node knows: POST /v1/restores.
type RestoreRequest struct {
	Target string    `json:"target,omitempty"` // all statements of exactly this target
	ID     string    `json:"id,omitempty"`     // or this one statement
	Over   Duration  `json:"over,omitempty"`   // the networks come back over this time; left out: as the statement says
	Steps  []float64 `json:"steps,omitempty"`  // percent of the way, rising to 100, evenly spaced over that time; left out: a straight line
	Now    bool      `json:"now,omitempty"`    // they come back at once, whatever the statement says
	Order
}
