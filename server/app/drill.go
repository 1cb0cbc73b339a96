package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/pops/health"
	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
)

// Drills are practice drains, made as automation's drains are: what is to be done follows from the clock, the configuration and what all nodes know, by a pure function, and the id of a scheduled
// drill follows from its target and the opening of its window, so that in a fleet it runs once. A drill begins only when nothing else is the matter, and gives way to everything.

const (
	drillAuthor = "drill"
	drillOutage = "drill "
	drillEvery  = 2 * time.Second
	// drillStart is how long after the opening of its window a drill may still begin.
	drillStart = 5 * time.Minute
	// drillGrace is how much later than planned a drill ends by itself, if nobody is there to end it.
	drillGrace = time.Minute
	// drillBlind is for how long an abort condition may not be known.
	drillBlind = 30 * time.Second
	// alertMemory is for how long an alert counts as firing that nobody repeats or resolves: a bit longer than Alertmanager's default pause.
	alertMemory = 5 * time.Hour
)

// scene is what drills look at.
type scene struct {
	now     time.Time // fleet time
	drills  []config.Drill
	view    *pops.View
	health  []health.Status
	entries []*drain.Entry
	aborts  map[string]string // why the drills of a target must not run: their condition or their alert; "" or missing: they may
	held    bool              // automation may not do what it would, for want of room
}

// act is what is done about a drill: one of begin and end is set, or neither if it is only told of.
type act struct {
	drill *config.Drill // nil: it is not configured any more
	entry *drain.Entry  // of one that ends
	begin *drain.Request
	end   *drain.LiftRequest
	skip  string // why a drill that is due does not begin
	id    string // of the drill
}

// practice says what is to be done: drills that end first, then those that begin, as configured. It is pure.
func practice(s *scene) (acts []act) {
	for _, e := range s.entries {
		if e.Role != pops.Drill || !e.Live(s.now) {
			continue
		}
		d := s.configured(e.Target)
		if why, now := s.over(e, d); why != "" {
			acts = append(acts, act{drill: d, entry: e, id: e.ID, end: &drain.LiftRequest{IDs: []string{e.ID}, Author: drillAuthor, Role: pops.Drill, Reason: why, Now: now}})
		}
	}
	for i := range s.drills {
		d := &s.drills[i]
		target, err := pops.ParseTarget(d.Target)
		from, to, open := d.Open(s.now)
		if err != nil || !open || s.now.Sub(from) > drillStart {
			continue
		}
		last := to.Add(-d.Over).Sub(s.now)
		outage := drillOutage + from.UTC().Format(time.RFC3339)
		id := drain.OutageID(target, outage)
		if last < d.Over+config.DrillLeast || slices.ContainsFunc(s.entries, func(e *drain.Entry) bool { return e.ID == id }) {
			continue
		}
		if why := cmp.Or(s.aborts[d.Target], s.trouble(target, "")); why != "" {
			acts = append(acts, act{drill: d, id: id, skip: why})
			continue
		}
		r := drillRequest(d, target, last)
		r.Author, r.Outage, r.Reason = drillAuthor, outage, "drill in the window "+d.Window.String()
		acts = append(acts, act{drill: d, id: id, begin: &r})
	}
	return acts
}

// drillRequest is the drain of a drill that is to be on its way back after a time.
func drillRequest(d *config.Drill, t pops.Target, last time.Duration) drain.Request {
	over := drain.Way{Over: d.Over}
	return drain.Request{Kind: pops.Drain, Target: t, By: float64(d.By), Role: pops.Drill, For: last + drillGrace, Over: over, Back: over}
}

// configured is the first drill of a target; nil if there is none.
func (s *scene) configured(t pops.Target) *config.Drill {
	i := slices.IndexFunc(s.drills, func(d config.Drill) bool { return d.Target == t.String() })
	if i < 0 {
		return nil
	}
	return &s.drills[i]
}

// over says why a drill that runs ends; now: at once instead of along its ramp. "": it goes on.
func (s *scene) over(e *drain.Entry, d *config.Drill) (why string, now bool) {
	if slices.Contains(s.view.Ended, e.ID) {
		return "ended early: " + s.ended(e), true
	}
	if why := cmp.Or(s.aborts[e.Target.String()], s.trouble(e.Target, e.ID)); why != "" {
		return "ended early: " + why, true
	}
	switch {
	case d == nil:
		return "ended early: it is not configured any more", false
	case !s.now.Before(e.Expires.Add(-drillGrace)):
		return "ended as planned", false
	}
	return "", false
}

