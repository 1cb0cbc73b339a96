package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

// Sequences of a terminal (ECMA-48, and xterm's alternate screen).
const (
	otherScreen = "\x1b[?1049h\x1b[?25l" // without cursor
	firstScreen = "\x1b[?25h\x1b[?1049l"
	topLeft     = "\x1b[H"
	restOfLine  = "\x1b[K"
	restBelow   = "\x1b[J"
)

// freshFor is for how long the watch marks what has changed.
const freshFor = 10 * time.Second

// fresh knows which rows of the watch have changed lately: what they get, and what decides. Loads and shares of answers never stand still, and are not looked at.
type fresh struct {
	seen  map[string]string    // by target
	since map[string]time.Time // of the last change; nothing: never changed
}

// look takes a status in.
func (f *fresh) look(st *api.Status) {
	first := f.seen == nil
	if first {
		f.seen, f.since = map[string]string{}, map[string]time.Time{}
	}
	see := func(target string, share float64, why []api.Reason) {
		now := fmt.Sprint(share, reasonText(deciding(why)))
		if f.seen[target] != now && !first {
			f.since[target] = st.Time
		}
		f.seen[target] = now
	}
	for i := range st.PoPs {
		p := &st.PoPs[i]
		see(p.Name, p.Share, p.Why)
		for k := range p.Endpoints {
			e := &p.Endpoints[k]
			see(p.Name+"/"+e.Service, e.Share, e.Why)
			if at := f.since[p.Name+"/"+e.Service]; len(p.Endpoints) == 1 && !at.IsZero() { // it is in the PoP's own row
				f.since[p.Name] = at
			}
		}
	}
}

// mark is what stands before a row; f may be nil: it is no watch.
func (f *fresh) mark(target string, now time.Time) string {
	if f == nil {
		return ""
	}
	if at := f.since[target]; !at.IsZero() && now.Sub(at) < freshFor {
		return "*"
	}
	return " " // so that nothing moves when there is one
}

// redraw shows the status on a screen of its own, anew every second, until it is interrupted.
func (o *statusOptions) redraw(ctx context.Context, c *api.Client) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	st, err := inTime(ctx, c.Status) // what is wrong at once is told on the screen that stays
	if err != nil {
		return err
	}
	fmt.Fprint(o.out, otherScreen)
	defer fmt.Fprint(o.out, firstScreen)
	resized := make(chan os.Signal, 1)
	notifyResize(resized)
	defer signal.Stop(resized)
	second := time.NewTicker(time.Second)
	defer second.Stop()
	o.fresh = new(fresh)
	for {
		o.fresh.look(st)
		o.draw(st, c.Server(), err)
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
			o.drawn = nil // the terminal has moved what was there
			continue
		case <-second.C:
		}
		var next *api.Status
		limited, cancel := context.WithTimeout(ctx, 3*time.Second)
		if next, err = c.Status(limited); err == nil {
			st = next
		}
		cancel()
	}
}

// draw writes what of a picture differs from the last one, so that nothing flickers and a slow line carries little. If the screen does not hold it, PoPs with nothing to tell are left out.
func (o *statusOptions) draw(st *api.Status, server string, err error) {
	_, height := o.size()
	lines := o.picture(st, server, err, false)
	if height > 1 && len(lines) > height {
		lines = o.picture(st, server, err, true)
	}
	if height > 1 && len(lines) > height {
		lines = append(lines[:height-1], o.dim(fmt.Sprintf("... and %d more lines", len(lines)-height+1)))
	}
	var b strings.Builder
	last := len(lines) - 1
	for i, line := range lines {
		if i < last && i < len(o.drawn) && o.drawn[i] == line {
			continue
		}
		b.WriteString(row(i) + line + restOfLine)
	}
	fmt.Fprint(o.out, b.String()+restBelow)
	o.drawn = lines
}

// row moves the cursor to the beginning of a line.
func row(i int) string {
	if i == 0 {
		return topLeft
	}
	return fmt.Sprintf("\x1b[%d;1H", i+1)
}

// picture is the status as lines.
func (o *statusOptions) picture(st *api.Status, server string, err error, brief bool) []string {
	var out bytes.Buffer
	s := *o.streams
	s.width, _ = o.size()
	s.out = &out
	if err != nil {
		fmt.Fprintln(&out, s.wrapped(2, s.bold("as of "+st.Time.UTC().Format("15:04:05 UTC"))+": "+err.Error()))
	}
	view := statusOptions{streams: &s, brief: brief, fresh: o.fresh}
	view.show(st, server)
	return strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
}

// follow writes a line for each thing that happens, until it is interrupted.
func (o *statusOptions) follow(ctx context.Context, c *api.Client) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	st, err := inTime(ctx, c.Status)
	if err != nil {
		return err
	}
	if o.terminal && o.output != "json" { // one whose cursor cannot be moved
		o.show(st, c.Server())
		o.gap()
	}
	err = c.Events(ctx, 0, func(e api.Event) error {
		if o.output == "json" {
			return o.jsonLine(e)
		}
		_, err := fmt.Fprintf(o.out, "%s\t%s\t%s\n", o.clock(e.Time, e.Time), e.Kind, e.Text)
		return err
	}, func(err error) { fmt.Fprintf(o.err, "edgesteer: %v; trying again\n", err) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}
