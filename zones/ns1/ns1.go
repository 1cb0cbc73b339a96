// Package ns1 turns records of NS1's API (version 1) into steered records of the configuration.
//
// [Import] reads the JSON of records or of a zone, writes the TOML, and then has zonefile check what it wrote: what is accepted here is accepted by `edgesteer check`. Problems name
// the place in the JSON, whoever found them.
//
// What it is not: it asks NS1 nothing, makes no zone files, and has no opinion of its own on what filters and metadata mean.
package ns1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/edgesteer/edgesteer/server/config"
)

// Import turns JSON into the text of a configuration: a record, a zone whose records are whole, a list of either, or several of these one after the other. name stands for the
// file in problems.
//
// The problems are all there are, in the order in which they were found: first what cannot be written as TOML, then what the loader says of the rest. The text is "" if one is an
// error.
func Import(name string, data []byte) (string, []config.Problem) {
	im := &importer{file: name, paths: map[string]string{}, feeds: map[string][]any{}, seen: map[string]string{}, plain: map[string]bool{}}
	values, ok := im.parse(data)
	if !ok {
		return "", im.problems
	}
	for i, v := range values {
		var path []any
		if len(values) > 1 {
			path = []any{i}
		}
		im.read(v, path, zoneDefaults{ttl: defaultTTL})
	}
	if len(im.zones) == 0 {
		if len(im.problems) == 0 {
			im.fail(nil, "a record is what GET /v1/zones/ZONE/DOMAIN/TYPE gives", "there are no records")
		}
		return "", im.problems
	}
	text := im.text()
	im.check(text)
	if config.Failed(im.problems) {
		return "", im.problems
	}
	return text, im.problems
}

// importer is one run of Import.
type importer struct {
	file     string
	problems []config.Problem
	zones    []*zone
	feeds    map[string][]any  // by id: where each is bound first
	seen     map[string]string // by owner and type: where a record was first
	paths    map[string]string // by field of the TOML: its path in the JSON
	plain    map[string]bool   // fields of the TOML that are records without a chain
}

// zone is what has been written for one zone.
type zone struct {
	name    string
	records []string
}

func (im *importer) fail(path []any, hint, format string, args ...any) {
	im.problems = append(im.problems, config.Problem{File: im.file, Field: config.Field(path...), Message: fmt.Sprintf(format, args...), Hint: hint})
}

func (im *importer) warn(path []any, hint, format string, args ...any) {
	im.fail(path, hint, format, args...)
	im.problems[len(im.problems)-1].Warning = true
}

// parse reads the JSON values of a file.
func (im *importer) parse(data []byte) (values []any, ok bool) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte order mark, as some editors write
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // numbers stay as they were written
	for {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return values, true
		}
		if err != nil {
			im.fail(nil, "", "this is not JSON: %v", err)
			offset := int64(len(data)) // where the file ends too soon
			if e, ok := errors.AsType[*json.SyntaxError](err); ok {
				offset = min(e.Offset, offset)
			}
			im.problems[0].Line = 1 + bytes.Count(data[:offset], []byte("\n"))
			return nil, false
		}
		values = append(values, v)
	}
}

// text is the whole configuration.
func (im *importer) text() string {
	var b strings.Builder
	b.WriteString("# Made of NS1's records by `edgesteer import ns1`. Beside it each zone needs its file: SOA, NS and every record that is not here.\n" +
		"# An answer can be drained when it is tied to a PoP: add [[pop]] tables, and pop = \"NAME\" to answers or groups.\n")
	if len(im.feeds) > 0 {
		b.WriteString("\n# Values of feeds are pushed to POST /v1/feeds/NAME. NS1 keeps the last one for ever; here it counts for max_age, then the configured value does.\n")
	}
	for i, id := range slices.Sorted(maps.Keys(im.feeds)) {
		im.paths[config.Field("feed", i)] = config.Field(im.feeds[id]...)
		fmt.Fprintf(&b, "[[feed]]\nname    = %s\nmax_age = \"24h\"\n", quote(id))
	}
	for _, z := range im.zones {
		fmt.Fprintf(&b, "\n[[zone]]\nname = %s\nfile = %s\n", quote(z.name), quote(strings.ReplaceAll(z.name, "/", "_")+".zone"))
		for _, r := range z.records {
			b.WriteString("\n" + r)
		}
	}
	return b.String()
}

// zone finds or makes the zone of a name.
func (im *importer) zone(name string, path []any) (*zone, int) {
	i := slices.IndexFunc(im.zones, func(z *zone) bool { return z.name == name })
	if i < 0 {
		i = len(im.zones)
		im.zones = append(im.zones, &zone{name: name})
		im.paths[config.Field("zone", i)] = config.Field(path...)
	}
	return im.zones[i], i
}
