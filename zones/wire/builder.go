package wire

import "encoding/binary"

// Section is where in a response a record stands.
type Section uint8

// The sections, in their order on the wire.
const (
	Answer Section = iota
	Authority
	Additional
)

// Builder writes one response at a time, front to back. A worker uses the same Builder for every response; the zero
// value is ready.
//
// Ownership: the response is written to the start of the buffer that Begin gets, and Finish returns that memory. The
// buffer may be the datagram's own (buf[:0] of q.Msg's memory): ID and question are then where they belong already, and
// all that is needed later has been copied into q by Parse. Nothing else may overlap it, no owner or rdata but
// q.RawName, and no slice in OPT. From Begin on, q.Msg and its octets after QEnd are gone, a TSIG record too, and q must
// stay unchanged until Finish has returned.
type Builder struct {
	// OPT is what the response's OPT record says. Assign the whole struct before Begin, so that nothing of the response
	// before stays behind; Scope and the extended error may be set up to Finish.
	OPT OPT

	q      *Query
	buf    []byte  // of the length that the response may have
	off    int     // octets written
	room   int     // octets that records may fill: the OPT record has the rest
	counts uint64  // records, by section, 16 bits each
	sec    Section // of the last record
	rcode  uint16
	aa, tc bool
	names  names
}

// Begin starts the response to q: its header and its question as sent, letter for letter. It may be called again for
// the same query, to start over.
//
// The response will have at most limit octets, OPT record included: for UDP the lesser of what the client takes and what
// the server wants to send, MaxMessage otherwise. The capacity of buf counts too, whatever its length. Both must be at
// least MinLimit, which leaves room for every question with the OPT record, its client subnet and its cookie.
func (b *Builder) Begin(q *Query, buf []byte, limit int) {
	limit = min(limit, cap(buf), MaxMessage)
	if limit < MinLimit {
		panic("wire: room for a response is below 512 octets")
	}
	b.q = q
	b.buf = buf[:limit]
	b.off = q.QEnd
	if &b.buf[0] != &q.Msg[0] { // not in place
		copy(b.buf, q.Msg[:q.QEnd])
	}
	b.room = limit - b.optReserve()
	b.counts = 0
	b.sec, b.rcode, b.aa, b.tc = Answer, RCodeNoError, false, false
	b.names.reset()
}

// SetRCode sets the response code, NOERROR if it is not called. What exceeds 15 goes to the OPT record; to a query
// without one such a code cannot be said and becomes SERVFAIL.
func (b *Builder) SetRCode(rcode uint16) { b.rcode = rcode }

// SetAA sets or clears the flag for an authoritative answer.
func (b *Builder) SetAA(aa bool) { b.aa = aa }

// Truncate sets TC: something that belongs to the answer was left out (RFC 2181 section 9). What stays in is up to the caller.
func (b *Builder) Truncate() { b.tc = true }

// Len is the number of octets written so far, without the OPT record.
func (b *Builder) Len() int { return b.off }

// Append writes a record. Its owner is compressed; owner may be the query's own name, q.Name or q.RawName, and comes out
// as a pointer to the question, in the letters that the client sent. rdata is uncompressed; names in it are compressed
// for the types of RFC 1035 only (RFC 3597 section 4).
//
// False means that the record does not fit and nothing was written. The same goes for a section before that of the last
// record and for an owner that is no name: mistakes of the caller.
func (b *Builder) Append(sec Section, owner []byte, typ, class uint16, ttl uint32, rdata []byte) bool {
	m := b.Mark()
	if sec < b.sec || !b.putName(owner) || b.off+10 > b.room {
		b.Rollback(m)
		return false
	}
	fixed := b.buf[b.off : b.off+10]
	binary.BigEndian.PutUint16(fixed, typ)
	binary.BigEndian.PutUint16(fixed[2:], class)
	binary.BigEndian.PutUint32(fixed[4:], ttl)
	b.off += 10
	start := b.off
	if !b.putRData(typ, rdata) {
		b.Rollback(m)
		return false
	}
	binary.BigEndian.PutUint16(fixed[8:], uint16(b.off-start))
	b.counts += 1 << (16 * sec)
	b.sec = sec
	return true
}

// AppendPacked writes n records that were packed before: each with the owner 0xC00C, a pointer to the question's name,
// and without compression in its rdata. It reports whether they fit; if not, none is written.
func (b *Builder) AppendPacked(sec Section, n int, rrs []byte) bool {
	if sec < b.sec || !b.put(rrs) {
		return false
	}
	b.counts += uint64(n) << (16 * sec)
	b.sec = sec
	return true
}

// Mark is a point in a response to come back to.
type Mark struct {
	off, names int
	counts     uint64
	sec        Section
}

// Mark returns the point reached. It is good for the response being built.
func (b *Builder) Mark() Mark { return Mark{b.off, b.names.n, b.counts, b.sec} }

// Rollback removes every record written after the mark. Flags and OPT stay as they are.
func (b *Builder) Rollback(m Mark) {
	b.off, b.counts, b.sec = m.off, m.counts, m.sec
	b.names.forget(m.names)
}

// Finish writes the OPT record and the header and returns the response, which lies in Begin's buffer.
func (b *Builder) Finish() []byte {
	q, rcode := b.q, b.rcode
	additional := uint16(b.counts >> (16 * Additional))
	if q.HasOPT {
		b.putOPT(rcode)
		additional++
	} else if rcode > 15 {
		rcode = RCodeServFail
	}
	h := b.buf[:HeaderSize]
	binary.BigEndian.PutUint16(h, q.ID)
	h[2] = 0x80 | q.Opcode<<3 | bit(b.aa)<<2 | bit(b.tc)<<1 | bit(q.RD)
	h[3] = bit(q.CD)<<4 | byte(rcode&15) // RA, Z and AD are off
	binary.BigEndian.PutUint16(h[4:], uint16(bit(q.Name != nil)))
	binary.BigEndian.PutUint16(h[6:], uint16(b.counts))
	binary.BigEndian.PutUint16(h[8:], uint16(b.counts>>(16*Authority)))
	binary.BigEndian.PutUint16(h[10:], additional)
	return b.buf[:b.off]
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// put copies octets if they fit into the room for records.
func (b *Builder) put(octets []byte) bool {
	if b.off+len(octets) > b.room {
		return false
	}
	b.off += copy(b.buf[b.off:], octets)
	return true
}

// putRData writes rdata, with its names compressed where the type allows it. Octets where a name should be and none is
// are copied as they are.
func (b *Builder) putRData(typ uint16, rdata []byte) bool {
	skip, names := namesOf(typ)
	if names == 0 {
		return b.put(rdata)
	}
	skip = min(skip, len(rdata))
	if !b.put(rdata[:skip]) {
		return false
	}
	for rdata = rdata[skip:]; names > 0; names-- {
		n := nameLen(rdata)
		if n < 0 {
			break
		}
		if !b.putName(rdata[:n]) {
			return false
		}
		rdata = rdata[n:]
	}
	return b.put(rdata)
}

// namesOf says where in the rdata of a type of RFC 1035 names stand that may be compressed: after how many octets, and
// how many in a row.
func namesOf(typ uint16) (skip, names int) {
	switch typ {
	case TypeNS, TypeMD, TypeMF, TypeCNAME, TypeMB, TypeMG, TypeMR, TypePTR:
		return 0, 1
	case TypeSOA, TypeMINFO:
		return 0, 2
	case TypeMX:
		return 2, 1
	}
	return 0, 0
}
