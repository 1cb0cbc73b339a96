package api

import "time"

// Change is the answer to every request that changes traffic: what was done, or would be, and how to undo it.
type Change struct {
	Schema     int           `json:"schema"`              // version of these types
	DryRun     bool          `json:"dry_run,omitempty"`   // nothing was done
	Repeated   bool          `json:"repeated,omitempty"`  // it was done before: the Idempotency-Key is known, or automation said nothing new
	Statements []Statement   `json:"statements"`          // made or renewed, as they are now
	Before     []Statement   `json:"before,omitempty"`    // of Statements those that were there before, as they were
	Ended      []Statement   `json:"ended,omitempty"`     // taken back or replaced, as they are now
	Remaining  []Statement   `json:"remaining,omitempty"` // of a restore: what else still bears on the target
	Shares     []ShareChange `json:"shares"`              // what becomes of shares
	Effect     *Effect       `json:"effect,omitempty"`    // what it does to the traffic; left out: there is no prediction
	Guards     []Guard       `json:"guards,omitempty"`    // guard rails that it breaks
	Expires    *time.Time    `json:"expires,omitempty"`   // when the first of Statements ends; left out: never, or there are none
	Undo       string        `json:"undo,omitempty"`      // command that takes it back
	Warnings   []string      `json:"warnings,omitempty"`  // what the author should know
	Durable    bool          `json:"durable"`             // it is on this node's disk
	Nodes      []Applied     `json:"nodes,omitempty"`     // which nodes obey, when Wait was asked
	Version    string        `json:"version"`             // of the ledger afterwards; of a dry run: what it was computed from, for If-Match
}

// Applied tells whether one node obeys a change.
type Applied struct {
	Node    string    `json:"node"`            // its name
	Applied bool      `json:"applied"`         // its answers obey
	Time    time.Time `json:"time,omitzero"`   // since when
	Error   string    `json:"error,omitempty"` // why not, if known
}

// Effect is the prediction, made by the filter chains themselves over the live mix of queries.
type Effect struct {
	Queries float64        `json:"queries"`         // queries a second that the prediction rests on, the average of the last minutes; 0: nobody has asked lately, and the same number of queries is assumed from networks chosen at random for every record that changes
	Moved   float64        `json:"moved"`           // percent of all steered answers that go elsewhere, at the end of the ramp
	PoPs    []PoPEffect    `json:"pops"`            // every PoP whose answers or share change
	Loads   []LoadEffect   `json:"loads,omitempty"` // every endpoint whose load changes
	Heavy   []HeavyNetwork `json:"heavy,omitempty"` // single networks that move more than 1 % of the target's traffic, heaviest first
}

// PoPEffect is what happens to one PoP.
type PoPEffect struct {
	PoP           string   `json:"pop"`                      // its name
	ShareBefore   float64  `json:"share_before"`             // percent of its networks that it may serve now, 0..100
	ShareAfter    float64  `json:"share_after"`              // the same at the end of the ramp
	AnswersBefore *float64 `json:"answers_before,omitempty"` // percent of all steered answers that name it now; left out: unknown
	AnswersAfter  *float64 `json:"answers_after,omitempty"`  // the same at the end of the ramp; left out: unknown
}

// LoadEffect is what happens to one endpoint's load.
type LoadEffect struct {
	PoP      string   `json:"pop"`                // where
	Service  string   `json:"service"`            // what
	Metric   string   `json:"metric"`             // loadavg, connections or requests
	Before   *float64 `json:"before,omitempty"`   // load now; left out: unknown
	After    *float64 `json:"after,omitempty"`    // predicted at the end of the ramp; left out: unknown
	Peak     *float64 `json:"peak,omitempty"`     // highest at any step of the ramp; left out: unknown
	Capacity *float64 `json:"capacity,omitempty"` // what it can carry; left out: unknown
	Over     bool     `json:"over,omitempty"`     // the peak is above the capacity
}

// HeavyNetwork is one network with a noticeable part of the traffic, for one record: a share of networks does not say where it is.
type HeavyNetwork struct {
	Network string  `json:"network"`      // prefix
	Record  string  `json:"record"`       // name and type that it asks for
	Percent float64 `json:"percent"`      // of the target's traffic, for all records: what this network moves by asking for this one
	From    string  `json:"from"`         // PoP, or answer, that it is sent to now; of several the one that loses most; empty: none
	To      string  `json:"to,omitempty"` // PoP, or answer, that it will be sent to; of several the one that gains most; left out: none
}

// GuardName is the name of a guard rail, as --override takes it.
type GuardName string

// The guard rails.
const (
	GuardCapacity GuardName = "capacity" // predicted load above an endpoint's capacity
	GuardHalf     GuardName = "half"     // more than half of a service's endpoints leave
	GuardLast     GuardName = "last"     // some record keeps no available endpoint
)

// Guard is a guard rail that a change breaks.
type Guard struct {
	Name       GuardName `json:"name"`                 // which
	Text       string    `json:"text"`                 // what exactly would happen
	Overridden bool      `json:"overridden,omitempty"` // it was named in override
}
