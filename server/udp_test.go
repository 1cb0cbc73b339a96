package server

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// eachUDP runs a test with both loops.
func eachUDP(t *testing.T, f func(t *testing.T, cfg ListenConfig)) {
	t.Run("batch", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("the batch loop is for Linux")
		}
		f(t, ListenConfig{DNS: []netip.AddrPort{lo4}, UDPWorkers: 1})
	})
	t.Run("portable", func(t *testing.T) { f(t, ListenConfig{DNS: []netip.AddrPort{lo4}, UDPWorkers: 1, Portable: true}) })
}

func TestUDPExchange(t *testing.T) {
	eachUDP(t, func(t *testing.T, cfg ListenConfig) {
		cfg.DNS = []netip.AddrPort{lo4, lo6}
		l, reg := serving(t, cfg, nil)
		for _, addr := range l.Addrs().DNS {
			c := dialUDP(t, addr)
			long := strings.Repeat("x", 4000)
			for i, m := range []struct {
				what      byte
				rest, res string
			}{
				{askEcho, "", ""},
				{askEcho, "hello", "hello"},
				{askEcho, long, long},
				{askEcho, "again", "again"},
				{askPeer, "", c.LocalAddr().String() + " udp 0"},
				{askPeer, long, c.LocalAddr().String() + " udp 0"},
			} {
				id := uint16(i)
				if got := exchange(t, c, ask(id, m.what, m.rest)); got != want(id, m.what, m.res) {
					t.Errorf("%s %d: got %.60q", addr, i, got)
				}
			}
			// Silence, an empty datagram and one cut short move the counter and disturb nobody.
			for _, m := range [][]byte{ask(7, askSilence, ""), {}, {1}} {
				if _, err := c.Write(m); err != nil {
					t.Fatal(err)
				}
			}
			if got := exchange(t, c, ask(8, askEcho, "on")); got != want(8, askEcho, "on") {
				t.Errorf("%s: got %q", addr, got)
			}
			for name, n := range map[string]float64{"udp_received_total": 10, "udp_answered_total": 7, "udp_silent_total": 3, "udp_send_errors_total": 0} {
				eventually(t, name, func() bool { return value(t, reg, name, addr.String()) == n })
			}
		}
	})
}

// IPv6 addresses take no IPv4 in, so that ::, 0.0.0.0 and their metrics are two things.
func TestUDPv6Only(t *testing.T) {
	eachUDP(t, func(t *testing.T, cfg ListenConfig) {
		cfg.DNS = []netip.AddrPort{netip.MustParseAddrPort("[::]:0")}
		l, _ := serving(t, cfg, nil)
		c := dialUDP(t, netip.AddrPortFrom(lo4.Addr(), l.Addrs().DNS[0].Port()))
		_, _ = c.Write(ask(1, askEcho, ""))
		if n, err := c.Read(make([]byte, 10)); err == nil { // refused by ICMP
			t.Errorf("%d octets came by IPv4", n)
		}
	})
}

// On a wildcard address an answer leaves from where the query went to.
func TestUDPWildcard(t *testing.T) {
	eachUDP(t, func(t *testing.T, cfg ListenConfig) {
		cfg.DNS = []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:0"), netip.MustParseAddrPort("[::]:0")}
		l, _ := serving(t, cfg, nil)
		for _, to := range []string{"127.0.0.1", "127.0.0.2", "127.1.2.3", "::1"} {
			a := netip.MustParseAddr(to)
			port := l.Addrs().DNS[0].Port()
			if a.Is6() {
				port = l.Addrs().DNS[1].Port()
			}
			c, err := net.ListenUDP("udp", nil) // not connected: takes an answer from anywhere, and says from where
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			dst := netip.AddrPortFrom(a, port)
			for range 2 {
				if _, err := c.WriteToUDPAddrPort(ask(1, askEcho, to), dst); err != nil {
					t.Fatal(err)
				}
				buf := make([]byte, 100)
				n, from, err := c.ReadFromUDPAddrPort(buf)
				if err != nil {
					t.Fatal(err)
				}
				from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
				if from != dst || string(buf[:n]) != want(1, askEcho, to) {
					t.Errorf("asked %s, %q came from %s", dst, buf[:n], from)
				}
			}
		}
	})
}

// Several workers and many clients: everybody gets his own answer.
func TestUDPWorkers(t *testing.T) {
	eachUDP(t, func(t *testing.T, cfg ListenConfig) {
		cfg.UDPWorkers, cfg.Batch = 3, 4
		l, reg := serving(t, cfg, nil)
		const clients, rounds = 30, 20
		conns := make([]*net.UDPConn, clients)
		for i := range conns {
			conns[i] = dialUDP(t, l.Addrs().DNS[0])
		}
		for r := range rounds {
			for i, c := range conns {
				if _, err := c.Write(ask(uint16(r), askEcho, fmt.Sprint("client ", i))); err != nil {
					t.Fatal(err)
				}
			}
			for i, c := range conns {
				buf := make([]byte, 100)
				n, err := c.Read(buf)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := string(buf[:n]), want(uint16(r), askEcho, fmt.Sprint("client ", i)); got != want {
					t.Fatalf("got %q, want %q", got, want)
				}
			}
		}
		eventually(t, "all answered", func() bool { return value(t, reg, "udp_answered_total") == clients*rounds })
		if got := value(t, reg, "udp_workers"); got != 3 {
			t.Errorf("%v workers", got)
		}
	})
}

