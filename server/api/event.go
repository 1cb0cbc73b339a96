package api

import "time"

// Event is one message of GET /v1/events, a stream of server-sent events. It is the data; the event's name is Kind and its id is ID.
type Event struct {
	Schema   int           `json:"schema"`             // version of these types
	ID       uint64        `json:"id"`                 // counts up on this node since it started
	Time     time.Time     `json:"time"`               // fleet time
	Kind     EventKind     `json:"kind"`               // what happened
	Text     string        `json:"text"`               // the same for people
	Entry    *HistoryEntry `json:"entry,omitempty"`    // of a history event
	Shares   []ShareChange `json:"shares,omitempty"`   // of a view event: what may serve more or less than before; an endpoint only where it differs from its PoP
	Snapshot uint64        `json:"snapshot,omitempty"` // of a view event: version of what is served from now on
	Rates    *Rates        `json:"rates,omitempty"`    // of a rates event
}

// EventKind is what kind of thing happened.
type EventKind string

// The kinds of events.
const (
	EventHistory EventKind = "history" // something was done, refused or ended
	EventView    EventKind = "view"    // the answers changed
	EventReload  EventKind = "reload"  // zones or locations were loaded anew
	EventAlert   EventKind = "alert"   // a person should look
	EventMissed  EventKind = "missed"  // the reader fell behind: ask for the status again
	EventRates   EventKind = "rates"   // a second has passed; only on streams that have asked for it, with the id of the event before
)
