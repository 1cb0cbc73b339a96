package server

import (
	"github.com/edgesteer/edgesteer/zones/wire"
)

// padBlock is what answers over encrypted transports are padded to (RFC 8467 section 4.1).
const padBlock = 468

// options decides what the OPT record of the answer says, and whether the sender's address is proven.
func (h *Handler) options() {
	q, o := &h.q, &h.b.OPT
	*o = wire.OPT{UDPSize: uint16(h.cfg.MaxUDP), NSID: h.cfg.NSID}
	h.verified = h.peer.Transport.Stream()
	if q.Keepalive && (h.peer.Transport == TCP || h.peer.Transport == DoT) {
		o.HasKeepalive, o.Keepalive = true, h.peer.IdleTimeout
	}
	if q.Padding && h.peer.Transport.Secure() {
		o.Pad = padBlock
	}
	h.stats.add(askedCell(q.Type, subnetOf(q), h.checkCookie()))
}

func subnetOf(q *wire.Query) subnet {
	switch {
	case !q.HasECS:
		return subnetNone
	case q.ECS.Source == 0:
		return subnetZero
	case q.ECS.Family == 1:
		return subnet4
	}
	return subnet6
}

// checkCookie reads the query's cookie, puts one into the answer (RFC 7873 section 5.2) and says what it was. A cookie that is not good is no reason to refuse: the sender gets a good one and
// is treated like one that has none.
func (h *Handler) checkCookie() cookieKind {
	got := h.q.Cookie
	switch {
	case got == nil:
		return cookieNone
	case len(h.cookies.secrets) == 0:
		return cookieIgnored
	}
	kind := cookieInvalid
	sender, now := h.peer.Addr.Addr(), uint32(h.clock/1000)
	valid, renew := h.cookies.check(got, sender, now)
	switch {
	case valid:
		kind = cookieValid
		h.verified = true
	case len(got) == clientCookieLen:
		kind = cookieClient
	}
	copy(h.cookie[:], got)
	if renew {
		h.cookies.sign(&h.cookie, sender, now)
	}
	h.b.OPT.Cookie = h.cookie[:]
	return kind
}

// begin starts the answer, with as much room as the sender may get.
func (h *Handler) begin() { h.b.Begin(&h.q, h.buf, h.limit()) }

// limit is how many octets the answer may have (RFC 6891 section 6.2.3).
func (h *Handler) limit() int {
	switch {
	case h.peer.Transport.Stream():
		return wire.MaxMessage
	case !h.q.HasOPT:
		return wire.MinLimit
	}
	limit := min(max(int(h.q.UDPSize), wire.MinLimit), h.cfg.MaxUDP)
	if !h.verified {
		limit = min(limit, h.cfg.MaxUnverified)
	}
	return limit
}

// admit counts an answer and decides whether it may be sent: over UDP, to a sender whose address is not proven, answers of one kind are limited. What is over the limit is
// dropped, or now and then sent without content, so that a real client can prove itself: by the cookie that comes with it, or over TCP.
func (h *Handler) admit(asked int, out []byte) []byte {
	if !h.verified {
		switch h.ration(asked, out) {
		case drop:
			h.stats.add(statLimited)
			return nil
		case slip:
			h.stats.add(statSlipped)
			if len(h.b.OPT.Cookie) > 0 {
				h.restart(wire.RCodeBadCookie)
			} else {
				h.begin()
				h.b.Truncate()
			}
			out = h.b.Finish()
		}
	}
	h.stats.add(answerCell(h.peer, h.kind, h.rcode))
	if out[2]&0x02 != 0 {
		h.stats.add(statTruncated)
	}
	h.stats.end()
	return out
}

// ration asks the rate limiter, for answers that are worth a forged query: errors, negative answers, referrals, and positive ones more than twice as long as the query.
func (h *Handler) ration(asked int, out []byte) verdict {
	c := classError
	switch h.kind {
	case kindStatic, kindSteered, kindChaos, kindOther:
		if len(out) <= 2*asked {
			return pass
		}
		c = classPositive
	case kindNoData, kindNXDomain:
		c = classNegative
	case kindReferral:
		c = classReferral
	}
	return h.limiter.limit(h.peer.Addr.Addr(), h.account, c, uint64(h.clock))
}
