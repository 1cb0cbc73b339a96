package filters

import "github.com/edgesteer/edgesteer/pops"

// avoidRecord removes the answers that another record of the zone would give this client at this moment, unless nothing would be left: it runs that record's chain. Answers are
// the same when they are served at one PoP; those that are tied to none, when they have the same rdata. A record that gives
// nothing, by its all_down, leaves nothing to avoid.
type avoidRecord struct {
	name  string
	chain *Chain
	pool  *Pool
}

func newAvoidRecord(b *build) Filter {
	name := b.text("record")
	if name == "" {
		return nil
	}
	if b.cut != "" {
		b.fail("", "avoid_record must stand before "+b.cut+": behind it nothing may be left to choose from", "move it up")
	}
	if b.env.Record == nil {
		b.fail("record", "unknown record "+quote(name), "")
		return nil
	}
	chain, pool, err := b.env.Record(name)
	switch {
	case err != nil:
		b.fail("record", err.Error(), "")
		return nil
	case !chain.Static:
		b.fail("record", "record "+quote(name)+" shuffles its answers: what it gives cannot be known", "avoid a record whose chain is the same for a client at all times")
		return nil
	case chain.ByName:
		b.fail("record", "record "+quote(name)+" goes by the name that was asked for, which is another one here", "use shuffle_shard with key = \"client\" there")
		return nil
	}
	b.chain.Avoids = true
	if b.otherPlan < 0 {
		b.otherPlan = chain.Plan
	}
	return &avoidRecord{name: name, chain: chain, pool: pool}
}

func (f *avoidRecord) Run(x *Exec) {
	if x.sub == nil {
		x.sub = &Exec{}
	}
	other := x.sub
	other.Client, other.Atlas, other.View, other.QName, other.V6, other.Rand = x.Client, x.Atlas, x.View, x.QName, x.V6, x.Rand
	other.Begin(f.pool)
	for i := range f.pool.Answers {
		if f.pool.Answers[i].Serves(x.V6) {
			other.Add(i)
		}
	}
	f.chain.Run(other)
	if f.chain.Withholds && other.Rung >= pops.RungSaid {
		other.List = other.List[:0]
	}
	x.Rely(other.bits)
	x.drew = x.drew || other.drew
	x.BySender = x.BySender || other.BySender

	x.next = x.next[:0]
	sure, draw := false, false
	for _, c := range x.List {
		gone := f.gives(other, &x.Pool.Answers[c.Serve])
		if x.Trace != nil && gone {
			x.Trace.note(int(c.Answer), "%s gives it", f.name)
		}
		draw = draw || c.flags&drawn != 0
		if gone && x.shadowed { // kept, if another draw can keep it
			gone = c.flags&moves == 0
		}
		if !gone {
			sure = sure || c.flags&drawn == 0
			x.next = append(x.next, c)
		}
	}
	if draw && !sure { // whether something would be left is a matter of draws alone
		x.relyDraw()
	}
	if len(x.next) == 0 {
		if x.Trace != nil {
			x.Trace.note(-1, "nothing else would be left: none is removed")
		}
		return
	}
	x.List, x.next = x.next, x.List
}

// gives reports whether the other record's result has an answer.
func (f *avoidRecord) gives(other *Exec, a *Answer) bool {
	for _, c := range other.List {
		b := &f.pool.Answers[c.Serve]
		if a.PoP >= 0 && b.PoP >= 0 {
			if a.PoP == b.PoP {
				return true
			}
		} else if a.Label == b.Label {
			return true
		}
	}
	return false
}
