package geo

import (
	"cmp"
	"slices"
	"strings"
)

// Country is an ISO 3166-1 alpha-2 code, its two upper-case letters packed into two bytes; 0 is "none". XK (Kosovo, user-assigned) counts as one.
type Country uint16

// Subdivision is an ISO 3166-2 code: the country in the upper 16 bits, the one to three letters or digits of the suffix below; 0 is "none".
type Subdivision uint32

// ParseError says that a place is not known. Hint names the likely meaning, or is empty.
type ParseError struct {
	Kind  string // "country", "subdivision", "georegion"
	Value string // as given
	Hint  string
}

func (e *ParseError) Error() string {
	s := "unknown " + e.Kind + " " + quote(e.Value)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// quote is strconv.Quote for short words of a configuration.
func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

// country is one row of the generated table.
type country struct {
	code     Country
	alpha3   string
	regions  Regions
	lat, lon float32
	name     string
}

// subdivision is one row of the generated table; without a centre of its own (both 0) it lies at the centre of its country.
type subdivision struct {
	code      Subdivision
	lat, lon  float32
	name, alt string
}

// packCountry packs two upper-case letters; ok is false for anything else.
func packCountry(s string) (c Country, ok bool) {
	if len(s) != 2 || !upper(s[0]) || !upper(s[1]) {
		return 0, false
	}
	return Country(s[0])<<8 | Country(s[1]), true
}

func upper(b byte) bool { return 'A' <= b && b <= 'Z' }

// digit37 is the value of a suffix character in base 37; 0 stands for "no character".
func digit37(b byte) (uint32, bool) {
	switch {
	case '0' <= b && b <= '9':
		return uint32(b-'0') + 1, true
	case upper(b):
		return uint32(b-'A') + 11, true
	}
	return 0, false
}

// packSubdivision packs "US-CA"; ok is false when s does not have that form. It does not ask whether the code exists.
func packSubdivision(s string) (d Subdivision, ok bool) {
	if len(s) < 4 || len(s) > 6 || s[2] != '-' {
		return 0, false
	}
	c, ok := packCountry(s[:2])
	if !ok {
		return 0, false
	}
	var n uint32
	for i := 3; i < 6; i++ {
		var v uint32
		if i < len(s) {
			if v, ok = digit37(s[i]); !ok {
				return 0, false
			}
		}
		n = n*37 + v
	}
	return Subdivision(c)<<16 | Subdivision(n), true
}

// ParseCountry reads an alpha-2 code in either case. An unknown code is a *ParseError.
func ParseCountry(s string) (Country, error) {
	up := strings.ToUpper(strings.TrimSpace(s))
	if c, ok := packCountry(up); ok && findCountry(c) != nil {
		return c, nil
	}
	return 0, &ParseError{Kind: "country", Value: s, Hint: hintCountry(up)}
}

// hintCountry guesses what was meant: a common wrong code, an alpha-3 code or a name.
func hintCountry(up string) string {
	switch up {
	case "UK", "EN":
		return `did you mean "GB"?`
	case "EL":
		return `did you mean "GR"?`
	case "EU":
		return `a georegion "EUROPE" exists, no such country`
	}
	for i := range countries {
		c := &countries[i]
		if c.alpha3 == up || strings.EqualFold(c.name, up) || len(up) > 3 && strings.HasPrefix(strings.ToUpper(c.name), up) {
			return "did you mean " + quote(c.code.String()) + "?"
		}
	}
	return "two letters of ISO 3166-1"
}

// ParseSubdivision reads a code such as "US-CA" in either case. An unknown code is a *ParseError.
func ParseSubdivision(s string) (Subdivision, error) {
	up := strings.ToUpper(strings.TrimSpace(s))
	d, ok := packSubdivision(up)
	if ok && findSubdivision(d) != nil {
		return d, nil
	}
	e := &ParseError{Kind: "subdivision", Value: s, Hint: "ISO 3166-2, such as US-CA"}
	switch {
	case ok && findCountry(d.Country()) == nil:
		e.Hint = "unknown country: " + hintCountry(up[:2])
	case ok:
		e.Hint = "not a subdivision of " + up[:2]
	case len(up) == 2:
		// A bare US state or Canadian province, the two lists that people write without their country.
		for _, p := range [...]string{"US-", "CA-"} {
			if d, ok := packSubdivision(p + up); ok && findSubdivision(d) != nil {
				e.Hint = "did you mean " + quote(p+up) + "?"
				break
			}
		}
	default:
		for i := range subdivisions {
			if strings.EqualFold(subdivisions[i].name, s) {
				e.Hint = "did you mean " + quote(subdivisions[i].code.String()) + "?"
				break
			}
		}
	}
	return 0, e
}

// MakeSubdivision joins a country and an ISO 3166-2 suffix ("CA") as databases give them; 0 if they do not make a code. It accepts codes that the built-in table does not
// know: they match by code and lie at the centre of their country.
func MakeSubdivision(c Country, suffix string) Subdivision {
	if c == 0 || len(suffix) == 0 || len(suffix) > 3 {
		return 0
	}
	d, ok := packSubdivision(c.String() + "-" + strings.ToUpper(suffix))
	if !ok {
		return 0
	}
	return d
}

// FindSubdivision finds a subdivision of c by its English or local name, ignoring case and accents; 0 if there is none.
func FindSubdivision(c Country, name string) Subdivision {
	want := fold(name)
	if c == 0 || want == "" {
		return 0
	}
	i, _ := slices.BinarySearchFunc(subdivisions[:], Subdivision(c)<<16, func(s subdivision, d Subdivision) int { return cmp.Compare(s.code, d) })
	for ; i < len(subdivisions) && subdivisions[i].code.Country() == c; i++ {
		if s := &subdivisions[i]; fold(s.name) == want || fold(s.alt) == want {
			return s.code
		}
	}
	return 0
}

// fold reduces a name to lower-case ASCII letters and digits; accented Latin letters lose their accent.
func fold(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			b.WriteRune(r)
		case 'A' <= r && r <= 'Z':
			b.WriteRune(r + 'a' - 'A')
		case r > 0x7f:
			if i := strings.IndexRune(accented, r); i >= 0 {
				b.WriteByte(plain[len([]rune(accented[:i]))])
			} else {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}

// The accented letters of the names in the table, and what stands for each.
const (
	accented = "ÀÁÂÃÄÅĀĂĄàáâãäåāăąÇĆČçćčÐĐđÈÉÊËĒĖĘĚèéêëēėęěĞğĢģÌÍÎÏĪĮİìíîïīįıĶķĹĻĽŁĺļľłÑŃŅŇñńņňÒÓÔÕÖØŌŐòóôõöøōőŔŘŕřŚŞŠȘśşšșŢŤȚţťțÙÚÛÜŪŮŰŲùúûüūůűųÝýÿŹŻŽźżž"
	plain    = "aaaaaaaaaaaaaaaaaaccccccdddeeeeeeeeeeeeeeeeggggiiiiiiiiiiiiiikkllllllllnnnnnnnnoooooooooooooooorrrrssssssssttttttuuuuuuuuuuuuuuuuyyyzzzzzz"
)

// Known reports whether c is in the built-in table (all of ISO 3166-1 and XK).
func (c Country) Known() bool { return findCountry(c) != nil }

// Name is the English name, or the code if the country is not known.
func (c Country) Name() string {
	if r := findCountry(c); r != nil {
		return r.name
	}
	return c.String()
}

// String is the code, or "" for none.
func (c Country) String() string {
	if c == 0 {
		return ""
	}
	return string([]byte{byte(c >> 8), byte(c)})
}

// Point is the centre of the country's largest part; ok is false if it is not known.
func (c Country) Point() (p Point, ok bool) {
	r := findCountry(c)
	if r == nil {
		return Point{}, false
	}
	return Point{Lat: float64(r.lat), Lon: float64(r.lon)}, true
}

// Country is the country that d is part of.
func (d Subdivision) Country() Country { return Country(d >> 16) }

// Name is the English or local name, or the code if d is not in the table.
func (d Subdivision) Name() string {
	if r := findSubdivision(d); r != nil && r.name != "" {
		return r.name
	}
	return d.String()
}

// String is the code, "US-CA", or "" for none.
func (d Subdivision) String() string {
	if d == 0 {
		return ""
	}
	b := append([]byte(d.Country().String()), '-')
	n := uint32(d & 0xffff)
	for _, v := range [...]uint32{n / (37 * 37), n / 37 % 37, n % 37} {
		switch {
		case v == 0:
		case v <= 10:
			b = append(b, byte('0'+v-1))
		default:
			b = append(b, byte('A'+v-11))
		}
	}
	return string(b)
}

// Point is the centre of the subdivision, else of its country; ok is false if neither is known.
func (d Subdivision) Point() (p Point, ok bool) {
	if r := findSubdivision(d); r != nil && (r.lat != 0 || r.lon != 0) {
		return Point{Lat: float64(r.lat), Lon: float64(r.lon)}, true
	}
	return d.Country().Point()
}

func findCountry(c Country) *country {
	i, ok := slices.BinarySearchFunc(countries[:], c, func(r country, c Country) int { return cmp.Compare(r.code, c) })
	if !ok {
		return nil
	}
	return &countries[i]
}

func findSubdivision(d Subdivision) *subdivision {
	i, ok := slices.BinarySearchFunc(subdivisions[:], d, func(r subdivision, d Subdivision) int { return cmp.Compare(r.code, d) })
	if !ok {
		return nil
	}
	return &subdivisions[i]
}
