package server

import (
	"encoding/binary"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/edgesteer/edgesteer/filters"
	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// Question is what somebody wants explained: a query as a resolver would send it.
type Question struct {
	Name   []byte       // wire form
	Type   uint16       // query type
	Subnet netip.Prefix // client subnet option; the zero Prefix: none
	Sender netip.Addr   // whose datagram it is
}

// Explanation is one answer and all that led to it. It was recorded by the handler while it answered; there is no second implementation of steering.
type Explanation struct {
	Snapshot *Snapshot
	Message  []byte     // the whole answer
	Client   geo.Client // who asked, as the last steered record saw it; of a static answer, as a steered record would see it
	Scope    uint8
	Links    []Link
}

// Link is one record on the way to an answer.
type Link struct {
	Owner  []byte
	Result zones.Result
	// Of a steered record: what its filters did and what they gave.
	Steps   []filters.TraceStep
	List    []filters.Candidate
	Rung    uint8
	Ignored bool
	Bits    uint8
	// Possible are the answers that chance could have given, by number in the pool; AtMost says that some of them may never be given.
	Possible []uint16
	AtMost   bool
}

// recorder collects the links of an answer; the steps of a steered one come from its chain.
type recorder struct {
	links []Link
	trace filters.Trace
}

func (r *recorder) link(name []byte, result *zones.Result) {
	r.links = append(r.links, Link{Owner: slices.Clone(name), Result: *result})
	r.trace.Steps = nil
}

func (r *recorder) steered(rec *zones.Record, x *filters.Exec) {
	l := &r.links[len(r.links)-1]
	y := filters.Exec{Client: x.Client, Atlas: x.Atlas, View: x.View, QName: x.QName}
	y.Begin(rec.Pool)
	rec.Candidates(&y)
	answers, exact := rec.Chain.Possible(&y)
	l.Possible, l.AtMost = answers, !exact
	l.Steps, l.List, l.Rung, l.Ignored, l.Bits = r.trace.Steps, slices.Clone(x.List), x.Rung, x.Ignored, x.Bits()
}

// Explain answers a question with a snapshot and says why. It allocates, and counts nowhere.
func Explain(s *Snapshot, q Question) *Explanation {
	p := new(Publisher)
	p.current.Store(s)
	h := NewHandlers(HandlerConfig{Publisher: p, MaxUDP: wire.MaxMessage, Now: func() time.Time { return s.View.At }}).New()
	h.trace = new(recorder)
	h.exec.Trace = &h.trace.trace
	peer := Peer{Addr: netip.AddrPortFrom(q.Sender, 0), Transport: TCP}
	e := &Explanation{Snapshot: s}
	e.Message = slices.Clone(h.Handle(q.message(), make([]byte, math.MaxUint16), &peer))
	if h.client.Addr.IsValid() {
		e.Client = h.client
	} else {
		e.Client = geo.NewClient(q.Subnet.Masked().Addr(), uint8(max(0, q.Subnet.Bits())), q.Sender)
	}
	e.Scope, e.Links = h.b.OPT.Scope, h.trace.links
	return e
}

// message is the question as a resolver sends it.
func (q *Question) message() []byte {
	m := []byte{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1}
	m = append(m, q.Name...)
	m = binary.BigEndian.AppendUint16(m, q.Type)
	m = binary.BigEndian.AppendUint16(m, wire.ClassIN)
	m = append(m, 0)
	m = binary.BigEndian.AppendUint16(m, wire.TypeOPT)
	m = binary.BigEndian.AppendUint16(m, wire.DefaultUDPSize)
	m = append(m, 0, 0, 0, 0)
	if !q.Subnet.IsValid() {
		return append(m, 0, 0)
	}
	subnet := q.Subnet.Masked()
	family := uint16(1)
	if subnet.Addr().Is6() {
		family = 2
	}
	octets := (subnet.Bits() + 7) / 8
	m = binary.BigEndian.AppendUint16(m, uint16(8+octets))
	m = binary.BigEndian.AppendUint16(m, wire.OptionECS)
	m = binary.BigEndian.AppendUint16(m, uint16(4+octets))
	m = binary.BigEndian.AppendUint16(m, family)
	m = append(m, uint8(subnet.Bits()), 0)
	return append(m, subnet.Addr().AsSlice()[:octets]...)
}
