// Package zones holds what is served: zones, their static rrsets and their steered records, and answers the question of RFC 1034 section 4.3.2, which of them a query is
// about.
//
// A [Set] is all zones of a server at one moment. It is immutable; a change of one zone makes a new Set that shares the others ([Set.With]). [Set.Lookup] finds for a query
// an rrset, a steered [Record], a referral, a rename (DNAME) or a negative answer, and the methods of [Result], [RRset] and [Record] write them through a [wire.Builder].
// Names are lower-cased and records packed when a zone is built; neither looking up nor writing allocates, locks or logs.
//
// What it is not: it reads no text (zones/zonefile and zones/transfer make zones of it with a [Builder]), follows no CNAME by itself (the server does, link by link) and
// decides nothing about clients: a Record names its chain (package filters), whose result it writes.
package zones

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// Set is the zones of a server by apex, and the numbered questions about places that their chains ask. It is immutable. The zero Set serves nothing.
type Set struct {
	byApex map[string]*Zone
	sorted []*Zone // canonical order of apexes
	deep   int     // labels of the deepest apex
	plans  []geo.Plan
}

// New makes a set of zones whose chains were built with the numbers of table; nil will do when no zone has steered records. Of two zones with one apex the later counts.
func New(zones []*Zone, table *PlanTable) *Set {
	s := &Set{byApex: make(map[string]*Zone, len(zones))}
	for _, z := range zones {
		s.byApex[string(z.apex)] = z
		s.deep = max(s.deep, z.labels)
	}
	for _, z := range s.byApex {
		s.sorted = append(s.sorted, z)
	}
	slices.SortFunc(s.sorted, func(a, b *Zone) int { return wire.Compare(a.apex, b.apex) })
	s.plans = table.used(s.sorted)
	return s
}

// With is the set with some zones added or replaced, built with the numbers of table (which started from this set, see NewPlanTable).
func (s *Set) With(table *PlanTable, zones ...*Zone) *Set {
	return New(append(slices.Clone(s.sorted), zones...), table)
}

// Plans are the questions about places by number, as the filters of the set's chains hold them: what the atlas of a snapshot is compiled from. A number that is not in use has
// a plan without targets. The slice must not be changed.
func (s *Set) Plans() []geo.Plan { return s.plans }

// Zone is the zone with this apex (lower case, wire form), nil if there is none.
func (s *Set) Zone(apex []byte) *Zone { return s.byApex[string(apex)] }

// Zones are all zones in canonical order.
func (s *Set) Zones() iter.Seq[*Zone] { return slices.Values(s.sorted) }

// Len is the number of zones.
func (s *Set) Len() int { return len(s.sorted) }

// Zone is one zone. It is immutable.
//
// Its names lie in one table in canonical order, with every name between an owner and the apex (empty non-terminals), so that a name's closest encloser can be found by
// halving. The tables hold no pointers: a million names cost the garbage collector nothing.
type Zone struct {
	apex     []byte
	labels   int    // of the apex
	text     string // the apex for people
	soa      RRset
	negative uint32 // TTL of negative answers: the lower of the SOA's TTL and its MINIMUM (RFC 2308 section 3)
	serial   uint32

	index   index
	names   []byte // all names, one after the other
	nodes   []node // canonical order; the apex first
	sets    []set  // by node, then type
	data    []byte // packed records: each with the owner 0xC00C
	records []*Record
}

// node is a name of a zone. It fills a cache line: what a lookup reads of most names lies here, and the first two fields lead to the rest.
type node struct {
	name  uint32 // offset in Zone.names
	sets  uint32 // first in Zone.sets
	count uint16 // of sets
	len   uint8  // octets of the name
	flags uint8
	wild  int32    // the node of "*" directly below, or none
	top   int32    // what hides it: the uppermost zone cut at or above it, or DNAME above it; none if it is authoritative
	first set      // copy of the first set
	short [28]byte // copy of the name's octets before the apex, as many as have room
}

const none = -1

