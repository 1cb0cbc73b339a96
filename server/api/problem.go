package api

import "strings"

// Problem is an error of the API: a problem document (RFC 9457, application/problem+json). As a Go error it is what the client returns for every answer that is not a success.
type Problem struct {
	Type   string   `json:"type"`             // one of the constants below; never changes its meaning
	Title  string   `json:"title"`            // the type for people
	Status int      `json:"status"`           // of HTTP
	Detail string   `json:"detail,omitempty"` // what happened this time
	Hint   string   `json:"hint,omitempty"`   // what to do about it
	Field  string   `json:"field,omitempty"`  // of the request, if one is to blame: steps[2]
	By     string   `json:"by,omitempty"`     // of a conflict: who was first
	ID     string   `json:"id,omitempty"`     // of a conflict: that one's statement
	Near   []string `json:"near,omitempty"`   // of a name that matches nothing: what was perhaps meant
	Guards []Guard  `json:"guards,omitempty"` // of a refusal: the guard rails that would break
	Effect *Effect  `json:"effect,omitempty"` // of a refusal: what was predicted
}

// Types of problems.
const (
	ProblemBadRequest  = problemBase + "bad-request"        // not a request that can be understood
	ProblemCredentials = problemBase + "credentials"        // no credentials, or unknown ones
	ProblemForbidden   = problemBase + "forbidden"          // the author may not do this
	ProblemNotFound    = problemBase + "not-found"          // no such resource
	ProblemMethod      = problemBase + "method-not-allowed" // the resource knows other methods
	ProblemUnknown     = problemBase + "unknown-target"     // a PoP, service, endpoint, zone or statement that does not exist
	ProblemInvalid     = problemBase + "invalid"            // a field holds something that it cannot
	ProblemRefused     = problemBase + "guard-rail"         // a guard rail would break
	ProblemConflict    = problemBase + "conflict"           // somebody was first, or statements contradict
	ProblemTooLarge    = problemBase + "too-large"          // more octets than the limit
	ProblemMediaType   = problemBase + "media-type"         // the body is not said to be JSON
	ProblemHost        = problemBase + "host"               // this server is not called that
	ProblemCrossOrigin = problemBase + "cross-origin"       // a page of somebody else
	ProblemBusy        = problemBase + "busy"               // too many requests at the same time
	ProblemUnavailable = problemBase + "unavailable"        // this node cannot do it now: the disk fails, or it is not ready
	ProblemInternal    = problemBase + "internal"           // a fault of the program
)

const problemBase = "urn:edgesteer:problem:"

// Name is the end of the type: "guard-rail".
func (p *Problem) Name() string { return strings.TrimPrefix(p.Type, problemBase) }

// Error is the title and what happened.
func (p *Problem) Error() string {
	s := p.Detail
	if s == "" {
		s = p.Title
	}
	if p.Field != "" && !strings.HasPrefix(s, p.Field) {
		s = p.Field + ": " + s
	}
	return s
}

// Advice is the hint. The client's other errors have it too.
func (p *Problem) Advice() string { return p.Hint }
