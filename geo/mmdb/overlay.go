package mmdb

import (
	"iter"
	"net/netip"

	"github.com/edgesteer/edgesteer/geo"
)

// networks is a stream of disjoint networks of one family in address order.
type networks = iter.Seq2[netip.Prefix, geo.Location]

// overlay lays one stream over another: where networks of both meet, they are cut to the smaller and joined, the first one's place before the second one's.
func overlay(first, second networks) networks {
	return func(yield func(netip.Prefix, geo.Location) bool) {
		a, stopA := newCursor(first)
		defer stopA()
		b, stopB := newCursor(second)
		defer stopB()
		for {
			p, ok := a.peek()
			q, more := b.peek()
			switch {
			case !ok && !more:
				return
			case !more, ok && before(p.prefix, q.prefix):
				if !yield(p.prefix, p.location) {
					return
				}
				a.pop()
			case !ok, before(q.prefix, p.prefix):
				if !yield(q.prefix, q.location) {
					return
				}
				b.pop()
			case p.prefix.Bits() < q.prefix.Bits():
				a.split()
			case q.prefix.Bits() < p.prefix.Bits():
				b.split()
			default:
				if !yield(p.prefix, join(p.location, q.location)) {
					return
				}
				a.pop()
				b.pop()
			}
		}
	}
}

// before reports whether p ends before q begins.
func before(p, q netip.Prefix) bool { return p.Addr().Less(q.Addr()) && !p.Overlaps(q) }

// network is one element of a stream.
type network struct {
	prefix   netip.Prefix
	location geo.Location
}

// cursor reads a stream one network at a time and can cut the next one in halves.
type cursor struct {
	next    func() (netip.Prefix, geo.Location, bool)
	pending []network // in reverse order
}

func newCursor(s networks) (c *cursor, stop func()) {
	next, stop := iter.Pull2(s)
	return &cursor{next: next}, stop
}

func (c *cursor) peek() (network, bool) {
	if len(c.pending) == 0 {
		p, l, ok := c.next()
		if !ok {
			return network{}, false
		}
		c.pending = append(c.pending, network{p, l})
	}
	return c.pending[len(c.pending)-1], true
}

func (c *cursor) pop() { c.pending = c.pending[:len(c.pending)-1] }

// split cuts the next network in two.
func (c *cursor) split() {
	n := &c.pending[len(c.pending)-1]
	bits := n.prefix.Bits()
	b := n.prefix.Addr().AsSlice()
	b[bits/8] |= 0x80 >> (bits % 8)
	right, _ := netip.AddrFromSlice(b)
	left := network{netip.PrefixFrom(n.prefix.Addr(), bits+1), n.location}
	n.prefix = netip.PrefixFrom(right, bits+1)
	c.pending = append(c.pending, left)
}
