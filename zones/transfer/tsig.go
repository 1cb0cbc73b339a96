package transfer

import (
	"bytes"
	"crypto/hmac"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"time"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/zones/wire"
)

// TSIG, RFC 8945, on messages as octets: those of a transfer are large, and each is hashed as it is sent.

// fudge is how far apart two clocks may be, in seconds (RFC 8945 section 10).
const fudge = 300

// maxUnsigned is how many messages of a transfer may come between two signed ones (RFC 8945 section 5.3.1).
const maxUnsigned = 99

// Errors of TSIG, RFC 8945 section 3.
const (
	badSig   = 16
	badKey   = 17
	badTime  = 18
	badTrunc = 22
)

// Signer ends messages with a TSIG record: the answers to one request, or one request. It is not safe for concurrent use.
type Signer struct {
	key             *key // nil: the record says an error and has no MAC (RFC 8945 section 5.3.2)
	name, algorithm []byte
	prior           []byte // the MAC of the request, then of the last message; nil before a request
	later           bool   // the first message has been signed: the MAC of others covers of the record only its times (section 5.3.1)
	fault           uint16 // TSIG error to tell
	asked           uint64 // with badTime: when the client, by its own clock, signed
	now             func() time.Time
}

// newSigner signs a request.
func newSigner(k *key, now func() time.Time) *Signer {
	return &Signer{key: k, name: k.name, algorithm: k.algorithm, now: now}
}

// Size is how many octets Sign appends to a message.
func (s *Signer) Size() int {
	n := len(s.name) + 10 + len(s.algorithm) + 16
	if s.key != nil {
		n += s.key.hash().Size()
	}
	if s.fault == badTime {
		n += 6
	}
	return n
}

// Sign appends a TSIG record to a whole message, in place if its capacity allows.
func (s *Signer) Sign(msg []byte) []byte {
	at, other := uint64(s.now().Unix()), []byte(nil)
	if s.fault == badTime { // the client's time, so that it believes the answer, and ours
		at, other = s.asked, appendTime(nil, at)
	}
	var mac []byte
	if s.key != nil {
		h := s.key.mac()
		writeMAC(h, s.prior)
		h.Write(msg)
		h.Write(variables(s.name, s.algorithm, at, fudge, s.fault, other, s.later))
		mac = h.Sum(nil)
	}
	id := [2]byte(msg)
	msg = append(msg, s.name...)
	msg = append(msg, 0, byte(wire.TypeTSIG), 0, byte(wire.ClassANY), 0, 0, 0, 0)
	msg = binary.BigEndian.AppendUint16(msg, uint16(len(s.algorithm)+16+len(mac)+len(other)))
	msg = append(msg, s.algorithm...)
	msg = appendTime(msg, at)
	msg = binary.BigEndian.AppendUint16(msg, fudge)
	msg = binary.BigEndian.AppendUint16(msg, uint16(len(mac)))
	msg = append(msg, mac...)
	msg = append(msg, id[:]...)
	msg = binary.BigEndian.AppendUint16(msg, s.fault)
	msg = binary.BigEndian.AppendUint16(msg, uint16(len(other)))
	msg = append(msg, other...)
	binary.BigEndian.PutUint16(msg[10:], binary.BigEndian.Uint16(msg[10:])+1)
	s.prior, s.later = mac, true
	return msg
}

// appendTime appends seconds since 1970 as 48 bits.
func appendTime(b []byte, t uint64) []byte {
	return append(b, byte(t>>40), byte(t>>32), byte(t>>24), byte(t>>16), byte(t>>8), byte(t))
}

// writeMAC hashes the MAC of the message before, with its length (RFC 8945 section 4.3.1); nil if there is none.
func writeMAC(h hash.Hash, mac []byte) {
	if mac != nil {
		h.Write([]byte{byte(len(mac) >> 8), byte(len(mac))})
		h.Write(mac)
	}
}

// variables are what a MAC covers of the record itself (RFC 8945 section 4.3.3), or of a later message of a transfer (section 5.3.1).
func variables(name, algorithm []byte, at uint64, fudge, fault uint16, other []byte, later bool) []byte {
	if later {
		return binary.BigEndian.AppendUint16(appendTime(nil, at), fudge)
	}
	b := append([]byte(nil), name...)
	b = append(b, 0, byte(wire.ClassANY), 0, 0, 0, 0)
	b = append(b, algorithm...)
	b = binary.BigEndian.AppendUint16(appendTime(b, at), fudge)
	b = binary.BigEndian.AppendUint16(b, fault)
	b = binary.BigEndian.AppendUint16(b, uint16(len(other)))
	return append(b, other...)
}

