package server

import (
	"bytes"

	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// Names of class CH (RFC 4892), in wire form.
var (
	hostnameBind  = []byte("\x08hostname\x04bind\x00")
	idServer      = []byte("\x02id\x06server\x00")
	versionBind   = []byte("\x07version\x04bind\x00")
	versionServer = []byte("\x07version\x06server\x00")
)

// chaos answers the questions of class CH that tell servers apart, as far as the configuration allows.
func (h *Handler) chaos() {
	text := ""
	switch {
	case bytes.Equal(h.q.Name, hostnameBind), bytes.Equal(h.q.Name, idServer):
		text = h.cfg.Hostname
	case bytes.Equal(h.q.Name, versionBind), bytes.Equal(h.q.Name, versionServer):
		text = h.cfg.Version
	}
	if text == "" || h.q.Type != wire.TypeTXT && h.q.Type != wire.TypeANY {
		h.refuse()
		return
	}
	h.kind = kindChaos
	h.b.SetAA(true)
	rdata := h.names[0][:1+min(len(text), wire.MaxName-1)]
	rdata[0] = byte(copy(rdata[1:], text))
	h.b.Append(wire.Answer, h.q.Name, wire.TypeTXT, wire.ClassCH, 0, rdata)
}

// verify has the TSIG record of a message checked, if it has one and somebody knows keys, and gives the rcode to refuse it with.
func (h *Handler) verify(status wire.Status) uint16 {
	h.signer = nil
	if h.q.TSIG == 0 || status != wire.OK || h.cfg.Messages == nil {
		return wire.RCodeNoError
	}
	var rcode uint16
	h.signer, rcode = h.cfg.Messages.Verify(bytes.Clone(h.q.Msg))
	return rcode
}

// sign ends an answer with a TSIG record. One that leaves no room for it is sent without content: the sender asks again over TCP.
func (h *Handler) sign(out []byte) []byte {
	if len(out)+h.signer.Size() > h.limit() {
		h.begin()
		h.b.SetRCode(h.rcode)
		h.b.Truncate()
		out = h.b.Finish()
	}
	return h.signer.Sign(out)
}

// notify hands a change notice to who keeps secondary zones.
func (h *Handler) notify() {
	h.kind = kindOther
	if h.cfg.Messages == nil || h.q.Class != wire.ClassIN {
		h.fail(wire.RCodeNotImp)
		h.kind = kindError
		return
	}
	// The answer may be written over the message, which is needed whole.
	rcode := h.cfg.Messages.Notify(bytes.Clone(h.q.Msg), h.q.Name, h.peer)
	h.fail(rcode)
	h.b.SetAA(rcode == wire.RCodeNoError)
}

// meta answers questions for types that no record has: zone transfers, and those that make no sense as a question.
func (h *Handler) meta() {
	switch h.q.Type {
	case wire.TypeAXFR, wire.TypeIXFR:
		h.transferZone()
	case wire.TypeMAILA, wire.TypeMAILB:
		h.fail(wire.RCodeNotImp)
	default:
		h.fail(wire.RCodeFormErr)
	}
}

// transferZone begins a zone transfer. Over UDP there is none: AXFR is not defined there (RFC 5936 section 4.2), IXFR is answered by the SOA alone, which sends a
// secondary that is behind to TCP (RFC 1995 section 2).
func (h *Handler) transferZone() {
	zone := h.snap.Zones.Zone(h.q.Name)
	switch {
	case !h.peer.Transport.Stream() && h.q.Type == wire.TypeAXFR:
		h.fail(wire.RCodeFormErr)
	case zone == nil:
		h.fail(wire.RCodeNotAuth) // RFC 5936 section 2.2.1
	case !h.peer.Transport.Stream():
		h.soa(zone)
	case h.cfg.Messages == nil:
		h.refuseTransfer(wire.RCodeRefused)
	default:
		transfer, rcode := h.cfg.Messages.Transfer(bytes.Clone(h.q.Msg), zone, h.peer)
		if transfer == nil {
			h.refuseTransfer(rcode)
			return
		}
		h.stats.add(statTransfer)
		h.transfer = transfer
	}
}

func (h *Handler) soa(zone *zones.Zone) {
	h.kind = kindStatic
	h.b.SetAA(true)
	if !zone.SOA().Append(&h.b, wire.Answer, h.q.Name, true) {
		h.b.Truncate()
	}
}

func (h *Handler) refuseTransfer(rcode uint16) {
	h.fail(rcode)
	h.kind = kindRefused
	h.b.OPT.HasEDE, h.b.OPT.EDE = true, wire.EDEProhibited
}
