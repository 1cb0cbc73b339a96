package geo

// dense is a column of IPv4 that has many spans: for each /16 the leaf, where one span holds all of it, else a block of spans. A block holds where its spans begin, in order and as the lower half of the
// address, and their leaves, each close together: a search touches the root, a line or two of the beginnings, and one of the leaves. L holds the numbers of leaves and blocks, each below flag.
type dense[L uint16 | uint32] struct {
	root   []L // a leaf with flag, or the number of a block
	first  []uint32
	begins []uint16 // by block from first to the next one's first; the first of a block is 0
	leaves []L
}

// flag is the highest bit of L.
func (d *dense[L]) flag() L { return ^(^L(0) >> 1) }

// newDense makes it of the spans of a column, of which the first begins at 0; nil if L cannot hold its numbers.
func newDense[L uint16 | uint32](spans []start[uint32]) *dense[L] {
	d := &dense[L]{root: make([]L, 1<<16)}
	flag := d.flag()
	for i := range spans {
		if spans[i].leaf >= uint32(flag) {
			return nil
		}
	}
	n, before := 0, uint32(0) // before: the leaf of what begins before the /16
	for i := range d.root {
		from := n
		for n < len(spans) && int(spans[n].at>>16) == i {
			n++
		}
		inside := spans[from:n]
		if len(inside) > 0 && uint16(inside[0].at) == 0 {
			before, inside = inside[0].leaf, inside[1:]
		}
		begins, leaves := len(d.begins), len(d.leaves)
		d.begins, d.leaves = append(d.begins, 0), append(d.leaves, L(before))
		for _, s := range inside {
			if L(s.leaf) != d.leaves[len(d.leaves)-1] {
				d.begins, d.leaves = append(d.begins, uint16(s.at)), append(d.leaves, L(s.leaf))
			}
		}
		if len(d.begins) == begins+1 {
			d.begins, d.leaves = d.begins[:begins], d.leaves[:leaves]
			d.root[i] = flag | L(before)
			continue
		}
		if len(d.first) >= int(flag) {
			return nil
		}
		d.root[i] = L(len(d.first))
		d.first = append(d.first, uint32(begins))
		before = uint32(d.leaves[len(d.leaves)-1])
	}
	d.first = append(d.first, uint32(len(d.begins)))
	d.first, d.begins, d.leaves = exact(d.first), exact(d.begins), exact(d.leaves)
	return d
}

// find gives the leaf of the last span that begins at or before a.
func (d *dense[L]) find(a uint32) uint32 {
	r := d.root[a>>16]
	if flag := d.flag(); r&flag != 0 {
		return uint32(r &^ flag)
	}
	lo, hi := d.first[r], d.first[r+1]
	for lo+1 < hi { // the span that holds a is one of lo to hi-1
		if mid := (lo + hi) / 2; d.begins[mid] <= uint16(a) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return uint32(d.leaves[lo])
}
