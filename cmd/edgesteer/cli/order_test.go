package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/server/api"
)

// run runs a command as if somebody sat at a terminal who types an answer.
func run(answer string, args ...string) (code int, out, errs string) {
	var o, e strings.Builder
	s := &streams{in: strings.NewReader(answer), out: &o, err: &e, asks: true}
	return s.run(args), o.String(), e.String()
}

// What a terminal of 80 columns shows before a change, and a program gets.
func TestPreview(t *testing.T) {
	for name, s := range map[string]*streams{"preview.80": {terminal: true, width: 80}, "preview.tabs": {}} {
		var out strings.Builder
		s.out, s.err = &out, &out
		p := &printer{streams: s, named: "unix:/run/my server.sock", from: "unix:/run/my server.sock"}
		p.preview(preview())
		done := preview()
		done.DryRun, done.Durable, done.Guards = false, true, nil
		done.Nodes = []api.Applied{{Node: "dns-a", Applied: true}, {Node: "dns-b", Error: "not reached"}}
		done.Warnings = append(done.Warnings, "the clock is behind")
		p.done(done, preview())
		golden(t, name, out.String())
	}
}

// What was looked at is what is changed: if somebody was first the order is refused. Who says --yes has not looked.
func TestSomebodyWasFirst(t *testing.T) {
	f := newFake(t)
	var matches []string
	f.HandleFunc("POST /v1/drains", func(w http.ResponseWriter, r *http.Request) {
		var d api.DrainRequest
		if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
			t.Error(err)
		}
		if d.DryRun {
			c := preview()
			c.Guards = nil
			answer(w, c)
			return
		}
		matches = append(matches, r.Header.Get("If-Match"))
		if r.Header.Get("If-Match") == `"v1"` {
			answer(w, &api.Problem{Type: api.ProblemConflict, Status: http.StatusPreconditionFailed, Detail: "bob was first: drain d-bob of eu-west-3, 2s ago: mine", Hint: "look again, then decide", By: "bob"})
			return
		}
		c := preview()
		c.DryRun = false
		answer(w, c)
	})
	args := []string{"drain", "eu-west-3", "--reason", "fibre works", "--server", f.server}
	code, out, errs := run("y\n", args...)
	if code != exitError || !strings.Contains(errs, "edgesteer: bob was first") || strings.Contains(out, "done") {
		t.Errorf("exit code %d, out:\n%s\nerr:\n%s", code, out, errs)
	}
	if code, out, _ = run("", append(args, "--yes")...); code != exitDone || !strings.Contains(out, "done\td-new") {
		t.Errorf("with --yes: exit code %d, out:\n%s", code, out)
	}
	if diff := cmp.Diff([]string{`"v1"`, ""}, matches); diff != "" {
		t.Errorf("If-Match (-want +got):\n%s", diff)
	}
	// Nothing but yes is yes, and nothing is sent.
	for _, no := range []string{"", "\n", "n\n", "yep\n"} {
		if code, _, errs = run(no, args...); code != exitError || !strings.Contains(errs, "nothing was changed") || len(matches) != 2 {
			t.Errorf("%q: exit code %d, %d orders, err:\n%s", no, code, len(matches), errs)
		}
	}
}

// A node that does not obey in time is exit code 3; what a retry sees is told.
func TestLate(t *testing.T) {
	f := newFake(t)
	f.HandleFunc("POST /v1/restores", func(w http.ResponseWriter, r *http.Request) {
		var d api.RestoreRequest
		if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
			t.Error(err)
		}
		c := &api.Change{Schema: 1, DryRun: d.DryRun, Durable: true, Ended: preview().Ended}
		if d.Wait > 0 {
			c.Nodes = []api.Applied{{Node: "dns-a", Applied: true}, {Node: "dns-b"}}
		}
		answer(w, c)
	})
	args := []string{"restore", "eu-west-3", "--reason", "fibre is back", "--server", f.server, "--yes"}
	if code, out, _ := run("", args...); code != exitDone || !strings.Contains(out, "taken back\td-old") {
		t.Errorf("exit code %d, out:\n%s", code, out)
	}
	code, out, errs := run("", append(args, "--wait")...)
	if code != exitLate || !strings.Contains(out, "node\tdns-b does not obey yet") || !strings.Contains(errs, "not in time on dns-b") {
		t.Errorf("exit code %d, out:\n%s\nerr:\n%s", code, out, errs)
	}
}

