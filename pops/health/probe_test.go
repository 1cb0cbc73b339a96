package health

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/miekg/dns"
	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/edgesteer/edgesteer/server/config"
)

var home = netip.MustParseAddr("127.0.0.1")

// defaults are those that config.Load fills in.
func defaults(c config.Check) *config.Check {
	if c.Method == "" {
		c.Method = "GET"
	}
	if c.Path == "" {
		c.Path = "/"
	}
	if c.Status == nil {
		c.Status = []int{200}
	}
	if c.Type == "" {
		c.Type = "A"
	}
	if c.Rcode == "" {
		c.Rcode = "NOERROR"
	}
	return &c
}

// tried is what a probe of a check gives, as people see it.
func tried(t *testing.T, c config.Check, roots *x509.CertPool, timeout time.Duration) string {
	t.Helper()
	check, err := newCheck(defaults(c))
	if err != nil {
		t.Fatal(err)
	}
	trust(check, roots)
	warning, err := try(context.Background(), &target{check: check, timeout: timeout}, home)
	switch {
	case err != nil:
		return err.Error()
	case warning != "":
		return "warning: " + warning
	}
	return "good"
}

func trust(c Check, roots *x509.CertPool) {
	var d *dialer
	switch c := c.(type) {
	case tcpCheck:
		d = c.dialer
	case *httpCheck:
		d = c.dialer
	case websocketCheck:
		d = c.dialer
	case *grpcCheck:
		d = c.dialer
	case *dnsCheck:
		d = c.dialer
	}
	if d != nil && d.tls != nil {
		d.tls.RootCAs = roots
	}
}

func listen(t testing.TB) (net.Listener, int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, l.Addr().(*net.TCPAddr).Port
}

// closedPort is a port where nothing listens, and that no system gives to whoever asks for any (tcpmux).
const closedPort = 1

// deafPort is a port where connections are taken and nothing is said.
func deafPort(t *testing.T) int {
	t.Helper()
	_, port := listen(t)
	return port
}

// certificate is a self-signed one for example.com and 127.0.0.1.
func certificate(t testing.TB, from, to time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: to,
		DNSNames: []string{"example.com"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: parsed}, roots
}

func serve(t testing.TB, h http.Handler, cert *tls.Certificate) int {
	t.Helper()
	l, port := listen(t)
	if cert != nil {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*cert}})
	}
	s := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return port
}

const (
	short100 = 100 * time.Millisecond // for what does not answer
	upgraded = 2 * time.Second        // in which a machine accepts a websocket
)

// triedLonger is what a probe gives that waits for something after an upgrade. On a machine that stalls the time is over before the upgrade: then it gets more.
func triedLonger(t *testing.T, c config.Check) string {
	t.Helper()
	for timeout := upgraded; ; timeout *= 4 {
		if got := tried(t, c, nil, timeout); got != "timeout" || timeout > time.Minute {
			return got
		}
	}
}

