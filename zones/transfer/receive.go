package transfer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// maxZone is how many octets of messages one transfer may have.
const maxZone = 1 << 30

// receiver reads the answer to an AXFR query, message by message (RFC 5936 section 2.2), and makes the zone of it. Nothing of a transfer is used before its last message is
// there and every signature was good.
type receiver struct {
	apex   []byte // wire form, lower case
	id     uint16
	verify *verifier // nil: nothing is signed
	limit  int       // octets of all messages

	b       *zones.Builder
	soa     []byte // rdata of the first record
	done    bool   // it came again
	signed  bool   // the last message was signed
	records int
	packed  []byte // maxPacked, for one record
}

func newReceiver(apex []byte, id uint16, v *verifier) *receiver {
	return &receiver{apex: apex, id: id, verify: v, limit: maxZone, b: zones.NewBuilder(apex), packed: make([]byte, maxPacked)}
}

// receive reads from a stream until the transfer is complete.
func (r *receiver) receive(stream io.Reader) (*zones.Zone, error) {
	buf := make([]byte, wire.MaxMessage)
	for octets := 0; !r.done; {
		msg, err := readFrame(stream, buf)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("reading: %w", err)
		}
		if octets += len(msg); octets > r.limit {
			return nil, fmt.Errorf("more than %d octets", r.limit)
		}
		if err := r.message(msg); err != nil {
			return nil, err
		}
	}
	if r.verify != nil && !r.signed {
		return nil, errUnsigned
	}
	z, faults := r.b.Build()
	if z == nil {
		return nil, faultError(faults)
	}
	return z, nil
}

// faultError is the first fault that forbids to serve a zone, and how many there are.
func faultError(faults []zones.Fault) error {
	var first string
	n := 0
	for _, f := range faults {
		if f.Warning {
			continue
		}
		if n++; n == 1 {
			first = f.Message
		}
	}
	if n > 1 {
		return fmt.Errorf("%s, and %d more", first, n-1)
	}
	return errors.New(first)
}

// readFrame reads a message of a stream into buf (RFC 1035 section 4.2.2).
func readFrame(stream io.Reader, buf []byte) ([]byte, error) {
	var n [2]byte
	if _, err := io.ReadFull(stream, n[:]); err != nil {
		return nil, err
	}
	msg := buf[:binary.BigEndian.Uint16(n[:])]
	if _, err := io.ReadFull(stream, msg); err != nil {
		return nil, err
	}
	return msg, nil
}

// message takes one message of the transfer.
func (r *receiver) message(msg []byte) error {
	off, err := checkHeader(msg, r.id, wire.OpQuery, r.apex, wire.TypeAXFR)
	if err != nil {
		return err
	}
	answers, other, additional := counts(msg)
	for range answers {
		if off, err = r.record(msg, off); err != nil {
			return err
		}
	}
	t, start, err := last(msg, off, other+additional)
	if err != nil {
		return err
	}
	return r.signature(msg, t, start)
}

// signature checks the TSIG record t of a message, which begins at start; nil if it has none.
func (r *receiver) signature(msg []byte, t *dns.TSIG, start int) error {
	r.signed = t != nil
	switch {
	case r.verify == nil:
		return nil
	case t == nil:
		return r.verify.pass(msg)
	}
	return r.verify.check(msg, t, start)
}

// record takes one record of the answer section.
func (r *receiver) record(msg []byte, off int) (int, error) {
	r.records++
	rr, next, err := readRecord(msg, off, r.packed)
	if err != nil {
		return 0, fmt.Errorf("record %d: %w", r.records, err)
	}
	if r.done {
		return 0, fmt.Errorf("records after the closing SOA")
	}
	if rr.class != wire.ClassIN {
		return 0, fmt.Errorf("record %d is of class %s", r.records, dns.Class(rr.class))
	}
	if len(rr.rdata) == 0 && !mayBeEmpty(rr.typ) {
		return 0, fmt.Errorf("%s %s has no record data", wire.NameString(rr.owner), zones.TypeString(rr.typ))
	}
	switch {
	case r.soa == nil:
		if rr.typ != dns.TypeSOA || !wire.EqualFold(rr.owner, r.apex) {
			return 0, fmt.Errorf("first record is %s %s, not the zone's SOA", wire.NameString(rr.owner), zones.TypeString(rr.typ))
		}
		r.soa = bytes.Clone(rr.rdata)
	case rr.typ == dns.TypeSOA && wire.EqualFold(rr.owner, r.apex):
		if !bytes.Equal(rr.rdata, r.soa) {
			return 0, errors.New("the closing SOA differs from the first")
		}
		r.done = true
		return next, nil
	}
	ttl := rr.ttl
	if ttl > math.MaxInt32 { // RFC 2181 section 8: taken as 0
		ttl = 0
	}
	r.b.Add(rr.owner, rr.typ, ttl, rr.rdata)
	return next, nil
}

// record is a record in wire form, without compression.
type record struct {
	owner      []byte
	typ, class uint16
	ttl        uint32
	rdata      []byte
}

