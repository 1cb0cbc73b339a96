package mmdb_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	"github.com/oschwald/geoip2-golang/v2"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/geo/mmdb"
)

// row is a network and its record.
type row struct {
	net    string
	record mmdbtype.Map
}

// build makes a database in memory.
func build(tb testing.TB, kind string, version int, rows ...row) []byte {
	tb.Helper()
	w, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: kind, IPVersion: version, RecordSize: 24, IncludeReservedNetworks: true, DisableIPv4Aliasing: version == 4})
	if err != nil {
		tb.Fatal(err)
	}
	for _, r := range rows {
		_, p, err := net.ParseCIDR(r.net)
		if err != nil {
			tb.Fatal(err)
		}
		if err := w.Insert(p, r.record); err != nil {
			tb.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// file writes a database to disk.
func file(tb testing.TB, name string, data []byte) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// city makes a record of MaxMind's City schema; a subdivision and coordinates are optional.
func city(country, subdivision string, at ...float64) mmdbtype.Map {
	m := mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String(country), "names": mmdbtype.Map{"en": mmdbtype.String("somewhere")}}}
	if subdivision != "" {
		m["subdivisions"] = mmdbtype.Slice{mmdbtype.Map{"iso_code": mmdbtype.String(subdivision)}, mmdbtype.Map{"iso_code": mmdbtype.String("XYZ")}}
	}
	if at != nil {
		m["location"] = mmdbtype.Map{"latitude": mmdbtype.Float64(at[0]), "longitude": mmdbtype.Float64(at[1]), "accuracy_radius": mmdbtype.Uint16(10)}
	}
	return m
}

func asn(n uint32) mmdbtype.Map {
	return mmdbtype.Map{"autonomous_system_number": mmdbtype.Uint32(n), "autonomous_system_organization": mmdbtype.String("Example")}
}

