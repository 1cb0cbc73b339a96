package zones

import "github.com/edgesteer/edgesteer/zones/wire"

// Kind is what a lookup found.
type Kind uint8

// What a lookup can find.
const (
	Refused  Kind = iota // no zone of the set has the name (or, of a Zone, the name lies outside)
	Answer               // Record, or RRset: data of the asked type
	Alias                // the same, but it is a CNAME and another type was asked for: look on at its target
	Rename               // RRset is the DNAME that stands above the name: look on at Result.Rename
	Referral             // the name lies at or below a zone cut: Result.AppendReferral
	NoData               // the name exists, if only as an empty non-terminal, and has no such type: Zone.AppendNegative
	NXDomain             // the name does not exist: Zone.AppendNegative
)

var kinds = [...]string{"refused", "answer", "alias", "rename", "referral", "nodata", "nxdomain"}

func (k Kind) String() string { return kinds[k] }

// Result is what a lookup found.
type Result struct {
	Kind   Kind
	Wild   bool    // Answer, Alias, NoData: made from a wildcard; the owner is the name that was looked for all the same
	Zone   *Zone   // nil only if Refused
	Record *Record // Answer, Alias: the steered record, nil if it is static
	RRset  RRset   // Answer, Alias, Rename: the static rrset
	node   int32   // of the cut, the DNAME, or the data
}

// Owner is where what was found stands: the name itself or its wildcard, the zone cut, the DNAME. It is empty for NXDomain and Refused, and must not be changed.
func (r *Result) Owner() []byte {
	if r.Zone == nil || r.node == none {
		return nil
	}
	return r.Zone.nameOf(&r.Zone.nodes[r.node])
}

// Lookup finds what answers a query. A class other than IN is refused: no zone has one.
func (s *Set) Lookup(q *wire.Query) Result {
	if q.Class != wire.ClassIN || q.Name == nil {
		return Result{Kind: Refused, node: none}
	}
	return s.find(q.Name, &q.LabelOffsets, q.Labels, q.Type)
}

// Find is Lookup for a name in wire form, lower case, of class IN.
func (s *Set) Find(name []byte, typ uint16) Result {
	var at [wire.MaxLabels + 1]uint8
	return s.find(name, &at, offsets(name, &at), typ)
}

// find looks in the zone with the longest apex above the name; for DS in the one above its apex, where that lies here too (RFC 4035 section 3.1.4.1).
func (s *Set) find(name []byte, at *[wire.MaxLabels + 1]uint8, labels int, typ uint16) Result {
	var child *Zone
	for n := max(0, labels-s.deep); n <= labels; n++ {
		z := s.byApex[string(name[at[n]:])]
		if z == nil {
			continue
		}
		if n == 0 && typ == wire.TypeDS && child == nil {
			child = z
			continue
		}
		return z.find(name, at, labels, typ)
	}
	if child != nil {
		return child.find(name, at, labels, typ)
	}
	return Result{Kind: Refused, node: none}
}

// Follow finds the target of an alias of zone z, a name in wire form and lower case: what z says of it. Aliases are never followed out of their zone: a target elsewhere is Refused,
// and so is one in a zone below z that is served here too, unless z has the cut between them. Without it z would deny the target.
func (s *Set) Follow(z *Zone, name []byte, typ uint16) Result {
	r := z.Find(name, typ)
	if r.Kind == Referral || r.Kind == Refused || s.deep <= z.labels {
		return r
	}
	if best := s.Find(name, typ); best.Zone.labels > z.labels {
		return Result{Kind: Refused, node: none}
	}
	return r
}

// Find finds what this zone alone says of a name in wire form, lower case. Names outside are Refused; those at or below a cut give a Referral, even where the child's zone is
// served here.
func (z *Zone) Find(name []byte, typ uint16) Result {
	var at [wire.MaxLabels + 1]uint8
	labels := offsets(name, &at)
	if labels < z.labels || string(name[at[labels-z.labels]:]) != string(z.apex) {
		return Result{Kind: Refused, node: none}
	}
	return z.find(name, &at, labels, typ)
}

// offsets writes where each label of a name begins, the root's too, and returns how many there are without the root's.
func offsets(name []byte, at *[wire.MaxLabels + 1]uint8) int {
	n := 0
	for i := 0; i < len(name) && name[i] != 0 && n < wire.MaxLabels; i += 1 + int(name[i]) {
		at[n] = uint8(i)
		n++
	}
	at[n] = uint8(len(name) - 1)
	return n
}

// find is the algorithm of RFC 1034 section 4.3.2 from step 3 on, for a name at or below the apex.
func (z *Zone) find(name []byte, at *[wire.MaxLabels + 1]uint8, labels int, typ uint16) Result {
	if i := z.get(name); i != none {
		n := &z.nodes[i]
		if n.top != none && (n.top != i || typ != wire.TypeDS) { // DS stands on the upper side of the cut
			return z.hidden(n.top)
		}
		return z.at(i, typ, false)
	}
	// The closest encloser: as all names between an owner and the apex are in the table, halving finds it.
	enc := int32(0)
	for lo, hi := 1, labels-z.labels; lo < hi; {
		mid := (lo + hi) / 2
		if i := z.get(name[at[mid]:]); i != none {
			enc, hi = i, mid
		} else {
			lo = mid + 1
		}
	}
	n := &z.nodes[enc]
	switch {
	case n.top != none:
		return z.hidden(n.top)
	case n.flags&hasDNAME != 0:
		return z.hidden(enc)
	case n.wild != none:
		return z.at(n.wild, typ, true)
	}
	return Result{Kind: NXDomain, Zone: z, node: none}
}

// hidden is the result for a name at or below the zone cut or below the DNAME at node i.
func (z *Zone) hidden(i int32) Result {
	r := Result{Kind: Referral, Zone: z, node: i}
	if n := &z.nodes[i]; n.flags&isCut == 0 {
		r.Kind = Rename
		r.RRset, _ = z.static(n, wire.TypeDNAME)
	}
	return r
}

// at is the result for data at node i. ANY gets one rrset of what there is: the CNAME, else the lowest type (RFC 8482 section 4.1).
func (z *Zone) at(i int32, typ uint16, wild bool) Result {
	n := &z.nodes[i]
	r := Result{Kind: NoData, Zone: z, Wild: wild, node: i}
	only := [1]set{n.first}
	sets := only[:] // most names have one set: the node has it at hand
	if n.count != 1 {
		sets = z.setsOf(n)
	}
	var s *set
	for j := range sets {
		if sets[j].typ == typ {
			s = &sets[j]
			r.Kind = Answer
			break
		}
		if sets[j].typ == wire.TypeCNAME {
			s = &sets[j]
			r.Kind = Alias
		}
	}
	if typ == wire.TypeANY && len(sets) > 0 {
		if s == nil {
			s = &sets[0]
		}
		r.Kind = Answer
	}
	switch {
	case s == nil:
	case s.count == 0:
		r.Record = z.records[s.off]
	default:
		r.RRset = z.rrset(s)
	}
	return r
}
