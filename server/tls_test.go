package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// certPEM makes a certificate of its own for name.
func certPEM(t testing.TB, name string, end time.Time) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: end.Add(-48 * time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	kder, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: kder})
}

func writeFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func certFiles(t testing.TB, name string, end time.Time) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	c, k := certPEM(t, name, end)
	writeFile(t, cert, c)
	writeFile(t, key, k)
	return cert, key
}

// insecure is for clients of tests, which look at the certificate themselves.
func insecure(alpn ...string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: alpn}
}

func servingTLS(t testing.TB, cfg ListenConfig) (*Listeners, func(name string, labels ...string) float64) {
	cfg.TLS = []netip.AddrPort{lo4}
	if cfg.CertFile == "" {
		cfg.CertFile, cfg.KeyFile = certFiles(t, "one.test", time.Now().Add(time.Hour))
	}
	l, reg := serving(t, cfg, nil)
	return l, func(name string, labels ...string) float64 { return value(t, reg, name, labels...) }
}

func TestDoT(t *testing.T) {
	l, value := servingTLS(t, ListenConfig{})
	cache := tls.NewLRUClientSessionCache(1)
	for _, c := range []struct {
		name   string
		alpn   []string
		max    uint16
		fail   bool
		cache  bool
		resume bool
	}{
		{name: "dot", alpn: []string{"dot"}, cache: true},
		{name: "no alpn"},
		{name: "tls 1.2", alpn: []string{"dot"}, max: tls.VersionTLS12},
		{name: "tls 1.1", max: tls.VersionTLS11, fail: true},
		{name: "other alpn", alpn: []string{"h2"}, fail: true},
		{name: "resumed", alpn: []string{"dot"}, cache: true, resume: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := insecure(c.alpn...)
			cfg.MinVersion, cfg.MaxVersion, cfg.ServerName = tls.VersionTLS10, c.max, "one.test"
			if c.cache {
				cfg.ClientSessionCache = cache
			}
			raw := dialTCP(t, l.Addrs().TLS[0])
			s := tls.Client(raw, cfg)
			if err := s.Handshake(); (err != nil) != c.fail {
				t.Fatal(err)
			}
			if c.fail {
				return
			}
			if got := s.ConnectionState().DidResume; got != c.resume {
				t.Errorf("resumed: %v", got)
			}
			send(t, s, ask(1, askPeer, ""))
			if got := receive(t, s); got != want(1, askPeer, raw.LocalAddr().String()+" dot 100") {
				t.Errorf("got %q", got)
			}
			send(t, s, ask(1, askLarge, ""), ask(2, askEcho, "small"))
			if got := receive(t, s); len(got) != 65535 {
				t.Errorf("large answer has %d octets", len(got))
			}
			if got := receive(t, s); got != want(2, askEcho, "small") {
				t.Errorf("got %q", got)
			}
			_ = s.CloseWrite()
			ended(t, s) // with close_notify: anything else were an error
			raw.Close()
		})
	}
	eventually(t, "failed handshakes", func() bool { return value("tls_handshakes_total", "dot", "failed") == 2 })
	if got := value("tls_handshakes_total", "dot", "done"); got != 4 {
		t.Errorf("%v handshakes", got)
	}
	eventually(t, "closed", func() bool {
		return value("stream_closed_total", "dot", "tls") == 2 && value("stream_closed_total", "dot", "client") == 4
	})
}

// delayed keeps what is written until flush, so that many records leave at once.
type delayed struct {
	net.Conn
	buf  bytes.Buffer
	hold bool
}

func (d *delayed) Write(b []byte) (int, error) {
	if d.hold {
		return d.buf.Write(b)
	}
	return d.Conn.Write(b)
}