func open(tb testing.TB, paths ...string) *mmdb.Source {
	tb.Helper()
	s, err := mmdb.Open(paths)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// text renders a location: "US US-CA 37.5,-122 AS64500".
func text(l geo.Location) string {
	var words []string
	if l.Country != 0 {
		words = append(words, l.Country.String())
	}
	if l.Subdivision != 0 {
		words = append(words, l.Subdivision.String())
	}
	if l.Coords {
		words = append(words, fmt.Sprintf("%g,%g", l.Lat, l.Lon))
	}
	if l.ASN != 0 {
		words = append(words, fmt.Sprintf("AS%d", l.ASN))
	}
	return strings.Join(words, " ")
}

func lookups(t *testing.T, s *mmdb.Source, want map[string]string) {
	t.Helper()
	for a, w := range want {
		l, n := s.Lookup(netip.MustParseAddr(a))
		if got := text(l); got != w {
			t.Errorf("%s: %q, want %q", a, got, w)
		}
		if bits := netip.MustParseAddr(a).BitLen(); n < 0 || n > bits {
			t.Errorf("%s: a prefix of %d bits", a, n)
		}
	}
}

func TestEmbedded(t *testing.T) {
	s, err := mmdb.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	lookups(t, s, map[string]string{
		"1.0.16.1":     "JP",
		"8.8.8.8":      "US",
		"193.0.6.139":  "NL",
		"2001:200::1":  "JP",
		"2a00:1450::1": "PL",
		"10.1.2.3":     "",
		"127.0.0.1":    "",
		"::1":          "",
		"::1.0.16.1":   "",
	})
	d := s.Databases()[0]
	if d.Fields != geo.FieldCountry || d.Built.Year() < 2026 || !strings.Contains(d.Attribution, "DB-IP") || d.Path != "" {
		t.Errorf("%+v", d)
	}
}

// A source knows whether opening its files again would give the same.
func TestHolds(t *testing.T) {
	s, err := mmdb.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	one := file(t, "one.mmdb", build(t, "GeoLite2-Country", 6, row{"203.0.113.0/24", city("US", "CA")}))
	two := file(t, "two.mmdb", build(t, "GeoLite2-Country", 6, row{"203.0.113.0/24", city("DE", "")}))
	if !s.Holds(nil) || s.Holds([]string{one}) {
		t.Error("the built-in database")
	}
	s = open(t, one, two)
	if !s.Holds([]string{one, two}) || s.Holds([]string{two, one}) || s.Holds([]string{one}) || s.Holds(nil) {
		t.Error("unchanged files")
	}
	data, err := os.ReadFile(two)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(one, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if s.Holds([]string{one, two}) {
		t.Error("a file that was replaced")
	}
	if err := os.Remove(one); err != nil {
		t.Fatal(err)
	}
	if s.Holds([]string{one, two}) {
		t.Error("a file that is gone")
	}
}

func TestOpen(t *testing.T) {
	s := open(t,
		file(t, "GeoLite2-City.mmdb", build(t, "GeoLite2-City", 6,
			row{"203.0.113.0/24", city("US", "CA", 37.5, -122)},
			row{"198.51.100.0/24", city("DE", "")},
			row{"198.51.100.128/25", city("EU", "", 50, 9)},
			row{"2001:db8::/32", city("JP", "13", 0, 0)},
			row{"192.0.2.0/24", mmdbtype.Map{"registered_country": mmdbtype.Map{"iso_code": mmdbtype.String("US")}}},
		)),
		file(t, "GeoLite2-ASN.mmdb", build(t, "GeoLite2-ASN", 6,
			row{"203.0.0.0/16", asn(64500)},
			row{"198.51.100.64/26", asn(64501)},
			row{"192.0.2.0/24", asn(64502)},
		)),
	)
	lookups(t, s, map[string]string{
		"203.0.113.9":    "US US-CA 37.5,-122 AS64500",
		"203.0.1.1":      "AS64500",
		"198.51.100.1":   "DE",
		"198.51.100.65":  "DE AS64501",
		"198.51.100.200": "50,9",
		"2001:db8::1":    "JP JP-13",
		"192.0.2.1":      "AS64502",
		"9.9.9.9":        "",
	})
	var got []string
	if err := s.Networks(geo.FieldsPlace|geo.FieldASN, func(p netip.Prefix, l geo.Location) bool {
		got = append(got, p.String()+" "+text(l))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"192.0.2.0/24 AS64502",
		"198.51.100.0/26 DE", "198.51.100.64/26 DE AS64501", "198.51.100.128/25 50,9",
		"203.0.0.0/18 AS64500", "203.0.64.0/19 AS64500", "203.0.96.0/20 AS64500", "203.0.112.0/24 AS64500", "203.0.113.0/24 US US-CA 37.5,-122 AS64500",
		"203.0.114.0/23 AS64500", "203.0.116.0/22 AS64500", "203.0.120.0/21 AS64500", "203.0.128.0/17 AS64500",
		"2001:db8::/32 JP JP-13",
	}, got); diff != "" {
		t.Errorf("networks (-want +got):\n%s", diff)
	}
	n := 0
	if err := s.Networks(geo.FieldsPlace, func(netip.Prefix, geo.Location) bool { n++; return n < 3 }); err != nil || n != 3 {
		t.Errorf("stopped after %d networks: %v", n, err)
	}
	d := s.Databases()
	if len(d) != 2 || d[0].Fields != geo.FieldsPlace || d[1].Fields != geo.FieldASN || !strings.Contains(d[0].Attribution, "MaxMind") {
		t.Errorf("%+v", d)
	}
}

// TestFlat reads the schema of the ip-location-db family, one file per family.
func TestFlat(t *testing.T) {
	flat := func(country, state string, lat, lon float32) mmdbtype.Map {
		return mmdbtype.Map{"country_code": mmdbtype.String(country), "state1": mmdbtype.String(state), "latitude": mmdbtype.Float32(lat), "longitude": mmdbtype.Float32(lon), "city": mmdbtype.String("somewhere")}
	}
	s := open(t,
		file(t, "dbip-city-ipv4.mmdb", build(t, "city ipv4", 4, row{"203.0.113.0/24", flat("US", "California", 37.5, -122)}, row{"198.51.100.0/24", flat("DE", "Nowhere", 0, 0)})),
		file(t, "dbip-city-ipv6.mmdb", build(t, "city ipv6", 6, row{"2001:db8::/32", flat("CA", "Québec", 46, -71)})),
		file(t, "asn.mmdb", build(t, "asn ipv4", 4, row{"203.0.113.0/25", asn(64500)})),
	)
	lookups(t, s, map[string]string{
		"203.0.113.1":   "US US-CA 37.5,-122 AS64500",
		"203.0.113.129": "US US-CA 37.5,-122",
		"198.51.100.1":  "DE",
		"2001:db8::1":   "CA CA-QC 46,-71",
		"2001:db9::1":   "",
		"9.9.9.9":       "",
	})
	if a := s.Databases()[0].Attribution; !strings.Contains(a, "DB-IP") {
		t.Errorf("attribution %q", a)
	}
}

// TestWholeSpace: one network that holds all of IPv4, or of both families.
func TestWholeSpace(t *testing.T) {
	s := open(t, file(t, "a.mmdb", build(t, "City", 6, row{"0.0.0.0/0", city("DE", "")}, row{"2000::/3", city("FR", "")})))
	lookups(t, s, map[string]string{"1.2.3.4": "DE", "255.255.255.255": "DE", "2001:db8::1": "FR", "::1": "", "4000::": ""})
	m, err := geo.Compile(s, geo.Plan{Kind: geo.MatchCountry, Targets: []geo.Target{{Countries: []geo.Country{'D'<<8 | 'E'}}}})
	if err != nil {
		t.Fatal(err)
	}
	c := geo.NewClient(netip.MustParseAddr("10.0.0.0"), 24, netip.Addr{})
	if l := m.Lookup(&c); !l.Outcome.Matches(0) || l.BitsAt(1) != 1 {
		t.Errorf("%+v %+v", l, l.Outcome)
	}
}

func TestRefused(t *testing.T) {
	good := build(t, "GeoLite2-City", 6, row{"203.0.113.0/24", city("US", "CA", 37.5, -122)}, row{"198.51.100.0/24", city("DE", "")})
	wrongType := build(t, "ipinfo", 6, row{"203.0.113.0/24", mmdbtype.Map{"country": mmdbtype.String("US")}})
	rude := build(t, "GeoLite2-ASN", 6, row{"203.0.113.0/24", mmdbtype.Map{"autonomous_system_number": mmdbtype.String("\x1b[2J")}})
	anonymous := build(t, "GeoIP2-Anonymous-IP", 6, row{"203.0.113.0/24", mmdbtype.Map{"is_anonymous": mmdbtype.Bool(true)}})
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":      {nil, "not a whole MaxMind database file"},
		"text":       {[]byte("hello"), "not a whole MaxMind database file"},
		"truncated":  {good[:len(good)/2], "not a whole MaxMind database file"},
		"wrong kind": {anonymous, `wrong kind of database ("GeoIP2-Anonymous-IP"): no record has any of country.iso_code or country_code`},
		"wrong type": {wrongType, "record of 203.0.113.0/24"},
		"terminal":   {rude, `\x1b[2J`},
		"no records": {build(t, "GeoLite2-City", 6), "no record has any of"},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, "x.mmdb", c.data)
			_, err := mmdb.Open([]string{path})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v, want %q with the file's name", err, c.want)
			}
			if err != nil && strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Errorf("control characters of the file in %q", err)
			}
		})
	}
	_, err := mmdb.Open([]string{file(t, "good.mmdb", good), filepath.Join(t.TempDir(), "missing.mmdb"), file(t, "bad.mmdb", anonymous)})
	if err == nil || !strings.Contains(err.Error(), "missing.mmdb") || !strings.Contains(err.Error(), "bad.mmdb") || strings.Contains(err.Error(), "good.mmdb") {
		t.Errorf("all bad files are named, and no good one: %v", err)
	}
	if _, err := mmdb.Open(nil); err == nil {
		t.Error("no file at all was taken")
	}
	for cut := range len(good) - 1 { // whatever is cut off the end is missed
		if _, err := mmdb.Open([]string{file(t, "cut.mmdb", good[:cut])}); err == nil {
			t.Errorf("the first %d of %d bytes were taken", cut, len(good))
		}
	}
}

