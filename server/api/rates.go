package api

import "time"

// Rates is the answer of GET /v1/rates: what this node has answered lately, second by second.
type Rates struct {
	Schema  int        `json:"schema"`         // version of these types
	Node    string     `json:"node"`           // who answers
	PoPs    []string   `json:"pops,omitempty"` // the columns of the samples, as configured; in an event left out when they are those of the event before
	Samples []RateSpan `json:"samples"`        // oldest first
}

// RateSpan is what was answered in a short span of time.
type RateSpan struct {
	Time    time.Time `json:"time"`    // end of the span
	Seconds float64   `json:"seconds"` // its length
	Queries float64   `json:"queries"` // steered queries a second
	Answers []float64 `json:"answers"` // steered answers a second that named each PoP, in the order of Rates.PoPs; one that names two counts half for each
}
