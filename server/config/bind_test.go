package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const boundTOML = `
[[pop]]
name = "fra"
country = { feed = "place" }
meta = { georegion = "EUROPE", weight = { feed = "w" } }
[[service]]
name = "wss"
meta = { note = { feed = "note", value = "nothing" } }
[service.at.fra]
addresses = ["192.0.2.1"]
meta = { latitude = { feed = "lat" }, longitude = 8.7 }
[[zone]]
name = "example.com"
file = "zone"
[[zone.record]]
name = "w"
type = "A"
meta = { asn = { feed = "asn" } }
[zone.record.group.eu]
meta = { country = { feed = "place", value = ["DE", "FR"] } }
[[zone.record.answer]]
rdata = "192.0.2.1"
group = "eu"
meta = { ip_prefixes = { feed = "nets" }, up = { feed = "up" } }
`

func TestBind(t *testing.T) {
	c, problems := Parse("x.toml", []byte(boundTOML))
	if Failed(problems) {
		t.Fatal(problems)
	}
	want := map[string][]string{"place": {"country"}, "note": {"note"}, "lat": {"latitude"}, "asn": {"asn"}, "nets": {"ip_prefixes"}}
	if diff := cmp.Diff(want, c.Bindings()); diff != "" {
		t.Errorf("bindings: %s", diff)
	}
	metas := func(c *Config) []any {
		r := c.Zones[0].Records[0]
		return []any{c.PoPs[0].Country, c.PoPs[0].Meta, c.Services[0].Meta, c.Services[0].At["fra"].Meta, r.Meta, r.Groups["eu"].Meta, r.Answers[0].Meta}
	}
	before := metas(c)
	weight, up := map[string]any{"feed": "w"}, map[string]any{"feed": "up"}
	silent := []any{nil, Meta{"georegion": "EUROPE", "weight": weight}, Meta{"note": "nothing"}, Meta{}, Meta{}, Meta{"country": []any{"DE", "FR"}}, Meta{"up": up}}
	if diff := cmp.Diff(silent, metas(c.Bind(nil))); diff != "" {
		t.Errorf("nobody says anything: %s", diff)
	}
	says := map[string]any{"place": "US", "note": "works", "lat": 50.1, "asn": []any{"64496", "64497"}, "nets": "192.0.2.0/24", "w": 3.0}
	said := []any{
		"US", Meta{"georegion": "EUROPE", "weight": weight}, Meta{"note": "works"}, Meta{"latitude": 50.1, "longitude": 8.7}, Meta{"asn": []any{"64496", "64497"}},
		Meta{"country": "US"}, Meta{"ip_prefixes": "192.0.2.0/24", "up": up},
	}
	if diff := cmp.Diff(said, metas(c.Bind(says))); diff != "" {
		t.Errorf("all say something: %s", diff)
	}
	if a, b := c.Bind(says).Hash(), c.Bind(map[string]any{"place": "US"}).Hash(); a == b || a == c.Hash() || b == c.Hash() || c.Bind(nil).Hash() != c.Hash() || a != c.Bind(says).Hash() {
		t.Errorf("hashes %s, %s and %s", c.Hash(), a, b)
	}
	if diff := cmp.Diff(before, metas(c)); diff != "" {
		t.Errorf("the configuration itself has changed: %s", diff)
	}
}
