package ns1

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/edgesteer/edgesteer/server/config"
)

// defaultTTL is NS1's, in seconds, for a zone that says nothing.
const defaultTTL = 3600

// zoneDefaults is what a zone says for its records.
type zoneDefaults struct {
	name string
	ttl  int64 // seconds
}

// at is a path and more.
func at(path []any, more ...any) []any { return append(slices.Clip(path), more...) }

// read finds the records of a JSON value.
func (im *importer) read(v any, path []any, z zoneDefaults) {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			im.read(item, at(path, i), z)
		}
	case map[string]any:
		records, isZone := v["records"].([]any)
		switch {
		case isZone:
			z.name, _ = v["zone"].(string)
			if n, ok := v["ttl"].(json.Number); ok {
				if ttl, err := n.Int64(); err == nil {
					z.ttl = ttl
				}
			}
			im.read(records, at(path, "records"), z)
		case v["domain"] != nil || v["type"] != nil || v["answers"] != nil:
			im.record(v, path, z)
		default:
			im.fail(path, "a record is what GET /v1/zones/ZONE/DOMAIN/TYPE gives", "this is neither a record nor a zone with records")
		}
	default:
		im.fail(path, "", "want the object of a record, got %s", kind(v))
	}
}

// kind names the type of a JSON value.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a text"
	case []any:
		return "a list"
	}
	return "an object"
}

// truth is a boolean, which may be a number or a text; ok is false for what is none.
func truth(v any) (on, ok bool) {
	switch v.(type) {
	case bool, json.Number, string:
		on, err := strconv.ParseBool(fmt.Sprint(v))
		return on, err == nil
	}
	return false, false
}

// word is the value of a key that must be a text; "" if it is not there.
func (im *importer) word(m map[string]any, key string, path []any) string {
	switch v := m[key].(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		im.fail(at(path, key), "", "want a text, got %s", kind(v))
		return ""
	}
}

// object is the value of a key that must be an object; empty if it is not there.
func (im *importer) object(m map[string]any, key string, path []any) map[string]any {
	switch v := m[key].(type) {
	case nil:
	case map[string]any:
		return v
	default:
		im.fail(at(path, key), "", "want an object, got %s", kind(v))
	}
	return nil
}

// list is the value of a key that must be a list; empty if it is not there.
func (im *importer) list(m map[string]any, key string, path []any) []any {
	switch v := m[key].(type) {
	case nil:
	case []any:
		return v
	default:
		im.fail(at(path, key), "", "want a list, got %s", kind(v))
	}
	return nil
}

// others warns of keys that nobody reads here, but for those of NS1's own bookkeeping.
func (im *importer) others(m map[string]any, path []any, known ...string) {
	ours := []string{"id", "feeds", "tier", "networks", "customer", "created_at", "updated_at", "tags", "blocked_tags", "local_tags",
		"override_ttl", "override_address_records"} // the overrides are about ALIAS records, which are refused
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if m[key] != nil && !slices.Contains(known, key) && !slices.Contains(ours, key) {
			im.warn(at(path, key), config.DidYouMean(key, known), "left out: nothing is known of it")
		}
	}
}

// name makes a domain name comparable: lower case, no dot at the end.
func name(s string) string { return strings.TrimSuffix(strings.ToLower(s), ".") }

// relative is the owner as the configuration has it: relative to the zone.
func relative(domain, zone string) (string, error) {
	if domain == zone {
		return "@", nil
	}
	rel, ok := strings.CutSuffix(domain, "."+zone)
	if !ok {
		return "", fmt.Errorf("%q is not in zone %q", domain, zone)
	}
	return rel, nil
}
