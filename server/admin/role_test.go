package admin

import (
	"context"
	"net/http"
	"os/user"
	"strings"
	"testing"

	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
)

// TestRoles checks every route of the table with every kind of credentials: who may not is told so, who may gets to the operation, which has its own word about the empty request.
func TestRoles(t *testing.T) {
	for _, rt := range routes() {
		t.Run(rt.name(), func(t *testing.T) {
			f := newFixture(t)
			for _, who := range []struct {
				name, token string
				role        role
				client      *http.Client
			}{
				{"nobody", "", nobody, f.tcp},
				{"unknown token", "guess", nobody, f.tcp},
				{"viewer", "viewer", viewer, f.tcp},
				{"operator", "operator", operator, f.tcp},
				{"automation", "automation", automation, f.tcp},
				{"socket", "", operator, f.unix},
			} {
				var want int // 0: anything but 401 and 403
				if rt.allow != nobody && rt.allow&who.role == 0 {
					want = http.StatusForbidden
					if who.role == nobody {
						want = http.StatusUnauthorized
					}
				}
				got := status(t, f, who.client, &rt, who.token)
				if want != 0 && got != want || want == 0 && (got == 401 || got == 403 || got >= 500) {
					t.Errorf("%s: status %d, want %d", who.name, got, want)
				}
			}
		})
	}
}

// status asks a route without saying anything, and does not wait for streams to end.
func status(t *testing.T, f *fixture, client *http.Client, rt *route, token string) int {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, rt.method, f.url(client)+strings.ReplaceAll(rt.path, "{pop}", "fra"), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", jsonType)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+tokens[token])
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// TestRights states the roles in words: a change of the table has to be made here too.
func TestRights(t *testing.T) {
	for _, rt := range routes() {
		var want role
		switch {
		case rt.method == "GET" && (rt.path == "/healthz" || rt.path == "/readyz" || rt.path == "/v1/openapi.json"):
			want = nobody
		case rt.path == "/v1/sessions" || rt.path == "/v1/sessions/end":
			want = nobody // it is where one becomes somebody
		case rt.method == "GET":
			want = viewer | operator | automation
		case rt.path == "/v1/drains" || rt.path == "/v1/restores" || rt.path == "/v1/renewals" || rt.path == "/v1/webhooks/alertmanager",
			rt.path == "/v1/health/run" || rt.path == "/v1/loads" || rt.path == "/v1/feeds/{name}":
			want = operator | automation
		default:
			want = operator
		}
		if rt.allow != want {
			t.Errorf("%s is for %q, want %q", rt.name(), rt.allow, want)
		}
	}
}

func TestForbiddenIsInHistory(t *testing.T) {
	f := newFixture(t)
	for range 3 {
		a := f.do(t, f.tcp, "POST", "/v1/drains", "viewer", api.DrainRequest{Target: "fra", Order: api.Order{Reason: "why not"}})
		if a.status != 403 || a.problem.Name() != "forbidden" || a.problem.Detail != "vera has the role viewer; this needs operator or automation" {
			t.Errorf("%d %+v", a.status, a.problem)
		}
	}
	f.do(t, f.tcp, "POST", "/v1/drains", "guess", "{}")
	records := f.ledger.History(drain.Query{})
	var refused []string
	for _, r := range records {
		if r.Op == drain.Refused {
			refused = append(refused, r.Author+": "+r.Message)
		}
	}
	if len(refused) != 1 || refused[0] != "vera: POST /v1/drains: vera has the role viewer; this needs operator or automation" {
		t.Errorf("history has %q, want the viewer's attempt once a minute, and nothing of strangers", refused)
	}
	if len(f.ledger.Statements()) != 0 {
		t.Error("a statement was made")
	}
}

func TestCredentials(t *testing.T) {
	f := newFixture(t)
	for _, test := range []struct {
		name    string
		headers []string
		status  int
		detail  string
	}{
		{"good", []string{"Authorization", "Bearer " + tokens["viewer"]}, 200, ""},
		{"scheme in another case", []string{"Authorization", "bearer " + tokens["viewer"]}, 200, ""},
		{"none", nil, 401, "no credentials"},
		{"empty", []string{"Authorization", ""}, 401, "not one bearer token"},
		{"empty token", []string{"Authorization", "Bearer "}, 401, "not known here"},
		{"other scheme", []string{"Authorization", "Basic dmVyYTp0b2tlbg=="}, 401, "not one bearer token"},
		{"the hash instead of the token", []string{"Authorization", "Bearer " + hash(tokens["viewer"])}, 401, "not known here"},
		{"longer", []string{"Authorization", "Bearer " + tokens["viewer"] + "x"}, 401, "not known here"},
		{"a cookie", []string{"Cookie", "token=" + tokens["viewer"]}, 401, "no credentials"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := f.do(t, f.tcp, "GET", "/v1/pops", "", nil, test.headers...)
			if a.status != test.status || !strings.Contains(a.problem.Detail, test.detail) {
				t.Errorf("%d %q, want %d %q", a.status, a.problem.Detail, test.status, test.detail)
			}
			if a.status == 401 && (a.header.Get("WWW-Authenticate") == "" || a.problem.Hint == "") {
				t.Errorf("no challenge or hint: %v %+v", a.header, a.problem)
			}
			if a.header.Get("Set-Cookie") != "" {
				t.Error("a cookie was set")
			}
		})
	}
}

