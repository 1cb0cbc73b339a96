package zones

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/edgesteer/edgesteer/zones/wire"
)

// Fault is something wrong with the data of a zone.
type Fault struct {
	Row     int // which call of Add, AddRecord or Note, from 0; -1 for the zone as a whole
	Message string
	Hint    string
	Warning bool // the zone can be served all the same
}

// Builder collects the records of one zone, in any order, and makes the zone of them. The calls of Add and AddRecord are numbered, so that faults can be traced to lines.
type Builder struct {
	apex   []byte
	owners map[string]int32 // index in chains, by name
	chains []chain
	rows   []row
	data   []byte // rdata of all rows
	faults []Fault
}

// chain is the rows of one owner, the newest first.
type chain struct {
	name string
	row  int32
}

type row struct {
	next   int32 // of the same owner
	typ    uint16
	len    uint16
	ttl    uint32
	off    int // of the rdata
	record *Record
}

// NewBuilder starts a zone. The apex is a name in wire form.
func NewBuilder(apex []byte) *Builder {
	b := &Builder{apex: wire.ToLower(nil, apex), owners: map[string]int32{}}
	b.chain(b.apex)
	return b
}

// chain finds or makes the chain of a name in lower case.
func (b *Builder) chain(name []byte) *chain {
	i, ok := b.owners[string(name)]
	if !ok {
		i = int32(len(b.chains))
		b.chains = append(b.chains, chain{name: string(name), row: none})
		b.owners[b.chains[i].name] = i
	}
	return &b.chains[i]
}

// longName is the hint for a name that is too long.
const longName = "up to 255 octets, with that of the zone (RFC 1035 section 2.3.4)"

// Add takes a static record of class IN: owner and rdata in wire form, uncompressed; the TTL in seconds. Both are copied. Names that lookups follow (of NS, CNAME, DNAME, MX,
// SRV, SVCB and HTTPS) are put into lower case, like owners.
func (b *Builder) Add(owner []byte, typ uint16, ttl uint32, rdata []byte) {
	r := row{typ: typ, ttl: ttl, off: len(b.data), len: uint16(len(rdata))}
	n := len(b.rows)
	switch {
	case !dataType(typ):
		b.fault(n, "", "type %s is no data of a zone", TypeString(typ))
	case len(rdata) > math.MaxUint16:
		b.fault(n, "", "record data of %d octets is too long", len(rdata))
	case !soundRData(typ, rdata):
		b.fault(n, "", "record data is not that of type %s", TypeString(typ))
	case ttl > math.MaxInt32:
		b.fault(n, "up to 2147483647 (RFC 2181 section 8)", "TTL %d is too long", ttl)
	default:
		b.data = append(b.data, rdata...)
		if target := targetOf(typ, b.data[r.off:]); target != nil {
			wire.ToLower(target[:0], target)
		}
		b.add(owner, r)
		return
	}
	b.rows = append(b.rows, r)
}

// AddRecord takes a steered record; its owner is record.Name.
func (b *Builder) AddRecord(record *Record) {
	b.add(record.Name, row{typ: record.Type, record: record})
}

// AddZone takes over every static rrset of another version of the zone.
func (b *Builder) AddZone(z *Zone) {
	for owner, s := range z.RRsets() {
		for rdata := range s.RData() {
			b.Add(owner, s.Type, s.TTL, rdata)
		}
	}
}

// Rows is the number of calls of Add and AddRecord so far: the Row of the next one.
func (b *Builder) Rows() int { return len(b.rows) }

func (b *Builder) add(owner []byte, r row) {
	r.next = none
	switch {
	case len(owner) > wire.MaxName:
		b.fault(len(b.rows), longName, "an owner name has %d octets", len(owner))
	case !wire.IsSubdomain(owner, b.apex):
		b.fault(len(b.rows), "its name must end in that of the zone", "%s lies outside of zone %s", wire.NameString(owner), wire.NameString(b.apex))
	default:
		var lower [wire.MaxName]byte
		c := b.chain(wire.ToLower(lower[:0], owner))
		r.next, c.row = c.row, int32(len(b.rows))
	}
	b.rows = append(b.rows, r)
}

func (b *Builder) fault(row int, hint, format string, args ...any) {
	b.faults = append(b.faults, Fault{Row: row, Message: fmt.Sprintf(format, args...), Hint: hint})
}

func (b *Builder) warn(row int, hint, format string, args ...any) {
	b.fault(row, hint, format, args...)
	b.faults[len(b.faults)-1].Warning = true
}

// dataType reports whether records of a type can stand in a zone: neither reserved nor a meta type (RFC 6895 section 3.1).
func dataType(typ uint16) bool {
	return typ != 0 && typ != wire.TypeOPT && (typ < 128 || typ > 255)
}

