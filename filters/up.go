package filters

import "github.com/edgesteer/edgesteer/pops"

// up removes the answers that are not available for this client (steering.md section 4).
//
// An answer tied to a PoP or an endpoint is as available as that. The value `up` of its metadata counts like a health verdict: false is a share of 0, which rung 3 ignores, and
// an answer that has neither the value nor a PoP is down. up never leaves an empty list: it climbs a ladder of rungs until somebody is available.
//
// Where an endpoint is shifted to another, the candidate of the first stays, in its place, and is served by the other (Candidate.Serve), for the networks that leave by the
// shift. What has the same endpoint further down is dropped when the list is cut, or at the end, for only then is it known which of the two comes first.
type up struct {
	answers []upAnswer  // by answer
	units   []pops.Unit // by answer
	plain   bool        // all answers are
}

// upAnswer is what up must know of an answer, close together.
type upAnswer struct {
	up    pops.Value
	has   [2]uint64 // addresses, IPv4 and IPv6
	unit  pops.Unit
	plain bool // tied to a unit and without the value `up`
}

func newUp(b *build) Filter {
	f := &up{answers: make([]upAnswer, len(b.pool.Answers)), units: b.units(), plain: true}
	for i := range b.pool.Answers {
		a := &b.pool.Answers[i]
		f.answers[i] = upAnswer{up: a.Up, has: [2]uint64{a.Has4, a.Has6}, unit: a.Unit, plain: a.Unit >= 0 && !a.Up.Set}
		f.plain = f.plain && f.answers[i].plain
		switch {
		case a.Up.Set && a.Up.Feed == 0 && a.Up.Const == 0:
			b.warn("", "answer "+quote(a.Label)+" can never be up: its metadata says up = false", "bind `up` to a feed, or remove the answer")
		case !a.Up.Set && a.Unit < 0:
			b.warn("", "answer "+quote(a.Label)+" can never be up: it has neither `up` nor a PoP, which counts as down", "set meta = { up = true } or tie it to a PoP with pop = ...")
		}
	}
	return f
}

// units are the units of the pool's answers.
func (b *build) units() []pops.Unit {
	u := make([]pops.Unit, len(b.pool.Answers))
	for i := range u {
		u[i] = b.pool.Answers[i].Unit
	}
	return u
}

func (f *up) Run(x *Exec) {
	if x.chance {
		f.relyAny(x)
	}
	if f.allUp(x) {
		x.Rung = max(x.Rung, pops.RungBucket)
		return
	}
	for rung := pops.RungBucket; rung <= pops.RungAll && len(x.List) > 0; rung++ {
		f.climb(x, rung)
		if len(x.next) > 0 {
			x.List, x.next = x.next, x.List
			x.Rung = max(x.Rung, uint8(rung))
			return
		}
		if x.Trace != nil {
			x.Trace.note(-1, "nobody is left on rung %d: %s", rung, rungs[rung])
		}
	}
}

// rungs says what counts as available, by rung.
var rungs = [...]string{pops.RungBucket: "bucket below share", pops.RungShare: "share above 0", pops.RungSaid: "health ignored", pops.RungAll: "everything"}

// allUp is the common case: nothing is drained, down or dead.
func (f *up) allUp(x *Exec) bool {
	if !f.plain || x.shifted {
		return false
	}
	if x.View.AllUp {
		return true
	}
	states := x.View.States
	for i := range x.List {
		if s := &states[f.units[x.List[i].Answer]]; s.Share < 100 || s.Dead != 0 {
			return false
		}
	}
	return true
}

// climb makes x.next the candidates that are available to the client on a rung.
func (f *up) climb(x *Exec, rung int) {
	x.next = x.next[:0]
	sure, draw := false, false
	for _, c := range x.List {
		v := f.see(x, int(c.Answer), rung)
		switch {
		case v.drawn && x.shadowed: // kept, whatever the client drew
			v.in, v.serve = true, int(c.Answer)
		case v.drawn && (!v.in || v.flags&moves != 0):
			x.unsure = true
		}
		draw = draw || v.drawn
		if v.in {
			c.Serve = uint16(v.serve)
			c.flags |= v.flags
			sure = sure || c.flags&drawn == 0
			x.shifted = x.shifted || c.Serve != c.Answer
			x.next = append(x.next, c)
		}
		if x.Trace != nil {
			f.explain(x, c, v, rung)
		}
	}
	if !sure && (draw || len(x.next) > 0) { // who is here, and on which rung, is a matter of draws alone
		x.relyDraw()
	}
}