// Queries of one record each that come together are answered with one write.
func TestDoTOneWrite(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		certFile, keyFile := certFiles(t, "one.test", time.Now().Add(time.Hour))
		certs := &certificate{certFile: certFile, keyFile: keyFile}
		if err := certs.load(time.Now()); err != nil {
			t.Fatal(err)
		}
		p := newPipeline(ListenConfig{}, new(fake))
		p.a.transport, p.a.tls = DoT, certs.config("dot")
		client, server := tcpPair(t)
		c := &conn{raw: countWrites{server, &p.writes}, transport: DoT, addr: addrPort(client.LocalAddr())}
		p.a.conns.add(c)
		done := make(chan struct{})
		go func() {
			p.a.serve(c)
			close(done)
		}()
		d := &delayed{Conn: client}
		cfg := insecure("dot")
		cfg.MaxVersion = version
		s := tls.Client(d, cfg)
		send(t, s, ask(0, askEcho, ""))
		receive(t, s)
		before := p.writes.Load()
		d.hold = true
		const n = 20
		for i := range n {
			send(t, s, ask(uint16(i), askEcho, "as long as a query"))
		}
		if _, err := client.Write(d.buf.Bytes()); err != nil {
			t.Fatal(err)
		}
		d.hold = false
		for i := range n {
			if got := receive(t, s); got != want(uint16(i), askEcho, "as long as a query") {
				t.Fatalf("got %q", got)
			}
		}
		if got := p.writes.Load() - before; got > 2 {
			t.Errorf("version %x: %d writes for %d queries", version, got, n)
		}
		client.Close()
		<-done
	}
}

func tcpPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	ln, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client = dialTCP(t, ln.Addr().(*net.TCPAddr).AddrPort())
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// A handshake that never ends, and one that is none.
func TestDoTHandshake(t *testing.T) {
	for _, c := range []struct{ name, send, reason string }{
		{"nothing", "", "first_message"},
		{"part of a hello", "\x16\x03\x01\x02\x00\x01", "first_message"},
		{"plain dns", "\x00\x10abcdefghijklmnop", "tls"},
		{"proxy header", string(proxyFrom("192.0.2.1:1")), "proxy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wait := 50 * time.Millisecond
			if c.reason != "first_message" {
				wait = time.Minute
			}
			l, value := servingTLS(t, ListenConfig{FirstTimeout: wait})
			before := value("stream_closed_total", "dot", c.reason)
			s := dialTCP(t, l.Addrs().TLS[0])
			if _, err := s.Write([]byte(c.send)); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, s)
			eventually(t, c.reason, func() bool { return value("stream_closed_total", "dot", c.reason) == before+1 })
			want := 0.0
			if c.reason == "proxy" {
				want = 1
			}
			if got := value("proxy_dropped_total", "dot", "untrusted"); got != want {
				t.Errorf("%v PROXY headers", got)
			}
		})
	}
}

