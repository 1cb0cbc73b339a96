package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/pops/health"
	"github.com/edgesteer/edgesteer/server/admin"
	"github.com/edgesteer/edgesteer/server/config"
)

// Automation drains what is sick, and gives it back slowly: whole PoPs of which enough services are down, and single endpoints of the others. A verdict takes an endpoint out by itself; the
// statement is what brings it back along the ramp, and later after each flap. What is to be done follows from what all nodes know, by a pure function, so that every node comes to the same
// statements; the ledger makes one of them. Its guard rails keep the last endpoint of a record.

const (
	// automationAuthor stands in the statements.
	automationAuthor = "automation"
	// healthOutage begins the outages that come from verdicts; those of webhooks are others.
	healthOutage = "health "
	// automationEvery is the time between two looks.
	automationEvery = 2 * time.Second
	// What the ledger takes, in octets.
	reasonRoom   = 4096
	evidenceRoom = 256
	// flapMemory is for how long an ended drain makes the next one hold longer.
	flapMemory = 24 * time.Hour
)

// outlook is what automation looks at.
type outlook struct {
	now     time.Time // fleet time
	rules   config.Automation
	view    *pops.View
	health  []health.Status
	entries []*drain.Entry
	refused map[string]string // targets that the ledger did not let automation drain when it looked last, and why: they take no room

	checked map[string][]checked // by PoP, made of health
	drains  []*drain.Entry       // of entries, those that automation has made

	capacity []float64 // by endpoint
}

// checked is what is known of one endpoint.
type checked struct {
	target pops.Target
	*health.Status
}

// index sorts what is looked at, so that a fleet of thousands of endpoints is looked at in one pass.
func (o *outlook) index() {
	o.checked, o.capacity = map[string][]checked{}, capacities(o.view.Fleet)
	for i := range o.health {
		if t, err := pops.ParseTarget(o.health[i].Target); err == nil {
			o.checked[t.PoP] = append(o.checked[t.PoP], checked{t, &o.health[i]})
		}
	}
	for _, e := range o.entries {
		if e.Kind == pops.Drain && e.Role == pops.Automation {
			o.drains = append(o.drains, e)
		}
	}
}

// deed is what automation does: one of its fields is set.
type deed struct {
	target string
	drain  *drain.Request
	lift   *drain.LiftRequest
	alert  string // it would drain the target, and may not: why
}

// automate says what is to be done, in the order of the PoPs, their endpoints after them. It is pure.
func automate(o *outlook) (deeds []deed) {
	if !o.rules.Enabled {
		return nil
	}
	o.index()
	leaving := map[int]bool{} // endpoints that are drained by what is said here
	f := o.view.Fleet
	at := make([][]int, len(f.PoPs)) // endpoints
	for e := range f.Endpoints {
		at[f.Endpoints[e].PoP] = append(at[f.Endpoints[e].PoP], e)
	}
	for p := range f.PoPs {
		pop := o.look(pops.Target{PoP: f.PoPs[p].Name})
		done := o.treat(pop, leaving)
		held := done != nil && !pop.overruled && (done.alert != "" || o.refused[done.target] != "")
		if done != nil {
			deeds = append(deeds, *done)
		}
		for _, e := range at[p] {
			s := o.look(f.UnitTarget(f.EndpointUnit(e)))
			if s.standing == nil && pop.sick && !held { // the drain of the PoP covers it
				continue
			}
			// Where the PoP may not be drained a single endpoint perhaps may; if not, all has been said.
			if done := o.treat(s, leaving); done != nil && !(held && done.alert != "") {
				deeds = append(deeds, *done)
			}
		}
	}
	return deeds
}

