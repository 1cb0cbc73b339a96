package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// dohMsg is a message that net/http lets through: a header's length at least.
func dohMsg(what byte) []byte { return ask(1, what, "12345678") }

func dohClient(t testing.TB, http2 bool, header []byte) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: insecure(), ForceAttemptHTTP2: http2}
	if header != nil {
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil {
				_, err = c.Write(header)
			}
			return c, err
		}
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: time.Minute}
}

func servingHTTPS(t testing.TB, cfg ListenConfig) (*Listeners, string, func(name string, labels ...string) float64) {
	cfg.HTTPS = []netip.AddrPort{lo4}
	cfg.CertFile, cfg.KeyFile = certFiles(t, "one.test", time.Now().Add(time.Hour))
	l, reg := serving(t, cfg, nil)
	return l, "https://" + l.Addrs().HTTPS[0].String(), func(name string, labels ...string) float64 { return value(t, reg, name, labels...) }
}

func TestDoH(t *testing.T) {
	_, base, value := servingHTTPS(t, ListenConfig{})
	for _, http2 := range []bool{true, false} {
		client := dohClient(t, http2, nil)
		get := func(msg []byte) string { return "?dns=" + base64.RawURLEncoding.EncodeToString(msg) }
		for _, c := range []struct {
			name, method, path string
			kind               string
			body               []byte
			status             int
			answer             string // prefix
		}{
			{"post", "POST", "/dns-query", dnsMessage, dohMsg(askEcho), 200, want(1, askEcho, "12345678")},
			{"post with parameter", "POST", "/dns-query", "Application/DNS-Message; x=1", dohMsg(askEcho), 200, want(1, askEcho, "12345678")},
			{"post large answer", "POST", "/dns-query", dnsMessage, dohMsg(askLarge), 200, want(1, askLarge, "12345678")},
			{"post large query", "POST", "/dns-query", dnsMessage, ask(1, askEcho, strings.Repeat("x", 65531)), 200, want(1, askEcho, "xxx")},
			{"post too large", "POST", "/dns-query", dnsMessage, ask(1, askEcho, strings.Repeat("x", 65532)), 413, ""},
			{"post of another type", "POST", "/dns-query", "application/json", dohMsg(askEcho), 415, ""},
			{"post of no type", "POST", "/dns-query", "", dohMsg(askEcho), 415, ""},
			{"post empty", "POST", "/dns-query", dnsMessage, []byte{}, 400, ""},
			{"post short", "POST", "/dns-query", dnsMessage, []byte("12345678901"), 400, ""},
			{"post silence", "POST", "/dns-query", dnsMessage, dohMsg(askSilence), 400, ""},
			{"post transfer", "POST", "/dns-query", dnsMessage, dohMsg(askTransfer), 400, ""},
			{"get", "GET", "/dns-query" + get(dohMsg(askEcho)), "", nil, 200, want(1, askEcho, "12345678")},
			{"get with another parameter", "GET", "/dns-query" + get(dohMsg(askEcho)) + "&x=1", "", nil, 200, want(1, askEcho, "12345678")},
			{"get nothing", "GET", "/dns-query", "", nil, 400, ""},
			{"get no base64", "GET", "/dns-query?dns=***", "", nil, 400, ""},
			{"get padded", "GET", "/dns-query?dns=" + base64.URLEncoding.EncodeToString(ask(1, askEcho, "123456789")), "", nil, 400, ""},
			{"get short", "GET", "/dns-query" + get([]byte("12345678901")), "", nil, 400, ""},
			{"another path", "GET", "/nosuchpath" + get(dohMsg(askEcho)), "", nil, 404, ""},
			{"path below", "GET", "/dns-query/x" + get(dohMsg(askEcho)), "", nil, 404, ""},
			{"head", "HEAD", "/dns-query" + get(dohMsg(askEcho)), "", nil, 405, ""},
			{"put", "PUT", "/dns-query", dnsMessage, dohMsg(askEcho), 405, ""},
		} {
			t.Run(c.name, func(t *testing.T) {
				req, err := http.NewRequest(c.method, base+c.path, bytes.NewReader(c.body))
				if err != nil {
					t.Fatal(err)
				}
				if c.kind != "" {
					req.Header.Set("Content-Type", c.kind)
				}
				r, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Body.Close()
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Fatal(err)
				}
				if (r.ProtoMajor == 2) != http2 {
					t.Errorf("protocol %s", r.Proto)
				}
				if r.StatusCode != c.status {
					t.Fatalf("status %d, want %d", r.StatusCode, c.status)
				}
				if c.status == 405 && r.Header.Get("Allow") != "GET, POST" {
					t.Errorf("allow %q", r.Header.Get("Allow"))
				}
				if c.status != 200 {
					return
				}
				if got := r.Header.Get("Content-Type"); got != dnsMessage {
					t.Errorf("type %q", got)
				}
				if got := r.Header.Get("Cache-Control"); got != "private, max-age=0" {
					t.Errorf("cache control %q", got)
				}
				if !strings.HasPrefix(string(body), c.answer) {
					t.Errorf("got %.60q", body)
				}
			})
		}
	}
	for status, n := range map[string]float64{"200": 12, "400": 16, "404": 4, "405": 4, "413": 2, "415": 4} {
		if got := value("doh_responses_total", status); got != n {
			t.Errorf("%v of status %s, want %v", got, status, n)
		}
	}
	if got := value("stream_queries_total", "doh"); got != 16 {
		t.Errorf("%v queries", got)
	}
}