// ended is why the view does not count a drill any more.
func (s *scene) ended(e *drain.Entry) string {
	for _, u := range s.view.Fleet.Match(e.Target) {
		for _, r := range s.view.Reasons(u) {
			if r.ID == e.ID && r.Why != "" {
				return strings.TrimPrefix(r.Why, "the drill ends, ")
			}
		}
	}
	return "something else touches its target"
}

// trouble is what else is the matter with the services that a drill touches, beside the drill with an id itself: nobody practises in an emergency.
func (s *scene) trouble(t pops.Target, id string) string {
	if s.held {
		return "automation lacks the room to drain what is sick"
	}
	f := s.view.Fleet
	services, target := map[int]bool{}, map[pops.Unit]bool{}
	for _, u := range f.Match(t) {
		target[u] = true
		if e, ok := f.Endpoint(u); ok {
			services[f.Endpoints[e].Service] = true
		}
	}
	for e := range f.Endpoints {
		u := f.EndpointUnit(e)
		if share := s.view.States[u].Share; services[f.Endpoints[e].Service] && share < 100 && !(id != "" && target[u]) {
			return fmt.Sprintf("%s may serve only %.3g %%", f.UnitTarget(u), float64(share))
		}
	}
	for i := range s.health {
		h := &s.health[i]
		ht, err := pops.ParseTarget(h.Target)
		if err == nil && !h.Gray.IsZero() && services[f.FindService(ht.Service)] {
			return h.Target + " is gray"
		}
	}
	return ""
}

// drills runs them on one node.
type drills struct {
	now    func() time.Time
	ledger *drain.Ledger
	scene  func() *scene                                           // of now, but for aborts
	gives  func(ctx context.Context, query string) (string, error) // asks Prometheus
	rungs  func() [pops.RungAll + 1]uint64                         // answers by rung of the ladder
	shares func() map[string]float64                               // percent of all steered answers that name a PoP
	log    *slog.Logger

	mu     sync.Mutex
	alerts map[string]time.Time // that fire, by name: when that was last heard

	// What follows is tick's alone.
	told  map[string]string     // why a drill was skipped, by id
	blind map[string]time.Time  // since when an abort condition is not known, by query
	runs  map[string]*rehearsal // drills that run, by id; nil: it has ended and been told of
	since time.Time             // of the first look
}

// rehearsal is what is seen of a drill while it runs.
type rehearsal struct {
	entry  *drain.Entry
	began  time.Time
	before float64 // answers that named the PoP
	least  float64
	rungs  [pops.RungAll + 1]uint64
	peak   string // highest load elsewhere
	part   float64
}

// heard takes note of an alert.
func (d *drills) heard(name string, firing bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if firing {
		d.alerts[name] = d.now()
	} else {
		delete(d.alerts, name)
	}
}

// fires says whether an alert does, as far as this node has heard.
func (d *drills) fires(alert string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.alerts[alert]
	return ok && now.Sub(at) < alertMemory
}

// tick looks and acts once. One may call it.
func (d *drills) tick(ctx context.Context) {
	s := d.scene()
	s.aborts = d.aborts(ctx, s)
	d.watch(s)
	for _, a := range practice(s) {
		d.act(&a)
	}
}

// act does one thing.
func (d *drills) act(a *act) {
	var err error
	switch {
	case a.skip != "":
		d.skip(a, a.skip)
	case a.begin != nil:
		if _, err = d.ledger.Apply(*a.begin); err == nil {
			d.log.Warn("drill begins", "target", a.drill.Target, "by", a.begin.By, "id", a.id)
			return
		}
		if refused, ok := errors.AsType[*drain.Refusal](err); ok {
			d.skip(a, refused.Message)
			return
		}
	case a.end != nil:
		if _, err = d.ledger.Lift(*a.end); err == nil {
			d.log.Warn("drill ends", "target", a.entry.Target, "why", a.end.Reason, "id", a.id)
		}
	}
	if err != nil && !errors.Is(err, drain.ErrClosed) {
		d.log.Error("drill", "id", a.id, "err", err)
	}
}

// skip tells that a drill which is due does not begin, once for each reason.
func (d *drills) skip(a *act, why string) {
	if d.told[a.id] == why {
		return
	}
	d.told[a.id] = why
	target, _ := pops.ParseTarget(a.drill.Target) // has been checked
	d.log.Warn("drill does not begin", "target", a.drill.Target, "why", why)
	d.ledger.Note("", target, drillAuthor, pops.Drill, "drill does not begin: "+why)
}

