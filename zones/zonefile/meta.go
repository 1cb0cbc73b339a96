package zonefile

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server/config"
)

// metadata is checked metadata by key: pops.Value for numbers and `up`, the types of package geo for places, string for the note.
type metadata map[string]any

// metaKeys is what metadata there is (steering.md section 1) and how each is read.
var metaKeys = [...]struct {
	name string
	read func(r *metaReader, v any) (any, error)
}{
	{"up", (*metaReader).truth},
	{"connections", (*metaReader).amount},
	{"requests", (*metaReader).amount},
	{"loadavg", (*metaReader).amount},
	{"low_watermark", (*metaReader).amount},
	{"high_watermark", (*metaReader).amount},
	{"country", list(geo.ParseCountry)},
	{"us_state", list(stateOf("US"))},
	{"ca_province", list(stateOf("CA"))},
	{"subdivisions", (*metaReader).subdivisions},
	{"georegion", list(geo.ParseRegion)},
	{"latitude", degrees(90)},
	{"longitude", degrees(180)},
	{"asn", list(parseASN)},
	{"ip_prefixes", list(parsePrefix)},
	{"weight", (*metaReader).amount},
	{"priority", (*metaReader).amount},
	{"cost", (*metaReader).amount},
	{"note", (*metaReader).note},
}

// maxNote is the longest note, as at NS1.
const maxNote = 256

// metaReader checks metadata and gathers what is wrong with it.
type metaReader struct {
	cfg      *config.Config
	feeds    []string // of the fleet
	problems []placed
}

// placed is a problem with its path in the configuration.
type placed struct {
	config.Problem
	path   []any
	shared bool // it is one of the warnings of a share
}

func problemsOf(list []placed) (out []config.Problem) {
	for _, p := range list {
		out = append(out, p.Problem)
	}
	return out
}

func (r *metaReader) fail(message, hint string, path ...any) {
	r.problems = append(r.problems, placed{Problem: r.cfg.Problem(message, hint, path...), path: path})
}

func (r *metaReader) warn(message, hint string, path ...any) {
	r.problems = append(r.problems, warning(r.cfg, message, hint, path))
}

func warning(cfg *config.Config, message, hint string, path []any) placed {
	p := cfg.Problem(message, hint, path...)
	p.Warning = true
	return placed{Problem: p, path: path}
}

// read checks the metadata at a path.
func (r *metaReader) read(meta config.Meta, path ...any) metadata {
	m := metadata{}
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		r.one(m, name, meta[name], append(slices.Clip(path), name)...)
	}
	for _, pair := range [...][2]string{{"latitude", "longitude"}, {"longitude", "latitude"}} {
		if meta[pair[0]] != nil && meta[pair[1]] == nil {
			r.fail(pair[0]+" without "+pair[1], "", append(slices.Clip(path), pair[0])...)
		}
	}
	return m
}

// one checks one value and enters it into m.
func (r *metaReader) one(m metadata, name string, v any, path ...any) {
	for i := range metaKeys {
		if metaKeys[i].name != name {
			continue
		}
		checked, err := metaKeys[i].read(r, v)
		if err != nil {
			message, hint, _ := strings.Cut(err.Error(), "\n")
			r.fail(message, hint, path...)
			if name == "up" { // it is said, or there would be a warning that it is not
				m[name] = pops.Value{Set: true, Const: 1}
			}
			return
		}
		m[name] = checked
		return
	}
	r.fail("unknown metadata", config.DidYouMean(name, metaNames()), path...)
}

func metaNames() []string {
	names := make([]string, len(metaKeys))
	for i := range metaKeys {
		names[i] = metaKeys[i].name
	}
	return names
}

// hinted is an error with a hint, which read takes apart again.
func hinted(hint, format string, args ...any) error {
	return fmt.Errorf("%s\n%s", fmt.Sprintf(format, args...), hint)
}

