package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/edgesteer/edgesteer/server/api"
)

// titles say what each type of problem is, whatever happened this time (RFC 9457, section 3.1.3).
var titles = map[string]string{
	api.ProblemBadRequest:  "The request cannot be understood",
	api.ProblemCredentials: "Who you are is not known",
	api.ProblemForbidden:   "You may not do this",
	api.ProblemNotFound:    "There is no such resource",
	api.ProblemMethod:      "The resource does not know this method",
	api.ProblemUnknown:     "The name matches nothing",
	api.ProblemInvalid:     "A field holds something that it cannot",
	api.ProblemRefused:     "A guard rail would break",
	api.ProblemConflict:    "Somebody was first, or statements contradict each other",
	api.ProblemTooLarge:    "The request is too large",
	api.ProblemMediaType:   "The body is not JSON",
	api.ProblemHost:        "This server is not called that",
	api.ProblemCrossOrigin: "Pages of others cannot act here",
	api.ProblemBusy:        "Too many requests at the same time",
	api.ProblemUnavailable: "This node cannot do that now",
	api.ProblemInternal:    "The server has a fault",
}

// problem makes a problem document.
func problem(status int, typ, detail, hint string) *api.Problem {
	return &api.Problem{Type: typ, Title: titles[typ], Status: status, Detail: detail, Hint: hint}
}

func badRequest(detail, hint string) *api.Problem {
	return problem(http.StatusBadRequest, api.ProblemBadRequest, detail, hint)
}

func stranger(detail, hint string) *api.Problem {
	return problem(http.StatusUnauthorized, api.ProblemCredentials, detail, hint)
}

func forbidden(detail, hint string) *api.Problem {
	return problem(http.StatusForbidden, api.ProblemForbidden, detail, hint)
}

func invalid(field, detail, hint string) *api.Problem {
	p := problem(http.StatusUnprocessableEntity, api.ProblemInvalid, detail, hint)
	p.Field = field
	return p
}

func unknown(field, detail, hint string) *api.Problem {
	p := problem(http.StatusNotFound, api.ProblemUnknown, detail, hint)
	p.Field = field
	return p
}

func unavailable(detail, hint string) *api.Problem {
	return problem(http.StatusServiceUnavailable, api.ProblemUnavailable, detail, hint)
}

// fail answers with the problem that an error is. What an operator cannot have caused is logged, and not shown.
func (s *Server) fail(c *call, err error) {
	p := new(api.Problem)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &p):
	case errors.As(err, &large):
		p = problem(http.StatusRequestEntityTooLarge, api.ProblemTooLarge, "the body has more octets than admin.max_body", "")
	case errors.Is(err, context.DeadlineExceeded):
		p = unavailable("it took longer than admin.timeout", "what was asked may have been done: look at the status")
	case c.r.Context().Err() != nil:
		p = unavailable("the client went away", "")
	default:
		s.cfg.Log.Error("admin request failed", "method", c.r.Method, "route", c.route.path, "author", c.by.name, "error", err)
		p = problem(http.StatusInternalServerError, api.ProblemInternal, "what happened is in the server's log", "")
	}
	switch p.Status {
	case http.StatusUnauthorized:
		c.w.Header().Set("WWW-Authenticate", `Bearer realm="edgesteer"`)
	case http.StatusServiceUnavailable:
		if _, ok := errors.AsType[stuck](err); ok {
			break
		}
		c.w.Header().Set("Retry-After", "1")
	}
	write(c.w, p.Status, "application/problem+json", p)
}

// write answers with JSON.
func write(w http.ResponseWriter, status int, contentType string, body any) {
	data, err := json.Marshal(body)
	if err != nil { // a type of ours that JSON cannot hold: a NaN
		status, contentType = http.StatusInternalServerError, "application/problem+json"
		data, _ = json.Marshal(problem(status, api.ProblemInternal, err.Error(), ""))
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // a client that leaves is no error
}
