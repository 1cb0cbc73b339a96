package drain

import (
	"slices"
	"time"

	"github.com/edgesteer/edgesteer/pops"
)

// Effect says what a change of the view does to traffic: the guard rails of steering.md section 7. The ledger computes nothing of the query mix itself.
type Effect interface {
	// Effect compares the view before with those that a statement leads to: each step of its ramp, its final share, and, if other ramps are under way, where all of them end.
	// What it reports is the worst of them. An error refuses the statement, whatever was overridden.
	Effect(before *pops.View, after ...*pops.View) (Report, error)
}

// Report is what an Effect found.
type Report struct {
	Broken   []Broken `json:"broken,omitempty"`   // guard rails
	Warnings []string `json:"warnings,omitempty"` // for people
	Detail   any      `json:"detail,omitempty"`   // whatever else Effect wants to hand to who asked: the table of the preview
}

// Broken is one guard rail that does not hold.
type Broken struct {
	Guard  string `json:"guard"`  // "capacity", "half" or "last"
	Detail string `json:"detail"` // what breaks it, for people
}

// not gives the names of the broken guard rails that nobody has overridden.
func (r *Report) not(overridden []string) []string {
	var names []string
	for _, b := range r.Broken {
		if !slices.Contains(overridden, b.Guard) && !slices.Contains(names, b.Guard) {
			names = append(names, b.Guard)
		}
	}
	return names
}

func (r *Report) guards() []string { return r.not(nil) }

// intents gives what every statement means, as pick sees it, in order of id.
func (s *state) intents(pick func(*Entry) (pops.Intent, bool)) []pops.Intent {
	var list []pops.Intent
	for _, e := range s.sorted() {
		if i, ok := pick(e); ok {
			list = append(list, i)
		}
	}
	return list
}

// view computes a view from what statements mean.
func (l *Ledger) view(intents []pops.Intent, now time.Time) *pops.View {
	if l.config.View != nil {
		return l.config.View(intents, now)
	}
	return pops.NewView(l.config.Fleet(), pops.Input{Now: now, Intents: intents})
}

// prediction is what a change of the ledger leads to.
type prediction struct {
	before, after *pops.View // after: when all ramps of the change are over
	report        Report
	changes       []Change
}

// predict asks what happens when next takes the place of s; ids are the entries that differ, a new one last.
func (l *Ledger) predict(s, next *state, ids []string, now time.Time) (prediction, error) {
	present := func(e *Entry) (pops.Intent, bool) { return e.intent(now, false) }
	before := l.view(s.intents(present), now)
	var after []*pops.View
	for _, share := range next.steps(ids) {
		after = append(after, l.view(next.intents(func(e *Entry) (pops.Intent, bool) {
			if e.ID != ids[len(ids)-1] {
				return e.intent(now, slices.Contains(ids, e.ID))
			}
			i, _ := e.intent(now, true)
			i.Share = share
			return i, true
		}), now))
	}
	after = append(after, l.view(next.intents(func(e *Entry) (pops.Intent, bool) {
		return e.intent(now, slices.Contains(ids, e.ID))
	}), now))
	if next.moving(ids, now) {
		after = append(after, l.view(next.intents(func(e *Entry) (pops.Intent, bool) {
			return e.intent(now, slices.Contains(ids, e.ID) || next.meets(e, ids, now))
		}), now))
	}
	final := after[len(after)-1]
	p := prediction{before: before, after: final, changes: changes(before, final)}
	if l.config.Effect == nil {
		return p, nil
	}
	var err error
	p.report, err = l.config.Effect.Effect(before, after...)
	return p, err
}

// steps gives the shares on the way of the one statement that is new, the last left out; those of a linear ramp are its quarters.
func (s *state) steps(ids []string) []pops.Share {
	if len(ids) == 0 {
		return nil
	}
	e := s.entries[ids[len(ids)-1]]
	if e.Lift != nil || e.Kind == pops.Pin || e.Ramp.Over == 0 {
		return nil
	}
	ways := e.Ramp.Steps
	if len(ways) == 0 {
		ways = []float64{25, 50, 75, 100}
	}
	var shares []pops.Share
	for _, way := range ways[:len(ways)-1] {
		shares = append(shares, e.Ramp.From+(e.Ramp.To-e.Ramp.From)*pops.Share(way/100))
	}
	return shares
}

// moving says whether a statement other than ids has yet to reach its final share, or its start, while one of ids stands.
func (s *state) moving(ids []string, now time.Time) bool {
	for _, e := range s.entries {
		if slices.Contains(ids, e.ID) || !s.meets(e, ids, now) {
			continue
		}
		present, _ := e.intent(now, false)
		final, _ := e.intent(now, true)
		if present != final {
			return true
		}
	}
	return false
}

// meets says whether a statement that stands shares any moment with one of ids.
func (s *state) meets(e *Entry, ids []string, now time.Time) bool {
	if !e.Live(now) {
		return false
	}
	for _, id := range ids {
		o := s.entries[id]
		if o.Lift != nil { // what is lifted ends now
			if !e.Start.After(now) {
				return true
			}
			continue
		}
		if (e.Expires.IsZero() || o.Start.Before(e.Expires)) && (o.Expires.IsZero() || e.Start.Before(o.Expires)) {
			return true
		}
	}
	return false
}

// changes gives the units whose share differs; a PoP where all differ alike stands for its endpoints.
func changes(before, after *pops.View) []Change {
	f := after.Fleet
	if before.Fleet != f {
		return nil // the fleet was reloaded in between
	}
	type pair struct{ before, after pops.Share }
	alike := make([]bool, len(f.PoPs))
	for p := range f.PoPs {
		alike[p] = true
	}
	of := func(u pops.Unit) pair { return pair{before.States[u].Share, after.States[u].Share} }
	for e := range f.Endpoints {
		if p := f.Endpoints[e].PoP; of(f.EndpointUnit(e)) != of(f.PoPUnit(p)) {
			alike[p] = false
		}
	}
	var list []Change
	for u := range pops.Unit(f.Units()) {
		if _, endpoint := f.Endpoint(u); endpoint == alike[f.PoPOf(u)] {
			continue
		}
		if p := of(u); p.before != p.after {
			list = append(list, Change{Target: f.UnitTarget(u), Before: float64(p.before), After: float64(p.after)})
		}
	}
	return list
}
