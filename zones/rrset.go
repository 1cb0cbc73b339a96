package zones

import (
	"encoding/binary"
	"iter"

	"github.com/edgesteer/edgesteer/zones/wire"
)

// fixed is the octets of a packed record before its rdata: pointer, type, class, TTL and length.
const fixed = 12

// RRset is a view of a static rrset. It lies in its zone and must not be changed.
type RRset struct {
	Type   uint16
	Count  int
	TTL    uint32 // seconds; one for all records (RFC 2181 section 5.2)
	packed []byte // Count records with the owner 0xC00C
}

// pack appends a record with the owner 0xC00C, a pointer to the question's name.
func pack(dst []byte, typ uint16, ttl uint32, rdata []byte) []byte {
	dst = append(dst, 0xc0, wire.HeaderSize)
	dst = binary.BigEndian.AppendUint16(dst, typ)
	dst = binary.BigEndian.AppendUint16(dst, wire.ClassIN)
	dst = binary.BigEndian.AppendUint32(dst, ttl)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(rdata)))
	return append(dst, rdata...)
}

// next splits packed records into the rdata of the first and the rest.
func next(packed []byte) (rdata, rest []byte) {
	end := fixed + int(binary.BigEndian.Uint16(packed[fixed-2:]))
	return packed[fixed:end], packed[end:]
}

// First is the rdata of the first record.
func (s RRset) First() []byte {
	rdata, _ := next(s.packed)
	return rdata
}

// RData yields the rdata of each record, uncompressed.
func (s RRset) RData() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := s.packed; len(rest) > 0; {
			var rdata []byte
			if rdata, rest = next(rest); !yield(rdata) {
				return
			}
		}
	}
}

// Target is the name that a CNAME or DNAME points to, in lower case: what to look up next.
func (s RRset) Target() []byte { return s.First() }

// Append writes the whole rrset or, if it does not fit, nothing. own says that owner is the name of the question; with it, records of types whose names may not be
// compressed are copied as they are.
func (s RRset) Append(b *wire.Builder, sec wire.Section, owner []byte, own bool) bool {
	return s.append(b, sec, owner, own, s.TTL)
}

func (s RRset) append(b *wire.Builder, sec wire.Section, owner []byte, own bool, ttl uint32) bool {
	if own && ttl == s.TTL && !compressible(s.Type) {
		return b.AppendPacked(sec, s.Count, s.packed)
	}
	mark := b.Mark()
	for rest := s.packed; len(rest) > 0; {
		var rdata []byte
		rdata, rest = next(rest)
		if !b.Append(sec, owner, s.Type, wire.ClassIN, ttl, rdata) {
			b.Rollback(mark)
			return false
		}
	}
	return true
}

// compressible reports whether names in rdata of this type may be compressed: the types of RFC 1035 (RFC 3597 section 4).
func compressible(typ uint16) bool {
	switch typ {
	case wire.TypeNS, wire.TypeMD, wire.TypeMF, wire.TypeCNAME, wire.TypeSOA, wire.TypeMB, wire.TypeMG, wire.TypeMR, wire.TypePTR, wire.TypeMINFO, wire.TypeMX:
		return true
	}
	return false
}

// targetOf is the name in the rdata of types that point to a host or an alias, nil for all others and for rdata without a whole name there. fold gives it in place, so
// that a builder can lower-case it.
func targetOf(typ uint16, rdata []byte) []byte {
	skip := 0
	switch typ {
	case wire.TypeNS, wire.TypeCNAME, wire.TypeDNAME:
	case wire.TypeMX, wire.TypeSVCB, wire.TypeHTTPS:
		skip = 2
	case wire.TypeSRV:
		skip = 6
	default:
		return nil
	}
	for i := skip; i < len(rdata) && i-skip < wire.MaxName; i += 1 + int(rdata[i]) {
		if rdata[i] > wire.MaxLabel {
			return nil
		}
		if rdata[i] == 0 {
			return rdata[skip : i+1]
		}
	}
	return nil
}
