package zones

import (
	"slices"

	"github.com/edgesteer/edgesteer/zones/wire"
)

// States of a node in the search for loops.
const (
	unseen uint8 = iota
	open
	done
)

// maxPath bounds the search; no answer follows so many links.
const maxPath = 1000

// loops follows aliases, static and steered, from node to node. A loop that a steered CNAME can close is refused, one of static records is answered with SERVFAIL and warned of.
func (c *checker) loops() {
	c.seen = make([]uint8, len(c.z.nodes))
	for i := range c.z.nodes {
		if c.z.nodes[i].flags&hasCNAME != 0 {
			c.follow(int32(i))
		}
		if c.z.nodes[i].flags&hasDNAME != 0 {
			c.renames(int32(i))
		}
	}
}

// renames warns of a DNAME below which a name comes back, by it and others, to where it was or below: there is no end to it.
func (c *checker) renames(i int32) {
	n := &c.z.nodes[i]
	if n.top != none {
		return
	}
	name := append([]byte{1, 'x'}, c.z.nameOf(n)...)
	for range 8 {
		r := c.z.Find(name, wire.TypeA)
		if r.Kind != Rename {
			return
		}
		next, ok := r.Rename(nil, name)
		if !ok {
			return
		}
		if name = next; len(name) > len(c.z.nameOf(n)) && wire.IsSubdomain(name, c.z.nameOf(n)) {
			for j, s := range c.z.setsOf(n) {
				if s.typ == wire.TypeDNAME {
					c.warn(c.row(n.sets+uint32(j)), "no name below it has an end", "DNAME of %s leads back to itself", c.text(n))
				}
			}
			return
		}
	}
}

// follow goes on from a node with a CNAME.
func (c *checker) follow(i int32) {
	n := &c.z.nodes[i]
	if c.seen[i] != unseen || n.top != none || len(c.path) == maxPath {
		return
	}
	c.seen[i] = open
	c.path = append(c.path, i)
	for j, s := range c.z.setsOf(n) {
		if s.typ != wire.TypeCNAME {
			continue
		}
		row := c.row(n.sets + uint32(j))
		if s.count > 0 {
			c.link(c.z.rrset(&s).Target(), row)
			continue
		}
		for _, target := range c.z.records[s.off].targets() {
			c.link(target, row)
		}
	}
	c.path = c.path[:len(c.path)-1]
	c.seen[i] = done
}

// link goes from an alias, the last of the path, to what its target leads to.
func (c *checker) link(target []byte, row int) {
	name := target
	for range 8 { // DNAMEs on the way
		r := c.z.Find(name, wire.TypeA)
		switch {
		case r.Kind == Rename:
			next, ok := r.Rename(nil, name)
			if !ok {
				return
			}
			name = next
			continue
		case r.Kind == Alias && c.seen[r.node] == open:
			c.loop(r.node, row)
		case r.Kind == Alias:
			c.follow(r.node)
		}
		return
	}
}

// loop reports a link from the end of the path back to node i on it: of a steered CNAME on the loop, if there is one.
func (c *checker) loop(i int32, row int) {
	for _, j := range c.path[slices.Index(c.path, i):] {
		n := &c.z.nodes[j]
		for k, s := range c.z.setsOf(n) {
			if s.typ == wire.TypeCNAME && s.count == 0 {
				c.fault(c.row(n.sets+uint32(k)), "an alias must end somewhere", "steered CNAME of %s can lead back to itself", c.text(n))
				return
			}
		}
	}
	c.warn(row, "queries for it are answered with SERVFAIL", "CNAME of %s is part of a loop", c.text(&c.z.nodes[i]))
}
