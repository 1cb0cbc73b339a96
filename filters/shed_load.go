package filters

import "github.com/edgesteer/edgesteer/pops"

// shedLoad takes clients away from answers that carry too much (steering.md section 3): nobody up to the low watermark, everybody from the high one on, in between the networks
// whose draw is below (load-low)/(high-low). The draw is fixed for a network and an answer, so a rising load only adds to those removed.
//
// An answer's own load and watermarks count; an answer without takes those of its endpoint. Both probabilities are the View's: they fall slowly. A candidate that a shift sent to
// another endpoint is judged by that one. If all would go, none does.
type shedLoad struct {
	metric  pops.Metric
	answers []shedAnswer // by answer
	units   []pops.Unit  // by answer
	own     bool         // some answer has a load of its own
}

type shedAnswer struct {
	own  bool // it has a load of its own
	load pops.OwnLoad
	unit pops.Unit
}

func newShedLoad(b *build) Filter {
	f := &shedLoad{metric: b.metric("metric"), answers: make([]shedAnswer, len(b.pool.Answers)), units: b.units()}
	judged := false
	for i := range b.pool.Answers {
		a := &b.pool.Answers[i]
		l := a.Load[f.metric]
		f.answers[i] = shedAnswer{own: l.Load.Set, load: pops.OwnLoad(l), unit: a.Unit}
		f.own = f.own || l.Load.Set
		if l.Low.Set && l.High.Set && l.Low.Feed == 0 && l.High.Feed == 0 && l.Low.Const >= l.High.Const {
			b.fail("", "answer "+quote(a.Label)+": low_watermark must be below high_watermark", "")
		}
		judged = judged || l.Load.Set && l.Low.Set && l.High.Set || b.measures(a.Unit, f.metric)
	}
	if !judged && b.fleet != nil && len(b.pool.Answers) > 0 {
		b.warn("metric", "no answer has a "+f.metric.String()+" load with both watermarks: shed_load never removes any", b.otherMetric())
	}
	return f
}

func (f *shedLoad) Run(x *Exec) {
	if x.chance {
		f.relyAny(x)
	}
	if !f.loaded(x) {
		return
	}
	x.next = x.next[:0]
	sure, draw := false, false
	for _, c := range x.List {
		p := f.probability(x, int(c.Serve))
		gone := p >= 1
		if p > 0 && p < 1 {
			gone = f.draw(x, int(c.Serve)) < p
			x.unsure = x.unsure || gone
			c.flags |= drawn
		}
		draw = draw || c.flags&drawn != 0
		if x.Trace != nil && p > 0 {
			f.explain(x, c, p, gone)
		}
		if gone && x.shadowed { // kept, if another draw can keep it
			gone = p >= 1 && c.flags&moves == 0
		}
		if !gone {
			sure = sure || c.flags&drawn == 0
			x.next = append(x.next, c)
		}
	}
	if draw && !sure { // whether all would go is a matter of draws alone
		x.relyDraw()
	}
	if len(x.next) == 0 {
		x.Ignored = true
		if x.Trace != nil {
			x.Trace.note(-1, "all would go: none is removed")
		}
		return
	}
	x.List, x.next = x.next, x.List
}

// loaded reports whether any candidate carries more than its low watermark.
func (f *shedLoad) loaded(x *Exec) bool {
	if f.own || x.View.NoShed {
		return f.own
	}
	states := x.View.States
	for i := range x.List {
		if u := f.units[x.List[i].Serve]; u >= 0 && states[u].Shed > 0 {
			return true
		}
	}
	return false
}

// probability is the part of the networks that an answer's load takes away from it, 0 to 1.
func (f *shedLoad) probability(x *Exec, answer int) float64 {
	a := &f.answers[answer]
	if !a.own {
		if a.unit < 0 {
			return 0
		}
		if s := &x.View.States[a.unit]; s.HasLoad && s.Metric == f.metric {
			return s.Shed
		}
		return 0
	}
	return x.View.OwnShed(&a.load)
}

// draw is the client's draw for an answer, in [0,1).
func (f *shedLoad) draw(x *Exec, answer int) float64 {
	return pops.Unit01(pops.Hash(pops.TagShed, x.net(), x.Pool.Answers[answer].Label))
}

// relyAny charges the draws if any candidate of the record has one: after a cut by chance, all of them could be here.
func (f *shedLoad) relyAny(x *Exec) {
	for _, c := range x.start {
		if p := f.probability(x, int(c.Answer)); p > 0 && p < 1 {
			x.relyDraw()
			return
		}
	}
}

func (f *shedLoad) explain(x *Exec, c Candidate, p float64, gone bool) {
	a := &f.answers[c.Serve]
	verb := "kept"
	if gone {
		verb = "removed"
	}
	by := ""
	if c.Serve != c.Answer {
		by = " of " + x.Pool.Answers[c.Serve].Label
	}
	load := f.loadText(x, a)
	if p >= 1 {
		x.Trace.note(int(c.Answer), "%s%s is at or above the high watermark: %s", load, by, verb)
		return
	}
	falls := ""
	if a.own && x.View.OwnShedFalls(&a.load) || !a.own && x.View.ShedFalls(a.unit) {
		falls = " (it was higher, and gives back slowly)"
	}
	x.Trace.note(int(c.Answer), "%s%s%s: p %.3g, draw %.3g: %s", load, by, falls, p, f.draw(x, int(c.Serve)), verb)
}
