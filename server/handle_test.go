package server_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones/zonefile"
)

// world is a small configuration that most tests here share: three PoPs, and clients of four networks.
const world = `
[server]
node = "test"

[[pop]]
name = "iad"
country = "US"
latitude = 38.9
longitude = -77.4
[[pop]]
name = "fra"
country = "DE"
latitude = 50.1
longitude = 8.7
[[pop]]
name = "sin"
country = "SG"
latitude = 1.3
longitude = 103.8

[[service]]
name = "wss"
[service.at.iad]
addresses = ["192.0.2.1", "2001:db8::1"]
[service.at.fra]
addresses = ["192.0.2.2", "192.0.2.12"]
[service.at.sin]
addresses = ["192.0.2.3", "2001:db8::3"]

[[zone]]
name = "edge.example"
file = "zone"

[[zone.record]]
name = "wss-primary"
service = "wss"
ttl = 30
filters = ["up", "geotarget_country", { filter = "select_first_n", N = 1 }]

[[zone.record]]
name = "wss-backup"
service = "wss"
ttl = 30
filters = ["up", "geotarget_country", { filter = "select_first_n", N = 3 }, "shuffle", { filter = "select_first_n", N = 1 }]

[[zone.record]]
name = "nodata"
service = "wss"
ttl = 20
all_down = "nodata"
filters = ["up"]

[[zone.record]]
name = "servfail"
service = "wss"
ttl = 20
all_down = "servfail"
filters = ["up"]

[[zone.record]]
name = "fenced"
type = "A"
ttl = 10
filters = ["geofence_country"]
[[zone.record.answer]]
rdata = "192.0.2.50"
meta = { country = "DE" }

[[zone.record]]
name = "sender"
service = "wss"
use_client_subnet = false
filters = ["up", "geotarget_country", { filter = "select_first_n", N = 1 }]
`

const zoneText = `
$ORIGIN edge.example.
$TTL 3600
@ SOA ns1 hostmaster 1 7200 900 1209600 60
@ NS ns1
ns1 A 192.0.2.53
static A 192.0.2.80
a.b A 192.0.2.81
*.wild A 192.0.2.82
www CNAME static
alias CNAME wss-primary
out CNAME elsewhere.test.
loop1 CNAME loop2
loop2 CNAME loop3
loop3 CNAME loop2
c0 CNAME c1
c1 CNAME c2
c2 CNAME c3
c3 CNAME c4
c4 CNAME c5
c5 CNAME c6
c6 CNAME c7
c7 CNAME c8
c8 CNAME c9
c9 CNAME static
sub NS ns.sub
ns.sub A 192.0.2.54
into CNAME host.sub
dn DNAME wild
again DNAME x.again
back DNAME fore
a CNAME x.back
x.fore CNAME y.back
y.fore A 192.0.2.83
big DNAME amp
*.amp TXT "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
mx MX 10 static
_srv._tcp SRV 0 0 443 wss-primary
`

// places are where the clients of the tests are.
func places(t testing.TB) *geo.Table {
	t.Helper()
	var entries []geo.Entry
	for prefix, code := range map[string]string{
		"198.51.100.0/24": "US", "203.0.113.0/24": "DE", "100.64.0.0/16": "SG", "100.64.128.0/17": "DE",
		"2001:db8:100::/48": "US", "2001:db8:200::/48": "DE",
	} {
		c, err := geo.ParseCountry(code)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, geo.Entry{Prefix: netip.MustParsePrefix(prefix), Location: geo.Location{Country: c}})
	}
	table, err := geo.NewTable(entries)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// publisher serves a configuration and its zone file, with a view that follows from in.
