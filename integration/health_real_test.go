package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/api"
)

// nginx is a server of another make that is checked.
type nginx struct {
	t   testing.TB
	dir string
	cmd *exec.Cmd
}

// startNginx runs nginx with the servers of a configuration, in a network namespace or, with "", in that of the test. DIR in the configuration is its folder.
func startNginx(t testing.TB, space, servers string, files map[string]string) *nginx {
	t.Helper()
	n := &nginx{t: t, dir: t.TempDir()}
	for name, text := range files {
		n.write(name, text)
	}
	const head = "daemon off;\nworker_processes 1;\npid DIR/pid;\nerror_log stderr warn;\nevents {}\nhttp {\naccess_log off;\n" +
		"client_body_temp_path DIR/body;\nproxy_temp_path DIR/proxy;\nfastcgi_temp_path DIR/fastcgi;\nuwsgi_temp_path DIR/uwsgi;\nscgi_temp_path DIR/scgi;\n"
	n.write("nginx.conf", "user root;\n"+strings.ReplaceAll(head+servers+"\n}\n", "DIR", n.dir))
	args := []string{need(t, "nginx"), "-e", "stderr", "-p", n.dir, "-c", filepath.Join(n.dir, "nginx.conf")}
	if space != "" {
		args = append([]string{"ip", "netns", "exec", space}, args...) // which becomes the server
	}
	n.cmd = exec.Command(args[0], args[1:]...)
	log := new(journal)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.cmd.Process.Signal(syscall.SIGTERM) // killed, it would leave its workers behind
		n.cmd.Wait()
		if t.Failed() {
			t.Logf("nginx said:\n%s", log)
		}
	})
	return n
}

func (n *nginx) write(name, text string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *nginx) remove(name string) {
	n.t.Helper()
	if err := os.Remove(filepath.Join(n.dir, name)); err != nil {
		n.t.Fatal(err)
	}
}

// reload makes it read its configuration and certificates again.
func (n *nginx) reload() { n.cmd.Process.Signal(syscall.SIGHUP) }

// authority signs certificates for names.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t}
	a.key = a.newKey()
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
	}
	a.pem = a.sign(a.cert, &a.key.PublicKey)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) sign(c *x509.Certificate, key *ecdsa.PublicKey) string {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// certify gives a certificate for a name that ends after a time, and its key.
func (a *authority) certify(name string, life time.Duration) (cert, key string) {
	a.t.Helper()
	k := a.newKey()
	cert = a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
	}, &k.PublicKey)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// belief is what a node believes of one endpoint.
func (n *node) belief(target string) api.EndpointHealth {
	n.t.Helper()
	h, err := n.api.Health(background(), target)
	if err != nil || len(h.Endpoints) != 1 {
		n.t.Fatalf("health of %s: %v %+v", target, err, h)
	}
	return h.Endpoints[0]
}

// turns waits until a node believes something of an endpoint, for a reason that is part of the error; "": for none.
func (n *node) turns(target string, verdict api.HealthState, reason string) {
	n.t.Helper()
	var last api.EndpointHealth
	defer func() {
		if n.t.Failed() {
			n.t.Logf("%+v\n%s", last, n.log)
		}
	}()
	eventually(n.t, fmt.Sprintf("%s is %s: %s", target, verdict, reason), func() bool {
		last = n.belief(target)
		return last.Verdict == verdict && len(last.Votes) > 0 && (reason == "" || strings.Contains(last.Votes[0].Error, reason))
	})
}