func TestTCP(t *testing.T) {
	_, port := listen(t)
	for _, tt := range []struct {
		name string
		port int
		want string
	}{
		{"open", port, "good"},
		{"closed", closedPort, "connection refused"},
	} {
		if got := tried(t, config.Check{Kind: "tcp", Port: tt.port}, nil, 30*time.Second); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestHTTP(t *testing.T) {
	now := time.Now()
	good, roots := certificate(t, now.Add(-time.Hour), now.Add(365*24*time.Hour))
	ending, endingRoots := certificate(t, now.Add(-time.Hour), now.Add(24*time.Hour))
	ended, endedRoots := certificate(t, now.Add(-48*time.Hour), now.Add(-time.Hour))
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-State", "ready")
		fmt.Fprintf(w, "%s %s %s", r.Method, r.Host, r.Header.Get("X-Probe"))
	})
	mux.HandleFunc("/sick", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	plain, secure := serve(t, mux, nil), serve(t, mux, &good)
	for _, tt := range []struct {
		name  string
		check config.Check
		roots *x509.CertPool
		want  string
	}{
		{"status", config.Check{Kind: "http", Port: plain}, nil, "good"},
		{"wrong status", config.Check{Kind: "http", Port: plain, Path: "/sick"}, nil, "status 503"},
		{"that status", config.Check{Kind: "http", Port: plain, Path: "/sick", Status: []int{200, 503}}, nil, "good"},
		{"a redirect is not followed", config.Check{Kind: "http", Port: plain, Path: "/moved"}, nil, "status 302"},
		{"host, method and headers are sent", config.Check{Kind: "http", Port: plain, Host: "example.com", Method: "POST", Headers: map[string]string{"X-Probe": "7"}, Body: "^POST example.com 7$"}, nil, "good"},
		{"body", config.Check{Kind: "http", Port: plain, Body: "nothing"}, nil, `the body does not match "nothing"`},
		{"header", config.Check{Kind: "http", Port: plain, Expect: map[string]string{"x-state": "^ready$"}}, nil, "good"},
		{"wrong header", config.Check{Kind: "http", Port: plain, Expect: map[string]string{"X-State": "gone"}}, nil, `header X-State does not match "gone"`},
		{"no header", config.Check{Kind: "http", Port: plain, Expect: map[string]string{"X-Other": ""}}, nil, "no header X-Other"},
		{"slow", config.Check{Kind: "http", Port: plain, Path: "/slow"}, nil, "timeout"},
		{"closed", config.Check{Kind: "http", Port: closedPort}, nil, "connection refused"},
		{"deaf", config.Check{Kind: "http", Port: deafPort(t)}, nil, "timeout"},
		{"TLS", config.Check{Kind: "https", Port: secure, Verify: true, Host: "example.com"}, roots, "good"},
		{"TLS by address", config.Check{Kind: "https", Port: secure, Verify: true}, roots, "good"},
		{"TLS by tls", config.Check{Kind: "http", TLS: true, Port: secure, Verify: true, SNI: "example.com", Host: "other.example"}, roots, "good"},
		{"other name", config.Check{Kind: "https", Port: secure, Verify: true, Host: "other.example"}, roots, "certificate is for another name"},
		{"unknown authority", config.Check{Kind: "https", Port: secure, Verify: true, Host: "example.com"}, endingRoots, "certificate is of an unknown authority"},
		{"not verified", config.Check{Kind: "https", Port: secure}, endingRoots, "good"},
		{"ended", config.Check{Kind: "https", Port: serve(t, mux, &ended), Verify: true}, endedRoots, "certificate has expired or is not valid yet"},
		{"ends soon", config.Check{Kind: "https", Port: serve(t, mux, &ending), Verify: true, Expiry: 336 * time.Hour}, endingRoots, "warning: the certificate ends " + now.Add(24*time.Hour).UTC().Format(time.DateOnly)},
		{"ends soon enough", config.Check{Kind: "https", Port: serve(t, mux, &ending), Verify: true, Expiry: time.Hour}, endingRoots, "good"},
		{"no TLS there", config.Check{Kind: "https", Port: plain}, nil, "no TLS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			timeout := 30 * time.Second
			if tt.want == "timeout" {
				timeout = short100
			}
			if got := tried(t, tt.check, tt.roots, timeout); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// The second handshake with an address takes up the session of the first.
func TestResumption(t *testing.T) {
	now := time.Now()
	cert, roots := certificate(t, now.Add(-time.Hour), now.Add(365*24*time.Hour))
	resumed := make(chan bool, 1)
	port := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { resumed <- r.TLS.DidResume }), &cert)
	check, err := newCheck(defaults(config.Check{Kind: "https", Port: port, Verify: true}))
	if err != nil {
		t.Fatal(err)
	}
	trust(check, roots)
	for i := range 3 {
		if err := check.Probe(t.Context(), home); err != nil {
			t.Fatal(err)
		}
		if got := <-resumed; got != (i > 0) {
			t.Errorf("handshake %d: resumed %t", i, got)
		}
	}
}

// byHand is a server that speaks raw: it answers the upgrade with what the test says, and then is silent.
func byHand(t *testing.T, answer func(key string) string) int {
	t.Helper()
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(rw, answer(r.Header.Get("Sec-WebSocket-Key")))
		rw.Flush()
		io.Copy(io.Discard, bufio.NewReader(conn))
	}), nil)
}

