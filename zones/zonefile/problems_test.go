package zonefile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/zonefile"
)

const start = "[server]\nnode = \"a\"\nlisten = [\"127.0.0.1:5300\"]\n"

// fleetText is two PoPs with a service of addresses and one of names.
const fleetText = `
[[pop]]
name = "iad"
country = "US"
subdivision = "US-VA"
georegion = "US-EAST"
latitude = 38.9
longitude = -77.4
[[pop]]
name = "fra"
country = "DE"
georegion = "EUROPE"
latitude = 50.1
longitude = 8.7
[[service]]
name = "wss"
load = { metric = "connections", low_watermark = 10, high_watermark = 20 }
[service.at.fra]
addresses = ["198.51.100.1", "2001:db8:2::1"]
[service.at.iad]
addresses = ["192.0.2.1", "192.0.2.2"]
capacity = 100
meta = { country = ["US", "CA"], weight = 3, high_watermark = 30 }
[[service]]
name = "cdn"
[service.at.iad]
cname = "iad.cdn.example."
[service.at.fra]
cname = "Fra.cdn.example."
`

const zoneText = "$TTL 3600\n@ SOA ns1 hostmaster 1 7200 900 1209600 60\n@ NS ns1.elsewhere.\nstatic A 192.0.2.9\n"

// site is a configuration in a folder of its own.
type site struct {
	dir string
	t   testing.TB
}

func newSite(t testing.TB) site { return site{t.TempDir(), t} }

func (s site) write(file, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, file), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// load loads a configuration with the zone edge.example of zone and records.
func (s site) load(zone, records string, prev *zones.Set) (*zones.Set, []string) {
	s.t.Helper()
	s.write("zone", zone)
	return s.loadText(start+fleetText+"[[zone]]\nname = \"edge.example\"\nfile = \"zone\"\n"+records, prev)
}

// loadText gives the set, and the problems as text without the folder.
func (s site) loadText(text string, prev *zones.Set) (*zones.Set, []string) {
	s.t.Helper()
	cfg, problems := config.Parse(filepath.Join(s.dir, "edgesteer.toml"), []byte(text))
	if cfg == nil {
		s.t.Fatal(problems)
	}
	fleet, more := zonefile.Fleet(cfg)
	problems = append(problems, more...)
	set, more := zonefile.Load(cfg, fleet, prev)
	if (set == nil) != config.Failed(more) {
		s.t.Errorf("set is nil: %v, problems %v", set == nil, more)
	}
	return set, s.texts(append(problems, more...))
}

func (s site) texts(problems []config.Problem) (out []string) {
	for _, p := range problems {
		if p.Line == 0 {
			s.t.Errorf("no line: %v", p)
		}
		out = append(out, strings.ReplaceAll(p.String(), s.dir+"/", ""))
	}
	return out
}

// long has 254 octets with edge.example. behind it.
var long = strings.Repeat("a", 59) + strings.Repeat("."+strings.Repeat("a", 59), 3)

