package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const minimal = "[server]\nnode = \"a\"\n"

func problems(t *testing.T, text string) []string {
	t.Helper()
	_, ps := Parse("e.toml", []byte(text))
	var got []string
	for _, p := range ps {
		got = append(got, p.String())
	}
	return got
}

func TestDefaults(t *testing.T) {
	c, ps := Parse("/etc/edgesteer/edgesteer.toml", []byte(minimal+`
[[service]]
name = "s"
load = { low_watermark = 1, high_watermark = 2 }
check = { kind = "tcp" }
[[zone]]
name = "example.com"
file = "z"
[[zone.record]]
name = "w"
service = "s"
`))
	if len(ps) > 0 {
		t.Fatal(Problems(ps))
	}
	type facts struct {
		Listen, Admin             []string
		MaxSize                   int
		Idle                      time.Duration
		Ramp                      []Percent
		TTL                       uint32
		UseClientSubnet, Enabled  bool
		Metric                    string
		Interval                  time.Duration
		Status                    []int
		State, ZoneFile, Absolute string
		Cluster                   *Cluster
	}
	s := c.Services[0]
	got := facts{
		Admin: c.Admin.Listen, MaxSize: c.Server.UDP.MaxSize, Idle: c.Server.TCP.Idle, Ramp: c.Automation.Ramp,
		TTL: *c.Zones[0].Records[0].TTL, UseClientSubnet: *c.Zones[0].Records[0].UseClientSubnet, Enabled: c.Automation.Enabled,
		Metric: s.Load.Metric, Interval: s.Check.Interval, Status: s.Check.Status,
		State: c.Path(c.Server.State), ZoneFile: c.Path("z"), Absolute: c.Path("/z"), Cluster: c.Cluster,
	}
	for _, a := range c.Server.Listen {
		got.Listen = append(got.Listen, a.String())
	}
	want := facts{
		Listen: []string{"0.0.0.0:53", "[::]:53"}, Admin: []string{"unix:state/admin.sock"}, MaxSize: 1232, Idle: 10 * time.Second,
		Ramp: []Percent{1, 10, 25, 50, 100}, TTL: 60, UseClientSubnet: true, Enabled: true, Metric: "loadavg",
		Interval: 10 * time.Second, Status: []int{200},
		State: "/etc/edgesteer/state", ZoneFile: "/etc/edgesteer/z", Absolute: "/z",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestAdminSocketFollowsState(t *testing.T) {
	c, _ := Parse("e.toml", []byte("[server]\nnode = \"a\"\nstate = \"/var/lib/edgesteer\"\n"))
	if want := "unix:/var/lib/edgesteer/admin.sock"; c.Admin.Listen[0] != want {
		t.Errorf("admin.listen = %q, want %q", c.Admin.Listen[0], want)
	}
	if c.Admin.FileMode() != 0o660 {
		t.Errorf("socket mode = %o, want 660", c.Admin.FileMode())
	}
}

// The values of the example, as written there.
func TestExample(t *testing.T) {
	c, ps := Load("testdata/edgesteer.toml")
	if len(ps) > 0 {
		t.Fatal(Problems(ps))
	}
	r := c.Zones[0].Records
	if diff := cmp.Diff([]any{"up", map[string]any{"filter": "shed_load", "metric": "connections"}, "geotarget_country",
		map[string]any{"filter": "select_first_n", "N": int64(1)}}, r[0].Filters); diff != "" {
		t.Errorf("filters (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Answer{
		{RData: "eu.cdn.example.net.", Group: "eu", PoP: "eu-west-1", Meta: Meta{"weight": int64(3)}},
		{RData: "world.cdn.example.net.", Meta: Meta{"weight": int64(1)}},
	}, r[2].Answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]Group{"eu": {Meta: Meta{"georegion": []any{"EUROPE"}}}}, r[2].Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	want := Endpoint{Addresses: []string{"198.51.100.1", "2001:db8:2::1"}, Capacity: 100_000, MinUp: 1, Meta: Meta{"country": []any{"IE", "GB", "FR"}}}
	if diff := cmp.Diff(want, c.Services[0].At["eu-west-1"]); diff != "" {
		t.Errorf("endpoint (-want +got):\n%s", diff)
	}
	if a := c.Automation; a.MaxDrained != 34 || a.RestoreAfter != 5*time.Minute || a.Agree != 75 {
		t.Errorf("automation = %+v", a)
	}
}

// The hash tells fleets apart, not nodes or layouts.
func TestHash(t *testing.T) {
	hash := func(text string) string {
		c, _ := Parse("e.toml", []byte(text))
		return c.Hash()
	}
	a := hash(minimal + "[[pop]]\nname = \"x\"\ncountry = [\"IE\"]\n")
	if b := hash("# comment\npop = [{ country = [\"IE\"], name = \"x\" }]\n[server]\nnode = \"b\"\n"); a != b || len(a) != 12 {
		t.Errorf("the same fleet has the hashes %q and %q", a, b)
	}
	if b := hash(minimal + "[[pop]]\nname = \"x\"\ncountry = [\"FR\"]\n"); a == b {
		t.Errorf("different fleets have the hash %q", a)
	}
}

func TestLoadMissing(t *testing.T) {
	c, ps := Load(filepath.Join(t.TempDir(), "none.toml"))
	if c != nil || len(ps) != 1 || !strings.Contains(ps[0].Message, "no such file") || ps[0].Hint == "" {
		t.Errorf("Load of a missing file = %v, %v", c, ps)
	}
}

func TestSyntaxError(t *testing.T) {
	c, ps := Parse("e.toml", []byte("[server]\nnode = \"a\"\nlisten = [1,\nstate = 3\n"))
	if c != nil || len(ps) != 1 || ps[0].Line == 0 || !Failed(ps) {
		t.Errorf("Parse = %v, %+v; want no configuration and one problem with a line", c, ps)
	}
}

// All problems at once, in the order of the file.
func TestAllProblems(t *testing.T) {
	got := problems(t, `[server]
node = "a"
lisen = ["127.0.0.1:53"]
listen = ["127.0.0.1"]
state = 7

[server.tcp]
idle = 10
connections = 0

[automation]
max_drained = "134%"

[[pop]]
nam = "x"
latitude = 91
`)
	want := []string{
		`e.toml:3: server.lisen: unknown key (hint: did you mean "listen"?)`,
		`e.toml:4: server.listen[0]: "127.0.0.1": not an ip:port (hint: for example "127.0.0.1:53" or "[::1]:53")`,
		`e.toml:5: server.state: want a string, got the number 7`,
		`e.toml:8: server.tcp.idle: want a duration in quotes, got the number 10 (hint: for example "30s")`,
		`e.toml:9: server.tcp.connections: 0 is out of range (hint: from 1 to 1000000)`,
		`e.toml:12: automation.max_drained: 134% is out of range (hint: from 0% to 100%)`,
		`e.toml:14: pop[0]: name is missing`,
		`e.toml:14: pop[0]: latitude and longitude go together`,
		`e.toml:15: pop[0].nam: unknown key (hint: did you mean "name"?)`,
		`e.toml:16: pop[0].latitude: 91 is out of range (hint: from -90 to 90)`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// One problem a case: what the text says more than minimal, and the message.
func TestProblems(t *testing.T) {
	const pops = `
[[pop]]
name = "fra"
[[pop]]
name = "iad"
`
	const service = pops + `
[[service]]
name = "s"
`
	tests := []struct{ name, text, want string }{
		{"types: bool", "nsid = 1", `server.nsid: want true or false, got the number 1`},
		{"types: table", `udp = 3`, `server.udp: want a table, got the number 3 (hint: write [server.udp])`},
		{"types: list", `cookie_secrets = "x"`, `server.cookie_secrets: want a list, got the string "x" (hint: write [ ... ])`},
		{"types: whole number", "[server.udp]\nmax_size = 1232.5", `server.udp.max_size: want a whole number, got the number 1232.5`},
		{"types: float", pops + "latitude = \"x\"\nlongitude = 1", `pop[1].latitude: want a number, got the string "x"`},
		{"types: date", "state = 2026-01-01", `server.state: want a string, got a date`},
		{"types: map", service + "at = [1]", `service[0].at: want a table, got a list`},
		{"udp size past the field's agreement", "[server.udp]\nmax_size = 65535", `server.udp.max_size: 65535 is out of range (hint: from 512 to 4096)`},
		{"negative unsigned", "[[zone]]\nname=\"z\"\nfile=\"f\"\n[[zone.record]]\nname=\"w\"\nservice=\"s\"\nttl=-1", `zone[0].record[0].ttl: -1 is out of range (hint: from 0 to 2147483647)`},
		{"duration", "stop = \"5 minutes\"", `server.stop: "5 minutes" is not a duration (hint: for example "30s", "5m" or "8h")`},
		{"duration range", "stop = \"1h\"", `server.stop: 1h is out of range (hint: from 0s to 5m)`},
		{"percent without sign", "[automation]\nagree = \"75\"", `automation.agree: "75" is not a percentage (hint: for example "37%")`},
		{"percent as number", "[automation]\nagree = 75", `automation.agree: want a percentage in quotes, got the number 75 (hint: for example "37%")`},
		{"percent range", "[automation]\nagree = \"50%\"", `automation.agree: 50% is out of range (hint: from 51% to 100%)`},
		{"percent NaN", "[automation]\npanic = \"NaN%\"", `automation.panic: NaN% is out of range (hint: from 0% to 100%)`},
		{"enum", "[log]\nlevel = \"wran\"", `log.level: unknown value "wran" (hint: did you mean "warn"?)`},
		{"empty", pops + "[[pop]]\nname = \"\"", `pop[2].name: it is empty`},
		{"prefix", `proxy_protocol = ["10.0.0.0/33"]`, `server.proxy_protocol[0]: "10.0.0.0/33" is not an address or a prefix (hint: for example "192.0.2.0/24" or "2001:db8::1")`},
		{"prefix bits", `proxy_protocol = ["10.0.0.1/8"]`, `server.proxy_protocol[0]: "10.0.0.1/8" has bits set beyond its length (hint: did you mean "10.0.0.0/8"?)`},
		{"node", `node = "a/b"`, `server.node: "a/b" cannot be the name of a node (hint: letters, digits, "-", "_" and "." only)`},
		{"server pop", "pop = \"frx\"" + pops, `server.pop: unknown PoP "frx" (hint: did you mean "fra"?)`},
		{"listen twice", `listen = ["127.0.0.1:53", "127.0.0.1:53"]`, `server.listen[1]: duplicate address "127.0.0.1:53" (hint: the first is in line 3)`},
		{"listen empty", `listen = []`, `server.listen: no address to listen on (hint: for example ["127.0.0.1:5300", "[::1]:5300"])`},
		{"tls key missing", "[server.tls]\nlisten = [\"127.0.0.1:853\"]\ncertificate = \"c\"", `server.tls: key is missing`},
		{"https path", "[server.https]\nlisten = [\"127.0.0.1:443\"]\ncertificate = \"c\"\nkey = \"k\"\npath = \"dns\"", `server.https.path: "dns" is not a path (hint: for example "/dns-query")`},
		{"cookie secret", `cookie_secrets = ["00"]`, `server.cookie_secrets[0]: want 32 hex digits (hint: make one with: openssl rand -hex 16)`},
		{"admin outside without tls", "[admin]\nlisten = [\"0.0.0.0:8053\"]", `admin.listen[0]: 0.0.0.0:8053 can be reached from outside, but there is no TLS (hint: add [admin.tls], or listen on loopback)`},
		{"admin address", "[admin]\nlisten = [\":8053\"]", `admin.listen[0]: ":8053" is not an address (hint: for example "unix:state/admin.sock" or "127.0.0.1:8053")`},
		{"admin socket", "[admin]\nlisten = [\"unix:\"]", `admin.listen[0]: no path after unix: (hint: for example "unix:state/admin.sock")`},
		{"admin mode", "[admin]\nsocket_mode = \"rw\"", `admin.socket_mode: "rw" is not a file mode (hint: for example "0660")`},
		{"token hash", "[[admin.token]]\nname = \"t\"\nrole = \"viewer\"\nsha256 = \"secret\"", `admin.token[0].sha256: want 64 hex digits (hint: make it with: printf %s TOKEN | sha256sum)`},
		{"token role", "[[admin.token]]\nname = \"t\"\nrole = \"root\"\nsha256 = \"" + strings.Repeat("0", 64) + `"`, `admin.token[0].role: unknown value "root" (hint: known: automation, operator, viewer)`},
		{"client without ca", "[[admin.client]]\nname = \"t\"\nrole = \"viewer\"", `admin.client[0]: client certificates are not asked for (hint: set client_ca in [admin.tls])`},
		{"cluster without key", "[cluster]\nlisten = \"192.0.2.1:7946\"", `cluster: without a key the other nodes must be on loopback (hint: make one with: openssl rand -base64 32 > cluster.key; and set key_file)`},
		{"seed", "[cluster]\nlisten = \"127.0.0.1:7946\"\nseeds = [\"dns-b\"]", `cluster.seeds[0]: "dns-b" is not HOST:PORT (hint: for example "192.0.2.1:7946" or "dns-b.example.net:7946")`},
		{"ramp", "[automation]\nramp = [\"10%\", \"10%\", \"100%\"]", `automation.ramp[1]: 10% does not rise above 10%`},
		{"ramp end", "[automation]\nramp = [\"10%\", \"90%\"]", `automation.ramp: the last step must be 100%`},
		{"drill target", pops + "[[drill]]\ntarget = \"frb\"\nwindow = \"10:00-11:00\"", `drill[0].target: unknown PoP "frb" (hint: did you mean "fra"?)`},
		{"drill service", service + "[[drill]]\ntarget = \"*/t\"\nwindow = \"10:00-11:00\"", `drill[0].target: unknown service "t" (hint: did you mean "s"?)`},
		{"drill window", pops + "[[drill]]\ntarget = \"fra\"\nwindow = \"Tue 11:00-10:00\"", `drill[0].window: "Tue 11:00-10:00": it ends before it starts (hint: for example "Tue 10:00-11:00 UTC")`},
		{"drill dates", pops + "[[drill]]\ntarget = \"fra\"\nwindow = \"10:00-11:00\"\nblocked = [\"2026-02-30\"]", `drill[0].blocked[0]: "2026-02-30": "2026-02-30" is no date (hint: for example "2026-12-24" or "2026-12-20..2027-01-02")`},
		{"drill condition", pops + "[[drill]]\ntarget = \"fra\"\nwindow = \"10:00-11:00\"\nabort = \"up == 0\"", `drill[0].abort: no Prometheus to ask (hint: set url in [prometheus])`},
		{"url", "[prometheus]\nurl = \"localhost:9090\"", `prometheus.url: "localhost:9090" is not an HTTP URL (hint: for example "http://127.0.0.1:9090")`},
		{"duplicate pop", pops + "[[pop]]\nname = \"fra\"", `pop[2].name: duplicate PoP "fra" (hint: the first is in line 5)`},
		{"duplicate service", service + "[[service]]\nname = \"s\"", `service[1].name: duplicate service "s" (hint: the first is in line 10)`},
		{"pop name", "[[pop]]\nname = \"*\"", `pop[0].name: "*" cannot be the name of a PoP (hint: letters, digits, "-", "_" and "." only)`},
		{"watermarks", service + "load = { low_watermark = 5, high_watermark = 5 }", `service[0].load.low_watermark: low_watermark 5 is not below high_watermark 5`},
		{"one watermark", service + "load = { low_watermark = 5 }", `service[0].load: low_watermark and high_watermark go together`},
		{"two load sources", service + "load = { url = \"http://x\", query = \"y\" }\n[prometheus]\nurl = \"http://z\"", `service[0].load.query: a load is polled by url or asked by query, not both`},
		{"load query", service + "load = { query = \"y\" }", `service[0].load.query: no Prometheus to ask (hint: set url in [prometheus])`},
		{"check timeout", service + "check = { kind = \"tcp\", timeout = \"20s\" }", `service[0].check.timeout: timeout 20s is longer than interval 10s`},
		{"check body", service + "check = { kind = \"http\", body = \"(\" }", "service[0].check.body: error parsing regexp: missing closing ): `(`"},
		{"check source", service + "check = { kind = \"tcp\", source = [\"192.0.2.1\", \"192.0.2.2\"] }", `service[0].check.source[1]: a second address of one family`},
		{"unknown pop", service + "[service.at.fre]\naddresses = [\"192.0.2.1\"]", `service[0].at.fre: unknown PoP "fre" (hint: did you mean "fra"?)`},
		{"no address", service + "[service.at.fra]\ncapacity = 3", `service[0].at.fra: neither addresses nor cname`},
		{"address", service + "[service.at.fra]\naddresses = [\"192.0.2.256\"]", `service[0].at.fra.addresses[0]: "192.0.2.256" is not an address (hint: for example "192.0.2.1" or "2001:db8::1")`},
		{"mapped address", service + "[service.at.fra]\naddresses = [\"::ffff:192.0.2.1\"]", `service[0].at.fra.addresses[0]: "::ffff:192.0.2.1" is an IPv4 address in IPv6's clothes (hint: did you mean "192.0.2.1"?)`},
		{"address twice", service + "[service.at.fra]\naddresses = [\"192.0.2.1\", \"192.0.2.1\"]", `service[0].at.fra.addresses[1]: duplicate address "192.0.2.1" (hint: the first is in line 12)`},
		{"both kinds", service + "[service.at.fra]\naddresses = [\"192.0.2.1\"]\ncname = \"x.\"", `service[0].at.fra.cname: both addresses and cname`},
		{"min_up", service + "[service.at.fra]\naddresses = [\"192.0.2.1\"]\nmin_up = 2", `service[0].at.fra.min_up: min_up 2 can never be reached with 1 addresses`},
		{"unknown address label", service + "[service.at.fra]\naddresses = [\"192.0.2.1\"]\nup_tresh = 0.3", `service[0].at.fra.up_tresh: unknown key (hint: known: addresses, capacity, cname, meta, min_up)`},
		{"zone without data", "[[zone]]\nname = \"z\"", `zone[0]: neither file nor primary`},
		{"drill without a service", pops + "[[drill]]\ntarget = \"fra/\"\nwindow = \"10:00-11:00\"", `drill[0].target: "fra/" names no target (hint: POP, POP/SERVICE or */SERVICE)`},
		{"drill of everything", pops + "[[drill]]\ntarget = \"*/\"\nwindow = \"10:00-11:00\"", `drill[0].target: "*/" names no target (hint: POP, POP/SERVICE or */SERVICE)`},
		{"advertise", "[cluster]\nlisten = \"127.0.0.1:7946\"\nadvertise = \"0.0.0.0:7946\"", `cluster.advertise: nobody can be reached at 0.0.0.0:7946 (hint: for example "192.0.2.1:7946")`},
		{"database twice", "[geo]\ndatabases = [\"a.mmdb\", \"b.mmdb\", \"a.mmdb\"]", `geo.databases[2]: duplicate database "a.mmdb" (hint: the first is in line 4)`},
		{"an endpoint of a wrong type", service + "at = { fra = \"192.0.2.1\" }", `service[0].at.fra: want a table, got the string "192.0.2.1" (hint: write [service.at.fra])`},
		{"a list of addresses of a wrong type", service + "[service.at.fra]\naddresses = \"192.0.2.1\"", `service[0].at.fra.addresses: want a list, got the string "192.0.2.1" (hint: write [ ... ])`},
		{"watermarks of a wrong type", service + "load = { low_watermark = \"5\", high_watermark = 6 }", `service[0].load.low_watermark: want a number, got the string "5"`},
		{"primaries of a wrong type", "[[zone]]\nname = \"z\"\n[zone.primary]\naddress = \"192.0.2.1:53\"", `zone[0].primary: want a list, got a table (hint: write [[zone.primary]])`},
		{"pops of a wrong type", "[pop]\nname = \"fra\"", `pop: want a list, got a table (hint: write [[pop]])`},
		{"answer of a wrong type", "[[zone]]\nname = \"z\"\nfile = \"f\"\n[[zone.record]]\nname = \"w\"\ntype = \"A\"\nanswer = \"192.0.2.1\"", `zone[0].record[0].answer: want a list, got the string "192.0.2.1" (hint: write [[zone.record.answer]])`},
		{"an answer of a wrong type", "[[zone]]\nname = \"z\"\nfile = \"f\"\n[[zone.record]]\nname = \"w\"\ntype = \"A\"\nanswer = [\"192.0.2.1\"]", `zone[0].record[0].answer[0]: want a table, got the string "192.0.2.1" (hint: write [[zone.record.answer]])`},
		{"primary on no port", "[[zone]]\nname = \"z\"\nprimary = [{ address = \"192.0.2.1:0\" }]", `zone[0].primary[0].address: nobody can be asked at 192.0.2.1:0 (hint: for example "192.0.2.1:53")`},
		{"primary nowhere", "[[zone]]\nname = \"z\"\nprimary = [{ address = \"0.0.0.0:53\" }]", `zone[0].primary[0].address: nobody can be asked at 0.0.0.0:53 (hint: for example "192.0.2.1:53")`},
		{"primary twice", "[[zone]]\nname = \"z\"\nprimary = [{ address = \"192.0.2.1:53\" }, { address = \"192.0.2.1:53\" }]", `zone[0].primary[1].address: duplicate primary "192.0.2.1:53" (hint: the first is in line 5)`},
		{"mapped primary", "[[zone]]\nname = \"z\"\nprimary = [{ address = \"[::ffff:192.0.2.1]:53\" }]", `zone[0].primary[0].address: "[::ffff:192.0.2.1]:53" is an IPv4 address in IPv6's clothes (hint: did you mean "192.0.2.1:53"?)`},
		{"secondary on no port", "[[zone]]\nname = \"z\"\nfile = \"f\"\ntransfer = { notify = [\"192.0.2.1:0\"] }", `zone[0].transfer.notify[0]: nobody can be asked at 192.0.2.1:0 (hint: for example "192.0.2.1:53")`},
		{"mapped prefix", "[server.rrl]\nexempt = [\"::ffff:10.0.0.0/104\"]", `server.rrl.exempt[0]: "::ffff:10.0.0.0/104" is an IPv4 prefix in IPv6's clothes (hint: did you mean "10.0.0.0/8"?)`},
		{"prefix that begins mapped", "[server.rrl]\nexempt = [\"::ffff:0.0.0.0/90\"]", `server.rrl.exempt[0]: "::ffff:0.0.0.0/90" is not a prefix of IPv4 or IPv6 addresses (hint: for example "192.0.2.0/24" or "2001:db8::1")`},
		{"long node", "node = \"" + strings.Repeat("a", 255) + "\"", `server.node: the name has 255 octets, 254 are allowed (hint: class CH can tell no more)`},
		{"zone twice", "[[zone]]\nname = \"z.example\"\nfile = \"f\"\n[[zone]]\nname = \"Z.example.\"\nfile = \"g\"", `zone[1].name: duplicate zone "z.example" (hint: the first is in line 4)`},
		{"zone key", "[[tsig]]\nname = \"k.\"\nsecret = \"AAAA\"\n[[zone]]\nname = \"z\"\nfile = \"f\"\ntransfer = { keys = [\"k\", \"l\"] }", `zone[0].transfer.keys[1]: unknown key "l" (hint: known: k.)`},
		{"transfer prefix", "[[zone]]\nname = \"z\"\nfile = \"f\"\ntransfer = { allow = [\"all\"] }", `zone[0].transfer.allow[0]: "all" is not an address or a prefix (hint: for example "192.0.2.0/24" or "2001:db8::1")`},
		{"steered", "[[zone]]\nname = \"z\"\nfile = \"f\"\ntransfer = { steered = \"all\" }", `zone[0].transfer.steered: unknown value "all" (hint: known: default, omit)`},
		{"tsig secret", "[[tsig]]\nname = \"k.\"\nsecret = \"?\"", `tsig[0].secret: want base64 (hint: make one with: openssl rand -base64 32)`},
		{"tsig without secret", "[[tsig]]\nname = \"k.\"", `tsig[0]: want one of secret and secret_file`},
		{"record twice", "[[zone]]\nname = \"z\"\nfile = \"f\"\n[[zone.record]]\nname = \"w\"\nservice = \"s\"\n[[zone.record]]\nname = \"W.Z.\"\ntype = \"aaaa\"\nservice = \"s\"", `zone[0].record[1].name: duplicate record "w.z AAAA" (hint: the first is in line 7)`},
		{"record without answers", "[[zone]]\nname = \"z\"\nfile = \"f\"\n[[zone.record]]\nname = \"w\"", `zone[0].record[0]: neither service nor answers`},
		{"record without type", "[[zone]]\nname = \"z\"\nfile = \"f\"\n[[zone.record]]\nname = \"w\"\nanswer = [{ rdata = \"192.0.2.1\" }]", `zone[0].record[0]: type is missing (hint: for example type = "A")`},
		{"beside feed", "[[pop]]\nname = \"p\"\ncountry = { feed = \"x\", valeu = \"DE\" }", `pop[0].country: unknown key "valeu" beside feed (hint: did you mean "value"?)`},
		{"ttl_min", "[[zone]]\nname = \"z\"\nfile = \"f\"\n[[zone.record]]\nname = \"w\"\nservice = \"s\"\nttl_min = 61", `zone[0].record[0].ttl_min: ttl_min 61 is above ttl 60`},
		{"all_down", "[[zone]]\nname = \"z\"\nfile = \"f\"\n[[zone.record]]\nname = \"w\"\nservice = \"s\"\nall_down = \"drop\"", `zone[0].record[0].all_down: unknown value "drop" (hint: known: nodata, serve, servfail)`},
		{"quoted field", service + "[service.at.\"a b\"]\naddresses = [\"192.0.2.1\"]", `service[0].at."a b": unknown PoP "a b" (hint: known: fra, iad)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := "[server]\n" + tt.text
			if !strings.Contains(tt.text, "node =") {
				text = minimal + tt.text
			}
			got := problems(t, text)
			if len(got) != 1 || !strings.HasSuffix(got[0], ": "+tt.want) {
				t.Errorf("got:\n%s\nwant one that ends with:\n%s", strings.Join(got, "\n"), tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	example, err := os.ReadFile("testdata/edgesteer.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	f.Add([]byte(minimal))
	f.Add([]byte("a.\"b\\u00e9\".'c' = [[1,2],[{x=1}]] # c\n[[a.d]]\n[a.d.e]\nf = '''\n'''\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, ps := Parse("e.toml", data)
		if c == nil && !Failed(ps) {
			t.Error("no configuration and no error")
		}
		lines := strings.Count(string(data), "\n") + 1
		for _, p := range ps {
			if p.Line < 0 || p.Line > lines {
				t.Errorf("%v: line %d of %d", p, p.Line, lines)
			}
		}
	})
}

// Tidy puts problems in order and says each once.
func TestTidy(t *testing.T) {
	a, b := Problem{File: "f", Line: 2, Message: "a"}, Problem{File: "f", Line: 1, Message: "b"}
	warning := a
	warning.Warning = true
	if diff := cmp.Diff([]Problem{b, a, warning}, Tidy([]Problem{a, b, a, warning, b})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
