package ns1

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/filters"
	"github.com/edgesteer/edgesteer/server/config"
)

// a record of example.com with what the test is about; JSON members end in a comma.
func record(members string) string {
	return `{"zone": "example.com", "domain": "www.example.com", "type": "A", "ttl": 30, ` + members + ` "answers": [{"answer": ["192.0.2.1"], "meta": {"up": true}}]}`
}

func importText(t *testing.T, text string) (string, []string) {
	t.Helper()
	out, problems := Import("f", []byte(text))
	var list []string
	for _, p := range problems {
		list = append(list, strings.TrimPrefix(p.String(), "f: "))
	}
	if (out == "") != config.Failed(problems) {
		t.Errorf("text %q with problems %v", out, list)
	}
	return out, list
}

// TestImport: a record with all kinds of metadata, to the letter.
func TestImport(t *testing.T) {
	data, err := os.ReadFile("testdata/record.json")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/record.toml")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := importText(t, string(data))
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("TOML (-want +got):\n%s", diff)
	}
}

// TestProblems: what cannot be carried over, at its place in the JSON.
func TestProblems(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", []string{"there are no records (hint: a record is what GET /v1/zones/ZONE/DOMAIN/TYPE gives)"}},
		{"no JSON", "{\n\n]", []string{"f:3: this is not JSON: invalid character ']' looking for beginning of object key string"}},
		{"cut off", "{\n\"zone\": ", []string{"f:2: this is not JSON: unexpected EOF"}},
		{"no object", "[3]", []string{"[0]: want the object of a record, got a number"}},
		{"no record", `{"x": 1}`, []string{"this is neither a record nor a zone with records (hint: a record is what GET /v1/zones/ZONE/DOMAIN/TYPE gives)"}},
		{"no zone", `{"domain": "www.example.com", "type": "A"}`, []string{"zone is missing"}},
		{"no type", `{"zone": "example.com", "domain": "www.example.com"}`, []string{"type is missing"}},
		{"type of type", `{"zone": "example.com", "domain": "www.example.com", "type": 1}`, []string{"type: want a text, got a number", "type is missing"}},
		{"elsewhere", `{"zone": "example.com", "domain": "www.example.org", "type": "A"}`, []string{`domain: "www.example.org" is not in zone "example.com"`}},
		{"no answers", `{"zone": "example.com", "domain": "www.example.com", "type": "A", "answers": []}`, []string{"neither service nor answers"}},
		{"link", record(`"link": "a.example.com",`), []string{`link: the record is a link to "a.example.com" (hint: put a copy of that record in its place)`}},
		{"alias", strings.Replace(record(""), `"A"`, `"ALIAS"`, 1), []string{
			"type: records of type ALIAS exist only at NS1 (hint: NS1 looks the addresses up; give them here, as records of type A and AAAA)"}},
		{"redirect", strings.Replace(record(""), `"A"`, `"URLFWD"`, 1), []string{
			"type: records of type URLFWD exist only at NS1 (hint: NS1 answers with its own redirecting web servers; run one of your own)"}},
		{"unknown type", strings.Replace(record(""), `"A"`, `"AAAAA"`, 1), []string{`type: unknown type "AAAAA" (hint: did you mean "AAAA"?)`}},
		{"short form", `{"zone": "example.com", "records": [{"domain": "www.example.com", "type": "A", "short_answers": ["192.0.2.1"]}]}`, []string{
			"records[0].short_answers: this is the short form of a record, without filters and metadata (hint: import what GET /v1/zones/example.com/www.example.com/A gives)"}},
		{"twice", "[" + record("") + "," + record("") + "]", []string{"[1]: a second record www.example.com of type A (hint: the first is [0])"}},
		{"unknown member", record(`"filterz": [],`), []string{`warning: filterz: left out: nothing is known of it (hint: did you mean "filters"?)`}},
		{"name server", `{"zone": "example.com", "domain": "sub.example.com", "type": "NS", "ttl": 300, "answers": [{"answer": ["ns1.example.net"]}, {"answer": ["ns2.example.net."]}]}` + record(""), []string{
			"warning: [0]: left to the zone file, where records of type NS stand (hint: in the zone file: sub 300 IN NS ns1.example.net.; sub 300 IN NS ns2.example.net.)"}},
		{"steered name server", `{"zone": "example.com", "domain": "sub.example.com", "type": "NS", "filters": [{"filter": "shuffle"}], "answers": [{"answer": ["ns1.example.net"]}]}`, []string{
			"type: records of type NS cannot be steered (hint: put them into the zone file)"}},
		{"pulsar and its kin", record(`"filters": [{"filter": "up"}, {"filter": "pulsar_sort"}, {"filter": "pulse"}, {"filter": "ipv4_prefix_shuffle"}, {"filter": "parse_ipv4"}, {"filter": "additional_metadata"}],`), []string{
			`filters[1].filter: there is no filter "pulsar_sort" (hint: it needs NS1's measurements of its users; steer by place (geotarget_country) and by load (shed_load) instead)`,
			`filters[2].filter: there is no filter "pulse" (hint: it needs NS1's measurements of its users; steer by place (geotarget_country) and by load (shed_load) instead)`,
			`filters[3].filter: there is no filter "ipv4_prefix_shuffle" (hint: it makes answers up from prefixes; list the addresses as answers, then shuffle and select_first_n)`,
			`filters[4].filter: there is no filter "parse_ipv4" (hint: list the answers that it would give)`,
			`filters[5].filter: there is no filter "additional_metadata" (hint: it adds TXT records to the additional section; make a TXT record with a name of its own)`,
		}},
		{"disabled", record(`"filters": [{"filter": "pulsar_sort", "disabled": true}, {"filter": "up"}, {"filter": "select_first_n", "disabled": true}],`), []string{
			`warning: filters[0]: left out: there is no filter "pulsar_sort", and it is disabled`}},
		{"unknown filter behind a disabled one", record(`"filters": [{"filter": "pulsar_sort", "disabled": true}, {"filter": "upp"}],`), []string{
			`warning: filters[0]: left out: there is no filter "pulsar_sort", and it is disabled`, `filters[1]: unknown filter "upp" (hint: did you mean "up"?)`}},
		{"shapes of filters", record(`"filters": ["up", {"config": {}}, {"filter": "up", "disabled": 2, "config": []}, {"filter": "up", "config": {"filter": "x"}}, {"filter": "shuffle", "config": {"x": [null]}}],`), []string{
			"filters[0]: want an object, got a text", "filters[1]: filter is missing", "filters[2].config: want an object, got a list", "filters[2].disabled: want true or false, got a number",
			`filters[3].config.filter: unknown key "filter"`, "filters[4].config.x: null is no value",
		}},
		{"keys of filters", record(`"filters": [{"filter": "up"}, {"filter": "select_first_n", "config": {"n": 1}}, {"filter": "sticky", "config": {"sticky_by_network": "maybe"}}],`), []string{
			`filters[1].config.n: select_first_n: unknown key "n" (hint: did you mean "N"?)`,
			`filters[2].config.sticky_by_network: sticky: sticky_by_network must be true or false, not "maybe"`,
		}},
		{"unknown metadata", record(`"filters": [{"filter": "up"}], "meta": {"wieght": 1}, "regions": {"e.u": {"meta": {"contry": "DE"}}, "us": 3},`), []string{
			"regions.us: want an object, got a number", `meta.wieght: unknown metadata (hint: did you mean "weight"?)`, `regions."e.u".meta.contry: unknown metadata (hint: did you mean "country"?)`,
			`warning: regions."e.u": no answer is in group "e.u"`,
		}},
		{"inert metadata", record(`"filters": [{"filter": "up"}], "meta": {"pulsar": [{"job_id": "x"}], "additional_metadata": [{"a": "b"}], "note": "", "country": [], "subdivisions": {}, "asn": null},`), []string{
			"warning: meta.additional_metadata: left out: only the filter additional_metadata reads it", "warning: meta.pulsar: left out: only pulsar filters read it",
		}},
		{"prefixes", record(`"filters": [{"filter": "up"}, {"filter": "netfence_prefix"}], "meta": {"ip_prefixes": "192.0.2.7/24, 2001:db8::/32"},`), []string{
			"warning: meta.ip_prefixes: 192.0.2.7/24 is taken for 192.0.2.0/24",
			"warning: filters[1]: clients that match no answer get none: resolvers may keep that for everybody (RFC 7871 section 7.4) (hint: give one answer no such metadata)",
		}},
		{"databases", record(`"filters": [{"filter": "up"}, {"filter": "geotarget_country"}, {"filter": "netfence_asn"}], "meta": {"us_state": "NY", "subdivisions": {"DE": ["BE"]}, "asn": 64496},`), []string{
			`warning: meta.subdivisions: subdivisions need a City database; the built-in one has countries (hint: databases = ["GeoLite2-City.mmdb"] in [geo])`,
			`warning: filters[2]: netfence_asn needs a location database with AS numbers; the built-in one has none (hint: databases = ["GeoLite2-City.mmdb", "GeoLite2-ASN.mmdb"] in [geo])`,
			"warning: filters[2]: clients that match no answer get none: resolvers may keep that for everybody (RFC 7871 section 7.4) (hint: give one answer no such metadata)",
		}},
		{"feeds", record(`"filters": [{"filter": "up"}, {"filter": "shuffle"}], "meta": {"country": {"feed": "a"}, "weight": {"feed": "b", "x": 1}, "cost": {"feed": 2}},`), []string{
			"meta.cost: want a value or a table with the name of a feed (hint: for example { feed = \"lb-eu\" })",
			`meta.weight: unknown key "x" beside feed (hint: known: feed, value)`,
		}},
		{"numbers", record(`"filters": [{"filter": "up"}, {"filter": "weighted_shuffle"}], "meta": {"weight": 1e999},`), []string{"meta.weight: 1e999 is out of range",
			"warning: filters[1]: weighted_shuffle cannot tell the answers apart: none has weight"}},
		{"answers", `{"zone": "example.com", "domain": "www.example.com", "type": "A", "filters": [{"filter": "up"}], "meta": {"up": 1},
			"answers": [{"answer": []}, "x", {"answer": [true]}, {}, {"answer": ["192.0.2.256"], "region": "eu"}, {"answer": ["192.0.2.1"]}]}`, []string{
			"answers[0].answer: the list of the record's fields is empty", "answers[1]: want an object, got a text", "answers[2].answer: want texts and numbers, got a boolean",
			"answers[3].answer: want a list of the record's fields, got null", `answers[4].region: unknown group "eu"`,
			`answers[4].answer: "192.0.2.256" is not the data of a record of type A: bad A A: "192.0.2.256"`,
		}},
		{"alias at the apex", strings.NewReplacer("www.", "", `"A"`, `"CNAME"`).Replace(record(`"filters": [{"filter": "up"}],`)), []string{
			"domain: example.com. has CNAME and other data (NS) (hint: an alias has no other records (RFC 1034 section 3.6.2))"}},
		{"static record", record(""), nil},
	} {
		if _, got := importText(t, tt.text); !cmp.Equal(tt.want, got) {
			t.Errorf("%s (-want +got):\n%s", tt.name, cmp.Diff(tt.want, got))
		}
	}
}