// With -o json a question still shows what it is about, beside the result.
func TestAskJSON(t *testing.T) {
	f := newFake(t)
	f.HandleFunc("POST /v1/pins", func(w http.ResponseWriter, _ *http.Request) { answer(w, preview()) })
	code, out, errs := run("y\n", "pin", "eu-west-3", "--reason", "x", "--server", f.server, "-o", "json")
	if code != exitDone || !strings.HasPrefix(out, "{\n  \"schema\": 1,") || !strings.Contains(errs, "pop\teu-west-3\t63\t0\t") {
		t.Errorf("exit code %d, out:\n%s\nerr:\n%s", code, out, errs)
	}
}

// What the server refuses is JSON, too, once, whether it was asked for a preview or for more.
func TestRefusedJSON(t *testing.T) {
	f := newFake(t)
	refused := &api.Problem{Type: api.ProblemRefused, Status: http.StatusConflict, Guards: []api.Guard{{Name: api.GuardHalf, Text: "2 of 3 would be gone"}}}
	f.HandleFunc("POST /v1/drains", func(w http.ResponseWriter, r *http.Request) {
		var d api.DrainRequest
		if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
			t.Error(err)
		}
		switch {
		case d.Target == "nowhere":
			answer(w, &api.Problem{Type: api.ProblemUnknown, Status: http.StatusNotFound, Detail: "unknown PoP"})
		case d.DryRun && len(d.Override) > 0:
			answer(w, preview())
		default:
			answer(w, refused)
		}
	})
	f.HandleFunc("GET /v1/pops/{pop}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, &api.Problem{Type: api.ProblemUnknown, Status: http.StatusNotFound, Detail: "unknown PoP"})
	})
	unknown, broken := `"type": "`+api.ProblemUnknown, `"type": "`+api.ProblemRefused
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"drain", "eu-west-3", "--reason", "x"}, exitError, broken},
		{[]string{"drain", "eu-west-3", "--reason", "x", "--yes"}, exitError, broken},
		{[]string{"drain", "eu-west-3", "--dry-run"}, exitProblems, `"dry_run": true`},
		{[]string{"drain", "nowhere", "--reason", "x"}, exitError, unknown},
		{[]string{"drain", "nowhere", "--reason", "x", "--yes"}, exitError, unknown},
		{[]string{"drain", "nowhere", "--dry-run"}, exitError, unknown},
		{[]string{"pop", "show", "nowhere"}, exitError, unknown},
	} {
		code, out, errs := run("y\n", append(tt.args, "--server", f.server, "-o", "json")...)
		if code != tt.code || !strings.Contains(out, tt.want) || !json.Valid([]byte(out)) || !strings.Contains(errs, "edgesteer: ") {
			t.Errorf("%q: exit code %d, out:\n%s\nerr:\n%s", tt.args, code, out, errs)
		}
	}
}

// A peak that is written like what comes after says nothing more.
func TestPeak(t *testing.T) {
	p := &printer{streams: &streams{terminal: true}}
	for want, peak := range map[string]*float64{"": new(36.334848496667), "40": new(40.0)} {
		rows, _ := p.loads(&api.Change{Effect: &api.Effect{Loads: []api.LoadEffect{{PoP: "fra", Service: "wss", Before: new(30.0), After: new(36.334848496666), Peak: peak}}}})
		if rows[0][3] != want {
			t.Errorf("peak %v is written %q, want %q", *peak, rows[0][3], want)
		}
	}
}