// number reads a number, given as such or as text, or bound to a feed: { feed = "name" }, or { feed = "name", value = 3 } where value is what counts without fresh data.
func (r *metaReader) number(v any, parse func(any) (float64, error)) (any, error) {
	table, ok := v.(map[string]any)
	if !ok {
		f, err := parse(v)
		return pops.Value{Set: true, Const: f}, err
	}
	name, _ := table["feed"].(string)
	feed := slices.Index(r.feeds, name)
	if name == "" || feed < 0 {
		return nil, hinted(`for example { feed = "lb-eu" }`, "want a value or a table with the name of a feed")
	}
	value := pops.Value{Set: true, Const: math.NaN(), Feed: int32(feed + 1)}
	for key, v := range table {
		switch key {
		case "feed":
		case "value":
			f, err := parse(v)
			if err != nil {
				return nil, err
			}
			value.Const = f
		default:
			return nil, hinted(config.DidYouMean(key, []string{"feed", "value"}), "unknown key %q beside feed", key)
		}
	}
	return value, nil
}

// truth reads a boolean.
func (r *metaReader) truth(v any) (any, error) {
	return r.number(v, func(v any) (float64, error) {
		on, err := truth(v)
		if err == nil && on {
			return 1, nil
		}
		return 0, err
	})
}

// truth reads a boolean given as such, as a number or as text.
func truth(v any) (bool, error) {
	if on, err := strconv.ParseBool(fmt.Sprint(v)); err == nil {
		return on, nil
	}
	return false, fmt.Errorf("want true or false, got %s", shown(v))
}

// shown is a value as it stands in the configuration.
func shown(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(v)
}

// amount reads a number that is not negative.
func (r *metaReader) amount(v any) (any, error) {
	return r.number(v, func(v any) (float64, error) {
		f, err := parseNumber(v)
		if err == nil && f < 0 {
			err = hinted("", "%v is negative", v)
		}
		return f, err
	})
}

func parseNumber(v any) (float64, error) {
	switch v := v.(type) {
	case int64:
		return float64(v), nil
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v, nil
		}
	case string:
		if f, err := strconv.ParseFloat(v, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f, nil
		}
		return 0, hinted("", "want a number, got %q", v)
	}
	return 0, hinted("", "want a number, got %v", v)
}

// degrees reads a coordinate.
func degrees(most float64) func(*metaReader, any) (any, error) {
	return func(_ *metaReader, v any) (any, error) {
		if err := noFeed(v); err != nil {
			return nil, err
		}
		f, err := parseNumber(v)
		if err == nil && math.Abs(f) > most {
			err = hinted(fmt.Sprintf("degrees from %g to %g", -most, most), "%v is out of range", v)
		}
		return f, err
	}
}

// noFeed refuses a feed for what is compiled: config.Bind has put in what feeds say, so what is left names none.
func noFeed(v any) error {
	if table, ok := v.(map[string]any); ok && table["feed"] != nil {
		return hinted(`for example { feed = "lb-eu" }`, "want a value or a table with the name of a feed")
	}
	return nil
}

// CheckFeed says what is wrong with a value, as a configuration would have it, for a key of metadata.
func CheckFeed(key string, v any) error {
	for i := range metaKeys {
		if metaKeys[i].name != key {
			continue
		}
		_, err := metaKeys[i].read(new(metaReader), v)
		if err == nil {
			return nil
		}
		message, hint, _ := strings.Cut(err.Error(), "\n")
		if hint != "" {
			message += " (" + hint + ")"
		}
		return fmt.Errorf("%s: %s", key, message)
	}
	return fmt.Errorf("unknown metadata %q", key)
}

func (r *metaReader) note(v any) (any, error) {
	s, ok := v.(string)
	if !ok || len(s) > maxNote {
		return nil, hinted("", "want a text of up to %d octets", maxNote)
	}
	return s, nil
}

// list reads one value or a list of them; all must be good.
func list[T comparable](parse func(string) (T, error)) func(*metaReader, any) (any, error) {
	return func(_ *metaReader, v any) (any, error) {
		if err := noFeed(v); err != nil {
			return nil, err
		}
		return parseList(v, parse)
	}
}

