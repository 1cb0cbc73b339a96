package wire

import "encoding/binary"

const (
	maxPointer = 0x3fff // the largest offset that a compression pointer reaches, RFC 1035 section 4.1.4
	nodeSlots  = 2048   // a power of two
	maxNodes   = 1024   // of the slots in use; what comes after them is not remembered
)

// names are the names that stand in a response so far, for compression: a tree of labels. A node is a label below
// another node. Its number is the offset of its first occurrence in the response; the root's is 0. So a name is looked
// up label by label from its end, and where that stops begins what must be written out. The question's own labels are
// nodes too, but they are compared directly and never stored: most names end like the question.
//
// The tree lies in a hash table of fixed size with linear probing. Nodes are removed in the reverse order of their
// coming only, which leaves the table just as it was before them, and all at once by a new generation number.
type names struct {
	gen   uint16
	n     int              // nodes
	log   [maxNodes]uint16 // their slots, in the order of their coming
	slots [nodeSlots]node
}

type node struct {
	gen    uint16 // the slot is empty when this is not the tree's
	check  uint16 // of the hash
	parent uint16
	off    uint16
}

// reset forgets everything.
func (t *names) reset() {
	t.n = 0
	t.gen++
	if t.gen == 0 { // old generations would come back to life
		t.slots = [nodeSlots]node{}
		t.gen = 1
	}
}

// forget removes all nodes but the first n.
func (t *names) forget(n int) {
	for t.n > n {
		t.n--
		t.slots[t.log[t.n]].gen = 0
	}
}

// find returns the node of label (with its length octet) below parent, or 0 and the slot where it belongs.
func (t *names) find(msg []byte, parent int, label []byte) (off int, slot uint32, check uint16) {
	h := hash(parent, label)
	check = uint16(h >> 16)
	for slot = h % nodeSlots; ; slot = (slot + 1) % nodeSlots {
		s := &t.slots[slot]
		if s.gen != t.gen {
			return 0, slot, check
		}
		// the length octet first: it keeps the slice inside the message
		if s.check == check && int(s.parent) == parent && msg[s.off] == label[0] && EqualFold(msg[s.off:int(s.off)+len(label)], label) {
			return int(s.off), slot, check
		}
	}
}

// add enters label, which stands at off in msg and is new below parent. False when it cannot be remembered: nor can the
// labels before it in the same name then.
func (t *names) add(msg []byte, parent, off int, label []byte) bool {
	if off > maxPointer || t.n == maxNodes {
		return false
	}
	_, slot, check := t.find(msg, parent, label)
	t.slots[slot] = node{t.gen, check, uint16(parent), uint16(off)}
	t.log[t.n] = uint16(slot)
	t.n++
	return true
}

// hash mixes a label, whatever its case, with its parent.
func hash(parent int, label []byte) uint32 {
	const prime = 0x9e3779b97f4a7c15
	h := uint64(parent)
	for len(label) >= 8 {
		h = (h ^ (binary.LittleEndian.Uint64(label) | 0x2020202020202020)) * prime
		h ^= h >> 32
		label = label[8:]
	}
	var tail uint64
	for _, c := range label {
		tail = tail<<8 | uint64(c|0x20)
	}
	h = (h ^ tail) * prime
	return uint32(h >> 32)
}

// putName writes a name, its longest known end as a pointer, and remembers the rest.
func (b *Builder) putName(name []byte) bool {
	q := b.q
	if string(name) == string(q.Name) && len(name) > 1 {
		return b.putPointer(HeaderSize)
	}
	var at [MaxLabels + 1]uint8
	n, ok := labels(name, &at)
	if !ok {
		return false
	}
	parent, i := 0, n
	for k := q.Labels; i > 0 && k > 0; i, k = i-1, k-1 {
		if !EqualFold(name[at[i-1]:at[i]], q.Name[q.LabelOffsets[k-1]:q.LabelOffsets[k]]) {
			break
		}
		parent = HeaderSize + int(q.LabelOffsets[k-1])
	}
	for ; i > 0; i-- {
		off, _, _ := b.names.find(b.buf, parent, name[at[i-1]:at[i]])
		if off == 0 {
			break
		}
		parent = off
	}
	start := b.off
	if parent == 0 { // nothing known: the whole name with its root
		if !b.put(name) {
			return false
		}
	} else if !b.put(name[:at[i]]) || !b.putPointer(parent) {
		return false
	}
	for i--; i >= 0; i-- {
		off := start + int(at[i])
		if !b.names.add(b.buf, parent, off, name[at[i]:at[i+1]]) {
			break
		}
		parent = off
	}
	return true
}

func (b *Builder) putPointer(off int) bool {
	if b.off+2 > b.room {
		return false
	}
	binary.BigEndian.PutUint16(b.buf[b.off:], 0xc000|uint16(off))
	b.off += 2
	return true
}
