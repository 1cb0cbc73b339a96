package filters

import (
	"slices"

	"github.com/edgesteer/edgesteer/pops"
)

// maxDraws bounds the draws that Possible follows.
const maxDraws = 1 << 12

// Possible gives the answers that some draw gives the client of x, as Candidate.Serve has them, in the order of the pool. It is for people; the answers that a query gets come
// from Run. x is set up as for Run, with its candidates; it needs no Rand, and what it held is lost.
//
// A shuffle is followed by its blocks: what stands in one may stand there in any order. So it is enough to choose, at each cut, who of the block that it goes through is kept, and
// where a group is chosen, which group of the first block is. exact is false if that were more than maxDraws runs: then all that chance could choose from are listed, and some of
// them may never be given.
func (c *Chain) Possible(x *Exec) (answers []uint16, exact bool) {
	if len(x.List) == 0 {
		return nil, true
	}
	pool, start := x.Pool, slices.Clone(x.List)
	x.Trace, x.Luck = nil, 1
	var d draws
	given := map[uint16]bool{}
	for range maxDraws {
		x.Begin(pool)
		x.Start(start)
		d.begin()
		c.follow(x, &d)
		for _, k := range x.List {
			given[k.Serve] = true
		}
		if !d.next() || c.covers(given, &d) {
			return inOrder(given), true
		}
	}
	if c.moves(d.step) {
		d.from = start
	}
	for _, k := range d.from {
		given[k.Serve] = true
	}
	return inOrder(given), false
}

// follow is one run, with the choices of d.
func (c *Chain) follow(x *Exec, d *draws) {
	for i := range c.Steps {
		d.now = i
		switch f := c.Steps[i].Filter.(type) {
		case *selectFirstN:
			d.keep(x, f.n)
		case *selectFirstRegion:
			d.lead(x, f.groups)
		}
		c.Steps[i].Filter.Run(x)
	}
	d.now = len(c.Steps)
	if c.Single {
		d.keep(x, 1)
	}
	c.finish(x)
	if c.Withholds && x.Rung >= pops.RungSaid {
		x.List = x.List[:0]
	}
}

// covers reports whether nothing more can be given than was.
func (c *Chain) covers(given map[uint16]bool, d *draws) bool {
	return !c.moves(d.step) && !slices.ContainsFunc(d.from, func(k Candidate) bool { return !given[k.Serve] })
}

// moves reports whether a filter from a step on may change who serves a candidate.
func (c *Chain) moves(step int) bool {
	return slices.ContainsFunc(c.Steps[step:], func(s Step) bool { _, ok := s.Filter.(*up); return ok })
}

func inOrder(given map[uint16]bool) []uint16 {
	out := make([]uint16, 0, len(given))
	for a := range given {
		out = append(out, a)
	}
	slices.Sort(out)
	return out
}

// draws goes through all that chance could choose: each run takes the choices of the one before it, but for the last that has another way.
type draws struct {
	taken, ways []int
	at          int
	now         int         // step that is about to run
	from        []Candidate // that stood at the first choice of all
	step        int         // of that choice
}

func (d *draws) begin() { d.at = 0 }

// choose is the next choice, out of n.
func (d *draws) choose(n int, x *Exec) int {
	if n < 2 {
		return 0
	}
	if d.from == nil {
		d.from, d.step = slices.Clone(x.List), d.now
	}
	if d.at == len(d.taken) {
		d.taken, d.ways = append(d.taken, 0), append(d.ways, n)
	}
	d.at++
	return d.taken[d.at-1]
}

// next turns to other choices; false if there are none.
func (d *draws) next() bool {
	for n := len(d.taken); n > 0; n-- {
		if d.taken[n-1]++; d.taken[n-1] < d.ways[n-1] {
			d.taken, d.ways = d.taken[:n], d.ways[:n]
			return true
		}
	}
	d.taken, d.ways = d.taken[:0], d.ways[:0]
	return false
}

// keep puts x.List into an order that its blocks allow, before a cut to the first n endpoints.
func (d *draws) keep(x *Exec, n int) {
	if n >= len(x.List) {
		return
	}
	seen := map[uint16]bool{}
	for from := 0; from < len(x.List) && n > 0; {
		to := blockEnd(x.List, from)
		var ends [][]Candidate // by endpoint that has not been seen
		for _, k := range x.List[from:to] {
			i := slices.IndexFunc(ends, func(e []Candidate) bool { return e[0].Serve == k.Serve })
			switch {
			case seen[k.Serve]:
			case i < 0:
				ends = append(ends, []Candidate{k})
			default:
				ends[i] = append(ends[i], k)
			}
		}
		var first []Candidate
		for i, left := 0, min(n, len(ends)); left > 0; i, left = i+1, left-1 {
			i += d.choose(len(ends)-i-left+1, x)
			first = append(first, ends[i][d.choose(len(ends[i]), x)])
		}
		for _, e := range ends {
			seen[e[0].Serve] = true
		}
		n -= len(first)
		for i, k := range first {
			j := from + i + slices.IndexFunc(x.List[from+i:to], func(l Candidate) bool { return l.Answer == k.Answer })
			x.List[from+i], x.List[j] = x.List[j], x.List[from+i]
		}
		from = to
	}
}

// lead puts a candidate of the first block in front, one of each group, before the first one's group is kept.
func (d *draws) lead(x *Exec, groups []uint16) {
	if len(x.List) == 0 {
		return
	}
	var found []int
	for i, k := range x.List[:blockEnd(x.List, 0)] {
		if !slices.ContainsFunc(found, func(j int) bool { return groups[x.List[j].Answer] == groups[k.Answer] }) {
			found = append(found, i)
		}
	}
	i := found[d.choose(len(found), x)]
	x.List[0], x.List[i] = x.List[i], x.List[0]
}

// blockEnd is the end of the block that begins at from.
func blockEnd(list []Candidate, from int) int {
	to := from + 1
	for to < len(list) && list[to].block == list[from].block {
		to++
	}
	return to
}
