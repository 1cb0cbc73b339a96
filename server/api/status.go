package api

import "time"

// Status is the answer of GET /v1/status: one node's view of everything, at one moment.
type Status struct {
	Schema     int         `json:"schema"`              // version of these types
	Node       Node        `json:"node"`                // who answers
	Ready      bool        `json:"ready"`               // it serves what it should
	NotReady   []string    `json:"not_ready,omitempty"` // what is missing
	Time       time.Time   `json:"time"`                // fleet time
	Snapshot   uint64      `json:"snapshot"`            // version of what is served, counts up
	Ledger     Ledger      `json:"ledger"`              // the statements as a whole
	Queries    *float64    `json:"queries,omitempty"`   // steered queries a second, of the last minutes; left out: unknown
	PoPs       []PoP       `json:"pops"`                // as configured, in that order
	Statements []Statement `json:"statements"`          // those that have not ended, newest first
	Warnings   []string    `json:"warnings,omitempty"`  // what a person should look at
}

// Node is one server of the fleet.
type Node struct {
	Name    string    `json:"name"`             // as configured
	PoP     string    `json:"pop,omitempty"`    // where it stands
	Version string    `json:"version"`          // of the program
	Config  string    `json:"config,omitempty"` // hash of its configuration
	Started time.Time `json:"started"`          // when
}

// Ledger is the state of the statements as a whole.
type Ledger struct {
	Version   string `json:"version"`         // changes with every statement; for If-Match
	Active    int    `json:"active"`          // statements in force
	Scheduled int    `json:"scheduled"`       // statements whose start is still to come
	Durable   bool   `json:"durable"`         // the disk has it all
	Error     string `json:"error,omitempty"` // why not
}

// Probe is the answer of GET /healthz and GET /readyz when all is well.
type Probe struct {
	Schema int  `json:"schema"` // version of these types
	OK     bool `json:"ok"`     // always true: else the answer is a problem
}
