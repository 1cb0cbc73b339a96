package geo

import "strings"

// Region is one of NS1's georegions; 0 is "none".
type Region uint8

// The georegions.
const (
	USWest Region = iota + 1
	USCentral
	USEast
	Europe
	Africa
	AsiaPac
	SouthAmerica
)

// regions holds the names as NS1 writes them and a centre, a round point where the region's networks are.
var regions = [...]struct {
	name  string
	point Point
}{
	USWest:       {"US-WEST", Point{39, -117}},
	USCentral:    {"US-CENTRAL", Point{39.5, -95}},
	USEast:       {"US-EAST", Point{39, -78}},
	Europe:       {"EUROPE", Point{49.5, 10}},
	Africa:       {"AFRICA", Point{2, 21}},
	AsiaPac:      {"ASIAPAC", Point{15, 115}},
	SouthAmerica: {"SOUTH-AMERICA", Point{-15, -58}},
}

// Regions is a set of georegions, bit r for Region r: those in which a place may lie. A country-level location in the US or Canada may lie in three.
type Regions uint8

// Has reports whether r is in the set.
func (s Regions) Has(r Region) bool { return r != 0 && s&(1<<r) != 0 }

// ParseRegion reads a georegion's name in either case. An unknown one is a *ParseError.
func ParseRegion(s string) (Region, error) {
	up := strings.ToUpper(strings.TrimSpace(s))
	for r := USWest; r <= SouthAmerica; r++ {
		if regions[r].name == up {
			return r, nil
		}
	}
	e := &ParseError{Kind: "georegion", Value: s, Hint: "one of US-WEST, US-CENTRAL, US-EAST, EUROPE, AFRICA, ASIAPAC, SOUTH-AMERICA"}
	switch squeezed := strings.NewReplacer("-", "", "_", "", " ", "").Replace(up); squeezed {
	case "EU":
		e.Hint = `did you mean "EUROPE"?`
	case "AF":
		e.Hint = `did you mean "AFRICA"?`
	case "ASIA", "APAC", "ASIAPACIFIC", "OCEANIA", "AS", "OC":
		e.Hint = `did you mean "ASIAPAC"?`
	case "SOUTHAMERICA", "LATAM", "SA":
		e.Hint = `did you mean "SOUTH-AMERICA"?`
	case "USWEST", "USCENTRAL", "USEAST":
		e.Hint = `did you mean "US-` + squeezed[2:] + `"?`
	case "US", "NA", "NORTHAMERICA":
		e.Hint = "list US-WEST, US-CENTRAL and US-EAST"
	}
	return 0, e
}

// String is NS1's name, or "" for none.
func (r Region) String() string {
	if int(r) >= len(regions) {
		return ""
	}
	return regions[r].name
}

// Point is the centre of the region; ok is false for none.
func (r Region) Point() (p Point, ok bool) {
	if r == 0 || int(r) >= len(regions) {
		return Point{}, false
	}
	return regions[r].point, true
}

// RegionsOf gives the georegions in which a place may lie. NS1 does not say how countries map to its regions; ours follow the continents: Europe with Russia and Cyprus;
// Asia with Turkey and the Middle East, and Oceania, are ASIAPAC; Mexico and Central America count as US-CENTRAL, the Caribbean and Greenland as US-EAST. US states and
// Canadian provinces lie in one region each; either country without a known subdivision may be any of the three.
func RegionsOf(c Country, d Subdivision) Regions {
	if c == 0 {
		c = d.Country()
	}
	r := findCountry(c)
	if r == nil {
		return 0
	}
	if d != 0 && d.Country() == c {
		if one := regionOfState(d); one != 0 {
			return 1 << one
		}
	}
	return r.regions
}

// RegionOf is the single georegion of a place; 0 if it has none or may lie in several.
func RegionOf(c Country, d Subdivision) Region {
	s := RegionsOf(c, d)
	for r := USWest; r <= SouthAmerica; r++ {
		if s == 1<<r {
			return r
		}
	}
	return 0
}

// regionOfState maps US states and Canadian provinces by their time zones: Pacific and Mountain (and beyond) are west, Central is central, Eastern is east.
func regionOfState(d Subdivision) Region {
	s := d.String()
	if len(s) != 5 {
		return 0
	}
	switch s[:3] {
	case "US-":
		switch s[3:] {
		case "AK", "AS", "AZ", "CA", "CO", "GU", "HI", "ID", "MP", "MT", "NM", "NV", "OR", "UT", "WA", "WY":
			return USWest
		case "AL", "AR", "IA", "IL", "KS", "LA", "MN", "MO", "MS", "ND", "NE", "OK", "SD", "TN", "TX", "WI":
			return USCentral
		case "CT", "DC", "DE", "FL", "GA", "IN", "KY", "MA", "MD", "ME", "MI", "NC", "NH", "NJ", "NY", "OH", "PA", "PR", "RI", "SC", "VA", "VI", "VT", "WV":
			return USEast
		}
	case "CA-":
		switch s[3:] {
		case "AB", "BC", "NT", "YT":
			return USWest
		case "MB", "NU", "SK":
			return USCentral
		case "NB", "NL", "NS", "ON", "PE", "QC":
			return USEast
		}
	}
	return 0
}
