package geo

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// Compile turns a plan into a map over a source. It reads every network once, judges each distinct location once, and joins neighbours with the same outcome, so that the
// map is about as large as the differences that the plan can tell. A source that holds nothing the targets go by is refused with a *LackError.
//
// Where no target has a tag that the plan's kind looks at, nothing is looked up: the map is one leaf without a place, of 0 bits.
//
// Unlocated space is never joined with located space, even where the outcome is the same: its outcome is the sender's. The ranges of embedded IPv4 addresses in IPv6 are
// cut out, for an address in them is located by its IPv4 part.
func Compile(src Source, plan Plan) (*Map, error) {
	if len(plan.Targets) > MaxTargets {
		return nil, fmt.Errorf("%d targets in one pool: at most %d", len(plan.Targets), MaxTargets)
	}
	c := newCompiler(plan)
	switch {
	case !c.judge.tagged():
		for f := range c.spans {
			c.spans[f].push(span{id: c.cell(cell{wrap: -1})})
		}
	case plan.Kind == MatchPrefix:
		c.prefixes(plan)
	default:
		if err := c.networks(src); err != nil {
			return nil, err
		}
	}
	m := c.build()
	m.src = src
	return m, nil
}

// A cell is what holds in a span: an outcome, whether the sender is asked instead, and the embedded range that the span lies in. Where the order goes on beyond its stored
// part the location belongs to it, for the rest may differ.
type cell struct {
	class uint32
	loc   uint32
	ask   bool
	wrap  int8 // index in wraps, -1 outside
}

// compiler holds the tables that grow while networks are read.
type compiler struct {
	plan  Plan
	judge *judge

	outcomes []*Outcome
	keys     [len(Depths)][]uint32 // per depth and class: a number, equal where that much of the order is equal
	depthIDs [len(Depths)]map[string]uint32
	byKey    map[string]uint32 // class by the key of its deepest stored part

	cells   []cell
	cellIDs map[cell]uint32

	locations map[Location]uint32 // cells
	last      Location
	lastID    uint32
	seen      Fields

	matched []bool // per target: some network matches it
	spans   [2]spans

	ranks []rank
	buf   []byte
}

func newCompiler(plan Plan) *compiler {
	c := &compiler{
		plan:      plan,
		judge:     newJudge(plan),
		byKey:     map[string]uint32{},
		cellIDs:   map[cell]uint32{},
		locations: map[Location]uint32{},
		matched:   make([]bool, len(plan.Targets)),
	}
	for i := range c.depthIDs {
		c.depthIDs[i] = map[string]uint32{}
	}
	// Class 0: no place. Its key differs from every other at every depth.
	c.class([]byte{0}, func() *Outcome { return &Outcome{Match: c.set()} }, nil)
	return c
}

func (c *compiler) set() []uint64 {
	if c.plan.Kind.Sorts() {
		return nil
	}
	return make([]uint64, (len(c.plan.Targets)+63)/64)
}

// class gives the number of an outcome. key tells outcomes apart; ends[i] is how much of the key depth i sees, nil for all of it.
func (c *compiler) class(key []byte, outcome func() *Outcome, ends []int) uint32 {
	if id, ok := c.byKey[string(key)]; ok {
		return id
	}
	id := uint32(len(c.outcomes))
	c.byKey[string(key)] = id
	c.outcomes = append(c.outcomes, outcome())
	for d := range Depths {
		part := key
		if ends != nil {
			part = key[:ends[d]]
		}
		n, ok := c.depthIDs[d][string(part)]
		if !ok {
			n = uint32(len(c.depthIDs[d]))
			c.depthIDs[d][string(part)] = n
		}
		c.keys[d] = append(c.keys[d], n)
	}
	return id
}

func (c *compiler) cell(x cell) uint32 {
	id, ok := c.cellIDs[x]
	if !ok {
		id = uint32(len(c.cells))
		c.cells = append(c.cells, x)
		c.cellIDs[x] = id
	}
	return id
}

