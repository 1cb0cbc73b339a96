package geo

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"strings"
)

// Kind is the kind of a question.
type Kind uint8

// The kinds of questions. The first three order the targets, the others say which of them match.
const (
	SortCountry  Kind = iota // geotarget_country: subdivision, country, then distance (steering.md section 3)
	SortRegion               // geotarget_regional
	SortDistance             // geotarget_latlong
	MatchCountry             // geofence_country: country, us_state, ca_province, subdivisions
	MatchRegion              // geofence_regional
	MatchASN                 // netfence_asn
	MatchPrefix              // netfence_prefix: looks at the address itself and at no database
)

// Sorts reports whether the kind orders the targets.
func (k Kind) Sorts() bool { return k <= SortDistance }

// Knows reports whether l says enough for this kind of question; if not, the sender is asked. Any place answers the questions about places, and the AS number is not sought
// at the sender when the client's own prefix is located.
func (k Kind) Knows(l Location) bool {
	switch k {
	case MatchPrefix:
		return true
	case MatchASN:
		return l.Located()
	default:
		return l.HasPlace()
	}
}

// Target is the place metadata of one answer of a pool. Empty lists are "untagged".
type Target struct {
	Countries    []Country
	Subdivisions []Subdivision
	Regions      []Region
	ASNs         []uint32
	Prefixes     []netip.Prefix
	Lat, Lon     float64 // degrees; valid if Coords
	Coords       bool
}

// Plan is one question over the targets of one pool, in pool order. Equal plans are compiled once.
type Plan struct {
	Kind    Kind
	Targets []Target
}

// MaxTargets is how many targets a plan may have.
const MaxTargets = 1 << 16

// Key is the same for plans that ask the same. What the plan's kind does not look at is left out, so that filters over pools that differ in it share a map.
func (p Plan) Key() string {
	b := []byte{byte(p.Kind)}
	n := func(v int) { b = binary.AppendUvarint(b, uint64(v)) }
	n(len(p.Targets))
	for i := range p.Targets {
		t := &p.Targets[i]
		switch p.Kind {
		case SortCountry, MatchCountry:
			n(len(t.Countries))
			for _, c := range t.Countries {
				b = binary.BigEndian.AppendUint16(b, uint16(c))
			}
			n(len(t.Subdivisions))
			for _, d := range t.Subdivisions {
				b = binary.BigEndian.AppendUint32(b, uint32(d))
			}
		case SortRegion, MatchRegion:
			n(len(t.Regions))
			for _, r := range t.Regions {
				b = append(b, byte(r))
			}
		case MatchASN:
			n(len(t.ASNs))
			for _, a := range t.ASNs {
				b = binary.BigEndian.AppendUint32(b, a)
			}
		case MatchPrefix:
			n(len(t.Prefixes))
			for _, p := range t.Prefixes {
				text, _ := p.MarshalBinary()
				n(len(text))
				b = append(b, text...)
			}
		}
		if p.Kind.Sorts() {
			if t.Coords {
				b = append(b, 1)
				b = binary.BigEndian.AppendUint64(b, math.Float64bits(t.Lat))
				b = binary.BigEndian.AppendUint64(b, math.Float64bits(t.Lon))
			} else {
				b = append(b, 0)
			}
		}
	}
	return string(b)
}

// filter is the name of the filter that asks this kind of question, for messages.
func (k Kind) filter() string {
	return [...]string{"geotarget_country", "geotarget_regional", "geotarget_latlong", "geofence_country", "geofence_regional", "netfence_asn", "netfence_prefix"}[k]
}

// String is the name of the filter that asks this kind of question.
func (k Kind) String() string {
	if k > MatchPrefix {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return k.filter()
}

// LackError says that a database cannot answer a question at all: no network of it holds any field that the plan's targets go by.
type LackError struct {
	Kind      Kind
	Needs     Fields // any of these would do
	Databases []Database
}

func (e *LackError) Error() string {
	var files []string
	var has Fields
	for _, d := range e.Databases {
		has |= d.Fields
		switch {
		case d.Path != "":
			files = append(files, d.Path)
		case d.Type != "":
			files = append(files, "the "+d.Type+" database")
		}
	}
	from := ""
	if files != nil {
		from = " in " + strings.Join(files, ", ")
	}
	return fmt.Sprintf("%s can match nothing: no network%s has %s (it holds %s)", e.Kind, from, strings.ReplaceAll(e.Needs.String(), ", ", " or "), has)
}

// Hint names databases that would do.
func (e *LackError) Hint() string {
	switch {
	case e.Needs&FieldASN != 0:
		return "add an ASN database, such as GeoLite2-ASN.mmdb, to geo.databases"
	case e.Needs == FieldSubdivision:
		return "use a City database: Country databases have no subdivisions"
	default:
		return "add a Country or City database to geo.databases"
	}
}