// seen is an answer as one client sees it on a rung.
type seen struct {
	in    bool
	serve int  // the answer whose endpoint serves it
	drawn bool // a draw had a part in it
	flags uint8
}

func (f *up) see(x *Exec, answer, rung int) seen {
	a := &f.answers[answer]
	v := seen{serve: answer}
	if !f.dead(x, answer, rung) {
		v.in, v.drawn = x.View.Available(a.unit, x.net(), rung)
	}
	if j := f.shiftedTo(x, a.unit, rung); j >= 0 {
		to, draw := x.View.Shift(a.unit, x.net(), rung)
		v.drawn = v.drawn || draw
		if v.drawn && (draw || to >= 0) {
			v.flags |= moves
		}
		if !v.in && to >= 0 {
			v.in, v.serve = true, j
		}
	}
	if v.drawn {
		v.flags |= drawn
	}
	return v
}

// dead reports whether an answer is out for every client, whatever its share: its metadata says that it is down, or all its addresses of the asked family failed their checks.
func (f *up) dead(x *Exec, answer, rung int) bool {
	if rung >= pops.RungSaid {
		return false
	}
	a := &f.answers[answer]
	if !a.plain {
		on, known := x.View.Number(a.up)
		if known && on == 0 || !known && a.unit < 0 {
			return true
		}
	}
	has := a.has[0]
	if x.V6 {
		has = a.has[1]
	}
	return has != 0 && x.View.Dead(a.unit, rung)&has == has
}

// shiftedTo is the candidate of the endpoint that a unit is shifted to; -1 if it is not shifted, or the other can serve nobody.
func (f *up) shiftedTo(x *Exec, unit pops.Unit, rung int) int {
	if unit < 0 {
		return -1
	}
	to := x.View.States[unit].Shift
	if to < 0 {
		return -1
	}
	if in, draw := x.View.Available(to, x.net(), rung); !in && !draw {
		return -1
	}
	for _, c := range x.start {
		if f.answers[c.Answer].unit == to && !f.dead(x, int(c.Answer), rung) {
			return int(c.Answer)
		}
	}
	return -1
}

// relyAny charges the draws if any candidate of the record has one: after a cut by chance, all of them could be here.
func (f *up) relyAny(x *Exec) {
	for _, c := range x.start {
		for rung := pops.RungBucket; rung <= pops.RungSaid; rung++ {
			if f.see(x, int(c.Answer), rung).drawn {
				x.relyDraw()
				return
			}
		}
	}
}

// explain notes why a candidate went, or where it was sent.
func (f *up) explain(x *Exec, c Candidate, v seen, rung int) {
	label := x.answer(c).Label
	a := &f.answers[c.Answer]
	switch {
	case v.in && v.serve != int(c.Answer):
		x.Trace.note(int(c.Answer), "%s is shifted: served by %s", label, x.Pool.Answers[v.serve].Label)
	case v.in && v.drawn && rung == pops.RungBucket:
		x.Trace.note(int(c.Answer), "drained to %g %%: bucket %.1f is inside", float64(x.View.States[a.unit].Share), f.bucket(x, a.unit))
	case v.in:
	case f.dead(x, int(c.Answer), rung):
		x.Trace.note(int(c.Answer), "%s", f.whyDead(x, a))
	case rung == pops.RungSaid:
		x.Trace.note(int(c.Answer), "drained to 0 %% by statements")
	case v.drawn && x.View.States[a.unit].Share > 0:
		x.Trace.note(int(c.Answer), "drained to %g %%: bucket %.1f is outside", float64(x.View.States[a.unit].Share), f.bucket(x, a.unit))
	default:
		x.Trace.note(int(c.Answer), "share is 0 %%")
	}
}

func (f *up) whyDead(x *Exec, a *upAnswer) string {
	on, known := x.View.Number(a.up)
	switch {
	case known && on == 0:
		return "up is false"
	case !known && a.unit < 0:
		return "neither `up` nor a PoP: counts as down"
	default:
		return "all its addresses failed their checks"
	}
}

func (f *up) bucket(x *Exec, u pops.Unit) float64 {
	return pops.Bucket(pops.TagUp, x.net(), x.View.Fleet.PoPs[x.View.Fleet.PoPOf(u)].Name)
}
