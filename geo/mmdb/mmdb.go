// Package mmdb reads location databases in the MaxMind DB format into what package geo compiles.
//
// It knows two schemas and finds out by itself which one a file has: MaxMind's own (GeoLite2 and GeoIP2 City, Country, ASN and their relatives) and the flat one of the
// ip-location-db family (country_code, state1, latitude, longitude, autonomous_system_number). Several files make one source: City and ASN, or one file per family. A
// database at country level is built in.
//
// What it is not: it decides nothing about a client, and it does not watch files. To replace a database, Open again and swap the source; the old one stays whole, since
// files are read into memory.
package mmdb

import (
	"crypto/sha256"
	_ "embed" // the built-in database
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/edgesteer/edgesteer/geo"
)

// Source is a set of databases as package geo sees it. It is immutable and safe for concurrent use.
type Source struct {
	files []*file
	info  []geo.Database
}

// The built-in database, DB-IP Country Lite (data/README.md).
//
//go:embed data/dbip-country.mmdb
var builtin []byte

// attributionDBIP is the line that DB-IP's licence (CC BY 4.0) asks for.
const attributionDBIP = "IP Geolocation by DB-IP (https://db-ip.com), CC BY 4.0"

// attributionMaxMind is the line that the GeoLite2 licence asks for.
const attributionMaxMind = "This product includes GeoLite2 data created by MaxMind, available from https://www.maxmind.com"

// Embedded opens the built-in database: countries, both families.
func Embedded() (*Source, error) {
	f, err := parse("", builtin)
	if err != nil {
		return nil, fmt.Errorf("built-in location database: %w", err)
	}
	f.info.Type, f.info.Attribution = "built-in DB-IP Country Lite", attributionDBIP
	return newSource([]*file{f}), nil
}

// Open reads files and joins them: where several know the place of a network, the first in the list counts, likewise for its AS number. It reads each file whole and
// checks every record, so that a truncated, damaged or foreign file is refused before anything uses it; the error names each bad file and what it lacks. No paths at all
// is an error; see Embedded.
func Open(paths []string) (*Source, error) {
	if len(paths) == 0 {
		return nil, errors.New("no location database given")
	}
	var files []*file
	var errs []error
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("location database: %w", err))
			continue
		}
		f, err := parse(p, data)
		if err != nil {
			errs = append(errs, fmt.Errorf("location database %s: %w", p, err))
			continue
		}
		files = append(files, f)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return newSource(files), nil
}

// Holds reports whether the files at these paths, the built-in database if there are none, hold what the source was made of: opening them would give the same.
func (s *Source) Holds(paths []string) bool {
	if len(paths) == 0 {
		return len(s.files) == 1 && s.files[0].info.Path == ""
	}
	if len(paths) != len(s.files) {
		return false
	}
	for i, p := range paths {
		if s.files[i].info.Path != p {
			return false
		}
		if sum, err := sumOf(p); err != nil || sum != s.files[i].sum {
			return false
		}
	}
	return true
}

// sumOf reads a file without holding it.
func sumOf(path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return [sha256.Size]byte(h.Sum(nil)), err
}

func newSource(files []*file) *Source {
	s := &Source{files: files}
	for _, f := range files {
		s.info = append(s.info, f.info)
	}
	return s
}

// Databases implements geo.Source.
func (s *Source) Databases() []geo.Database { return s.info }

// Lookup implements geo.Source. It does not allocate.
func (s *Source) Lookup(a netip.Addr) (l geo.Location, bits int) {
	for _, f := range s.files {
		m, n := f.lookup(a)
		l, bits = join(l, m), max(bits, n)
	}
	return l, bits
}

// Networks implements geo.Source. Files that hold none of the wanted fields are left out.
func (s *Source) Networks(want geo.Fields, yield func(netip.Prefix, geo.Location) bool) error {
	for _, v6 := range [...]bool{false, true} {
		var all networks
		for _, f := range s.files {
			if f.info.Fields&want == 0 || !f.has(v6) {
				continue
			}
			if n := f.networks(v6); all == nil {
				all = n
			} else {
				all = overlay(all, n)
			}
		}
		if all == nil {
			continue
		}
		for p, l := range all {
			if !yield(p, l) {
				return nil
			}
		}
	}
	return nil
}

// join fills in from m what l does not know: the place as a whole, and the AS number.
func join(l, m geo.Location) geo.Location {
	asn := l.ASN
	if asn == 0 {
		asn = m.ASN
	}
	if !l.HasPlace() {
		l = m
	}
	l.ASN = asn
	return l
}

// attribution is the credit line for a database that the operator brought, by what the file says of itself.
func attribution(path, kind string) string {
	name := strings.ToLower(path[strings.LastIndexAny(path, `/\`)+1:] + " " + kind)
	switch {
	case strings.Contains(name, "geolite2"):
		return attributionMaxMind
	case strings.Contains(name, "dbip"), strings.Contains(name, "db-ip"):
		return attributionDBIP
	}
	return ""
}
