// Package api is what the admin API says: the types of its requests and answers, as JSON, and a Go client.
//
// It is the one place where these words are defined; the server (server/admin), the commands and outside programs all use them. New fields may appear, none changes meaning.
package api

// Schema is the version of all types here, carried by each top-level answer.
const Schema = 1

// Explanation is why one client gets one answer: what `edgesteer explain` shows. It is recorded by the code that answers, while it answers.
type Explanation struct {
	Schema         int       `json:"schema"`                     // version of these types
	Name           string    `json:"name"`                       // the question, absolute
	Type           string    `json:"type"`                       // its type
	Version        uint64    `json:"version"`                    // of the snapshot that answered
	Client         Asker     `json:"client"`                     // who asked
	Links          []Link    `json:"links"`                      // the record, and each further record that a CNAME led to
	RCode          string    `json:"rcode"`                      // NOERROR, NXDOMAIN...
	Answer         []string  `json:"answer"`                     // records in master file form, in order
	Scope          int       `json:"scope"`                      // client subnet scope of the reply
	Possible       []string  `json:"possible"`                   // PoPs, or rdata of explicit answers, that chance could have given instead
	PossibleAtMost bool      `json:"possible_at_most,omitempty"` // too many draws to follow: some of possible may never be given
	Warnings       []string  `json:"warnings,omitempty"`         // what a person should know
	Database       *Database `json:"database,omitempty"`         // left out: none
}

// ExplainQuery is what GET /v1/explain may be asked.
type ExplainQuery struct {
	Name   string // the question; required
	Type   string // A, AAAA...; "": A
	Client string // network or address that asks, sent as client subnet; required
	Sender string // address that sends the query; "": the client's
}

// Asker is who asked and where that is.
type Asker struct {
	Prefix      string   `json:"prefix"`                // the network that steers, e.g. 1.0.16.0/24
	Source      string   `json:"source"`                // ecs, or resolver: the sender's address
	Sender      string   `json:"sender"`                // address that sent the query
	LocatedBy   string   `json:"located_by"`            // ecs, resolver or nothing
	Embedded    string   `json:"embedded,omitempty"`    // the IPv6 prefix that the IPv4 address was embedded in
	Country     string   `json:"country,omitempty"`     // ISO 3166-1
	Subdivision string   `json:"subdivision,omitempty"` // ISO 3166-2
	Georegion   string   `json:"georegion,omitempty"`   // NS1's region
	ASN         uint32   `json:"asn,omitempty"`         // autonomous system
	Latitude    *float64 `json:"latitude,omitempty"`    // degrees, of the database or of a centre
	Longitude   *float64 `json:"longitude,omitempty"`   // degrees
	Centre      string   `json:"centre,omitempty"`      // what the coordinates are the centre of, if the database gave none
	Row         string   `json:"row,omitempty"`         // network of the database that located the client
}

// Database is the location database that the answer was steered by.
type Database struct {
	Names       []string `json:"names"`                 // of the files that it came from
	Attribution string   `json:"attribution,omitempty"` // that its licence asks for
}

// Link is one record on the way to the answer.
type Link struct {
	Owner string `json:"owner"`           // absolute name
	Type  string `json:"type"`            // of the record
	Kind  string `json:"kind"`            // static, steered, cname, dname, nodata, nxdomain, referral, refused
	Zone  string `json:"zone,omitempty"`  // that it is in
	Steps []Step `json:"steps,omitempty"` // of a steered record
	Rung  int    `json:"rung,omitempty"`  // of the last-resort ladder, 1 if somebody was up
	Shed  string `json:"shed,omitempty"`  // "ignored" if shed_load would have removed everybody
	Bits  int    `json:"bits"`            // of the client that this record's decision depended on
	TTL   uint32 `json:"ttl"`             // seconds
}

// Step is one filter of the chain.
type Step struct {
	Filter string      `json:"filter"`           // its name
	Config string      `json:"config,omitempty"` // its configuration, as written
	Before []Candidate `json:"before"`           // candidates that it was given, in order
	After  []Candidate `json:"after"`            // candidates that it left, in order
	Notes  []Note      `json:"notes,omitempty"`  // why
	Bits   int         `json:"bits"`             // relied on by the chain up to here
}

// Candidate is an answer in the running.
type Candidate struct {
	Answer string `json:"answer"`           // PoP, or rdata of an explicit answer
	Serves string `json:"serves,omitempty"` // whose addresses are given, if a shift changed that
}

// Note is a remark on a candidate, or on the step as a whole if Answer is empty.
type Note struct {
	Answer string `json:"answer,omitempty"` // PoP, or rdata of an explicit answer; left out: the step as a whole
	Text   string `json:"text"`             // for people
}