// networks reads the source.
func (c *compiler) networks(src Source) error {
	gap := c.cell(cell{ask: true, wrap: -1})
	var sweeps [2]sweep
	for f := range sweeps {
		sweeps[f] = sweep{v6: f == 1, gap: gap, carve: func(_ uint32, w int) uint32 { return c.cell(cell{ask: true, wrap: int8(w)}) }}
	}
	var bad error
	want := FieldsPlace
	if c.plan.Kind == MatchASN {
		want |= FieldASN
	}
	err := src.Networks(want, func(p netip.Prefix, l Location) bool {
		if !c.judge.kind.Knows(l) {
			return true
		}
		bad = sweeps[family(p.Addr())].add(p, c.locate(l))
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return fmt.Errorf("reading the location database: %w", err)
	}
	if c.seen&c.judge.needs == 0 {
		return &LackError{Kind: c.plan.Kind, Needs: c.judge.needs, Databases: src.Databases()}
	}
	for f := range sweeps {
		sweeps[f].finish()
		c.spans[f] = sweeps[f].out
	}
	return nil
}

// locate gives the cell of a location, judging it if it is new.
func (c *compiler) locate(l Location) uint32 {
	if l == c.last {
		return c.lastID
	}
	r := c.judge.reduce(l)
	id, ok := c.locations[r]
	if !ok {
		c.seen |= l.Fields()
		x := cell{class: c.outcome(r), wrap: -1}
		if c.beyond() {
			x.loc = uint32(len(c.locations)) + 1
		}
		id = c.cell(x)
		c.locations[r] = id
	}
	c.last, c.lastID = l, id
	return id
}

// beyond reports whether orders are longer than what is stored of them.
func (c *compiler) beyond() bool { return c.plan.Kind.Sorts() && len(c.plan.Targets) > MaxOrder }

// outcome judges a location and gives the class of what came out.
func (c *compiler) outcome(l Location) uint32 {
	if !c.plan.Kind.Sorts() {
		set := c.set()
		c.judge.matches(set, l)
		return c.match(set)
	}
	var ok bool
	if c.ranks, ok = c.judge.ranks(c.ranks[:0], l); !ok {
		return 0
	}
	return c.order(c.ranks)
}

// match gives the class of a set of matching targets.
func (c *compiler) match(set []uint64) uint32 {
	c.buf = append(c.buf[:0], 1)
	for _, w := range set {
		c.buf = binary.BigEndian.AppendUint64(c.buf, w)
	}
	return c.class(c.buf, func() *Outcome {
		o := &Outcome{Match: set, Placed: true}
		for t := range c.matched {
			c.matched[t] = c.matched[t] || o.Matches(t)
		}
		return o
	}, nil)
}

// order gives the class of a ranked list. The key of a depth is that many places with their ties, and all that tie with the last of them: which of those comes first is for
// an earlier filter to say.
func (c *compiler) order(ranks []rank) uint32 {
	c.buf = append(c.buf[:0], 1)
	var ends [len(Depths)]int
	depth := 0
	for i, r := range ranks {
		tied := i+1 < len(ranks) && r.tied(ranks[i+1])
		c.buf = binary.BigEndian.AppendUint16(c.buf, r.target())
		c.buf = append(c.buf, 0)
		if tied {
			c.buf[len(c.buf)-1] = 1
			continue
		}
		for depth < len(Depths) && Depths[depth] <= i+1 {
			ends[depth] = len(c.buf)
			depth++
		}
		if depth > 0 && Depths[depth-1] == MaxOrder {
			break // the rest is not told apart
		}
	}
	for ; depth < len(Depths); depth++ {
		ends[depth] = len(c.buf)
	}
	return c.class(c.buf, func() *Outcome {
		n := min(len(ranks), MaxOrder)
		o := &Outcome{Order: make([]uint16, n), Tied: make([]bool, n), Placed: true}
		for i := range n {
			o.Order[i] = ranks[i].target()
			o.Tied[i] = i+1 < len(ranks) && ranks[i].tied(ranks[i+1])
		}
		return o
	}, ends[:])
}

// prefixes makes the spans of a MatchPrefix plan, from the plan alone.
func (c *compiler) prefixes(plan Plan) {
	for f := range c.spans {
		s := sweep{v6: f == 1, carve: func(id uint32, w int) uint32 {
			x := c.cells[id]
			x.wrap = int8(w)
			return c.cell(x)
		}}
		nest(prefixRules(plan, f == 1), func(at u128, n uint8, holds []uint32) {
			set := c.set()
			for _, t := range holds {
				set[t/64] |= 1 << (t % 64)
			}
			id := c.cell(cell{class: c.match(set), wrap: -1})
			s.put(at, n, id)
		})
		c.spans[f] = s.out
	}
}

// build makes the tables out of the spans.
func (c *compiler) build() *Map {
	m := &Map{plan: c.plan, judge: c.judge, matched: c.matched}
	bits := c.bits()
	deepest := len(Depths) - 1
	m.full = c.level(deepest, &bits, c.outcomes)
	if c.plan.Kind.Sorts() {
		least := m.full.index.size()
		for _, d := range [...]int{3, 0} { // Depths 4 and 1
			if n := c.size(&bits, d); n <= least*3/4 {
				m.shallow = slices.Insert(m.shallow, 0, c.level(d, &bits, c.cut(d)))
				least = n
			}
		}
	}
	return m
}

// level makes the table of a depth.
func (c *compiler) level(d int, bits *[2][len(Depths)][]uint8, outcomes []*Outcome) level {
	v := level{depth: Depths[d], outcomes: outcomes, leaves: []leaf{{ask: true}}}
	numbers := map[leaf]uint32{}
	sizes := [2]int{}
	for f := range c.spans {
		sizes[f] = c.joined(f, d, bits, func(int) {})
	}
	for f := range c.spans {
		v.index.grow(f == 1, sizes[f])
		c.joined(f, d, bits, func(i int) {
			s := c.spans[f].at(i)
			x := c.cells[s.id]
			l := leaf{class: x.class, ask: x.ask}
			if d < len(Depths)-1 {
				l.class = c.keys[d][x.class]
			}
			for k := range d + 1 {
				l.bits[k] = bits[f][k][i]
			}
			id, ok := numbers[l]
			if !ok {
				id = uint32(len(v.leaves))
				v.leaves = append(v.leaves, l)
				numbers[l] = id
			}
			if f == 1 {
				v.index.add6(s.at, id)
			} else {
				v.index.add4(s.at, id)
			}
		})
	}
	v.index.finish()
	v.leaves = exact(v.leaves)
	return v
}

// joined calls each for the first span of every prefix in which a depth sees no difference, and tells how many there are.
func (c *compiler) joined(f, d int, bits *[2][len(Depths)][]uint8, each func(i int)) (n int) {
	for i := 0; i < c.spans[f].n; n++ {
		each(i)
		end, last := c.spans[f].at(i).at.after(bits[f][d][i])
		i++
		for i < c.spans[f].n && (last || c.spans[f].at(i).at.less(end)) {
			i++
		}
	}
	return n
}

// size is how many prefixes a depth tells apart.
func (c *compiler) size(bits *[2][len(Depths)][]uint8, d int) (n int) {
	for f := range c.spans {
		n += c.joined(f, d, bits, func(int) {})
	}
	return n
}

// cut gives the outcomes of a depth, by their numbers in c.keys.
func (c *compiler) cut(d int) []*Outcome {
	out := make([]*Outcome, len(c.depthIDs[d]))
	for class, n := range c.keys[d] {
		if out[n] == nil {
			out[n] = c.outcomes[class].first(Depths[d])
		}
	}
	return out
}

// bits gives, per family, depth and span, how many bits that much of the outcome depends on.
func (c *compiler) bits() (out [2][len(Depths)][]uint8) {
	var j joiner
	for f := range out {
		last := -1
		for d := len(Depths) - 1; d >= 0; d-- {
			key, n, alike := c.depthKeys(d)
			if n == last { // a shallower depth tells no more apart than a deeper one: as many keys are the same keys
				out[f][d] = out[f][d+1]
				continue
			}
			last = n
			out[f][d] = j.widths(&c.spans[f], key)
			for i, b := range out[f][d] {
				if b == 0 && !alike {
					out[f][d][i] = 1 // the other family differs: "depends on nothing" would be wrong
				}
			}
		}
	}
	return out
}

// depthKeys gives, for a depth, a number per cell that is equal where that much of the outcome is equal, and how many numbers there are; alike says that the whole
// address space of both families is alike.
func (c *compiler) depthKeys(d int) (key []uint32, n int, alike bool) {
	type part struct {
		n, loc uint32
		ask    bool
		wrap   int8
	}
	ids := map[part]uint32{}
	key = make([]uint32, len(c.cells))
	for i, x := range c.cells {
		p := part{n: c.keys[d][x.class], ask: x.ask, wrap: x.wrap}
		if Depths[d] > MaxOrder {
			p.loc = x.loc
		}
		id, ok := ids[p]
		if !ok {
			id = uint32(len(ids))
			ids[p] = id
		}
		key[i] = id
	}
	// Spans decide what is alike, not cells: a cell may hold nowhere.
	first := key[c.spans[0].at(0).id]
	for f := range c.spans {
		for i := range c.spans[f].n {
			if key[c.spans[f].at(i).id] != first {
				return key, len(ids), false
			}
		}
	}
	return key, len(ids), true
}