// Checks of servers of other makes: nginx with and without TLS, and Knot. Each fails in its own way, is out of the answers for that reason, and comes back.
func TestRealServers(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	home, east := loopback(), loopback()
	ca := newAuthority(t)
	cert, key := ca.certify("www.example.com", 24*time.Hour)
	web := startNginx(t, "", fmt.Sprintf(`
server { listen %[1]s:8080; server_name www.example.com; root DIR/home; }
server { listen %[2]s:8080; server_name www.example.com; root DIR/east; }
server { listen %[1]s:8080 default_server; listen %[2]s:8080 default_server; server_name other; return 421; }
server { listen %[1]s:8443 ssl; ssl_certificate DIR/crt; ssl_certificate_key DIR/key; root DIR/home; }
server { listen %[2]s:8443 ssl; ssl_certificate DIR/crt; ssl_certificate_key DIR/key; root DIR/east; }
`, home, east), map[string]string{"crt": cert, "key": key})
	for _, dir := range []string{"home", "east"} {
		if err := os.Mkdir(filepath.Join(web.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		web.write(dir+"/healthz", "ok")
	}
	k := prepareKnot(t)
	const zone = "zone:\n  - domain: checked.test\n    file: DIR/zone\n"
	k.write("zone", "$ORIGIN checked.test.\n$TTL 60\n@ SOA ns1 hostmaster 1 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.53\n")
	k.start(zone)
	n := prepare(t, fmt.Sprintf(`
[server]
node = "n1"
listen = ["LISTEN"]
[server.rrl]
enabled = false
[automation]
enabled = false
[[pop]]
name = "home"
[[pop]]
name = "east"
[[service]]
name = "web"
[service.check]
kind = "http"
port = 8080
host = "www.example.com"
path = "/healthz"
body = "^ok"
interval = "1s"
timeout = "1s"
fall = 2
rise = 2
[service.at.home]
addresses = ["%[1]s"]
meta = { priority = 1 }
[service.at.east]
addresses = ["%[2]s"]
meta = { priority = 2 }
[[service]]
name = "tls"
[service.check]
kind = "https"
port = 8443
host = "www.example.com"
path = "/healthz"
interval = "1s"
timeout = "1s"
fall = 2
rise = 2
[service.at.home]
addresses = ["%[1]s"]
[service.at.east]
addresses = ["%[2]s"]
[[service]]
name = "ns"
[service.check]
kind = "dns"
port = 5300
name = "checked.test"
type = "SOA"
interval = "1s"
timeout = "1s"
fall = 2
rise = 2
[service.at.home]
addresses = ["%[3]s"]
[service.at.east]
addresses = ["%[2]s"]
[[zone]]
name = "example.com"
file = "zone"
[[zone.record]]
name = "www"
service = "web"
ttl = 30
filters = ["up", "priority", { filter = "select_first_n", N = 1 }]
`, home, east, netip.MustParseAddrPort(k.addr).Addr()), map[string]string{"zone": fleetZone, "ca.crt": ca.pem})
	n.env = []string{"SSL_CERT_FILE=" + filepath.Join(n.dir, "ca.crt")}
	n.start()
	www := func() string {
		return strings.Join(addresses(n.ask("www.example.com", dns.TypeA, "192.0.2.0/24")), " ")
	}
	for _, target := range []string{"home/web", "home/tls", "home/ns", "east/tls"} {
		n.turns(target, api.HealthUp, "")
	}
	n.turns("east/ns", api.HealthDown, "connection refused") // nobody listens there
	if e := n.belief("home/tls"); !strings.Contains(e.Addresses[0].Warning, "the certificate ends "+time.Now().Add(24*time.Hour).UTC().Format("2006-01-")) {
		t.Errorf("no warning of a certificate of a day: %+v", e.Addresses)
	}

	web.write("home/healthz", "not well")
	cert, key = ca.certify("www.example.net", 24*time.Hour)
	web.write("crt", cert)
	web.write("key", key)
	web.reload()
	k.control("stop")
	n.turns("home/web", api.HealthDown, "body")
	n.turns("home/tls", api.HealthDown, "certificate is for another name")
	n.turns("home/ns", api.HealthDown, "connection refused")
	eventually(t, "www is east while home is down", func() bool { return www() == east.String() })

	web.write("home/healthz", "ok")
	cert, key = ca.certify("www.example.com", 90*24*time.Hour)
	web.write("crt", cert)
	web.write("key", key)
	web.reload()
	k.start(zone)
	for _, target := range []string{"home/web", "home/tls", "home/ns"} {
		n.turns(target, api.HealthUp, "")
	}
	eventually(t, "www is home while home is up", func() bool { return www() == home.String() })
	if e := n.belief("home/tls"); e.Addresses[0].Warning != "" {
		t.Errorf("a certificate of ninety days is warned of: %q", e.Addresses[0].Warning)
	}

	web.remove("home/healthz")
	n.turns("home/web", api.HealthDown, "status 404")
	n.turns("home/tls", api.HealthDown, "status 404")
}
