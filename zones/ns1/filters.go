package ns1

import (
	"maps"
	"slices"
	"strings"
)

// missing says of a filter of NS1's that there is none of its kind here what to do instead; "" of all others.
func missing(filter string) string {
	switch {
	case strings.HasPrefix(filter, "pulsar"), filter == "pulse":
		return "it needs NS1's measurements of its users; steer by place (geotarget_country) and by load (shed_load) instead"
	case filter == "ipv4_prefix_shuffle":
		return "it makes answers up from prefixes; list the addresses as answers, then shuffle and select_first_n"
	case filter == "parse_ipv4":
		return "list the answers that it would give"
	case filter == "additional_metadata":
		return "it adds TXT records to the additional section; make a TXT record with a name of its own"
	}
	return ""
}

// portal are the names of filters in NS1's portal, where they are not those of its API.
func portal(filter string) string {
	switch filter {
	case "sticky_shuffle":
		return "sticky"
	case "weighted_sticky_shuffle":
		return "weighted_sticky"
	case "group_sticky_shuffle", "sticky_group":
		return "sticky_region"
	case "select_first_group":
		return "select_first_region"
	}
	return filter
}

// step is one filter of a chain, ready to be written.
type step struct {
	name  string
	args  map[string]any
	off   bool // disabled
	index int  // in the JSON
}

// filters reads the chain of a record. Filters that there are none of here are refused, or left out if they are disabled.
func (im *importer) filters(m map[string]any, path []any) []step {
	var chain []step
	for i, f := range im.list(m, "filters", path) {
		path := at(path, "filters", i)
		object, ok := f.(map[string]any)
		if !ok {
			im.fail(path, "", "want an object, got %s", kind(f))
			continue
		}
		im.others(object, path, "filter", "config", "disabled")
		s := step{name: im.word(object, "filter", path), args: im.object(object, "config", path), index: i}
		switch off, ok := truth(object["disabled"]); {
		case ok:
			s.off = off
		case object["disabled"] != nil:
			im.fail(at(path, "disabled"), "", "want true or false, got %s", kind(object["disabled"]))
		}
		hint := missing(s.name)
		switch {
		case s.name == "":
			im.fail(path, "", "filter is missing")
		case hint != "" && s.off:
			im.warn(path, "", "left out: there is no filter %q, and it is disabled", s.name)
		case hint != "":
			im.fail(at(path, "filter"), hint, "there is no filter %q", s.name)
		default:
			s.name = portal(s.name)
			chain = append(chain, s)
		}
	}
	return chain
}

// readsSubdivisions tells whether a filter of the chain does.
func readsSubdivisions(chain []step) bool {
	return slices.ContainsFunc(chain, func(s step) bool { return !s.off && (s.name == "geotarget_country" || s.name == "geofence_country") })
}

// chain writes the filters.
func (r *draft) chain(chain []step) {
	if len(chain) == 0 {
		return
	}
	r.text.WriteString("filters = [\n")
	for i, s := range chain {
		r.note([]any{"filters", i}, []any{"filters", s.index})
		if s.name == "netfence_asn" && !s.off {
			r.warn(at(r.path, "filters", s.index), `databases = ["GeoLite2-City.mmdb", "GeoLite2-ASN.mmdb"] in [geo]`, "netfence_asn needs a location database with AS numbers; the built-in one has none")
		}
		fields := []string{"filter = " + quote(s.name)}
		for _, name := range slices.Sorted(maps.Keys(s.args)) {
			path := []any{"filters", s.index, "config", name}
			r.note([]any{"filters", i, name}, path)
			text, err := value(s.args[name])
			switch {
			case s.args[name] == nil:
			case err != nil:
				r.fail(at(r.path, path...), "", "%v", err)
			case name == "filter" || name == "disabled":
				r.fail(at(r.path, path...), "", "unknown key %q", name)
			default:
				fields = append(fields, key(name)+" = "+text)
			}
		}
		if s.off {
			fields = append(fields, "disabled = true")
		}
		text := "{ " + strings.Join(fields, ", ") + " }"
		if len(fields) == 1 {
			text = quote(s.name)
		}
		r.text.WriteString("  " + text + ",\n")
	}
	r.text.WriteString("]\n")
}
