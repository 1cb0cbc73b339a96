package api

import "time"

// PoPs is the answer of GET /v1/pops.
type PoPs struct {
	Schema int   `json:"schema"` // version of these types
	PoPs   []PoP `json:"pops"`   // as configured, in that order
}

// PoPDetail is the answer of GET /v1/pops/{pop}.
type PoPDetail struct {
	Schema     int         `json:"schema"`     // version of these types
	PoP        PoP         `json:"pop"`        // the PoP
	Statements []Statement `json:"statements"` // those that touch it and have not ended, newest first
}

// PoP is a place with traffic capacity and what state it is in.
type PoP struct {
	Name        string     `json:"name"`                  // as configured
	Country     []string   `json:"country,omitempty"`     // ISO 3166-1 codes
	Subdivision []string   `json:"subdivision,omitempty"` // ISO 3166-2 codes
	Georegion   []string   `json:"georegion,omitempty"`   // NS1's regions
	Latitude    *float64   `json:"latitude,omitempty"`    // degrees north
	Longitude   *float64   `json:"longitude,omitempty"`   // degrees east
	Share       float64    `json:"share"`                 // percent of its networks that it may serve, 0..100: what the statements and health leave of the whole PoP
	Why         []Reason   `json:"why,omitempty"`         // all that bears on the whole PoP, what decides first
	Answers     *float64   `json:"answers,omitempty"`     // percent of all steered answers of the last minutes that named it; left out: unknown
	Endpoints   []Endpoint `json:"endpoints"`             // services here
}

// Endpoint is a service at a PoP and what state it is in.
type Endpoint struct {
	Service   string    `json:"service"`             // its name
	Addresses []Address `json:"addresses,omitempty"` // of both families
	CNAME     string    `json:"cname,omitempty"`     // instead of addresses
	Share     float64   `json:"share"`               // percent of its networks that it may serve, 0..100
	Why       []Reason  `json:"why,omitempty"`       // all that bears on it, what decides first
	ShiftTo   string    `json:"shift_to,omitempty"`  // PoP that gets those that leave
	Shed      float64   `json:"shed,omitempty"`      // percent of networks that shed_load turns away, 0..100
	Load      *Load     `json:"load,omitempty"`      // left out: its load is not measured
	Capacity  *float64  `json:"capacity,omitempty"`  // in the unit of the load; left out: unknown
}

// Address is one address of an endpoint.
type Address struct {
	Address string `json:"address"` // IPv4 or IPv6
	Down    bool   `json:"down"`    // it failed its checks and is left out of the answers
}

// Load is a load that was reported.
type Load struct {
	Metric string    `json:"metric"`          // loadavg, connections or requests
	Value  *float64  `json:"value,omitempty"` // newest; left out: never reported
	Time   time.Time `json:"time,omitzero"`   // when it was reported
	Stale  bool      `json:"stale"`           // too old to act on, or never reported
	Low    *float64  `json:"low,omitempty"`   // watermark: up to here nothing is shed
	High   *float64  `json:"high,omitempty"`  // watermark: from here everything is
}

// Reason is one thing that bears on a share, and what became of it.
type Reason struct {
	Kind      Kind       `json:"kind"`                // of the statement, or health
	Class     Class      `json:"class,omitempty"`     // of the statement
	Statement string     `json:"statement,omitempty"` // its id
	Author    string     `json:"author,omitempty"`    // who made it
	Text      string     `json:"text,omitempty"`      // the statement's reason, or what the checks see
	Share     float64    `json:"share"`               // percent that it alone would leave, 0..100
	Decides   bool       `json:"decides,omitempty"`   // the lowest of those that apply: it set the share
	Applied   bool       `json:"applied"`             // it counts
	Why       string     `json:"why,omitempty"`       // if it does not: why, for example a pin
	ShiftTo   string     `json:"shift_to,omitempty"`  // of a shift: where those go that leave
	End       *time.Time `json:"end,omitempty"`       // when the statement expires; left out: never, or it is health
}
