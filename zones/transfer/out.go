package transfer

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// OutConfig is what transfers to others need.
type OutConfig struct {
	Zones      []config.Zone         // those with a transfer table may be had
	Keys       *Keys                 // nil: none
	Log        *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are nowhere to be seen
}

// Out gives zones to secondaries, tells them of changes, and checks the signatures of requests. All methods may be called from any goroutine.
type Out struct {
	log     *slog.Logger
	metrics *outMetrics
	rules   atomic.Pointer[rules]
	now     func() time.Time
	notices notices
}

// rules are who may have what. They are immutable.
type rules struct {
	keys  *Keys
	zones map[string]*policy // wire form, lower case
}

// policy is who may have a zone.
type policy struct {
	allow   []netip.Prefix
	keys    []*key
	keyed   bool // a key is needed, if only one that cannot be used
	steered string
	notify  []netip.AddrPort
}

// NewOut tells nobody of anything before Run.
func NewOut(c OutConfig) (*Out, error) {
	o := &Out{log: c.Log, now: time.Now, metrics: newOutMetrics()}
	if o.log == nil {
		o.log = slog.New(slog.DiscardHandler)
	}
	o.notices = newNotices(o)
	o.Configure(c.Zones, c.Keys)
	if c.Registerer != nil {
		if err := o.metrics.register(c.Registerer); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// Configure takes the zones and keys of a configuration that has been loaded again.
func (o *Out) Configure(list []config.Zone, keys *Keys) {
	r := &rules{keys: keys, zones: map[string]*policy{}}
	for i := range list {
		t, apex := list[i].Transfer, parseName(list[i].Name)
		if t == nil || apex == nil {
			continue
		}
		p := &policy{allow: t.Allow, keyed: len(t.Keys) > 0, steered: t.Steered, notify: t.Notify}
		for _, name := range t.Keys {
			if k := keys.named(name); k != nil {
				p.keys = append(p.keys, k)
			}
		}
		r.zones[string(apex)] = p
	}
	o.rules.Store(r)
}

// Verify checks the TSIG record of a message. The rcode is NOERROR, or what to refuse it with; the Signer ends the answer either way. It is nil if there is no such record, or if
// the record is so damaged that there is nothing to answer to it.
func (o *Out) Verify(msg []byte) (*Signer, uint16) {
	var q wire.Query
	if q.Parse(msg) != wire.OK || q.TSIG == 0 {
		return nil, wire.RCodeFormErr
	}
	s, rcode := o.rules.Load().keys.verify(&q, o.now)
	if rcode != wire.RCodeNoError {
		o.metrics.tsig(s)
		if q.Type == wire.TypeAXFR || q.Type == wire.TypeIXFR {
			o.metrics.refuse(refusedSignature)
		}
	}
	return s, rcode
}

// Transfer takes an AXFR or IXFR for a zone. It gives an rcode to refuse with, or a function that sends the messages of the transfer: each of up to 65,535 octets, until one
// cannot be sent. The zone must be that of the moment which view and atlas belong to; all are used until the function returns.
//
// There are no differences to send: IXFR gets the whole zone, or the SOA alone if the client is current (RFC 1995 section 4).
func (o *Out) Transfer(msg []byte, zone *zones.Zone, from netip.AddrPort, view *pops.View, atlas *geo.Atlas) (func(send func([]byte) error) error, uint16) {
	q := new(wire.Query)
	if q.Parse(msg) != wire.OK || q.Class != wire.ClassIN || q.Type != wire.TypeAXFR && q.Type != wire.TypeIXFR {
		return nil, wire.RCodeFormErr
	}
	r := o.rules.Load()
	var signer *Signer
	if q.TSIG != 0 {
		var rcode uint16
		if signer, rcode = r.keys.verify(q, o.now); rcode != wire.RCodeNoError {
			o.metrics.refuse(refusedSignature)
			return nil, rcode
		}
	}
	p := r.zones[string(zone.Apex())]
	if why := p.refuses(zone, from.Addr().Unmap(), signer); why != "" {
		o.metrics.refuse(why)
		return nil, wire.RCodeRefused
	}
	s := &sender{out: o, q: q, zone: zone, signer: signer}
	if q.Type == wire.TypeIXFR {
		serial, err := clientSerial(msg)
		if err != nil {
			return nil, wire.RCodeFormErr
		}
		s.current = !newer(zone.Serial(), serial)
	}
	if p.steered == "default" {
		s.view, s.atlas = view, atlas
	}
	return func(send func([]byte) error) error { return o.run(s, from, send) }, wire.RCodeNoError
}

// Why transfers are refused.
const (
	refusedZone      = "zone"      // nobody may have it
	refusedAddress   = "address"   // not in allow
	refusedUnsigned  = "unsigned"  // a key is needed
	refusedKey       = "key"       // a good signature, but another key
	refusedSignature = "signature" // an unknown key or a bad signature
	refusedSteered   = "steered"   // the zone has steered records, and nothing says what becomes of them
)

// refuses gives the reason not to give a zone to a client, "" if there is none.
func (p *policy) refuses(zone *zones.Zone, from netip.Addr, signer *Signer) string {
	switch {
	case p == nil || len(p.allow) == 0 && !p.keyed:
		return refusedZone
	case len(p.allow) > 0 && !slices.ContainsFunc(p.allow, func(n netip.Prefix) bool { return n.Contains(from) }):
		return refusedAddress
	case p.keyed && signer == nil:
		return refusedUnsigned
	case p.keyed && !slices.Contains(p.keys, signer.key):
		return refusedKey
	case len(zone.Records()) > 0 && p.steered == "":
		return refusedSteered
	}
	return ""
}

// clientSerial is the serial of the client's version, which an IXFR has in its authority section (RFC 1995 section 3).
func clientSerial(msg []byte) (uint32, error) {
	var m dns.Msg
	if err := m.Unpack(msg); err != nil {
		return 0, err
	}
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return soa.Serial, nil
		}
	}
	return 0, errors.New("IXFR without SOA")
}

// run sends a zone and says how it went.
func (o *Out) run(s *sender, to netip.AddrPort, send func([]byte) error) error {
	begun := o.now()
	s.send = send
	err := s.run()
	log := o.log.With("zone", s.zone.String(), "to", to, "serial", s.zone.Serial())
	if s.signer != nil {
		log = log.With("key", s.signer.key.text)
	}
	switch {
	case err != nil:
		o.metrics.sent.WithLabelValues(sentFailed).Inc()
		log.Warn("zone transfer broke off", "records", s.records, "err", err)
		return fmt.Errorf("transfer of zone %s: %w", s.zone, err)
	case s.current:
		o.metrics.sent.WithLabelValues(sentCurrent).Inc()
	default:
		o.metrics.sent.WithLabelValues(sentWhole).Inc()
		log.Info("zone sent", "records", s.records, "messages", s.messages, "took", o.now().Sub(begun).Round(time.Millisecond))
	}
	if s.empty > 0 {
		log.Warn("steered records have nothing for a client without a place, and were left out", "records", s.empty)
	}
	return nil
}
