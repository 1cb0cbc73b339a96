package api

import "time"

// History is the answer of GET /v1/history.
type History struct {
	Schema  int            `json:"schema"`           // version of these types
	Entries []HistoryEntry `json:"entries"`          // newest first
	Before  uint64         `json:"before,omitempty"` // ask for entries before this number to go on; left out: these were the last
}

// HistoryEntry is one thing that was done, refused, or happened by itself. Each node keeps its own.
type HistoryEntry struct {
	Seq       uint64        `json:"seq"`                 // counts up on this node
	Time      time.Time     `json:"time"`                // fleet time
	Node      string        `json:"node"`                // node that wrote the entry; where a statement was made is in After
	Action    Action        `json:"action"`              // what was done
	Statement string        `json:"statement,omitempty"` // id
	Kind      Kind          `json:"kind,omitempty"`      // of the statement
	Target    string        `json:"target,omitempty"`    // of the statement
	To        string        `json:"to,omitempty"`        // of a shift
	Author    string        `json:"author,omitempty"`    // who
	Class     Class         `json:"class,omitempty"`     // person, automation or drill
	Reason    string        `json:"reason,omitempty"`    // why, as given
	Ticket    string        `json:"ticket,omitempty"`    // number or address of a ticket
	Message   string        `json:"message,omitempty"`   // of a refusal: why; of a problem: what; of a merge: "lifted" if another node took it back
	Guards    []GuardName   `json:"guards,omitempty"`    // guard rails that were broken
	Shares    []ShareChange `json:"shares,omitempty"`    // what became of shares
	Before    *Statement    `json:"before,omitempty"`    // the statement before; left out: there was none
	After     *Statement    `json:"after,omitempty"`     // the statement afterwards
}

// ShareChange is what becomes of the share of one target.
type ShareChange struct {
	Target string  `json:"target"` // POP or POP/SERVICE
	Before float64 `json:"before"` // percent of its networks that it may serve before, 0..100
	After  float64 `json:"after"`  // the same afterwards; of a change and of history: when every ramp is over
}

// Action is what a history entry tells.
type Action string

// The actions.
const (
	ActionAccepted    Action = "accepted"     // a new statement
	ActionReplaced    Action = "replaced"     // a new statement in the place of an earlier one
	ActionEdited      Action = "edited"       // automation said something else of the same outage
	ActionOverridden  Action = "overridden"   // a guard rail was broken, and its override was named
	ActionRefused     Action = "refused"      // by a guard rail, or because the author may not: nothing changed
	ActionRenewed     Action = "renewed"      // another end
	ActionLifted      Action = "lifted"       // taken back
	ActionExpired     Action = "expired"      // ended by itself
	ActionMerged      Action = "merged"       // came from another node
	ActionGuardBroken Action = "guard_broken" // what came from other nodes breaks a guard rail together with what was here
	ActionNoted       Action = "noted"        // a report, for example of a drill: nothing changed
	ActionProblem     Action = "problem"      // with the ledger's files or the clock
)

// HistoryQuery is what GET /v1/history may be asked.
type HistoryQuery struct {
	Target string // only what touches this target
	ID     string // only of this statement
	Limit  int    // at most so many, up to 1000; 0: 100
	Before uint64 // older than this number; 0: from the newest
}
