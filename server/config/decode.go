package config

import (
	"encoding"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// decoder fills the types from the tree that the TOML parser made. The parser's own decoder stops at the first wrong value and knows
// no ranges; this one goes on and collects.
//
// Tags: toml is the key, default its value when left out (lists with commas), range "LOW..HIGH" and oneof "a, b" what is allowed,
// need that it must be there.
type decoder struct {
	config   *Config
	problems []Problem
}

func (d *decoder) fail(path []any, hint, format string, args ...any) {
	d.problems = append(d.problems, d.config.Problem(fmt.Sprintf(format, args...), hint, path...))
}

// table fills a struct; a nil tree leaves only defaults.
func (d *decoder) table(dst reflect.Value, tree map[string]any, path []any) {
	var known []string
	for i := range dst.NumField() {
		field := dst.Type().Field(i)
		key := field.Tag.Get("toml")
		if key == "" || key == "-" {
			continue
		}
		known = append(known, key)
		at := append(slices.Clip(path), key)
		if v, ok := tree[key]; ok {
			d.defaults(dst.Field(i), field.Tag, at)
			d.value(dst.Field(i), v, field.Tag, at)
			continue
		}
		if field.Tag.Get("need") != "" && tree != nil {
			d.fail(path, "", "%s is missing", key)
		}
		d.defaults(dst.Field(i), field.Tag, at)
	}
	for key := range tree {
		if !slices.Contains(known, key) {
			d.fail(append(slices.Clip(path), key), DidYouMean(key, known), "unknown key")
		}
	}
}

// defaults sets what a field has when its key is left out. A table of its own gets its fields' defaults, a pointer to one stays nil.
func (d *decoder) defaults(dst reflect.Value, tag reflect.StructTag, path []any) {
	if dst.Kind() == reflect.Struct && !isText(dst) {
		d.table(dst, nil, path)
		return
	}
	text, ok := tag.Lookup("default")
	if !ok {
		return
	}
	if dst.Kind() != reflect.Slice {
		d.value(dst, literal(dst.Type(), text), tag, path)
		return
	}
	var list []any
	for item := range strings.SplitSeq(text, ",") {
		list = append(list, literal(dst.Type().Elem(), strings.TrimSpace(item)))
	}
	d.value(dst, list, tag, path)
}

// literal is a default as the TOML parser would have given it.
func literal(t reflect.Type, text string) any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[time.Duration]() || t == reflect.TypeFor[Percent]() {
		return text
	}
	switch {
	case t.Kind() == reflect.Bool:
		return text == "true"
	case reflect.Zero(t).CanInt(), reflect.Zero(t).CanUint(), reflect.Zero(t).CanFloat():
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i
		}
		f, _ := strconv.ParseFloat(text, 64) // TestTags holds the tags to it
		return f
	}
	return text
}

func (d *decoder) value(dst reflect.Value, v any, tag reflect.StructTag, path []any) {
	switch p := dst.Addr().Interface().(type) {
	case *time.Duration:
		d.duration(p, v, tag, path)
		return
	case *Percent:
		d.percent(p, v, tag, path)
		return
	case *netip.Prefix:
		d.prefix(p, v, path)
		return
	case encoding.TextUnmarshaler:
		s, ok := v.(string)
		if !ok {
			d.fail(path, "", "want a string, got %s", typeName(v))
		} else if err := p.UnmarshalText([]byte(s)); err != nil {
			d.fail(path, textHint(p), "%q: %s", s, reason(err))
		} else if a, ok := p.(*netip.AddrPort); ok && a.Addr().Is4In6() {
			d.fail(path, fmt.Sprintf("did you mean %q?", netip.AddrPortFrom(a.Addr().Unmap(), a.Port())), "%q is an IPv4 address in IPv6's clothes", s)
		}
		return
	}
	switch dst.Kind() {
	case reflect.Pointer:
		if dst.IsNil() {
			dst.Set(reflect.New(dst.Type().Elem()))
		}
		d.value(dst.Elem(), v, tag, path)
	case reflect.Struct:
		if tree, ok := v.(map[string]any); ok {
			d.table(dst, tree, path)
		} else {
			d.fail(path, tableHint(path, false), "want a table, got %s", typeName(v))
		}
	case reflect.Map:
		d.mapping(dst, v, tag, path)
	case reflect.Slice:
		d.list(dst, v, tag, path)
	case reflect.Interface:
		dst.Set(reflect.ValueOf(plain(v)))
	case reflect.String:
		if s, ok := v.(string); !ok {
			d.fail(path, "", "want a string, got %s", typeName(v))
		} else if s == "" && tag.Get("need") != "" {
			d.fail(path, "", "it is empty")
		} else if d.allowed(s, tag, path) {
			dst.SetString(s)
		}
	case reflect.Bool:
		if b, ok := v.(bool); !ok {
			d.fail(path, "", "want true or false, got %s", typeName(v))
		} else {
			dst.SetBool(b)
		}
	default:
		d.number(dst, v, tag, path)
	}
}