func publisher(t testing.TB, toml, zone string, in pops.Input) *server.Publisher {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "zone"), []byte(zone), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, problems := config.Parse(filepath.Join(dir, "edgesteer.toml"), []byte(toml))
	if config.Failed(problems) {
		t.Fatal(config.Problems(problems))
	}
	fleet, problems := zonefile.Fleet(cfg)
	if config.Failed(problems) {
		t.Fatal(config.Problems(problems))
	}
	set, problems := zonefile.Load(cfg, fleet, nil)
	if set == nil {
		t.Fatal(config.Problems(problems))
	}
	atlas, err := geo.BuildAtlas(places(t), set.Plans(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := new(server.Publisher)
	if err := p.Publish(&server.Snapshot{Zones: set, Atlas: atlas, View: pops.NewView(fleet, in)}); err != nil {
		t.Fatal(err)
	}
	return p
}

func handler(t testing.TB, in pops.Input) *server.Handler {
	t.Helper()
	return server.NewHandlers(server.HandlerConfig{Publisher: publisher(t, world, zoneText, in)}).New()
}

// query is a question with EDNS; subnet is "" for none.
func query(name string, typ uint16, subnet string) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), typ)
	m.RecursionDesired = false
	m.SetEdns0(1232, false)
	if subnet != "" {
		p := netip.MustParsePrefix(subnet)
		e := &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: uint8(p.Bits()), Address: p.Addr().AsSlice()}
		if p.Addr().Is6() {
			e.Family = 2
		}
		m.IsEdns0().Option = append(m.IsEdns0().Option, e)
	}
	return m
}

// ask sends a query by way of the handler.
func ask(t testing.TB, h *server.Handler, m *dns.Msg, sender string, transport server.Transport) *dns.Msg {
	t.Helper()
	q, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	peer := server.Peer{Addr: netip.AddrPortFrom(netip.MustParseAddr(sender), 4242), Transport: transport}
	h.Refresh()
	out := h.Handle(q, make([]byte, 0, 65535), &peer)
	h.Done()
	if out == nil {
		return nil
	}
	r := new(dns.Msg)
	if err := r.Unpack(out); err != nil {
		t.Fatalf("%v: answer cannot be read: %v", m.Question, err)
	}
	return r
}

// text is an answer as the tables here write it: rcode, flags, records, scope.
func text(r *dns.Msg) string {
	if r == nil {
		return "silence"
	}
	parts := []string{dns.RcodeToString[r.Rcode]}
	if r.Authoritative {
		parts[0] += " aa"
	}
	if r.Truncated {
		parts[0] += " tc"
	}
	for _, section := range [][]dns.RR{r.Answer, r.Ns, r.Extra} {
		for _, rr := range section {
			if rr.Header().Rrtype == dns.TypeOPT {
				continue
			}
			f := strings.Fields(strings.ReplaceAll(rr.String(), ".edge.example.", ""))
			switch f[3] {
			case "SOA":
				f = []string{"SOA", f[1]}
			default:
				f = append([]string{f[0]}, f[3:]...)
			}
			parts = append(parts, strings.Join(f, " "))
		}
	}
	if o := r.IsEdns0(); o != nil {
		for _, e := range o.Option {
			switch e := e.(type) {
			case *dns.EDNS0_SUBNET:
				parts = append(parts, fmt.Sprintf("/%d", e.SourceScope))
			case *dns.EDNS0_EDE:
				parts = append(parts, fmt.Sprintf("ede %d", e.InfoCode))
			}
		}
	}
	return strings.Join(parts, "; ")
}