// TestZoneFileProblems: what is wrong with master files, with file and line.
func TestZoneFileProblems(t *testing.T) {
	for _, tt := range []struct {
		name, zone string
		want       []string
	}{
		{"sound", zoneText, nil},
		{"syntax", zoneText + "www A 192.0.2\nmail A\nx A 192.0.2.1\n", []string{
			`zone:5: bad A A: "192.0.2"`, "zone:6: the line ends in the middle of a record (hint: a record is NAME TTL TYPE DATA)",
		}},
		{"a record of several lines", "$TTL 60\n@ SOA ns h (\n 1 ; serial\n 2 3 4\n 5 )\n@ NS ns1.elsewhere.\n\n; comment\na TXT ( \"x;(\"\n \"y\"\n )\na TXT \"x;(\" \"y\"\n", []string{
			"zone:12: warning: duplicate record of a.edge.example. TXT",
		}},
		{"after an error", "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns1.elsewhere.\n$ORIGIN sub.edge.example.\na A x\n  A 192.0.2.1\nb A 192.0.2.1\n$ORIGIN deeper\nc A y\nc TXT c\nc CNAME d\n", []string{
			`zone:5: bad A A: "x"`, `zone:9: bad A A: "y"`,
			"zone:11: c.deeper.sub.edge.example. has CNAME and other data (TXT) (hint: an alias has no other records (RFC 1034 section 3.6.2))",
		}},
		{"class", zoneText + "x CH TXT y\n", []string{"zone:5: class CH is not served (hint: zones are of class IN)"}},
		{"unknown type", zoneText + "x FOO y\n", []string{`zone:5: "FOO" is neither a TTL nor a class nor a type (hint: types without a name here are written TYPE65400 \# 4 0a000001 (RFC 3597))`}},
		{"no TTL", "@ SOA ns h 1 2 3 4 5\n", []string{
			`zone:1: missing TTL with no previous value: "SOA"`, "zone:1: zone edge.example. has no SOA record (hint: every zone begins with its SOA record)",
		}},
		{"outside", zoneText + "www.elsewhere. A 192.0.2.1\n", []string{"zone:5: www.elsewhere. lies outside of zone edge.example. (hint: its name must end in that of the zone)"}},
		{"no SOA", "x 60 A 192.0.2.1\n", []string{"zone:1: zone edge.example. has no SOA record (hint: every zone begins with its SOA record)"}},
		{"TTL too long", zoneText + "x 2147483648 A 192.0.2.1\n", []string{"zone:5: TTL 2147483648 is too long (hint: up to 2147483647 (RFC 2181 section 8))"}},
		{"generated", zoneText + "$GENERATE 1-3 h$ A 192.0.2.$\n$GENERATE 2-2 h$ A 192.0.2.$\n", []string{"zone:6: warning: duplicate record of h2.edge.example. A"}},
		{"names that the origin makes too long", zoneText + long + "b A 192.0.2.1\n" + long + "bc A 192.0.2.1\nx PTR " + long + "b\nx PTR " + long + "bc\n", []string{
			"zone:6: name " + long + "bc.edge.example. has 256 octets (hint: up to 255 octets, with the origin (RFC 1035 section 2.3.4))",
			"zone:8: a name in the data of x.edge.example. PTR has more than 255 octets (hint: up to 255 octets, with the origin (RFC 1035 section 2.3.4))",
		}},
		{"long data without names", zoneText + "x TXT " + strings.Repeat(`"y" `, 200) + "\n", nil},
		{"unknown directive", zoneText + "$TTTL 5\n$INCLUDE\n  $TTL 5\n", []string{
			`zone:5: unknown directive "$TTTL" (hint: did you mean "$TTL"?)`, "zone:6: $INCLUDE needs a value behind it",
			"zone:7: $TTL does not begin its line (hint: a line that begins with a blank is a record of the last owner)",
		}},
		{"bad origin", zoneText + "$ORIGIN a..b\nx A y\n", []string{`zone:5: bad origin name: "a..b"`, `zone:6: bad A A: "y"`}},
		{"escapes", zoneText + "; \\9\nx TXT \"\\255\\\\9\\\"\\x\"\nx TXT \\256 \\999\na\\1b A 192.0.2.1\nb TXT \"\n\\3\"\n", []string{
			`zone:7: a backslash stands before digits that are not three, 000 to 255 (hint: for example \032 for a blank, \\ for a backslash)`,
			`zone:8: a backslash stands before digits that are not three, 000 to 255 (hint: for example \032 for a blank, \\ for a backslash)`,
			`zone:10: a backslash stands before digits that are not three, 000 to 255 (hint: for example \032 for a blank, \\ for a backslash)`,
		}},
		{"SVCB", zoneText + "a HTTPS 1 . mandatory=port alpn=h2\nb SVCB 1 . no-default-alpn\nc HTTPS 1 . mandatory=alpn,ipv4hint alpn=h2 ipv4hint=192.0.2.1\nd HTTPS 0 c\ne HTTPS 2 c alpn=h2 no-default-alpn\n", []string{
			"zone:5: a.edge.example. HTTPS: clients leave it out: key3 is mandatory, and missing (RFC 9460 section 8)",
			"zone:6: b.edge.example. SVCB: clients leave it out: no-default-alpn without alpn (RFC 9460 section 7.1.1)",
		}},
		{"SVCB lists", zoneText + "a SVCB 1 . alpn=\"\"\nb SVCB 1 . mandatory= port=1\nc SVCB 1 . mandatory=port,port port=1\nd SVCB 1 . mandatory=port,alpn port=1 alpn=h2\n", []string{
			"zone:5: a.edge.example. SVCB: clients leave it out: key1 has no value (RFC 9460 sections 7.1.1 and 8)",
			"zone:6: b.edge.example. SVCB: clients leave it out: key0 has no value (RFC 9460 sections 7.1.1 and 8)",
			"zone:7: c.edge.example. SVCB: clients leave it out: mandatory lists key3 twice or out of order (RFC 9460 section 8)",
		}},
		{"first line blank", " 60 SOA ns h 1 2 3 4 5\n@ 60 NS ns1.elsewhere.\n", []string{
			"zone:1: the first record has no name (hint: a line that begins with a blank has the name of the record before it)",
			"zone:1: zone edge.example. has no SOA record (hint: every zone begins with its SOA record)",
		}},
		{"two SOA", zoneText + "@ SOA ns1 hostmaster 2 7200 900 1209600 60\n", []string{"zone:5: zone edge.example. has 2 SOA records (hint: keep one)"}},
		{"include", zoneText + "$INCLUDE nosuch\nx A 192.0.2.1\nx A 192.0.2.1\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			_, got := s.load(tt.zone, "", nil)
			if tt.name == "include" { // the message has the system's words
				if len(got) != 1 || !strings.HasPrefix(got[0], `zone:5: including "nosuch": stat `) || strings.Contains(got[0], `: "nosuch"`+" (") {
					t.Errorf("got %q", got)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestInclude(t *testing.T) {
	s := newSite(t)
	if err := os.Mkdir(filepath.Join(s.dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write("sub/a", " AAAA 2001:db8::1\na A 192.0.2.1\n$ORIGIN deep\nd A 192.0.2.2\n$INCLUDE b\n")
	s.write("sub/b", "\n\nb A bad\nb A 192.0.2.3\n")
	zone := zoneText + "$INCLUDE sub/a inner\nafter A 192.0.2.4\nafter A 192.0.2.4\n"
	_, got := s.load(zone, "", nil)
	if diff := cmp.Diff([]string{`sub/b:3: bad A A: "bad"`}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.write("sub/b", "b A 192.0.2.3\nb TXT x\nb CNAME y.elsewhere.\n")
	_, got = s.load(zone, "", nil)
	want := []string{
		"sub/b:3: b.deep.inner.edge.example. has CNAME and other data (A) (hint: an alias has no other records (RFC 1034 section 3.6.2))",
		"zone:7: warning: duplicate record of after.edge.example. A",
	}
	slices.Sort(got)
	if diff := cmp.Diff(want[:1], got[:1]); diff != "" || len(got) > 2 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.write("sub/b", "b A 192.0.2.3\n")
	set, got := s.load(zone, "", nil)
	if diff := cmp.Diff(want[1:], got); diff != "" || set == nil {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for _, owner := range []string{"a.inner", "d.deep.inner", "b.deep.inner", "after"} {
		if r := set.Find(wireName(t, owner+".edge.example."), 1); r.Kind != zones.Answer {
			t.Errorf("%s: %v", owner, r.Kind)
		}
	}
	if r := set.Find(wireName(t, "static.edge.example."), 28); r.Kind != zones.Answer { // the first line of sub/a, which begins with a blank
		t.Errorf("static AAAA: %v", r.Kind)
	}
}

// An error does not hide those on the lines behind it.
func TestSyntaxAll(t *testing.T) {
	s := newSite(t)
	_, got := s.load("\ufeff"+zoneText+"c A\nd FOO x\ne BAR x\n$ORIGIN deep\nf A\n$ORIGIN deeper\ng A\nh A 1\nok A 192.0.2.1\n", "", nil)
	var lines []string
	for _, p := range got {
		file, rest, _ := strings.Cut(p, ":")
		line, _, _ := strings.Cut(rest, ":")
		lines = append(lines, file+":"+line)
	}
	if diff := cmp.Diff([]string{"zone:5", "zone:6", "zone:7", "zone:9", "zone:11", "zone:12"}, lines); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, strings.Join(got, "\n"))
	}
}

// What is served, but hardly meant, is warned of.
func TestOddities(t *testing.T) {
	s := newSite(t)
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"no zone", start, []string{"edgesteer.toml: warning: there is no zone: every query is refused (hint: add [[zone]] with name and file)"}},
		{"names that are not ASCII", start + fleetText + "[[zone]]\nname = \"bücher.example\"\nfile = \"zone\"\n" + strings.Replace(wssRecord, `"s"`, `"weiß"`, 1) + "filters = [\"up\"]\n", []string{
			`edgesteer.toml:34: warning: zone[0].name: name "bücher.example" is not ASCII: nobody asks for it so (hint: did you mean "xn--bcher-kva.example"?)`,
			`edgesteer.toml:37: warning: zone[0].record[0].name: name "weiß" is not ASCII: nobody asks for it so (hint: did you mean "xn--wei-7ka"?)`,
			`zone:5: warning: name straße.b\195\188cher.example. is not ASCII: nobody asks for it so (hint: did you mean "xn--strae-oqa.xn--bcher-kva.example."?)`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.write("zone", strings.Replace(zoneText, "$TTL", "\ufeff$TTL", 1)+"straße A 192.0.2.1\nstraße A 192.0.2.2\n")
			cfg, problems := config.Parse(filepath.Join(s.dir, "edgesteer.toml"), []byte(tt.text))
			if cfg == nil {
				t.Fatal(problems)
			}
			fleet, _ := zonefile.Fleet(cfg)
			_, problems = zonefile.Load(cfg, fleet, nil)
			var got []string
			for _, p := range problems {
				got = append(got, strings.ReplaceAll(p.String(), s.dir+"/", ""))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	cfg, _ := config.Parse("edgesteer.toml", []byte(start+strings.Replace(fleetText, "198.51.100.1", "0.0.0.0", 1)))
	if _, problems := zonefile.Fleet(cfg); len(problems) != 1 || !problems[0].Warning || !strings.Contains(problems[0].Message, "0.0.0.0 is no address of a host") {
		t.Error(problems)
	}
}

// A file that is none may never come to an end: it is refused at once.
func TestNoFile(t *testing.T) {
	s := newSite(t)
	if err := syscall.Mkfifo(filepath.Join(s.dir, "zone"), 0o600); err != nil {
		t.Skip(err)
	}
	if set, got := s.loadText(start+"[[zone]]\nname = \"edge.example\"\nfile = \"zone\"\n", nil); set != nil || len(got) != 1 || !strings.Contains(got[0], "not a regular file") || strings.Contains(got[0], "hint") {
		t.Error(got)
	}
}

// A zone that is offered for transfer and changes without its serial is warned of: its secondaries would not see it.
func TestSerial(t *testing.T) {
	s := newSite(t)
	text := start + "[[zone]]\nname = \"edge.example\"\nfile = \"zone\"\ntransfer = { allow = [\"192.0.2.0/24\"] }\n"
	s.write("zone", zoneText)
	set, _ := s.loadText(text, nil)
	for _, tt := range []struct {
		zone string
		warn bool
	}{
		{zoneText + "; only a word\n", false},
		{zoneText + "new A 192.0.2.1\n", true},
		{strings.Replace(zoneText, " 1 7200", " 0 7200", 1), true},
		{strings.Replace(zoneText, " 1 7200", " 2 7200", 1) + "new A 192.0.2.1\n", false},
	} {
		s.write("zone", tt.zone)
		if _, got := s.loadText(text, set); (len(got) == 1 && strings.Contains(got[0], "its serial has not grown")) != tt.warn || len(got) > 1 {
			t.Errorf("%q: %q", tt.zone, got)
		}
	}
}

func TestMissingFile(t *testing.T) {
	s := newSite(t)
	cfg, _ := config.Parse(filepath.Join(s.dir, "edgesteer.toml"), []byte(start+"[[zone]]\nname = \"edge.example\"\nfile = \"nosuch\"\n"))
	fleet, _ := zonefile.Fleet(cfg)
	set, problems := zonefile.Load(cfg, fleet, nil)
	if set != nil || len(problems) != 1 || !strings.Contains(problems[0].Message, "no such file") {
		t.Errorf("got %v", problems)
	}
}

const wssRecord = "[[zone.record]]\nname = \"s\"\nservice = \"wss\"\nttl = 30\n"

// TestRecordProblems: what is wrong with steered records. They begin on line 37.
func TestRecordProblems(t *testing.T) {
	for _, tt := range []struct {
		name, records string
		want          []string
	}{
		{"sound", wssRecord + "filters = [\"up\", \"geotarget_country\", { filter = \"select_first_n\", N = 1 }]\n", nil},
		{"no up", wssRecord, []string{"edgesteer.toml:36: warning: zone[0].record[0].filters: the chain has no `up`: drains, health and load take nothing out of this record (hint: put \"up\" first)"}},
		{"unknown service", "[[zone.record]]\nname = \"s\"\nservice = \"wsss\"\n", []string{`edgesteer.toml:38: zone[0].record[0].service: unknown service "wsss" (hint: did you mean "wss"?)`}},
		{"unknown filter", wssRecord + "filters = [\"up\", \"select_first\"]\n", []string{`edgesteer.toml:40: zone[0].record[0].filters[1]: unknown filter "select_first" (hint: did you mean "select_first_n"?)`}},
		{"unknown key of a filter", wssRecord + "filters = [\"up\",\n{ filter = \"select_first_n\", n = 1 }]\n", []string{`edgesteer.toml:41: zone[0].record[0].filters[1].n: select_first_n: unknown key "n" (hint: did you mean "N"?)`}},
		{"filter without a name", wssRecord + "filters = [{ N = 1 }, 3, { filter = \"up\", disabled = \"yes\" }, { filter = \"up\", disabled = \"1\" }]\n", []string{
			`edgesteer.toml:40: zone[0].record[0].filters[0]: a filter is a name, or a table with the key "filter" (hint: for example { filter = "select_first_n", N = 1 })`,
			`edgesteer.toml:40: zone[0].record[0].filters[1]: a filter is a name or a table, not 3`,
			`edgesteer.toml:40: zone[0].record[0].filters[2].disabled: want true or false, got "yes"`,
		}},
		{"type of a service", wssRecord + "type = \"MX\"\nfilters = [\"up\"]\n", []string{`edgesteer.toml:40: zone[0].record[0].type: a service has A and AAAA records, or CNAME records, none of type MX (hint: leave the type out)`}},
		{"unknown type", "[[zone.record]]\nname = \"s\"\ntype = \"AAAAA\"\nfilters = [\"up\"]\n[[zone.record.answer]]\nrdata = \"x\"\n", []string{
			`edgesteer.toml:38: zone[0].record[0].type: unknown type "AAAAA" (hint: did you mean "AAAA"?)`,
		}},
		{"type of the zone", "[[zone.record]]\nname = \"s\"\ntype = \"NS\"\nfilters = [\"up\"]\n[[zone.record.answer]]\nrdata = \"x\"\n", []string{
			`edgesteer.toml:38: zone[0].record[0].type: records of type NS cannot be steered (hint: put them into the zone file)`,
		}},
		{"CNAME of addresses", wssRecord + "type = \"CNAME\"\nfilters = [\"up\"]\n", []string{`edgesteer.toml:40: zone[0].record[0].type: service "wss" has nothing for records of type CNAME`}},
		{"unknown metadata", wssRecord + "meta = { wieght = 3 }\nfilters = [\"up\"]\n", []string{`edgesteer.toml:40: zone[0].record[0].meta.wieght: unknown metadata (hint: did you mean "weight"?)`}},
		{"metadata without a filter", wssRecord + "meta = { weight = 3, note = \"x\" }\nfilters = [\"up\"]\n", []string{
			`edgesteer.toml:40: warning: zone[0].record[0].meta.weight: weight has no effect: no filter of the chain reads it`,
		}},
		{"watermark of a record", wssRecord + "meta = { low_watermark = 3 }\nfilters = [\"up\"]\n", []string{
			`edgesteer.toml:40: zone[0].record[0].meta.low_watermark: low_watermark of a service is the same in all its records (hint: set it where the service or the endpoint is)`,
		}},
		{"TTL", "[[zone.record]]\nname = \"s\"\nservice = \"wss\"\nttl = 300\nfilters = [\"up\"]\n", []string{
			"edgesteer.toml:39: warning: zone[0].record[0].ttl: with a TTL of 300 s drains are felt late (hint: 60 s or less)",
		}},
		{"name of the zone", strings.Replace(wssRecord, `"s"`, `"s.edge.example"`, 1) + "filters = [\"up\"]\n", []string{
			`edgesteer.toml:37: warning: zone[0].record[0].name: names are relative to the zone: this one is s.edge.example.edge.example. (hint: did you mean "s.edge.example."?)`,
		}},
		{"outside", strings.Replace(wssRecord, `"s"`, `"s.elsewhere."`, 1) + "filters = [\"up\"]\n", []string{
			`edgesteer.toml:37: zone[0].record[0].name: s.elsewhere. lies outside of zone edge.example. (hint: its name must end in that of the zone)`,
			`edgesteer.toml:37: zone[0].record[0].name: s.elsewhere. lies outside of zone edge.example. (hint: its name must end in that of the zone)`,
		}},
		{"static record of the name", strings.Replace(wssRecord, `"s"`, `"static"`, 1) + "filters = [\"up\"]\n", []string{
			`edgesteer.toml:37: zone[0].record[0].name: static.edge.example. A is there twice (hint: a name and type is static or steered, and steered once)`,
		}},
		{"steered CNAME and other data", "[[zone.record]]\nname = \"static\"\nservice = \"cdn\"\nfilters = [\"up\"]\n", []string{
			`edgesteer.toml:37: zone[0].record[0].name: static.edge.example. has CNAME and other data (A) (hint: an alias has no other records (RFC 1034 section 3.6.2))`,
		}},
		{"steered CNAME loop", "[[zone.record]]\nname = \"s\"\ntype = \"CNAME\"\nmeta = { up = true }\nfilters = [\"up\"]\n[[zone.record.answer]]\nrdata = \"s\"\n", []string{
			`edgesteer.toml:37: zone[0].record[0].name: steered CNAME of s.edge.example. can lead back to itself (hint: an alias must end somewhere)`,
		}},
		{"avoided record unknown", wssRecord + "filters = [\"up\", { filter = \"avoid_record\", record = \"t\" }]\n", []string{
			`edgesteer.toml:40: zone[0].record[0].filters[1].record: unknown record "t" in zone edge.example. (did you mean "s"?)`,
		}},
		{"avoids itself", wssRecord + "filters = [\"up\", { filter = \"avoid_record\", record = \"s\" }]\n", []string{
			`edgesteer.toml:40: zone[0].record[0].filters[1].record: records avoid each other in a loop: s, s`,
		}},
		{"avoids a record of another client", wssRecord + "filters = [\"up\", { filter = \"avoid_record\", record = \"t\" }]\n" +
			strings.Replace(wssRecord, `"s"`, `"t"`, 1) + "use_client_subnet = false\nfilters = [\"up\"]\n", []string{
			`edgesteer.toml:40: zone[0].record[0].filters[1].record: record "t" looks at another client: both must have the same use_client_subnet`,
		}},
		{"avoid each other", wssRecord + "filters = [\"up\", { filter = \"avoid_record\", record = \"t\" }]\n" +
			strings.Replace(wssRecord, `"s"`, `"t"`, 1) + "filters = [\"up\", { filter = \"avoid_record\", record = \"s.edge.example.\" }]\n", []string{
			`edgesteer.toml:45: zone[0].record[1].filters[1].record: records avoid each other in a loop: s, t, s`,
			`edgesteer.toml:40: zone[0].record[0].filters[1].record: record "t" has problems of its own`,
		}},
		{"group and PoP", `[[zone.record]]
name = "s"
type = "A"
filters = ["up", "select_first_region"]
[zone.record.group.eu]
pop = "frra"
[zone.record.group.us]
[[zone.record.answer]]
rdata = "192.0.2.1"
group = "eu"
[[zone.record.answer]]
rdata = "192.0.2.2"
group = "asia"
pop = "iad"
`, []string{
			`edgesteer.toml:41: zone[0].record[0].group.eu.pop: unknown PoP "frra" (hint: did you mean "fra"?)`,
			`edgesteer.toml:48: zone[0].record[0].answer[1].group: unknown group "asia" (hint: known: eu, us)`,
			`edgesteer.toml:42: warning: zone[0].record[0].group.us: no answer is in group "us"`,
			"edgesteer.toml:39: warning: zone[0].record[0].filters[0]: answer \"192.0.2.1\" can never be up: it has neither `up` nor a PoP, which counts as down (hint: set meta = { up = true } or tie it to a PoP with pop = ...)",
		}},
		{"rdata", `[[zone.record]]
name = "s"
type = "A"
meta = { up = true }
filters = ["up"]
[[zone.record.answer]]
rdata = "192.0.2.256"
[[zone.record.answer]]
rdata = ["192.0.2.1", "2001:db8::1", 3]
[[zone.record.answer]]
rdata = []
[[zone.record.answer]]
rdata = "192.0.2.1\nx A 192.0.2.2"
[[zone.record.answer]]
rdata = ""
`, []string{
			`edgesteer.toml:42: zone[0].record[0].answer[0].rdata: "192.0.2.256" is not the data of a record of type A: bad A A: "192.0.2.256"`,
			`edgesteer.toml:44: zone[0].record[0].answer[1].rdata: "2001:db8::1" is not the data of a record of type A: bad A A: "2001:db8::1"`,
			`edgesteer.toml:44: zone[0].record[0].answer[1].rdata: want record data in quotes, got 3`,
			`edgesteer.toml:46: zone[0].record[0].answer[2].rdata: an answer has at least one record`,
			`edgesteer.toml:48: zone[0].record[0].answer[3].rdata: "192.0.2.1\nx A 192.0.2.2" is more than one record`,
			`edgesteer.toml:50: zone[0].record[0].answer[4].rdata: record data is empty`,
		}},
		{"names and escapes in rdata", "[[zone.record]]\nname = \"s\"\ntype = \"PTR\"\nmeta = { up = true }\nfilters = [\"up\"]\n[[zone.record.answer]]\nrdata = '" + long + "bc'\n[[zone.record.answer]]\nrdata = 'a\\256'\n", []string{
			`edgesteer.toml:42: zone[0].record[0].answer[0].rdata: "` + long + `bc" has a name of more than 255 octets (up to 255 octets, with the origin (RFC 1035 section 2.3.4))`,
			`edgesteer.toml:44: zone[0].record[0].answer[1].rdata: "a\\256": a backslash stands before digits that are not three, 000 to 255 (for example \032 for a blank, \\ for a backslash)`,
		}},
		{"HTTPS", "[[zone.record]]\nname = \"s\"\ntype = \"HTTPS\"\nmeta = { up = true }\nfilters = [\"up\"]\n[[zone.record.answer]]\nrdata = \"1 . mandatory=alpn\"\n", []string{
			`edgesteer.toml:42: zone[0].record[0].answer[0].rdata: clients leave "1 . mandatory=alpn" out: key1 is mandatory, and missing (RFC 9460 section 8)`,
		}},
		{"two CNAMEs", "[[zone.record]]\nname = \"s\"\ntype = \"CNAME\"\nmeta = { up = true }\nfilters = [\"up\"]\n[[zone.record.answer]]\nrdata = [\"a.\", \"b.\"]\n", []string{
			`edgesteer.toml:42: zone[0].record[0].answer[0].rdata: an answer to a CNAME record is one CNAME (hint: make answers of them)`,
		}},
		{"watermarks", "[[zone.record]]\nname = \"s\"\ntype = \"A\"\nmeta = { up = true, high_watermark = 3, loadavg = 1 }\nfilters = [\"up\", \"shed_load\"]\n[[zone.record.answer]]\nrdata = \"192.0.2.1\"\nmeta = { low_watermark = 3 }\n", []string{
			`edgesteer.toml:41: zone[0].record[0].answer[0]: low_watermark 3 is not below high_watermark 3`,
			`edgesteer.toml:40: zone[0].record[0].filters[1]: answer "192.0.2.1": low_watermark must be below high_watermark`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, got := newSite(t).load(zoneText, tt.records, nil)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A broken file keeps its old version and holds nothing back; the steered records of the zone are new all the same.
// An unknown group in a configuration without PoPs is a problem like any other.
func TestUnknownGroupWithoutPoPs(t *testing.T) {
	s := newSite(t)
	s.write("zone", zoneText)
	_, got := s.loadText(start+"[[zone]]\nname = \"edge.example\"\nfile = \"zone\"\n[[zone.record]]\nname = \"s\"\ntype = \"A\"\nmeta = { up = true }\nfilters = [\"up\"]\n"+
		"[[zone.record.answer]]\nrdata = \"192.0.2.1\"\ngroup = \"eu\"\n", nil)
	want := []string{`edgesteer.toml:14: zone[0].record[0].answer[0].group: unknown group "eu"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestBrokenFileKeepsOldVersion(t *testing.T) {
	s := newSite(t)
	other := "[[zone]]\nname = \"other.example\"\nfile = \"other\"\n"
	s.write("other", zoneText)
	set, problems := s.load(zoneText, other, nil)
	if problems != nil {
		t.Fatal(problems)
	}
	s.write("other", strings.Replace(zoneText, " 1 7200", " 2 7200", 1))
	next, problems := s.load("$TTL 60\n@ SOA ns1 hostmaster 2 7200 900 1209600 60\nbroken A\n", wssRecord+"filters = [\"up\"]\n"+other, set)
	want := []string{
		"zone:3: warning: broken.edge.example. A has no record data",
		"zone:1: warning: zone edge.example. has no NS record (hint: add an NS record for the zone's name)",
		"edgesteer.toml:35: warning: zone[0].file: zone edge.example. keeps its old version (hint: mend the file and reload)",
	}
	if diff := cmp.Diff(want, problems); diff != "" || next == nil {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	edge := next.Zone(wireName(t, "edge.example."))
	if edge.Serial() != 1 || edge.Find(wireName(t, "static.edge.example."), 1).Kind != zones.Answer {
		t.Error("the old records are gone")
	}
	if r := edge.Find(wireName(t, "s.edge.example."), 1); r.Record == nil {
		t.Error("the steered record is not there")
	}
	if got := next.Zone(wireName(t, "other.example.")).Serial(); got != 2 {
		t.Errorf("the other zone has serial %d", got)
	}
	// A wrong record is refused, whatever the file.
	if next, _ := s.load("broken\n", strings.Replace(wssRecord, `"s"`, `"static"`, 1)+other, set); next != nil {
		t.Error("a record beside a static one was taken")
	}
}

func TestReload(t *testing.T) {
	s := newSite(t)
	s.write("other", zoneText)
	s.write("zone", zoneText)
	text := start + fleetText + "[[zone]]\nname = \"Edge.example\"\nfile = \"zone\"\n" + wssRecord + "filters = [\"up\", \"geotarget_country\"]\n" +
		"[[zone]]\nname = \"other.example\"\nfile = \"other\"\n" + wssRecord + "filters = [\"up\", \"geotarget_country\", \"geofence_country\"]\n"
	set, problems := s.loadText(text, nil)
	if set == nil || len(set.Plans()) != 2 {
		t.Fatal(problems, len(set.Plans()))
	}
	s.write("zone", strings.Replace(zoneText, " 1 7200", " 2 7200", 1))
	cfg, _ := config.Parse(filepath.Join(s.dir, "edgesteer.toml"), []byte(text))
	fleet, _ := zonefile.Fleet(cfg)
	next, more := zonefile.Reload(cfg, fleet, set, wireName(t, "edge.example."))
	if next == nil {
		t.Fatal(more)
	}
	if next.Zone(wireName(t, "edge.example.")).Serial() != 2 || next.Zone(wireName(t, "other.example.")) != set.Zone(wireName(t, "other.example.")) {
		t.Error("not that zone alone was built anew")
	}
	if diff := cmp.Diff(set.Plans(), next.Plans()); diff != "" {
		t.Error(diff)
	}
	if next, more := zonefile.Reload(cfg, fleet, set, wireName(t, "ege.example.")); next != nil || len(more) != 1 || more[0].Hint != `did you mean "Edge.example"?` {
		t.Error(more)
	}
}

// A secondary zone has the static records that it was transferred with, and the steered ones of the configuration.
func TestSecondary(t *testing.T) {
	s := newSite(t)
	text := start + fleetText + "[[zone]]\nname = \"edge.example\"\n" + wssRecord + "filters = [\"up\"]\n[[zone.primary]]\naddress = \"127.0.0.1:53\"\n"
	set, problems := s.loadText(text, nil)
	if set == nil || set.Len() != 0 {
		t.Fatal(problems)
	}
	s.write("zone", zoneText)
	static, _ := s.load(zoneText, "", nil)
	prev := set.With(zones.NewPlanTable(set), static.Zone(wireName(t, "edge.example.")))
	next, problems := s.loadText(text, prev)
	if next == nil {
		t.Fatal(problems)
	}
	for owner, steered := range map[string]bool{"static": false, "s": true} {
		if r := next.Find(wireName(t, owner+".edge.example."), 1); r.Kind != zones.Answer || (r.Record != nil) != steered {
			t.Errorf("%s: %v", owner, r.Kind)
		}
	}
}
