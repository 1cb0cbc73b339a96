package wire

import "encoding/binary"

// Query is what one datagram asks. A worker parses every message into the same Query.
//
// Ownership: Msg and RawName lie in the datagram and live as long as it does; when the reply is built in place they keep
// their content up to QEnd, since header and question stay where they are. Everything else, Name and Cookie too, lies in
// the Query itself and lives until the next Parse. A Query must not be copied.
type Query struct {
	Msg    []byte
	ID     uint16
	Opcode uint8
	RD     bool // recursion desired: copied to the reply
	CD     bool // checking disabled: copied to the reply
	AD     bool

	// The question; RawName and Name are nil and QEnd is HeaderSize when there is none that could be read.
	RawName []byte // as sent
	Name    []byte // lower-cased
	Type    uint16
	Class   uint16
	QEnd    int // offset in Msg just after the question

	// Labels is the number of labels of Name without the root, LabelOffsets where each begins; the entry after the last
	// is the root's. See Suffix.
	Labels       int
	LabelOffsets [MaxLabels + 1]uint8

	// The OPT record. HasOPT is also set when the record is there and its options are damaged: the FORMERR has an OPT
	// record too (RFC 6891 section 7).
	HasOPT  bool
	DO      bool
	Version uint8
	UDPSize uint16 // as sent: values below 512 count as 512 (RFC 6891 section 6.2.3)

	ECS           ECS    // if HasECS
	Cookie        []byte // the client's 8 octets, or those and the server's 8 to 32; nil when there is none
	HasECS        bool
	NSID          bool
	Expire        bool
	Keepalive     bool // of no meaning over UDP (RFC 7828 section 3.3.1)
	Padding       bool
	ReportChannel bool

	// CookieOnly marks a FormErr that a server with cookies answers with NOERROR, its cookie and no question
	// (RFC 7873 section 5.4): a sound message but for its missing question, with a cookie.
	CookieOnly bool

	// TSIG is the offset in Msg of a TSIG record, 0 when there is none. Its place and form are checked, its MAC is not.
	TSIG int

	nameBuf   [256]byte // 256: folded in steps of eight
	cookieBuf [maxCookie]byte
}

// Suffix is Name without its first n labels, for n from 0 (Name) to Labels (the root).
func (q *Query) Suffix(n int) []byte { return q.Name[q.LabelOffsets[n]:] }

// NameWord is the octets 8i to 8i+7 of Name as a little-endian number, zeros for those after its end; 8i must be below its length. To read a name so is quicker than in any other
// way just after Parse, which has written it so.
func (q *Query) NameWord(i int) uint64 { return binary.LittleEndian.Uint64(q.nameBuf[8*i:]) }

// Parse reads msg into q and says what becomes of it. Whatever the status, the header fields are set (but for Drop), and
// so is what could be read of the question and the OPT record, which a reply to a damaged message carries.
//
// FORMERR is the answer to a question that is not exactly one (RFC 9619) or has a compressed, cut or overlong name, to a
// record that is cut or has such an owner, to octets after the last record, and to an OPT or TSIG record that is not
// what its RFC says. Other records, in any section, are passed over; so are unknown options.
func (q *Query) Parse(msg []byte) Status {
	q.Msg = msg
	q.clear()
	if len(msg) < HeaderSize || msg[2]&0x80 != 0 {
		return Drop // RFC 1035 section 4.1.1: not a message, or a response
	}
	q.ID = binary.BigEndian.Uint16(msg)
	q.Opcode = msg[2] >> 3 & 15
	q.RD = msg[2]&0x01 != 0
	q.AD = msg[3]&0x20 != 0
	q.CD = msg[3]&0x10 != 0

	whole := q.body()
	if !whole {
		q.dropOptions()
	}
	switch {
	case q.Opcode != OpQuery && q.Opcode != OpNotify:
		return NotImp // before FORMERR: what follows the header of an unknown opcode is unknown too (RFC 8906 section 8.1.5)
	case !whole:
		return FormErr
	case q.Version != 0:
		return BadVers // RFC 6891 section 6.1.3
	case q.Name == nil:
		q.CookieOnly = q.Opcode == OpQuery && q.Cookie != nil
		return FormErr
	}
	return OK
}

// clear forgets the message before, but for the fields that Parse always sets.
func (q *Query) clear() {
	q.ID, q.Opcode, q.RD, q.CD, q.AD = 0, 0, false, false, false
	q.RawName, q.Name, q.Labels, q.Type, q.Class, q.QEnd = nil, nil, 0, 0, 0, HeaderSize
	q.HasOPT, q.DO, q.Version, q.UDPSize = false, false, 0, 0
	q.CookieOnly, q.TSIG = false, 0
	q.dropOptions()
}

// dropOptions forgets the options: a reply to damaged ones echoes none.
func (q *Query) dropOptions() {
	q.Cookie = nil
	q.HasECS, q.NSID, q.Expire, q.Keepalive, q.Padding, q.ReportChannel = false, false, false, false, false, false
}

