package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/edgesteer/edgesteer/server/api"
)

// TestEvents drains while a client listens: it hears of the statement and of the answers.
func TestEvents(t *testing.T) {
	f := newFixture(t)
	c, err := api.New("unix:"+filepath.Join(f.dir, "admin.sock"), "")
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan api.Event, 16)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	start := f.hub.newest()
	go func() {
		ended <- c.Events(ctx, start, func(e api.Event) error {
			events <- e
			return nil
		}, nil)
	}()
	done := f.change(t, f.unix, "/v1/drains", "", api.DrainRequest{Target: "dub/wss", By: new(25.0), Order: because("works")})
	f.Published()
	f.do(t, f.tcp, "POST", "/v1/pins", "viewer", "{}") // refused: told within a second
	want := []api.Event{
		{Schema: 1, ID: start + 1, Kind: api.EventHistory, Entry: &api.HistoryEntry{Action: api.ActionAccepted, Statement: done.Statements[0].ID, Target: "dub/wss"}},
		{Schema: 1, ID: start + 2, Kind: api.EventView, Text: "dub/wss 75%", Shares: []api.ShareChange{{Target: "dub/wss", Before: 100, After: 75}}},
		{Schema: 1, ID: start + 3, Kind: api.EventHistory, Entry: &api.HistoryEntry{Action: api.ActionRefused}},
	}
	var got []api.Event
	for range want {
		select {
		case e := <-events:
			if e.Entry != nil {
				e.Entry = &api.HistoryEntry{Action: e.Entry.Action, Statement: e.Entry.Statement, Target: e.Entry.Target}
				if !strings.HasPrefix(e.Text, string(e.Entry.Action)) {
					t.Errorf("text %q", e.Text)
				}
				e.Text = ""
			}
			got = append(got, e)
		case <-time.After(time.Minute):
			t.Fatalf("only %+v", got)
		}
	}
	// The refusal may be told of before the answers.
	byKind := cmpopts.SortSlices(func(a, b api.Event) bool { return a.Kind+api.EventKind(a.Text) < b.Kind+api.EventKind(b.Text) })
	if diff := cmp.Diff(want, got, byKind, cmpopts.IgnoreFields(api.Event{}, "Time", "Snapshot", "ID")); diff != "" {
		t.Error(diff)
	}
	for i, e := range got {
		if e.ID != start+uint64(i)+1 {
			t.Errorf("event %d has id %d after %d", i, e.ID, start)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestAlerts: a warning that was not there is told once.
func TestAlerts(t *testing.T) {
	warnings := []string{"old"}
	c := newFixture(t).cfg
	c.Warnings, c.Registry = func() []string { return warnings }, newRegistry()
	s, err := New(c) // one that is not started has no watcher of its own
	if err != nil {
		t.Fatal(err)
	}
	view := c.Publisher.Snapshot().View
	w := watcher{server: s, view: view, told: s.warnings(view)}
	start := s.hub.newest()
	var got []string
	for _, warnings = range [][]string{{"old"}, {"old", "new"}, {"new"}, {}, {"old"}} {
		w.alerts()
		events, _, _ := s.hub.after(start, time.Now())
		for _, e := range events {
			if e.Kind == api.EventAlert {
				got = append(got, e.Text)
			}
			start = e.ID
		}
	}
	if diff := cmp.Diff([]string{"new", "old"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestHub(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h := newHub(now)
	start := h.newest()
	if start != uint64(now.UnixMicro()) {
		t.Errorf("starts at %d", start)
	}
	after := func(id uint64) (ids []uint64, missed bool) {
		events, _, _ := h.after(id, now)
		for _, e := range events {
			ids = append(ids, e.ID-start)
			missed = missed || e.Kind == api.EventMissed
		}
		return ids, missed
	}
	check := func(what string, id uint64, want []uint64, wantMissed bool) {
		t.Helper()
		ids, missed := after(id)
		if !cmp.Equal(ids, want) || missed != wantMissed {
			t.Errorf("%s: %v %v, want %v %v", what, ids, missed, want, wantMissed)
		}
	}
	check("nothing yet", start, nil, false)
	check("of another life", start-1000, []uint64{0}, true)
	check("of the future", start+1, []uint64{0}, true)
	_, wake, _ := h.after(start, now)
	h.publish(api.Event{Kind: api.EventReload})
	select {
	case <-wake:
	default:
		t.Error("nobody was woken")
	}
	for range 2 {
		h.publish(api.Event{Kind: api.EventReload})
	}
	check("all", start, []uint64{1, 2, 3}, false)
	check("the rest", start+2, []uint64{3}, false)
	check("no more", start+3, nil, false)
	for range maxEvents {
		h.publish(api.Event{Kind: api.EventReload})
	}
	check("fell behind", start+2, []uint64{3 + maxEvents}, true)
	if ids, missed := after(start + 3); len(ids) != maxEvents || missed {
		t.Errorf("the oldest that is kept: %d events, missed %v", len(ids), missed)
	}
	h.end()
	if _, _, ended := h.after(start, now); !ended {
		t.Error("not ended")
	}
}

// flusher is an answer that a test reads while it is written.
type flusher struct {
	header http.Header
	parts  chan string
}

func (f *flusher) Header() http.Header              { return f.header }
func (f *flusher) WriteHeader(int)                  {}
func (f *flusher) Write(b []byte) (int, error)      { f.parts <- string(b); return len(b), nil }
func (f *flusher) FlushError() error                { return nil }
func (f *flusher) SetReadDeadline(time.Time) error  { return nil }
func (f *flusher) SetWriteDeadline(time.Time) error { return nil }

// TestHeartbeat checks that a quiet stream says that it is there, and that it ends with the server.
func TestHeartbeat(t *testing.T) {
	f := newFixture(t)
	synctest.Test(t, func(t *testing.T) {
		s := &Server{cfg: f.cfg, hub: newHub(time.Now()), streams: make(chan struct{}, 1), metrics: f.metrics}
		w := &flusher{http.Header{}, make(chan string, 16)}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan bool)
		go func() {
			s.events(&call{w: w, r: r})
			close(done)
		}()
		if got := <-w.parts; got != "retry: 2000\n\n" {
			t.Errorf("%q", got)
		}
		start := time.Now()
		if got := <-w.parts; got != ": still here\n\n" || time.Since(start) != heartbeat {
			t.Errorf("%q after %v", got, time.Since(start))
		}
		s.Publish(api.Event{Kind: api.EventAlert, Text: "two\nlines"})
		want := fmt.Sprintf("id: %d\nevent: alert\ndata: {\"schema\":1,\"id\":%d,\"time\":\"0001-01-01T00:00:00Z\",\"kind\":\"alert\",\"text\":\"two\\nlines\"}\n\n", s.hub.newest(), s.hub.newest())
		if got := <-w.parts; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		s.hub.end()
		<-done
	})
}

func TestStreamLimits(t *testing.T) {
	f := newFixture(t)
	if a := f.do(t, f.unix, "GET", "/v1/events", "", nil, "Last-Event-ID", "x"); a.status != 422 {
		t.Errorf("%d", a.status)
	}
	for range maxStreams {
		f.streams <- struct{}{}
	}
	if a := f.do(t, f.unix, "GET", "/v1/events", "", nil); a.status != 503 || a.problem.Name() != "busy" {
		t.Errorf("%d", a.status)
	}
	<-f.streams
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url(f.unix)+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Last-Event-ID", strconv.FormatUint(f.hub.newest()-5, 10))
	res, err := f.unix.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v", res.Header)
	}
	lines := bufio.NewScanner(res.Body)
	missed := false
	for !missed && lines.Scan() {
		missed = lines.Text() == "event: missed"
	}
	if !missed {
		t.Error("nobody said that events were missed")
	}
	// Stop ends the stream, and does not wait for its reader.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := f.Stop(ctx); err != nil {
		t.Error(err)
	}
	rest := 0
	for lines.Scan() {
		rest++
	}
	if rest != 2 { // the event's data and an empty line
		t.Errorf("%d lines after the end", rest)
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}