func TestDoTProxy(t *testing.T) {
	l, value := servingTLS(t, ListenConfig{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	raw := dialTCP(t, l.Addrs().TLS[0])
	if _, err := raw.Write(proxyFrom("203.0.113.9:4711")); err != nil {
		t.Fatal(err)
	}
	s := tls.Client(raw, insecure("dot"))
	send(t, s, ask(1, askPeer, ""))
	if got := receive(t, s); got != want(1, askPeer, "203.0.113.9:4711 dot 100") {
		t.Errorf("got %q", got)
	}
	s = tls.Client(dialTCP(t, l.Addrs().TLS[0]), insecure("dot"))
	if err := s.Handshake(); err == nil {
		t.Error("a trusted sender got through without a header")
	}
	eventually(t, "counted", func() bool { return value("proxy_dropped_total", "dot", "missing") == 1 })
}

func peerName(t *testing.T, l *Listeners) string {
	t.Helper()
	s := tls.Client(dialTCP(t, l.Addrs().TLS[0]), insecure("dot"))
	if err := s.Handshake(); err != nil {
		t.Fatal(err)
	}
	return s.ConnectionState().PeerCertificates[0].DNSNames[0]
}

// A new certificate is taken without a restart, a bad one is not; connections that are open stay.
func TestCertificateReload(t *testing.T) {
	cert, key := certFiles(t, "one.test", time.Now().Add(time.Hour))
	goodCert, goodKey := certPEM(t, "two.test", time.Now().Add(2*time.Hour))
	oldCert, oldKey := certPEM(t, "old.test", time.Now().Add(-time.Hour))
	l, value := servingTLS(t, ListenConfig{CertFile: cert, KeyFile: key})
	open := tls.Client(dialTCP(t, l.Addrs().TLS[0]), insecure("dot"))
	if err := open.Handshake(); err != nil {
		t.Fatal(err)
	}
	expiry := value("tls_certificate_expiry_timestamp_seconds")
	for _, c := range []struct {
		name      string
		cert, key []byte
		err, peer string
	}{
		{"key of another", nil, oldKey, "private key does not match", "one.test"},
		{"no PEM", []byte("x"), goodKey, "failed to find any PEM data", "one.test"},
		{"expired", oldCert, oldKey, "expired on", "one.test"},
		{"good", goodCert, goodKey, "", "two.test"},
		{"empty", []byte{}, goodKey, "failed to find any PEM data", "two.test"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.cert != nil {
				writeFile(t, cert, c.cert)
			}
			writeFile(t, key, c.key)
			err := l.Reload()
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if got := peerName(t, l); got != c.peer {
				t.Errorf("serving %s, want %s", got, c.peer)
			}
		})
	}
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	if err := l.Reload(); err == nil || !strings.Contains(err.Error(), cert) {
		t.Errorf("got %v", err)
	}
	if done, failed := value("tls_reloads_total", "done"), value("tls_reloads_total", "failed"); done != 1 || failed != 5 {
		t.Errorf("%v done, %v failed", done, failed)
	}
	if got := value("tls_certificate_expiry_timestamp_seconds"); got <= expiry {
		t.Errorf("expiry %v, before %v", got, expiry)
	}
	send(t, open, ask(1, askEcho, ""))
	receive(t, open)
}

// A server starts with an expired certificate, because plain DNS needs none, and does not start without one.
func TestCertificateAtStart(t *testing.T) {
	cert, key := certFiles(t, "old.test", time.Now().Add(-time.Hour))
	l, _ := servingTLS(t, ListenConfig{CertFile: cert, KeyFile: key})
	if got := peerName(t, l); got != "old.test" {
		t.Errorf("serving %s", got)
	}
	_, err := listen(ListenConfig{TLS: []netip.AddrPort{lo4}, CertFile: cert + "x", KeyFile: key}, nil)
	if err == nil || !strings.Contains(err.Error(), "tls.crtx: no such file") {
		t.Errorf("got %v", err)
	}
	if err := (&Listeners{}).Reload(); err != nil {
		t.Errorf("without TLS: %v", err)
	}
}

// However the octets come, TLS sees the same, never beyond a record at once, and ready is true only if a whole record is there.
func FuzzRecordConn(f *testing.F) {
	record := append([]byte{tlsData, 3, 3, 0, 40}, make([]byte, 40)...)
	f.Add(append(bytes.Clone(record), record...), []byte{0})
	f.Add(append(bytes.Clone(record), record[:20]...), []byte{200, 3})
	f.Add([]byte{22, 3, 1, 0, 0, 22, 3, 1}, []byte{})
	f.Fuzz(func(t *testing.T, in, sizes []byte) {
		if signed(in) {
			return
		}
		var forged atomic.Bool
		c := newRecordConn(&chunked{in: bytes.Clone(in), sizes: sizes}, func() { forged.Store(true) })
		var got []byte
		buf := make([]byte, 100)
		left := 0 // of the record that got ends in; -1: unknown
		for {
			ready := c.ready()
			n, err := c.Read(buf)
			if ready && (n == 0 || err != nil) {
				t.Fatalf("ready, but %d %v", n, err)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || n == 0 {
				t.Fatal(n, err)
			}
			start := len(got)
			got = append(got, buf[:n]...)
			if left == 0 && len(got)-start >= tlsHeader {
				left = tlsHeader + int(got[start+3])<<8 + int(got[start+4])
			}
			if n > left && len(in)-start >= tlsHeader {
				t.Fatalf("%d octets with %d left of the record", n, left)
			}
			left = max(0, left-n)
		}
		if !bytes.Equal(got, in) || forged.Load() {
			t.Fatalf("got %x, want %x", got, in)
		}
	})
}
