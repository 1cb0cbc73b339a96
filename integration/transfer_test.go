package integration

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// Secrets of the transfers, known to both sides, and one that only one side knows.
var (
	transferSecret = base64.StdEncoding.EncodeToString([]byte("thirty-two octets that both know"))
	strangeSecret  = base64.StdEncoding.EncodeToString([]byte("thirty-two octets of nobody else"))
)

// knot is a Knot DNS server.
type knot struct {
	t    testing.TB
	dir  string
	addr string
}

// prepareKnot chooses its address and folder.
func prepareKnot(t testing.TB) *knot {
	t.Helper()
	need(t, "knotd")
	k := &knot{t: t, dir: t.TempDir(), addr: netip.AddrPortFrom(loopback(), 5300).String()}
	if err := os.Mkdir(filepath.Join(k.dir, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	return k
}

// at is an address in Knot's spelling.
func at(addr string) string { return strings.Replace(addr, ":", "@", 1) }

// start runs it. DIR, ADDR, IP and SECRET in the configuration stand for its own.
func (k *knot) start(conf string) {
	k.t.Helper()
	ip, _, _ := strings.Cut(k.addr, ":")
	head := "server:\n    rundir: DIR/run\n    listen: ADDR\ncontrol:\n    listen: DIR/run/knot.sock\ndatabase:\n    storage: DIR\nlog:\n  - target: stderr\n    any: info\n"
	conf = strings.NewReplacer("DIR", k.dir, "ADDR", at(k.addr), "IP", ip, "SECRET", transferSecret).Replace(head + conf)
	k.write("knot.conf", conf)
	startPeer(k.t, need(k.t, "knotd"), "-c", filepath.Join(k.dir, "knot.conf"))
	eventually(k.t, "knot listens", func() bool {
		c, err := net.Dial("tcp", k.addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func (k *knot) write(name, text string) {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// control gives it a command.
func (k *knot) control(args ...string) {
	k.t.Helper()
	eventually(k.t, "knotc "+strings.Join(args, " "), func() bool {
		return exec.Command(need(k.t, "knotc"), append([]string{"-s", filepath.Join(k.dir, "run", "knot.sock")}, args...)...).Run() == nil
	})
}

// serial asks a server for a zone's serial; 0 if it does not have it.
func serial(addr, zone string) uint32 {
	m := new(dns.Msg)
	m.SetQuestion(zone, dns.TypeSOA)
	r, _, err := (&dns.Client{Timeout: time.Second}).Exchange(m, addr)
	if err != nil || len(r.Answer) == 0 {
		return 0
	}
	return r.Answer[0].(*dns.SOA).Serial
}

// axfr gets a whole zone, as sorted text.
func axfr(addr, zone, key, secret string) (lines []string, err error) {
	m := new(dns.Msg)
	m.SetAxfr(zone)
	tr := &dns.Transfer{}
	if key != "" {
		m.SetTsig(key, dns.HmacSHA256, 300, time.Now().Unix())
		tr.TsigSecret = map[string]string{key: secret}
	}
	ch, err := tr.In(m, addr)
	if err != nil {
		return nil, err
	}
	for e := range ch {
		if e.Error != nil {
			return nil, e.Error
		}
		for _, rr := range e.RR {
			lines = append(lines, strings.ToLower(rr.String()))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

const transferZone = `$TTL 3600
@ SOA ns1 hostmaster SERIAL 7200 900 1209600 60
@ NS ns1
@ NS ns2
@ MX 10 mail
ns1 A 127.0.0.1
ns2 A 127.0.0.2
ns1 AAAA 2001:db8::53
mail 300 A 192.0.2.25
www CNAME mail
txt TXT "a;b" "c \"d\" \\ \007"
_x._tcp SRV 1 2 443 mail
svc HTTPS 1 . alpn="h2,h3" ipv4hint=192.0.2.1
caa CAA 0 issue "ca.example"
odd TYPE65400 \# 4 0a000001
*.wild A 192.0.2.9
sub NS ns.sub
ns.sub A 192.0.2.54
old DNAME new
loc LOC 52 14 05.000 N 00 08 50.000 E 10.00m 1.00m 10000.00m 10.00m
ds DS 12345 8 2 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
ds NS ns.elsewhere.
`

func version(text string, serial int) string {
	return strings.ReplaceAll(text, "SERIAL", fmt.Sprint(serial))
}

// manyHosts makes a zone of several messages.
func manyHosts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "host-%d A 192.0.2.%d\n", i, i%256)
	}
	return b.String()
}

// A secondary of another make follows: identical data, signed, and each new version by NOTIFY. A wrong key gets nothing and is counted.
func TestTransferToKnot(t *testing.T) {
	k := prepareKnot(t)
	n := prepare(t, `
[server]
node   = "primary"
listen = ["LISTEN"]

[[tsig]]
name   = "transfer.key"
secret = "`+transferSecret+`"

[[pop]]
name = "iad"
country = "US"
[[pop]]
name = "fra"
country = "DE"
[[service]]
name = "web"
[service.at.iad]
addresses = ["192.0.2.1", "2001:db8::1"]
[service.at.fra]
addresses = ["192.0.2.2"]

[[zone]]
name = "static.example"
file = "static.zone"
transfer = { allow = ["127.0.0.0/8"], keys = ["transfer.key"], notify = ["`+k.addr+`"] }

[[zone]]
name = "steered.example"
file = "steered.zone"
transfer = { keys = ["transfer.key"], steered = "default", notify = ["`+k.addr+`"] }
[[zone.record]]
name = "www"
service = "web"
ttl = 30
filters = ["up"]

[[zone]]
name = "closed.example"
file = "closed.zone"
transfer = { keys = ["transfer.key"] }
[[zone.record]]
name = "www"
service = "web"
filters = ["up"]
`, map[string]string{
		"static.zone":  version(transferZone, 1) + manyHosts(5000),
		"steered.zone": "@ 60 SOA ns1 h 7 7200 900 1209600 60\n@ 60 NS ns1\nns1 60 A 127.0.0.1\n",
		"closed.zone":  "@ 60 SOA ns1 h 7 7200 900 1209600 60\n@ 60 NS ns1\nns1 60 A 127.0.0.1\n",
	}).start()
	k.start(`
key:
  - id: transfer.key
    algorithm: hmac-sha256
    secret: SECRET
remote:
  - id: primary
    address: ` + at(n.addr) + `
    key: transfer.key
acl:
  - id: notices
    key: transfer.key
    action: notify
  - id: readers
    address: 127.0.0.0/8
    action: transfer
template:
  - id: default
    storage: DIR
    master: primary
    acl: [notices, readers]
zone:
  - domain: static.example
  - domain: steered.example
`)
	same := func(zone string) (ours []string) {
		t.Helper()
		ours, err := axfr(n.addr, zone, "transfer.key.", transferSecret)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := axfr(k.addr, zone, "", "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ours, theirs); diff != "" {
			t.Errorf("%s differs: %s", zone, diff)
		}
		return ours
	}
	eventually(t, "knot has both zones", func() bool { return serial(k.addr, "static.example.") == 1 && serial(k.addr, "steered.example.") == 7 })
	if got := len(same("static.example.")); got < 5000 {
		t.Errorf("%d records", got)
	}
	www := slices.DeleteFunc(same("steered.example."), func(s string) bool { return !strings.HasPrefix(s, "www.") })
	want := []string{"www.steered.example.\t30\tin\ta\t192.0.2.1", "www.steered.example.\t30\tin\ta\t192.0.2.2", "www.steered.example.\t30\tin\taaaa\t2001:db8::1"}
	if diff := cmp.Diff(want, www); diff != "" {
		t.Error(diff)
	}

	// A new version arrives at once, though REFRESH is two hours.
	for i := 2; i < 5; i++ {
		n.write("static.zone", version(transferZone, i)+manyHosts(5000-i)+fmt.Sprintf("new-%d A 192.0.2.%d\n", i, i))
		if _, err := n.api.ReloadZones(background()); err != nil {
			t.Fatal(err)
		}
		eventually(t, fmt.Sprintf("knot has serial %d", i), func() bool { return serial(k.addr, "static.example.") == uint32(i) })
		same("static.example.")
	}
	eventually(t, "NOTIFY is answered", func() bool { return n.metric("edgesteer_notify_out_total", "answered") >= 4 })
	if lost := n.metric("edgesteer_notify_out_total", "lost") + n.metric("edgesteer_notify_out_total", "refused"); lost > 0 {
		t.Errorf("%v NOTIFYs lost or refused", lost)
	}

	// Who must not have a zone gets nothing.
	for _, tt := range []struct{ zone, key, secret, reason string }{
		{"static.example.", "transfer.key.", strangeSecret, "signature"},
		{"static.example.", "strange.key.", transferSecret, "signature"},
		{"static.example.", "", "", "unsigned"},
		{"closed.example.", "transfer.key.", transferSecret, "steered"},
	} {
		before := n.metric("edgesteer_transfer_refused_total", tt.reason)
		if lines, err := axfr(n.addr, tt.zone, tt.key, tt.secret); err == nil {
			t.Errorf("%+v: %d records", tt, len(lines))
		}
		if after := n.metric("edgesteer_transfer_refused_total", tt.reason); after != before+1 {
			t.Errorf("%+v: counted %v times", tt, after-before)
		}
	}
	n.stop()
}

// Another make with a wrong key is refused and counted, from its first question on.
func TestTransferToKnotWrongKey(t *testing.T) {
	k := prepareKnot(t)
	n := prepare(t, "[server]\nnode = \"primary\"\nlisten = [\"LISTEN\"]\n\n[[tsig]]\nname = \"transfer.key\"\nsecret = \""+transferSecret+"\"\n\n"+
		"[[zone]]\nname = \"static.example\"\nfile = \"static.zone\"\ntransfer = { keys = [\"transfer.key\"] }\n",
		map[string]string{"static.zone": version(transferZone, 1)}).start()
	k.start("key:\n  - id: transfer.key\n    algorithm: hmac-sha256\n    secret: " + strangeSecret + "\nremote:\n  - id: primary\n    address: " + at(n.addr) +
		"\n    key: transfer.key\nzone:\n  - domain: static.example\n    storage: DIR\n    master: primary\n")
	eventually(t, "the signature is refused", func() bool { return n.metric("edgesteer_tsig_refused_total", "badsig") > 0 })
	if s := serial(k.addr, "static.example."); s != 0 {
		t.Errorf("knot has serial %d", s)
	}
	n.stop()
}

// An existing primary of another make gives the static part of a zone, and steered records stand beside it. New versions come by NOTIFY; what was there last is served after a crash
// without the primary.
func TestTransferFromKnot(t *testing.T) {
	k := prepareKnot(t)
	n := prepare(t, `
[server]
node   = "secondary"
listen = ["LISTEN"]

[[tsig]]
name   = "transfer.key"
secret = "`+transferSecret+`"

[[pop]]
name = "iad"
country = "US"
[[service]]
name = "web"
[service.at.iad]
addresses = ["192.0.2.1"]

[[zone]]
name = "static.example"
transfer = { allow = ["127.0.0.0/8"], steered = "omit" }
[[zone.primary]]
address = "`+k.addr+`"
key     = "transfer.key"
[[zone.record]]
name = "steered"
service = "web"
ttl = 30
filters = ["up"]
`, nil)
	ip, _, _ := strings.Cut(k.addr, ":")
	k.write("static.example.zone", version(transferZone, 1)+manyHosts(5000))
	k.start(`
key:
  - id: transfer.key
    algorithm: hmac-sha256
    secret: SECRET
remote:
  - id: secondary
    address: ` + at(n.addr) + `
    via: ` + ip + `
    key: transfer.key
acl:
  - id: secondaries
    key: transfer.key
    action: transfer
  - id: readers
    address: 127.0.0.0/8
    action: transfer
zone:
  - domain: static.example
    storage: DIR
    notify: secondary
    acl: [secondaries, readers]
    zonefile-load: difference-no-serial
    journal-content: all
    zonefile-sync: -1
`)
	n.start()
	steered := func() bool {
		return slices.Equal(addresses(n.ask("steered.static.example", dns.TypeA, "")), []string{"192.0.2.1"})
	}
	same := func() {
		t.Helper()
		ours, err := axfr(n.addr, "static.example.", "", "")
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := axfr(k.addr, "static.example.", "", "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("zones differ: %s", diff)
		}
	}
	have := func() uint32 { return serial(n.addr, "static.example.") }
	eventually(t, "the zone is there", func() bool { return have() != 0 && have() == serial(k.addr, "static.example.") })
	same()
	if !steered() {
		t.Error("no steered records")
	}

	old := have()
	k.write("static.example.zone", version(transferZone, 2)+manyHosts(4990)+"new A 192.0.2.200\n")
	k.control("zone-reload", "static.example")
	eventually(t, "the new version is there", func() bool {
		return slices.Equal(addresses(n.ask("new.static.example", dns.TypeA, "")), []string{"192.0.2.200"}) && have() != old
	})
	same()
	if !steered() {
		t.Error("no steered records with the new version")
	}
	if n.metric("edgesteer_notify_in_total", "taken") == 0 {
		t.Error("no NOTIFY was taken")
	}
	eventually(t, "the copy is on disk", func() bool {
		data, err := os.ReadFile(filepath.Join(n.dir, "state", "zones", "static.example.zone"))
		return err == nil && strings.Contains(string(data), "new.static.example.")
	})

	// The primary is gone and the node crashes: the copy is served at once.
	k.control("stop")
	eventually(t, "knot is gone", func() bool { return serial(k.addr, "static.example.") == 0 })
	last := have()
	n.kill()
	n.start()
	if have() != last || !steered() || !slices.Equal(addresses(n.ask("new.static.example", dns.TypeA, "")), []string{"192.0.2.200"}) {
		t.Errorf("after a crash: serial %d, was %d", have(), last)
	}
	if left := n.metric("edgesteer_secondary_expiry_seconds", "static.example."); left < 1209000 || left > 1209600 {
		t.Errorf("%v s until expiry", left)
	}
	n.stop()
}
