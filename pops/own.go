package pops

import "math"

// OwnLoad is the load and the watermarks of an answer that has its own instead of those of an endpoint.
type OwnLoad struct {
	Load, Low, High Value
}

// ownKey is an OwnLoad that can be looked up: a constant that is NaN is itself, too.
type ownKey [3]struct {
	set    bool
	bits   uint64
	number int32
}

func (o *OwnLoad) key() (k ownKey) {
	for i, v := range [...]Value{o.Load, o.Low, o.High} {
		k[i].set, k[i].bits, k[i].number = v.Set, math.Float64bits(v.Const), v.Feed
	}
	return k
}

// Moves reports whether feeds say something of it, so that it can fall.
func (o *OwnLoad) Moves() bool { return o.Load.Feed != 0 || o.Low.Feed != 0 || o.High.Feed != 0 }

// OwnShed is the probability 0..1 with which such a load takes a network away: it has risen at once and falls slowly, if Input.Own had it. 0 if a number is missing.
func (v *View) OwnShed(o *OwnLoad) float64 {
	if len(v.owns) > 0 {
		if s, ok := v.owns[o.key()]; ok {
			return s.now
		}
	}
	p, _ := v.ownShed(o, 1)
	return p
}

// OwnShedFalls is ShedFalls of such a load.
func (v *View) OwnShedFalls(o *OwnLoad) bool {
	s, ok := v.owns[o.key()]
	return ok && s.now > s.load
}

// ownShed is what the numbers of now give, with the load so many times as high; false if one is missing.
func (v *View) ownShed(o *OwnLoad, times float64) (float64, bool) {
	load, ok := v.Number(o.Load)
	low, ok2 := v.Number(o.Low)
	high, ok3 := v.Number(o.High)
	if !ok || !ok2 || !ok3 || !(low < high) {
		return 0, false
	}
	return Shed(load*times, low, high), true
}

// ownLoads finds what the answers' own loads shed.
func (b *builder) ownLoads() {
	v, p := b.v, b.in.Previous
	for i := range b.in.Own {
		o := &b.in.Own[i]
		load, ok := v.ownShed(o, 1)
		if !ok {
			continue
		}
		above, _ := v.ownShed(o, shedSwing)
		var was shedding
		if then := *o; p != nil && (p.Fleet == v.Fleet || then.translate(v.Fleet, p.Fleet)) {
			was = p.owns[then.key()]
		}
		if s := b.shed(was, load, above); !s.idle() {
			if v.owns == nil {
				v.owns = map[ownKey]shedding{}
			}
			v.owns[o.key()] = s
		}
	}
}

// translate gives feeds the numbers that they have in another fleet; false if one of them is not there.
func (o *OwnLoad) translate(from, to *Fleet) bool {
	for _, v := range [...]*Value{&o.Load, &o.Low, &o.High} {
		if v.Feed == 0 {
			continue
		}
		name := from.Feeds[v.Feed-1]
		v.Feed = 0
		for i, n := range to.Feeds {
			if n == name {
				v.Feed = int32(i + 1)
			}
		}
		if v.Feed == 0 {
			return false
		}
	}
	return true
}
