package filters

import (
	"net/netip"

	"github.com/edgesteer/edgesteer/pops"
)

// The tags of the sticky filters beside pops.TagSticky. Each has its own (steering.md section 4): with one for all, a sticky filter behind another would find each client's
// candidates in the order in which the first has left them, and share out nothing.
const (
	tagWeighted = "weighted_sticky"
	tagRegion   = "sticky_region"
)

// clientHash is what a sticky filter knows a client by: its prefix as it was sent, or by network its /24 or /56.
type clientHash struct {
	tag     string
	network bool
}

// key is the client's address that is hashed.
func (h clientHash) key(x *Exec) netip.Addr {
	if h.network {
		return x.net()
	}
	return x.Client.Addr
}

// bits is how much of the client the hash depends on. The key is the prefix as it was sent, so all bits of the family: a longer prefix within it is another key.
func (h clientHash) bits(x *Exec) uint8 {
	if h.network {
		return x.Client.DrawBits()
	}
	return uint8(x.Client.Addr.BitLen())
}

// unit is the client's number for an id, in [0,1).
func (h clientHash) unit(x *Exec, id string) float64 {
	return pops.Unit01(pops.Hash(h.tag, h.key(x), id))
}

// sticky is shuffle with an order that is the same for one client at all times: a rendezvous, lowest number first, so that an answer that goes moves only its own clients.
type sticky struct{ hash clientHash }

func newSticky(b *build) Filter {
	return &sticky{hash: clientHash{tag: pops.TagSticky, network: b.boolean("sticky_by_network")}}
}

func (f *sticky) Run(x *Exec) {
	x.keys = x.keys[:0]
	for _, c := range x.List {
		x.keys = append(x.keys, keyed{key: f.hash.unit(x, x.answer(c).Label), cand: c})
	}
	x.sortByKeys()
	x.singles()
	x.unordered()
	x.addOrder(order{hash: f.hash.bits(x)})
}
