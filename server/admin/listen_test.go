package admin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
)

func TestSocket(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Settings.Mode = "0600" })
	path := filepath.Join(f.dir, "admin.sock")
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if got := f.Addrs()[0].String(); got != path {
		t.Errorf("address %s", got)
	}
	if _, err := os.Lstat(path + ".new"); err == nil {
		t.Error("the name that it was made under is left")
	}
	if _, err := listenUnix(path, 0o660); err == nil || !strings.Contains(err.Error(), "is served by another process") {
		t.Errorf("second server: %v", err)
	}
	if a := f.do(t, f.unix, "GET", "/healthz", "", nil); a.status != 200 {
		t.Errorf("after the second server's attempt: %d", a.status)
	}
	if err := f.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is left after the end")
	}
}

func TestSocketStale(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	for _, name := range []string{path, path + ".new"} { // a process died, another while it made its socket
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	l, err := listenUnix(path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	// The next process has taken the name over: that one's socket is not ours to remove.
	os.Remove(path)
	next, err := listenUnix(path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Error("another process's socket was removed")
	}
	next.Close()
}

func TestSocketRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ path, want string }{
		{file, "is there and is not a socket"},
		{filepath.Join(dir, "none", "admin.sock"), "no such file or directory"},
		{filepath.Join(dir, strings.Repeat("x", 120)), "hint: the system allows paths of 107 octets"},
	} {
		if _, err := listenUnix(test.path, 0o660); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.path, err, test.want)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "data" {
		t.Errorf("the file is %q, %v", data, err)
	}
}

// TestStartIsWhole checks that nothing is left listening when one address cannot be.
func TestStartIsWhole(t *testing.T) {
	f := newFixture(t)
	c := f.cfg
	c.Registry = newRegistry()
	c.Settings.Listen = []string{"unix:" + filepath.Join(f.dir, "other.sock"), f.Addrs()[1].String()}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err == nil || !strings.Contains(err.Error(), "admin: listening on "+f.Addrs()[1].String()) {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(filepath.Join(f.dir, "other.sock")); err == nil {
		t.Error("the first address is left")
	}
}

// TestLimit checks that a connection over the limit waits until another is closed.
func TestLimit(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limit(inner, 1)
	conns := make(chan net.Conn)
	go func() {
		defer close(conns)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for range 3 {
		c := <-conns
		select {
		case <-conns:
			t.Fatal("two connections at the same time")
		default:
		}
		c.Close()
		c.Close() // gives one place back, not two
	}
	l.Close()
	if c, ok := <-conns; ok {
		t.Errorf("connection %v after the end", c.RemoteAddr())
	}
}

// authority signs certificates for the tests of TLS.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
}

func newAuthority(t *testing.T, dir string) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, Subject: pkix.Name{CommonName: "ca"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key, dir: dir}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) write(name, kind string, der []byte) {
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// issue writes NAME.pem and NAME.key.
func (a *authority) issue(name string, c x509.Certificate) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(time.Hour)
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, &c, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", der)
	if der, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".key", "PRIVATE KEY", der)
}

// client speaks TLS with a certificate; "": none.
func (a *authority) client(name string) *http.Client {
	c := &tls.Config{RootCAs: x509.NewCertPool()}
	c.RootCAs.AddCert(a.cert)
	if name != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key"))
		if err != nil {
			a.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	t := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
	a.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ca := newAuthority(t, dir)
	ca.issue("server", x509.Certificate{IPAddresses: []net.IP{{127, 0, 0, 1}}})
	ca.issue("alice", x509.Certificate{EmailAddresses: []string{"alice@example.com"}, Subject: pkix.Name{CommonName: "Alice"}})
	ca.issue("robot", x509.Certificate{Subject: pkix.Name{CommonName: "robot"}})
	ca.issue("mallory", x509.Certificate{DNSNames: []string{"mallory.example.com"}, Subject: pkix.Name{CommonName: "Mallory"}})
	other := newAuthority(t, t.TempDir())
	other.issue("alice", x509.Certificate{EmailAddresses: []string{"alice@example.com"}})
	other.cert = ca.cert // trusts the server all the same
	f := newFixture(t, func(c *Config) {
		c.Path = func(p string) string { return filepath.Join(dir, p) }
		c.Settings.Listen = []string{"unix:admin.sock", "0.0.0.0:0"} // with TLS it may be reached from outside
		c.Settings.TLS = &config.AdminTLS{Certificate: "server.pem", Key: "server.key", ClientCA: "ca.pem"}
		c.Settings.Clients = []config.AdminClient{{Name: "alice@example.com", Role: "operator"}, {Name: "robot", Role: "automation"}}
	})
	_, port, err := net.SplitHostPort(f.Addrs()[1].String())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(client *http.Client, token string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://127.0.0.1:"+port+"/v1/drains", strings.NewReader(`{"target":"fra","reason":"works"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", jsonType)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := client.Do(req)
		if err == nil {
			res.Body.Close()
		}
		return res, err
	}
	for _, test := range []struct {
		name, cert, token string
		status            int
		author            string
	}{
		{"certificate", "alice", "", 200, "alice@example.com"},
		{"certificate of automation", "robot", "", 200, "robot"},
		{"certificate that nobody knows", "mallory", "", 401, ""},
		{"token", "", tokens["operator"], 200, "oscar"},
		{"token beside a certificate", "alice", tokens["viewer"], 403, ""},
		{"neither", "", "", 401, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := len(f.ledger.Statements())
			res, err := ask(ca.client(test.cert), test.token)
			if err != nil || res.StatusCode != test.status || res.ProtoMajor != 2 {
				t.Fatalf("%+v, %v", res, err)
			}
			if test.status != 200 {
				if len(f.ledger.Statements()) != before {
					t.Error("a statement was made")
				}
				return
			}
			found := false
			for _, e := range f.ledger.Statements() {
				found = found || e.Author == test.author
			}
			if !found {
				t.Errorf("no statement by %s", test.author)
			}
		})
	}
	if res, err := ask(other.client("alice"), ""); err == nil {
		t.Errorf("a certificate of another authority: %v", res.Status)
	}
	plain, err := http.Get("http://127.0.0.1:" + port + "/healthz")
	if err == nil {
		plain.Body.Close()
		if plain.StatusCode == http.StatusOK {
			t.Error("answers in clear text")
		}
	}
}

