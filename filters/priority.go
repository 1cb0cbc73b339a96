package filters

import (
	"math"

	"github.com/edgesteer/edgesteer/pops"
)

// tiers sorts by a number of the metadata, lowest first and missing last, and perhaps keeps only the lowest: the filters priority and cost.
type tiers struct {
	values    []pops.Value // by answer
	name      string
	eliminate bool
}

func newPriority(b *build) Filter {
	f := &tiers{name: "priority", eliminate: b.boolean("eliminate")}
	for i := range b.pool.Answers {
		f.values = append(f.values, b.pool.Answers[i].Priority)
	}
	return f
}

func (f *tiers) Run(x *Exec) {
	x.keys = x.keys[:0]
	for _, c := range x.List {
		key := math.Inf(1)
		if v, ok := x.View.Number(f.values[c.Answer]); ok {
			key = v
		}
		x.keys = append(x.keys, keyed{key: key, cand: c})
	}
	x.sortByKeys()
	if x.Trace != nil {
		f.explain(x)
	}
	if !f.eliminate || len(x.List) == 0 {
		return
	}
	best := 1
	for best < len(x.keys) && x.keys[best].key == x.keys[0].key {
		best++
	}
	if best < len(x.List) && !certain(x.List[:best]) { // which tier is the best is a matter of draws
		x.relyDraw()
	}
	x.List = x.List[:best]
}

func (f *tiers) explain(x *Exec) {
	for _, k := range x.keys {
		if math.IsInf(k.key, 1) {
			x.Trace.note(int(k.cand.Answer), "no %s", f.name)
		} else {
			x.Trace.note(int(k.cand.Answer), "%s %g", f.name, k.key)
		}
	}
}