func parseList[T comparable](v any, parse func(string) (T, error)) (any, error) {
	items, ok := v.([]any)
	if !ok {
		items = []any{v}
	}
	if len(items) == 0 {
		return nil, hinted("leave the key out to say nothing", "the list is empty")
	}
	var out []T
	for _, item := range items {
		switch item.(type) {
		case string, int64:
		default:
			return nil, hinted("", "want a value or a list of values, got %v", item)
		}
		x, err := parse(fmt.Sprint(item))
		if err != nil {
			return nil, err
		}
		if slices.Contains(out, x) {
			return nil, hinted("", "%v is listed twice", item)
		}
		out = append(out, x)
	}
	return out, nil
}

// stateOf reads a subdivision of one country, with or without the country in front.
func stateOf(country string) func(string) (geo.Subdivision, error) {
	return func(s string) (geo.Subdivision, error) {
		d, err := geo.ParseSubdivision(country + "-" + strings.TrimPrefix(strings.ToUpper(s), country+"-"))
		if err != nil {
			return 0, hinted("two letters, such as "+map[string]string{"US": "NY", "CA": "ON"}[country], "%q is no subdivision of %s", s, country)
		}
		return d, nil
	}
}

// subdivisions reads ISO 3166-2 codes, or NS1's form: { BR = ["SP", "MG"] }.
func (r *metaReader) subdivisions(v any) (any, error) {
	table, ok := v.(map[string]any)
	if !ok {
		return parseList(v, geo.ParseSubdivision)
	}
	if err := noFeed(v); err != nil {
		return nil, err
	}
	if len(table) == 0 {
		return nil, hinted("leave the key out to say nothing", "the table is empty")
	}
	var out []geo.Subdivision
	for _, country := range slices.Sorted(maps.Keys(table)) {
		some, err := parseList(table[country], func(s string) (geo.Subdivision, error) { return geo.ParseSubdivision(country + "-" + s) })
		if err != nil {
			return nil, err
		}
		out = append(out, some.([]geo.Subdivision)...)
	}
	return out, nil
}

func parseASN(s string) (uint32, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(strings.ToUpper(s), "AS"), 10, 32)
	if err != nil || n == 0 {
		return 0, hinted("for example 64496", "%q is not the number of an autonomous system", s)
	}
	return uint32(n), nil
}

// parsePrefix takes a bare address for the prefix of its whole length.
func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil || p.Addr().Is4In6():
		return p, hinted(`for example "192.0.2.0/24" or "2001:db8::/32"`, "%q is not a prefix", s)
	case p != p.Masked():
		return p, hinted(fmt.Sprintf("did you mean %q?", p.Masked()), "%q has bits set beyond its length", s)
	}
	return p, nil
}

// under adds to m what a lower level says: the keys that m does not have. A feed without a value of its own falls back to the value of the lower level.
func (m metadata) under(lower metadata) {
	for key, v := range lower {
		own, ok := m[key]
		if !ok {
			m[key] = v
			continue
		}
		if value, ok := own.(pops.Value); ok && math.IsNaN(value.Const) {
			value.Const = v.(pops.Value).Const
			m[key] = value
		}
	}
}

func (m metadata) value(key string) pops.Value {
	v, _ := m[key].(pops.Value)
	return v
}

// place is what the metadata says of where an answer is and whom it is for.
func (m metadata) place() geo.Target {
	var t geo.Target
	t.Countries, _ = m["country"].([]geo.Country)
	for _, key := range [...]string{"us_state", "ca_province", "subdivisions"} {
		list, _ := m[key].([]geo.Subdivision)
		for _, d := range list {
			if !slices.Contains(t.Subdivisions, d) {
				t.Subdivisions = append(t.Subdivisions, d)
			}
		}
	}
	t.Regions, _ = m["georegion"].([]geo.Region)
	t.ASNs, _ = m["asn"].([]uint32)
	t.Prefixes, _ = m["ip_prefixes"].([]netip.Prefix)
	lat, ok1 := m["latitude"].(float64)
	lon, ok2 := m["longitude"].(float64)
	if ok1 && ok2 {
		t.Lat, t.Lon, t.Coords = lat, lon, true
	}
	return t
}