// aborts asks the conditions of the drills that run or are due.
func (d *drills) aborts(ctx context.Context, s *scene) map[string]string {
	out := map[string]string{}
	for i := range s.drills {
		c := &s.drills[i]
		from, _, open := c.Open(s.now)
		runs := slices.ContainsFunc(s.entries, func(e *drain.Entry) bool {
			return e.Role == pops.Drill && e.Live(s.now) && e.Target.String() == c.Target
		})
		if !runs && !(open && s.now.Sub(from) <= drillStart) || out[c.Target] != "" {
			continue
		}
		if c.Alert != "" && d.fires(c.Alert, s.now) {
			out[c.Target] = "alert " + c.Alert + " fires"
			continue
		}
		if c.Abort != "" {
			out[c.Target] = d.condition(ctx, c.Abort, runs, s.now)
		}
	}
	return out
}

// condition says why a query forbids a drill. One that cannot be asked forbids its beginning at once, and ends one that runs after a while.
func (d *drills) condition(ctx context.Context, query string, runs bool, now time.Time) string {
	what, err := d.gives(ctx, query)
	switch {
	case err == nil && what == "":
		delete(d.blind, query)
		return ""
	case err == nil:
		return cut("its abort condition holds: "+what, conditionRoom)
	case d.blind[query].IsZero():
		d.blind[query] = now
	}
	if runs && now.Sub(d.blind[query]) < drillBlind {
		return ""
	}
	return cut("its abort condition cannot be asked: "+err.Error(), conditionRoom)
}

// conditionRoom is for what is told of a condition, in octets.
const conditionRoom = 500

// cut makes a text from elsewhere one that the ledger takes: a line of at most so many octets.
func cut(s string, most int) string {
	const more = "..."
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(s) > most {
		s = s[:most-len(more)] + more
	}
	return strings.ToValidUTF8(s, "?")
}

// watch notes what drills that run do, and reports once on each that has ended, by whomever: also on one that began and ended between two looks, but not on those of before this node's first.
func (d *drills) watch(s *scene) {
	if d.since.IsZero() {
		d.since = s.now
	}
	for _, e := range s.entries {
		if e.Role != pops.Drill {
			continue
		}
		r, seen := d.runs[e.ID]
		switch {
		case seen && r == nil:
			continue
		case !seen && !e.Live(s.now) && ended(e).Before(d.since):
			d.runs[e.ID] = nil
			continue
		case !seen:
			r = &rehearsal{began: s.now, rungs: d.rungs()}
			if !e.Live(s.now) {
				r.began = cmp.Or(e.Start, e.Created)
			}
			r.before = d.share(e.Target)
			r.least = r.before
			d.runs[e.ID] = r
		}
		r.entry = e
		if r.see(s, d.share(e.Target)); !e.Live(s.now) {
			d.runs[e.ID] = nil
			d.ledger.Note(e.ID, e.Target, drillAuthor, pops.Drill, r.report(d.rungs()))
		}
	}
	maps.DeleteFunc(d.runs, func(id string, _ *rehearsal) bool {
		return !slices.ContainsFunc(s.entries, func(e *drain.Entry) bool { return e.ID == id })
	})
}

// ended is when a drill that is not live did.
func ended(e *drain.Entry) time.Time {
	if e.Lift != nil {
		return e.Lift.At
	}
	return e.Expires
}

func (d *drills) share(t pops.Target) float64 { return d.shares()[t.PoP] }

// see takes a look at the fleet.
func (r *rehearsal) see(s *scene, share float64) {
	r.least = min(r.least, share)
	f := s.view.Fleet
	for e := range f.Endpoints {
		u := f.EndpointUnit(e)
		state, c := &s.view.States[u], f.Endpoints[e].Capacity
		if state.HasLoad && c > 0 && !slices.Contains(f.Match(r.entry.Target), u) && state.Load/c > r.part {
			r.part = state.Load / c
			r.peak = f.UnitTarget(u).String()
		}
	}
}

