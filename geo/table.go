package geo

import (
	"fmt"
	"net/netip"
	"slices"
	"sort"
)

// Entry is one row of a Table.
type Entry struct {
	Prefix   netip.Prefix
	Location Location
}

// Table is a Source made of a list: for tests, and for networks that an operator places by hand.
type Table struct {
	spans     [2]spans // IPv4, IPv6; id is an index into locations
	locations []Location
	info      []Database
}

// NewTable makes a Source in which the most specific entry wins. Prefixes are masked; of two entries for the same prefix the later one holds. An entry without a location
// makes a hole. It fails on an invalid prefix.
func NewTable(entries []Entry) (*Table, error) {
	t := &Table{locations: []Location{{}}, info: []Database{{Type: "table"}}}
	index := map[Location]uint32{{}: 0}
	var rules [2][]rule
	for _, e := range entries {
		if !e.Prefix.IsValid() {
			return nil, fmt.Errorf("invalid prefix in location table: %v", e.Prefix)
		}
		id, ok := index[e.Location]
		if !ok {
			id = uint32(len(t.locations))
			index[e.Location] = id
			t.locations = append(t.locations, e.Location)
		}
		f := family(e.Prefix.Addr())
		rules[f] = append(rules[f], rule{at: u128of(e.Prefix.Masked().Addr()), bits: uint8(e.Prefix.Bits()), value: id})
	}
	for f := range rules {
		s := sweep{v6: f == 1}
		nest(rules[f], func(at u128, n uint8, holds []uint32) {
			var id uint32
			if len(holds) > 0 {
				id = holds[len(holds)-1]
			}
			s.push(span{at: at, bits: n, id: id})
		})
		t.spans[f] = s.out
		for _, l := range t.locations {
			t.info[0].Fields |= l.Fields()
		}
	}
	return t, nil
}

// family is 0 for IPv4, 1 for IPv6.
func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// Lookup implements Source.
func (t *Table) Lookup(a netip.Addr) (Location, int) {
	if !a.IsValid() {
		return Location{}, 0
	}
	s, at := &t.spans[family(a)], u128of(a)
	x := s.at(sort.Search(s.n, func(i int) bool { return at.less(s.at(i).at) }) - 1)
	return t.locations[x.id], int(x.bits)
}

// Networks implements Source.
func (t *Table) Networks(_ Fields, yield func(netip.Prefix, Location) bool) error {
	for f := range t.spans {
		for i := range t.spans[f].n {
			x := t.spans[f].at(i)
			if x.id != 0 && !yield(netip.PrefixFrom(x.at.addr(f == 1), int(x.bits)), t.locations[x.id]) {
				return nil
			}
		}
	}
	return nil
}

// Databases implements Source.
func (t *Table) Databases() []Database { return t.info }

// rule is a prefix with something that holds inside it.
type rule struct {
	at    u128
	bits  uint8
	value uint32
}

// nest cuts the whole address space into prefixes in each of which the same rules hold, in address order, and hands each over with the values that hold, widest first.
func nest(rules []rule, emit func(at u128, n uint8, holds []uint32)) {
	rules = slices.Clone(rules)
	slices.SortStableFunc(rules, func(a, b rule) int {
		switch {
		case a.at.less(b.at):
			return -1
		case b.at.less(a.at):
			return 1
		}
		return int(a.bits) - int(b.bits)
	})
	var holds []uint32
	var walk func(at u128, n uint8, rules []rule)
	walk = func(at u128, n uint8, rules []rule) {
		depth := len(holds)
		for len(rules) > 0 && rules[0].bits == n {
			holds = append(holds, rules[0].value)
			rules = rules[1:]
		}
		if len(rules) == 0 {
			emit(at, n, holds)
		} else {
			m := bit(n + 1)
			right := u128{at.hi | m.hi, at.lo | m.lo}
			cut := sort.Search(len(rules), func(i int) bool { return !rules[i].at.less(right) })
			walk(at, n+1, rules[:cut])
			walk(right, n+1, rules[cut:])
		}
		holds = holds[:depth]
	}
	walk(u128{}, 0, rules)
}
