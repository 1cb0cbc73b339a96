package geo

import (
	"math/bits"
	"net/netip"
)

// index finds the span that holds an address. The spans of a map are sorted and cover the whole address space, so that the longest-prefix match is the last span that
// begins at or before the address: a search in a sorted column, helped by tables. That takes a third of the memory of a prefix trie, holds hardly a pointer for the
// garbage collector to follow, and is as fast.
type index struct {
	v4 column[uint32] // where it has few spans, else one of the next two
	// narrow and wide stand for v4, by how many leaves there are.
	narrow *dense[uint16]
	wide   *dense[uint32]
	n4     int // spans of IPv4
	// v6 goes by the upper 64 bits. A leaf with deepFlag stands for a /64 that is cut further.
	v6   column[uint64]
	deep [][]deepSpan
}

// deepSpan is a span that begins inside a /64.
type deepSpan struct {
	low  uint64
	leaf uint32
}

const deepFlag = 1 << 31

// add4 and add6 append a span; spans come in address order.
func (x *index) add4(at u128, leaf uint32) { x.v4.add(uint32(at.hi>>32), leaf) }

func (x *index) add6(at u128, leaf uint32) {
	if at.lo == 0 {
		x.v6.add(at.hi, leaf)
		return
	}
	// The span before it begins in the same /64, for a prefix that does not hold the whole /64 cuts it from its beginning.
	last := &x.v6.spans[len(x.v6.spans)-1].leaf
	if *last&deepFlag == 0 {
		x.deep = append(x.deep, []deepSpan{{leaf: *last}})
		*last = deepFlag | uint32(len(x.deep)-1)
	}
	group := &x.deep[len(x.deep)-1]
	*group = append(*group, deepSpan{low: at.lo, leaf: leaf})
}

// grow makes room for n spans of a family.
func (x *index) grow(v6 bool, n int) {
	if v6 {
		x.v6.spans = make([]start[uint64], 0, n)
	} else {
		x.v4.spans = make([]start[uint32], 0, n)
	}
}

// finish completes the tables after the last span.
func (x *index) finish() {
	x.v6.finish(64)
	if x.n4 = len(x.v4.spans); x.n4 < manySpans {
		x.v4.finish(32)
		return
	}
	if x.narrow = newDense[uint16](x.v4.spans); x.narrow == nil {
		x.wide = newDense[uint32](x.v4.spans)
	}
	x.v4 = column[uint32]{}
}

// manySpans is from how many spans on the root of a dense table is worth its memory, 128 or 256 KiB.
const manySpans = 1 << 14

// find gives the leaf of the span that holds a; ok is false for an invalid address.
func (x *index) find(a netip.Addr) (leaf uint32, ok bool) {
	if a.Is4() {
		b := a.As4()
		v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
		switch {
		case x.narrow != nil:
			return x.narrow.find(v), true
		case x.wide != nil:
			return x.wide.find(v), true
		}
		return x.v4.find(v), true
	}
	if !a.IsValid() {
		return 0, false
	}
	u := u128of(a)
	leaf = x.v6.find(u.hi)
	if leaf&deepFlag != 0 {
		group := x.deep[leaf&^deepFlag] // its spans end with its /64, so that the address is in it
		i := len(group) - 1
		for group[i].low > u.lo {
			i--
		}
		leaf = group[i].leaf
	}
	return leaf, true
}

// size is how many spans there are.
func (x *index) size() int {
	n := x.n4 + len(x.v6.spans)
	for _, g := range x.deep {
		n += len(g) - 1
	}
	return n
}

// column is a sorted list of where spans begin. The root table knows for each value of an address's first rootBits the leaf, where one span holds all of them, else a block of
// spans. The block's own table leads from some more bits to a handful of spans. Most of the address space is held by wide spans: one step finds them, in a table that stays in a
// processor's cache.
type column[T uint32 | uint64] struct {
	width    int // of T in bits
	rootBits int
	root     []uint32 // a leaf with wholeFlag, or an index into blocks
	blocks   []block
	sub      []uint32 // tables of the blocks: how many spans begin before each part of the block, and before its end
	spans    []start[T]
}

const wholeFlag = 1 << 31

// start is where a span begins, and its leaf.
type start[T uint32 | uint64] struct {
	at   T
	leaf uint32
}

// block is what lies under one entry of the root table.
type block struct {
	first, end uint32 // how many spans begin before it, and before its end
	sub        uint32 // where its table begins in sub
	bits       uint8  // by how many bits the table goes; 0 for no table
}

func (c *column[T]) add(at T, leaf uint32) { c.spans = append(c.spans, start[T]{at, leaf}) }

// perPart is how many spans a part of a block should hold.
const perPart = 4

// finish makes the tables.
func (c *column[T]) finish(width int) {
	c.width = width
	c.rootBits = min(max(bits.Len(uint(len(c.spans)/perPart)), 1), 16)
	c.root = make([]uint32, 1<<c.rootBits)
	n := 0
	for i := range c.root {
		b := block{first: uint32(n)}
		for n < len(c.spans) && int(c.spans[n].at>>(width-c.rootBits)) == i {
			n++
		}
		b.end = uint32(n)
		inside := c.spans[b.first:b.end]
		if whole := len(inside) == 0 || len(inside) == 1 && inside[0].at<<c.rootBits == 0; whole && c.spans[n-1].leaf&deepFlag == 0 {
			c.root[i] = wholeFlag | c.spans[n-1].leaf
			continue
		}
		c.root[i] = uint32(len(c.blocks))
		if len(inside) > 2*perPart {
			b.bits = uint8(min(bits.Len(uint(len(inside)/perPart)), width-c.rootBits))
			b.sub = uint32(len(c.sub))
			n := 0
			for part := range 1<<b.bits + 1 {
				for n < len(inside) && int(inside[n].at<<c.rootBits>>(width-int(b.bits))) < part {
					n++
				}
				c.sub = append(c.sub, b.first+uint32(n))
			}
		}
		c.blocks = append(c.blocks, b)
	}
	c.blocks, c.sub = exact(c.blocks), exact(c.sub)
}

// exact is a slice without the room to grow.
func exact[T any](s []T) []T { return append(make([]T, 0, len(s)), s...) }

// find gives the leaf of the last span that begins at or before a.
func (c *column[T]) find(a T) uint32 {
	r := c.root[a>>(c.width-c.rootBits)]
	if r&wholeFlag != 0 {
		return r &^ wholeFlag
	}
	b := &c.blocks[r]
	lo, hi := b.first, b.end
	if b.bits != 0 {
		part := b.sub + uint32(a<<c.rootBits>>(c.width-int(b.bits)))
		lo, hi = c.sub[part], c.sub[part+1]
	}
	for lo < hi {
		if mid := (lo + hi) / 2; c.spans[mid].at <= a {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return c.spans[lo-1].leaf
}
