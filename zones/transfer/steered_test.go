package transfer_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/transfer"
	"github.com/edgesteer/edgesteer/zones/zonefile"
)

const steeredConfig = `
[server]
node = "test"

[[pop]]
name = "iad"
country = "US"
[[pop]]
name = "fra"
country = "DE"
[[pop]]
name = "sin"
country = "SG"

[[service]]
name = "web"
[service.at.iad]
addresses = ["192.0.2.1", "2001:db8::1"]
[service.at.fra]
addresses = ["192.0.2.2"]
[service.at.sin]
addresses = ["192.0.2.3", "2001:db8::3"]

[[zone]]
name = "edge.example"
file = "zone"
transfer = { allow = ["127.0.0.0/8"]STEERED }

[[zone.record]]
name = "all"
service = "web"
ttl = 30
filters = ["up"]

[[zone.record]]
name = "near"
service = "web"
ttl = 20
filters = ["up", "geotarget_country", { filter = "select_first_n", N = 1 }]

[[zone.record]]
name = "last"
service = "web"
type = "A"
all_down = "servfail"
filters = ["up", { filter = "select_first_n", N = 1 }]

[[zone.record]]
name = "any"
service = "web"
type = "A"
filters = ["up", "shuffle", { filter = "select_first_n", N = 1 }]

[[zone.record]]
name = "fenced"
type = "A"
filters = [{ filter = "geofence_country", remove_no_location = true }]
[[zone.record.answer]]
rdata = "192.0.2.50"
meta = { country = "DE" }

[[zone.record]]
name = "*.alias"
type = "CNAME"
filters = ["up"]
[[zone.record.answer]]
rdata = "first.elsewhere."
[[zone.record.answer]]
rdata = "second.elsewhere."
`

const steeredZone = "$TTL 3600\n@ SOA ns1 hostmaster 1 7200 900 1209600 60\n@ NS ns1\nns1 A 192.0.2.53\n"

// loaded is what server/app hands on.
type loaded struct {
	cfg   *config.Config
	fleet *pops.Fleet
	set   *zones.Set
	zone  *zones.Zone
	atlas *geo.Atlas
}

func load(t *testing.T, toml string) *loaded {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "zone"), []byte(steeredZone), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, problems := config.Parse(filepath.Join(dir, "edgesteer.toml"), []byte(toml))
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	l := &loaded{cfg: cfg}
	l.fleet, problems = zonefile.Fleet(cfg)
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	if l.set, problems = zonefile.Load(cfg, l.fleet, nil); l.set == nil {
		t.Fatal(problems)
	}
	l.zone = l.set.Zone([]byte("\x04edge\x07example\x00"))
	us, err := geo.ParseCountry("US")
	if err != nil {
		t.Fatal(err)
	}
	source, err := geo.NewTable([]geo.Entry{{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Location: geo.Location{Country: us}}})
	if err != nil {
		t.Fatal(err)
	}
	// A rule for a country without networks is not the matter of this test.
	if l.atlas, err = geo.BuildAtlas(source, l.set.Plans(), nil); err != nil {
		t.Fatal(err)
	}
	return l
}

// view is the state in which the endpoints of some PoPs are down.
func (l *loaded) view(down ...string) *pops.View {
	in := pops.Input{Now: time.Unix(1_800_000_000, 0), Panic: 100, Verdicts: make([]pops.Verdict, len(l.fleet.Endpoints)), Loads: make([]pops.Load, len(l.fleet.Endpoints))}
	for i, e := range l.fleet.Endpoints {
		in.Verdicts[i].Down = slices.Contains(down, l.fleet.PoPs[e.PoP].Name)
	}
	return pops.NewView(l.fleet, in)
}

