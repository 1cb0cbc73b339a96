package ns1

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edgesteer/edgesteer/server/config"
)

// refused are the record types of NS1 that are no data of the DNS, with what to do instead.
func refused(typ string) string {
	switch typ {
	case "ALIAS":
		return "NS1 looks the addresses up; give them here, as records of type A and AAAA"
	case "URLFWD":
		return "NS1 answers with its own redirecting web servers; run one of your own"
	}
	return ""
}

// static tells whether records of a type shape the zone, and so stand in its file.
func static(typ string) bool {
	return slices.Contains([]string{"SOA", "NS", "DNAME", "DS", "CDS", "CDNSKEY", "DNSKEY"}, typ)
}

// record writes one record. What is wrong with it is reported; it is written as far as it goes, so that the loader sees the rest.
func (im *importer) record(m map[string]any, path []any, def zoneDefaults) {
	im.others(m, path, "zone", "domain", "type", "ttl", "use_client_subnet", "answers", "meta", "regions", "filters", "link", "short_answers")
	zoneName := name(cmp.Or(im.word(m, "zone", path), def.name))
	domain, typ := name(im.word(m, "domain", path)), strings.ToUpper(im.word(m, "type", path))
	for _, key := range []struct{ name, value string }{{"zone", zoneName}, {"domain", domain}, {"type", typ}} {
		if key.value == "" {
			im.fail(path, "", "%s is missing", key.name)
			return
		}
	}
	owner, err := relative(domain, zoneName)
	switch link := im.word(m, "link", path); {
	case err != nil:
		im.fail(at(path, "domain"), "", "%v", err)
		return
	case refused(typ) != "":
		im.fail(at(path, "type"), refused(typ), "records of type %s exist only at NS1", typ)
		return
	case link != "":
		im.fail(at(path, "link"), "put a copy of that record in its place", "the record is a link to %q", link)
		return
	case m["answers"] == nil && m["short_answers"] != nil:
		im.fail(at(path, "short_answers"), fmt.Sprintf("import what GET /v1/zones/%s/%s/%s gives", zoneName, domain, typ), "this is the short form of a record, without filters and metadata")
		return
	}
	if first, again := im.seen[domain+" "+typ]; again {
		im.fail(path, "the first is "+first, "a second record %s of type %s", domain, typ)
		return
	}
	im.seen[domain+" "+typ] = cmp.Or(config.Field(path...), "the whole file")
	chain := im.filters(m, path)
	if static(typ) && len(chain) == 0 {
		im.leave(m, path, owner, typ, def)
		return
	}
	z, i := im.zone(zoneName, path)
	r := &draft{importer: im, path: path, field: []any{"zone", i, "record", len(z.records)}, inner: readsSubdivisions(chain)}
	im.plain[config.Field(r.field...)] = len(chain) == 0
	r.head(m, owner, typ, def)
	r.chain(chain)
	r.groups(m)
	r.answers(m, typ)
	z.records = append(z.records, r.text.String())
}

// leave tells which lines of the zone file a record is that cannot be steered.
func (im *importer) leave(m map[string]any, path []any, owner, typ string, def zoneDefaults) {
	ttl, err := value(cmp.Or(m["ttl"], any(json.Number(fmt.Sprint(def.ttl)))))
	var lines []string
	for _, a := range im.list(m, "answers", path) {
		answer, _ := a.(map[string]any)
		rdata, e := rdata(typ, answer["answer"])
		err = cmp.Or(err, e)
		lines = append(lines, strings.Join([]string{owner, ttl, "IN", typ, rdata}, " "))
	}
	hint := "in the zone file: " + strings.Join(lines, "; ")
	if err != nil || len(lines) == 0 {
		hint = ""
	}
	im.warn(path, hint, "left to the zone file, where records of type %s stand", typ)
}

// draft is a record that is being written.
type draft struct {
	*importer
	path  []any // in the JSON
	field []any // in the TOML
	text  strings.Builder
	inner bool // a filter reads subdivisions, and no warning has been given
}

// note remembers where in the JSON a field of the record comes from.
func (r *draft) note(field, path []any) {
	r.paths[config.Field(at(r.field, field...)...)] = config.Field(at(r.path, path...)...)
}

func (r *draft) head(m map[string]any, owner, typ string, def zoneDefaults) {
	r.note(nil, nil)
	r.note([]any{"name"}, []any{"domain"})
	fmt.Fprintf(&r.text, "[[zone.record]]\nname    = %s\ntype    = %s\n", quote(owner), quote(typ))
	ttl := m["ttl"]
	if ttl == nil {
		ttl = json.Number(fmt.Sprint(def.ttl))
	}
	if text, ok := ttl.(string); ok && json.Valid([]byte(text)) && text[0] != '"' { // a number as text
		ttl = json.Number(text)
	}
	r.entry("ttl    ", ttl, "ttl")
	use := m["use_client_subnet"]
	if on, ok := truth(use); ok {
		use = on
	}
	if use != nil && use != true {
		r.entry("use_client_subnet", use, "use_client_subnet")
	}
	if meta := r.meta(r.object(m, "meta", r.path), []any{"meta"}, []any{"meta"}); meta != "" {
		r.text.WriteString("meta    = " + meta + "\n")
	}
}

// entry writes a key and its value.
func (r *draft) entry(key string, v any, path ...any) {
	text, err := value(v)
	if err != nil {
		r.fail(at(r.path, path...), "", "%v", err)
		return
	}
	fmt.Fprintf(&r.text, "%s = %s\n", key, text)
}

// groups writes NS1's regions.
func (r *draft) groups(m map[string]any) {
	regions := r.object(m, "regions", r.path)
	for _, name := range slices.Sorted(maps.Keys(regions)) {
		path := at(r.path, "regions", name)
		region, ok := regions[name].(map[string]any)
		if !ok {
			r.fail(path, "", "want an object, got %s", kind(regions[name]))
			continue
		}
		r.others(region, path, "meta")
		r.note([]any{"group", name}, []any{"regions", name})
		fmt.Fprintf(&r.text, "\n  [zone.record.group.%s]\n", key(name))
		if meta := r.meta(r.object(region, "meta", path), []any{"group", name, "meta"}, []any{"regions", name, "meta"}); meta != "" {
			r.text.WriteString("  meta = " + meta + "\n")
		}
	}
}

func (r *draft) answers(m map[string]any, typ string) {
	written := 0
	for i, a := range r.list(m, "answers", r.path) {
		path := at(r.path, "answers", i)
		answer, ok := a.(map[string]any)
		if !ok {
			r.fail(path, "", "want an object, got %s", kind(a))
			continue
		}
		r.others(answer, path, "answer", "meta", "region")
		data, err := rdata(typ, answer["answer"])
		if err != nil {
			r.fail(at(path, "answer"), "", "%v", err)
			continue
		}
		r.note([]any{"answer", written}, []any{"answers", i})
		r.note([]any{"answer", written, "rdata"}, []any{"answers", i, "answer"})
		r.note([]any{"answer", written, "group"}, []any{"answers", i, "region"})
		fmt.Fprintf(&r.text, "\n  [[zone.record.answer]]\n  rdata = %s\n", quote(data))
		if group := r.word(answer, "region", path); group != "" {
			fmt.Fprintf(&r.text, "  group = %s\n", quote(group))
		}
		if meta := r.meta(r.object(answer, "meta", path), []any{"answer", written, "meta"}, []any{"answers", i, "meta"}); meta != "" {
			r.text.WriteString("  meta  = " + meta + "\n")
		}
		written++
	}
}