// soundRData reports whether rdata has what the data path relies on.
func soundRData(typ uint16, rdata []byte) bool {
	switch typ {
	case wire.TypeA:
		return len(rdata) == 4
	case wire.TypeAAAA:
		return len(rdata) == 16
	case wire.TypeNS, wire.TypeCNAME, wire.TypeDNAME:
		return len(targetOf(typ, rdata)) == len(rdata) && len(rdata) > 0
	case wire.TypeMX:
		return len(rdata) > 2 && len(targetOf(typ, rdata)) == len(rdata)-2
	case wire.TypeSRV:
		return len(rdata) > 6 && len(targetOf(typ, rdata)) == len(rdata)-6
	case wire.TypeSVCB, wire.TypeHTTPS:
		return targetOf(typ, rdata) != nil
	case wire.TypeSOA:
		m := targetOf(wire.TypeNS, rdata)
		if m == nil {
			return false
		}
		r := targetOf(wire.TypeNS, rdata[len(m):])
		return r != nil && len(m)+len(r)+20 == len(rdata)
	}
	return true
}

// Build makes the zone. It is nil if a fault is more than a warning. The Builder is used up.
func (b *Builder) Build() (*Zone, []Fault) {
	b.addParents()
	z := &Zone{apex: b.apex, labels: wire.CountLabels(b.apex), text: wire.NameString(b.apex)}
	order := b.order()
	rowOf := b.fill(z, order)
	if !b.failed() {
		b.apexData(z)
		c := checker{Builder: b, z: z, rowOf: rowOf}
		c.check()
	}
	slices.SortStableFunc(b.faults, func(a, b Fault) int { return cmp.Compare(a.Row, b.Row) })
	if b.failed() {
		return nil, b.faults
	}
	return z, b.faults
}

func (b *Builder) failed() bool {
	return slices.ContainsFunc(b.faults, func(f Fault) bool { return !f.Warning })
}

// addParents makes the empty non-terminals: every name between an owner and the apex is a name of the zone.
func (b *Builder) addParents() {
	for i := 0; i < len(b.chains); i++ {
		name := b.chains[i].name
		if len(name) > len(b.apex) {
			b.chain([]byte(name[1+name[0]:])) // its parents come in their turn
		}
	}
}

// order is the chains in canonical order of their names.
func (b *Builder) order() []int32 {
	keys := make([]string, len(b.chains))
	order := make([]int32, len(b.chains))
	var buf []byte
	for i := range b.chains {
		buf = sortKey(buf[:0], b.chains[i].name)
		keys[i], order[i] = string(buf), int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(keys[a], keys[b]) })
	return order
}

// sortKey appends octets whose plain order is the canonical order of names (RFC 4034 section 6.1): the labels from the last on, each closed by a zero octet, to which end
// the zeroes and ones inside are escaped.
func sortKey(dst []byte, name string) []byte {
	var at [wire.MaxLabels + 1]uint8
	for n := offsets([]byte(name), &at); n > 0; n-- {
		for _, c := range []byte(name[at[n-1]+1 : at[n]]) {
			if c <= 1 {
				dst = append(dst, 1)
			}
			dst = append(dst, c+oneIf(c <= 1))
		}
		dst = append(dst, 0)
	}
	return dst
}

