package api

import "time"

// Peers is the answer of GET /v1/peers.
type Peers struct {
	Schema int    `json:"schema"` // version of these types
	Node   string `json:"node"`   // who answers
	Peers  []Peer `json:"peers"`  // by name, the one that answers included
}

// PeerDetail is the answer of GET /v1/peers/{peer}.
type PeerDetail struct {
	Schema int    `json:"schema"` // version of these types
	Node   string `json:"node"`   // who answers
	Peer   Peer   `json:"peer"`   // with serials
}

// Peer is one node of the fleet, as another knows it.
type Peer struct {
	Name          string            `json:"name"`                     // as configured
	Address       string            `json:"address,omitempty"`        // for the other nodes; left out: it is alone
	State         string            `json:"state"`                    // alive, suspect (silent for a while), dead (gone without a word) or left
	Self          bool              `json:"self,omitempty"`           // it is the one that answers
	Since         time.Time         `json:"since"`                    // of the state
	LastSeen      time.Time         `json:"last_seen,omitzero"`       // when something last came from it; left out: only others have told of it
	RTT           Duration          `json:"rtt,omitzero"`             // of the way there and back; left out: unknown
	Clock         float64           `json:"clock,omitempty"`          // seconds by which its time of day is ahead of that of the one that answers
	PoP           string            `json:"pop,omitempty"`            // where it stands
	Version       string            `json:"version,omitempty"`        // of the program
	Started       time.Time         `json:"started,omitzero"`         // when
	Config        string            `json:"config,omitempty"`         // hash of its configuration
	ConfigDiffers bool              `json:"config_differs,omitempty"` // from that of the one that answers
	ZonesDiffer   bool              `json:"zones_differ,omitempty"`   // its zones or their serials are not those of the one that answers
	Statements    int               `json:"statements"`               // that it remembers
	Ledger        string            `json:"ledger,omitempty"`         // digest of the statements that its answers obey
	Behind        bool              `json:"behind,omitempty"`         // its answers obey other statements than those of the one that answers
	Lag           Duration          `json:"lag,omitzero"`             // since when
	Serials       map[string]uint32 `json:"serials,omitempty"`        // of its zones; in the answer for one node
}
