package zones

import "hash/maphash"

// index finds nodes by the hash of their name: a table with linear probing, at most half full. A slot holds a part of the hash, so that a wrong name is seldom looked at, and
// the node's number plus one; 0 is an empty slot. The seed is secret, so that nobody can choose names that collide.
type index struct {
	seed  maphash.Seed
	slots []uint64 // a power of two of them
}

type hash uint64

func (h hash) tag() uint32 { return uint32(h >> 32) }

func newIndex(nodes int) index {
	n := 8
	for n < 2*nodes {
		n *= 2
	}
	return index{seed: maphash.MakeSeed(), slots: make([]uint64, n)}
}

func (x *index) hash(name []byte) hash { return hash(maphash.Bytes(x.seed, name)) }

func (x *index) first(h hash) int { return int(uint64(h) & uint64(len(x.slots)-1)) }

func (x *index) next(slot int) int { return (slot + 1) & (len(x.slots) - 1) }

// at is the tag and the node in a slot; none if it is empty.
func (x *index) at(slot int) (tag uint32, node int32) {
	s := x.slots[slot]
	return uint32(s >> 32), int32(uint32(s)) - 1
}

// add enters a node under its name, which is not there yet.
func (x *index) add(name []byte, node int32) {
	h := x.hash(name)
	slot := x.first(h)
	for x.slots[slot] != 0 {
		slot = x.next(slot)
	}
	x.slots[slot] = uint64(h.tag())<<32 | uint64(uint32(node+1))
}
