package pops

import (
	"math"
	"time"
)

// A load sheds with the probability that its place between the watermarks gives (steering.md section 3): it rises at once, and falls by at most 10 points a minute. A load that swings would so move
// the networks at the edge out and in with each swing. Therefore a probability falls no lower than the load has given in the last ten to twenty minutes, as far as that is no more than a swing: than what
// a load a little above this one gives. A load that has fallen further gives back from the start, and what one that stays gives counts in the end.

// shedFall is how fast a probability falls: 10 points a minute.
const shedFall = 0.10 / float64(time.Minute)

// shedStep is how long a falling probability takes for one point: a view that is older is worth computing again.
const shedStep = time.Duration(0.01 / shedFall)

// shedSwing is by which factor a load may swing without moving anybody: 5 % up and down, and a bit.
const shedSwing = 1.11

// shedSlot is for how long a swing is remembered, at least; up to twice as long. Slots begin at the same moments on all nodes.
const shedSlot = 10 * time.Minute

// Shed is the probability 0..1 with which a load takes a network away between its watermarks. low < high.
func Shed(load, low, high float64) float64 {
	switch {
	case load >= high:
		return 1
	case load <= low:
		return 0
	}
	return (load - low) / (high - low)
}

// shedding is what one load sheds, and has shed lately. The zero value has shed nothing.
type shedding struct {
	now        float64 // the probability
	load       float64 // what the load itself gives
	most, last float64 // the most that it gave in this slot, and in the one before
	slot       int64
}

// idle reports whether there is nothing to remember.
func (s *shedding) idle() bool { return s.now == 0 && s.most == 0 && s.last == 0 }

// shed is what follows on what was: load is what the load of now gives, above what one a little higher would.
func (b *builder) shed(was shedding, load, above float64) shedding {
	v := b.v
	s := shedding{now: load, load: load, most: was.most, last: was.last, slot: v.At.UnixNano() / int64(shedSlot)}
	switch s.slot {
	case was.slot:
	case was.slot + 1:
		s.most, s.last = 0, was.most
	default: // what it gave then it has given until now
		s.most, s.last = 0, was.load
	}
	s.most = max(s.most, load)
	if was.now <= load {
		return s
	}
	floor := max(load, min(was.now, above, max(s.most, s.last)))
	s.now = max(floor, was.now-b.fallen())
	switch {
	case s.now > floor:
		v.wake(v.At.Add(shedStep))
	case s.now > load:
		v.wake(v.At.Truncate(shedSlot).Add(shedSlot))
	}
	return s
}

// ShedFalls reports whether a unit sheds more than its load of now asks for: it has been higher.
func (v *View) ShedFalls(u Unit) bool {
	return u >= 0 && int(u) < len(v.sheds) && v.sheds[u].now > v.sheds[u].load
}

// fallen is how far a probability may have fallen since the previous view.
func (b *builder) fallen() float64 {
	return shedFall * float64(max(0, b.v.At.Sub(b.in.Previous.At)))
}

// loads gives the endpoints their load and how much of their networks it sheds.
func (b *builder) loads() {
	v, f := b.v, b.v.Fleet
	before := b.shedBefore()
	for e := range f.Endpoints {
		s := &v.States[e]
		s.Metric = f.Services[f.Endpoints[e].Service].Metric
		if e >= len(b.in.Loads) {
			continue
		}
		load := b.in.Loads[e]
		s.Load, s.LoadAt = load.Value, load.At
		if !load.Fresh.After(v.At) || math.IsNaN(load.Value) {
			continue
		}
		s.HasLoad = true
		v.wake(load.Fresh)
		low, ok := v.Number(f.Endpoints[e].Low)
		high, also := v.Number(f.Endpoints[e].High)
		if !ok || !also || !(low < high) {
			continue
		}
		shed := b.shed(before(e), Shed(load.Value, low, high), Shed(load.Value*shedSwing, low, high))
		if shed.idle() {
			continue
		}
		if v.sheds == nil {
			v.sheds = make([]shedding, len(f.Endpoints))
		}
		s.Shed, v.sheds[e] = shed.now, shed
	}
}

// shedBefore gives a function that says what an endpoint shed in the previous view.
func (b *builder) shedBefore() func(e int) shedding {
	p := b.in.Previous
	if p == nil || p.sheds == nil {
		return func(int) shedding { return shedding{} }
	}
	if p.Fleet == b.v.Fleet {
		return func(e int) shedding { return p.sheds[e] }
	}
	byName := map[Target]shedding{}
	for e := range p.sheds {
		if s := &p.sheds[e]; !s.idle() {
			byName[p.Fleet.UnitTarget(Unit(e))] = *s
		}
	}
	return func(e int) shedding { return byName[b.v.Fleet.UnitTarget(Unit(e))] }
}
