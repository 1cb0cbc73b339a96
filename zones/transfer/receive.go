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
	packed  []byte // space for one record
}

func newReceiver(apex []byte, id uint16, v *verifier) *receiver {
	return &receiver{apex: apex, id: id, verify: v, limit: maxZone, b: zones.NewBuilder(apex), packed: make([]byte, 1<<17)}
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
	rr, next, err := dns.UnpackRR(msg, off)
	if err != nil {
		return 0, fmt.Errorf("record %d: %w", r.records+1, err)
	}
	r.records++
	h := rr.Header()
	if r.done {
		return 0, fmt.Errorf("records after the closing SOA")
	}
	if h.Class != dns.ClassINET {
		return 0, fmt.Errorf("record %d is of class %s", r.records, dns.Class(h.Class))
	}
	n, err := dns.PackRR(rr, r.packed, 0, nil, false)
	if err != nil {
		return 0, fmt.Errorf("record %d: %w", r.records, err)
	}
	owner, rdata := split(r.packed[:n])
	if len(rdata) == 0 && !mayBeEmpty(h.Rrtype) {
		return 0, fmt.Errorf("%s %s has no record data", h.Name, zones.TypeString(h.Rrtype))
	}
	switch {
	case r.soa == nil:
		if h.Rrtype != dns.TypeSOA || !wire.EqualFold(owner, r.apex) {
			return 0, fmt.Errorf("first record is %s %s, not the zone's SOA", h.Name, zones.TypeString(h.Rrtype))
		}
		r.soa = bytes.Clone(rdata)
	case h.Rrtype == dns.TypeSOA && wire.EqualFold(owner, r.apex):
		if !bytes.Equal(rdata, r.soa) {
			return 0, errors.New("the closing SOA differs from the first")
		}
		r.done = true
		return next, nil
	}
	ttl := h.Ttl
	if ttl > math.MaxInt32 { // RFC 2181 section 8: taken as 0
		ttl = 0
	}
	r.b.Add(owner, h.Rrtype, ttl, rdata)
	return next, nil
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
