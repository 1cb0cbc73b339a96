package filters

import (
	"slices"

	"github.com/edgesteer/edgesteer/geo"
)

// geotarget sorts the candidates by place as a compiled map has it: nearest first, those that tie in the order they stand in, and none at all if the client has no place.
// What is near is the plan's kind: see geotarget_country.go, geotarget_regional.go and geotarget_latlong.go.
type geotarget struct {
	plan    int // number in the atlas
	targets int
	keep    int // the next step keeps this many and nothing looks at the others; 0: not so
}

func (b *build) geotarget(kind geo.Kind) Filter {
	return &geotarget{plan: b.plan(kind), targets: len(b.pool.Answers)}
}

func (f *geotarget) Run(x *Exec) {
	m := x.Atlas.Map(f.plan)
	if f.keep > 0 && f.keep < len(x.List) && !x.shifted && !x.chance && x.Trace == nil && f.nearest(x, m) {
		return
	}
	leaf := x.placed(f.plan)
	m.LookupTo(x.Client, whole, leaf)
	x.BySender = x.BySender || leaf.Sender
	out := leaf.Outcome
	if x.Trace != nil {
		x.explainPlaces(m, leaf)
	}
	x.keepOrder()
	if out.Order == nil || len(x.List) < 2 {
		return
	}
	x.fill(f.targets)
	x.place(out.Order, out.Tied)
	if len(x.next) < len(x.List) { // some stand beyond what a leaf stores
		x.fill(f.targets)
		x.full, x.tied, _ = m.Full(x.Client, x.full[:0], x.tied[:0])
		x.place(x.full, x.tied)
	}
	x.List, x.next = x.next, x.List
}

// nearest puts the first f.keep candidates in front and something that is not among them behind, for a cut that follows at once. It looks no deeper into the order than it
// must. It does nothing if earlier orders have a say in it, if the client has no place, or if more is needed than a leaf stores.
func (f *geotarget) nearest(x *Exec, m *geo.Map) bool {
	leaf := x.placed(f.plan)
	for depth := f.keep; depth <= geo.MaxOrder; depth = leaf.Known + 1 {
		m.LookupTo(x.Client, depth, leaf)
		if leaf.Outcome.Order == nil {
			break
		}
		if x.first(leaf.Outcome, f.keep) {
			x.BySender = x.BySender || leaf.Sender
			return true
		}
	}
	x.orders = x.orders[:len(x.orders)-1]
	return false
}

// maxFirst is how many candidates Exec.first can find.
const maxFirst = 4

// first puts the first n candidates of an order in front, and something that is not among them behind. It does nothing if it finds a tie or fewer candidates.
func (x *Exec) first(out *geo.Outcome, n int) bool {
	var found [maxFirst]Candidate
	k := 0
	for p, target := range out.Order {
		if out.Tied[p] {
			return false
		}
		i := int(target)
		if i >= len(x.List) || x.List[i].Answer != target { // not where it stands as long as none is removed or moved
			i = slices.IndexFunc(x.List, func(c Candidate) bool { return c.Answer == target })
		}
		if i >= 0 {
			found[k] = x.List[i]
			found[k].block = uint16(k)
			k++
		}
		if k == n {
			copy(x.List, found[:n])
			x.List[n].block = noBlock
			return true
		}
	}
	return false
}

// fill enters in x.slots where each candidate stands, counted from 1.
func (x *Exec) fill(answers int) {
	if len(x.slots) < answers {
		x.slots = make([]uint16, answers)
	}
	for i := range x.List {
		x.slots[x.List[i].Answer] = uint16(i + 1)
	}
}

// place makes x.next of List in the order given and empties the slots it meets. tied[i] says that order[i] and order[i+1] rank the same: among those the order of List stays,
// and what was in one block of random order stays in one.
func (x *Exec) place(order []uint16, tied []bool) {
	x.next, x.run = x.next[:0], x.run[:0]
	for i, target := range order {
		s := x.slots[target]
		x.slots[target] = 0
		switch {
		case tied[i] || len(x.run) > 0:
			if s != 0 {
				x.run = append(x.run, s)
			}
			if !tied[i] {
				x.endRun()
			}
		case s != 0:
			c := x.List[s-1]
			c.block = uint16(len(x.next))
			x.next = append(x.next, c)
		}
		if len(x.next)+len(x.run) == len(x.List) {
			break
		}
	}
	x.endRun()
}

// endRun moves the candidates that tie, whose slots are in x.run, to x.next.
func (x *Exec) endRun() {
	slices.Sort(x.run)
	for i, s := range x.run {
		c := x.List[s-1]
		block := uint16(len(x.next))
		if i > 0 && c.block == x.List[x.run[i-1]-1].block {
			block = x.next[len(x.next)-1].block
		}
		c.block = block
		x.next = append(x.next, c)
	}
	x.run = x.run[:0]
}