func oneIf(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// fill makes nodes and sets in the order given. It returns for each set the row that it came from.
func (b *Builder) fill(z *Zone, order []int32) (rowOf []int32) {
	names, data := 0, 0
	for i := range b.chains {
		names += len(b.chains[i].name)
	}
	for i := range b.rows {
		data += fixed + int(b.rows[i].len)
	}
	if max(names, data) > math.MaxUint32 || len(b.rows) > math.MaxInt32 {
		b.fault(-1, "", "the zone is larger than 4 GB")
		return nil
	}
	z.names = make([]byte, 0, names)
	z.data = make([]byte, 0, data)
	z.nodes = make([]node, 0, len(order))
	z.index = newIndex(len(order))
	var rows []int32
	var path [wire.MaxLabels + 2]int32 // the node of each depth on the way to this one
	for _, i := range order {
		c := &b.chains[i]
		rows = rows[:0]
		for r := c.row; r != none; r = b.rows[r].next {
			rows = append(rows, r)
		}
		slices.Reverse(rows)
		slices.SortStableFunc(rows, func(x, y int32) int { return cmp.Compare(b.rows[x].typ, b.rows[y].typ) })

		n := node{name: uint32(len(z.names)), len: uint8(len(c.name)), sets: uint32(len(z.sets)), wild: none, top: none}
		z.names = append(z.names, c.name...)
		copy(n.short[:], c.name[:len(c.name)-len(z.apex)])
		rowOf = b.fillSets(z, &n, c.name, rows, rowOf)
		if n.count > 0 {
			n.first = z.sets[n.sets]
		}
		me := int32(len(z.nodes))
		depth := wire.CountLabels([]byte(c.name)) - z.labels
		if depth > 0 {
			b.inherit(z, &n, me, path[depth-1], c.name)
		}
		path[depth] = me
		z.nodes = append(z.nodes, n)
		z.index.add([]byte(c.name), me)
	}
	z.sets = slices.Clip(z.sets)
	return rowOf
}

// inherit says what a node owes to its parent: what hides it. It tells the parent of a wildcard.
func (b *Builder) inherit(z *Zone, n *node, me, parent int32, name string) {
	p := &z.nodes[parent]
	wild := name[0] == 1 && name[1] == '*'
	if wild {
		p.wild = me
		n.flags &^= isCut // an NS rrset there is data: a wildcard cannot be a cut (RFC 4592 section 4.2)
	}
	switch {
	case p.top != none:
		n.top = p.top
	case p.flags&hasDNAME != 0:
		n.top = parent
	case n.flags&isCut != 0:
		n.top = me
	}
}

// fillSets makes the sets of a node of rows that are sorted by type.
func (b *Builder) fillSets(z *Zone, n *node, name string, rows, rowOf []int32) []int32 {
	for len(rows) > 0 {
		first := &b.rows[rows[0]]
		end := 1
		for end < len(rows) && b.rows[rows[end]].typ == first.typ {
			end++
		}
		s := set{typ: first.typ}
		if first.record != nil || slices.ContainsFunc(rows[:end], func(r int32) bool { return b.rows[r].record != nil }) {
			b.fillRecord(z, &s, rows[:end])
		} else {
			b.fillSet(z, &s, name, rows[:end])
		}
		switch s.typ {
		case wire.TypeCNAME:
			n.flags |= hasCNAME
		case wire.TypeDNAME:
			n.flags |= hasDNAME
		case wire.TypeNS:
			if len(z.nodes) > 0 { // not the apex
				n.flags |= isCut
			}
		}
		z.sets = append(z.sets, s)
		n.count++
		rowOf = append(rowOf, rows[0])
		rows = rows[end:]
	}
	return rowOf
}

// fillSet packs the records of a static rrset: without duplicates, and with one TTL, the lowest (RFC 2181 sections 5 and 5.2).
func (b *Builder) fillSet(z *Zone, s *set, name string, rows []int32) {
	if len(rows) > math.MaxUint16 {
		b.fault(int(rows[0]), "", "%d records of %s %s cannot be sent in one message", len(rows), textOf(name), TypeString(s.typ))
		return
	}
	s.off, s.ttl = uint32(len(z.data)), b.rows[rows[0]].ttl
	for _, r := range rows[1:] {
		if ttl := b.rows[r].ttl; ttl != s.ttl {
			s.ttl = min(s.ttl, ttl)
			b.warn(int(r), "one rrset has one TTL (RFC 2181 section 5.2); the lowest is used", "TTL %d differs from that of other records of %s %s",
				ttl, textOf(name), TypeString(s.typ))
		}
	}
	seen := map[string]bool{}
	for _, r := range rows {
		rdata := b.rdata(r)
		if len(rows) > 1 {
			if seen[string(rdata)] {
				b.warn(int(r), "", "duplicate record of %s %s", textOf(name), TypeString(s.typ))
				continue
			}
			seen[string(rdata)] = true
		}
		z.data = pack(z.data, s.typ, s.ttl, rdata)
		s.count++
	}
	s.len = uint32(len(z.data)) - s.off
}

// fillRecord enters a steered record; it must be the only row of its name and type.
func (b *Builder) fillRecord(z *Zone, s *set, rows []int32) {
	for _, r := range rows {
		rec := b.rows[r].record
		if rec == nil {
			continue
		}
		if len(rows) > 1 {
			b.fault(int(r), "a name and type is static or steered, and steered once", "%s %s is there twice", wire.NameString(rec.Name), TypeString(s.typ))
		}
		s.off = uint32(len(z.records))
		s.ttl = rec.TTL
		z.records = append(z.records, rec)
		return
	}
}

func textOf(name string) string { return wire.NameString([]byte(name)) }

// apexData takes what is needed of the SOA.
func (b *Builder) apexData(z *Zone) {
	soa, ok := z.static(&z.nodes[0], wire.TypeSOA)
	if !ok {
		b.fault(-1, "every zone begins with its SOA record", "zone %s has no SOA record", z.text)
		return
	}
	if soa.Count > 1 {
		b.fault(b.secondSOA(), "keep one", "zone %s has %d SOA records", z.text, soa.Count)
	}
	rdata := soa.First()
	tail := rdata[len(rdata)-20:]
	z.soa, z.serial = soa, binary.BigEndian.Uint32(tail)
	z.negative = min(soa.TTL, binary.BigEndian.Uint32(tail[16:]))
	if _, ok := z.static(&z.nodes[0], wire.TypeNS); !ok {
		b.fault(-1, "add an NS record for the zone's name", "zone %s has no NS record", z.text)
	}
}

// secondSOA is the row of the first SOA record of the apex that differs from the one before.
func (b *Builder) secondSOA() int {
	next := -1
	for at := b.chains[b.owners[string(b.apex)]].row; at != none; at = b.rows[at].next { // the newest first
		if b.rows[at].typ != wire.TypeSOA {
			continue
		}
		if next >= 0 && !bytes.Equal(b.rdata(int32(next)), b.rdata(at)) {
			return next
		}
		next = int(at)
	}
	return next
}

// rdata is the record data of a static row.
func (b *Builder) rdata(row int32) []byte { return b.data[b.rows[row].off:][:b.rows[row].len] }