// TestFilters: every filter of NS1's that exists here is carried over as it is, with its names in the portal, too.
func TestFilters(t *testing.T) {
	for _, e := range filters.Registry() {
		if e.Name == "shuffle_shard" || e.Name == "avoid_record" { // not NS1's
			continue
		}
		text, _ := importText(t, record(`"filters": [{"filter": "up", "config": {}}, {"filter": "`+e.Name+`", "config": {}}], "meta": {"connections": 1},`))
		if !strings.Contains(text, "\n  \""+e.Name+"\",\n]") {
			t.Errorf("%s: %s", e.Name, text)
		}
	}
	text, _ := importText(t, record(`"filters": [{"filter": "group_sticky_shuffle", "config": {"sticky_by_network": true}}, {"filter": "select_first_group"}],`))
	if want := "filters = [\n  { filter = \"sticky_region\", sticky_by_network = true },\n  \"select_first_region\",\n]\n"; !strings.Contains(text, want) {
		t.Errorf("no %q in:\n%s", want, text)
	}
}

// TestText: what is a number or a boolean may be a text, as tools write it.
func TestText(t *testing.T) {
	got, problems := importText(t, "\ufeff"+`{"zone": "example.com", "domain": "www.example.com", "type": "A", "ttl": "30", "use_client_subnet": "0", "filters": [{"filter": "up", "disabled": "false"},
		{"filter": "geofence_country", "disabled": "1"}], "answers": [{"answer": ["192.0.2.1"], "meta": {"up": "1", "subdivisions": {"US": "NY, CA"}}}]}`)
	for _, want := range []string{"ttl     = 30\n", "use_client_subnet = false\n", "  \"up\",\n", "disabled = true", `subdivisions = { US = ["NY", "CA"] }`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s (%q)", want, got, problems)
		}
	}
	for _, bad := range []string{`"ttl": "x",`, `"ttl": "",`, `"use_client_subnet": "maybe",`, `"filters": [{"filter": "up", "disabled": "maybe"}],`} {
		if got, _ := importText(t, strings.Replace(record(bad), `"ttl": 30, "ttl"`, `"ttl"`, 1)); got != "" {
			t.Errorf("%s is taken", bad)
		}
	}
}

