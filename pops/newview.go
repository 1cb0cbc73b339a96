package pops

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// Input is everything that NewView looks at beside the fleet. It does not keep the slices.
type Input struct {
	Now      time.Time // fleet time
	Version  uint64    // for the View; NewView makes nothing of it
	Intents  []Intent  // all active statements, in any order
	Verdicts []Verdict // by endpoint; those that are missing are zero
	Loads    []Load    // by endpoint; those that are missing are unknown
	Feeds    []float64 // by feed; NaN, or missing: never seen or stale
	Own      []OwnLoad // of answers, each once; those whose numbers are constant need not be there
	// Panic is the percentage of a service's capacity of which health removes no more, but for the first endpoint; 0 is 50.
	Panic float64
	// Previous is the view before this one, of this or of an earlier fleet; nil if there is none. Only what sheds load is read: that falls slowly.
	Previous *View
}

// Load is the newest load of an endpoint, in the unit of its service's metric. The zero Load is unknown.
type Load struct {
	Value float64
	At    time.Time // when it was so; zero: nobody knows
	Fresh time.Time // stale from then on
}

// NewView decides what is in use: the one function that does. It is pure: the same fleet and input give the same View, in whatever order the intents stand.
//
// The share of a unit is the lowest of every drain and shift that covers it, by a person, by automation or by a drill, and of its health. A person's pin takes all but the
// statements of persons out. A drill counts only while nothing else touches its target. A down verdict does not count if with it health would have removed more than Panic of the
// service's capacity, unless it is the first one: a single failure is what health is for, however large it is. What persons have drained to 0 is not counted as removed by health, what automation has
// drained because it is down is; an unknown capacity counts as the mean of the known ones. Where a verdict
// is taken out by a pin or by panic the dead addresses come back, too.
//
// A shift covers the endpoints of its target whose service has an endpoint at the other PoP; elsewhere, and for what is explicitly tied to the PoP, it is a plain drain. Of
// several shifts the lowest share counts. If a drain leaves less than the shift, the networks that would have left by the shift anyway still go there and the others just leave.
func NewView(f *Fleet, in Input) *View {
	v := &View{
		Version: in.Version,
		At:      in.Now,
		Fleet:   f,
		States:  make([]State, f.Units()),
		Feeds:   make([]float64, len(f.Feeds)),
		reasons: make([][]Reason, f.Units()),
	}
	for i := range v.Feeds {
		v.Feeds[i] = math.NaN()
	}
	copy(v.Feeds, in.Feeds)
	b := builder{v: v, in: &in, on: make([][]int, f.Units()), pin: make([]string, f.Units())}
	b.place()
	b.endDrills()
	for u := range v.States {
		b.statements(Unit(u))
	}
	b.health()
	b.loads()
	b.ownLoads()
	for u := range v.States {
		b.decide(Unit(u))
	}
	v.AllUp = !slices.ContainsFunc(v.States, func(s State) bool { return s.Share < 100 || s.Dead != 0 })
	v.NoShed = !slices.ContainsFunc(v.States, func(s State) bool { return s.Shed > 0 })
	return v
}

type builder struct {
	v     *View
	in    *Input
	rules []rule
	on    [][]int  // by unit: the rules that cover it
	pin   []string // by unit: a person's pin, "" if there is none
}

// rule is an intent and what it covers.
type rule struct {
	*Intent
	units []Unit
	off   string // why it does not count at all
}

func (b *builder) verdict(endpoint int) Verdict {
	if endpoint < len(b.in.Verdicts) {
		return b.in.Verdicts[endpoint]
	}
	return Verdict{}
}

// place finds what each intent covers.
func (b *builder) place() {
	f := b.v.Fleet
	for i := range b.in.Intents {
		r := rule{Intent: &b.in.Intents[i]}
		if r.units = f.Match(r.Target); r.units == nil {
			b.v.Lost = append(b.v.Lost, *r.Intent)
			continue
		}
		b.rules = append(b.rules, r)
	}
	slices.SortFunc(b.v.Lost, func(x, y Intent) int { return cmp.Compare(x.ID, y.ID) })
	slices.SortFunc(b.rules, func(x, y rule) int { return cmp.Compare(x.ID, y.ID) })
	for i := range b.rules {
		for _, u := range b.rules[i].units {
			b.on[u] = append(b.on[u], i)
			if r := &b.rules[i]; r.Kind == Pin && r.Class == Person && b.pin[u] == "" {
				b.pin[u] = r.ID
			}
		}
	}
}