func TestDoHPeer(t *testing.T) {
	l, base, value := servingHTTPS(t, ListenConfig{HTTPSPath: "/q", Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	for _, http2 := range []bool{true, false} {
		r, err := dohClient(t, http2, proxyFrom("203.0.113.9:4711")).Post(base+"/q", dnsMessage, bytes.NewReader(dohMsg(askPeer)))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if got := string(body); got != want(1, askPeer, "203.0.113.9:4711 doh 0") {
			t.Errorf("got %q", got)
		}
	}
	if _, err := dohClient(t, true, nil).Get(base + "/q"); err == nil {
		t.Error("a trusted sender got through without a header")
	}
	s, err := net.DialTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, net.TCPAddrFromAddrPort(l.Addrs().HTTPS[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Write(proxyFrom("203.0.113.9:4711")); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, s)
	for _, reason := range []string{"missing", "untrusted"} {
		eventually(t, reason, func() bool { return value("proxy_dropped_total", "doh", reason) == 1 })
	}
	eventually(t, "closed", func() bool { return value("stream_closed_total", "doh", "proxy") == 2 })
}

// Connections of HTTPS count, and give way like the others.
func TestDoHConns(t *testing.T) {
	l, base, value := servingHTTPS(t, ListenConfig{MaxConns: 3})
	var idle []*tls.Conn
	for range 3 {
		s := tls.Client(dialTCP(t, l.Addrs().HTTPS[0]), insecure("h2"))
		if err := s.Handshake(); err != nil {
			t.Fatal(err)
		}
		idle = append(idle, s)
	}
	r, err := dohClient(t, true, nil).Post(base+"/dns-query", dnsMessage, bytes.NewReader(dohMsg(askEcho)))
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r, err)
	}
	_, _ = io.Copy(io.Discard, idle[0])
	eventually(t, "the oldest is closed", func() bool { return value("stream_closed_total", "doh", "limit") == 1 })
	if got := value("stream_connections", "doh"); got != 3 {
		t.Errorf("%v connections", got)
	}
	s := dialTCP(t, l.Addrs().HTTPS[0])
	if _, err := s.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, s)
	eventually(t, "no TLS", func() bool { return value("tls_handshakes_total", "doh", "failed") >= 1 })
	l.Stop(context.Background())
	// net/http does not wait for the goroutines of connections that it has cut off.
	eventually(t, "no connection is left", func() bool { return l.streams.conns.opened(DoH) == 0 })
}

