// Package geo answers two questions about a client: who is asking, and where that is.
//
// A location database (geo/mmdb reads them) says where networks are. At load time each question that a filter will ask of it, a [Plan], is compiled into a [Map]: a
// partition of the address space whose leaves hold the ready outcome (the order of a pool's targets, or the set of those that match) and how many bits of the address that
// outcome depends on. At query time nothing is decoded, measured or compared: one longest-prefix match answers.
//
// What it is not: it knows no DNS, no filters and no PoP state; a leaf speaks of geography only.
package geo

import (
	"net/netip"
	"strings"
	"time"
)

// Location is what a database says of a network. The zero value is "not located". It is comparable.
type Location struct {
	Country     Country
	Subdivision Subdivision
	ASN         uint32
	Lat, Lon    float32 // degrees; valid if Coords
	Coords      bool
}

// Located reports whether the database knew anything at all of the network.
func (l Location) Located() bool { return l != Location{} }

// HasPlace reports whether the database knew where the network is: anything but its AS number.
func (l Location) HasPlace() bool { return l.Country != 0 || l.Subdivision != 0 || l.Coords }

// Fields lists what l holds.
func (l Location) Fields() (f Fields) {
	if l.Country != 0 {
		f |= FieldCountry
	}
	if l.Subdivision != 0 {
		f |= FieldSubdivision
	}
	if l.ASN != 0 {
		f |= FieldASN
	}
	if l.Coords {
		f |= FieldCoords
	}
	return f
}

// Fields is a set of what a location can hold.
type Fields uint8

// The fields.
const (
	FieldCountry Fields = 1 << iota
	FieldSubdivision
	FieldASN
	FieldCoords

	FieldsPlace = FieldCountry | FieldSubdivision | FieldCoords // what HasPlace asks for
)

// String lists the fields, "country, coordinates", or says "nothing".
func (f Fields) String() string {
	var s []string
	for i, name := range [...]string{"country", "subdivision", "AS number", "coordinates"} {
		if f&(1<<i) != 0 {
			s = append(s, name)
		}
	}
	if s == nil {
		return "nothing"
	}
	return strings.Join(s, ", ")
}

// Database describes a file that a Source was made of.
type Database struct {
	Path        string // "" for the embedded database and for tables
	Type        string // the file's own word for its kind
	Built       time.Time
	Fields      Fields
	Attribution string // the line that the data's licence asks for, or ""
}

// Source is a location database as the compiler sees it. Implementations are immutable, comparable (pointers) and safe for concurrent use.
type Source interface {
	// Lookup gives the location of a (never an embedded form: IPv4 is plain IPv4) and the length of a prefix around it that shares it. It does not allocate.
	Lookup(a netip.Addr) (Location, int)
	// Networks yields every network of which it knows any of the wanted fields, disjoint, IPv4 first, each family in address order; fields that are not wanted may be
	// missing, and it may yield other networks, too. It stops when yield returns false.
	Networks(want Fields, yield func(netip.Prefix, Location) bool) error
	// Databases describes the files behind it.
	Databases() []Database
}

// Depths are the depths of an order for which a leaf keeps a scope; the last stands for "all of it".
var Depths = [...]int{1, 2, 3, 4, 8, MaxOrder, 1 << 16}

// MaxOrder is how many places of an order a leaf stores.
const MaxOrder = 32

// Outcome is what all networks of a class have in common. It is immutable and shared.
type Outcome struct {
	// Order lists target numbers, nearest first, of a sort plan; nil where the order is left alone (unplaced client). When the plan has more than MaxOrder targets only
	// the first MaxOrder stand here: see Map.Full.
	Order []uint16
	// Tied[i] says that Order[i] and Order[i+1] (which may lie beyond the stored part) rank the same, so that an earlier order decides between them.
	Tied []bool
	// Match is the set of matching targets of a match plan, bit t%64 of word t/64.
	Match []uint64
	// Placed is false for a client that has no place.
	Placed bool
}

// Matches reports whether target t is in Match.
func (o *Outcome) Matches(t int) bool { return t/64 < len(o.Match) && o.Match[t/64]&(1<<(t%64)) != 0 }

// first is what the first depth places of an order say, with those that tie with the last of them.
func (o *Outcome) first(depth int) *Outcome {
	for i := depth - 1; i >= 0 && i < len(o.Order); i++ {
		if !o.Tied[i] {
			return &Outcome{Order: o.Order[:i+1], Tied: o.Tied[:i+1], Placed: o.Placed}
		}
	}
	return o
}

// Leaf is the result of a lookup. Its Outcome belongs to the map.
type Leaf struct {
	Outcome *Outcome
	// Bits[i] is the shortest prefix length around the client in which the first Depths[i] places of the order are the same everywhere; places that tie with the last of
	// them belong to them. A match plan has the same value at all depths. 0 means that the whole address space is alike.
	Bits [len(Depths)]uint8
	// Sender says that the client's own prefix has no location and the sender's address placed it.
	Sender bool
	// Class numbers the outcomes of this map, from 0 and dense: the query mix counts by it. 0 is the unplaced client.
	Class uint32
	// Known is how many places of the order this leaf knows of, and of how many its Bits are right; places that tie with the last of them are known, too.
	Known int
}

// BitsAt gives the bits that the first depth places depended on; 0 for depth 0.
func (l *Leaf) BitsAt(depth int) uint8 {
	if depth <= 0 {
		return 0
	}
	for i, d := range Depths {
		if depth <= d {
			return l.Bits[i]
		}
	}
	return l.Bits[len(Depths)-1]
}
