package zones

import (
	"github.com/edgesteer/edgesteer/zones/wire"
)

// checker looks for what is wrong between the records of a zone that has been filled.
type checker struct {
	*Builder
	z     *Zone
	rowOf []int32 // by set
	seen  []uint8 // by node, in the search for loops of aliases
	path  []int32 // the aliases that it came through
}

func (c *checker) check() {
	for i := range c.z.nodes {
		n := &c.z.nodes[i]
		c.alias(n)
		c.place(int32(i), n)
		for j := range n.count {
			c.set(int32(i), n, n.sets+uint32(j))
		}
	}
	c.loops()
}

func (c *checker) text(n *node) string { return wire.NameString(c.z.nameOf(n)) }

func (c *checker) row(set uint32) int { return int(c.rowOf[set]) }

// alias: a CNAME stands alone (RFC 1034 section 3.6.2, RFC 2181 section 10.1), but for what signs it.
func (c *checker) alias(n *node) {
	sets := c.z.setsOf(n)
	cname := -1
	for j := range sets {
		if sets[j].typ == wire.TypeCNAME {
			cname = j
		}
		if (sets[j].typ == wire.TypeCNAME || sets[j].typ == wire.TypeDNAME) && sets[j].count > 1 {
			c.fault(c.row(n.sets+uint32(j)), "keep one", "%s has %d %s records", c.text(n), sets[j].count, TypeString(sets[j].typ))
		}
	}
	if cname < 0 {
		return
	}
	for j := range sets {
		switch sets[j].typ {
		case wire.TypeCNAME, wire.TypeRRSIG, wire.TypeNSEC, typeKEY:
			continue
		}
		row := max(c.row(n.sets+uint32(cname)), c.row(n.sets+uint32(j)))
		c.fault(row, "an alias has no other records (RFC 1034 section 3.6.2)", "%s has CNAME and other data (%s)", c.text(n), TypeString(sets[j].typ))
		return
	}
}

// place: data that is never an answer.
func (c *checker) place(i int32, n *node) {
	if n.top == none || n.top == i || n.count == 0 {
		return
	}
	top := &c.z.nodes[n.top]
	for j, s := range c.z.setsOf(n) {
		glue := s.count > 0 && (s.typ == wire.TypeA || s.typ == wire.TypeAAAA)
		switch row := c.row(n.sets + uint32(j)); {
		case s.count == 0:
			c.fault(row, "", "steered record %s lies below %s, which %s", c.text(n), c.text(top), hides(top))
		case top.flags&isCut == 0:
			c.warn(row, "names below a DNAME are renamed (RFC 6672 section 2.4)", "%s is never answered: it lies below the DNAME of %s", c.text(n), c.text(top))
		case !glue && s.typ != wire.TypeRRSIG && s.typ != wire.TypeNSEC && s.typ != typeNSEC3:
			c.warn(row, "", "%s %s is never answered: it lies below the delegation of %s", c.text(n), TypeString(s.typ), c.text(top))
		}
	}
}

func hides(top *node) string {
	if top.flags&isCut != 0 {
		return "is delegated"
	}
	return "has a DNAME"
}

// set checks one rrset.
func (c *checker) set(i int32, n *node, at uint32) {
	s := &c.z.sets[at]
	row := c.row(at)
	below := n.top != none && n.top != i
	switch {
	case s.typ == wire.TypeSOA && i != 0:
		c.fault(row, "the SOA record belongs to the zone's own name", "%s has a SOA record", c.text(n))
	case s.typ == typeDNSKEY:
		c.warn(row, "signing is not offered yet; answers go out unsigned", "%s has DNSKEY records", c.text(n))
	case n.top == i && !delegates(s.typ):
		if s.count == 0 {
			c.fault(row, "", "steered record %s stands at a delegation", c.text(n))
		} else if s.typ != wire.TypeA && s.typ != wire.TypeAAAA {
			c.warn(row, "", "%s %s is never answered: the name is delegated", c.text(n), TypeString(s.typ))
		}
	case (s.typ == wire.TypeNS || s.typ == wire.TypeDNAME) && wildcard(c.z.nameOf(n)):
		c.warn(row, "RFC 4592 section 4", "%s at wildcard %s has no agreed meaning", TypeString(s.typ), c.text(n))
	}
	if size := int(s.len) + wire.HeaderSize + 5; size > wire.MaxMessage {
		c.warn(row, "", "%s %s is too large for a message: it is never answered whole", c.text(n), TypeString(s.typ))
	}
	if s.count > 0 && !below {
		c.targets(i, s)
	}
}

// delegates reports whether a type belongs to the upper side of a zone cut.
func delegates(typ uint16) bool {
	switch typ {
	case wire.TypeNS, wire.TypeDS, wire.TypeRRSIG, wire.TypeNSEC:
		return true
	}
	return false
}

func wildcard(name []byte) bool { return len(name) > 2 && name[0] == 1 && name[1] == '*' }

// targets: name servers and mail exchangers must not be aliases (RFC 2181 section 10.3), name servers inside need addresses, and what else is pointed to should exist.
func (c *checker) targets(owner int32, s *set) {
	if s.typ != wire.TypeNS && s.typ != wire.TypeMX && s.typ != wire.TypeSRV && s.typ != wire.TypeCNAME {
		return
	}
	for rdata := range c.z.rrset(s).RData() {
		target := targetOf(s.typ, rdata)
		if len(target) == 1 || !wire.IsSubdomain(target, c.z.apex) {
			continue
		}
		row := c.rowOfRData(owner, s.typ, rdata)
		if s.typ == wire.TypeNS {
			c.nameServer(owner, target, row)
			continue
		}
		switch r := c.z.Find(target, wire.TypeA); {
		case (r.Kind == Alias || r.Kind == Rename) && s.typ != wire.TypeCNAME:
			c.warn(row, "point it to the alias's target (RFC 2181 section 10.3)", "%s of %s points to %s, an alias", TypeString(s.typ), c.text(&c.z.nodes[owner]), wire.NameString(target))
		case r.Kind == NXDomain:
			c.warn(row, "", "%s of %s points to %s, which does not exist", TypeString(s.typ), c.text(&c.z.nodes[owner]), wire.NameString(target))
		}
	}
}

// rowOfRData is the row of one record of an rrset.
func (c *checker) rowOfRData(owner int32, typ uint16, rdata []byte) int {
	row := none
	at := c.chains[c.owners[string(c.z.nameOf(&c.z.nodes[owner]))]].row
	for ; at != none; at = c.rows[at].next {
		if r := &c.rows[at]; r.typ == typ && string(c.data[r.off:r.off+int(r.len)]) == string(rdata) {
			row = int(at)
		}
	}
	return row
}

func (c *checker) nameServer(owner int32, target []byte, row int) {
	who := c.text(&c.z.nodes[owner])
	i := c.z.get(target)
	if i != none {
		if n := &c.z.nodes[i]; n.flags&hasCNAME != 0 {
			c.warn(row, "point it to the alias's target (RFC 2181 section 10.3)", "NS of %s points to %s, an alias", who, wire.NameString(target))
			return
		}
		for _, s := range c.z.setsOf(&c.z.nodes[i]) {
			if s.typ == wire.TypeA || s.typ == wire.TypeAAAA {
				return
			}
		}
	}
	r := c.z.Find(target, wire.TypeA)
	switch {
	case r.Kind == Answer || r.Wild:
	case r.Kind == Referral && r.node != owner: // the addresses are the sibling's affair
	default:
		c.warn(row, "add A or AAAA records for it", "name server %s of %s has no address here", wire.NameString(target), who)
	}
}
