package mmdb

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/oschwald/maxminddb-golang/v2"

	"github.com/edgesteer/edgesteer/geo"
)

// file is one open database. Records are decoded when it is opened, each once; a lookup finds the record's offset and its location in a table.
type file struct {
	reader    *maxminddb.Reader
	info      geo.Database
	sum       [sha256.Size]byte
	v4, v6    bool           // it has networks of the family
	offsets   []uint32       // of the records, ascending
	places    []uint32       // for each offset, an index into locations
	locations []geo.Location // 0 is "not located"
}

// record is what is read of a database record: both schemas, of which a file has one. Only these fields are decoded.
type record struct {
	Country struct {
		Code string `maxminddb:"iso_code"`
	} `maxminddb:"country"`
	Subdivisions []struct {
		Code string `maxminddb:"iso_code"`
	} `maxminddb:"subdivisions"`
	Location struct {
		Lat *float64 `maxminddb:"latitude"`
		Lon *float64 `maxminddb:"longitude"`
	} `maxminddb:"location"`
	ASN uint32 `maxminddb:"autonomous_system_number"`

	FlatCountry string   `maxminddb:"country_code"`
	FlatState   string   `maxminddb:"state1"`
	FlatLat     *float64 `maxminddb:"latitude"`
	FlatLon     *float64 `maxminddb:"longitude"`
}

// Fields that make a database useful, for the error about one that has none.
const wanted = "country.iso_code or country_code, location.latitude or latitude, autonomous_system_number"

// parse reads a database from memory, which then belongs to it.
func parse(path string, data []byte) (*file, error) {
	r, err := maxminddb.OpenBytes(data, maxminddb.DisableStringCache())
	if err != nil {
		return nil, fmt.Errorf("not a whole MaxMind database file: %w", printable{err})
	}
	m := r.Metadata
	if err := checkTree(data, m.NodeCount, m.RecordSize, m.IPVersion == 6); err != nil {
		return nil, err
	}
	f := &file{reader: r, sum: sha256.Sum256(data), info: geo.Database{Path: path, Type: m.DatabaseType, Built: m.BuildTime().UTC(), Attribution: attribution(path, m.DatabaseType)}}
	if err := f.decode(); err != nil {
		return nil, err
	}
	if f.info.Fields == 0 {
		return nil, fmt.Errorf("wrong kind of database (%q): no record has any of %s", m.DatabaseType, wanted)
	}
	return f, nil
}

// printable is an error of the library. What it quotes of the file may be anything, and is not to reach a terminal as it is.
type printable struct{ error }

