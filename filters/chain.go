package filters

// Step is one configured filter of a chain.
type Step struct {
	Name   string // NS1's name
	Args   string // its configuration as text, for people
	Filter Filter
}

// Chain is an ordered list of filters. The zero Chain gives every answer. It is immutable.
type Chain struct {
	Steps []Step
	// Static says that no step's outcome can change between two queries of one client under one View: no shuffles. avoid_record needs it.
	Static bool
	// Plan is the number of the geo plan by which the query mix counts clients: that of the first filter that asks where the client is, else of a chain that avoid_record runs;
	// -1 if none asks.
	Plan int
	// ByName says that a filter hashes the name that was asked for.
	ByName bool
	// Avoids says that a filter looks at what another record would give (avoid_record), so that the state of that record's answers counts, too.
	Avoids bool
	// Withholds says that the record gives nothing to a client for whom `up` had to climb above rung 2 (its all_down), so that there is nothing for avoid_record to avoid.
	Withholds bool
	// Single says that the record gives no more than the first answer: CNAME.
	Single bool
}

// Run gives in x.List the answers for the client, in order, no two of one endpoint. x.List holds the candidates when it is called (see Exec.Begin).
//
// A stable draw counts towards the scope only where it matters, and this is how that is known. Within a scope that no draw was charged to, clients differ in nothing but the
// outcome of their draws. So Run asks what would happen to a client that every drawn answer was kept for. If in that run no drawn answer is ever looked at (by a cut, by the
// choice of a group, by a fence that removes others because of it, at the end), then it never had an influence on the others, they stand alike whatever was drawn, and all these
// clients get the same. If one is looked at, the bits of the draw are charged. A client that lost no draw is in that run already; for the others there is a second walk.
func (c *Chain) Run(x *Exec) {
	if len(x.List) == 0 { // no answer has what was asked for, wherever the client is
		return
	}
	if x.start == nil {
		x.added = append(x.added[:0], x.List...)
		x.start = x.added
	}
	c.walk(x)
	before := x.bits
	c.finish(x)
	if x.Trace != nil && x.bits > before {
		x.Trace.note(-1, "scope %d: what is left and its order", x.Bits())
	}
	if x.unsure && !x.drew {
		before = x.bits
		c.shadow(x)
		if x.Trace != nil && x.bits > before {
			x.Trace.note(-1, "scope %d: by another draw other answers would be given", x.Bits())
		}
	}
}

func (c *Chain) walk(x *Exec) {
	for i := range c.Steps {
		if x.Trace != nil {
			x.Trace.before(x, &c.Steps[i])
		}
		c.Steps[i].Filter.Run(x)
		if x.Trace != nil {
			x.Trace.after(x)
		}
	}
}

// finish ends a walk: what is in the list then is the answer.
func (c *Chain) finish(x *Exec) {
	if c.Single {
		if x.Trace != nil && len(x.List) > 1 {
			x.Trace.note(-1, "a name has one CNAME: the first of the %d is given", len(x.List))
		}
		x.Cut(1)
	}
	x.consume(len(x.List), len(x.List) > 1)
	x.List = x.distinct(x.List)
}

// shadow is the second walk. It leaves nothing behind but bits.
func (c *Chain) shadow(x *Exec) {
	given, trace, rung, ignored := x.List, x.Trace, x.Rung, x.Ignored
	x.Trace, x.shadowed = nil, true
	x.List = append(x.spare[:0], x.start...)
	x.orders = x.orders[:0]
	x.chance, x.shifted = false, false
	for i := range c.Steps {
		if x.drew { // nothing more to find out
			break
		}
		c.Steps[i].Filter.Run(x)
	}
	if !x.drew {
		c.finish(x)
	}
	x.spare = x.List
	x.List, x.Trace, x.Rung, x.Ignored, x.shadowed = given, trace, rung, ignored, false
}
