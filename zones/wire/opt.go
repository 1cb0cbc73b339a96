package wire

import "encoding/binary"

const (
	optFixed   = 11 // an OPT record without options
	optionHead = 4  // code and length
)

// OPT is what the OPT record of a response says, besides what follows from the query: version 0, DO as asked, the client
// subnet mirrored, the upper bits of the response code. Without an OPT record in the query there is none in the response
// and all of this is left aside (RFC 6891 section 7).
//
// Room is set aside for everything but the extended error and padding, which must not push out records; they are written
// where there is room left. Client subnet and cookie always fit into 512 octets, a long NSID may not.
type OPT struct {
	UDPSize uint16 // what the server takes, at least 512; 0: DefaultUDPSize

	// Scope is the scope prefix-length of the client subnet, in bits. It is sent as 0 when the source length is 0, and as
	// no more than the family's length.
	Scope uint8

	// Cookie is the client's 8 octets and the server's 8 to 32; empty: no cookie is sent.
	Cookie []byte

	// NSID is the server's name, sent if the query asked for it; empty: never.
	NSID []byte

	HasKeepalive bool   // TCP only
	Keepalive    uint16 // idle time-out in units of 100 ms (RFC 7828 section 3.1)

	HasEDE  bool
	EDE     uint16 // RFC 8914 section 4
	EDEText string // UTF-8; left out when only the code fits

	// Pad is the block length to which the response is padded, 468 by RFC 8467 section 4.1; 0: no padding. The last block
	// ends at the limit when there is no room for a whole one.
	Pad int
}

// optReserve is the room that Begin sets aside. A long NSID can make it more than there is.
func (b *Builder) optReserve() int {
	q, o := b.q, &b.OPT
	if !q.HasOPT {
		return 0
	}
	n := optFixed
	if q.HasECS {
		n += optionHead + 4 + q.ECS.octets()
	}
	if len(o.Cookie) > 0 {
		n += optionHead + len(o.Cookie)
	}
	if o.HasKeepalive {
		n += optionHead + 2
	}
	if q.NSID && len(o.NSID) > 0 {
		n += optionHead + len(o.NSID)
	}
	return n
}

// putOPT writes the OPT record. From here on the whole buffer is room.
func (b *Builder) putOPT(rcode uint16) {
	q, o := b.q, &b.OPT
	b.room = len(b.buf)
	start := b.off
	r := b.buf[start : start+optFixed]
	r[0] = 0 // the root
	binary.BigEndian.PutUint16(r[1:], TypeOPT)
	size := o.UDPSize
	if size == 0 {
		size = DefaultUDPSize
	}
	binary.BigEndian.PutUint16(r[3:], max(size, MinLimit))
	r[5] = byte(rcode >> 4)
	r[6] = 0 // version
	r[7] = bit(q.DO) << 7
	r[8] = 0
	b.off += optFixed
	if q.HasECS {
		b.putECS(&q.ECS, o.Scope)
	}
	if len(o.Cookie) > 0 {
		if d := b.option(OptionCookie, len(o.Cookie)); d != nil {
			copy(d, o.Cookie)
		}
	}
	if o.HasKeepalive {
		if d := b.option(OptionKeepalive, 2); d != nil {
			binary.BigEndian.PutUint16(d, o.Keepalive)
		}
	}
	if q.NSID && len(o.NSID) > 0 {
		if d := b.option(OptionNSID, len(o.NSID)); d != nil {
			copy(d, o.NSID)
		}
	}
	if o.HasEDE {
		b.putEDE(o.EDE, o.EDEText)
	}
	if o.Pad > 0 {
		b.pad(o.Pad)
	}
	binary.BigEndian.PutUint16(r[9:], uint16(b.off-start-optFixed))
}

// option writes the head of an option and returns the place of its data, nil when it does not fit.
func (b *Builder) option(code uint16, n int) []byte {
	if b.off+optionHead+n > b.room {
		return nil
	}
	d := b.buf[b.off : b.off+optionHead+n]
	binary.BigEndian.PutUint16(d, code)
	binary.BigEndian.PutUint16(d[2:], uint16(n))
	b.off += len(d)
	return d[optionHead:]
}

// putECS mirrors the client subnet: family, source length and address as they came (RFC 7871 section 7.2.1).
func (b *Builder) putECS(e *ECS, scope uint8) {
	d := b.option(OptionECS, 4+e.octets())
	if d == nil {
		return
	}
	binary.BigEndian.PutUint16(d, e.Family)
	d[2] = e.Source
	switch {
	case e.Source == 0:
		d[3] = 0
	case e.Family == 1:
		d[3] = min(scope, 32)
		a := e.Addr.As4()
		copy(d[4:], a[:])
	default:
		d[3] = min(scope, 128)
		a := e.Addr.As16()
		copy(d[4:], a[:])
	}
}

// octets is the length of the address in the option: what the source length covers.
func (e *ECS) octets() int { return (int(e.Source) + 7) / 8 }

// putEDE writes an extended error, with its text if that fits too.
func (b *Builder) putEDE(code uint16, text string) {
	d := b.option(OptionEDE, 2+len(text))
	if d == nil {
		d = b.option(OptionEDE, 2)
	}
	if d != nil {
		binary.BigEndian.PutUint16(d, code)
		copy(d[2:], text)
	}
}

// pad fills the response up to a multiple of block octets, or to the limit if that comes first.
func (b *Builder) pad(block int) {
	n := min((b.off+optionHead+block-1)/block*block, b.room) - b.off - optionHead
	if n >= 0 {
		clear(b.option(OptionPadding, n))
	}
}
