package filters

import (
	"github.com/cespare/xxhash/v2"

	"github.com/edgesteer/edgesteer/pops"
)

// shuffleShard keeps a few of the candidates, chosen by a hash of the client's network or of the name that was asked for, in a stable order: the first is that tenant's primary,
// the next its fallback. It is a rendezvous: every candidate has a number for the tenant and the lowest are kept, so an answer that goes moves only its own tenants, and
// each to its own fallback. Shards are as good as independent: two tenants share a whole one with probability 1 to the number of ways to choose it.
type shuffleShard struct {
	size   int
	qname  bool
	labels []uint64 // by answer: the hash of its label; only by qname
}

func newShuffleShard(b *build) Filter {
	f := &shuffleShard{size: b.number("size"), qname: b.choice("key") == "qname"}
	if f.qname {
		b.chain.ByName = true
		for i := range b.pool.Answers {
			f.labels = append(f.labels, pops.Hash(pops.TagShard, noAddr, b.pool.Answers[i].Label))
		}
	}
	return f
}

func (f *shuffleShard) Run(x *Exec) {
	x.keys = x.keys[:0]
	var name uint64
	if f.qname {
		name = xxhash.Sum64(x.QName)
	}
	for _, c := range x.List {
		var h uint64
		if f.qname {
			h = mix(name ^ f.labels[c.Answer])
		} else {
			h = pops.Hash(pops.TagShard, x.net(), x.answer(c).Label)
		}
		x.keys = append(x.keys, keyed{key: pops.Unit01(h), cand: c})
	}
	x.sortByKeys()
	x.singles()
	x.unordered()
	if !f.qname {
		x.addOrder(order{hash: x.Client.DrawBits()})
	}
	if x.Trace != nil && len(x.List) > f.size {
		x.Trace.note(-1, "shard: %d of %d", f.size, len(x.List))
	}
	x.Cut(f.size)
}

// mix scatters the bits of a number: the last step of splitmix64 (Steele, Lea and Flood 2014).
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