// readRecord reads the record at off in a message, and gives the offset behind it. It lies in msg and buf, which has maxPacked octets. Data is taken as it is (RFC 3597 section 3), be it
// what miekg/dns has other ideas of, but for types whose names may be compressed.
func readRecord(msg []byte, off int, buf []byte) (rr record, next int, err error) {
	name, off, err := dns.UnpackDomainName(msg, off)
	if err != nil {
		return rr, 0, err
	}
	n, err := dns.PackDomainName(name, buf, 0, nil, false)
	if err != nil {
		return rr, 0, err
	}
	if off+10 > len(msg) {
		return rr, 0, io.ErrUnexpectedEOF
	}
	fixed := msg[off:]
	rr = record{owner: buf[:n], typ: binary.BigEndian.Uint16(fixed), class: binary.BigEndian.Uint16(fixed[2:]), ttl: binary.BigEndian.Uint32(fixed[4:])}
	off += 10
	next = off + int(binary.BigEndian.Uint16(fixed[8:]))
	if next > len(msg) {
		return rr, 0, io.ErrUnexpectedEOF
	}
	rr.rdata = msg[off:next]
	if !mayCompress(rr.typ) || len(rr.rdata) == 0 {
		return rr, next, nil
	}
	h := dns.RR_Header{Name: ".", Rrtype: rr.typ, Class: rr.class, Rdlength: uint16(next - off)}
	parsed, end, err := dns.UnpackRRWithHeader(h, msg[:next], off)
	if err != nil {
		return rr, 0, err
	}
	if end != next {
		return rr, 0, fmt.Errorf("octets after the data of a %s record", zones.TypeString(rr.typ))
	}
	size, err := dns.PackRR(parsed, buf[n:], 0, nil, false)
	if err != nil {
		return rr, 0, err
	}
	_, rr.rdata = split(buf[n : n+size])
	return rr, next, nil
}

// maxPacked is room for a name, and behind it for any packed record and what the packer would write past it.
const maxPacked = 1<<17 + wire.MaxName

// mayCompress reports whether a sender may have compressed names in the data of a type: those of RFC 1035, and what some compressed before RFC 3597 (section 4), or RFC 6672, forbade it.
func mayCompress(typ uint16) bool {
	switch typ {
	case dns.TypeNS, dns.TypeMD, dns.TypeMF, dns.TypeCNAME, dns.TypeSOA, dns.TypeMB, dns.TypeMG, dns.TypeMR, dns.TypePTR, dns.TypeMINFO, dns.TypeMX,
		dns.TypeRP, dns.TypeAFSDB, dns.TypeRT, dns.TypeSIG, dns.TypePX, dns.TypeSRV, dns.TypeNAPTR, dns.TypeKX, dns.TypeDNAME:
		return true
	}
	return false
}

// split takes a packed record apart.
func split(rr []byte) (owner, rdata []byte) {
	end := 0
	for rr[end] != 0 {
		end += 1 + int(rr[end])
	}
	end++
	return rr[:end], rr[end+10:]
}

// mayBeEmpty reports whether record data of no octets makes sense: in types that we do not know, and in few that we do.
func mayBeEmpty(typ uint16) bool {
	_, known := dns.TypeToRR[typ]
	return !known || typ == dns.TypeNULL || typ == dns.TypeAPL
}

// counts are the numbers of records of a message: answers, authority, additional.
func counts(msg []byte) (answers, authority, additional int) {
	return int(binary.BigEndian.Uint16(msg[6:])), int(binary.BigEndian.Uint16(msg[8:])), int(binary.BigEndian.Uint16(msg[10:]))
}

// rcodeError is a response code other than NOERROR.
type rcodeError int

func (e rcodeError) Error() string { return "answer is " + dns.RcodeToString[int(e)] }

// checkHeader checks that msg is an answer to a question; transfers may leave it out after the first message. It gives the offset of the first record. An rcodeError comes with it, too.
func checkHeader(msg []byte, id uint16, opcode uint8, name []byte, typ uint16) (off int, err error) {
	if len(msg) < wire.HeaderSize {
		return 0, errors.New("message is shorter than a header")
	}
	switch {
	case binary.BigEndian.Uint16(msg) != id:
		return 0, errors.New("answer has another ID")
	case msg[2]&0x80 == 0 || msg[2]>>3&15 != opcode:
		return 0, errors.New("message is no answer")
	case msg[2]&0x02 != 0:
		return 0, errors.New("answer is truncated")
	}
	off = wire.HeaderSize
	switch binary.BigEndian.Uint16(msg[4:]) {
	case 0:
	case 1:
		asked, next, err := dns.UnpackDomainName(msg, off)
		if err != nil || next+4 > len(msg) {
			return 0, errors.New("question is cut")
		}
		if !bytes.Equal(parseName(asked), name) || binary.BigEndian.Uint16(msg[next:]) != typ || binary.BigEndian.Uint16(msg[next+2:]) != wire.ClassIN {
			return 0, errors.New("answer is to another question")
		}
		off = next + 4
	default:
		return 0, errors.New("answer has several questions")
	}
	if rcode := msg[3] & 15; rcode != 0 {
		return off, rcodeError(rcode)
	}
	return off, nil
}

// last passes over n records and gives the last one if it is a TSIG record, with the offset where it begins. It must end the message.
func last(msg []byte, off, n int) (t *dns.TSIG, start int, err error) {
	for range n {
		if t != nil {
			return nil, 0, errors.New("records after TSIG")
		}
		rr, next, err := dns.UnpackRR(msg, off)
		if err != nil {
			return nil, 0, err
		}
		t, _ = rr.(*dns.TSIG)
		start, off = off, next
	}
	if off != len(msg) {
		return nil, 0, errors.New("octets after the last record")
	}
	return t, start, nil
}