func (d *decoder) number(dst reflect.Value, v any, tag reflect.StructTag, path []any) {
	low, high := bounds(tag, func(s string) float64 { f, _ := strconv.ParseFloat(s, 64); return f })
	if dst.CanFloat() {
		f, ok := v.(float64)
		if i, isInt := v.(int64); isInt {
			f, ok = float64(i), true
		}
		switch {
		case !ok:
			d.fail(path, "", "want a number, got %s", typeName(v))
		case math.IsNaN(f) || math.IsInf(f, 0) || f < low || f > high:
			d.fail(path, rangeHint(tag), "%v is out of range", v)
		default:
			dst.SetFloat(f)
		}
		return
	}
	i, ok := v.(int64)
	switch {
	case !ok:
		d.fail(path, "", "want a whole number, got %s", typeName(v))
	case float64(i) < low || float64(i) > high || dst.CanUint() && (i < 0 || dst.OverflowUint(uint64(i))) || dst.CanInt() && dst.OverflowInt(i):
		d.fail(path, rangeHint(tag), "%d is out of range", i)
	case dst.CanUint():
		dst.SetUint(uint64(i))
	default:
		dst.SetInt(i)
	}
}

func (d *decoder) duration(dst *time.Duration, v any, tag reflect.StructTag, path []any) {
	s, ok := v.(string)
	if !ok {
		d.fail(path, `for example "30s"`, "want a duration in quotes, got %s", typeName(v))
		return
	}
	parsed, err := time.ParseDuration(s)
	if err != nil {
		d.fail(path, `for example "30s", "5m" or "8h"`, "%q is not a duration", s)
		return
	}
	low, high := bounds(tag, func(s string) float64 { d, _ := time.ParseDuration(s); return float64(d) })
	if float64(parsed) < low || float64(parsed) > high {
		d.fail(path, rangeHint(tag), "%s is out of range", s)
		return
	}
	*dst = parsed
}

func (d *decoder) percent(dst *Percent, v any, tag reflect.StructTag, path []any) {
	s, ok := v.(string)
	if !ok {
		d.fail(path, `for example "37%"`, "want a percentage in quotes, got %s", typeName(v))
		return
	}
	f, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !strings.HasSuffix(s, "%") {
		d.fail(path, `for example "37%"`, "%q is not a percentage", s)
		return
	}
	low, high := 0.0, 100.0
	if tag.Get("range") != "" {
		low, high = bounds(tag, func(s string) float64 { f, _ := strconv.ParseFloat(s, 64); return f })
	}
	if !(f >= low && f <= high) {
		d.fail(path, fmt.Sprintf("from %g%% to %g%%", low, high), "%s is out of range", s)
		return
	}
	*dst = Percent(f)
}

// prefix takes a bare address for the prefix of its whole length.
func (d *decoder) prefix(dst *netip.Prefix, v any, path []any) {
	const hint = `for example "192.0.2.0/24" or "2001:db8::1"`
	s, ok := v.(string)
	if !ok {
		d.fail(path, hint, "want an address or prefix in quotes, got %s", typeName(v))
		return
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		*dst = netip.PrefixFrom(a, a.BitLen())
		return
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		d.fail(path, hint, "%q is not an address or a prefix", s)
		return
	}
	if a := p.Addr(); a.Is4In6() { // no sender's address lies in it: they are unmapped
		if p.Bits() < 96 {
			d.fail(path, hint, "%q is not a prefix of IPv4 or IPv6 addresses", s)
		} else {
			d.fail(path, fmt.Sprintf("did you mean %q?", netip.PrefixFrom(a.Unmap(), p.Bits()-96)), "%q is an IPv4 prefix in IPv6's clothes", s)
		}
		return
	}
	if p != p.Masked() {
		d.fail(path, fmt.Sprintf("did you mean %q?", p.Masked()), "%q has bits set beyond its length", s)
		return
	}
	*dst = p
}