func TestCertificateReload(t *testing.T) {
	dir := t.TempDir()
	ca := newAuthority(t, dir)
	ca.issue("server", x509.Certificate{DNSNames: []string{"old.example.com"}})
	path := func(n string) string { return filepath.Join(dir, n) }
	c, err := newCertificates(path("server.pem"), path("server.key"), "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	names := func() string { return strings.Join(c.current(now).Certificates[0].Leaf.DNSNames, " ") }
	touch := func(n string) {
		if err := os.Chtimes(path(n), now, now); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(); got != "old.example.com" {
		t.Errorf("at the start %s", got)
	}
	ca.issue("server", x509.Certificate{DNSNames: []string{"new.example.com"}})
	now = now.Add(time.Hour)
	touch("server.pem")
	touch("server.key")
	if got := names(); got != "new.example.com" {
		t.Errorf("after a change %s", got)
	}
	if err := os.WriteFile(path("server.pem"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	touch("server.pem")
	if got := names(); got != "new.example.com" {
		t.Errorf("after damage %s", got)
	}
	if _, err := newCertificates(path("server.pem"), path("server.key"), "", slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a start with a damaged certificate")
	}
	ca.issue("server", x509.Certificate{})
	if _, err := newCertificates(path("server.pem"), path("server.key"), path("server.key"), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "no certificate in") {
		t.Errorf("a key as authority: %v", err)
	}
}

// TestClient checks the Go client against the real server, over the socket and over TCP.
func TestClient(t *testing.T) {
	f := newFixture(t)
	for _, test := range []struct{ server, token string }{{"unix:" + filepath.Join(f.dir, "admin.sock"), ""}, {"http://" + f.Addrs()[1].String(), tokens["operator"]}} {
		c, err := api.New(test.server, test.token)
		if err != nil {
			t.Fatal(err)
		}
		done, err := c.Drain(t.Context(), api.DrainRequest{Target: "fra", Order: api.Order{Reason: "works"}})
		if err != nil || len(done.Statements) != 1 {
			t.Fatalf("%s: %+v, %v", test.server, done, err)
		}
		if _, err := c.Restore(t.Context(), api.RestoreRequest{ID: done.Statements[0].ID, Order: api.Order{Reason: "works"}}); err != nil {
			t.Error(err)
		}
		status, err := c.Status(t.Context())
		if err != nil || len(status.PoPs) != 3 || len(status.Statements) != 0 {
			t.Errorf("%+v, %v", status, err)
		}
		if _, err := c.Statements(t.Context(), true); err != nil {
			t.Error(err)
		}
		if h, err := c.History(t.Context(), api.HistoryQuery{Target: "fra", Limit: 2}); err != nil || len(h.Entries) != 2 {
			t.Errorf("%+v, %v", h, err)
		}
		if p, err := c.PoP(t.Context(), "fra"); err != nil || p.PoP.Name != "fra" {
			t.Errorf("%+v, %v", p, err)
		}
		if _, err := c.Explain(t.Context(), api.ExplainQuery{Name: "wss.example.com", Client: "192.0.2.0/24"}); err != nil {
			t.Error(err)
		}
		if _, err := c.Zones(t.Context()); err != nil {
			t.Error(err)
		}
		if r, err := c.ReloadZones(t.Context()); err != nil || len(r.Changed) != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}
