package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNew(t *testing.T) {
	for _, test := range []struct{ server, want string }{
		{"unix:/run/edgesteer/admin.sock", ""},
		{"https://dns1.example.com:8053", ""},
		{"https://dns1.example.com:8053/", ""},
		{"http://127.0.0.1:8053", ""},
		{"http://[::1]:8053", ""},
		{"http://localhost:8053", ""},
		{"unix:", "names no socket"},
		{"", "give unix:PATH, https://HOST:PORT or http://127.0.0.1:PORT"},
		{"127.0.0.1:8053", "give unix:PATH"},
		{"ftp://127.0.0.1", "give unix:PATH"},
		{"http://192.0.2.1:8053", "without TLS only this machine is spoken to; give https://192.0.2.1:8053"},
		{"http://localhost.example.com", "without TLS"},
		{"https://user:secret@dns1.example.com", "only scheme, host and port"},
		{"https://dns1.example.com/v1", "only scheme, host and port"},
		{"https://dns1.example.com?x", "only scheme, host and port"},
	} {
		_, err := New(test.server, "")
		if got := fmt.Sprint(err); (test.want == "") != (err == nil) || !strings.Contains(got, test.want) && err != nil {
			t.Errorf("New(%q): %v, want %q", test.server, err, test.want)
		}
	}
}

