package geo

import (
	"errors"
	"slices"
	"testing"
	"unicode/utf8"
)

func TestTables(t *testing.T) {
	if !slices.IsSortedFunc(countries[:], func(a, b country) int { return int(a.code) - int(b.code) }) {
		t.Error("countries are not sorted")
	}
	if !slices.IsSortedFunc(subdivisions[:], func(a, b subdivision) int { return int(int64(a.code) - int64(b.code)) }) {
		t.Error("subdivisions are not sorted")
	}
	if len(countries) != 250 { // 249 of ISO 3166-1 and XK
		t.Errorf("%d countries", len(countries))
	}
	for _, r := range countries {
		c, err := ParseCountry(r.code.String())
		if err != nil || c != r.code || !c.Known() {
			t.Errorf("%v: parsed as %v, %v", r.code, c, err)
		}
		if p, ok := c.Point(); !ok || p == (Point{}) {
			t.Errorf("%v: no centre", c)
		}
		if r.name == "" || r.regions == 0 && c.String() != "AQ" {
			t.Errorf("%v: name %q, regions %v", c, r.name, r.regions)
		}
	}
	for _, r := range subdivisions {
		d, err := ParseSubdivision(r.code.String())
		if err != nil || d != r.code {
			t.Errorf("%v: parsed as %v, %v", r.code, d, err)
		}
		if _, ok := d.Point(); !ok {
			t.Errorf("%v: no centre", d)
		}
	}
	for _, states := range []struct {
		country string
		regions Regions
		want    int
	}{{"US", 1<<USWest | 1<<USCentral | 1<<USEast, 51}, {"CA", 1<<USWest | 1<<USCentral | 1<<USEast, 13}} {
		n := 0
		for _, r := range subdivisions {
			if r.code.Country().String() != states.country {
				continue
			}
			if reg := RegionOf(0, r.code); reg != 0 && states.regions.Has(reg) && (r.lat != 0 || r.lon != 0) {
				n++
			}
		}
		if n < states.want {
			t.Errorf("%s: %d states with a region and a centre, want %d", states.country, n, states.want)
		}
	}
	if utf8.RuneCountInString(accented) != len(plain) {
		t.Errorf("%d accented letters, %d plain ones", utf8.RuneCountInString(accented), len(plain))
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ kind, in, want, hint string }{
		{"country", "DE", "DE", ""},
		{"country", " jp ", "JP", ""},
		{"country", "UK", "", `did you mean "GB"?`},
		{"country", "DEU", "", `did you mean "DE"?`},
		{"country", "Germany", "", `did you mean "DE"?`},
		{"country", "EU", "", `a georegion "EUROPE" exists, no such country`},
		{"country", "ZZ", "", "two letters of ISO 3166-1"},
		{"country", "", "", "two letters of ISO 3166-1"},
		{"subdivision", "us-ca", "US-CA", ""},
		{"subdivision", "GB-ENG", "GB-ENG", ""},
		{"subdivision", "JP-13", "JP-13", ""},
		{"subdivision", "FR-IDF", "FR-IDF", ""},
		{"subdivision", "US-XX", "", "not a subdivision of US"},
		{"subdivision", "UK-ENG", "", `unknown country: did you mean "GB"?`},
		{"subdivision", "NY", "", `did you mean "US-NY"?`},
		{"subdivision", "QC", "", `did you mean "CA-QC"?`},
		{"subdivision", "California", "", `did you mean "US-CA"?`},
		{"subdivision", "US-", "", "ISO 3166-2, such as US-CA"},
		{"georegion", "us-west", "US-WEST", ""},
		{"georegion", "SOUTH-AMERICA", "SOUTH-AMERICA", ""},
		{"georegion", "ASIA", "", `did you mean "ASIAPAC"?`},
		{"georegion", "us_east", "", `did you mean "US-EAST"?`},
		{"georegion", "nowhere", "", "one of US-WEST, US-CENTRAL, US-EAST, EUROPE, AFRICA, ASIAPAC, SOUTH-AMERICA"},
	} {
		var got string
		var err error
		switch c.kind {
		case "country":
			var v Country
			v, err = ParseCountry(c.in)
			got = v.String()
		case "subdivision":
			var v Subdivision
			v, err = ParseSubdivision(c.in)
			got = v.String()
		case "georegion":
			var v Region
			v, err = ParseRegion(c.in)
			got = v.String()
		}
		var pe *ParseError
		if errors.As(err, &pe); got != c.want || (err == nil) != (c.want != "") || pe != nil && (pe.Hint != c.hint || pe.Kind != c.kind) {
			t.Errorf("%s %q: %q, %v; want %q, hint %q", c.kind, c.in, got, err, c.want, c.hint)
		}
	}
}

func TestFindSubdivision(t *testing.T) {
	for _, c := range []struct{ country, name, want string }{
		{"US", "California", "US-CA"},
		{"US", "new york", "US-NY"},
		{"CA", "Quebec", "CA-QC"},
		{"JP", "Tokyo", "JP-13"},
		{"DE", "Baden-Wurttemberg", "DE-BW"},
		{"BR", "Sao Paulo", "BR-SP"},
		{"US", "Ontario", ""},
		{"US", "", ""},
	} {
		country, err := ParseCountry(c.country)
		if err != nil {
			t.Fatal(err)
		}
		if got := FindSubdivision(country, c.name); got.String() != c.want {
			t.Errorf("%s %q: %v, want %q", c.country, c.name, got, c.want)
		}
	}
	us, _ := ParseCountry("US")
	for suffix, want := range map[string]string{"CA": "US-CA", "ca": "US-CA", "ZZ": "US-ZZ", "": "", "LONG": "", "é": ""} {
		if got := MakeSubdivision(us, suffix); got.String() != want {
			t.Errorf("suffix %q: %v, want %q", suffix, got, want)
		}
	}
}

func TestRegions(t *testing.T) {
	for _, c := range []struct {
		country, state string
		want           Region
	}{
		{"US", "US-CA", USWest}, {"US", "US-TX", USCentral}, {"US", "US-NY", USEast}, {"US", "", 0},
		{"CA", "CA-BC", USWest}, {"CA", "CA-QC", USEast}, {"MX", "", USCentral}, {"CU", "", USEast},
		{"DE", "", Europe}, {"RU", "", Europe}, {"TR", "", AsiaPac}, {"JP", "", AsiaPac}, {"AU", "AU-NSW", AsiaPac},
		{"ZA", "", Africa}, {"BR", "BR-SP", SouthAmerica}, {"AQ", "", 0},
		{"DE", "US-CA", Europe}, // a subdivision of another country says nothing
	} {
		country, _ := ParseCountry(c.country)
		state, _ := packSubdivision(c.state)
		if got := RegionOf(country, state); got != c.want {
			t.Errorf("%s %s: %v, want %v", c.country, c.state, got, c.want)
		}
	}
	us, _ := ParseCountry("US")
	if s := RegionsOf(us, 0); !s.Has(USWest) || !s.Has(USCentral) || !s.Has(USEast) || s.Has(Europe) {
		t.Errorf("US may lie in %b", s)
	}
}
