package api

import "time"

// Health is the answer of GET /v1/health: what is known of the endpoints that are checked.
type Health struct {
	Schema    int              `json:"schema"`    // version of these types
	Node      string           `json:"node"`      // who answers
	Endpoints []EndpointHealth `json:"endpoints"` // as configured, in that order
}

// HealthState is what is believed of an endpoint or an address.
type HealthState string

// The states of health.
const (
	HealthUp      HealthState = "up"
	HealthDown    HealthState = "down"
	HealthUnknown HealthState = "unknown" // not checked yet, or nobody may vote: it counts as up
)

// EndpointHealth is what is known of one endpoint.
type EndpointHealth struct {
	Target    string          `json:"target"`              // POP/SERVICE
	Kind      string          `json:"kind"`                // of the check
	Interval  Duration        `json:"interval"`            // between checks
	Verdict   HealthState     `json:"verdict"`             // what the fleet believes
	Since     time.Time       `json:"since,omitzero"`      // of the verdict
	Gray      bool            `json:"gray"`                // the nodes disagree so much that the verdict stays what it was: look yourself
	GraySince time.Time       `json:"gray_since,omitzero"` // since when
	Quorum    bool            `json:"quorum"`              // more than half of the voters have a vote that counts; if not, the verdict stays what it was
	Voters    int             `json:"voters"`              // nodes that may vote on it
	Fresh     int             `json:"fresh"`               // votes that count
	Against   int             `json:"against"`             // of them, those that say down
	Votes     []Vote          `json:"votes"`               // by node
	Addresses []AddressHealth `json:"addresses"`           // what the node that answers has seen itself
}

// Vote is what one node believes of an endpoint.
type Vote struct {
	Node     string    `json:"node"`            // its name
	PoP      string    `json:"pop,omitempty"`   // where it stands
	Down     bool      `json:"down"`            // its vote
	Since    time.Time `json:"since"`           // of its vote
	Error    string    `json:"error,omitempty"` // what it saw, when it says that anything is down
	Dead     []string  `json:"dead,omitempty"`  // addresses that fail
	Fresh    bool      `json:"fresh"`           // it has been heard of within three intervals
	Counts   bool      `json:"counts"`          // towards the verdict
	Why      string    `json:"why,omitempty"`   // if it does not count: why
	Dissents bool      `json:"dissents"`        // it counts, and is not the verdict
}

// AddressHealth is what one node has seen of one address.
type AddressHealth struct {
	Address   string      `json:"address"`              // IPv4 or IPv6
	State     HealthState `json:"state"`                // what this node believes
	Since     time.Time   `json:"since,omitzero"`       // of the state
	Last      time.Time   `json:"last,omitzero"`        // end of the last check; left out: there was none since the node started
	Next      time.Time   `json:"next"`                 // when the next check is due
	Took      Duration    `json:"took"`                 // the last check
	Error     string      `json:"error,omitempty"`      // of the last check; left out: it was good
	LastError string      `json:"last_error,omitempty"` // the last one there was
	Warning   string      `json:"warning,omitempty"`    // of the last check, for example a certificate that ends soon
	InARow    int         `json:"in_a_row"`             // checks in a row that were like the last one
	Checks    uint64      `json:"checks"`               // since the node started
	Faults    uint64      `json:"faults"`               // of them
}

// ProbeRequest is the body of POST /v1/health/run: check an endpoint now. It does not count towards any verdict.
type ProbeRequest struct {
	Target string `json:"target"`         // POP/SERVICE
	Node   string `json:"node,omitempty"` // from where; left out: from all nodes within reach
}

// ProbeResults is the answer to it.
type ProbeResults struct {
	Schema  int           `json:"schema"`  // version of these types
	Target  string        `json:"target"`  // POP/SERVICE
	Results []ProbeResult `json:"results"` // one for each node and address, by node
}

// ProbeResult is what came of one check of one address.
type ProbeResult struct {
	Node    string   `json:"node"`              // from where
	Address string   `json:"address,omitempty"` // IPv4 or IPv6; left out: the node did not answer, or does not check it
	Good    bool     `json:"good"`              // it passed
	Error   string   `json:"error,omitempty"`   // if not: why
	Local   bool     `json:"local,omitempty"`   // the error says nothing of the address: the node could not even try
	Warning string   `json:"warning,omitempty"` // for example a certificate that ends soon
	Took    Duration `json:"took"`              // the check
}