// treat says what is to be done about one target; nil: nothing.
func (o *outlook) treat(s *symptoms, leaving map[int]bool) *deed {
	switch {
	case s.checked == 0:
	case s.sick && s.standing == nil && s.overruled:
		l := s.last.Lift
		return &deed{target: s.target.String(), alert: fmt.Sprintf("%s was lifted by %s at %s, and it is the same outage still: %s", s.last.ID, l.Author, l.At.UTC().Format(time.RFC3339), l.Reason)}
	case s.sick && s.standing == nil:
		if why := o.tooMuch(s.target, leaving); why != "" {
			return &deed{target: s.target.String(), alert: why}
		}
		for _, u := range o.view.Fleet.Match(s.target) {
			if e, ok := o.view.Fleet.Endpoint(u); ok && o.refused[s.target.String()] == "" {
				leaving[e] = true
			}
		}
		return &deed{target: s.target.String(), drain: o.request(s, healthOutage+s.began.UTC().Format(time.RFC3339Nano))}
	case s.sick: // says again what stands, so that it does not expire, with the evidence of this node
		return &deed{target: s.target.String(), drain: o.request(s, s.standing.Outage)}
	case s.standing != nil && s.certain && o.now.Sub(s.well) >= hold(&o.rules, s.flaps):
		return &deed{target: s.target.String(), lift: &drain.LiftRequest{
			IDs: []string{s.standing.ID}, Author: automationAuthor, Role: pops.Automation,
			Reason: fmt.Sprintf("%s has been up for %s", s.target, o.now.Sub(s.well).Round(time.Second)),
			Back:   wayBack(&o.rules),
		}}
	}
	return nil
}

// symptoms are what automation sees of one target.
type symptoms struct {
	target   pops.Target
	checked  int // services
	down     int // of them
	sick     bool
	certain  bool         // of every service that is checked there is a verdict, and no doubt about it
	began    time.Time    // when the first vote for one of the down verdicts was cast, after the last drain was lifted; zero: none was
	well     time.Time    // since when every service is what it is, without a doubt
	standing *drain.Entry // the drain that automation has made for it
	last     *drain.Entry // the last such drain that was lifted; nil: none
	goesOn   int          // services that have been down since before that
	flaps    int          // such drains that have ended lately
	errors   []string     // by node and endpoint
	services []string     // that are down, with what was seen
	// overruled: the outage is the one whose drain was lifted, and a lift is final.
	overruled bool
}

// look sees a PoP, or one endpoint.
func (o *outlook) look(target pops.Target) *symptoms {
	s := &symptoms{target: target, certain: true}
	o.recall(s)
	for _, h := range o.checked[target.PoP] {
		t := h.target
		if target.Service != "" && t != target {
			continue
		}
		s.checked++
		for _, since := range []time.Time{h.Since, h.Doubt} {
			if since.After(s.well) {
				s.well = since
			}
		}
		s.certain = s.certain && h.Known && h.Quorum && h.Gray.IsZero()
		if !h.Known || !h.Down {
			continue
		}
		s.down++
		votes, old := 0, 0
		seen := map[string][]string{} // nodes by error
		for _, v := range h.Votes {
			if !v.Vote.Down || !v.Fresh || v.Abstains || v.Stands {
				continue
			}
			votes++
			switch {
			case s.old(v.Vote.Since):
				old++
			case s.began.IsZero() || v.Vote.Since.Before(s.began):
				s.began = v.Vote.Since
			}
			s.errors = append(s.errors, cut(v.Node+": "+h.Target+": "+v.Vote.Error, evidenceRoom))
			seen[v.Vote.Error] = append(seen[v.Vote.Error], v.Node)
		}
		switch {
		case s.old(h.Since) || 2*old > votes: // the votes know what a node that is new here does not
			s.goesOn++
		case s.began.IsZero():
			s.began = h.Since
		}
		s.services = append(s.services, t.Service+evidence(seen))
	}
	// An endpoint is sick when it is down, a PoP when enough of its services are.
	enough := func(n int) bool {
		return n > 0 && (target.Service != "" || 100*float64(n) >= float64(o.rules.PoPDown)*float64(s.checked))
	}
	s.sick, s.overruled = enough(s.down), s.last != nil && (enough(s.goesOn) || s.began.IsZero())
	slices.Sort(s.errors)
	s.flaps = flaps(o.drains, target, true, o.now)
	return s
}

// recall finds what automation has done about a target.
func (o *outlook) recall(s *symptoms) {
	for _, e := range o.drains {
		switch {
		case !automated(e, s.target, true):
		case e.Live(o.now) && (s.standing == nil || e.ID < s.standing.ID):
			s.standing = e
		case e.Lift != nil && (s.last == nil || cmp.Or(e.Lift.At.Compare(s.last.Lift.At), cmp.Compare(e.ID, s.last.ID)) > 0):
			s.last = e
		}
	}
}

