package ns1

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// inert tells why metadata that only a filter reads that does not exist here is left out; "" for all other keys. The filter itself is refused.
func inert(key string) string {
	switch key {
	case "pulsar", "pulse":
		return "only pulsar filters read it"
	case "additional_metadata":
		return "only the filter additional_metadata reads it"
	}
	return ""
}

// meta writes a table of metadata; "" if there is nothing in it. field and path are those below the record.
func (r *draft) meta(meta map[string]any, field, path []any) string {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		path := at(r.path, at(path, name)...)
		v := r.metaValue(name, meta[name], path)
		if v == nil {
			continue
		}
		text, err := value(v)
		if err != nil {
			r.fail(path, "", "%v", err)
			continue
		}
		fields = append(fields, key(name)+" = "+text)
	}
	if len(fields) == 0 {
		return ""
	}
	r.note(field, path)
	return "{ " + strings.Join(fields, ", ") + " }"
}

// metaValue is a value as our metadata has it, nil for none.
func (r *draft) metaValue(name string, v any, path []any) any {
	if empty(v) {
		return nil
	}
	if why := inert(name); why != "" {
		r.warn(path, "", "left out: %s", why)
		return nil
	}
	if r.inner && (name == "us_state" || name == "ca_province" || name == "subdivisions") {
		r.inner = false
		r.warn(path, `databases = ["GeoLite2-City.mmdb"] in [geo]`, "subdivisions need a City database; the built-in one has countries")
	}
	if table, ok := v.(map[string]any); ok && (name != "subdivisions" || table["feed"] != nil) {
		if id, ok := table["feed"].(string); ok && r.feeds[id] == nil {
			r.feeds[id] = path
		}
		return v
	}
	switch name {
	case "country", "us_state", "ca_province", "georegion", "asn":
		return split(v)
	case "subdivisions":
		if table, ok := v.(map[string]any); ok {
			lists := map[string]any{}
			for country, list := range table {
				lists[country] = split(list)
			}
			return lists
		}
	case "ip_prefixes":
		return r.masked(split(v), path)
	}
	return v
}

// empty tells whether a value says nothing, as the portal leaves some behind.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// split makes a list of a text with commas, as Terraform writes lists.
func split(v any) any {
	text, ok := v.(string)
	if !ok || !strings.Contains(text, ",") {
		return v
	}
	var list []any
	for item := range strings.SplitSeq(text, ",") {
		list = append(list, strings.TrimSpace(item))
	}
	return list
}

// masked clears the bits beyond the length of prefixes: NS1 takes 192.0.2.7/24 for 192.0.2.0/24.
func (r *draft) masked(v any, path []any) any {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	out := make([]any, len(list))
	for i, item := range list {
		out[i] = item
		text, _ := item.(string)
		if p, err := netip.ParsePrefix(text); err == nil && p != p.Masked() {
			out[i] = p.Masked().String()
			r.warn(path, "", "%s is taken for %s", text, p.Masked())
		}
	}
	return out
}