// The example of RFC 6455, section 1.3.
func TestAcceptKey(t *testing.T) {
	if got := acceptKey("dGhlIHNhbXBsZSBub25jZQ=="); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Error(got)
	}
}

func TestWebsocket(t *testing.T) {
	upgrade := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
	good := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ws" || r.Host != "example.com" || r.Header.Get("X-Probe") != "7" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		c.Read(r.Context()) // answers pings, and the close
	})
	now := time.Now()
	cert, roots := certificate(t, now.Add(-time.Hour), now.Add(24*time.Hour))
	like := func(port int) config.Check {
		return config.Check{Kind: "websocket", Port: port, Path: "/ws", Host: "example.com", Headers: map[string]string{"X-Probe": "7"}}
	}
	secure := like(serve(t, good, &cert))
	secure.TLS, secure.Verify, secure.Expiry = true, true, 336*time.Hour
	for _, tt := range []struct {
		name  string
		check config.Check
		want  string
	}{
		{"good", like(serve(t, good, nil)), "good"},
		{"with TLS", secure, "warning: the certificate ends " + now.Add(24*time.Hour).UTC().Format(time.DateOnly)},
		{"refuses the upgrade", like(serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }), nil)), "upgrade refused: status 503"},
		{"answers as if it were a page", like(serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }), nil)), "upgrade refused: status 200"},
		{"wrong accept key", like(byHand(t, func(string) string { return upgrade + "Sec-WebSocket-Accept: " + acceptKey("other") + "\r\n\r\n" })), "wrong Sec-WebSocket-Accept"},
		{"no accept key", like(byHand(t, func(string) string { return upgrade + "\r\n" })), "upgrade without Sec-WebSocket-Accept"},
		{"no pong", like(byHand(t, func(key string) string { return upgrade + "Sec-WebSocket-Accept: " + acceptKey(key) + "\r\n\r\n" })), "no pong in time"},
		{"deaf", like(deafPort(t)), "timeout"},
		{"closed", like(closedPort), "connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			switch tt.want {
			case "timeout":
				got = tried(t, tt.check, roots, short100)
			case "no pong in time":
				got = triedLonger(t, tt.check)
			default:
				got = tried(t, tt.check, roots, 30*time.Second)
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// A server that takes its time for the pong is good as long as it is within the timeout.
func TestWebsocketLatePong(t *testing.T) {
	var after atomic.Int64
	after.Store(int64(2 * short100))
	port := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{OnPingReceived: func(ctx context.Context, _ []byte) bool {
			select {
			case <-time.After(time.Duration(after.Load())):
			case <-ctx.Done():
			}
			return true
		}})
		if err != nil {
			return
		}
		defer c.CloseNow()
		c.Read(r.Context())
	}), nil)
	if got := tried(t, config.Check{Kind: "websocket", Port: port}, nil, 30*time.Second); got != "good" {
		t.Errorf("a pong in time: %s", got)
	}
	after.Store(int64(time.Hour))
	if got := triedLonger(t, config.Check{Kind: "websocket", Port: port}); got != "no pong in time" {
		t.Errorf("a pong too late: %s", got)
	}
}