// TestZone: the zone's name and TTL count for records that do not say.
func TestZone(t *testing.T) {
	text, problems := importText(t, `{"zone": "Example.com.", "ttl": 7200, "records": [
		{"domain": "example.com", "type": "a", "answers": [{"answer": "192.0.2.1"}], "use_client_subnet": false},
		{"domain": "www.example.com", "type": "A", "ttl": 20, "use_client_subnet": true, "answers": [{"answer": ["192.0.2.1"]}]}]}`)
	want := `
[[zone]]
name = "example.com"
file = "example.com.zone"

[[zone.record]]
name    = "@"
type    = "A"
ttl     = 7200
use_client_subnet = false

  [[zone.record.answer]]
  rdata = "192.0.2.1"

[[zone.record]]
name    = "www"
type    = "A"
ttl     = 20

  [[zone.record.answer]]
  rdata = "192.0.2.1"
`
	if !strings.HasSuffix(text, want) || problems != nil {
		t.Errorf("got %s\n%v", text, problems)
	}
}

func TestRData(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, tt := range []struct{ typ, answer, want string }{
		{"A", `["192.0.2.1"]`, "192.0.2.1"},
		{"CNAME", `["a.example.net"]`, "a.example.net."},
		{"CNAME", `["a.example.net."]`, "a.example.net."},
		{"MX", `[10, "mail.example.com"]`, "10 mail.example.com."},
		{"MX", `["10 mail.example.com"]`, "10 mail.example.com."},
		{"MX", `[0, "."]`, "0 ."},
		{"SRV", `["1", "2", "443", "a.example.net"]`, "1 2 443 a.example.net."},
		{"CAA", `["0", "issue", "ca.example.net"]`, `0 issue "ca.example.net"`},
		{"CAA", `["0 issue \"ca.example.net\""]`, `0 issue "ca.example.net"`},
		{"CAA", `[" 0  issue\t\"ca.example.net\" "]`, `0 issue "ca.example.net"`},
		{"NAPTR", `[100, 10, "S", "SIP+D2U", "", "_sip._udp.example.com"]`, `100 10 "S" "SIP+D2U" "" _sip._udp.example.com.`},
		{"HTTPS", `["1 . alpn=h2,h3 port=443"]`, "1 . alpn=h2,h3 port=443"},
		{"TXT", `["v=spf1 include:example.net; \"quoted\" \\ é"]`, `"v=spf1 include:example.net; \"quoted\" \\ \195\169"`},
		{"TXT", `["` + long + `"]`, `"` + long[:255] + `" "` + long[255:] + `"`},
		{"TLSA", `[3, 1, 1, "d2abde240d7cd3ee6b4b28c54df034b97983a1d16e8a410e4561cb106618e971"]`, "3 1 1 d2abde240d7cd3ee6b4b28c54df034b97983a1d16e8a410e4561cb106618e971"},
	} {
		var answer any
		d := json.NewDecoder(strings.NewReader(tt.answer))
		d.UseNumber()
		if err := d.Decode(&answer); err != nil {
			t.Fatal(err)
		}
		got, err := rdata(tt.typ, answer)
		if got != tt.want || err != nil {
			t.Errorf("%s %s: %q, %v; want %q", tt.typ, tt.answer, got, err, tt.want)
		}
		text, problems := Import("f", []byte(`{"zone": "example.com", "domain": "x.example.com", "type": "`+tt.typ+`", "answers": [{"answer": `+tt.answer+`}]}`))
		if text == "" {
			t.Errorf("%s %s is refused: %v", tt.typ, tt.answer, problems)
		}
	}
}

