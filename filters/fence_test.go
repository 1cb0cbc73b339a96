package filters

import (
	"net/netip"
	"testing"

	"github.com/edgesteer/edgesteer/geo"
)

// TestFences: steering.md section 3 (`geofence_country`, `geofence_regional`, `netfence_asn`, `netfence_prefix`).
func TestFences(t *testing.T) {
	state := func(s string) func(*Answer) {
		return func(a *Answer) {
			d, err := geo.ParseSubdivision(s)
			if err != nil {
				panic(err)
			}
			a.Place.Subdivisions = []geo.Subdivision{d}
		}
	}
	prefixes := func(ps ...string) func(*Answer) {
		return func(a *Answer) {
			for _, p := range ps {
				a.Place.Prefixes = append(a.Place.Prefixes, netip.MustParsePrefix(p))
			}
		}
	}
	const japan, unplaced = "130.0.0.0/24", "223.0.0.0/24"
	countries := []spot{{name: "de", country: "DE"}, {name: "any"}, {name: "us", country: "US"}, {name: "de,jp", country: "DE,JP"}}
	asns := []spot{{name: "64500", asn: 64500}, {name: "any"}, {name: "64999", asn: 64999}}
	georegions := []spot{{name: "europe", answer: regions(geo.Europe)}, {name: "any", country: "DE"}, {name: "asia", answer: regions(geo.AsiaPac)}}
	byPrefix := []spot{{name: "ten", answer: prefixes("10.0.0.0/8")}, {name: "any"}, {name: "narrow", answer: prefixes("10.1.0.0/16", "2001:db8::/32")}}
	table(t, []row{
		{name: "country: matching ones only", chain: "geofence_country", spots: countries, want: "de de,jp"},
		{name: "country: untagged ones too", chain: "geofence_country remove_no_location=false", spots: countries, want: "de any de,jp"},
		{name: "country: none matches", chain: "geofence_country", spots: countries, client: "192.0.0.0/24", want: "us"},
		{name: "country: none matches, untagged ones are kept", chain: "geofence_country", spots: countries[:2], client: japan, want: "any"},
		{name: "country: none matches and none is untagged", chain: "geofence_country", spots: []spot{countries[0], countries[2]}, client: japan, want: ""},
		{name: "country: an unplaced client matches none", chain: "geofence_country", spots: countries, client: unplaced, want: "any"},
		{name: "country: a country-level client is in no state", chain: "geofence_country", client: "192.0.0.0/24",
			spots: []spot{{name: "ny", answer: state("US-NY")}, {name: "us", country: "US"}, {name: "any"}}, want: "us"},
		{name: "country: looks at no other kind", chain: "geofence_country", spots: []spot{{name: "a", asn: 64999}, {name: "de", country: "DE"}}, want: "de"},
		{name: "regional", chain: "geofence_regional", spots: georegions, want: "europe"},
		{name: "regional: untagged ones too", chain: "geofence_regional remove_no_georegion=0", spots: georegions, want: "europe any"},
		{name: "regional: none matches", chain: "geofence_regional", spots: georegions, client: "192.0.0.0/24", want: "any"},
		{name: "asn", chain: "netfence_asn", spots: asns, want: "64500"},
		{name: "asn: untagged ones too", chain: "netfence_asn remove_no_asn=false", spots: asns, want: "64500 any"},
		{name: "asn: none matches", chain: "netfence_asn", spots: asns, client: japan, want: "any"},
		{name: "prefix", chain: "netfence_prefix", spots: byPrefix, want: "ten narrow"},
		{name: "prefix: of a wider network only", chain: "netfence_prefix", spots: byPrefix, client: "10.2.0.0/24", want: "ten"},
		{name: "prefix: the other family", chain: "netfence_prefix", spots: byPrefix, client: "2001:db8:1::/56", want: "narrow"},
		{name: "prefix: untagged ones too", chain: "netfence_prefix remove_no_ip_prefixes=false", spots: byPrefix, client: "10.2.0.0/24", want: "ten any"},
		{name: "prefix: an embedded address", chain: "netfence_prefix", spots: byPrefix, client: "64:ff9b::a02:0/120", want: "ten"},
		{name: "two fences: both must let it through", chain: "geofence_country; netfence_asn",
			spots: []spot{{name: "a", country: "DE", asn: 64500}, {name: "b", country: "DE", asn: 64999}, {name: "c", country: "US", asn: 64500}}, want: "a"},
		{name: "what up removed does not match any more", chain: "up; geofence_country", spots: []spot{{name: "de", country: "DE", state: share(0)}, {name: "any"}}, want: "any"},
	})
}
