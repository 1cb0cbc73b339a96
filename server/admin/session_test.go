package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

// login shows a token as a browser does, and gives the cookie.
func (f *fixture) login(t *testing.T, role string) *http.Cookie {
	t.Helper()
	a := f.do(t, f.tcp, "POST", "/v1/sessions", "", api.SessionRequest{Token: tokens[role]}, "Sec-Fetch-Site", "same-origin")
	var who api.Caller
	a.into(t, &who)
	if string(who.Role) != role {
		t.Errorf("a session for %s is one of %+v", role, who)
	}
	c := (&http.Response{Header: a.header}).Cookies()
	if len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode || c[0].Secure || c[0].Path != "/" {
		t.Fatalf("cookies %v", c)
	}
	return c[0]
}

// TestSession: a cookie stands for the token, with its role, on requests of the server's own page and no others, until it is ended.
func TestSession(t *testing.T) {
	f := newFixture(t)
	viewer, operator := f.login(t, "viewer"), f.login(t, "operator")
	drain := api.DrainRequest{Target: "fra", Order: api.Order{Reason: "x", DryRun: true}}
	for _, test := range []struct {
		name         string
		cookie       *http.Cookie
		method, path string
		site         string
		status       int
	}{
		{"viewer sees", viewer, "GET", "/v1/status", "same-origin", 200},
		{"viewer may not act", viewer, "POST", "/v1/drains", "same-origin", 403},
		{"operator acts", operator, "POST", "/v1/drains", "same-origin", 200},
		{"typed address", viewer, "GET", "/v1/status", "none", 200},
		{"old browser", viewer, "GET", "/v1/status", "", 200},
		{"a page of somebody else reads", operator, "GET", "/v1/status", "cross-site", 401},
		{"a page on another port reads", operator, "GET", "/v1/status", "same-site", 401},
		{"a page of somebody else acts", operator, "POST", "/v1/drains", "cross-site", 403},
		{"a page on another port acts", operator, "POST", "/v1/drains", "same-site", 403},
		{"another name", &http.Cookie{Name: operator.Name, Value: "X" + operator.Value}, "GET", "/v1/status", "same-origin", 401},
		{"another port's cookie", &http.Cookie{Name: "edgesteer-session-1", Value: operator.Value}, "GET", "/v1/status", "same-origin", 401},
	} {
		var body any
		if test.method == "POST" {
			body = drain
		}
		headers := []string{"Cookie", test.cookie.Name + "=" + test.cookie.Value}
		if test.site != "" {
			headers = append(headers, "Sec-Fetch-Site", test.site)
		}
		if a := f.do(t, f.tcp, test.method, test.path, "", body, headers...); a.status != test.status {
			t.Errorf("%s: status %d, want %d: %s", test.name, a.status, test.status, a.body)
		}
	}
	if a := f.do(t, f.tcp, "POST", "/v1/sessions", "", api.SessionRequest{Token: "guess"}); a.status != 401 || len(a.header.Values("Set-Cookie")) > 0 {
		t.Errorf("a guessed token: %d, %v", a.status, a.header)
	}
	cookie := operator.Name + "=" + operator.Value
	var who api.Caller
	f.do(t, f.tcp, "GET", "/v1/caller", "", nil, "Cookie", cookie).into(t, &who)
	if who.Name != "oscar" || who.Role != api.RoleOperator {
		t.Errorf("caller %+v", who)
	}
	var end api.SessionEnd
	f.do(t, f.tcp, "POST", "/v1/sessions/end", "", nil, "Cookie", cookie).into(t, &end)
	if a := f.do(t, f.tcp, "GET", "/v1/caller", "", nil, "Cookie", cookie); !end.Ended || a.status != 401 {
		t.Errorf("an ended session: %+v, status %d", end, a.status)
	}
}

// TestSessionLimits: sessions end by themselves, and when there are too many the oldest does.
func TestSessionLimits(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newSessions(func() time.Time { return now })
	first := s.begin(caller{name: "first"})
	now = now.Add(sessionLife - time.Second)
	if c, ok := s.find(first); !ok || c.name != "first" {
		t.Errorf("before its end: %v", c)
	}
	now = now.Add(time.Second)
	if _, ok := s.find(first); ok {
		t.Error("a session outlives its time")
	}
	var names []string
	for i := range maxSessions + 1 {
		now = now.Add(time.Millisecond)
		names = append(names, s.begin(caller{name: fmt.Sprint(i)}))
	}
	if _, ok := s.find(names[0]); ok || len(s.by) != maxSessions {
		t.Errorf("%d sessions, the oldest among them: %v", len(s.by), ok)
	}
	if c, ok := s.find(names[1]); !ok || c.name != "1" {
		t.Errorf("the second: %v", c)
	}
	for id := range s.by {
		if strings.Contains(string(id[:]), names[1]) {
			t.Error("the name of a session is kept")
		}
	}
}