func TestHandle(t *testing.T) {
	h := handler(t, pops.Input{})
	for _, tt := range []struct {
		name, subnet string
		typ          uint16
		want         string
	}{
		{"static", "", dns.TypeA, "NOERROR aa; static A 192.0.2.80"},
		{"static", "203.0.113.0/24", dns.TypeA, "NOERROR aa; static A 192.0.2.80; /0"},
		{"wss-primary", "198.51.100.0/24", dns.TypeA, "NOERROR aa; wss-primary A 192.0.2.1; /24"},
		{"wss-primary", "203.0.113.0/24", dns.TypeA, "NOERROR aa; wss-primary A 192.0.2.2; wss-primary A 192.0.2.12; /24"},
		{"wss-primary", "100.64.0.0/24", dns.TypeA, "NOERROR aa; wss-primary A 192.0.2.3; /17"},
		{"wss-primary", "100.64.0.0/16", dns.TypeA, "NOERROR aa; wss-primary A 192.0.2.3; /17"},                               // longer than the source: RFC 7871 section 7.2.1
		{"wss-primary", "203.0.113.0/24", dns.TypeAAAA, "NOERROR aa; wss-primary AAAA 2001:db8::1; /24"},                      // fra has none: the next that has
		{"wss-primary", "2001:db8:200::/48", dns.TypeA, "NOERROR aa; wss-primary A 192.0.2.2; wss-primary A 192.0.2.12; /48"}, // the other family; what is unlocated beside it goes by its sender
		{"wss-primary", "", dns.TypeA, "NOERROR aa; wss-primary A 192.0.2.2; wss-primary A 192.0.2.12"},                       // by the sender; no option unasked
		{"wss-primary", "0.0.0.0/0", dns.TypeA, "NOERROR aa; wss-primary A 192.0.2.2; wss-primary A 192.0.2.12; /0"},          // source 0: the sender, scope 0
		{"sender", "198.51.100.0/24", dns.TypeA, "NOERROR aa; sender A 192.0.2.2; sender A 192.0.2.12; /0"},
		{"alias", "198.51.100.0/24", dns.TypeA, "NOERROR aa; alias CNAME wss-primary; wss-primary A 192.0.2.1; /24"},
		{"alias", "198.51.100.0/24", dns.TypeCNAME, "NOERROR aa; alias CNAME wss-primary; /0"},
		{"wss-primary", "198.51.100.0/24", dns.TypeMX, "NOERROR aa; SOA 60; /0"},
		{"fenced", "203.0.113.0/24", dns.TypeA, "NOERROR aa; fenced A 192.0.2.50; /24"},
		{"fenced", "198.51.100.0/24", dns.TypeA, "NOERROR aa; SOA 10; /24"}, // NODATA of a chain: its scope, and the record's TTL
		{"nosuch", "198.51.100.0/24", dns.TypeA, "NXDOMAIN aa; SOA 60; /0"},
		{"b", "", dns.TypeA, "NOERROR aa; SOA 60"},
		{"x.wild", "", dns.TypeA, "NOERROR aa; x.wild A 192.0.2.82"},
		{"www", "", dns.TypeA, "NOERROR aa; www CNAME static; static A 192.0.2.80"},
		{"www", "", dns.TypeMX, "NOERROR aa; www CNAME static; SOA 60"},
		{"out", "", dns.TypeA, "NOERROR aa; out CNAME elsewhere.test."},
		{"into", "", dns.TypeA, "NOERROR aa; into CNAME host.sub; sub NS ns.sub; ns.sub A 192.0.2.54"},
		{"host.sub", "203.0.113.0/24", dns.TypeA, "NOERROR; sub NS ns.sub; ns.sub A 192.0.2.54; /0"},
		{"loop1", "", dns.TypeA, "SERVFAIL; ede 0"},
		{"loop2", "", dns.TypeA, "SERVFAIL; ede 0"},
		{"c1", "", dns.TypeA, "NOERROR aa; c1 CNAME c2; c2 CNAME c3; c3 CNAME c4; c4 CNAME c5; c5 CNAME c6; c6 CNAME c7; c7 CNAME c8; c8 CNAME c9; c9 CNAME static"},
		{"x.dn", "", dns.TypeA, "NOERROR aa; dn DNAME wild; x.dn CNAME x.wild; x.wild A 192.0.2.82"},
		{"a", "", dns.TypeA, "NOERROR aa; a CNAME x.back; back DNAME fore; x.back CNAME x.fore; x.fore CNAME y.back; y.back CNAME y.fore; y.fore A 192.0.2.83"}, // the DNAME once
		{"y.again", "", dns.TypeA, "NOERROR aa; again DNAME x.again; y.again CNAME y.x.again; y.x.again CNAME y.x.x.again; y.x.x.again CNAME y.x.x.x.again; y.x.x.x.again CNAME y.x.x.x.x.again; " +
			"y.x.x.x.x.again CNAME y.x.x.x.x.x.again; y.x.x.x.x.x.again CNAME y.x.x.x.x.x.x.again; y.x.x.x.x.x.x.again CNAME y.x.x.x.x.x.x.x.again; y.x.x.x.x.x.x.x.again CNAME y.x.x.x.x.x.x.x.x.again; " +
			"y.x.x.x.x.x.x.x.x.again CNAME y.x.x.x.x.x.x.x.x.x.again"},
		{"mx", "", dns.TypeMX, "NOERROR aa; mx MX 10 static; static A 192.0.2.80"},
		{"static", "", dns.TypeAXFR, "FORMERR"}, // none over UDP
		{"static", "", dns.TypeMAILB, "NOTIMP"},
	} {
		t.Run(tt.name+" "+dns.TypeToString[tt.typ]+" "+tt.subnet, func(t *testing.T) {
			got := text(ask(t, h, query(tt.name+".edge.example", tt.typ, tt.subnet), "203.0.113.9", server.UDP))
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	if got := text(ask(t, h, query("notedge.example", dns.TypeA, ""), "203.0.113.9", server.UDP)); got != "REFUSED; ede 20" {
		t.Errorf("a name that only ends in the same letters: %s", got)
	}
}

// An alias says where its target is, or nothing: what it lacks room for, and what another zone has, is asked for apart.
func TestAliasOutOfZone(t *testing.T) {
	const toml = "[[zone]]\nname = \"edge.example\"\nfile = \"zone\"\n[[zone]]\nname = \"child.edge.example\"\nfile = \"zone\"\n"
	zone := "$TTL 3600\n@ SOA ns h 1 7200 900 1209600 60\n@ NS ns.elsewhere.test.\nwww A 192.0.2.1\ninto CNAME www.child\nnosuch CNAME no.child\nfar CNAME host.sub\n"
	for i := range 40 {
		zone += fmt.Sprintf("sub NS ns%02d.sub\nns%02d.sub A 192.0.2.%d\n", i, i, i)
	}
	h := server.NewHandlers(server.HandlerConfig{Publisher: publisher(t, toml, zone, pops.Input{})}).New()
	for name, want := range map[string]string{
		"into":   "NOERROR aa; into CNAME www.child",
		"nosuch": "NOERROR aa; nosuch CNAME no.child",
		"far":    "NOERROR aa; far CNAME host.sub",
	} {
		if got := text(ask(t, h, query(name+".edge.example", dns.TypeA, ""), "203.0.113.9", server.UDP)); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	if r := ask(t, h, query("far.edge.example", dns.TypeA, ""), "203.0.113.9", server.TCP); len(r.Answer) != 1 || len(r.Ns) != 40 || len(r.Extra) != 41 {
		t.Errorf("with room enough: %v", r)
	}
}

// The last resort (steering.md section 4), and what a record can choose instead.
func TestAllDown(t *testing.T) {
	down := pops.Input{Panic: 100, Verdicts: []pops.Verdict{{Down: true}, {Down: true}, {Down: true}}}
	h := handler(t, down)
	for name, want := range map[string]string{
		"wss-primary": "NOERROR aa; wss-primary A 192.0.2.1; /24",
		"nodata":      "NOERROR aa; SOA 20; /0",
		"servfail":    "SERVFAIL; /0",
	} {
		if got := text(ask(t, h, query(name+".edge.example", dns.TypeA, "198.51.100.0/24"), "203.0.113.9", server.UDP)); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// While a share of any of its answers is about to change a record's TTL falls to ttl_min.
func TestTTLMin(t *testing.T) {
	toml := strings.Replace(world, `name = "wss-primary"
service = "wss"
ttl = 30`, `name = "wss-primary"
service = "wss"
ttl = 30
ttl_min = 5`, 1)
	for moving, want := range map[bool]uint32{false: 30, true: 5} {
		in := pops.Input{Intents: []pops.Intent{{ID: "a", Kind: pops.Drain, Class: pops.Person, Target: target(t, "fra"), Share: 99, Moving: moving}}}
		h := server.NewHandlers(server.HandlerConfig{Publisher: publisher(t, toml, zoneText, in)}).New()
		for name, ttl := range map[string]uint32{"wss-primary": want, "wss-backup": 30} {
			r := ask(t, h, query(name+".edge.example", dns.TypeA, "198.51.100.0/24"), "203.0.113.9", server.UDP)
			if len(r.Answer) == 0 || r.Answer[0].Header().Ttl != ttl {
				t.Errorf("moving %v: %s has %v, want TTL %d", moving, name, r.Answer, ttl)
			}
		}
	}
}

// A client whose prefix nobody can place is placed by the sender (steering.md section 2).
func TestUnlocatedClient(t *testing.T) {
	h := handler(t, pops.Input{})
	m := query("wss-primary.edge.example", dns.TypeA, "10.1.2.0/24")
	for sender, want := range map[string]string{"198.51.100.9": "192.0.2.1", "203.0.113.9": "192.0.2.2"} {
		r := ask(t, h, m, sender, server.UDP)
		if len(r.Answer) == 0 || r.Answer[0].(*dns.A).A.String() != want {
			t.Errorf("sender %s: %s, want %s", sender, text(r), want)
		}
	}
}

// TC is set exactly when something was left out, and OPT stays (RFC 6891 section 7, bugs T01 T03 T04 T08).
func TestTruncation(t *testing.T) {
	var zone strings.Builder
	zone.WriteString(zoneText)
	for n := 1; n <= 100; n++ {
		for i := range n {
			fmt.Fprintf(&zone, "n%d A 10.0.%d.%d\n", n, i/256, i%256)
		}
	}
	h := server.NewHandlers(server.HandlerConfig{Publisher: publisher(t, world, zone.String(), pops.Input{})}).New()
	for n := 1; n <= 100; n++ {
		name := fmt.Sprintf("n%d.edge.example", n)
		plain := query(name, dns.TypeA, "")
		plain.Extra = nil
		for _, tt := range []struct {
			m     *dns.Msg
			limit int
		}{
			{plain, 512},
			{query(name, dns.TypeA, ""), 1232},
			{query(name, dns.TypeA, "203.0.113.0/24"), 1232},
		} {
			whole := ask(t, h, tt.m, "203.0.113.9", server.TCP)
			if whole.Truncated || len(whole.Answer) != n {
				t.Fatalf("%s over TCP: %d records, tc %v", name, len(whole.Answer), whole.Truncated)
			}
			whole.Compress = true
			r := ask(t, h, tt.m, "203.0.113.9", server.UDP)
			r.Compress = true
			fits := whole.Len() <= tt.limit
			if r.Truncated == fits || r.Len() > tt.limit || fits && len(r.Answer) != n || !fits && len(r.Answer) != 0 {
				t.Errorf("%s: %d octets of %d: tc %v with %d of %d records in %d octets", name, whole.Len(), tt.limit, r.Truncated, len(r.Answer), n, r.Len())
			}
			if (r.IsEdns0() != nil) != (tt.m.IsEdns0() != nil) {
				t.Errorf("%s: OPT %v", name, r.IsEdns0())
			}
		}
	}
}

func TestCookies(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	hs := server.NewHandlers(server.HandlerConfig{
		Publisher: publisher(t, world, zoneText, pops.Input{}), CookieSecrets: []server.CookieSecret{{1}, {2}},
		MaxUnverified: 512, RRL: server.RateLimit{PerSecond: 2, Slip: 1}, Now: func() time.Time { return now },
	})
	h := hs.New()
	withCookie := func(c string) *dns.Msg {
		m := query("nosuch.edge.example", dns.TypeA, "")
		m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: c})
		return m
	}
	cookieOf := func(r *dns.Msg) string {
		for _, o := range r.IsEdns0().Option {
			if c, ok := o.(*dns.EDNS0_COOKIE); ok {
				return c.Cookie
			}
		}
		return ""
	}
	r := ask(t, h, withCookie("0102030405060708"), "203.0.113.9", server.UDP)
	mine := cookieOf(r)
	if len(mine) != 48 || !strings.HasPrefix(mine, "0102030405060708") {
		t.Fatalf("cookie %q", mine)
	}
	// Over the limit: who has a client cookie is told to come back with the server's, who has none gets TC; a valid cookie is exempt.
	ask(t, h, withCookie("0102030405060708"), "203.0.113.9", server.UDP)
	if got := text(ask(t, h, withCookie("0102030405060708"), "203.0.113.9", server.UDP)); got != "BADCOOKIE" {
		t.Errorf("over the limit with a client cookie: %s", got)
	}
	if got := text(ask(t, h, query("nosuch.edge.example", dns.TypeA, ""), "203.0.113.9", server.UDP)); got != "NOERROR tc" {
		t.Errorf("over the limit without a cookie: %s", got)
	}
	for range 20 {
		if got := text(ask(t, h, withCookie(mine), "203.0.113.9", server.UDP)); got != "NXDOMAIN aa; SOA 60" {
			t.Fatalf("with a valid cookie: %s", got)
		}
	}
	for range 20 {
		if got := text(ask(t, h, query("nosuch.edge.example", dns.TypeA, ""), "203.0.113.9", server.TCP)); got != "NXDOMAIN aa; SOA 60" {
			t.Fatalf("over TCP: %s", got)
		}
	}
}

// A large resolver that asks much for one steered name, for many clients, loses nothing to rate limiting: the answers amplify nothing.
func TestResolverNotLimited(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	h := server.NewHandlers(server.HandlerConfig{
		Publisher: publisher(t, world, zoneText, pops.Input{}), RRL: server.RateLimit{PerSecond: 500, Slip: 2}, Now: func() time.Time { return now },
	}).New()
	for i := range 5000 {
		m := query("wss-primary.edge.example", dns.TypeA, fmt.Sprintf("198.51.%d.0/24", i%256))
		if r := ask(t, h, m, "203.0.113.9", server.UDP); r == nil || r.Truncated || len(r.Answer) == 0 {
			t.Fatalf("query %d: %s", i, text(r))
		}
	}
}

// Names that somebody invents below a wildcard or a DNAME have one account together: their long answers are limited like those of one name.
func TestInventedNamesLimited(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, below := range []string{"amp.edge.example", "big.edge.example"} {
		h := server.NewHandlers(server.HandlerConfig{
			Publisher: publisher(t, world, zoneText, pops.Input{}), RRL: server.RateLimit{PerSecond: 10, Slip: 0}, Now: func() time.Time { return now },
		}).New()
		got := 0
		for i := range 200 {
			if ask(t, h, query(fmt.Sprintf("r%d.%s", i, below), dns.TypeTXT, ""), "203.0.113.9", server.UDP) != nil {
				got++
			}
		}
		if got > 11 {
			t.Errorf("%s: %d answers in a moment, want about 10", below, got)
		}
	}
}

func TestIdentity(t *testing.T) {
	h := server.NewHandlers(server.HandlerConfig{Publisher: publisher(t, world, zoneText, pops.Input{}), NSID: []byte("node1"), Hostname: "node1", Version: "edgesteer 1"}).New()
	ch := func(name string, typ uint16) string {
		m := query(name, typ, "")
		m.Question[0].Qclass = dns.ClassCHAOS
		return text(ask(t, h, m, "203.0.113.9", server.UDP))
	}
	for name, want := range map[string]string{
		"version.bind": `NOERROR aa; version.bind. TXT "edgesteer 1"`, "HOSTNAME.bind": `NOERROR aa; HOSTNAME.bind. TXT "node1"`, "id.server": `NOERROR aa; id.server. TXT "node1"`,
		"static.edge.example": "REFUSED; ede 20",
	} {
		if got := ch(name, dns.TypeTXT); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	m := query("static.edge.example", dns.TypeA, "")
	m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_NSID{Code: dns.EDNS0NSID})
	r := ask(t, h, m, "203.0.113.9", server.UDP)
	if i := slices.IndexFunc(r.IsEdns0().Option, func(o dns.EDNS0) bool { return o.Option() == dns.EDNS0NSID }); i < 0 || r.IsEdns0().Option[i].(*dns.EDNS0_NSID).Nsid != "6e6f646531" {
		t.Errorf("NSID: %v", r.IsEdns0())
	}
}

// explain is the same code: for each question its message has the records that the handler gives.
func TestExplainIsTheAnswer(t *testing.T) {
	p := publisher(t, world, zoneText, pops.Input{})
	h := server.NewHandlers(server.HandlerConfig{Publisher: p}).New()
	for _, name := range []string{"wss-primary", "alias", "static", "nosuch", "fenced", "host.sub"} {
		for _, subnet := range []string{"198.51.100.0/24", "203.0.113.0/24", "192.88.99.0/24", "2001:db8:200::/48"} {
			m := query(name+".edge.example", dns.TypeA, subnet)
			want := ask(t, h, m, "203.0.113.9", server.TCP)
			prefix := netip.MustParsePrefix(subnet)
			wireName := make([]byte, 255)
			n, err := dns.PackDomainName(name+".edge.example.", wireName, 0, nil, false)
			if err != nil {
				t.Fatal(err)
			}
			e := server.Explain(p.Snapshot(), server.Question{Name: wireName[:n], Type: dns.TypeA, Subnet: prefix, Sender: netip.MustParseAddr("203.0.113.9")})
			got := new(dns.Msg)
			if err := got.Unpack(e.Message); err != nil {
				t.Fatal(err)
			}
			if text(got) != text(want) {
				t.Errorf("%s for %s: explain %s, answer %s", name, subnet, text(got), text(want))
			}
			if len(e.Links) == 0 {
				t.Errorf("%s: no links", name)
			}
		}
	}
}

// Bytes in, and the answer, if any, unpacks: nothing that anybody can send makes the handler panic or speak nonsense.
func FuzzHandle(f *testing.F) {
	hs := server.NewHandlers(server.HandlerConfig{Publisher: publisher(f, world, zoneText, pops.Input{}), CookieSecrets: []server.CookieSecret{{1}}, NSID: []byte("n")})
	h := hs.New()
	for _, m := range []*dns.Msg{query("wss-primary.edge.example", dns.TypeA, "203.0.113.0/24"), query("x.dn.edge.example", dns.TypeAAAA, ""), query("loop1.edge.example", dns.TypeANY, "2001:db8::/32")} {
		q, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(q, true)
		f.Add(q, false)
	}
	buf := make([]byte, 0, 65535)
	f.Fuzz(func(t *testing.T, q []byte, udp bool) {
		peer := server.Peer{Addr: netip.MustParseAddrPort("203.0.113.9:5"), Transport: server.TCP}
		if udp {
			peer.Transport = server.UDP
		}
		out := h.Handle(q, buf, &peer)
		if out == nil {
			return
		}
		if udp && len(out) > 1232 {
			t.Fatalf("%d octets over UDP", len(out))
		}
		r := new(dns.Msg)
		if err := r.Unpack(out); err != nil {
			t.Fatalf("answer %x to %x: %v", out, q, err)
		}
		if !r.Response || len(q) < 2 || r.Id != uint16(q[0])<<8|uint16(q[1]) {
			t.Fatalf("answer %x to %x is no answer", out, q)
		}
	})
}