func (d *decoder) mapping(dst reflect.Value, v any, tag reflect.StructTag, path []any) {
	tree, ok := v.(map[string]any)
	if !ok {
		d.fail(path, "", "want a table, got %s", typeName(v))
		return
	}
	m := reflect.MakeMapWithSize(dst.Type(), len(tree))
	for key, v := range tree {
		item := reflect.New(dst.Type().Elem()).Elem()
		d.value(item, v, tag, append(slices.Clip(path), key))
		m.SetMapIndex(reflect.ValueOf(key), item)
	}
	dst.Set(m)
}

func (d *decoder) list(dst reflect.Value, v any, tag reflect.StructTag, path []any) {
	items, ok := plain(v).([]any)
	if !ok {
		hint := "write [ ... ]"
		if dst.Type().Elem().Kind() == reflect.Struct && !isText(reflect.New(dst.Type().Elem()).Elem()) && dst.Type().Elem() != reflect.TypeFor[netip.Prefix]() {
			hint = tableHint(path, true)
		}
		d.fail(path, hint, "want a list, got %s", typeName(v))
		return
	}
	list := reflect.MakeSlice(dst.Type(), len(items), len(items))
	for i, item := range items {
		d.value(list.Index(i), item, tag, append(slices.Clip(path), i))
	}
	dst.Set(list)
}

func (d *decoder) allowed(s string, tag reflect.StructTag, path []any) bool {
	words := tag.Get("oneof")
	if words == "" || slices.Contains(strings.Split(words, ", "), s) {
		return true
	}
	d.fail(path, DidYouMean(s, strings.Split(words, ", ")), "unknown value %q", s)
	return false
}

// bounds are the ends of the tag's range, both allowed.
func bounds(tag reflect.StructTag, parse func(string) float64) (low, high float64) {
	a, b, ok := strings.Cut(tag.Get("range"), "..")
	if !ok {
		return math.Inf(-1), math.Inf(1)
	}
	return parse(a), parse(b)
}

func rangeHint(tag reflect.StructTag) string {
	low, high, ok := strings.Cut(tag.Get("range"), "..")
	if !ok {
		return ""
	}
	return "from " + low + " to " + high
}

// tableHint shows how the header of a table is written, or of the tables of a list.
func tableHint(path []any, list bool) string {
	var keys []any
	for _, p := range path {
		if key, ok := p.(string); ok {
			keys = append(keys, key)
		}
	}
	if len(path) > 0 {
		if _, inList := path[len(path)-1].(int); list || inList {
			return "write [[" + Field(keys...) + "]]"
		}
	}
	return "write [" + Field(keys...) + "]"
}

func isText(v reflect.Value) bool {
	_, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr())
	return ok
}

func textHint(dst encoding.TextUnmarshaler) string {
	switch dst.(type) {
	case *netip.AddrPort:
		return `for example "127.0.0.1:53" or "[::1]:53"`
	case *Window:
		return `for example "Tue 10:00-11:00 UTC"`
	case *Dates:
		return `for example "2026-12-24" or "2026-12-20..2027-01-02"`
	}
	return ""
}

// reason is an error without the function that it came from.
func reason(err error) string {
	s := err.Error()
	if _, after, ok := strings.Cut(s, "): "); ok {
		return after
	}
	if _, after, ok := strings.Cut(s, `": `); ok {
		return after
	}
	return s
}

// plain makes every list a []any, deep down too.
func plain(v any) any {
	switch v := v.(type) {
	case []map[string]any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = plain(item)
		}
		return list
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = plain(item)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, item := range v {
			m[key] = plain(item)
		}
		return m
	}
	return v
}

func typeName(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("the string %q", v)
	case bool:
		return fmt.Sprint(v)
	case int64, float64:
		return fmt.Sprintf("the number %v", v)
	case time.Time:
		return "a date"
	case map[string]any:
		return "a table"
	}
	return "a list"
}