func packed(t testing.TB, text ...string) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	m.SetQuestion("www.example.com.", dns.TypeA)
	m.Response = true
	m.Compress = true
	for _, s := range text {
		section, s, _ := strings.Cut(s, " ")
		rr, err := dns.NewRR(s)
		if err != nil {
			t.Fatal(err)
		}
		switch section {
		case "an":
			m.Answer = append(m.Answer, rr)
		case "ns":
			m.Ns = append(m.Ns, rr)
		case "ar":
			m.Extra = append(m.Extra, rr)
		}
	}
	return m
}

func TestFreshness(t *testing.T) {
	for _, c := range []struct {
		name  string
		rcode int
		tc    bool
		rrs   []string
		want  uint32
	}{
		{"one", 0, false, []string{"an www.example.com. 300 A 192.0.2.1"}, 300},
		{"least", 0, false, []string{"an www.example.com. 300 CNAME a.example.com.", "an a.example.com. 60 A 192.0.2.1"}, 60},
		{"zero", 0, false, []string{"an www.example.com. 0 A 192.0.2.1"}, 0},
		{"answer before authority", 0, false, []string{"an www.example.com. 300 A 192.0.2.1", "ns example.com. 10 NS ns.example.com.", "ar ns.example.com. 5 A 192.0.2.2"}, 300},
		{"negative", 3, false, []string{"ns example.com. 120 SOA a. b. 1 2 3 4 120"}, 120},
		{"referral", 0, false, []string{"ns example.com. 3600 NS ns.example.com.", "ar ns.example.com. 5 A 192.0.2.2"}, 3600},
		{"error", 2, false, []string{"an www.example.com. 300 A 192.0.2.1"}, 0},
		{"refused", 5, false, nil, 0},
		{"nothing", 0, false, nil, 0},
		{"truncated", 0, true, []string{"an www.example.com. 300 A 192.0.2.1"}, 0},
		{"past the range", 0, false, []string{"an www.example.com. 4294967295 A 192.0.2.1"}, 0},
	} {
		m := packed(t, c.rrs...)
		m.Rcode, m.Truncated = c.rcode, c.tc
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if got := freshness(b); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	for _, b := range []string{"", "12345678901", "\x00\x00\x80\x00\x00\x01\x00\x01\x00\x00\x00\x00", "\x00\x00\x80\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00"} {
		if got := freshness([]byte(b)); got != 0 {
			t.Errorf("%q: %d", b, got)
		}
	}
}

// The walk agrees with a library that unpacks everything.
func FuzzFreshness(f *testing.F) {
	for _, rrs := range [][]string{
		{"an www.example.com. 300 CNAME a.example.com.", "an a.example.com. 60 A 192.0.2.1"},
		{"ns example.com. 120 SOA a.example.com. b. 1 2 3 4 120"},
	} {
		b, err := packed(f, rrs...).Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := freshness(b)
		var m dns.Msg
		if m.Unpack(b) != nil {
			return
		}
		rrs := m.Answer
		if len(rrs) == 0 {
			rrs = m.Ns
		}
		want := uint32(0)
		if rc := b[3] & 15; len(rrs) > 0 && !m.Truncated && (rc == 0 || rc == 3) {
			want = ^uint32(0)
			for _, rr := range rrs {
				want = min(want, rr.Header().Ttl)
			}
			if want > 1<<31-1 {
				want = 0
			}
		}
		// The library takes a section that ends early for a shorter one.
		counts := int(b[6])<<8 + int(b[7])
		if counts == 0 {
			counts = int(b[8])<<8 + int(b[9])
		}
		if counts == len(rrs) && got != want {
			t.Errorf("%d, want %d", got, want)
		}
	})
}
