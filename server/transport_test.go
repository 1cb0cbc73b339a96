package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// What the fake answerer does is said by the fourth octet of a message, its answer begins with the first four, QR on.
const (
	askEcho      = 0
	askSilence   = 1
	askPeer      = 2 // the Peer as text
	askLarge     = 3 // as long as the room allows, at most 65535
	askTransfer  = 4 // three messages
	askHold      = 5 // an echo once hold is closed
	askHoldLarge = 6 // askLarge once hold is closed
)

// fake is an answerer without DNS.
type fake struct {
	transfer  Transfer
	hold      chan struct{}
	held      chan struct{} // gets a token for each message that waits
	endless   bool          // transfers do not end by themselves
	refreshed *atomic.Int64
}

func (f *fake) Refresh() {
	if f.refreshed != nil {
		f.refreshed.Add(1)
	}
}

func (f *fake) Done() {}

func (f *fake) Transfer() Transfer { return f.transfer }

func (f *fake) Handle(msg, buf []byte, p *Peer) []byte {
	f.transfer = nil
	if len(msg) < 4 {
		return nil
	}
	what := msg[3]
	switch what {
	case askSilence:
		return nil
	case askTransfer:
		head := bytes.Clone(msg[:4])
		f.transfer = func(send func([]byte) error) error {
			for i := 0; i < 3 || f.endless; i++ {
				if err := send(append(bytes.Clone(head), byte(i))); err != nil {
					return err
				}
			}
			return nil
		}
		return nil
	case askHold, askHoldLarge:
		f.held <- struct{}{}
		<-f.hold
	}
	a := append(buf, msg...)
	switch what {
	case askPeer:
		a = fmt.Appendf(a[:4], "%s %s %d", p.Addr, transportNames[p.Transport], p.IdleTimeout)
	case askLarge, askHoldLarge:
		a = a[:min(cap(a), streamMessage)]
	}
	a[2] |= 0x80
	return a
}

// ask makes a message.
func ask(id uint16, what byte, rest string) []byte {
	return append([]byte{byte(id >> 8), byte(id), 1, what}, rest...)
}

// want is the echo of ask.
func want(id uint16, what byte, rest string) string {
	return string(append([]byte{byte(id >> 8), byte(id), 0x81, what}, rest...))
}

var (
	lo4 = netip.MustParseAddrPort("127.0.0.1:0")
	lo6 = netip.MustParseAddrPort("[::1]:0")
)

// serving starts listeners that the end of the test stops. A client may take a minute for a message, unless the test says otherwise: a machine that stalls is none that is slow on purpose.
func serving(t testing.TB, cfg ListenConfig, f func() answerer) (*Listeners, *prometheus.Registry) {
	t.Helper()
	if f == nil {
		f = func() answerer { return new(fake) }
	}
	reg := prometheus.NewPedanticRegistry()
	cfg.Metrics = reg
	if cfg.StreamWorkers == 0 {
		cfg.StreamWorkers = 2
	}
	cfg.FirstTimeout, cfg.MessageTimeout = cmp.Or(cfg.FirstTimeout, time.Minute), cmp.Or(cfg.MessageTimeout, time.Minute)
	l, err := listen(cfg, f)
	if err != nil {
		t.Fatal(err)
	}
	l.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		l.Stop(ctx)
	})
	return l, reg
}

