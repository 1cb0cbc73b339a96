package dash

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/server/api"
)

// fakeAPI answers as an admin API does, and remembers what it was asked.
type fakeAPI struct {
	*http.ServeMux
	role   api.Role // "": nobody
	asked  []string // methods and paths, with bodies
	change *api.Change
	refuse *api.Problem // of orders
	header http.Header  // of the last request
}

func now() time.Time { return time.Date(2026, 3, 29, 3, 10, 0, 0, time.UTC) }

func newFake(t *testing.T, role api.Role) (*fakeAPI, *Page) {
	t.Helper()
	f := &fakeAPI{ServeMux: http.NewServeMux(), role: role}
	give := func(pattern string, v func() any) {
		f.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			f.asked, f.header = append(f.asked, r.Method+" "+r.URL.RequestURI()+" "+string(body)), r.Header
			var answer = v()
			p, bad := answer.(*api.Problem)
			if f.role == "" && r.URL.Path != "/v1/sessions" {
				p, bad = &api.Problem{Type: api.ProblemCredentials, Status: 401, Title: "Who you are is not known"}, true
			}
			if bad {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(p.Status)
				answer = p
			}
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	order := func() any {
		if f.refuse != nil {
			return f.refuse
		}
		return f.change
	}
	give("GET /v1/caller", func() any { return &api.Caller{Name: "alice", Role: f.role} })
	give("GET /v1/status", func() any { return status() })
	give("GET /v1/health", func() any {
		return &api.Health{Endpoints: []api.EndpointHealth{
			{Target: "fra/wss", Verdict: api.HealthDown, Voters: 3, Fresh: 3, Against: 3, Votes: []api.Vote{{Node: "n1", Down: true, Error: "refused", Counts: true}}},
			{Target: "dub/wss", Verdict: api.HealthUp, Gray: true, Voters: 3, Fresh: 3, Against: 1},
		}}
	})
	give("GET /v1/peers", func() any { return &api.Peers{Peers: []api.Peer{{State: "alive"}, {State: "dead", Behind: true}}} })
	give("GET /v1/history", func() any {
		return &api.History{Entries: []api.HistoryEntry{{Seq: 1, Time: now(), Action: api.ActionAccepted, Kind: api.KindDrain, Target: "ams", Author: "<b>bob</b>", After: &api.Statement{By: 40}},
			{Seq: 0, Time: now(), Action: api.ActionRefused, Target: "ams", Author: "bob", Reason: "all is well", Message: "nothing stands for ams"}}, Before: 1}
	})
	give("GET /v1/zones", func() any { return &api.Zones{Zones: []api.ZoneInfo{{Names: []string{"wss.example.com."}}}} })
	give("GET /v1/explain", func() any {
		return &api.Explanation{Client: api.Asker{Prefix: "90.0.0.0/24"}, Scope: 13, Possible: []string{"fra"}, RCode: "NOERROR"}
	})
	for _, path := range []string{"drains", "shifts", "renewals", "restores"} {
		give("POST /v1/"+path, order)
	}
	give("POST /v1/sessions", func() any {
		return &api.Problem{Type: api.ProblemCredentials, Status: 401, Detail: "the token is not known here"}
	})
	p, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	return f, p
}

func status() *api.Status {
	lat, long, load, capacity, low, high := 50.1, 8.7, 90.0, 120.0, 80.0, 100.0
	pop := func(name string, share float64, why ...api.Reason) api.PoP {
		return api.PoP{Name: name, Latitude: &lat, Longitude: &long, Share: share, Why: why, Endpoints: []api.Endpoint{{
			Service: "wss", Share: share, Why: why, Capacity: &capacity, Load: &api.Load{Metric: "connections", Value: &load, Low: &low, High: &high},
		}}}
	}
	end := now().Add(2 * time.Hour)
	return &api.Status{
		Time: now(), Node: api.Node{Name: "n1"}, Ledger: api.Ledger{Durable: true, Active: 1},
		PoPs: []api.PoP{
			pop("fra", 0, api.Reason{Kind: api.KindHealth, Text: "2 of 2 fail", Applied: true, Decides: true}),
			pop("dub", 100),
			pop("ams", 0, api.Reason{Kind: api.KindDrain, Class: api.ClassPerson, Author: "bob", Text: "fibre", Applied: true, Decides: true, End: &end}),
			pop("iad", 60, api.Reason{Kind: api.KindDrain, Class: api.ClassAutomation, Author: "prometheus", Text: "errors", Share: 60, Applied: true, Decides: true}),
			pop("nrt", 100),
		},
		Statements: []api.Statement{{ID: "d-1", Kind: api.KindDrain, Class: api.ClassPerson, Target: "ams", By: 100, Author: "bob", Reason: "fibre", State: api.StateActive, Start: now(), End: &end}},
		Warnings:   []string{"no_state: a first start", "fra is gray"},
	}
}

func get(p *Page, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func post(p *Page, path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("HX-Request", "true")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

// TestPicture: what the API says becomes states, words and drawings.
func TestPicture(t *testing.T) {
	f, p := newFake(t, api.RoleOperator)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	pic, err := p.look(t.Context(), p.client(r), historyStep)
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]State{}
	for i := range pic.Rows {
		states[pic.Rows[i].PoP] = pic.Rows[i].State
	}
	if diff := cmp.Diff(map[string]State{"fra": Down, "dub": Gray, "ams": Drained, "iad": Leaving, "nrt": Up}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]count{{Down, 1}, {Gray, 1}, {Drained, 1}, {Leaving, 1}, {Up, 1}}, pic.Legend); diff != "" {
		t.Errorf("legend (-want +got):\n%s", diff)
	}
	if got := pic.Rows[2].Why; len(got) != 1 || got[0] != "drain by bob: fibre, until 05:10 UTC" {
		t.Errorf("why: %q", got)
	}
	if got := pic.Rows[3].Why; len(got) != 1 || got[0] != "drain by prometheus (automation): errors" {
		t.Errorf("why: %q", got)
	}
	if diff := cmp.Diff(&gauge{Width: 75, Low: 66.7, High: 83.3, Capacity: 100, Class: "above", Text: "90 of 120", More: " connections, sheds from 80 to 100"}, pic.Rows[0].Load); diff != "" {
		t.Errorf("load (-want +got):\n%s", diff)
	}
	if v := pic.Rows[0].Health; v.Text != "3 of 3 down" || v.Lines[0] != "n1: down, refused" {
		t.Errorf("votes: %+v", v)
	}
	if v := pic.Rows[1].Health; v.Text != "2 of 3 up: in doubt, stays up" {
		t.Errorf("votes: %+v", v)
	}
	if s := pic.Statements[0]; s.What != "drain of ams by 100 %" || s.Until != "until 05:10 UTC, in 2h" || !s.CanRenew {
		t.Errorf("statement: %+v", s)
	}
	if diff := cmp.Diff([]warning{{"a first start", true}, {"fra is gray", false}}, pic.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if pic.Serving() != 3 || pic.Alive() != 1 || pic.Behind() != 1 {
		t.Errorf("%d serve, %d alive, %d behind", pic.Serving(), pic.Alive(), pic.Behind())
	}
	if len(f.asked) == 0 || f.asked[1] != "GET /v1/status?answers=false " {
		t.Errorf("asked %q", f.asked)
	}
}

// TestFullDisk: that the disk refuses statements is said once.
func TestFullDisk(t *testing.T) {
	st := status()
	st.Ledger.Durable, st.Ledger.Error = false, "no space left on device"
	st.Warnings = append(st.Warnings, "disk_failing: no space left on device")
	pic := newPicture(&api.Caller{}, st, &api.Health{}, &api.Peers{})
	if diff := cmp.Diff([]warning{{"the disk refuses statements: no space left on device", false}, {"a first start", true}, {"fra is gray", false}}, pic.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// TestNames: names on the map do not lie on each other.
func TestNames(t *testing.T) {
	list := []marker{{Name: "a-long-name", X: 500, Y: 100, State: Up}, {Name: "beside-it", X: 520, Y: 104, State: Down}, {Name: "edge", X: 990, Y: 300, State: Up}, {Name: "far", X: 100, Y: 300, State: Up}}
	placeNames(list)
	if list[1].Label.Anchor != "start" {
		t.Errorf("the name of what is down comes first: %+v", list[1])
	}
	if list[0].Label.Anchor != "end" {
		t.Errorf("the name beside it goes to the left: %+v", list[0])
	}
	if list[2].Label.Anchor != "end" || list[3].Label.Anchor != "start" {
		t.Errorf("at the edge and alone: %+v", list[2:])
	}
	crowd := []marker{{Name: "middle", X: 500, Y: 300}, {Name: "right", X: 520, Y: 300}, {Name: "left", X: 480, Y: 300}}
	placeNames(crowd)
	if crowd[0].Label.Anchor != "middle" || crowd[0].Label.Y < 0 {
		t.Errorf("between two others: %+v", crowd[0])
	}
}

func TestWho(t *testing.T) {
	for _, test := range []struct {
		role   api.Role
		levers bool
	}{{api.RoleViewer, false}, {api.RoleAutomation, false}, {api.RoleOperator, true}} {
		_, p := newFake(t, test.role)
		page := get(p, "/")
		body := page.Body.String()
		if has := strings.Contains(body, `id="drain-fra-wss"`); page.Code != 200 || has != test.levers {
			t.Errorf("%s: status %d, levers %v", test.role, page.Code, has)
		}
		if !strings.Contains(body, "<strong>refused</strong> by bob: all is well (nothing stands for ams)</li>") {
			t.Errorf("%s: the history lacks why something was refused", test.role)
		}
		if strings.Contains(body, "<b>bob") || !strings.Contains(body, "&lt;b&gt;bob") {
			t.Errorf("%s: what somebody wrote is markup", test.role)
		}
		if csp := page.Header().Get("Content-Security-Policy"); csp != policy {
			t.Errorf("policy %q", csp)
		}
		if form := get(p, "/page/form?kind=drain&target=fra").Body.String(); strings.Contains(form, `id="lever"`) != test.levers {
			t.Errorf("%s: the form is %s", test.role, form)
		}
	}
	_, p := newFake(t, "")
	if w := get(p, "/"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/login" {
		t.Errorf("nobody: %d to %s", w.Code, w.Header().Get("Location"))
	}
	if w := get(p, "/page/live", "HX-Request", "true"); w.Header().Get("HX-Redirect") != "/login" {
		t.Errorf("nobody's refresh: %d %v", w.Code, w.Header())
	}
	if w := post(p, "/login", url.Values{"token": {"guess"}}); w.Code != 401 || !strings.Contains(w.Body.String(), "the token is not known here") {
		t.Errorf("a guessed token: %d %s", w.Code, w.Body)
	}
}

// TestCarried: the API hears of the browser's credentials and of the page that asks, and of no other header.
func TestCarried(t *testing.T) {
	f, p := newFake(t, api.RoleOperator)
	get(p, "/page/explain?name=x&client=y", "Cookie", "edgesteer-session-1=secret", "Sec-Fetch-Site", "same-origin", "Authorization", "Bearer t", "X-Other", "1", "If-Match", `"9"`)
	for name, want := range map[string]string{"Cookie": "edgesteer-session-1=secret", "Sec-Fetch-Site": "same-origin", "Authorization": "Bearer t", "X-Other": "", "If-Match": ""} {
		if got := f.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestPreview: the button is live when the order would be accepted as it was shown and somebody said why, and it carries what was shown.
func TestPreview(t *testing.T) {
	before, after := 9.0, 0.0
	change := &api.Change{Version: "v7", Effect: &api.Effect{Moved: 9, Queries: 300, PoPs: []api.PoPEffect{{PoP: "fra", ShareBefore: 100, AnswersBefore: &before, AnswersAfter: &after}},
		Heavy: []api.HeavyNetwork{{Network: "192.0.2.0/24", Record: "a.example.com. A", Percent: 12, From: "fra", To: "iad"}}}}
	form := url.Values{"kind": {"drain"}, "target": {"fra"}, "by": {"40"}, "over": {"10m"}, "for": {"8h"}, "reason": {"fibre"}, "override": {"half", "half"}}
	with := func(name, v string) url.Values {
		out := url.Values{}
		for k := range form {
			out[k] = form[k]
		}
		out.Set(name, v)
		return out
	}
	for _, test := range []struct {
		name   string
		form   url.Values
		refuse *api.Problem
		live   bool
		says   string
	}{
		{"all is said", form, nil, true, "Drain fra by 40 % over 10m"},
		{"a rate and its kind", form, nil, true, "9 % of the answers go elsewhere, by 300 queries a second (5-minute average)"},
		{"a heavy network and its record", form, nil, true, "192.0.2.0/24 for a.example.com. A (12 %)"},
		{"no load is known", form, nil, true, ">unknown<"},
		{"no reason", with("reason", " "), nil, false, "Say why"},
		{"no target", with("target", ""), nil, false, "What it would do is shown here"},
		{"not a length", with("over", "soon"), nil, false, "is not a length of time"},
		{"not a percentage", with("by", "half"), nil, false, "is not a percentage"},
		{"not a lever", with("kind", "crash"), nil, false, "is no lever"},
		{"a guard rail", form, &api.Problem{Type: api.ProblemRefused, Status: 409, Title: "A guard rail would break", Hint: "to do it all the same: --override capacity", Guards: []api.Guard{{Name: api.GuardCapacity, Text: "too much"}}}, false, `value="capacity"`},
		{"a guard rail on a page", form, &api.Problem{Type: api.ProblemRefused, Status: 409, Title: "A guard rail would break", Hint: "to do it all the same: --override capacity", Guards: []api.Guard{{Name: api.GuardCapacity, Text: "too much"}}}, false, `tick the guard rails below</span>`},
	} {
		f, p := newFake(t, api.RoleOperator)
		f.change, f.refuse = change, test.refuse
		body := post(p, "/page/preview", test.form).Body.String()
		live := strings.Contains(body, `id="pull-button" disabled data-live>`)
		if live != test.live || !strings.Contains(body, test.says) {
			t.Errorf("%s: live %v: %s", test.name, live, body)
		}
		for _, asked := range f.asked {
			if !strings.Contains(asked, `"dry_run":true`) {
				t.Errorf("%s: a preview asks %s", test.name, asked)
			}
		}
		if test.live && (!strings.Contains(body, `name="version" value="v7"`) || strings.Count(body, `name="override" value="half"`) != 1 || !strings.Contains(body, `name="key" value="`)) {
			t.Errorf("%s: the button does not carry what was shown: %s", test.name, body)
		}
	}
}

// TestAct: an order is sent as it was previewed, with its version and key; a refusal has the API's status.
func TestAct(t *testing.T) {
	f, p := newFake(t, api.RoleOperator)
	f.change = &api.Change{Statements: []api.Statement{{ID: "d-2", Kind: api.KindDrain, Target: "fra", State: api.StateActive}}, Durable: true, Undo: "edgesteer restore fra"}
	for kind, want := range map[string]string{
		"drain": `POST /v1/drains {"target":"fra","by":40,"for":"8h","over":"10m","reason":"fibre","ticket":"T-1"}`,
		"shift": `POST /v1/shifts {"from":"fra","to":"dub","by":40,"for":"8h","over":"10m","reason":"fibre","ticket":"T-1"}`,
		"renew": `POST /v1/renewals {"id":"d-1","for":"8h","reason":"fibre","ticket":"T-1"}`,
		"lift":  `POST /v1/restores {"id":"d-1","over":"10m","reason":"fibre","ticket":"T-1"}`,
	} {
		form := url.Values{"kind": {kind}, "by": {"40"}, "over": {"10m"}, "for": {"8h"}, "reason": {"fibre"}, "ticket": {"T-1"}, "version": {"v7"}, "key": {"k1"}, "id": {"d-1"}, "target": {"fra"}, "to": {"dub"}}
		w := post(p, "/page/act", form)
		if w.Code != 200 || !strings.Contains(w.Body.String(), "edgesteer restore fra") || w.Header().Get("HX-Trigger") != "acted" {
			t.Errorf("%s: %d %s", kind, w.Code, w.Body)
		}
		if got := f.asked[len(f.asked)-1]; got != want {
			t.Errorf("%s asks\n%s, want\n%s", kind, got, want)
		}
		if f.header.Get("Idempotency-Key") != "k1" || f.header.Get("If-Match") != `"v7"` {
			t.Errorf("%s: headers %v", kind, f.header)
		}
	}
	f.refuse = &api.Problem{Type: api.ProblemForbidden, Status: 403, Title: "You may not do this", Detail: "alice has the role viewer"}
	if w := post(p, "/page/act", url.Values{"kind": {"drain"}, "target": {"fra"}, "reason": {"x"}}); w.Code != 403 || !strings.Contains(w.Body.String(), "alice has the role viewer") {
		t.Errorf("a refusal: %d %s", w.Code, w.Body)
	}
}

func TestExplain(t *testing.T) {
	_, p := newFake(t, api.RoleViewer)
	if body := get(p, "/page/explain?name=wss.example.com&client=90.0.0.0/24").Body.String(); !strings.Contains(body, "everybody in 90.0.0.0/13") || !strings.Contains(body, "<strong>fra</strong>") {
		t.Errorf("explained: %s", body)
	}
}

func TestAssets(t *testing.T) {
	_, p := newFake(t, api.RoleViewer)
	for name, a := range p.assets {
		w := get(p, a.path)
		if w.Code != 200 || w.Header().Get("Content-Type") != a.mime || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
	if w := get(p, "/page/assets/LICENSE.htmx"); w.Code != 404 {
		t.Errorf("a licence is %d", w.Code)
	}
}