// What is queued when the server is told to stop is answered.
func TestUDPStopDrains(t *testing.T) {
	eachUDP(t, func(t *testing.T, cfg ListenConfig) {
		cfg.Batch = 2
		f := &fake{hold: make(chan struct{}), held: make(chan struct{}, 1)}
		l, _ := serving(t, cfg, func() answerer { return &fake{hold: f.hold, held: f.held} })
		c := dialUDP(t, l.Addrs().DNS[0])
		if _, err := c.Write(ask(0, askHold, "")); err != nil {
			t.Fatal(err)
		}
		<-f.held // the worker is at work; the rest waits in the socket
		for i := range 20 {
			if _, err := c.Write(ask(uint16(i+1), askEcho, "")); err != nil {
				t.Fatal(err)
			}
		}
		stopped := make(chan struct{})
		go func() {
			l.Stop(context.Background())
			close(stopped)
		}()
		<-l.stop.begun
		close(f.hold)
		for i := range 21 {
			buf := make([]byte, 10)
			if _, err := c.Read(buf); err != nil || buf[1] != byte(i) {
				t.Fatalf("answer %d: %v %v", i, buf[:2], err)
			}
		}
		<-stopped
		_, _ = c.Write(ask(99, askEcho, ""))
		if _, err := c.Read(make([]byte, 10)); err == nil {
			t.Error("answered after the stop")
		}
	})
}

// PROXY protocol on datagrams. 127.0.0.1 is trusted, 127.0.0.2 is not.
func TestUDPProxy(t *testing.T) {
	eachUDP(t, func(t *testing.T, cfg ListenConfig) {
		cfg.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		l, reg := serving(t, cfg, nil)
		for _, c := range proxyCases {
			t.Run(c.name, func(t *testing.T) {
				s, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(c.sender())}, net.UDPAddrFromAddrPort(l.Addrs().DNS[0]))
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				_ = s.SetDeadline(time.Now().Add(time.Minute))
				before := value(t, reg, "proxy_dropped_total", "udp")
				msg := append(bytes.Clone(c.header), ask(1, askPeer, "")...)
				if c.client == "" { // dropped
					if _, err := s.Write(msg); err != nil {
						t.Fatal(err)
					}
					eventually(t, c.drop, func() bool { return value(t, reg, "proxy_dropped_total", "udp") == before+1 })
					if got := value(t, reg, "proxy_dropped_total", "udp", c.drop); got < 1 {
						t.Errorf("not counted as %s", c.drop)
					}
					return
				}
				client := c.client
				if client == "sender" {
					client = s.LocalAddr().String()
				}
				if got := exchange(t, s, msg); got != want(1, askPeer, client+" udp 0") {
					t.Errorf("got %q", got)
				}
				// An answer has room after any header.
				if got := exchange(t, s, append(bytes.Clone(c.header), ask(1, askLarge, "")...)); len(got) < 1232 {
					t.Errorf("room for %d octets only", len(got))
				}
			})
		}
	})
}

// Idle workers let go of old snapshots, and do not hold up the garbage collector.
func TestUDPIdle(t *testing.T) {
	eachUDP(t, func(t *testing.T, cfg ListenConfig) {
		var refreshed atomic.Int64
		cfg.UDPWorkers = 2
		serving(t, cfg, func() answerer { return &fake{refreshed: &refreshed} })
		for range 5 {
			before := refreshed.Load()
			runtime.GC()
			eventually(t, "refreshed", func() bool { return refreshed.Load() > before })
		}
	})
}

// All threads may be waiting and Go still runs.
func TestUDPRaisesGOMAXPROCS(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	serving(t, ListenConfig{DNS: []netip.AddrPort{lo4, lo4}, UDPWorkers: 2}, nil)
	if got := runtime.GOMAXPROCS(0); runtime.GOOS == "linux" && got < 4+spareProcs {
		t.Errorf("GOMAXPROCS is %d with 4 workers", got)
	}
}

// Nothing that one worker writes for each datagram or batch shares a line of the cache with something of another worker, wherever they are allocated.
func TestUDPPadding(t *testing.T) {
	const line = 64
	var c udpCounters
	if first, end := unsafe.Offsetof(c.received), unsafe.Offsetof(c.proxy)+unsafe.Sizeof(c.proxy); first < line || unsafe.Sizeof(c)-end < line {
		t.Errorf("counters: %d before, %d behind", first, unsafe.Sizeof(c)-end)
	}
	var w udpWorker
	if first, end := unsafe.Offsetof(w.answerer), unsafe.Offsetof(w.peer)+unsafe.Sizeof(w.peer); first < line || unsafe.Sizeof(w)-end < line {
		t.Errorf("worker: %d before, %d behind", first, unsafe.Sizeof(w)-end)
	}
}

func TestUDPSlots(t *testing.T) {
	if udpSlot < 4096 || udpSlot-proxyMax < 1232 {
		t.Errorf("slots of %d octets", udpSlot)
	}
	if udpSlot%4096 == 0 {
		t.Error("slots share lines of the cache")
	}
}