// report says what a drill did.
func (r *rehearsal) report(rungs [pops.RungAll + 1]uint64) string {
	e := r.entry
	why := "ended by itself: nobody was there to end it"
	if e.Lift != nil {
		why = e.Lift.Reason
		if e.Lift.Role == pops.Person {
			why = "ended by " + e.Lift.Author + ": " + why
		}
	}
	words := []string{fmt.Sprintf("drill report: %s by %g %% for %s, %s", e.Target, e.By, max(0, ended(e).Sub(r.began)).Round(time.Second), why)}
	if e.Target.PoP != pops.Everywhere && r.before > 0 {
		words = append(words, fmt.Sprintf("answers that named %s: %.1f %% before, %.1f %% at the least", e.Target.PoP, r.before, r.least))
	}
	if r.peak != "" {
		words = append(words, fmt.Sprintf("highest load elsewhere: %s with %.0f %% of its capacity", r.peak, 100*r.part))
	}
	lower := uint64(0)
	for rung := pops.RungShare; rung <= pops.RungAll; rung++ {
		lower += rungs[rung] - r.rungs[rung]
	}
	if lower == 0 {
		words = append(words, "no answer came from a lower rung of the ladder")
	} else {
		words = append(words, fmt.Sprintf("%d answers came from lower rungs of the ladder", lower))
	}
	return strings.Join(words, "; ")
}

// newDrills makes those of a node.
func (a *App) newDrills() *drills {
	return &drills{
		now: a.now, ledger: a.ledger, log: a.log, gives: a.loads.Gives, rungs: a.handlers.Rungs,
		shares: func() map[string]float64 { return a.answers().PoPs },
		scene: func() *scene {
			held := a.held.Load()
			return &scene{
				now: a.now(), drills: a.present().cfg.Drills, view: a.publisher.Snapshot().View, health: a.health.Status(), entries: a.ledger.Statements(),
				held: held != nil && len(*held) > 0,
			}
		},
		alerts: map[string]time.Time{}, told: map[string]string{}, blind: map[string]time.Time{}, runs: map[string]*rehearsal{},
	}
}

// runDrills looks and acts until ctx ends.
func (a *App) runDrills(ctx context.Context) {
	tick := time.NewTicker(drillEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if a.idle() {
			continue
		}
		a.drills.tick(ctx)
	}
}

// idle says whether there are no drills at all, neither configured nor made.
func (a *App) idle() bool {
	return len(a.present().cfg.Drills) == 0 && !slices.ContainsFunc(a.ledger.Statements(), func(e *drain.Entry) bool { return e.Role == pops.Drill })
}

// drillList describes the drills, as configured.
func (a *App) drillList() []api.Drill {
	now := a.now()
	out := []api.Drill{}
	entries := a.ledger.Statements()
	for _, c := range a.present().cfg.Drills {
		d := api.Drill{Target: c.Target, By: float64(c.By), Over: api.Duration(c.Over), Window: c.Window.String(), Abort: c.Abort, AbortAlert: c.Alert, Next: c.Next(now)}
		for _, b := range c.Blocked {
			d.Blocked = append(d.Blocked, b.String())
		}
		target, err := pops.ParseTarget(c.Target)
		if err != nil {
			continue // has been checked
		}
		for _, e := range entries {
			if e.Role == pops.Drill && e.Target == target && e.Live(now) {
				d.Statement, d.Ends = e.ID, e.Expires.Add(-drillGrace)
			}
		}
		for _, r := range a.ledger.History(drain.Query{Target: target, Limit: 1000}) {
			if r.Op == drain.Noted && r.Role == pops.Drill && r.Target == target {
				d.Last, d.LastAt = r.Message, r.Time
				break
			}
		}
		out = append(out, d)
	}
	return out
}

// drillNow is the request for a configured drill outside of its window; last 0 is the length of its window, ramps included.
func (a *App) drillNow(t pops.Target, last time.Duration) (drain.Request, error) {
	cfg := a.present().cfg
	s := scene{drills: cfg.Drills}
	d := s.configured(t)
	if d == nil {
		names := map[string]bool{}
		for _, c := range cfg.Drills {
			names[c.Target] = true
		}
		list := slices.Sorted(maps.Keys(names))
		if len(list) == 0 {
			return drain.Request{}, errors.New("no drills are configured")
		}
		return drain.Request{}, fmt.Errorf("no drill of %s is configured, there are %s", t, strings.Join(list, ", "))
	}
	last = cmp.Or(last, d.Window.Length()) - d.Over
	if last < d.Over+config.DrillLeast {
		return drain.Request{}, fmt.Errorf("a drill of %s takes at least %s", t, 2*d.Over+config.DrillLeast)
	}
	return drillRequest(d, t, last), nil
}