// TestReplace: a source outlives its file, however that is replaced.
func TestReplace(t *testing.T) {
	path := file(t, "x.mmdb", build(t, "City", 6, row{"203.0.113.0/24", city("US", "")}))
	old := open(t, path)
	if err := os.WriteFile(path, []byte("half a fi"), 0o600); err != nil {
		t.Fatal(err)
	}
	lookups(t, old, map[string]string{"203.0.113.1": "US"})
	if _, err := mmdb.Open([]string{path}); err == nil {
		t.Error("half a file was taken")
	}
	if err := os.WriteFile(path, build(t, "City", 6, row{"203.0.113.0/24", city("DE", "")}), 0o600); err != nil {
		t.Fatal(err)
	}
	lookups(t, open(t, path), map[string]string{"203.0.113.1": "DE"})
	lookups(t, old, map[string]string{"203.0.113.1": "US"})
}

// TestAgainstGeoIP2 reads the same files with the reference library, address by address.
func TestAgainstGeoIP2(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		var cities, asns []row
		for range 30 {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), byte(r.IntN(4)) << 6, byte(r.IntN(4)) << 6}), 8+r.IntN(25)).Masked().String()
			if r.IntN(3) == 0 {
				p = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x2a, 0, byte(r.IntN(4)), byte(r.IntN(4)) << 6}), 12+r.IntN(40)).Masked().String()
			}
			if r.IntN(2) == 0 {
				asns = append(asns, row{p, asn(1 + r.Uint32N(5))})
			} else {
				cities = append(cities, row{p, city([]string{"US", "DE", "JP"}[r.IntN(3)], []string{"", "CA"}[r.IntN(2)], 1+float64(r.IntN(40)), 1+float64(r.IntN(40)))})
			}
		}
		a, b := build(t, "GeoLite2-City", 6, cities...), build(t, "GeoLite2-ASN", 6, asns...)
		s := open(t, file(t, "city.mmdb", a), file(t, "asn.mmdb", b))
		cityDB, err := geoip2.OpenBytes(a)
		if err != nil {
			t.Fatal(err)
		}
		asnDB, err := geoip2.OpenBytes(b)
		if err != nil {
			t.Fatal(err)
		}
		want := func(addr netip.Addr) string {
			c, err := cityDB.City(addr)
			if err != nil {
				t.Fatal(err)
			}
			n, err := asnDB.ASN(addr)
			if err != nil {
				t.Fatal(err)
			}
			var l geo.Location
			if c.HasData() {
				l.Country, _ = geo.ParseCountry(c.Country.ISOCode)
				if len(c.Subdivisions) > 0 {
					l.Subdivision = geo.MakeSubdivision(l.Country, c.Subdivisions[0].ISOCode)
				}
				l.Lat, l.Lon, l.Coords = float32(*c.Location.Latitude), float32(*c.Location.Longitude), true
			}
			l.ASN = uint32(n.AutonomousSystemNumber)
			return text(l)
		}
		type piece struct {
			net  netip.Prefix
			text string
		}
		var pieces []piece
		if err := s.Networks(geo.FieldsPlace|geo.FieldASN, func(p netip.Prefix, l geo.Location) bool {
			pieces = append(pieces, piece{p, text(l)})
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(pieces, func(p, q piece) int { return p.net.Compare(q.net) }) {
			t.Fatalf("seed %d: networks out of order", seed)
		}
		for range 500 {
			addr := netip.AddrFrom4([4]byte{10, byte(r.IntN(5)), byte(r.IntN(256)), byte(r.IntN(256))})
			if r.IntN(3) == 0 {
				addr = netip.AddrFrom16([16]byte{0x2a, 0, byte(r.IntN(4)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))})
			}
			l, n := s.Lookup(addr)
			if got := text(l); got != want(addr) {
				t.Fatalf("seed %d: %v: %q, geoip2 %q", seed, addr, got, want(addr))
			}
			var inside string
			for _, p := range pieces {
				if p.net.Contains(addr) {
					inside += p.text
				}
			}
			if inside != text(l) {
				t.Fatalf("seed %d: %v: %q, networks say %q", seed, addr, text(l), inside)
			}
			within, err := addr.Prefix(n)
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				b := addr.AsSlice()
				for i := n; i < len(b)*8; i++ {
					if r.IntN(2) == 0 {
						b[i/8] ^= 0x80 >> (i % 8)
					}
				}
				other, _ := netip.AddrFromSlice(b)
				if m, _ := s.Lookup(other); m != l || !within.Contains(other) {
					t.Fatalf("seed %d: %v is within %v, but lies elsewhere", seed, other, within)
				}
			}
		}
	}
}