// endDrills takes out the drills that another statement or a down verdict touches.
func (b *builder) endDrills() {
	for i := range b.rules {
		r := &b.rules[i]
		if r.Class != Drill {
			continue
		}
		for _, u := range r.units {
			if e, ok := b.v.Fleet.Endpoint(u); ok && b.verdict(e).Down {
				r.off = fmt.Sprintf("the drill ends, %s is down", b.v.Fleet.UnitTarget(u))
			}
			for _, other := range b.on[u] {
				if other != i {
					r.off = "the drill ends, " + b.rules[other].Kind.String() + " " + b.rules[other].ID + " touches its target"
				}
			}
			if r.off != "" {
				b.v.Ended = append(b.v.Ended, r.ID)
				break
			}
		}
	}
}

// statements gives a unit what the statements say of it, in Said and Share, and the reasons.
func (b *builder) statements(u Unit) {
	s := &b.v.States[u]
	s.Share, s.Said, s.Shift, s.ShiftShare = 100, 100, NoUnit, 100
	if len(b.on[u]) == 0 {
		return
	}
	reasons := make([]Reason, 0, len(b.on[u])+1)
	for _, i := range b.on[u] {
		r := &b.rules[i]
		reason := Reason{Kind: r.Kind, ID: r.ID, Class: r.Class, Author: r.Author, Note: r.Note, Share: min(100, max(0, r.Share)), To: NoUnit}
		switch {
		case r.off != "":
			reason.Why = r.off
		case r.Kind == Pin && r.Class != Person:
			reason.Why = "only a person can pin"
		case r.Kind != Pin && r.Class != Person && b.pin[u] != "":
			reason.Why = "pinned by " + b.pin[u]
		default:
			reason.Applied = true
		}
		if r.Kind == Shift {
			reason.To = b.shiftTo(u, r.To)
		}
		if reason.Applied && r.Kind != Pin {
			s.Moving = s.Moving || r.Moving
			s.Said = min(s.Said, reason.Share)
			if reason.To != NoUnit && reason.Share < s.ShiftShare {
				s.Shift, s.ShiftShare = reason.To, reason.Share
			}
		}
		reasons = append(reasons, reason)
	}
	s.Share = s.Said
	b.v.reasons[u] = reasons
}

// shiftTo gives the endpoint of u's service at the other PoP.
func (b *builder) shiftTo(u Unit, to Target) Unit {
	f := b.v.Fleet
	e, ok := f.Endpoint(u)
	if !ok {
		return NoUnit
	}
	service := f.Endpoints[e].Service
	if to.Service != "" && to.Service != f.Services[service].Name {
		return NoUnit
	}
	other := f.FindEndpoint(f.FindPoP(to.PoP), service)
	if other < 0 || other == e {
		return NoUnit
	}
	return f.EndpointUnit(other)
}