// old says whether something was so already when the last drain of the target was lifted. Votes that are begin no outage, be it those of a node that is alone with them, or those on a service that has
// long been down: the next outage would have the name of one that is over, for which nothing is drained any more.
func (s *symptoms) old(since time.Time) bool { return s.last != nil && !since.After(s.last.Lift.At) }

// evidence is what nodes saw, in few words: " (status 503: n1, n2; timeout: n3)".
func evidence(seen map[string][]string) string {
	const most = 4
	var list []string
	for _, fault := range slices.Sorted(maps.Keys(seen)) {
		nodes := seen[fault]
		slices.Sort(nodes)
		text := strings.Join(nodes[:min(most, len(nodes))], ", ")
		if more := len(nodes) - most; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		list = append(list, fault+": "+text)
	}
	if len(list) == 0 {
		return ""
	}
	if more := len(list) - most; more > 0 {
		list = append(list[:most], fmt.Sprintf("%d other errors", more))
	}
	return " (" + strings.Join(list, "; ") + ")"
}

// automated tells whether a statement is a drain that automation has made for exactly a target: because of verdicts, or because it was asked to from outside.
func automated(e *drain.Entry, t pops.Target, verdicts bool) bool {
	return e.Kind == pops.Drain && e.Role == pops.Automation && e.Target == t && strings.HasPrefix(e.Outage, healthOutage) == verdicts
}

// flaps counts such drains that have ended lately.
func flaps(entries []*drain.Entry, t pops.Target, verdicts bool, now time.Time) (n int) {
	for _, e := range entries {
		ended := e.Expires
		if e.Lift != nil {
			ended = e.Lift.At
		}
		if automated(e, t, verdicts) && !e.Live(now) && now.Sub(ended) < flapMemory {
			n++
		}
	}
	return n
}

// request is the drain of a target.
func (o *outlook) request(s *symptoms, outage string) *drain.Request {
	r := &drain.Request{
		Kind: pops.Drain, Target: s.target, By: 100,
		Author: automationAuthor, Role: pops.Automation,
		Outage: outage, Evidence: s.errors, Back: wayBack(&o.rules),
	}
	if s.target.Service == "" {
		r.Reason = fmt.Sprintf("%d of %d services are down: %s", s.down, s.checked, strings.Join(s.services, ", "))
	} else {
		r.Reason = "down: " + strings.Join(s.services, ", ")
	}
	r.Reason = cut(r.Reason, reasonRoom)
	return r
}

// wayBack is the ramp on which clients return.
func wayBack(rules *config.Automation) drain.Way {
	if len(rules.Ramp) < 2 {
		return drain.Way{}
	}
	w := drain.Way{Over: time.Duration(len(rules.Ramp)-1) * cmp.Or(rules.RampStep, time.Minute)}
	for _, p := range rules.Ramp {
		w.Steps = append(w.Steps, float64(p))
	}
	return w
}

// hold is how long a target must be well before it gets clients back: twice as long after each flap.
func hold(rules *config.Automation, flaps int) time.Duration {
	d := rules.RestoreAfter
	for range flaps {
		if d >= rules.RestoreMax {
			break
		}
		d *= 2
	}
	return max(rules.RestoreAfter, min(d, rules.RestoreMax))
}

// tooMuch says why a target must not be drained, beside what statements leave out already and what is leaving.
func (o *outlook) tooMuch(t pops.Target, leaving map[int]bool) string {
	f := o.view.Fleet
	more := maps.Clone(leaving)
	touched := map[int]bool{}
	for _, u := range f.Match(t) {
		if e, ok := f.Endpoint(u); ok {
			more[e], touched[f.Endpoints[e].Service] = true, true
		}
	}
	return beyond(f, o.capacity, o.rules.MaxDrained, touched, func(e int) float64 {
		if more[e] {
			return 1
		}
		return 1 - float64(o.view.States[e].Said)/100
	})
}

