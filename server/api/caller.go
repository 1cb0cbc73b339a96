package api

// Caller is the answer of GET /v1/caller: who asks, as the server knows them.
type Caller struct {
	Schema int    `json:"schema"` // version of these types
	Name   string `json:"name"`   // author of what they do
	Role   Role   `json:"role"`   // what they may
}

// Role is what somebody may do.
type Role string

// The roles.
const (
	RoleViewer     Role = "viewer"     // reads
	RoleOperator   Role = "operator"   // does everything
	RoleAutomation Role = "automation" // reads, drains, and lifts and renews what automation made
)

// SessionRequest is the body of POST /v1/sessions: a browser shows a token once, and gets a cookie that stands for it.
type SessionRequest struct {
	Token string `json:"token"` // as in the Authorization header of other clients
}

// SessionEnd is the answer of POST /v1/sessions/end.
type SessionEnd struct {
	Schema int  `json:"schema"` // version of these types
	Ended  bool `json:"ended"`  // there was a session
}