// verifier checks the messages that come from one side of an exchange.
type verifier struct {
	key   *key
	prior []byte    // the MAC before; nil for a request
	later bool      // the first message was good
	open  hash.Hash // of messages since the last signed one, begun with prior; nil: none
	since int       // how many they are
	now   func() time.Time
}

// answerTo checks the answers to what a Signer has signed last.
func answerTo(s *Signer) *verifier {
	return &verifier{key: s.key, prior: s.prior, now: s.now}
}

// fault is a TSIG error.
type fault uint16

func (f fault) Error() string {
	switch f {
	case badSig:
		return "TSIG: bad signature (BADSIG)"
	case badKey:
		return "TSIG: unknown key (BADKEY)"
	case badTime:
		return "TSIG: clocks differ (BADTIME)"
	case badTrunc:
		return "TSIG: signature is cut (BADTRUNC)"
	}
	return fmt.Sprintf("TSIG: error %d", uint16(f))
}

// errMAC is a MAC of a length that makes no sense (RFC 8945 section 5.2.2.1).
var errMAC = errors.New("TSIG: malformed signature")

// errUnsigned is a message that should have been signed.
var errUnsigned = errors.New("TSIG: message is not signed")

// check verifies a message whose last record, at start, is t. It undoes in msg what the record changed there. The error is a fault or errMAC.
func (v *verifier) check(msg []byte, t *dns.TSIG, start int) error {
	mac, err := hex.DecodeString(t.MAC)
	if err != nil || v.key == nil || !bytes.Equal(parseName(t.Hdr.Name), v.key.name) || !bytes.Equal(parseName(t.Algorithm), v.key.algorithm) {
		return fault(badKey)
	}
	other, err := hex.DecodeString(t.OtherData)
	if err != nil {
		return errMAC
	}
	binary.BigEndian.PutUint16(msg, t.OrigId)
	binary.BigEndian.PutUint16(msg[10:], binary.BigEndian.Uint16(msg[10:])-1)
	h := v.begin()
	h.Write(msg[:start])
	h.Write(variables(v.key.name, v.key.algorithm, t.TimeSigned, t.Fudge, t.Error, other, v.later))
	want := h.Sum(nil)
	switch {
	case len(mac) > len(want) || len(mac) < max(10, len(want)/2):
		if t.Error != 0 { // no MAC: the other side could not make one
			return fault(t.Error)
		}
		return errMAC
	case !hmac.Equal(mac, want[:len(mac)]):
		return fault(badSig)
	case len(mac) < len(want): // good so far, but nobody needs it
		return fault(badTrunc)
	}
	v.prior, v.later, v.open, v.since = mac, true, nil, 0
	if now := uint64(v.now().Unix()); max(now, t.TimeSigned)-min(now, t.TimeSigned) > uint64(t.Fudge) {
		return fault(badTime)
	}
	if t.Error != 0 {
		return fault(t.Error)
	}
	return nil
}

// pass takes a message of a transfer that is not signed: the next MAC covers it. The first must be signed, and each hundredth.
func (v *verifier) pass(msg []byte) error {
	if v.since++; !v.later || v.since > maxUnsigned {
		return errUnsigned
	}
	v.open = v.begin()
	v.open.Write(msg)
	return nil
}

func (v *verifier) begin() hash.Hash {
	if v.open != nil {
		return v.open
	}
	h := v.key.mac()
	writeMAC(h, v.prior)
	return h
}

// verify checks the TSIG record of a request that q has parsed. The rcode is NOERROR, or what RFC 8945 section 5.2 wants it refused with; the Signer ends the answer either way,
// but for FORMERR.
func (k *Keys) verify(q *wire.Query, now func() time.Time) (*Signer, uint16) {
	msg := append([]byte(nil), q.Msg...)
	rr, _, err := dns.UnpackRR(msg, q.TSIG)
	t, ok := rr.(*dns.TSIG)
	if err != nil || !ok {
		return nil, wire.RCodeFormErr
	}
	v := verifier{key: k.named(t.Hdr.Name), now: now}
	err = v.check(msg, t, q.TSIG)
	if err == nil {
		return &Signer{key: v.key, name: v.key.name, algorithm: v.key.algorithm, prior: v.prior, now: now}, wire.RCodeNoError
	}
	f, ok := errors.AsType[fault](err)
	if !ok || t.Error != 0 {
		return nil, wire.RCodeFormErr
	}
	s := &Signer{name: parseName(t.Hdr.Name), algorithm: parseName(t.Algorithm), fault: uint16(f), asked: t.TimeSigned, now: now}
	if s.name == nil || s.algorithm == nil {
		return nil, wire.RCodeFormErr
	}
	if f == badTime || f == badTrunc { // the client has the key: it may have a signed answer
		s.key = v.key
		s.prior, _ = hex.DecodeString(t.MAC) // check has decoded it, too
	}
	return s, wire.RCodeNotAuth
}