// axfr is what a client gets, without SOA, NS and their address.
func (l *loaded) axfr(t *testing.T, view *pops.View) (records []string, refused bool) {
	t.Helper()
	o, err := transfer.NewOut(transfer.OutConfig{Zones: l.cfg.Zones, Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	m := new(dns.Msg)
	m.SetAxfr("edge.example.")
	query, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	run, rcode := o.Transfer(query, l.zone, netip.MustParseAddrPort("127.0.0.1:1"), view, l.atlas)
	if run == nil {
		if rcode != dns.RcodeRefused {
			t.Errorf("rcode %d", rcode)
		}
		return nil, true
	}
	if err := run(func(msg []byte) error {
		var m dns.Msg
		if err := m.Unpack(msg); err != nil {
			return err
		}
		for _, rr := range m.Answer {
			if !strings.HasPrefix(rr.Header().Name, "edge.example.") && !strings.HasPrefix(rr.Header().Name, "ns1.") {
				records = append(records, strings.ReplaceAll(rr.String(), "\t", " "))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return records, false
}

func with(steered string) string { return strings.Replace(steeredConfig, "STEERED", steered, 1) }

// A zone with steered records is refused unless it says what becomes of them.
func TestSteered(t *testing.T) {
	for _, tt := range []struct {
		name, steered string
		down          []string
		refused       bool
		want          []string
	}{
		{"not said", "", nil, true, nil},
		{"omit", `, steered = "omit"`, nil, false, nil},
		{"default", `, steered = "default"`, nil, false, []string{
			"*.alias.edge.example. 60 IN CNAME first.elsewhere.",
			"all.edge.example. 30 IN A 192.0.2.1", "all.edge.example. 30 IN A 192.0.2.2", "all.edge.example. 30 IN A 192.0.2.3",
			"all.edge.example. 30 IN AAAA 2001:db8::1", "all.edge.example. 30 IN AAAA 2001:db8::3",
			"any.edge.example. 60 IN A ANY",
			"last.edge.example. 60 IN A 192.0.2.1",
			"near.edge.example. 20 IN A 192.0.2.1", "near.edge.example. 20 IN AAAA 2001:db8::1",
		}},
		{"default, a PoP down", `, steered = "default"`, []string{"iad"}, false, []string{
			"*.alias.edge.example. 60 IN CNAME first.elsewhere.",
			"all.edge.example. 30 IN A 192.0.2.2", "all.edge.example. 30 IN A 192.0.2.3", "all.edge.example. 30 IN AAAA 2001:db8::3",
			"any.edge.example. 60 IN A ANY",
			"last.edge.example. 60 IN A 192.0.2.2",
			"near.edge.example. 20 IN A 192.0.2.2", "near.edge.example. 20 IN AAAA 2001:db8::3",
		}},
		{"default, all down: the last resort, whatever all_down says", `, steered = "default"`, []string{"iad", "fra", "sin"}, false, []string{
			"*.alias.edge.example. 60 IN CNAME first.elsewhere.",
			"all.edge.example. 30 IN A 192.0.2.1", "all.edge.example. 30 IN A 192.0.2.2", "all.edge.example. 30 IN A 192.0.2.3",
			"all.edge.example. 30 IN AAAA 2001:db8::1", "all.edge.example. 30 IN AAAA 2001:db8::3",
			"any.edge.example. 60 IN A ANY",
			"last.edge.example. 60 IN A 192.0.2.1",
			"near.edge.example. 20 IN A 192.0.2.1", "near.edge.example. 20 IN AAAA 2001:db8::1",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := load(t, with(tt.steered))
			got, refused := l.axfr(t, l.view(tt.down...))
			if refused != tt.refused {
				t.Fatalf("refused: %t", refused)
			}
			again, _ := l.axfr(t, l.view(tt.down...))
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("two secondaries differ: %s", diff)
			}
			for i, s := range got { // chance
				if strings.HasPrefix(s, "any.") {
					got[i] = s[:strings.LastIndexByte(s, ' ')] + " ANY"
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		toml string
		want []string
	}{
		{with(`, steered = "default"`), nil},
		{with(""), []string{"zone[0].transfer: zone edge.example has steered records: its transfer is refused"}},
		{with(`, steered = "omit"`), []string{"zone[0].transfer.steered: zone edge.example is transferred without its 8 steered records: a secondary denies these names"}},
		{strings.Replace(with(""), `allow = ["127.0.0.0/8"]`, "notify = []", 1), []string{"zone[0].transfer: zone edge.example: nobody may have it"}},
		{strings.Replace(with(""), "transfer =", "# transfer =", 1), nil},
	} {
		l := load(t, tt.toml)
		var got []string
		for _, p := range transfer.Check(l.cfg, l.set) {
			if !p.Warning || p.Line == 0 || p.Hint == "" {
				t.Errorf("%+v", p)
			}
			got = append(got, p.Field+": "+p.Message)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// The examples of the README can be loaded.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "```")
	n := 0
	for i := 1; i < len(parts); i += 2 {
		toml, ok := strings.CutPrefix(parts[i], "toml\n")
		if !ok {
			continue
		}
		n++
		cfg, problems := config.Parse("edgesteer.toml", []byte("[server]\nnode = \"n\"\n"+toml))
		if config.Failed(problems) {
			t.Error(problems)
			continue
		}
		if _, problems := transfer.NewKeys(cfg); len(problems) > 0 {
			t.Error(problems)
		}
		if problems := transfer.Check(cfg, &zones.Set{}); len(problems) > 0 {
			t.Error(problems)
		}
	}
	if n == 0 {
		t.Error("no examples")
	}
}