// FuzzImport: whatever the JSON, no panic; and what is written is read without an error, and says the same again.
func FuzzImport(f *testing.F) {
	for _, file := range []string{"testdata/record.json"} {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, text := range []string{
		"", "{}", "[", "[[{}]]", "null", record(`"filters": [{"filter": "up"}],`), record(`"meta": {"\u0000\"": [1, {"a": [[]]}], "up": 1e3},`), record(`"regions": {"": {"meta": {"up": "\ud800"}}},`),
		`{"zone": "a", "records": [` + record("") + `]}`, `{"zone": "a/b", "domain": "\\000.a/b", "type": "TYPE65400", "answers": [{"answer": ["\\# 0"]}]}`,
		record(`"ttl": -1,`), record(`"ttl": "1",`), record(`"use_client_subnet": 3,`),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, problems := Import("f", data)
		if (text == "") != config.Failed(problems) {
			t.Errorf("text %q with problems %v", text, problems)
		}
		for _, p := range problems {
			if p.File != "f" || p.Message == "" {
				t.Errorf("problem %#v", p)
			}
		}
		if text == "" {
			return
		}
		cfg, problems := config.Parse("f", []byte("[server]\nnode = \"a\"\n"+text))
		if config.Failed(problems) {
			t.Errorf("%v\n%s", problems, text)
		}
		if cfg != nil && len(cfg.Zones) == 0 {
			t.Errorf("no zones in %s", text)
		}
	})
}