// Flags of a node.
const (
	hasCNAME uint8 = 1 << iota // static or steered
	hasDNAME
	isCut
)

// set is an rrset of a node: count records at data[off:][:len], or, with count 0, the steered record records[off].
type set struct {
	typ   uint16
	count uint16
	ttl   uint32
	off   uint32
	len   uint32
}

// Apex is the zone's name in wire form, lower case. It must not be changed.
func (z *Zone) Apex() []byte { return z.apex }

// String is the zone's name for people, with a dot at its end.
func (z *Zone) String() string { return z.text }

// Serial is the serial of the zone's SOA.
func (z *Zone) Serial() uint32 { return z.serial }

// SOA is the rrset of the zone's SOA.
func (z *Zone) SOA() RRset { return z.soa }

// Names is the number of names, empty non-terminals and names below cuts included.
func (z *Zone) Names() int { return len(z.nodes) }

// Records are the steered records in canonical order of name, then type. The slice must not be changed.
func (z *Zone) Records() []*Record { return z.records }

// Record is the steered record of a name (wire form, lower case) and type, nil if there is none. A wildcard is found under its own name only.
func (z *Zone) Record(name []byte, typ uint16) *Record {
	i := z.get(name)
	if i == none {
		return nil
	}
	for _, s := range z.setsOf(&z.nodes[i]) {
		if s.typ == typ && s.count == 0 {
			return z.records[s.off]
		}
	}
	return nil
}

// RRsets yields every static rrset with its owner in canonical order, those below zone cuts too. The owner is in wire form and lower case; it must not be changed.
func (z *Zone) RRsets() iter.Seq2[[]byte, RRset] {
	return func(yield func([]byte, RRset) bool) {
		for i := range z.nodes {
			for _, s := range z.setsOf(&z.nodes[i]) {
				if s.count > 0 && !yield(z.nameOf(&z.nodes[i]), z.rrset(&s)) {
					return
				}
			}
		}
	}
}

// Same reports whether two zones have the same name and the same static records, in whatever order.
func (z *Zone) Same(other *Zone) bool {
	return string(z.apex) == string(other.apex) && maps.Equal(z.contents(), other.contents())
}

// contents counts the records of a zone by all that they say.
func (z *Zone) contents() map[string]int {
	out := map[string]int{}
	for owner, s := range z.RRsets() {
		for rdata := range s.RData() {
			out[fmt.Sprintf("%s %d %d %s", owner, s.Type, s.TTL, rdata)]++
		}
	}
	return out
}

func (z *Zone) setsOf(n *node) []set { return z.sets[n.sets : n.sets+uint32(n.count)] }

func (z *Zone) nameOf(n *node) []byte {
	return z.names[n.name : n.name+uint32(n.len) : n.name+uint32(n.len)]
}

// static finds a static rrset of a node, hidden or not.
func (z *Zone) static(n *node, typ uint16) (RRset, bool) {
	for _, s := range z.setsOf(n) {
		if s.typ == typ && s.count > 0 {
			return z.rrset(&s), true
		}
	}
	return RRset{}, false
}

func (z *Zone) rrset(s *set) RRset {
	return RRset{Type: s.typ, Count: int(s.count), TTL: s.ttl, packed: z.data[s.off : s.off+s.len]}
}

// get is the node of a name, none if it is not in the zone.
func (z *Zone) get(name []byte) int32 {
	h := z.index.hash(name)
	for slot := z.index.first(h); ; slot = z.index.next(slot) {
		tag, i := z.index.at(slot)
		if i == none {
			return none
		}
		if tag == h.tag() && z.named(&z.nodes[i], name) {
			return i
		}
	}
}

// named reports whether a node has a name.
func (z *Zone) named(n *node, name []byte) bool {
	if int(n.len) != len(name) {
		return false
	}
	own := len(name) - len(z.apex)
	if own > len(n.short) {
		return bytes.Equal(z.nameOf(n), name)
	}
	return string(name[:own]) == string(n.short[:own]) && string(name[own:]) == string(z.apex)
}
