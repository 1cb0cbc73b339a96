package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/edgesteer/edgesteer/server/api"
)

// What a terminal of 80 columns shows of a fleet, and a program gets.
func TestStatus(t *testing.T) {
	for name, s := range map[string]*streams{"status.80": {terminal: true, width: 80}, "status.tabs": {}} {
		var out strings.Builder
		s.out = &out
		(&statusOptions{streams: s}).show(night(), "unix:/run/edgesteer/admin.sock")
		golden(t, name, out.String())
	}
}

// The watch has a screen of its own, goes on when the server does not answer, and leaves as it came.
func TestRedraw(t *testing.T) {
	f := newFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked atomic.Int32
	f.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) {
		case 2:
			answer(w, &api.Problem{Type: api.ProblemInternal, Status: http.StatusInternalServerError, Detail: "a fault"})
			return
		case 3:
			cancel()
		}
		answer(w, night())
	})
	c, err := newClient(f.server)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	o := &statusOptions{streams: &streams{out: &out, terminal: true, moves: true}}
	if err := o.redraw(ctx, c); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	if !strings.HasPrefix(got, otherScreen+topLeft+"dns-a, up 9d") || !strings.HasSuffix(got, restBelow+firstScreen) {
		t.Errorf("screens: %q", got)
	}
	if !strings.Contains(got, topLeft+"as of 03:10:00 UTC: a fault") {
		t.Errorf("no word of the server that does not answer: %q", got)
	}
}

// A screen that is too small leaves out the PoPs with nothing to tell, then what is at the end.
func TestPicture(t *testing.T) {
	o := &statusOptions{streams: &streams{terminal: true, width: 80}}
	brief := strings.Join(o.picture(night(), "unix:/s", nil, true), "\n")
	if strings.Contains(brief, "ap-northeast-1  100 %") || !strings.Contains(brief, "1 PoP more with nothing to tell") || !strings.Contains(brief, "eu-west-3 ") {
		t.Errorf("brief:\n%s", brief)
	}
}

// Without a terminal there is a line for each event.
func TestFollow(t *testing.T) {
	f := newFake(t)
	f.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { answer(w, night()) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i, e := range []api.Event{
			{ID: 7, Kind: api.EventHistory, Time: at("2026-03-29T03:10:00Z"), Text: "accepted drain d-x eu-west-3 by alice: fibre works"},
			{ID: 8, Kind: api.EventView, Time: at("2026-03-29T03:10:00.5Z"), Text: "eu-west-3 0%"},
		} {
			data, _ := json.Marshal(e)
			fmt.Fprintf(w, "id: %d\ndata: %s\n\n", i, data)
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	for _, form := range []output{"text", "json"} {
		ctx, cancel := context.WithCancel(ctx)
		lines := &counting{after: 2, do: cancel}
		o := &statusOptions{streams: &streams{out: lines, err: lines}, output: form}
		c, err := newClient(f.server)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.follow(ctx, c); err != nil {
			t.Fatal(err)
		}
		want := "2026-03-29T03:10:00Z\thistory\taccepted drain d-x eu-west-3 by alice: fibre works\n2026-03-29T03:10:00Z\tview\teu-west-3 0%\n"
		if form == "json" {
			want = `{"schema":0,"id":7,"time":"2026-03-29T03:10:00Z","kind":"history","text":"accepted drain d-x eu-west-3 by alice: fibre works"}` + "\n" +
				`{"schema":0,"id":8,"time":"2026-03-29T03:10:00.5Z","kind":"view","text":"eu-west-3 0%"}` + "\n"
		}
		if got := lines.String(); got != want {
			t.Errorf("%s: got\n%swant\n%s", form, got, want)
		}
	}
}

// counting does something after so many writes.
type counting struct {
	strings.Builder
	after int
	do    func()
}

func (c *counting) Write(b []byte) (int, error) {
	if c.after--; c.after == 0 {
		defer c.do()
	}
	return c.Builder.Write(b)
}

// The watch marks for ten seconds what has changed, and writes only the lines that differ.
func TestWatchMarks(t *testing.T) {
	var out strings.Builder
	o := &statusOptions{streams: &streams{out: &out, terminal: true, moves: true}, fresh: new(fresh)}
	draw := func(st *api.Status) string {
		out.Reset()
		o.fresh.look(st)
		o.draw(st, "unix:/s", nil)
		return out.String()
	}
	first := draw(night())
	if strings.Contains(first, "*  ") || !strings.Contains(first, "  ap-northeast-1") {
		t.Errorf("the first picture marks: %q", first)
	}
	if again := draw(night()); strings.Contains(again, "ap-northeast-1") || strings.Count(again, restOfLine) != 1 {
		t.Errorf("the same picture is written again: %q", again)
	}
	st := night()
	i := slices.IndexFunc(st.PoPs, func(p api.PoP) bool { return p.Name == "ap-northeast-1" })
	st.PoPs[i].Share, st.PoPs[i].Endpoints[0].Share = 50, 50
	if changed := draw(st); !strings.Contains(changed, "*  ap-northeast-1         50 %") || strings.Contains(changed, "eu-west-3 ") {
		t.Errorf("a change: %q", changed)
	}
	st.Time = st.Time.Add(freshFor)
	if later := draw(st); !strings.Contains(later, "   ap-northeast-1         50 %") {
		t.Errorf("ten seconds later: %q", later)
	}
}
