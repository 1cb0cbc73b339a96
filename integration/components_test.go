package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// need finds a program of another make. CI has them all; elsewhere a test without its program is skipped.
func need(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + name); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s is not installed", name)
			}
			t.Skipf("%s is not installed", name)
		}
	}
	return path
}

// peer is another make's daemon, ended by its pid when the test ends.
func startPeer(t testing.TB, path string, args ...string) {
	t.Helper()
	cmd := exec.Command(path, args...)
	log := new(journal)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(path), log)
		}
	})
}

// metric reads one value of a node's metrics: the sum over all series of the name whose labels hold text.
func (n *node) metric(name, text string) (sum float64) {
	n.t.Helper()
	socket := filepath.Join(n.dir, "state", "admin.sock")
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	r, err := c.Get("http://localhost/metrics")
	if err != nil {
		n.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if base, _, _ := strings.Cut(series, "{"); !ok || base != name || !strings.Contains(series, text) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			n.t.Fatal(err)
		}
		sum += v
	}
	return sum
}

// certificate writes a self-signed certificate for the loopback addresses.
func certificate(t testing.TB, n *node) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddrPort(n.addr).Addr()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{addr.AsSlice()},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	n.write("tls.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	n.write("tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})))
}

// A recursive resolver with client subnet in front: 200 clients of 20 networks, and each always gets an answer that its own network gets, while PoPs are drained and restored.
func TestUnbound(t *testing.T) {
	path := need(t, "unbound")
	n := prepare(t, strings.ReplaceAll(fleet, "ttl = 30", "ttl = 1"), map[string]string{"zone": fleetZone}).start()
	addr := netip.MustParseAddrPort(n.addr)
	front := netip.AddrPortFrom(loopback(), 5300)
	n.write("unbound.conf", fmt.Sprintf(`server:
  interface: %s@%d
  directory: "%s"
  chroot: ""
  username: ""
  pidfile: ""
  do-daemonize: no
  use-syslog: no
  access-control: 127.0.0.0/8 allow
  do-not-query-localhost: no
  module-config: "subnetcache iterator"
  send-client-subnet: %s
  client-subnet-always-forward: yes
  minimal-responses: yes
  num-threads: 1
stub-zone:
  name: example.com
  stub-addr: %s@%d
`, front.Addr(), front.Port(), n.dir, addr.Addr(), addr.Addr(), addr.Port()))
	startPeer(t, path, "-d", "-c", filepath.Join(n.dir, "unbound.conf"))

	c := &dns.Client{Timeout: 10 * time.Second} // the resolver may have to ask twice
	ask := func(subnet string) (*dns.Msg, error) {
		m := question("primary.example.com", dns.TypeA, subnet)
		m.RecursionDesired = true
		r, _, err := c.Exchange(m, front.String())
		return r, err
	}
	eventually(t, "unbound answers", func() bool {
		r, err := ask("198.51.100.0/24")
		return err == nil && r.Rcode == dns.RcodeSuccess
	})

	// Ten /24s of each of twenty /16s. What a network may get: what it gets from us, now or a moment ago.
	var clients []string
	for _, p := range networks(20) {
		a := p.Addr().As4()
		for i := range 10 {
			clients = append(clients, fmt.Sprintf("%d.%d.%d.0/24", a[0], a[1], i))
		}
	}
	may := make([][]string, len(clients))
	learn := func() {
		for i, client := range clients {
			if a := addresses(n.ask("primary.example.com", dns.TypeA, client)); !slices.Contains(may[i], a[0]) {
				may[i] = append(may[i], a[0])
			}
		}
	}
	before := n.metric("edgesteer_queries_total", "udp")
	direct, asked := 0, 0
	for _, step := range []func(){func() {}, func() { n.drain("home", 50) }, func() { n.drain("east", 100) }, func() { n.restore("home") }, func() { n.restore("east") }} {
		step()
		learn()
		direct += len(clients)
		for range 5 {
			for i, client := range clients {
				r, err := ask(client)
				asked++
				if err != nil || r.Rcode != dns.RcodeSuccess {
					t.Fatalf("%s: %v %v", client, r, err)
				}
				if a := addresses(r); len(a) != 1 || !slices.Contains(may[i], a[0]) {
					t.Errorf("%s got %v through the resolver, its network gets %v", client, a, may[i])
				}
			}
		}
	}
	var reached float64
	eventually(t, "counters", func() bool {
		reached = n.metric("edgesteer_queries_total", "udp") - before - float64(direct)
		return reached > 0
	})
	t.Logf("%d questions to the resolver, %.0f reached the server: %.0f %% came from its cache", asked, reached, 100*(1-reached/float64(asked)))
	if reached > 0.9*float64(asked) {
		t.Errorf("%.0f of %d questions went past the resolver's cache: scopes are too narrow", reached, asked)
	}
	distinct := map[string]bool{}
	for _, m := range may {
		distinct[m[0]] = true
	}
	if len(distinct) < 2 {
		t.Error("all networks get the same answer: the test shows nothing")
	}
}