func TestDNS(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	s := &dns.Server{PacketConn: pc, NotifyStartedFunc: func() { close(ready) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		r := new(dns.Msg)
		r.SetReply(q)
		switch q.Question[0].Name {
		case "silent.example.":
			return
		case "other.example.":
			r.Rcode = dns.RcodeRefused
		}
		w.WriteMsg(r)
	})}
	go s.ActivateAndServe()
	t.Cleanup(func() { s.Shutdown() })
	<-ready
	port := pc.LocalAddr().(*net.UDPAddr).Port
	for _, tt := range []struct{ name, rcode, want string }{
		{"example.com", "NOERROR", "good"},
		{"other.example", "NOERROR", "RCODE REFUSED"},
		{"other.example", "REFUSED", "good"},
		{"silent.example", "NOERROR", "timeout"},
	} {
		timeout := 30 * time.Second
		if tt.want == "timeout" {
			timeout = short100
		}
		if got := tried(t, config.Check{Kind: "dns", Port: port, Name: tt.name, Rcode: tt.rcode}, nil, timeout); got != tt.want {
			t.Errorf("%s wanting %s: %s, want %s", tt.name, tt.rcode, got, tt.want)
		}
	}
}

func TestGRPC(t *testing.T) {
	l, port := listen(t)
	s := grpc.NewServer()
	h := grpchealth.NewServer()
	h.SetServingStatus("good", grpc_health_v1.HealthCheckResponse_SERVING)
	h.SetServingStatus("sick", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(s, h)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	for _, tt := range []struct {
		service string
		port    int
		want    string
	}{
		{"", port, "good"},
		{"good", port, "good"},
		{"sick", port, "gRPC health not_serving"},
		{"other", port, "gRPC NotFound"},
		{"", closedPort, "connection refused"},
		{"", deafPort(t), "timeout"},
	} {
		timeout := 30 * time.Second
		if tt.want == "timeout" {
			timeout = short100
		}
		if got := tried(t, config.Check{Kind: "grpc", Port: tt.port, Service: tt.service}, nil, timeout); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.service, got, tt.want)
		}
	}
}

func TestICMP(t *testing.T) {
	got := tried(t, config.Check{Kind: "icmp"}, nil, 30*time.Second)
	if strings.Contains(got, "ping_group_range") {
		t.Skip(got)
	}
	if got != "good" {
		t.Error(got)
	}
}

func TestExec(t *testing.T) {
	for _, tt := range []struct {
		script, want string
	}{
		{`exit 0`, "good"},
		{`echo sick >&2; exit 3`, "exit code 3: sick"},
		{`exit 1`, "exit code 1"},
		{`test "$1:$2" = 127.0.0.1:81`, "good"},
		{`sleep 60`, "timeout"},
		{`sleep 60 & exit 0`, "good"},
		{`trap "" TERM INT; while true; do sleep 1; done`, "timeout"},
		{`yes | head -c 10000000; exit 2`, "exit code 2: y"},
		{`kill -9 $$`, "signal: killed"},
	} {
		timeout := 30 * time.Second
		if tt.want == "timeout" {
			timeout = 2 * short100
		}
		start := time.Now()
		got := tried(t, config.Check{Kind: "exec", Port: 81, Command: []string{"/bin/sh", "-c", tt.script, "sh", "{address}", "{port}"}}, nil, timeout)
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.script, got, tt.want)
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%s took %s", tt.script, d)
		}
	}
	if got := tried(t, config.Check{Kind: "exec", Command: []string{"/nowhere"}}, nil, 30*time.Second); !strings.HasPrefix(got, "the command does not run: ") {
		t.Error(got)
	}
}

// A source address that this node does not have is this node's fault.
func TestSource(t *testing.T) {
	_, port := listen(t)
	for source, want := range map[string]string{
		"127.0.0.9": "good",
		"192.0.2.1": "this node does not have the source address",
	} {
		if got := tried(t, config.Check{Kind: "tcp", Port: port, Source: []string{source}}, nil, 30*time.Second); got != want {
			t.Errorf("from %s: %s, want %s", source, got, want)
		}
	}
}

// Whatever a server says, the evidence is one short line.
func TestCut(t *testing.T) {
	for in, want := range map[string]string{
		"a\r\nb\x1b[31m\tc":      "a b [31m c",
		"\xff":                   "?",
		strings.Repeat("x", 200): strings.Repeat("x", maxText-1) + "…",
	} {
		if got := cut(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