// A renewal shows the end that was, and the one that will be.
func TestRenewedPreview(t *testing.T) {
	c := &api.Change{Schema: 1, DryRun: true, Expires: moments("2026-03-29T10:00:00Z")}
	st := api.Statement{ID: "d-one", Version: 2, Kind: api.KindDrain, Target: "eu-west-3", By: 37, Made: at("2026-03-29T02:00:00Z"), End: c.Expires}
	c.Statements = []api.Statement{st}
	for end, want := range map[*time.Time]string{moments("2026-03-29T03:00:00Z"): "03:00 UTC, in 1h", nil: "never"} {
		st.Version, st.End = 1, end
		c.Before = []api.Statement{st}
		var out strings.Builder
		p := &printer{streams: &streams{out: &out, err: &out, terminal: true, width: 80}}
		p.preview(c)
		if text := out.String(); !strings.Contains(text, "another end for drain of eu-west-3 by 37 %, so far: "+want+"\n") || !strings.Contains(text, "10:00 UTC, in 8h") {
			t.Errorf("%s", text)
		}
	}
}

func TestFlags(t *testing.T) {
	tests := []struct {
		flag interface {
			Set(string) error
			String() string
		}
		in, want string // want "" is an error
	}{
		{new(by), "37%", "37%"}, {new(by), "37", "37%"}, {new(by), "100%", "100%"}, {new(by), "1", "1%"}, {new(by), "0.5%", ""}, {new(by), "0%", ""}, {new(by), "101%", ""},
		{new(by), "-1%", ""}, {new(by), "NaN", ""}, {new(by), "a third", ""},
		{new(length), "8h", "8h"}, {new(length), "forever", "forever"}, {new(length), "8", ""}, {new(length), "-8h", ""},
		{new(lasting), "3d", "72h"}, {new(lasting), "1d12h", "36h"}, {new(lasting), "forever", "forever"}, {new(lasting), "0", ""}, {new(lasting), "0h", ""}, {new(lasting), "d", ""}, {new(lasting), "1d-1h", ""}, {new(lasting), "-1d", ""},
		{new(wait), "10s", "10s"}, {new(wait), "forever", ""}, {new(wait), "0s", ""},
		{new(steps), "1%, 10%,100", "1%,10%,100%"}, {new(steps), "1%,", ""},
		{new(start), "2026-12-24T22:00:00Z", "2026-12-24T22:00:00Z"}, {new(start), "2h", "2h"}, {new(start), "forever", ""}, {new(start), "tomorrow", ""},
	}
	for _, tt := range tests {
		err := tt.flag.Set(tt.in)
		if got := tt.flag.String(); (err != nil) != (tt.want == "") || err == nil && got != tt.want {
			t.Errorf("%T %q: %q, %v; want %q", tt.flag, tt.in, got, err, tt.want)
		}
	}
	if p := new(by).percent(); *p != 100 {
		t.Errorf("left out: %v", *p)
	}
}

// A preview of what guard rails refuse says that nothing of it is overridden but what somebody named.
func TestRefusedPreview(t *testing.T) {
	guards := []api.Guard{{Name: api.GuardHalf}, {Name: api.GuardLast}, {Name: api.GuardLast}}
	do := func(order api.Order) (*api.Change, error) {
		if !slices.Contains(order.Override, "last") {
			return nil, &api.Problem{Type: api.ProblemRefused, Guards: guards}
		}
		return &api.Change{Statements: []api.Statement{{Overrides: order.Override}}, Guards: guards}, nil
	}
	preview, refused, err := (&orderOptions{}).preview(api.Order{Override: []string{"half"}}, do)
	if refused == nil || err != nil {
		t.Fatalf("refused %v, %v", refused, err)
	}
	if got := preview.Statements[0].Overrides; !slices.Equal(got, []string{"half"}) {
		t.Errorf("overrides %q, want what was named: half", got)
	}
	if g := preview.Guards; !g[0].Overridden || g[1].Overridden || g[2].Overridden {
		t.Errorf("guards %+v", g)
	}
}

func TestGuarded(t *testing.T) {
	other := errors.New("other")
	if got := guarded(other); !errors.Is(got, other) {
		t.Errorf("%v", got)
	}
	p := &api.Problem{Type: api.ProblemRefused, Guards: []api.Guard{{Name: api.GuardHalf, Overridden: true}, {Name: api.GuardLast}, {Name: api.GuardLast}}}
	if got := guarded(p).Error(); got != "refused, a guard rail would break: last" {
		t.Errorf("%v", got)
	}
}