// beyond names the first of some services of which more than a part of the capacity would be drained; "" if there is none. away is what part of an endpoint is, 0..1.
func beyond(f *pops.Fleet, capacity []float64, most config.Percent, services map[int]bool, away func(e int) float64) string {
	gone, total := make([]float64, len(f.Services)), make([]float64, len(f.Services))
	for e := range f.Endpoints {
		if service := f.Endpoints[e].Service; services[service] {
			total[service] += capacity[e]
			gone[service] += capacity[e] * away(e)
		}
	}
	for service := range f.Services {
		if part := 100 * gone[service] / total[service]; part > float64(most)+1e-9 { // not of those without endpoints
			return fmt.Sprintf("%.0f %% of %s would be drained, max_drained is %g %%", part, f.Services[service].Name, float64(most))
		}
	}
	return ""
}

// bound is the ledger's word on what automation wants from outside: the same bound.
func (a *App) bound(before, after *pops.View) string {
	f := after.Fleet
	if before.Fleet != f {
		return "" // the fleet was reloaded in between
	}
	touched := map[int]bool{}
	for e := range f.Endpoints {
		if after.States[e].Said < before.States[e].Said {
			touched[f.Endpoints[e].Service] = true
		}
	}
	return beyond(f, capacities(f), a.present().cfg.Automation.MaxDrained, touched, func(e int) float64 { return 1 - float64(after.States[e].Said)/100 })
}

// automation is the rules for what is asked from outside for a target.
func (a *App) automation(t pops.Target) admin.Automation {
	rules := &a.present().cfg.Automation
	return admin.Automation{Enabled: rules.Enabled, Hold: hold(rules, flaps(a.ledger.Statements(), t, false, a.now())), Back: wayBack(rules)}
}

// capacities are those of the endpoints; an unknown one counts as the mean of the known ones of its service.
func capacities(f *pops.Fleet) []float64 {
	sum, known := make([]float64, len(f.Services)), make([]float64, len(f.Services))
	for i := range f.Endpoints {
		if e := &f.Endpoints[i]; e.Capacity > 0 {
			sum[e.Service] += e.Capacity
			known[e.Service]++
		}
	}
	out := make([]float64, len(f.Endpoints))
	for i := range f.Endpoints {
		switch e := &f.Endpoints[i]; {
		case e.Capacity > 0:
			out[i] = e.Capacity
		case known[e.Service] > 0:
			out[i] = sum[e.Service] / known[e.Service]
		default:
			out[i] = 1
		}
	}
	return out
}

// runAutomation looks and acts until ctx ends.
func (a *App) runAutomation(ctx context.Context) {
	tick := time.NewTicker(automationEvery)
	defer tick.Stop()
	alerts := map[string]string{} // by target, as they were told
	var refused map[string]string
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := a.now()
		o := &outlook{now: now, rules: a.present().cfg.Automation, view: a.publisher.Snapshot().View, health: a.health.Status(), entries: a.ledger.Statements(), refused: refused}
		present := map[string]string{}
		refused = map[string]string{}
		for _, d := range automate(o) {
			if alert := a.act(&d); alert != "" {
				present[d.target] = alert
				if d.drain != nil {
					refused[d.target] = alert
				}
			}
		}
		for _, target := range slices.Sorted(maps.Keys(present)) {
			if present[target] != alerts[target] {
				a.log.Warn("automation may not drain what is sick: a person has to look", "target", target, "why", present[target])
			}
		}
		alerts = present
		a.held.Store(&present) // of this round: alerts is written again in the next
	}
}

// act does a deed; the alert says why it was not done.
func (a *App) act(d *deed) (alert string) {
	var result drain.Result
	var err error
	switch {
	case d.alert != "":
		return d.alert
	case d.drain != nil:
		result, err = a.ledger.Apply(*d.drain)
	default:
		result, err = a.ledger.Lift(*d.lift)
	}
	var refused *drain.Refusal
	switch {
	case errors.As(err, &refused) && d.drain != nil:
		return refused.Message
	case err != nil && !errors.Is(err, drain.ErrClosed):
		a.log.Error("automation", "target", d.target, "err", err)
	case err == nil && !result.Repeated && d.drain != nil:
		a.log.Warn("automation drains what is sick", "target", d.target, "reason", d.drain.Reason, "evidence", d.drain.Evidence)
	case err == nil && !result.Repeated:
		a.log.Info("automation gives clients back", "target", d.target, "over", d.lift.Back.Over)
	}
	return ""
}