// kdig asks over TLS and HTTPS, GET and POST.
func TestKdig(t *testing.T) {
	path := need(t, "kdig")
	n := prepare(t, fleet+`
[server.tls]
listen = ["TLS"]
certificate = "tls.crt"
key = "tls.key"
[server.https]
listen = ["HTTPS"]
certificate = "tls.crt"
key = "tls.key"
`, map[string]string{"zone": fleetZone})
	n.secure()
	host := netip.MustParseAddrPort(n.addr).Addr().String()
	for _, args := range [][]string{
		{"-p", "8853", "+tls"},
		{"-p", "8853", "+tls-ca=" + filepath.Join(n.dir, "tls.crt"), "+tls-hostname=localhost"},
		{"-p", "8443", "+https"},
		{"-p", "8443", "+https-get"},
		{"-p", "5300", "+tcp", "+keepopen"},
	} {
		out, err := exec.Command(path, slices.Concat([]string{"@" + host, "home.example.com", "A", "+subnet=198.51.100.0/24", "+timeout=5"}, args)...).CombinedOutput()
		if err != nil || !regexp.MustCompile(`home\.example\.com\.\s+30\s+IN\s+A\s+192\.0\.2\.1\n`).Match(out) {
			t.Errorf("kdig %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// secure starts a node whose configuration has TLS and HTTPS for addresses.
func (n *node) secure() {
	n.t.Helper()
	host := netip.MustParseAddrPort(n.addr).Addr()
	text, err := os.ReadFile(filepath.Join(n.dir, "edgesteer.toml"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.write("edgesteer.toml", strings.NewReplacer(`"TLS"`, strconv.Quote(netip.AddrPortFrom(host, 8853).String()), `"HTTPS"`, strconv.Quote(netip.AddrPortFrom(host, 8443).String())).Replace(string(text)))
	certificate(n.t, n)
	n.start()
}

// dnsdist in front speaks PROXY protocol version 2: the client that it tells is who is steered by; the same header from elsewhere is dropped and counted.
func TestDnsdist(t *testing.T) {
	path := need(t, "dnsdist")
	front := netip.AddrPortFrom(loopback(), 5300)
	toml := strings.Replace(fleet, "[server.rrl]", "proxy_protocol = [\"127.0.0.1/32\"]\n[server.rrl]", 1) + `
[[zone.record]]
name = "who"
type = "TXT"
filters = ["netfence_prefix"]
[[zone.record.answer]]
rdata = '"proxied"'
meta = { ip_prefixes = ["` + front.Addr().String() + `/32", "127.0.0.9/32"] }
[[zone.record.answer]]
rdata = '"other"'
`
	n := prepare(t, toml, map[string]string{"zone": fleetZone}).start()
	n.write("dnsdist.conf", fmt.Sprintf(`setLocal("%s")
setACL("127.0.0.0/8")
newServer({address="%s", useProxyProtocol=true, source="127.0.0.1", healthCheckMode="up", name="edgesteer"})
`, front, n.addr))
	startPeer(t, path, "--supervised", "--disable-syslog", "-C", filepath.Join(n.dir, "dnsdist.conf"))

	ask := func(server, network, local string) (*dns.Msg, error) {
		dialer := &net.Dialer{Timeout: 10 * time.Second}
		if network == "udp" {
			dialer.LocalAddr = &net.UDPAddr{IP: net.ParseIP(local)}
		} else {
			dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(local)}
		}
		c := &dns.Client{Net: network, Timeout: 10 * time.Second, Dialer: dialer}
		r, _, err := c.Exchange(question("who.example.com", dns.TypeTXT, ""), server)
		return r, err
	}
	text := func(r *dns.Msg) string {
		if r == nil || len(r.Answer) == 0 {
			return ""
		}
		return r.Answer[0].(*dns.TXT).Txt[0]
	}
	eventually(t, "dnsdist answers", func() bool {
		r, err := ask(front.String(), "udp", "127.0.0.9")
		return err == nil && text(r) != ""
	})
	for _, network := range []string{"udp", "tcp"} {
		if r, err := ask(front.String(), network, "127.0.0.9"); err != nil || text(r) != "proxied" {
			t.Errorf("%s through dnsdist from 127.0.0.9: %q %v", network, text(r), err)
		}
		if r, err := ask(front.String(), network, "127.0.0.10"); err != nil || text(r) != "other" {
			t.Errorf("%s through dnsdist from 127.0.0.10: %q %v", network, text(r), err)
		}
		if r, err := ask(n.addr, network, "127.0.0.9"); err != nil || text(r) != "proxied" {
			t.Errorf("%s without a proxy: %q %v", network, text(r), err)
		}
	}
	// The same header from a sender that is not trusted.
	header := append([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x12\x00\x0c"), 127, 0, 0, 9, 127, 0, 0, 1, 0x10, 0, 0x14, 0xb4)
	packed, err := question("who.example.com", dns.TypeTXT, "").Pack()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP("127.0.0.77")}}).Dial("udp", n.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(append(header, packed...)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the untrusted header is counted", func() bool { return n.metric("edgesteer_proxy_dropped_total", "untrusted") == 1 })
	conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if k, err := conn.Read(make([]byte, 512)); err == nil {
		t.Errorf("an untrusted header was answered with %d octets", k)
	}
}

// dnsperf over TCP and TLS: nothing is lost.
func TestDnsperf(t *testing.T) {
	path := need(t, "dnsperf")
	n := prepare(t, fleet+`
[server.tls]
listen = ["TLS"]
certificate = "tls.crt"
key = "tls.key"
`, map[string]string{"zone": fleetZone})
	n.secure()
	n.write("queries", "home.example.com A\nprimary.example.com A\nbackup.example.com A\nnosuch.example.com A\n")
	host := netip.MustParseAddrPort(n.addr).Addr().String()
	for mode, port := range map[string]string{"tcp": "5300", "dot": "8853"} {
		out, err := exec.Command(path, "-m", mode, "-s", host, "-p", port, "-d", filepath.Join(n.dir, "queries"), "-c", "20", "-q", "400", "-l", "2", "-t", "60", "-e").CombinedOutput()
		m := regexp.MustCompile(`Queries completed:\s+(\d+) \(([\d.]+)%\)`).FindSubmatch(out)
		if err != nil || m == nil || string(m[2]) != "100.00" {
			t.Errorf("dnsperf -m %s: %v\n%s", mode, err, out)
			continue
		}
		t.Logf("%s: %s queries completed in 2 s", mode, m[1])
	}
}
