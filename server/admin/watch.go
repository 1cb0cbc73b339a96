package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

// watchEvery is how soon, at the latest, the event stream tells of what nobody announces: a refusal.
const watchEvery = time.Second

// Published says that another snapshot is served: whoever calls Publisher.Publish calls this afterwards. It never blocks.
func (s *Server) Published() {
	select {
	case s.published <- struct{}{}:
	default: // the watcher has not looked yet
	}
}

// watch turns what changes in the ledger and in what is served into events, until the context ends.
func (s *Server) watch(ctx context.Context) {
	changed, stop := s.cfg.Ledger.Subscribe()
	defer stop()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	w := watcher{server: s, seq: s.newestEntry()}
	if snapshot := s.cfg.Publisher.Snapshot(); snapshot != nil {
		w.view = snapshot.View
		w.told = s.warnings(w.view)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-s.published:
		case <-tick.C:
			w.alerts()
		}
		w.history()
		w.shares()
	}
}

func (s *Server) newestEntry() uint64 {
	if r := s.cfg.Ledger.History(drain.Query{Limit: 1}); len(r) > 0 {
		return r[0].Seq
	}
	return 0
}

// watcher knows what was told already.
type watcher struct {
	server *Server
	seq    uint64     // newest entry of the history
	view   *pops.View // nil: nothing was served
	told   []string   // warnings
}

// alerts tells of warnings that were not there a moment ago.
func (w *watcher) alerts() {
	if w.view == nil {
		return
	}
	present := w.server.warnings(w.view)
	for _, text := range present {
		if !slices.Contains(w.told, text) {
			w.server.hub.publish(api.Event{Time: w.server.cfg.Ledger.Now(), Kind: api.EventAlert, Text: text})
		}
	}
	w.told = present
}

// history tells of new entries. If there are more than an answer holds, the oldest of them are not told one by one.
func (w *watcher) history() {
	records := w.server.cfg.Ledger.History(drain.Query{Limit: maxHistory})
	for _, r := range slices.Backward(records) {
		if r.Seq <= w.seq {
			continue
		}
		w.seq = r.Seq
		entry := historyEntry(&r)
		w.server.hub.publish(api.Event{Time: r.Time, Kind: api.EventHistory, Text: line(&entry), Entry: &entry})
	}
}

// line is an entry of the history for people.
func line(e *api.HistoryEntry) string {
	words := []string{string(e.Action)}
	for _, w := range []string{string(e.Kind), e.Statement, e.Target} {
		if w != "" {
			words = append(words, w)
		}
	}
	if e.Author != "" {
		words = append(words, "by "+e.Author)
	}
	text := strings.Join(words, " ")
	for _, more := range []string{e.Message, e.Reason} {
		if more != "" {
			return text + ": " + more
		}
	}
	return text
}

// shares tells what may serve more or less than before. A fleet that was loaded anew is compared by names.
func (w *watcher) shares() {
	snapshot := w.server.cfg.Publisher.Snapshot()
	if snapshot == nil || snapshot.View == w.view {
		return
	}
	before, after := w.view, snapshot.View
	w.view = after
	f := after.Fleet
	var changed []api.ShareChange
	var words []string
	for i := range f.PoPs {
		pop := compare(before, after, f.PoPUnit(i))
		list := []api.ShareChange{pop}
		for e := range f.Endpoints {
			if c := compare(before, after, f.EndpointUnit(e)); f.Endpoints[e].PoP == i && (c.Before != pop.Before || c.After != pop.After) {
				list = append(list, c)
			}
		}
		for _, c := range list {
			if c.Before != c.After {
				changed = append(changed, c)
				words = append(words, fmt.Sprintf("%s %.4g%%", c.Target, c.After))
			}
		}
	}
	if changed != nil {
		w.server.hub.publish(api.Event{Time: after.At, Kind: api.EventView, Text: strings.Join(words, ", "), Shares: changed, Snapshot: snapshot.Version})
	}
}

// compare gives the share of a unit in two views; what was not there before had nothing.
func compare(before, after *pops.View, u pops.Unit) api.ShareChange {
	t := after.Fleet.UnitTarget(u)
	c := api.ShareChange{Target: t.String(), After: float64(after.States[u].Share)}
	switch {
	case before == nil:
	case before.Fleet == after.Fleet:
		c.Before = float64(before.States[u].Share)
	default:
		if was := unit(before.Fleet, t); was >= 0 {
			c.Before = float64(before.States[was].Share)
		}
	}
	return c
}

// unit finds what a target that is no pattern names; NoUnit if it does not exist.
func unit(f *pops.Fleet, t pops.Target) pops.Unit {
	pop := f.FindPoP(t.PoP)
	if pop < 0 {
		return pops.NoUnit
	}
	if t.Service == "" {
		return f.PoPUnit(pop)
	}
	if e := f.FindEndpoint(pop, f.FindService(t.Service)); e >= 0 {
		return f.EndpointUnit(e)
	}
	return pops.NoUnit
}