// body reads what follows the header. A message without a question can be whole.
func (q *Query) body() bool {
	msg := q.Msg
	switch binary.BigEndian.Uint16(msg[4:]) {
	case 0:
	case 1:
		if !q.question() {
			return false
		}
	default:
		return false // RFC 9619 section 4
	}
	before := int(binary.BigEndian.Uint16(msg[6:])) + int(binary.BigEndian.Uint16(msg[8:]))
	additional := int(binary.BigEndian.Uint16(msg[10:]))
	off := q.QEnd
	for left := before + additional; left > 0; left-- {
		owner := off
		if off < len(msg) && msg[off] == 0 { // the root: an OPT record, nearly always
			off++
		} else {
			off = skipName(msg, off)
		}
		if off < 0 || off+10 > len(msg) {
			return false
		}
		fixed := msg[off : off+10]
		off += 10
		end := off + int(binary.BigEndian.Uint16(fixed[8:]))
		if end > len(msg) {
			return false
		}
		switch binary.BigEndian.Uint16(fixed) {
		case TypeOPT:
			// RFC 6891 section 6.1.1: in the additional section, of the root, once
			if left > additional || msg[owner] != 0 || q.HasOPT {
				return false
			}
			if !q.opt(fixed, msg[off:end]) {
				return false
			}
		case TypeTSIG:
			// RFC 8945 section 5.2: the last record of the additional section
			if left != 1 || additional == 0 || !soundTSIG(fixed, msg[off:end]) {
				return false
			}
			q.TSIG = owner
		}
		off = end
	}
	return off == len(msg)
}

// question reads the one question, RFC 1035 section 4.1.2. Its name cannot be compressed: nothing stands before it.
func (q *Query) question() bool {
	msg := q.Msg
	off, n := HeaderSize, 0
	for {
		if off >= len(msg) {
			return false
		}
		l := int(msg[off])
		if l == 0 {
			break
		}
		if l > MaxLabel || off+1+l >= HeaderSize+MaxName { // >=: the root's octet comes after it
			return false
		}
		q.LabelOffsets[n] = uint8(off - HeaderSize)
		n++
		off += 1 + l
	}
	q.LabelOffsets[n] = uint8(off - HeaderSize)
	off++
	if off+4 > len(msg) {
		return false
	}
	q.Labels = n
	q.RawName = msg[HeaderSize:off:off]
	q.Name = q.nameBuf[:len(q.RawName)]
	fixed := msg[off : off+4]
	q.Type = binary.BigEndian.Uint16(fixed)
	q.Class = binary.BigEndian.Uint16(fixed[2:])
	q.QEnd = off + 4
	fold(q.nameBuf[:], msg[HeaderSize:], len(q.Name))
	return true
}

// fold copies n octets of src to dst, lower-cased, and zeros after them up to a multiple of eight, for which dst must have room. It does so in steps of eight as long as src has them.
func fold(dst, src []byte, n int) {
	i := 0
	for ; i < n && i+8 <= len(src) && i+8 <= len(dst); i += 8 {
		w := lower8(binary.LittleEndian.Uint64(src[i:]))
		if left := n - i; left < 8 {
			w &= 1<<(8*left) - 1
		}
		binary.LittleEndian.PutUint64(dst[i:], w)
	}
	for ; i < n; i++ {
		dst[i] = lower(src[i])
	}
	for ; i&7 != 0; i++ {
		dst[i] = 0
	}
}

// maxPointers is how many a name may go through: as many as miekg/dns allows, and enough for one at each label. It bounds
// the work that a message full of pointers to pointers can cause.
const maxPointers = 126

// skipName passes over the name at off and returns the offset after it, or -1. A pointer must lead to before the labels
// that led to it (RFC 1035 section 4.1.4: a prior occurrence), so that there are no loops, and not into the header.
func skipName(msg []byte, off int) int {
	after := 0         // where reading goes on after the first pointer
	start, n := off, 1 // of the labels being read; octets of the name, with the root's
	pointers := 0
	for off < len(msg) {
		c := int(msg[off])
		switch {
		case c == 0:
			if after == 0 {
				after = off + 1
			}
			return after
		case c <= MaxLabel:
			n += 1 + c
			off += 1 + c
			if n > MaxName {
				return -1
			}
		case c >= 0xc0 && off+1 < len(msg):
			if after == 0 {
				after = off + 2
			}
			off = c&0x3f<<8 | int(msg[off+1])
			pointers++
			if off >= start || off < HeaderSize || pointers > maxPointers {
				return -1
			}
			start = off
		default: // half a pointer, or one of the label types that RFC 6891 section 5 retired
			return -1
		}
	}
	return -1
}

// soundTSIG reports whether a TSIG record can be interpreted (RFC 8945 section 4.2; if not, FORMERR, section 5.2).
func soundTSIG(fixed, rdata []byte) bool {
	if binary.BigEndian.Uint16(fixed[2:]) != ClassANY || binary.BigEndian.Uint32(fixed[4:]) != 0 {
		return false
	}
	off := nameLen(rdata) // the algorithm, never compressed
	if off < 0 || off+10 > len(rdata) {
		return false
	}
	off += 8 // time and fudge
	off += 2 + int(binary.BigEndian.Uint16(rdata[off:]))
	if off+6 > len(rdata) {
		return false
	}
	off += 4 // original ID and error
	off += 2 + int(binary.BigEndian.Uint16(rdata[off:]))
	return off == len(rdata)
}
