package api

import "time"

// Drills is the answer of GET /v1/drills: the practice drains that are configured.
type Drills struct {
	Schema int     `json:"schema"` // version of these types
	Drills []Drill `json:"drills"` // as configured
}

// Drill is one of them.
type Drill struct {
	Target     string    `json:"target"`                // POP, POP/SERVICE or */SERVICE
	By         float64   `json:"by"`                    // percent of its networks that leave
	Over       Duration  `json:"over,omitempty"`        // the time that leaving takes, and coming back
	Window     string    `json:"window"`                // when it runs
	Blocked    []string  `json:"blocked,omitempty"`     // days on which it does not
	Abort      string    `json:"abort,omitempty"`       // PromQL that ends it when it gives anything
	AbortAlert string    `json:"abort_alert,omitempty"` // alert that ends it when it comes to the webhook
	Next       time.Time `json:"next,omitzero"`         // when it runs next; left out: on no day of the next two years
	Statement  string    `json:"statement,omitempty"`   // of the one that runs
	Ends       time.Time `json:"ends,omitzero"`         // of the one that runs: when it gives back
	Last       string    `json:"last,omitempty"`        // report on the last one, or why it did not begin, as this node has seen it
	LastAt     time.Time `json:"last_at,omitzero"`      // when that was
}

// DrillRequest is the body of POST /v1/drills: run a configured drill now.
type DrillRequest struct {
	Target string   `json:"target"`        // as configured
	For    Duration `json:"for,omitempty"` // ramps included; left out: as long as its window
	Order
}
