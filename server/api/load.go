package api

import "time"

// LoadReport is the body of POST /v1/loads: loads of endpoints. All are taken in or none.
type LoadReport struct {
	Loads []LoadSample `json:"loads"` // at least one
}

// LoadSample is a load of an endpoint.
type LoadSample struct {
	Target string    `json:"target"`        // POP/SERVICE
	Value  *float64  `json:"value"`         // in the unit of the service's load metric
	Time   time.Time `json:"time,omitzero"` // when it was so; left out: now
}

// FeedReport is the body of POST /v1/feeds/{name}: a value of metadata.
type FeedReport struct {
	Value *float64  `json:"value,omitempty"` // a number; booleans are 0 and 1
	Text  []string  `json:"text,omitempty"`  // or texts, for what wants them: codes of countries, prefixes, a note
	Time  time.Time `json:"time,omitzero"`   // when it was so; left out: now
}

// Taken is the answer to reports that were taken in.
type Taken struct {
	Schema int `json:"schema"` // version of these types
	Taken  int `json:"taken"`  // how many values
}

// Loads is the answer of GET /v1/loads: the newest load of every endpoint and the newest value of every feed.
type Loads struct {
	Schema int     `json:"schema"` // version of these types
	Loads  []Value `json:"loads"`  // by POP/SERVICE
	Feeds  []Value `json:"feeds"`  // by name
}

// Value is the newest value that was reported.
type Value struct {
	Name   string    `json:"name"`            // POP/SERVICE, or of the feed
	Value  *float64  `json:"value,omitempty"` // left out: never reported, or a text
	Text   []string  `json:"text,omitempty"`  // of a feed, instead of a number
	Time   time.Time `json:"time,omitzero"`   // when it was so
	Node   string    `json:"node,omitempty"`  // that it was reported to
	Stale  bool      `json:"stale"`           // too old to act on, or never reported
	MaxAge Duration  `json:"max_age"`         // older values are stale
}