func TestAuthor(t *testing.T) {
	f := newFixture(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	drained := func(client *http.Client, token, author string) api.Change {
		return f.change(t, client, "/v1/drains", token, api.DrainRequest{Target: "fra", Order: api.Order{Reason: "works", Author: author}})
	}
	for _, test := range []struct {
		client              *http.Client
		token, author, want string
	}{
		{f.unix, "", "", me.Username},
		{f.unix, "", "alice", "alice (" + me.Username + ")"},
		{f.unix, "", me.Username, me.Username},
		{f.unix, "viewer", "alice", "alice (" + me.Username + ")"}, // the socket's mode has decided
		{f.tcp, "operator", "", "oscar"},
	} {
		if got := drained(test.client, test.token, test.author).Statements[0].Author; got != test.want {
			t.Errorf("author %q, want %q", got, test.want)
		}
	}
	a := f.do(t, f.tcp, "POST", "/v1/drains", "operator", api.DrainRequest{Target: "fra", Order: api.Order{Reason: "works", Author: "alice"}})
	if a.status != 422 || a.problem.Field != "author" || !strings.Contains(a.problem.Detail, "known as oscar") {
		t.Errorf("%d %+v", a.status, a.problem)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*config.Admin)
		want   string
	}{
		{"all addresses", func(a *config.Admin) { a.Listen = []string{"0.0.0.0:8053"} }, "admin.listen: 0.0.0.0:8053 can be reached from outside, but there is no TLS (hint: add [admin.tls], or listen on loopback)"},
		{"all IPv6 addresses", func(a *config.Admin) { a.Listen = []string{"[::]:8053"} }, "can be reached from outside"},
		{"another address", func(a *config.Admin) { a.Listen = []string{"unix:x", "192.0.2.1:8053"} }, "192.0.2.1:8053 can be reached from outside"},
		{"a name", func(a *config.Admin) { a.Listen = []string{"localhost:8053"} }, "neither unix:PATH nor ADDRESS:PORT"},
		{"no path", func(a *config.Admin) { a.Listen = []string{"unix:"} }, "names no socket"},
		{"a token", func(a *config.Admin) { a.Tokens[0].SHA256 = "secret" }, "admin.token[0].sha256: want 64 hex digits"},
		{"a role", func(a *config.Admin) { a.Tokens[1].Role = "root" }, `admin.token[1].role: unknown role "root"`},
		{"a client's role", func(a *config.Admin) { a.Clients = []config.AdminClient{{Name: "x", Role: "root"}} }, `admin.client[0].role: unknown role "root"`},
		{"clients without TLS", func(a *config.Admin) { a.Clients = []config.AdminClient{{Name: "x", Role: "viewer"}} }, "client certificates are not asked for"},
		{"no certificate", func(a *config.Admin) { a.TLS = &config.AdminTLS{Certificate: "none.pem", Key: "none.pem"} }, "admin.tls: open none.pem"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			c := f.cfg
			c.Settings = settings(f.dir)
			c.Registry = newRegistry()
			test.change(&c.Settings)
			if _, err := New(c); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
