package geo

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
)

// u128 is an address, left-aligned: IPv4 stands in the upper 32 bits, so that prefix lengths count from the top in both families.
type u128 struct{ hi, lo uint64 }

func u128of(a netip.Addr) u128 {
	if a.Is4() {
		b := a.As4()
		return u128{hi: uint64(binary.BigEndian.Uint32(b[:])) << 32}
	}
	b := a.As16()
	return u128{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (u u128) addr(v6 bool) netip.Addr {
	if !v6 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(u.hi>>32))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], u.hi)
	binary.BigEndian.PutUint64(b[8:], u.lo)
	return netip.AddrFrom16(b)
}

func (u u128) less(v u128) bool { return u.hi < v.hi || u.hi == v.hi && u.lo < v.lo }

// bit is the value with only the n-th bit from the top set, n in 1..128: the size of a prefix of n bits.
func bit(n uint8) u128 {
	if n <= 64 {
		return u128{hi: 1 << (64 - n)}
	}
	return u128{lo: 1 << (128 - n)}
}

// after is the first address behind a prefix of n bits at u; wrapped is true at the end of the address space.
func (u u128) after(n uint8) (v u128, wrapped bool) {
	if n == 0 {
		return u128{}, true
	}
	s := bit(n)
	lo, carry := bits.Add64(u.lo, s.lo, 0)
	hi, carry := bits.Add64(u.hi, s.hi, carry)
	return u128{hi, lo}, carry != 0
}

// aligned is the shortest prefix length that may begin at u.
func (u u128) aligned() uint8 {
	if u.lo != 0 {
		return uint8(128 - bits.TrailingZeros64(u.lo))
	}
	if u.hi != 0 {
		return uint8(64 - bits.TrailingZeros64(u.hi))
	}
	return 0
}

// span is one prefix of a partition of an address space.
type span struct {
	at   u128
	id   uint32 // what holds in it; see each user
	bits uint8
}

// spans is a stack of spans kept in blocks: a partition of a City database has millions, and growing one slice would copy and leave several times that.
type spans struct {
	blocks [][]span
	n      int
}

const blockBits = 14

func (s *spans) at(i int) *span { return &s.blocks[i>>blockBits][i&(1<<blockBits-1)] }

func (s *spans) push(x span) {
	if s.n>>blockBits == len(s.blocks) {
		s.blocks = append(s.blocks, make([]span, 1<<blockBits))
	}
	s.n++
	*s.at(s.n - 1) = x
}

// sweep turns networks in address order into the smallest partition of the whole address space into prefixes: gaps are filled, and halves of a prefix in which the same
// holds are joined at once, so that it needs no more memory than its result.
type sweep struct {
	v6    bool
	gap   uint32                           // the id of what lies in no network
	carve func(id uint32, wrap int) uint32 // the id of what lies in an embedded range, which is never joined with its surroundings; nil to leave them alone
	out   spans
	next  u128 // the first address not covered yet
	done  bool // the whole space is covered
}

// add appends a network. Networks come in address order and do not overlap.
func (s *sweep) add(p netip.Prefix, id uint32) error {
	at, n := u128of(p.Addr()), uint8(p.Bits())
	if s.done || at.less(s.next) {
		return fmt.Errorf("network %v overlaps the one before it or is out of order", p)
	}
	s.fill(at, false)
	s.put(at, n, id)
	s.next, s.done = at.after(n)
	return nil
}

// finish fills the rest of the address space.
func (s *sweep) finish() { s.fill(u128{}, true) }

// fill covers the gap up to end, or up to the end of the address space.
func (s *sweep) fill(end u128, toEnd bool) {
	for !s.done && (toEnd || s.next.less(end)) {
		n := s.next.aligned()
		after, wrapped := s.next.after(n)
		for !toEnd && (wrapped || end.less(after)) {
			n++
			after, wrapped = s.next.after(n)
		}
		s.put(s.next, n, s.gap)
		s.next, s.done = after, wrapped
	}
}

// put appends one prefix, cut around the embedded ranges.
func (s *sweep) put(at u128, n uint8, id uint32) {
	if s.v6 && s.carve != nil && nearWrap(at, n) {
		for w := range wraps {
			p := wraps[w].prefix
			wa, wn := u128of(p.Addr()), uint8(p.Bits())
			if n >= wn && shares(at, wa, wn) {
				s.push(span{at: at, bits: n, id: s.carve(id, w)})
				return
			}
			if n < wn && shares(at, wa, n) {
				m := bit(n + 1)
				s.put(at, n+1, id)
				s.put(u128{at.hi | m.hi, at.lo | m.lo}, n+1, id)
				return
			}
		}
	}
	s.push(span{at: at, bits: n, id: id})
}

// nearWrap tells most prefixes from those that may hold an embedded range or lie in one: these begin with 0000, 0064, 2001 or 2002.
func nearWrap(at u128, n uint8) bool {
	top := at.hi >> 48
	return n < 16 || top == 0 || top == 0x64 || top == 0x2001 || top == 0x2002
}

// shares reports whether the first n bits of a and b are the same.
func shares(a, b u128, n uint8) bool {
	x := u128{a.hi ^ b.hi, a.lo ^ b.lo}
	if n <= 64 {
		return n == 0 || x.hi>>(64-n) == 0
	}
	return x.hi == 0 && x.lo>>(128-n) == 0
}

// push appends one prefix and joins halves.
func (s *sweep) push(b span) {
	for s.out.n > 0 {
		a := s.out.at(s.out.n - 1)
		if a.id != b.id || a.bits != b.bits || !halves(a.at, b.at, b.bits) {
			break
		}
		b = span{at: a.at, id: a.id, bits: a.bits - 1}
		s.out.n--
	}
	s.out.push(b)
}

// halves reports whether a and b, of n bits each, are the left and the right half of one prefix.
func halves(a, b u128, n uint8) bool {
	if n == 0 {
		return false
	}
	m := bit(n)
	return a.hi&m.hi == 0 && a.lo&m.lo == 0 && b.hi == a.hi|m.hi && b.lo == a.lo|m.lo
}

// joiner finds how far spans can be joined by a coarser view than their id; it keeps its stack between views.
type joiner struct{ stack []joined }

// joined is a prefix that begins with a span.
type joined struct {
	first uint32 // index of that span
	key   uint32
	bits  uint8
}

// widths gives, for each span, the length of the widest prefix around it in which key[id] is the same everywhere.
func (j *joiner) widths(s *spans, key []uint32) []uint8 {
	if cap(j.stack) < s.n {
		j.stack = make([]joined, 0, s.n)
	}
	stack := j.stack[:0]
	for i := range s.n {
		x := s.at(i)
		b := joined{first: uint32(i), key: key[x.id], bits: x.bits}
		for n := len(stack); n > 0; n = len(stack) {
			a := stack[n-1]
			if a.key != b.key || a.bits != b.bits || !halves(s.at(int(a.first)).at, s.at(int(b.first)).at, b.bits) {
				break
			}
			a.bits--
			b, stack = a, stack[:n-1]
		}
		stack = append(stack, b)
	}
	out := make([]uint8, s.n)
	for i, b := range stack {
		end := s.n
		if i+1 < len(stack) {
			end = int(stack[i+1].first)
		}
		for k := int(b.first); k < end; k++ {
			out[k] = b.bits
		}
	}
	return out
}
