package geo

import "net/netip"

// Map is a compiled plan. It is immutable; all its methods are safe for concurrent use.
type Map struct {
	plan    Plan
	judge   *judge
	src     Source
	full    level
	shallow []level // by rising depth: each much smaller than the next, so that what most decisions need stays in a processor's cache
	matched []bool
}

// level is a partition of the address space by the first places of an order.
type level struct {
	depth    int    // how many places it tells apart
	index    index  // numbers in leaves
	leaves   []leaf // 0 answers for an invalid address
	outcomes []*Outcome
}

// leaf is a Leaf as it is stored: a City database and many targets make a million of them.
type leaf struct {
	class uint32
	bits  [len(Depths)]uint8
	ask   bool // not located: the sender's outcome counts
}

// Lookup answers the map's question for a client. It is one search in a sorted table, a second one when the sender has to be asked, and does not allocate.
func (m *Map) Lookup(c *Client) (l Leaf) {
	m.full.lookup(c, &l)
	return l
}

// LookupTo is Lookup, into l, for a decision that looks at no more than the first depth places of an order: of what comes after Leaf.Known places the leaf says nothing, and its Class is
// no number of this map's classes. It is several times faster than Lookup where the map is large.
func (m *Map) LookupTo(c *Client, depth int, l *Leaf) {
	for i := range m.shallow {
		if v := &m.shallow[i]; depth <= v.depth {
			v.lookup(c, l)
			return
		}
	}
	m.full.lookup(c, l)
}

// lookup fills in out where it lies: a leaf that is copied just after it was written has the processor wait for the stores.
func (v *level) lookup(c *Client, out *Leaf) {
	l := v.leaf(c.Addr)
	out.Bits, out.Class, out.Known, out.Sender = l.bits, l.class, v.depth, false
	if l.ask && c.ECS {
		if s := v.leaf(unwrapAddr(c.Sender)); !s.ask {
			out.Class, out.Sender = s.class, true
		}
	}
	out.Outcome = v.outcomes[out.Class]
	if c.Floor != 0 {
		for i := range out.Bits {
			if out.Bits[i] != 0 {
				out.Bits[i] = max(out.Bits[i], c.Floor)
			}
		}
	}
}

func (v *level) leaf(a netip.Addr) *leaf {
	i, _ := v.index.find(a)
	return &v.leaves[i]
}

// Full gives the whole order of a sort plan for a client, for decisions that look beyond the MaxOrder places of a leaf, and the bits that it depends on: those of the raw
// location. tied is like Outcome.Tied. An unplaced client has none. The order and the ties are appended to the slices given; it does not allocate if they have the
// capacity and the plan has at most 512 targets.
func (m *Map) Full(c *Client, order []uint16, tied []bool) ([]uint16, []bool, uint8) {
	l := m.Lookup(c)
	if len(m.plan.Targets) <= MaxOrder || l.Outcome.Order == nil {
		return append(order, l.Outcome.Order...), append(tied, l.Outcome.Tied...), l.Bits[len(Depths)-1]
	}
	own := m.full.leaf(c.Addr)
	bits := l.BitsAt(MaxOrder)
	var place Location
	if own.ask {
		place, _ = m.src.Lookup(unwrapAddr(c.Sender))
	} else {
		var n int
		place, n = m.src.Lookup(c.Addr)
		bits = max(bits, uint8(n))
	}
	var buf [512]rank
	ranks, _ := m.judge.ranks(buf[:0], place)
	for i, r := range ranks {
		order = append(order, r.target())
		tied = append(tied, i+1 < len(ranks) && r.tied(ranks[i+1]))
	}
	return order, tied, bits
}

// Plan is what the map was compiled from.
func (m *Map) Plan() Plan { return m.plan }

// Classes is how many outcomes the map has; classes are 0 to Classes()-1.
func (m *Map) Classes() int { return len(m.full.outcomes) }

// Outcome is the outcome of a class; simulations walk them all.
func (m *Map) Outcome(class uint32) *Outcome { return m.full.outcomes[class] }

// Prefixes is how many prefixes tell the outcomes of the map apart, after joining.
func (m *Map) Prefixes() int { return m.full.index.size() }

// Unmatched lists the targets of a match plan that have tags which no network matches: rules that can never match.
func (m *Map) Unmatched() []int {
	if m.plan.Kind.Sorts() {
		return nil
	}
	var out []int
	for t := range m.matched {
		if m.judge.targets[t].tagged && !m.matched[t] {
			out = append(out, t)
		}
	}
	return out
}
