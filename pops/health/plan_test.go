package health

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server/config"
)

func TestPlan(t *testing.T) {
	check := func(c config.Check) *config.Check {
		c.Interval, c.Timeout, c.Fall, c.Rise = 10*time.Second, 5*time.Second, 3, 5
		return defaults(c)
	}
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	cfg := &config.Config{Services: []config.Service{
		{Name: "wss", Check: check(config.Check{Kind: "websocket"}), At: map[string]config.Endpoint{"fra": {MinUp: 2}, "dub": {MinUp: 1}}},
		{Name: "unchecked", At: map[string]config.Endpoint{"fra": {}}},
	}}
	f := &pops.Fleet{
		PoPs: []pops.PoP{{Name: "fra"}, {Name: "dub"}}, Services: []pops.Service{{Name: "wss"}, {Name: "unchecked"}},
		Endpoints: []pops.Endpoint{{Service: 0, PoP: 0, Addresses: []netip.Addr{a, b}}, {Service: 0, PoP: 1, CNAME: "dub.example.com."}, {Service: 1, PoP: 0, Addresses: []netip.Addr{a}}},
	}
	p, problems := NewPlan(cfg, f)
	if len(p.targets) != 1 || p.targets[0].name != "fra/wss" || p.targets[0].minUp != 2 || p.agree != 0.75 {
		t.Errorf("%+v", p.targets)
	}
	if diff := cmp.Diff([]int{0, -1, -1}, p.at); diff != "" {
		t.Error(diff)
	}
	if len(problems) != 1 || !problems[0].Warning || problems[0].Message != "dub/wss has a name and no addresses: it is not checked, and counts as up" {
		t.Errorf("%v", problems)
	}
}

func TestChecksRefused(t *testing.T) {
	for _, tt := range []struct {
		check config.Check
		want  string
		hint  string
	}{
		{config.Check{Kind: "htp"}, `unknown kind "htp": one of tcp, http, https, websocket, grpc, dns, icmp, exec`, `did you mean "http"?`},
		{config.Check{Kind: "tcp"}, "a tcp check needs a port", ""},
		{config.Check{Kind: "grpc"}, "a grpc check needs a port", ""},
		{config.Check{Kind: "http", Path: "health"}, `path "health" does not begin with /`, ""},
		{config.Check{Kind: "http", Method: "A B"}, `"A B" is not a method`, ""},
		{config.Check{Kind: "http", Body: "("}, "error parsing regexp: missing closing ): `(`", ""},
		{config.Check{Kind: "websocket", Expect: map[string]string{"x": "("}}, "error parsing regexp: missing closing ): `(`", ""},
		{config.Check{Kind: "dns"}, "a dns check needs the name that it asks for", `for example name = "example.com"`},
		{config.Check{Kind: "dns", Name: "example.com", Type: "AX"}, `unknown type "AX"`, ""},
		{config.Check{Kind: "dns", Name: "example.com", Rcode: "NO"}, `unknown RCODE "NO"`, `for example rcode = "NOERROR"`},
		{config.Check{Kind: "exec"}, "an exec check needs a command", `for example command = ["/usr/local/bin/check", "{address}"]`},
	} {
		cfg := &config.Config{Services: []config.Service{{Name: "s", Check: defaults(tt.check)}}}
		_, problems := NewPlan(cfg, &pops.Fleet{})
		if len(problems) != 1 || problems[0].Warning || problems[0].Message != tt.want || problems[0].Hint != tt.hint {
			t.Errorf("%+v: %+v", tt.check, problems)
		}
	}
}

// TestUnread: what a kind does not read is refused where it stands; what every kind reads, and what is a default, is not.
func TestUnread(t *testing.T) {
	cfg, problems := config.Parse("edgesteer.toml", []byte(`
[[service]]
name = "a"
check = { kind = "tcp", port = 9, method = "GET", fall = 2, tls = true, sni = "example.com" }
[[service]]
name = "b"
[service.check]
kind    = "icmp"
port    = 9
source  = ["192.0.2.1"]
command = ["true"]
[[service]]
name = "c"
[service.check]
kind = "websocket"
host = "example.com"
[service.check.expect_headers]
x = "("
`))
	_, more := NewPlan(cfg, &pops.Fleet{})
	var got []string
	for _, p := range config.Tidy(append(problems, more...)) {
		if strings.Contains(p.Field, "check") {
			got = append(got, p.String())
		}
	}
	want := []string{
		"edgesteer.toml:4: service[0].check.method: tcp checks do not read method (hint: leave it out; it is read by http, https)",
		"edgesteer.toml:9: service[1].check.port: icmp checks do not read port (hint: leave it out; it is read by tcp, http, https, websocket, grpc, dns, exec)",
		"edgesteer.toml:11: service[1].check.command: icmp checks do not read command (hint: leave it out; it is read by exec)",
		"edgesteer.toml:18: service[2].check.expect_headers.x: error parsing regexp: missing closing ): `(`",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Each key of the configuration is read by some kind.
func TestKeysOfKinds(t *testing.T) {
	read := []string{"kind", "interval", "timeout", "fall", "rise"} // by all
	for _, k := range kinds() {
		read = append(read, k.keys...)
	}
	slices.Sort(read)
	var want []string
	for f := range reflect.TypeFor[config.Check]().Fields() {
		want = append(want, f.Tag.Get("toml"))
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Compact(read)); diff != "" {
		t.Error(diff)
	}
}

func TestPorts(t *testing.T) {
	got := map[string]uint16{}
	for name, c := range map[string]config.Check{
		"http": {Kind: "http"}, "http with TLS": {Kind: "http", TLS: true}, "https": {Kind: "https"}, "https 8443": {Kind: "https", Port: 8443},
	} {
		made, err := newCheck(defaults(c))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = made.(*httpCheck).port
	}
	if diff := cmp.Diff(map[string]uint16{"http": 80, "http with TLS": 443, "https": 443, "https 8443": 8443}, got); diff != "" {
		t.Error(diff)
	}
}