// serve gives a client of a handler on loopback.
func serve(t *testing.T, token string, h http.HandlerFunc) *Client {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(s.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.dialer.CloseIdleConnections)
	return c
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

func TestRequests(t *testing.T) {
	type seen struct{ Method, URL, Body string }
	var got seen
	c := serve(t, "secret", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = seen{r.Method, r.URL.String(), string(body)}
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s: no token", r.URL)
		}
		if key := r.Header.Get("Idempotency-Key"); (key != "") != (r.Method == http.MethodPost) {
			t.Errorf("%s: key %q", r.URL, key)
		}
		answer(w, struct{}{})
	})
	by := 37.0
	order := Order{Reason: "why"}
	ctx := t.Context()
	for _, test := range []struct {
		call func() error
		want seen
	}{
		{func() error { _, err := c.Status(ctx); return err }, seen{"GET", "/v1/status", ""}},
		{func() error { _, err := c.PoPs(ctx); return err }, seen{"GET", "/v1/pops", ""}},
		{func() error { _, err := c.PoP(ctx, "a b/c"); return err }, seen{"GET", "/v1/pops/a%20b%2Fc", ""}},
		{func() error { _, err := c.Statements(ctx, false); return err }, seen{"GET", "/v1/statements", ""}},
		{func() error { _, err := c.Statements(ctx, true); return err }, seen{"GET", "/v1/statements?all=true", ""}},
		{func() error {
			_, err := c.History(ctx, HistoryQuery{Target: "*/x", ID: "d-1", Limit: 5, Before: 9})
			return err
		}, seen{"GET", "/v1/history?before=9&id=d-1&limit=5&target=%2A%2Fx", ""}},
		{func() error { _, err := c.History(ctx, HistoryQuery{}); return err }, seen{"GET", "/v1/history", ""}},
		{func() error {
			_, err := c.Explain(ctx, ExplainQuery{Name: "www.example.com", Type: "AAAA", Client: "192.0.2.0/24"})
			return err
		}, seen{"GET", "/v1/explain?client=192.0.2.0%2F24&name=www.example.com&type=AAAA", ""}},
		{func() error { _, err := c.Zones(ctx); return err }, seen{"GET", "/v1/zones", ""}},
		{func() error { _, err := c.ReloadZones(ctx); return err }, seen{"POST", "/v1/zones/reload", ""}},
		{func() error {
			_, err := c.Drain(ctx, DrainRequest{Target: "fra", By: &by, For: Forever, Over: Duration(10 * time.Minute), Order: order})
			return err
		}, seen{"POST", "/v1/drains", `{"target":"fra","by":37,"for":"forever","over":"10m","reason":"why"}`}},
		{func() error { _, err := c.Shift(ctx, ShiftRequest{From: "fra", To: "dub", Order: order}); return err }, seen{"POST", "/v1/shifts", `{"from":"fra","to":"dub","reason":"why"}`}},
		{func() error { _, err := c.Pin(ctx, PinRequest{Target: "fra", Order: order}); return err }, seen{"POST", "/v1/pins", `{"target":"fra","reason":"why"}`}},
		{func() error {
			_, err := c.Renew(ctx, RenewRequest{ID: "d-1", For: Duration(8 * time.Hour), Order: order})
			return err
		}, seen{"POST", "/v1/renewals", `{"id":"d-1","for":"8h","reason":"why"}`}},
		{func() error {
			_, err := c.Restore(ctx, RestoreRequest{Target: "fra", Order: Order{Reason: "why", Override: []string{"last"}, DryRun: true}})
			return err
		}, seen{"POST", "/v1/restores", `{"target":"fra","reason":"why","dry_run":true,"override":["last"]}`}},
	} {
		if err := test.call(); err != nil {
			t.Errorf("%s: %v", test.want.URL, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
	}
}

// TestRetry checks that the same request is sent again, with the same key, and only when that can help.
func TestRetry(t *testing.T) {
	for _, test := range []struct {
		name   string
		status []int // of each answer
		sent   int
		fails  bool
	}{
		{"good", []int{200}, 1, false},
		{"busy twice", []int{503, 503, 200}, 3, false},
		{"throttled", []int{429, 200}, 2, false},
		{"busy always", []int{503, 503, 503, 503, 200}, 4, true},
		{"refused", []int{409, 200}, 1, true},
		{"disk full", []int{-503, 200}, 1, true},
		{"fault", []int{500, 200}, 1, true},
		{"connection broken", []int{0, 0, 200}, 3, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var sent int
			keys := map[string]bool{}
			c := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
				status := test.status[sent]
				sent++
				keys[r.Header.Get("Idempotency-Key")] = true
				switch status {
				case 0:
					panic(http.ErrAbortHandler)
				case 200:
					answer(w, Change{Version: "7"})
				default:
					if status < 0 {
						status = -status
					} else if status == 503 {
						w.Header().Set("Retry-After", "1")
					}
					w.Header().Set("Content-Type", "application/problem+json")
					w.WriteHeader(status)
					json.NewEncoder(w).Encode(Problem{Type: ProblemBusy, Title: "busy", Status: status})
				}
			})
			_, err := c.Drain(t.Context(), DrainRequest{Target: "fra"})
			if (err != nil) != test.fails || sent != test.sent || len(keys) != 1 {
				t.Errorf("%v after %d requests with %d keys, want %d and 1", err, sent, len(keys), test.sent)
			}
			var p *Problem
			if err != nil && (!errors.As(err, &p) || p.Name() != "busy") {
				t.Errorf("error %#v, want the problem", err)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	l, err := net.Listen("unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = nil
	t.Cleanup(secure.Close)
	for _, test := range []struct{ server, want, hint string }{
		{"unix:" + filepath.Join(dir, "none"), "no such file or directory", "start one with edgesteer serve"},
		{"unix:" + stale, "connection refused", "is the server running?"},
		{web.URL, "it answers 404 Not Found", "is that the admin address"},
		{secure.URL, "certificate", "not signed by an authority"},
		{"https" + strings.TrimPrefix(web.URL, "http"), "HTTP response to HTTPS client", "that port speaks HTTP without TLS: give " + web.URL},
	} {
		c, err := New(test.server, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Status(t.Context())
		var u *UnreachableError
		if !errors.As(err, &u) || !strings.HasPrefix(err.Error(), "asking "+test.server+": ") || !strings.Contains(err.Error(), test.want) || !strings.Contains(u.Advice(), test.hint) {
			t.Errorf("%s: %v (hint: %v), want %q (hint: %q)", test.server, err, u, test.want, test.hint)
		}
	}
}

func TestDeadline(t *testing.T) {
	stop := make(chan struct{})
	c := serve(t, "", func(http.ResponseWriter, *http.Request) { <-stop })
	defer close(stop)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Status(ctx)
	var u *UnreachableError
	if !errors.As(err, &u) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(u.Hint, "may have been done") {
		t.Errorf("%v (%v)", err, u)
	}
}

// TestEvents checks that a broken stream goes on where it broke, that a refusal ends it, and that the reader can.
func TestEvents(t *testing.T) {
	var calls atomic.Int32
	c := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		switch calls.Add(1) {
		case 1:
			if id := r.Header.Get("Last-Event-ID"); id != "" {
				t.Errorf("first Last-Event-ID %q", id)
			}
			io.WriteString(w, "retry: 2000\n\n: still here\n\nid: 4\nevent: view\ndata: {\"id\":4,\ndata: \"kind\":\"view\"}\n\nid: 5\ndata: {\"id\":5}\n\nid: 6\ndata: {\"id\"")
		default:
			if id := r.Header.Get("Last-Event-ID"); id != "5" {
				t.Errorf("second Last-Event-ID %q", id)
			}
			io.WriteString(w, "data: {\"id\":6}\n\n")
		}
	})
	enough := errors.New("enough")
	var ids []uint64
	err := c.Events(t.Context(), 0, func(e Event) error {
		ids = append(ids, e.ID)
		if e.ID == 6 {
			return enough
		}
		return nil
	}, nil)
	if !errors.Is(err, enough) || !cmp.Equal(ids, []uint64{4, 5, 6}) {
		t.Errorf("%v %v", ids, err)
	}
}

func TestEventsRefused(t *testing.T) {
	c := serve(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		json.NewEncoder(w).Encode(Problem{Type: ProblemCredentials, Status: 401, Title: "no"})
	})
	var p *Problem
	if err := c.Events(t.Context(), 0, nil, nil); !errors.As(err, &p) || p.Name() != "credentials" {
		t.Error(err)
	}
}

// TestEventsDown checks the pace of attempts while nothing listens.
func TestEventsDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	synctest.Test(t, func(t *testing.T) {
		c, err := New("unix:"+path, "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var failures []time.Duration
		start := time.Now()
		err = c.Events(ctx, 0, nil, func(err error) {
			if !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
			failures = append(failures, time.Since(start))
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if n := len(failures); n < 15 || n > 20 || failures[1]-failures[0] != pause || failures[n-1]-failures[n-2] != 5*time.Second {
			t.Errorf("attempts at %v", failures)
		}
	})
}

func TestDuration(t *testing.T) {
	for _, test := range []struct {
		text string
		want Duration
		back string
	}{
		{"8h", Duration(8 * time.Hour), "8h"},
		{"1h30m", Duration(90 * time.Minute), "1h30m"},
		{"90m", Duration(90 * time.Minute), "1h30m"},
		{"10m0s", Duration(10 * time.Minute), "10m"},
		{"30s", Duration(30 * time.Second), "30s"},
		{"1h0m1s", Duration(time.Hour + time.Second), "1h0m1s"},
		{"20m10s", Duration(20*time.Minute + 10*time.Second), "20m10s"},
		{"0s", 0, "0s"},
		{"3d", Duration(72 * time.Hour), "72h"},
		{"1d12h", Duration(36 * time.Hour), "36h"},
		{"forever", Forever, "forever"},
	} {
		got, err := ParseDuration(test.text)
		if err != nil || got != test.want || got.String() != test.back {
			t.Errorf("%q: %v, %v; want %v", test.text, got, err, test.back)
		}
	}
	for _, text := range []string{"", "8", "-1h", "eternally", "d", "1d-1h", "1d5", "1.5d", "65535d2000000h", "Forever"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %v", text, d)
		}
	}
}

func FuzzDuration(f *testing.F) {
	f.Add("8h")
	f.Add("forever")
	f.Add("2562047h47m16.854775807s")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Errorf("%q: %v is read as %v, %v", text, d, again, err)
		}
	})
}

func TestProblemError(t *testing.T) {
	for _, test := range []struct {
		p    Problem
		want string
	}{
		{Problem{Title: "You may not do this"}, "You may not do this"},
		{Problem{Title: "t", Detail: "unknown PoP \"fa\""}, "unknown PoP \"fa\""},
		{Problem{Title: "t", Detail: "given twice", Field: "by"}, "by: given twice"},
	} {
		if got := test.p.Error(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