// value is the sum of the samples of a metric whose labels include all of the given label values.
func value(t testing.TB, reg *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "edgesteer_"+name {
			continue
		}
		sum, found := 0.0, false
		for _, m := range f.GetMetric() {
			have := make(map[string]bool)
			for _, l := range m.GetLabel() {
				have[l.GetValue()] = true
			}
			fits := true
			for _, l := range labels {
				fits = fits && have[l]
			}
			if fits {
				found = true
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
		if !found {
			t.Fatalf("no series of %s with %q", name, labels)
		}
		return sum
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// eventually waits for a counter that another goroutine moves soon after what the test has seen.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func dialUDP(t testing.TB, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

func dialTCP(t testing.TB, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// exchange sends a datagram and gives the next one that comes.
func exchange(t testing.TB, c *net.UDPConn, msg []byte) string {
	t.Helper()
	if _, err := c.Write(msg); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<16)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func send(t testing.TB, w io.Writer, msgs ...[]byte) {
	t.Helper()
	var b []byte
	for _, m := range msgs {
		b = appendFrame(b, m)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
}

func receive(t testing.TB, r io.Reader) string {
	t.Helper()
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ended waits for the server to close a connection.
func ended(t testing.TB, r io.Reader) {
	t.Helper()
	if b, err := io.ReadAll(r); len(b) > 0 {
		t.Fatalf("got %q (%v), want the end", b, err)
	}
}

func TestListenConfig(t *testing.T) {
	dns := []netip.AddrPort{lo4}
	for _, c := range []struct {
		name string
		cfg  ListenConfig
		want string // in the error; empty: none
	}{
		{"defaults", ListenConfig{DNS: dns}, ""},
		{"no address", ListenConfig{}, "DNS: no address"},
		{"invalid address", ListenConfig{DNS: []netip.AddrPort{{}}}, "DNS: an address is missing"},
		{"mapped", ListenConfig{DNS: []netip.AddrPort{netip.MustParseAddrPort("[::ffff:127.0.0.1]:53")}}, "hint: write 127.0.0.1"},
		{"twice", ListenConfig{DNS: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:53"), netip.MustParseAddrPort("127.0.0.1:53")}}, "listed twice"},
		{"workers", ListenConfig{DNS: dns, UDPWorkers: 257}, "UDPWorkers: 257 is outside 1 to 256"},
		{"negative", ListenConfig{DNS: dns, MaxConns: -1}, "MaxConns: -1"},
		{"batch", ListenConfig{DNS: dns, Batch: 1000}, "Batch: 1000"},
		{"idle", ListenConfig{DNS: dns, IdleTimeout: time.Millisecond}, "IdleTimeout: 1ms is outside 100ms to 1h0m0s"},
		{"path", ListenConfig{DNS: dns, HTTPSPath: "dns"}, "HTTPSPath"},
		{"steer", ListenConfig{DNS: dns, Steer: 9}, "Steer"},
		{"no certificate", ListenConfig{TLS: dns}, "CertFile, KeyFile"},
		{"needless certificate", ListenConfig{DNS: dns, CertFile: "a"}, "CertFile, KeyFile"},
		{"proxy", ListenConfig{DNS: dns, Proxies: []netip.Prefix{{}}}, "Proxies"},
		{"all at once", ListenConfig{UDPWorkers: -1, Batch: -1}, "Batch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.cfg.fill()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestBindFails(t *testing.T) {
	busy, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	addr := busy.Addr().(*net.TCPAddr).AddrPort()
	_, err = listen(ListenConfig{DNS: []netip.AddrPort{addr}}, nil)
	if err == nil || !strings.Contains(err.Error(), "hint: ss -lnup") {
		t.Errorf("got %v", err)
	}
	// What was bound before has been given back.
	u, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(addr))
	if err != nil {
		t.Fatal(err)
	}
	u.Close()
	if _, err := listen(ListenConfig{DNS: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:53")}}, nil); err == nil || !strings.Contains(err.Error(), "hint: no interface") {
		t.Errorf("got %v", err)
	}
}

// A new port is the same for UDP, all its workers, and TCP; nobody else has it.
func TestAddrs(t *testing.T) {
	for _, portable := range []bool{false, true} {
		cfg := ListenConfig{DNS: []netip.AddrPort{lo4, lo6}, UDPWorkers: 3, Portable: portable}
		l, _ := serving(t, cfg, nil)
		got := l.Addrs().DNS
		if len(got) != 2 || got[0].Addr() != lo4.Addr() || got[1].Addr() != lo6.Addr() || got[0].Port() == 0 {
			t.Fatalf("got %v", got)
		}
		for _, a := range got {
			if g := exchange(t, dialUDP(t, a), ask(1, askEcho, "u")); g != want(1, askEcho, "u") {
				t.Errorf("udp %s: %q", a, g)
			}
			c := dialTCP(t, a)
			send(t, c, ask(1, askEcho, "t"))
			if g := receive(t, c); g != want(1, askEcho, "t") {
				t.Errorf("tcp %s: %q", a, g)
			}
		}
	}
}

// An address that somebody else listens on is refused, for UDP and for TCP; the same port of the other family is no matter.
func TestAddressInUse(t *testing.T) {
	u, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	for _, at := range []net.Addr{u.LocalAddr(), tcp.Addr()} {
		port := netip.MustParseAddrPort(at.String()).Port()
		for _, portable := range []bool{false, true} {
			cfg := ListenConfig{DNS: []netip.AddrPort{netip.AddrPortFrom(lo4.Addr(), port)}, Portable: portable}
			if _, err := listen(cfg, func() answerer { return new(fake) }); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("%s %s is in use: %v", at.Network(), at, err)
			}
			cfg.DNS[0] = netip.AddrPortFrom(netip.IPv6Unspecified(), port)
			l, err := listen(cfg, func() answerer { return new(fake) })
			if err != nil {
				t.Errorf("%s %s is in use, and [::]:%d is not: %v", at.Network(), at, port, err)
				continue
			}
			l.Start()
			l.Stop(t.Context())
		}
	}
}

// Every series is there before the first message, and every name and help is well formed.
func TestTransportMetrics(t *testing.T) {
	cert, key := certFiles(t, "a.test", time.Now().Add(time.Hour))
	_, reg := serving(t, ListenConfig{DNS: []netip.AddrPort{lo4}, TLS: []netip.AddrPort{lo4}, HTTPS: []netip.AddrPort{lo4}, CertFile: cert, KeyFile: key}, nil)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	for _, m := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"udp_received_total", nil, 0},
		{"udp_kernel_drops_total", nil, 0},
		{"stream_closed_total", []string{"tcp", "limit"}, 0},
		{"stream_closed_total", []string{"dot", "tls"}, 0},
		{"stream_connections", []string{"doh"}, 0},
		{"proxy_dropped_total", []string{"udp", "untrusted"}, 0},
		{"doh_responses_total", []string{"415"}, 0},
		{"stream_limit", []string{"connections"}, 10_000},
		{"stream_limit", []string{"connections_per_client"}, 256},
		{"stream_limit", []string{"transfers"}, 16},
		{"stream_limit", []string{"https_streams"}, 100},
		{"tls_reloads_total", []string{"failed"}, 0},
	} {
		if got := value(t, reg, m.name, m.labels...); got != m.want {
			t.Errorf("%s%q is %v, want %v", m.name, m.labels, got, m.want)
		}
	}
}
