package zonefile_test

import (
	"fmt"
	"math"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/filters"
	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/zonefile"
)

func country(t testing.TB, codes ...string) (list []geo.Country) {
	t.Helper()
	for _, code := range codes {
		c, err := geo.ParseCountry(code)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

func subdivision(t testing.TB, codes ...string) (list []geo.Subdivision) {
	t.Helper()
	for _, code := range codes {
		d, err := geo.ParseSubdivision(code)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	return list
}

// TestServicePool: what service, endpoint and PoP give to the answers, and the records of them.
func TestServicePool(t *testing.T) {
	set, problems := newSite(t).load(zoneText, wssRecord+"meta = { cost = 2, country = \"MX\", note = \"all\" }\nall_down = \"servfail\"\nttl_min = 5\nuse_client_subnet = false\nfilters = [\"up\", \"cost\", \"weighted_shuffle\", \"geotarget_country\"]\n"+
		"[[zone.record]]\nname = \"c\"\nservice = \"cdn\"\nfilters = [\"up\"]\n[[zone.record]]\nname = \"six\"\ntype = \"aaaa\"\nservice = \"wss\"\nfilters = [\"up\"]\n", nil)
	if set == nil {
		t.Fatal(problems)
	}
	z := set.Zone(wireName(t, "edge.example."))
	var got []string
	for _, r := range z.Records() {
		got = append(got, r.String())
	}
	if diff := cmp.Diff([]string{"c.edge.example. CNAME", "s.edge.example. A", "s.edge.example. AAAA", "six.edge.example. AAAA"}, got); diff != "" {
		t.Error(diff)
	}
	four, six := z.Records()[1], z.Records()[2]
	if four.Chain != six.Chain || four.Pool != six.Pool {
		t.Error("A and AAAA do not share chain and pool")
	}
	if four.TTL != 30 || four.TTLMin != 5 || four.AllDown != zones.GiveServFail || !four.Sender {
		t.Errorf("%+v", four)
	}
	if cname := z.Records()[0]; !cname.Chain.Single || four.Chain.Single {
		t.Errorf("single: CNAME %v, A %v", cname.Chain.Single, four.Chain.Single)
	}
	want := []filters.Answer{
		{
			Label: "iad", PoP: 0, Unit: 0, Note: "all", Has4: 3, Weight: pops.Value{Set: true, Const: 3}, Cost: pops.Value{Set: true, Const: 2},
			Place: geo.Target{Countries: country(t, "MX"), Subdivisions: subdivision(t, "US-VA"), Regions: []geo.Region{geo.USEast}, Lat: 38.9, Lon: -77.4, Coords: true},
		},
		{
			Label: "fra", PoP: 1, Unit: 1, Note: "all", Has4: 1, Has6: 2, Cost: pops.Value{Set: true, Const: 2},
			Place: geo.Target{Countries: country(t, "MX"), Regions: []geo.Region{geo.Europe}, Lat: 50.1, Lon: 8.7, Coords: true},
		},
	}
	if diff := cmp.Diff(want, four.Pool.Answers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	x := &filters.Exec{}
	x.Begin(six.Pool)
	six.Candidates(x)
	if len(x.List) != 1 || x.List[0].Answer != 1 {
		t.Errorf("candidates of AAAA: %v", x.List)
	}
}

func TestFleet(t *testing.T) {
	cfg := parse(t, start+fleetText)
	fleet, problems := zonefile.Fleet(cfg)
	if problems != nil {
		t.Fatal(problems)
	}
	value := func(f float64) pops.Value { return pops.Value{Set: true, Const: f} }
	addr := netip.MustParseAddr
	want := &pops.Fleet{
		PoPs:     []pops.PoP{{Name: "iad"}, {Name: "fra"}},
		Services: []pops.Service{{Name: "wss", Metric: pops.Connections}, {Name: "cdn"}},
		Endpoints: []pops.Endpoint{
			{PoP: 0, Service: 0, Addresses: []netip.Addr{addr("192.0.2.1"), addr("192.0.2.2")}, Capacity: 100, Low: value(10), High: value(30)},
			{PoP: 1, Service: 0, Addresses: []netip.Addr{addr("198.51.100.1"), addr("2001:db8:2::1")}, Low: value(10), High: value(20)},
			{PoP: 0, Service: 1, CNAME: "iad.cdn.example."},
			{PoP: 1, Service: 1, CNAME: "fra.cdn.example."},
		},
	}
	if diff := cmp.Diff(want, fleet, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFleetProblems(t *testing.T) {
	var many []string
	for i := range 65 {
		many = append(many, fmt.Sprintf(`"192.0.2.%d"`, i))
	}
	text := start + `
[[pop]]
name = "iad"
country = "UK"
subdivision = "US-XX"
georegion = "MOON"
meta = { country = "GB" }
[[pop]]
name = "fra"
country = "DEU"
subdivision = ["DE-BE", "DE-ZZ"]
meta = { latitude = 1, low_watermark = 5 }
[[service]]
name = "wss"
meta = { foo = 1 }
[service.at.iad]
cname = "x.example"
meta = { up = 3 }
[service.at.fra]
addresses = [` + strings.Join(many, ", ") + `]
meta = { high_watermark = 5 }
`
	cfg, _ := config.Parse("edgesteer.toml", []byte(text))
	_, problems := zonefile.Fleet(cfg)
	var got []string
	for _, p := range problems {
		got = append(got, p.String())
	}
	want := []string{
		`edgesteer.toml:7: pop[0].country: country is in meta, too (hint: say it once)`,
		`edgesteer.toml:8: pop[0].subdivision: unknown subdivision "US-XX" (not a subdivision of US)`,
		`edgesteer.toml:9: pop[0].georegion: unknown georegion "MOON" (one of US-WEST, US-CENTRAL, US-EAST, EUROPE, AFRICA, ASIAPAC, SOUTH-AMERICA)`,
		`edgesteer.toml:15: pop[1].meta.latitude: latitude without longitude`,
		`edgesteer.toml:13: pop[1].country: unknown country "DEU" (did you mean "DE"?)`,
		`edgesteer.toml:14: pop[1].subdivision: unknown subdivision "DE-ZZ" (not a subdivision of DE)`,
		`edgesteer.toml:18: service[0].meta.foo: unknown metadata`,
		`edgesteer.toml:21: service[0].at.iad.meta.up: want true or false, got 3`,
		`edgesteer.toml:20: service[0].at.iad.cname: "x.example" is not absolute (hint: did you mean "x.example."?)`,
		`edgesteer.toml:23: service[0].at.fra.addresses: 65 addresses, 64 is the most (hint: make a second PoP of some)`,
		`edgesteer.toml:22: service[0].at.fra: low_watermark 5 is not below high_watermark 5`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// explicit loads a record of explicit answers and gives its pool.
func explicit(t *testing.T, record string) ([]filters.Answer, []string) {
	t.Helper()
	set, problems := newSite(t).load(zoneText, "[[zone.record]]\nname = \"s\"\ntype = \"A\"\n"+record, nil)
	if set == nil {
		return nil, problems
	}
	return set.Zone(wireName(t, "edge.example.")).Records()[0].Pool.Answers, problems
}

// Answer, then group, then record, then the PoP: key by key.
func TestPrecedence(t *testing.T) {
	got, problems := explicit(t, `
meta = { up = true, weight = 1, cost = 1, country = "US" }
filters = ["up", "geofence_country", "geotarget_latlong", "weighted_shuffle", "priority", "cost"]
[zone.record.group.eu]
meta = { weight = 2, priority = 2, country = "DE" }
pop = "fra"
[[zone.record.answer]]
rdata = "192.0.2.1"
group = "eu"
meta = { weight = 3, us_state = ["NY", "CA"], ca_province = "ON", subdivisions = { US = ["NY", "TX"] } }
[[zone.record.answer]]
rdata = ["192.0.2.2", "192.0.2.3"]
group = "eu"
pop = "iad"
[[zone.record.answer]]
rdata = "192.0.2.4"
`)
	value := func(f float64) pops.Value { return pops.Value{Set: true, Const: f} }
	fra, iad := geo.Target{Regions: []geo.Region{geo.Europe}, Lat: 50.1, Lon: 8.7, Coords: true}, geo.Target{Regions: []geo.Region{geo.USEast}, Lat: 38.9, Lon: -77.4, Coords: true}
	fra.Countries, iad.Countries = country(t, "DE"), country(t, "DE")
	fra.Subdivisions, iad.Subdivisions = subdivision(t, "US-NY", "US-CA", "CA-ON", "US-TX"), subdivision(t, "US-VA")
	want := []filters.Answer{
		{Label: "192.0.2.1", Group: "eu", PoP: 1, Unit: 5, Place: fra, Up: value(1), Weight: value(3), Priority: value(2), Cost: value(1)},
		{Label: "192.0.2.2, 192.0.2.3", Group: "eu", PoP: 0, Unit: 4, Place: iad, Up: value(1), Weight: value(2), Priority: value(2), Cost: value(1)},
		{Label: "192.0.2.4", PoP: -1, Unit: pops.NoUnit, Place: geo.Target{Countries: country(t, "US")}, Up: value(1), Weight: value(1), Cost: value(1)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s\n%v", diff, problems)
	}
}

func TestFeeds(t *testing.T) {
	s := newSite(t)
	set, problems := s.load(zoneText, `[[zone.record]]
name = "s"
type = "A"
meta = { weight = 4, up = { feed = "b" } }
filters = ["up", "weighted_shuffle", "shed_load"]
[[zone.record.answer]]
rdata = "192.0.2.1"
meta = { weight = { feed = "a" }, loadavg = { feed = "c", value = 7 }, low_watermark = 1, high_watermark = 2 }
`, nil)
	if set == nil {
		t.Fatal(problems)
	}
	a := set.Zone(wireName(t, "edge.example.")).Records()[0].Pool.Answers[0]
	want := filters.Answer{
		Label: "192.0.2.1", PoP: -1, Unit: pops.NoUnit,
		Up: pops.Value{Set: true, Const: math.NaN(), Feed: 2}, Weight: pops.Value{Set: true, Const: 4, Feed: 1}, // the last configured value
	}
	want.Load[pops.LoadAvg] = filters.Load{Load: pops.Value{Set: true, Const: 7, Feed: 3}, Low: pops.Value{Set: true, Const: 1}, High: pops.Value{Set: true, Const: 2}}
	equal := cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })
	if diff := cmp.Diff(want, a, equal); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMetadataKeys: types and ranges of each key.
func TestMetadataKeys(t *testing.T) {
	for meta, want := range map[string]string{
		`up = true`:                            "",
		`up = "1"`:                             "",
		`up = 0`:                               "",
		`up = 2`:                               "want true or false, got 2",
		`up = "maybe"`:                         `want true or false, got "maybe"`,
		`up = ""`:                              `want true or false, got ""`,
		`up = "False"`:                         "",
		`weight = 0`:                           "",
		`weight = 0.5`:                         "",
		`weight = "3"`:                         "",
		`weight = -1`:                          "-1 is negative",
		`weight = nan`:                         "want a number, got NaN",
		`weight = "x"`:                         `want a number, got "x"`,
		`weight = true`:                        "want a number, got true",
		`weight = [1]`:                         "want a number, got [1]",
		`weight = {}`:                          "want a value or a table with the name of a feed",
		`weight = { feed = 3 }`:                "want a value or a table with the name of a feed",
		`weight = { feed = "" }`:               "want a value or a table with the name of a feed",
		`weight = { feed = "f", vlaue = 1 }`:   `unknown key "vlaue" beside feed`,
		`weight = { feed = "f", value = "x" }`: `want a number, got "x"`,
		`weight = { feed = "f", value = 1 }`:   "",
		`connections = 1e9`:                    "",
		`requests = -1`:                        "-1 is negative",
		`loadavg = 0.1`:                        "",
		`priority = 1`:                         "",
		`cost = 1.5`:                           "",
		`country = "de"`:                       "",
		`country = ["DE", "FR"]`:               "",
		`country = []`:                         "the list is empty",
		`country = ["DE", "DE"]`:               "DE is listed twice",
		`country = 3`:                          `unknown country "3" (two letters of ISO 3166-1)`,
		`country = [true]`:                     "want a value or a list of values, got true",
		`country = { feed = "f" }`:             "want a value or a table with the name of a feed",
		`us_state = "ny"`:                      "",
		`us_state = "US-NY"`:                   "",
		`us_state = "ON"`:                      `"ON" is no subdivision of US`,
		`ca_province = ["ON", "QC"]`:           "",
		`ca_province = "NY"`:                   `"NY" is no subdivision of CA`,
		`subdivisions = ["BR-SP"]`:             "",
		`subdivisions = { BR = ["SP", "RJ"] }`: "",
		`subdivisions = { BR = "SP", US = ["NY"] }`:          "",
		`subdivisions = "SP"`:                                "unknown subdivision",
		`subdivisions = {}`:                                  "the table is empty",
		`georegion = "europe"`:                               "",
		`georegion = "EU"`:                                   `unknown georegion "EU" (did you mean "EUROPE"?)`,
		`latitude = 90, longitude = -180`:                    "",
		`latitude = 90.1, longitude = 0`:                     "90.1 is out of range",
		`latitude = 0, longitude = 181`:                      "181 is out of range",
		`longitude = 0`:                                      "longitude without latitude",
		`asn = 64496`:                                        "",
		`asn = ["AS64496", 64497, "64498"]`:                  "",
		`asn = 0`:                                            `"0" is not the number of an autonomous system`,
		`asn = 4294967296`:                                   `"4294967296" is not the number of an autonomous system`,
		`ip_prefixes = ["192.0.2.0/24", "::1"]`:              "",
		`ip_prefixes = "192.0.2.1/24"`:                       `"192.0.2.1/24" has bits set beyond its length`,
		`ip_prefixes = "192.0.2.0/33"`:                       `"192.0.2.0/33" is not a prefix`,
		`ip_prefixes = "::ffff:192.0.2.0/120"`:               `"::ffff:192.0.2.0/120" is not a prefix`,
		`ip_prefixes = 3`:                                    `"3" is not a prefix`,
		`note = "x"`:                                         "",
		`note = 3`:                                           "want a text of up to 256 octets",
		`note = "` + strings.Repeat("x", 257) + `"`:          "want a text of up to 256 octets",
		`low_watermark = 1, high_watermark = 2`:              "",
		`low_watermark = 2, high_watermark = 1`:              "low_watermark 2 is not below high_watermark 1",
		`low_watermark = { feed = "f" }, high_watermark = 1`: "",
	} {
		if !strings.Contains(meta, "up =") {
			meta = "up = true, " + meta
		}
		_, problems := explicit(t, "filters = [\"up\"]\n[[zone.record.answer]]\nrdata = \"192.0.2.1\"\nmeta = { "+meta+" }\n")
		var errors []string
		for _, p := range problems {
			if !strings.Contains(p, "warning: ") {
				errors = append(errors, p)
			} else if strings.Contains(p, "neither `up` nor a PoP") {
				t.Errorf("%s: %s", meta, p)
			}
		}
		got := strings.Join(errors, "\n")
		if want == "" && got != "" || !strings.Contains(got, want) || want != "" && len(errors) != 1 || want != "" && !strings.HasPrefix(got, "edgesteer.toml:4") {
			t.Errorf("%s: got %q, want %q", meta, got, want)
		}
	}
}

// The neutral records of the conformance zones: every filter and key of metadata in use.
func TestLoadSteer(t *testing.T) {
	data, err := os.ReadFile("testdata/steer/edgesteer.toml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, problems := config.Parse("testdata/steer/edgesteer.toml", data)
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	set, problems := load(t, cfg)
	z := set.Zone(wireName(t, "steer.test."))
	if n := len(z.Records()); n != len(cfg.Zones[0].Records) {
		t.Errorf("%d records of %d", n, len(cfg.Zones[0].Records))
	}
	for _, p := range problems {
		if p.Line == 0 || !strings.HasPrefix(p.Field, "zone[0].record[") {
			t.Errorf("%v", p)
		}
	}
	if r := z.Find(wireName(t, "x.wild.steer.test."), 1); r.Record == nil || !r.Wild {
		t.Error("no wildcard")
	}
}

// avoid_record builds the avoided record first, whatever their order.
func TestAvoidRecord(t *testing.T) {
	backup := "[[zone.record]]\nname = \"backup\"\nservice = \"wss\"\nttl = 30\nfilters = [\"up\", { filter = \"avoid_record\", record = \"primary\" }]\n"
	primary := "[[zone.record]]\nname = \"primary\"\nservice = \"wss\"\nttl = 30\nfilters = [\"up\", \"geotarget_country\", { filter = \"select_first_n\", N = 1 }]\n"
	for _, records := range []string{backup + primary, primary + backup} {
		set, problems := newSite(t).load(zoneText, records, nil)
		if set == nil || problems != nil {
			t.Fatal(problems)
		}
		if n := len(set.Plans()); n != 1 {
			t.Errorf("%d plans", n)
		}
	}
}
