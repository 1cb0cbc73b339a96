package zones

import (
	"bytes"

	"github.com/edgesteer/edgesteer/zones/wire"
)

// AppendNegative writes the SOA of a negative answer into the authority section, with a TTL of at most limit: the lower of the SOA's TTL and its MINIMUM (RFC 2308
// section 3), or less if limit is. It reports whether it fitted.
func (z *Zone) AppendNegative(b *wire.Builder, limit uint32) bool {
	return z.soa.append(b, wire.Authority, z.apex, false, min(z.negative, limit))
}

// AppendReferral writes the NS rrset of the cut and the addresses of its servers that the zone knows. It reports whether everything fitted that must be there: the NS rrset
// and the addresses of servers below the cut; if not, the answer is truncated (RFC 9471 section 3.1). Addresses of other servers are left out when there is no room.
func (r *Result) AppendReferral(b *wire.Builder) bool {
	z := r.Zone
	n := &z.nodes[r.node]
	ns, ok := z.static(n, wire.TypeNS)
	cut := z.nameOf(n)
	if !ok || !ns.Append(b, wire.Authority, cut, false) {
		return false
	}
	whole := z.glue(b, ns, r.node, true)
	z.glue(b, ns, r.node, false)
	return whole
}

// glue writes the addresses of those servers of a cut that lie below it, or of those that do not, where they are names of the zone. False: some did not fit.
func (z *Zone) glue(b *wire.Builder, s RRset, cut int32, below bool) bool {
	whole := true
	for rest := s.packed; len(rest) > 0; {
		before := s.packed[:len(s.packed)-len(rest)]
		var rdata []byte
		rdata, rest = next(rest)
		i := z.get(targetOf(s.Type, rdata))
		if i == none || (z.nodes[i].top == cut) != below || targets(s.Type, before, rdata) {
			continue
		}
		whole = z.appendAddresses(b, i) && whole
	}
	return whole
}

// targets reports whether one of the packed records has the same target as rdata: its addresses are there already.
func targets(typ uint16, packed, rdata []byte) bool {
	for len(packed) > 0 {
		var other []byte
		other, packed = next(packed)
		if bytes.Equal(targetOf(typ, other), targetOf(typ, rdata)) {
			return true
		}
	}
	return false
}

// appendAddresses writes the static A and AAAA rrsets of a node into the additional section. False: one did not fit.
func (z *Zone) appendAddresses(b *wire.Builder, i int32) bool {
	whole := true
	n := &z.nodes[i]
	sets := z.setsOf(n)
	for j := range sets {
		if s := &sets[j]; s.count > 0 && (s.typ == wire.TypeA || s.typ == wire.TypeAAAA) {
			whole = z.rrset(s).Append(b, wire.Additional, z.nameOf(n), false) && whole
		}
	}
	return whole
}

// AppendAdditional writes, as far as there is room, the addresses of the hosts that an answer's NS, MX, SRV, SVCB or HTTPS records point to (RFC 1034 section 4.3.2 step 6,
// RFC 2782, RFC 9460 section 4.1), where this zone has them: static ones, no wildcards, and of names below a cut those of name servers only. owner is the owner of the
// rrset, which a target "." of SVCB and HTTPS stands for.
func (z *Zone) AppendAdditional(b *wire.Builder, s RRset, owner []byte) {
	for rest := s.packed; len(rest) > 0; {
		before := s.packed[:len(s.packed)-len(rest)]
		var rdata []byte
		rdata, rest = next(rest)
		z.additional(b, s.Type, before, rdata, owner)
	}
}

func (z *Zone) additional(b *wire.Builder, typ uint16, before, rdata, owner []byte) {
	target := targetOf(typ, rdata)
	if target == nil || typ == wire.TypeCNAME || typ == wire.TypeDNAME {
		return
	}
	if len(target) == 1 && (typ == wire.TypeSVCB || typ == wire.TypeHTTPS) && rdata[0]|rdata[1] != 0 {
		target = owner
	}
	i := z.get(target)
	if i == none || z.nodes[i].top != none && typ != wire.TypeNS || targets(typ, before, rdata) {
		return
	}
	z.appendAddresses(b, i)
}

// Rename appends to dst the name that the DNAME of a Rename makes of name: its labels below the DNAME's owner, and the target (RFC 6672 section 2.2). False: the new name
// would be longer than 255 octets (YXDOMAIN). name must be the one that was looked up.
func (r *Result) Rename(dst, name []byte) ([]byte, bool) {
	target := r.RRset.Target()
	keep := len(name) - len(r.Owner())
	if keep+len(target) > wire.MaxName {
		return dst, false
	}
	return append(append(dst, name[:keep]...), target...), true
}

// AppendRename writes the DNAME, unless it is there already, and the CNAME from name to target that was made of it (RFC 6672 section 3.1). Both fit or nothing is written.
func (r *Result) AppendRename(b *wire.Builder, name, target []byte, there bool) bool {
	mark := b.Mark()
	if (there || r.RRset.Append(b, wire.Answer, r.Owner(), false)) && b.Append(wire.Answer, name, wire.TypeCNAME, wire.ClassIN, r.RRset.TTL, target) {
		return true
	}
	b.Rollback(mark)
	return false
}
