package transfer

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// Dialer opens connections to primaries; *net.Dialer is one.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// primary is a server that a zone comes from.
type primary struct {
	addr    netip.AddrPort
	key     *key // nil: nothing is signed
	keyName string
	timeout time.Duration
}

// errBehind is a primary with an older version than that at hand.
var errBehind = errors.New("primary has an older version")

// fetcher asks primaries.
type fetcher struct {
	dial Dialer
	now  func() time.Time
}

// fetch asks a primary for the serial of a zone and, if it is newer than have's, for the zone. It gives nil when have (which may be nil) is current. Both questions go over one TCP
// connection.
func (f *fetcher) fetch(ctx context.Context, p *primary, apex []byte, have *zones.Zone) (*zones.Zone, error) {
	if p.keyName != "" && p.key == nil {
		return nil, fmt.Errorf("key %s cannot be used", p.keyName)
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	conn, err := f.dial.DialContext(ctx, "tcp", p.addr.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	z, err := f.ask(conn, p, apex, have)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("transfer is not complete after %s: %w", p.timeout, ctx.Err())
	}
	return z, err
}

func (f *fetcher) ask(conn net.Conn, p *primary, apex []byte, have *zones.Zone) (*zones.Zone, error) {
	stream := bufio.NewReaderSize(conn, 1<<16)
	query := func(typ uint16) (id uint16, v *verifier, err error) {
		id = uint16(rand.Uint32())
		v, err = f.query(conn, p, id, apex, typ)
		return id, v, err
	}
	id, v, err := query(dns.TypeSOA)
	if err != nil {
		return nil, err
	}
	msg, err := readFrame(stream, make([]byte, wire.MaxMessage))
	if err != nil {
		return nil, fmt.Errorf("asking for the SOA: %w", err)
	}
	serial, err := soaAnswer(msg, id, apex, v)
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking for the SOA: %w", err)
	case have != nil && serial == have.Serial():
		return nil, nil
	case have != nil && !newer(serial, have.Serial()):
		return nil, fmt.Errorf("%w: serial %d, here %d", errBehind, serial, have.Serial())
	}
	if id, v, err = query(dns.TypeAXFR); err != nil {
		return nil, err
	}
	z, err := newReceiver(apex, id, v).receive(stream)
	switch {
	case err != nil:
		return nil, fmt.Errorf("transfer: %w", err)
	case have != nil && !newer(z.Serial(), have.Serial()): // it has changed its mind in between
		return nil, fmt.Errorf("%w: serial %d, here %d", errBehind, z.Serial(), have.Serial())
	}
	return z, nil
}

// query sends a question, signed if the primary has a key, and gives the verifier of its answers.
func (f *fetcher) query(conn net.Conn, p *primary, id uint16, apex []byte, typ uint16) (*verifier, error) {
	msg := make([]byte, 2, 512)
	msg = binary.BigEndian.AppendUint16(msg, id)
	msg = append(msg, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	msg = append(msg, apex...)
	msg = binary.BigEndian.AppendUint16(msg, typ)
	msg = binary.BigEndian.AppendUint16(msg, wire.ClassIN)
	var v *verifier
	if p.key != nil {
		s := newSigner(p.key, f.now)
		msg = append(msg[:2], s.Sign(msg[2:])...)
		v = answerTo(s)
	}
	binary.BigEndian.PutUint16(msg, uint16(len(msg)-2))
	_, err := conn.Write(msg)
	return v, err
}

// soaAnswer checks the answer to a question for the SOA and gives the serial.
func soaAnswer(msg []byte, id uint16, apex []byte, v *verifier) (uint32, error) {
	off, err := checkHeader(msg, id, wire.OpQuery, apex, wire.TypeSOA)
	if _, refused := errors.AsType[rcodeError](err); err != nil && !refused {
		return 0, err
	}
	var serial *uint32
	answers, authority, additional := counts(msg)
	for range answers {
		rr, next, e := dns.UnpackRR(msg, off)
		if e != nil {
			return 0, e
		}
		if soa, ok := rr.(*dns.SOA); ok && string(parseName(soa.Hdr.Name)) == string(apex) {
			serial = &soa.Serial
		}
		off = next
	}
	t, start, e := last(msg, off, authority+additional)
	switch {
	case e != nil:
		return 0, e
	case v != nil && t == nil:
		return 0, errors.Join(err, errUnsigned)
	case v != nil:
		if e = v.check(msg, t, start); e != nil {
			return 0, e
		}
	}
	switch {
	case err != nil:
		return 0, err
	case msg[2]&0x04 == 0:
		return 0, errors.New("primary is not authoritative")
	case serial == nil:
		return 0, errors.New("answer has no SOA")
	}
	return *serial, nil
}

// newer reports whether serial a comes after b (RFC 1982 section 3.2).
func newer(a, b uint32) bool { return int32(a-b) > 0 }
