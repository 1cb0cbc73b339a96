package server

import (
	"hash/maphash"
	"math"
	"net/netip"
	"slices"

	"github.com/edgesteer/edgesteer/server/dnstap"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// maxLinks is how many CNAMEs and DNAMEs of its own zone an answer follows.
const maxLinks = 8

// Handle answers one message: the whole data path, from octets to octets. The answer is written into buf, which may be the memory of msg; its capacity must be at least 512
// octets and bounds the answer. nil means that there is no answer to give: silence, or a zone transfer to run (see Transfer).
func (h *Handler) Handle(msg, buf []byte, p *Peer) []byte {
	h.peer, h.buf, h.transfer = p, buf, nil
	h.kind, h.rcode, h.account = kindError, wire.RCodeNoError, nil
	h.stats.start()
	if h.tap != nil {
		h.tap.Query(msg, p.Addr, dnstap.Protocol(p.Transport)+dnstap.UDP)
	}
	status := h.q.Parse(msg)
	if status == wire.Drop {
		h.stats.add(statDropped)
		return nil
	}
	h.options()
	refused := wire.RCodeNoError
	if h.q.TSIG != 0 || h.signer != nil {
		refused = h.verify(status)
	}
	h.begin()
	switch {
	case h.q.CookieOnly && len(h.b.OPT.Cookie) > 0: // asks for nothing but a cookie (RFC 7873 section 5.4)
		h.kind = kindOther
	case status != wire.OK:
		h.fail(status.RCode())
	case refused != wire.RCodeNoError:
		h.fail(refused)
	case h.q.Opcode == wire.OpNotify:
		h.notify()
	case h.q.Class == wire.ClassCH:
		h.chaos()
	case h.q.Type < wire.TypeA, h.q.Type == wire.TypeOPT, h.q.Type >= wire.TypeTKEY && h.q.Type < wire.TypeANY:
		h.meta()
	default:
		h.resolve()
	}
	if h.transfer != nil {
		return nil
	}
	out := h.admit(len(msg), h.b.Finish())
	if h.signer != nil && out != nil {
		out = h.sign(out)
	}
	if h.tap != nil && out != nil {
		h.tap.Response(out)
	}
	return out
}

// resolve finds what the name is and writes the answer, following the aliases of its zone.
func (h *Handler) resolve() {
	q, b := &h.q, &h.b
	name, r := q.Name, h.recent.Lookup(h.snap.Zones, q)
	h.account = q.Name
	if r.Wild || r.Kind == zones.Rename { // else each invented name below it had an account of its own
		h.account = r.Owner()
	}
	var next zones.Result
	renames := 0
	for link := 0; ; link++ {
		own := link == 0
		if h.trace != nil {
			h.trace.link(name, r)
		}
		b.SetAA(true)
		switch r.Kind {
		case zones.Refused:
			if own {
				h.refuse()
			}
			return // an alias to elsewhere stands alone
		case zones.Referral:
			if own {
				h.refer(r)
			} else {
				h.lead(r)
			}
			return // nothing is followed past a zone cut
		case zones.NoData:
			h.negative(r, kindNoData, math.MaxUint32)
			return
		case zones.NXDomain:
			h.fail(wire.RCodeNXDomain)
			h.negative(r, kindNXDomain, math.MaxUint32)
			return
		case zones.Rename:
			target, ok := r.Rename(h.names[link%2][:0], name)
			if !ok { // RFC 6672 section 2.2: YXDOMAIN, with the DNAME that made it so
				h.fail(wire.RCodeYXDomain)
				h.kind = kindStatic
				if !r.RRset.Append(b, wire.Answer, r.Owner(), false) {
					b.Truncate()
				}
				return
			}
			h.kind = kindStatic
			if !r.AppendRename(b, name, target, h.written(&renames, r.Owner())) {
				b.Truncate()
				return
			}
			if q.Type == wire.TypeCNAME || q.Type == wire.TypeANY {
				return
			}
			name = target
		default: // Answer, Alias
			var ok bool
			if r.Record != nil {
				ok = h.steer(r, name, own)
			} else if ok = h.static(r, name, own); ok && r.Kind == zones.Alias {
				name = r.RRset.Target()
			}
			if !ok || r.Kind == zones.Answer {
				return
			}
			if r.Record != nil {
				name = r.Record.Target(&h.exec)
			}
		}
		if link == maxLinks {
			return // the resolver asks on from here
		}
		if h.seen(link, name) {
			h.restart(wire.RCodeServFail)
			h.b.OPT.HasEDE, h.b.OPT.EDE, h.b.OPT.EDEText = true, wire.EDEOther, "CNAME loop"
			return
		}
		next = h.snap.Zones.Follow(r.Zone, name, q.Type)
		r = &next
	}
}

// static writes a static rrset and what it points to. False: it did not fit.
func (h *Handler) static(r *zones.Result, name []byte, own bool) bool {
	h.kind = kindStatic
	if !r.RRset.Append(&h.b, wire.Answer, name, own) {
		h.b.Truncate()
		return false
	}
	if r.Kind == zones.Answer {
		r.Zone.AppendAdditional(&h.b, r.RRset, name)
	}
	return true
}

// steer runs a record's chain for the client and writes what it gave. False: the answer is complete as it is, there is nothing further to follow.
func (h *Handler) steer(r *zones.Result, name []byte, own bool) bool {
	rec, x := r.Record, &h.exec
	h.kind = kindSteered
	h.who(rec)
	x.Client, x.Atlas, x.View, x.QName = &h.client, h.snap.Atlas, h.snap.View, h.q.Name
	x.Begin(rec.Pool)
	rec.Candidates(x)
	rec.Chain.Run(x)
	if h.client.ECS {
		h.b.OPT.Scope = max(h.b.OPT.Scope, x.Bits())
	}
	if x.Ignored {
		h.stats.add(statShedIgnored)
	}
	if x.BySender {
		h.stats.add(statECSUnlocated)
	}
	if h.samples != nil {
		h.samples.add(rec, &h.client)
	}
	if h.trace != nil {
		h.trace.steered(rec, x)
	}
	withheld := rec.Withheld(x)
	if withheld == zones.GiveServFail {
		h.stats.add(statRung + stat(x.Rung))
		h.restart(wire.RCodeServFail)
		return false
	}
	n, whole := 0, true
	if withheld == zones.Serve {
		n, whole = rec.Append(&h.b, name, own, h.ttl(rec), x)
	}
	switch {
	case !whole:
		h.stats.add(statRung + stat(x.Rung))
		h.b.Truncate()
		return false
	case n == 0:
		h.stats.add(statRung + stat(x.Rung))
		h.negative(r, kindNoData, rec.TTL)
		return false
	}
	switch {
	case h.stats.off:
	case len(x.List) == 1:
		h.units.add(rec.Pool.Answers[x.List[0].Serve].Unit, x.Rung, oneAnswer)
	default:
		h.units.share(rec, x)
	}
	return true
}

// ttl is the record's TTL, or the lower one that it wants while the share of any of its answers is about to change.
func (h *Handler) ttl(rec *zones.Record) uint32 {
	if rec.TTLMin < rec.TTL {
		for i := range rec.Pool.Answers {
			if u := rec.Pool.Answers[i].Unit; u >= 0 && h.snap.View.States[u].Moving {
				return rec.TTLMin
			}
		}
	}
	return rec.TTL
}

// who fills in the client: the client subnet if the record uses it, else the sender.
func (h *Handler) who(rec *zones.Record) {
	if h.q.HasECS && !rec.Sender {
		h.client.Set(h.q.ECS.Addr, h.q.ECS.Source, h.peer.Addr.Addr())
	} else {
		h.client.Set(netip.Addr{}, 0, h.peer.Addr.Addr())
	}
}

// negative writes the SOA of NODATA or NXDOMAIN. After an alias the code is that of its target (RFC 6604).
func (h *Handler) negative(r *zones.Result, k kind, ttl uint32) {
	h.kind = k
	h.account = r.Zone.Apex()
	if !r.Zone.AppendNegative(&h.b, ttl) {
		h.b.Truncate()
	}
}

// refer sends the asker to the servers of a delegated zone.
func (h *Handler) refer(r *zones.Result) {
	h.kind = kindReferral
	h.account = r.Owner()
	h.b.SetAA(false)
	if !r.AppendReferral(&h.b) {
		h.b.Truncate()
	}
}

// lead says beside an alias whose servers have its target (RFC 1034 section 4.3.2 step 3b): if there is room, for the alias is the answer.
func (h *Handler) lead(r *zones.Result) {
	mark := h.b.Mark()
	if !r.AppendReferral(&h.b) {
		h.b.Rollback(mark)
	}
}

// refuse says that the name is in no zone of ours.
func (h *Handler) refuse() {
	h.fail(wire.RCodeRefused)
	h.kind = kindRefused
	h.account = nil // one account for all such names: they are the sender's invention
	h.b.SetAA(false)
	h.b.OPT.HasEDE, h.b.OPT.EDE = true, wire.EDENotAuth
}

// written reports whether the DNAME of an owner is in the answer already, and remembers it; n is how many are.
func (h *Handler) written(n *int, owner []byte) bool {
	hash := maphash.Bytes(h.seed, owner)
	if slices.Contains(h.dnames[:*n], hash) {
		return true
	}
	h.dnames[*n] = hash
	*n++
	return false
}

// seen reports whether a name that an alias led to was on the way here already, and remembers it. Names are compared by hash: a way is at most nine names long.
func (h *Handler) seen(link int, name []byte) bool {
	if link == 0 {
		h.way[0] = maphash.Bytes(h.seed, h.q.Name)
	}
	next := maphash.Bytes(h.seed, name)
	h.way[link+1] = next
	return slices.Contains(h.way[:link+1], next)
}

// fail sets the response code.
func (h *Handler) fail(rcode uint16) {
	h.rcode = rcode
	h.b.SetRCode(rcode)
}

// restart throws away what was written and answers with an error.
func (h *Handler) restart(rcode uint16) {
	h.begin()
	h.kind = kindError
	h.fail(rcode)
	h.b.SetAA(false)
}