// health applies the verdicts, earliest first, until panic says stop.
func (b *builder) health() {
	f := b.v.Fleet
	limit := cmp.Or(b.in.Panic, 50) / 100
	down := make([][]int, len(f.Services))      // endpoints whose verdict would take something away
	automated := make([][]int, len(f.Services)) // those that automation has taken away for it
	for e := range f.Endpoints {
		verdict := b.verdict(e)
		if s := &b.v.States[e]; verdict.Wavers && b.pin[e] == "" && s.Said > 0 {
			s.Moving = true
		}
		switch {
		case !verdict.Down && verdict.Dead == 0:
		case b.pin[e] != "":
			b.note(e, verdict, "pinned by "+b.pin[e])
		case !verdict.Down || b.v.States[e].Said == 0:
			if verdict.Down && !b.leftByPerson(Unit(e)) {
				automated[f.Endpoints[e].Service] = append(automated[f.Endpoints[e].Service], e)
			}
			b.note(e, verdict, "")
		default:
			down[f.Endpoints[e].Service] = append(down[f.Endpoints[e].Service], e)
		}
	}
	for service, endpoints := range down {
		if endpoints == nil {
			continue
		}
		capacity := b.capacities(service)
		total, gone := 0.0, 0.0
		for _, c := range capacity {
			total += c
		}
		for _, e := range automated[service] {
			gone += capacity[e]
		}
		slices.SortStableFunc(endpoints, func(x, y int) int { return b.verdict(x).Since.Compare(b.verdict(y).Since) })
		for _, e := range endpoints {
			if gone > 0 && gone+capacity[e] > limit*total*(1+1e-9) {
				b.note(e, b.verdict(e), fmt.Sprintf("panic, health has removed %.0f %% of %s", 100*gone/total, f.Services[service].Name))
				if n := len(b.v.Panic); n == 0 || b.v.Panic[n-1] != service {
					b.v.Panic = append(b.v.Panic, service)
				}
				continue
			}
			gone += capacity[e]
			b.note(e, b.verdict(e), "")
		}
	}
}

// leftByPerson tells whether a person has drained a unit to 0.
func (b *builder) leftByPerson(u Unit) bool {
	return slices.ContainsFunc(b.v.reasons[u], func(r Reason) bool { return r.Applied && r.Kind != Pin && r.Class == Person && r.Share == 0 })
}

// capacities gives the capacity of each endpoint of a service.
func (b *builder) capacities(service int) map[int]float64 {
	capacity := map[int]float64{}
	sum, known := 0.0, 0.0
	for e := range b.v.Fleet.Endpoints {
		if p := &b.v.Fleet.Endpoints[e]; p.Service == service {
			capacity[e] = p.Capacity
			if p.Capacity > 0 {
				sum, known = sum+p.Capacity, known+1
			}
		}
	}
	mean := 1.0
	if known > 0 {
		mean = sum / known
	}
	for e, c := range capacity {
		if c <= 0 {
			capacity[e] = mean
		}
	}
	return capacity
}

// note applies a verdict, or says why not.
func (b *builder) note(e int, verdict Verdict, why string) {
	r := Reason{To: NoUnit, Share: 100, Applied: why == "", Why: why}
	if verdict.Down {
		r.Share, r.Note = 0, "down"
	}
	if n := bits.OnesCount64(verdict.Dead); n > 0 {
		if r.Note != "" {
			r.Note += ", "
		}
		r.Note += fmt.Sprintf("%d of %d addresses fail", n, len(b.v.Fleet.Endpoints[e].Addresses))
	}
	if verdict.Note != "" && r.Note != "" {
		r.Note += ": " + verdict.Note
	}
	if r.Applied {
		s := &b.v.States[e]
		s.Dead = verdict.Dead
		s.Share = min(s.Share, r.Share)
	}
	b.v.reasons[e] = append(b.v.reasons[e], r)
}

// decide marks the reason that set the share and puts the reasons in the order in which they are told.
func (b *builder) decide(u Unit) {
	reasons := b.v.reasons[u]
	if len(reasons) == 0 {
		return
	}
	group := func(r *Reason) int { // those that apply, pins that take others out, those that do not apply
		switch {
		case !r.Applied:
			return 2
		case r.Kind == Pin:
			return 1
		}
		return 0
	}
	class := func(r *Reason) Class { // of two that say the same the statement comes before the verdict, and a person before automation
		if r.Kind == 0 {
			return math.MaxUint8
		}
		return r.Class
	}
	slices.SortStableFunc(reasons, func(x, y Reason) int {
		return cmp.Or(cmp.Compare(group(&x), group(&y)), cmp.Compare(x.Share, y.Share), cmp.Compare(class(&x), class(&y)))
	})
	if first := &reasons[0]; first.Applied && first.Kind != Pin && first.Share < 100 {
		first.Decides = true
	}
}

// wake says that the view is worth computing again at t.
func (v *View) wake(t time.Time) {
	if v.Next.IsZero() || t.Before(v.Next) {
		v.Next = t
	}
}
