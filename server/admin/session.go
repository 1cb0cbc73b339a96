package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

// Limits of sessions.
const (
	sessionLife = 12 * time.Hour
	maxSessions = 1024 // then the oldest ends
)

// sessions are the browsers that have shown a token. A browser holds a random name, in a cookie that scripts cannot read and that no request from a page of somebody else carries; here only
// the name's hash is kept.
type sessions struct {
	mu  sync.Mutex
	by  map[[sha256.Size]byte]session
	now func() time.Time
}

type session struct {
	caller caller
	began  time.Time
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{by: map[[sha256.Size]byte]session{}, now: now}
}

// begin makes a session and gives its name.
func (s *sessions) begin(c caller) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest [sha256.Size]byte
	var at time.Time
	for id, known := range s.by {
		if s.now().Sub(known.began) >= sessionLife {
			delete(s.by, id)
		} else if at.IsZero() || known.began.Before(at) {
			oldest, at = id, known.began
		}
	}
	if len(s.by) >= maxSessions {
		delete(s.by, oldest)
	}
	name := rand.Text()
	s.by[sha256.Sum256([]byte(name))] = session{c, s.now()}
	return name
}

// find gives who a session is.
func (s *sessions) find(name string) (caller, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.by[sha256.Sum256([]byte(name))]
	return known.caller, ok && s.now().Sub(known.began) < sessionLife
}

// end forgets a session.
func (s *sessions) end(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := sha256.Sum256([]byte(name))
	_, ok := s.by[id]
	delete(s.by, id)
	return ok
}

// sessionCookie is the name of the cookie. Cookies are of a host, whatever the port: the port is in the name, so that two nodes on one host do not log each other's readers out.
func sessionCookie(r *http.Request) string {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(interface{ String() string }); ok {
		if port := portOf(addr.String()); port != "" {
			return "edgesteer-session-" + port
		}
	}
	return "edgesteer-session"
}

// beginSession is POST /v1/sessions.
func (s *Server) beginSession(c *call, r *api.SessionRequest) (*api.Caller, error) {
	if r.Token == "" {
		return nil, invalid("token", "left out", "")
	}
	who, ok := s.keys.token(r.Token)
	if !ok {
		s.metrics.denied.WithLabelValues("credentials").Inc()
		return nil, stranger("the token is not known here", "its SHA-256 hash belongs into [[admin.token]] of this node's configuration")
	}
	http.SetCookie(c.w, &http.Cookie{
		Name: sessionCookie(c.r), Value: s.sessions.begin(who), Path: "/", MaxAge: int(sessionLife.Seconds()),
		HttpOnly: true, Secure: c.r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
	return who.describe(), nil
}

// endSession is POST /v1/sessions/end.
func (s *Server) endSession(c *call) (*api.SessionEnd, error) {
	out := &api.SessionEnd{Schema: api.Schema}
	if cookie, err := c.r.Cookie(sessionCookie(c.r)); err == nil {
		out.Ended = s.sessions.end(cookie.Value)
	}
	http.SetCookie(c.w, &http.Cookie{Name: sessionCookie(c.r), Path: "/", MaxAge: -1, HttpOnly: true, Secure: c.r.TLS != nil, SameSite: http.SameSiteStrictMode})
	return out, nil
}

// whoami is GET /v1/caller.
func (s *Server) whoami(c *call) (*api.Caller, error) { return c.by.describe(), nil }

func (c caller) describe() *api.Caller {
	return &api.Caller{Schema: api.Schema, Name: c.name, Role: api.Role(c.role.String())}
}
