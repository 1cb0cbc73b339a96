package api

import "time"

// Zones is the answer of GET /v1/zones.
type Zones struct {
	Schema int        `json:"schema"` // version of these types
	Zones  []ZoneInfo `json:"zones"`  // by name
}

// ZoneInfo is one zone that is served.
type ZoneInfo struct {
	Name      string    `json:"name"`                // absolute
	Serial    uint32    `json:"serial"`              // of the SOA
	Source    string    `json:"source"`              // file, or primary that it was transferred from
	Secondary bool      `json:"secondary,omitempty"` // it is transferred, not read from a file
	Owners    int       `json:"owners"`              // names with records
	Steered   int       `json:"steered"`             // records with a chain
	Names     []string  `json:"names,omitempty"`     // owners of steered records, at most 100
	Loaded    time.Time `json:"loaded"`              // when this version was loaded
	Error     string    `json:"error,omitempty"`     // why a newer version was not: the old one is kept
}

// Reload is the answer of POST /v1/zones/reload.
type Reload struct {
	Schema   int             `json:"schema"`             // version of these types
	Changed  []string        `json:"changed"`            // zones with a new version
	Problems []ConfigProblem `json:"problems,omitempty"` // warnings, and what kept zones at their old version
}

// ConfigProblem is something wrong with a file.
type ConfigProblem struct {
	File    string `json:"file,omitempty"`    // path
	Line    int    `json:"line,omitempty"`    // from 1
	Field   string `json:"field,omitempty"`   // zone[0].name
	Message string `json:"message"`           // what is wrong
	Hint    string `json:"hint,omitempty"`    // what to do
	Warning bool   `json:"warning,omitempty"` // nothing was refused
}