func (e printable) Error() string {
	q := strconv.Quote(e.error.Error())
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

func (e printable) Unwrap() error { return e.error }

// decode reads every record once and fills the tables.
func (f *file) decode() error {
	if uint64(f.reader.Metadata.NodeCount) > math.MaxUint32 {
		return errors.New("database too large")
	}
	found := map[uint32]uint32{}
	f.locations = []geo.Location{{}}
	index := map[geo.Location]uint32{{}: 0}
	states := map[state]geo.Subdivision{}
	for _, v6 := range [...]bool{false, true} {
		for p, offset := range f.records(v6) {
			if p.err != nil {
				return fmt.Errorf("damaged search tree: %w", printable{p.err})
			}
			if offset > math.MaxUint32 {
				return errors.New("database too large")
			}
			if v6 {
				f.v6 = true
			} else {
				f.v4 = true
			}
			if _, ok := found[uint32(offset)]; ok {
				continue
			}
			var rec record
			if err := f.reader.LookupOffset(offset).Decode(&rec); err != nil {
				return fmt.Errorf("record of %v: %w", p.prefix, printable{err})
			}
			l := rec.location(states)
			f.info.Fields |= l.Fields()
			id, ok := index[l]
			if !ok {
				id = uint32(len(f.locations))
				f.locations = append(f.locations, l)
				index[l] = id
			}
			found[uint32(offset)] = id
		}
	}
	f.offsets = slices.Sorted(maps.Keys(found))
	f.places = make([]uint32, len(f.offsets))
	for i, o := range f.offsets {
		f.places[i] = found[o]
	}
	f.locations = slices.Clip(f.locations)
	return nil
}

// state is a subdivision as flat files name it.
type state struct {
	country geo.Country
	name    string
}

// location turns a record into a location. Codes that are no country (EU, AP, A1, ZZ) are dropped, and so are coordinates of 0, 0, which stand for "unknown".
func (r *record) location(states map[state]geo.Subdivision) (l geo.Location) {
	code := r.Country.Code
	if code == "" {
		code = r.FlatCountry
	}
	if c, err := geo.ParseCountry(code); err == nil {
		l.Country = c
	}
	switch {
	case len(r.Subdivisions) > 0:
		l.Subdivision = geo.MakeSubdivision(l.Country, r.Subdivisions[0].Code) // the largest stands first
	case r.FlatState != "" && l.Country != 0:
		s := state{l.Country, r.FlatState}
		d, ok := states[s]
		if !ok {
			d = geo.FindSubdivision(s.country, s.name)
			states[s] = d
		}
		l.Subdivision = d
	}
	lat, lon := r.Location.Lat, r.Location.Lon
	if lat == nil || lon == nil {
		lat, lon = r.FlatLat, r.FlatLon
	}
	if lat != nil && lon != nil && math.Abs(*lat) <= 90 && math.Abs(*lon) <= 180 && (*lat != 0 || *lon != 0) {
		l.Lat, l.Lon, l.Coords = float32(*lat), float32(*lon), true
	}
	l.ASN = r.ASN
	return l
}

// at is the location of a record.
func (f *file) at(offset uintptr) geo.Location {
	i, ok := slices.BinarySearch(f.offsets, uint32(offset))
	if !ok {
		return geo.Location{}
	}
	return f.locations[f.places[i]]
}

// has reports whether the file has networks of a family.
func (f *file) has(v6 bool) bool { return v6 && f.v6 || !v6 && f.v4 }

// inV4 is where databases keep IPv4 in their IPv6 tree.
var inV4 = netip.PrefixFrom(netip.IPv6Unspecified(), 96)

// lookup gives the location of a and the length of a prefix around it that shares it.
func (f *file) lookup(a netip.Addr) (geo.Location, int) {
	if !a.IsValid() || !f.has(a.Is6()) {
		return geo.Location{}, 0
	}
	r := f.reader.Lookup(a)
	p := r.Prefix()
	bits := p.Bits()
	switch {
	case a.Is4() && p.Addr().Is6():
		bits = max(bits-96, 0)
	case a.Is6() && inV4.Contains(a) && bits >= 96:
		return geo.Location{}, 96 // what the tree holds there is IPv4
	}
	if !r.Found() {
		return geo.Location{}, bits
	}
	return f.at(r.Offset()), bits
}

// place is a network in the file's tree.
type place struct {
	prefix netip.Prefix
	err    error
}

// records yields the networks of one family that have a record, in address order, with the record's offset.
func (f *file) records(v6 bool) iter.Seq2[place, uintptr] {
	within := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if v6 {
		within = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return func(yield func(place, uintptr) bool) {
		if v6 && f.reader.Metadata.IPVersion != 6 {
			return
		}
		// A tree of n nodes has n+1 leaves. All are walked, those without a record too, so that an IPv4 space that holds itself ends.
		left := int64(f.reader.Metadata.NodeCount) + 1
		for r := range f.reader.NetworksWithin(within, maxminddb.IncludeNetworksWithoutData()) {
			p := r.Prefix()
			if left--; left < 0 {
				yield(place{p, errTree}, 0)
				return
			}
			if err := r.Err(); err != nil {
				yield(place{p, err}, 0)
				return
			}
			switch {
			case !r.Found():
				continue
			case v6 && (p.Addr().Is4() || p.Bits() >= 96 && inV4.Contains(p.Addr())):
				continue
			case !v6 && p.Addr().Is6(): // one network that holds all of IPv4
				p = netip.PrefixFrom(netip.IPv4Unspecified(), max(p.Bits()-96, 0))
			}
			if !yield(place{prefix: p}, r.Offset()) {
				return
			}
		}
	}
}

// networks yields the located networks of one family in address order.
func (f *file) networks(v6 bool) networks {
	return func(yield func(netip.Prefix, geo.Location) bool) {
		for p, offset := range f.records(v6) {
			if l := f.at(offset); l.Located() && !yield(p.prefix, l) {
				return
			}
		}
	}
}
