package filters

import (
	"math"

	"github.com/edgesteer/edgesteer/pops"
)

// weighted draws the candidates without replacement in proportion to their weight: at random, another order for each query, or by a hash, the same for one client.
//
// A candidate's key is -ln(u)/weight with u uniform in (0,1], lowest first, which is the same as drawing one after the other (Efraimidis and Spirakis 2006). By a hash it is a
// rendezvous: changing one weight moves only the clients that win or lose that answer.
//
// Weight 0 is never drawn: such candidates go if any other has a weight above 0, and if none has, the list is left alone.
type weighted struct {
	weights []pops.Value // by answer
	sticky  bool
	hash    clientHash
}

func newWeightedShuffle(b *build) Filter {
	return &weighted{weights: b.weights()}
}

func (b *build) weights() []pops.Value {
	w := make([]pops.Value, len(b.pool.Answers))
	for i := range w {
		w[i] = b.pool.Answers[i].Weight
	}
	return w
}

func (f *weighted) Run(x *Exec) {
	x.draws++
	some, sure, zero := false, false, false
	x.keys = x.keys[:0]
	for _, c := range x.List {
		w := f.weight(x, c)
		if w <= 0 {
			zero = true
			continue
		}
		some = true
		sure = sure || c.flags&drawn == 0
		x.keys = append(x.keys, keyed{key: w, cand: c})
	}
	if !some {
		if f.sticky && x.chance { // others could be here by chance, and would be put in order
			x.Rely(f.hash.bits(x))
		}
		return
	}
	if zero && !sure { // whether those of weight 0 go is a matter of draws
		x.relyDraw()
	}
	if x.Trace != nil && zero {
		for _, c := range x.List {
			if f.weight(x, c) <= 0 {
				x.Trace.note(int(c.Answer), "weight 0, and others have more")
			}
		}
	}
	x.List = x.List[:len(x.keys)]
	x.unordered()
	for i := range x.keys {
		k := &x.keys[i]
		if f.sticky {
			k.key = -math.Log(1-f.hash.unit(x, x.answer(k.cand).Label)) / k.key
		} else {
			k.key = x.exponential(k.cand) / k.key
		}
	}
	x.sortByKeys()
	if f.sticky {
		x.singles()
		x.addOrder(order{hash: f.hash.bits(x)})
	} else {
		x.oneBlock()
	}
}

// weight is a candidate's weight now; 1 if it has none. What is below 0 counts as 0.
func (f *weighted) weight(x *Exec, c Candidate) float64 {
	v := f.weights[c.Answer]
	if !v.Set {
		return 1
	}
	w, ok := x.View.Number(v)
	if !ok {
		return 1
	}
	return max(0, w)
}
