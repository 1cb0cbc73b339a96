package filters

import (
	"cmp"
	"slices"

	"github.com/edgesteer/edgesteer/geo"
)

// order is an order of List that depends on the client: by place, or by a hash of the client.
//
// Nothing is charged when a filter sorts. When something looks at the first candidates (Exec.consume), an order by place is charged as deep as they stand in it. That is
// enough, whatever other sorts came before and after: another client in whose order the same places come first has the same candidates among them in the same order, and
// all others behind them, so a stable sort by anything else has the same first candidates for both. Answers that were removed count, as they stand in the order, too.
type order struct {
	leaf geo.Leaf // of an order by place; it may know of the first places only
	plan int      // number in the atlas
	hash uint8    // bits of the client that a hash order depends on; 0 for an order by place
}

// addOrder notes that List stands in an order now.
func (x *Exec) addOrder(o order) {
	x.orders = append(x.orders, o)
	x.keepOrder()
}

// placed makes List stand in an order by place and gives its leaf to be looked up, all of it: what an earlier query left is in it. After a cut by chance keepOrder must follow.
func (x *Exec) placed(plan int) *geo.Leaf {
	n := len(x.orders)
	if n == cap(x.orders) {
		x.orders = append(x.orders, order{})
	}
	x.orders = x.orders[:n+1]
	o := &x.orders[n]
	o.plan, o.hash = plan, 0
	return &o.leaf
}

// keepOrder charges the last order at once if there was a cut by chance: nobody can say how deep the other possible lists would be looked at.
func (x *Exec) keepOrder() {
	if x.chance {
		last := len(x.orders) - 1
		x.relyOrder(&x.orders[last], whole)
		x.orders = x.orders[:last]
	}
}

// relyOrder charges an order as deep as depth; by a hash all of it is one.
func (x *Exec) relyOrder(o *order, depth int) {
	if o.hash != 0 {
		x.Rely(o.hash)
		return
	}
	x.deepen(o, depth)
	x.Rely(o.leaf.BitsAt(depth))
}

// deepen makes sure that an order by place knows of the first depth places.
func (x *Exec) deepen(o *order, depth int) {
	if o.leaf.Known < depth {
		x.Atlas.Map(o.plan).LookupTo(x.Client, depth, &o.leaf)
	}
}

// unordered forgets all orders: List stands in one now that owes nothing to them.
func (x *Exec) unordered() { x.orders = x.orders[:0] }

// whole is the depth that stands for all of an order.
const whole = 1 << 16

// relyOrders charges what the standing of the first candidates depended on: the latest order, and an earlier one as far as the later left ties to it.
func (x *Exec) relyOrders(first []Candidate) {
	for i := len(x.orders) - 1; i >= 0; i-- {
		depth, tied := x.depth(&x.orders[i], first)
		x.relyOrder(&x.orders[i], depth)
		if !tied {
			return
		}
	}
}

// depth is how many places of an order by place one must know to know where the first candidates stand (geo.Leaf takes care of what ties with the last of them), and whether
// any of these places tie, so that earlier orders count.
func (x *Exec) depth(o *order, first []Candidate) (depth int, tied bool) {
	if o.hash != 0 || o.leaf.Outcome.Order == nil { // an order of groups, or no place: earlier orders stand
		return whole, true
	}
	for i := range first {
		p := slices.Index(o.leaf.Outcome.Order, first[i].Answer)
		if p < 0 {
			x.deepen(o, whole)
			p = slices.Index(o.leaf.Outcome.Order, first[i].Answer)
		}
		if p < 0 { // beyond the stored part
			return whole, true
		}
		depth = max(depth, p+1)
	}
	return depth, slices.Contains(o.leaf.Outcome.Tied[:depth], true)
}

// keyed is a candidate with what it is to be sorted by.
type keyed struct {
	key  float64
	cand Candidate
}

// sortByKeys puts List into the order of x.keys, which holds a key for each candidate, in order: lowest first, stable. Blocks of random order are split where keys differ.
func (x *Exec) sortByKeys() {
	slices.SortStableFunc(x.keys, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
	block, was, key := noBlock, uint16(noBlock), 0.0
	for i := range x.keys {
		k := &x.keys[i]
		if block == noBlock || k.key != key || k.cand.block != was {
			block = i
		}
		was, key = k.cand.block, k.key
		x.List[i] = k.cand
		x.List[i].block = uint16(block)
	}
}

// oneBlock says that all candidates stand in random order.
func (x *Exec) oneBlock() {
	for i := range x.List {
		x.List[i].block = 0
	}
}

// singles says that no candidates stand in random order.
func (x *Exec) singles() {
	for i := range x.List {
		x.List[i].block = uint16(i)
	}
}
