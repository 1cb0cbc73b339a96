package transfer

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/edgesteer/edgesteer/filters"
	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// sender writes one zone as messages of up to 64 KiB (RFC 5936 section 2.2), one at a time: it needs one buffer, however large the zone is.
type sender struct {
	out     *Out
	q       *wire.Query
	zone    *zones.Zone
	signer  *Signer // nil: nothing is signed
	current bool    // the client has this version: the SOA alone
	view    *pops.View
	atlas   *geo.Atlas // nil: steered records are left out
	send    func([]byte) error

	b        wire.Builder
	buf      []byte
	open     int // records in the message being written
	messages int
	records  int
	empty    int // steered records that gave nothing
}

func (s *sender) run() error {
	s.buf = make([]byte, wire.MaxMessage)
	s.begin()
	apex, soa := s.zone.Apex(), s.zone.SOA()
	if err := s.rrset(apex, soa); err != nil {
		return err
	}
	if s.current {
		return s.flush()
	}
	for owner, set := range s.zone.RRsets() {
		if set.Type == wire.TypeSOA {
			continue
		}
		if err := s.rrset(owner, set); err != nil {
			return err
		}
	}
	if s.atlas != nil {
		if err := s.steered(); err != nil {
			return err
		}
	}
	if err := s.rrset(apex, soa); err != nil {
		return err
	}
	return s.flush()
}

// begin starts a message.
func (s *sender) begin() {
	limit := wire.MaxMessage
	if s.signer != nil {
		limit -= s.signer.Size()
	}
	s.b.OPT = wire.OPT{}
	s.b.Begin(s.q, s.buf[:0], limit)
	s.b.SetAA(true)
	s.open = 0
}

// flush sends the message.
func (s *sender) flush() error {
	msg := s.b.Finish()
	if s.signer != nil {
		msg = s.signer.Sign(msg)
	}
	s.messages++
	s.records += s.open
	return s.send(msg)
}

// put has write add n records to the message, and if they do not fit to the next one.
func (s *sender) put(what string, write func() (n int, fits bool)) error {
	n, fits := write()
	if !fits && s.open > 0 {
		if err := s.flush(); err != nil {
			return err
		}
		s.begin()
		n, fits = write()
	}
	if !fits {
		return fmt.Errorf("%s does not fit into a message", what)
	}
	s.open += n
	return nil
}

// rrset writes a static rrset; it may be spread over messages.
func (s *sender) rrset(owner []byte, set zones.RRset) error {
	for rdata := range set.RData() {
		err := s.put(zones.TypeString(set.Type)+" record", func() (int, bool) {
			return 1, s.b.Append(wire.Answer, owner, set.Type, wire.ClassIN, set.TTL, rdata)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// steered writes the steered records as what they give at this moment to a client without a place. Where chance decides it decides in the same way for everyone, so that the
// secondaries of a zone are alike. What a record says of all_down does not count: the copy outlives the outage.
func (s *sender) steered() error {
	client := geo.NewClient(netip.Addr{}, 0, netip.IPv4Unspecified()) // an address that is in no database
	for _, rec := range s.zone.Records() {
		x := &filters.Exec{Client: &client, Atlas: s.atlas, View: s.view, QName: rec.Name, Rand: rand.New(rand.NewPCG(0, 0))}
		x.Begin(rec.Pool)
		rec.Candidates(x)
		rec.Chain.Run(x)
		before := s.open
		sent := s.messages
		if err := s.put(rec.String(), func() (int, bool) { return rec.Append(&s.b, rec.Name, false, rec.TTL, x) }); err != nil {
			return err
		}
		if s.open == before && s.messages == sent {
			s.empty++
		}
	}
	return nil
}
