package ns1

import (
	"strings"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
	"github.com/edgesteer/edgesteer/zones/zonefile"
)

// check has the loader judge what was written, beside zones that have nothing but SOA and NS.
func (im *importer) check(text string) {
	const node = "[server]\nnode = \"import\"\n" // the rest of a configuration
	cfg, problems := config.Parse(im.file, []byte(node+text))
	if cfg == nil {
		im.place(problems)
		return
	}
	var bare []*zones.Zone
	for i := range cfg.Zones {
		if apex, err := wire.ParseName(cfg.Zones[i].Name); err == nil {
			bare = append(bare, bareZone(apex))
			cfg.Zones[i].File = "" // taken from bare
		}
	}
	cfg = cfg.Bind(nil) // feeds have said nothing yet
	fleet, more := zonefile.Fleet(cfg)
	im.place(append(problems, more...))
	_, more = zonefile.Load(cfg, fleet, zones.New(bare, nil))
	im.place(more)
}

// place reports problems of the TOML at their places in the JSON.
func (im *importer) place(problems []config.Problem) {
	for _, p := range problems {
		if p.Warning && im.isPlain(p.Field) {
			continue // that nothing steers it, and metadata does nothing, is as it was
		}
		p.File, p.Line, p.Field = im.file, 0, im.source(p.Field)
		im.problems = append(im.problems, p)
	}
}

// isPlain tells whether a field of the TOML belongs to a record without a chain.
func (im *importer) isPlain(field string) bool {
	zone, rest, _ := strings.Cut(field, ".")
	record, _, _ := strings.Cut(rest, ".")
	return im.plain[zone+"."+record]
}

// source is the place in the JSON of a field of the TOML: that of the nearest thing around it that is known, and what is left of the field.
func (im *importer) source(field string) string {
	for end := len(field); end > 0; end = strings.LastIndexAny(field[:end], ".[") {
		if path, ok := im.paths[field[:end]]; ok {
			return strings.TrimPrefix(path+field[end:], ".")
		}
	}
	return field
}

// bareZone is a zone with SOA and NS only.
func bareZone(apex []byte) *zones.Zone {
	b := zones.NewBuilder(apex)
	server := []byte("\x02ns\x07invalid\x00")
	b.Add(apex, wire.TypeSOA, defaultTTL, append(append(append([]byte{}, server...), server...), make([]byte, 20)...))
	b.Add(apex, wire.TypeNS, defaultTTL, server)
	z, _ := b.Build()
	return z
}
