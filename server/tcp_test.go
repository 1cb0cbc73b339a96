package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTCPExchange(t *testing.T) {
	l, reg := serving(t, ListenConfig{DNS: []netip.AddrPort{lo4, lo6}}, nil)
	for _, addr := range l.Addrs().DNS {
		c := dialTCP(t, addr)
		long := strings.Repeat("x", 65000)
		// One at a time, and in any size.
		for i, rest := range []string{"", "hello", long, "again"} {
			send(t, c, ask(uint16(i), askEcho, rest))
			if got := receive(t, c); got != want(uint16(i), askEcho, rest) {
				t.Errorf("%s %d: got %.60q", addr, i, got)
			}
		}
		// All at once: answers of any size, silence between them.
		send(t, c, ask(1, askLarge, ""), ask(2, askEcho, "a"), ask(3, askSilence, ""), ask(4, askLarge, ""), ask(5, askPeer, ""), nil, ask(6, askEcho, "b"))
		for i := range 2 {
			if got := receive(t, c); len(got) != 65535 {
				t.Errorf("large answer has %d octets", len(got))
			}
			next := want(2, askEcho, "a")
			if i == 1 {
				next = want(5, askPeer, c.LocalAddr().String()+" tcp 100")
			}
			if got := receive(t, c); got != next {
				t.Errorf("got %q, want %q", got, next)
			}
		}
		if got := receive(t, c); got != want(6, askEcho, "b") {
			t.Errorf("got %q", got)
		}
		// Half a close: what was asked is answered, then comes the end.
		send(t, c, ask(7, askEcho, "last"))
		_ = c.CloseWrite()
		if got := receive(t, c); got != want(7, askEcho, "last") {
			t.Errorf("got %q", got)
		}
		ended(t, c)
	}
	for name, n := range map[string]float64{"stream_accepted_total": 2, "stream_queries_total": 24, "stream_answers_total": 20} {
		if got := value(t, reg, name, "tcp"); got != n {
			t.Errorf("%s is %v, want %v", name, got, n)
		}
	}
	eventually(t, "both closed by the client", func() bool { return value(t, reg, "stream_closed_total", "tcp", "client") == 2 })
	eventually(t, "none open", func() bool { return value(t, reg, "stream_connections", "tcp") == 0 })
}

// Segments end anywhere.
func TestTCPSegments(t *testing.T) {
	l, _ := serving(t, ListenConfig{DNS: []netip.AddrPort{lo4}}, nil)
	b := appendFrame(appendFrame(nil, ask(1, askEcho, "one")), ask(2, askEcho, "two"))
	for size := 1; size <= len(b); size++ {
		c := dialTCP(t, l.Addrs().DNS[0])
		for rest := b; len(rest) > 0; {
			n := min(size, len(rest))
			if _, err := c.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		for i, text := range []string{"one", "two"} {
			if got := receive(t, c); got != want(uint16(i+1), askEcho, text) {
				t.Errorf("segments of %d: got %q", size, got)
			}
		}
	}
}

// A thousand clients that hold connections without using them, or use them slowly, and a good one: it is answered, and who was idle for longest had to go.
func TestTCPSlowClients(t *testing.T) {
	const held = 1000
	for _, c := range []struct {
		name             string
		limit, perClient int
		reason           string
		first            []byte // what a slow client sends
	}{
		{name: "idle", limit: 200, perClient: 10_000, reason: "limit"},
		{name: "a length and an octet", limit: 200, perClient: 10_000, reason: "limit", first: []byte{0, 50, 1}},
		{name: "one client", limit: 10_000, perClient: 200, reason: "client_limit", first: []byte{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, reg := serving(t, ListenConfig{DNS: []netip.AddrPort{lo4}, MaxConns: c.limit, MaxConnsPerClient: c.perClient, IdleTimeout: time.Hour}, nil)
			steady := dialTCP(t, l.Addrs().DNS[0]) // uses its connection now and then
			var slow []*net.TCPConn
			for i := range held {
				s := dialTCP(t, l.Addrs().DNS[0])
				slow = append(slow, s)
				if _, err := s.Write(c.first); err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				if i%50 == 0 {
					eventually(t, "accepted", func() bool { return value(t, reg, "stream_accepted_total", "tcp") >= float64(i+2) })
					send(t, steady, ask(uint16(i), askEcho, "steady"))
					if got := receive(t, steady); got != want(uint16(i), askEcho, "steady") {
						t.Fatalf("got %q", got)
					}
				}
			}
			good := dialTCP(t, l.Addrs().DNS[0])
			send(t, good, ask(7, askEcho, "good"))
			if got := receive(t, good); got != want(7, askEcho, "good") {
				t.Errorf("got %q", got)
			}
			eventually(t, "the table is full", func() bool { return value(t, reg, "stream_connections", "tcp") == 200 })
			eventually(t, "all others are counted", func() bool { return value(t, reg, "stream_closed_total", "tcp", c.reason) == held+2-200 })
			// The oldest had to go, the youngest are there.
			ended(t, ignoreReset{slow[0]})
			ended(t, ignoreReset{slow[held-200-10]})
			if _, err := slow[held-1].Write([]byte{0}); err != nil {
				t.Error(err)
			}
		})
	}
}

// ignoreReset reads a reset as an end: the server closed with octets unread.
type ignoreReset struct{ net.Conn }

func (c ignoreReset) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	return n, err
}

// pipeline is a session over a pipe, with the time of a synctest bubble.
type pipeline struct {
	net.Conn // the client's end
	a        *acceptor
	writes   atomic.Int64 // by the server
	drips    sync.WaitGroup
}

type countWrites struct {
	net.Conn
	n *atomic.Int64
}

func (c countWrites) Write(b []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(b)
}

func newPipeline(cfg ListenConfig, f *fake) *pipeline {
	cfg.DNS = []netip.AddrPort{lo4}
	if err := cfg.fill(); err != nil {
		panic(err)
	}
	s := &streams{
		cfg: &cfg, conns: newConns(cfg.MaxConns, cfg.MaxConnsPerClient), workers: newWorkers(1, func() answerer { return f }),
		transfers: make(chan struct{}, cfg.MaxTransfers), count: new(streamCounters), stop: &stopper{begun: make(chan struct{})},
	}
	return &pipeline{a: &acceptor{transport: TCP, streams: s}}
}

func (p *pipeline) dial() {
	client, server := net.Pipe()
	p.Conn = client
	c := &conn{raw: countWrites{server, &p.writes}, transport: TCP, addr: netip.MustParseAddrPort("192.0.2.1:4711")}
	p.a.conns.add(c)
	go p.a.serve(c)
}

// reason waits for the end of the connection and gives its reason.
func (p *pipeline) reason() string {
	_, _ = io.Copy(io.Discard, p.Conn)
	synctest.Wait()
	for i := range p.a.count.closed {
		if p.a.count.closed[i].Load() > 0 {
			return closeReasonNames[i]
		}
	}
	return ""
}

// How long a client may take for what.
func TestTCPTimeouts(t *testing.T) {
	frame := appendFrame(nil, ask(1, askEcho, "hello"))
	drip := func(p *pipeline, b []byte, every time.Duration) {
		for i := range b {
			if _, err := p.Write(b[i : i+1]); err != nil {
				return
			}
			time.Sleep(every)
		}
	}
	for _, c := range []struct {
		name   string
		client func(t *testing.T, p *pipeline)
		reason string
		after  time.Duration
		slack  time.Duration
	}{
		{"nothing", func(t *testing.T, p *pipeline) {}, "first_message", 3 * time.Second, 0},
		{"first message in drips", func(t *testing.T, p *pipeline) { p.drips.Go(func() { drip(p, frame, time.Second) }) }, "first_message", 3 * time.Second, 0},
		{"idle", func(t *testing.T, p *pipeline) {
			send(t, p, ask(1, askEcho, ""))
			receive(t, p)
		}, "idle", 10 * time.Second, 10 * time.Second / 16},
		{"idle after another", func(t *testing.T, p *pipeline) {
			for range 5 {
				send(t, p, ask(1, askEcho, ""))
				receive(t, p)
				time.Sleep(8 * time.Second)
			}
		}, "idle", 42 * time.Second, 10 * time.Second / 16},
		{"second message in drips", func(t *testing.T, p *pipeline) {
			send(t, p, ask(1, askEcho, ""))
			receive(t, p)
			p.drips.Go(func() { drip(p, frame, time.Second) })
		}, "slow_message", 4 * time.Second, 0},
		{"half a message behind a whole one", func(t *testing.T, p *pipeline) {
			if _, err := p.Write(append(bytes.Clone(frame), 0, 9, 1)); err != nil {
				t.Fatal(err)
			}
			receive(t, p)
		}, "slow_message", 4 * time.Second, 0},
		{"every message a little slow", func(t *testing.T, p *pipeline) {
			for range 5 {
				drip(p, frame[:2], time.Second)
				if _, err := p.Write(frame[2:]); err != nil {
					t.Fatal(err)
				}
				receive(t, p)
			}
		}, "idle", 20 * time.Second, 10 * time.Second / 16},
		{"reads nothing", func(t *testing.T, p *pipeline) {
			send(t, p, ask(1, askEcho, ""))
			time.Sleep(time.Minute)
		}, "slow_reader", time.Minute, 0},
		{"leaves", func(t *testing.T, p *pipeline) { p.Close() }, "client", 0, 0},
		{"silence keeps open", func(t *testing.T, p *pipeline) {
			for range 3 {
				send(t, p, ask(1, askSilence, ""))
				time.Sleep(9 * time.Second)
			}
		}, "idle", 28 * time.Second, 10 * time.Second / 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipeline(ListenConfig{IdleTimeout: 10 * time.Second, FirstTimeout: 3 * time.Second, MessageTimeout: 4 * time.Second, WriteTimeout: 5 * time.Second}, new(fake))
				p.dial()
				start := time.Now()
				c.client(t, p)
				got := p.reason()
				if took := time.Since(start); got != c.reason || took < c.after || took > c.after+c.slack {
					t.Errorf("%s after %s, want %s after %s", got, took, c.reason, c.after)
				}
				p.Close()
				p.drips.Wait()
			})
		})
	}
}

// All answers at hand leave in one write.
func TestTCPOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline(ListenConfig{}, new(fake))
		p.dial()
		defer p.Close()
		var msgs [][]byte
		for i := range 100 {
			msgs = append(msgs, ask(uint16(i), askEcho, "hello"))
		}
		send(t, p, msgs...)
		for i := range msgs {
			if got := receive(t, p); got != want(uint16(i), askEcho, "hello") {
				t.Fatalf("got %q", got)
			}
		}
		synctest.Wait()
		if n := p.writes.Load(); n > 2 { // the read buffer starts small
			t.Errorf("%d writes", n)
		}
	})
}

// A transfer goes on beside queries, one at a time, and keeps the connection open; when it breaks off, the connection does.
func TestTCPTransfer(t *testing.T) {
	l, reg := serving(t, ListenConfig{DNS: []netip.AddrPort{lo4}}, nil)
	c := dialTCP(t, l.Addrs().DNS[0])
	send(t, c, ask(1, askTransfer, ""), ask(2, askTransfer, ""), ask(3, askEcho, "beside"))
	var got []string
	for range 7 {
		got = append(got, receive(t, c))
	}
	of := func(id byte) (n int) {
		for _, g := range got {
			if g[1] == id {
				n++
			}
		}
		return n
	}
	if of(1) != 3 || of(2) != 3 || of(3) != 1 {
		t.Errorf("got %q", got)
	}
	eventually(t, "counted", func() bool { return value(t, reg, "stream_transfers_total", "tcp") == 2 })
	eventually(t, "done", func() bool { return value(t, reg, "stream_transfers") == 0 })
	_ = c.CloseWrite()
	ended(t, c)
}

func TestTCPTransferTimes(t *testing.T) {
	cfg := ListenConfig{IdleTimeout: time.Second, WriteTimeout: 2 * time.Second, MaxTransfers: 1}
	t.Run("longer than idle", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newPipeline(cfg, &fake{endless: true})
			p.dial()
			send(t, p, ask(1, askTransfer, ""))
			for range 100 { // a message every 0.1 s
				receive(t, p)
				time.Sleep(100 * time.Millisecond)
			}
			send(t, p, ask(2, askEcho, ""))
			for receive(t, p)[1] != 2 {
				continue // what was on its way
			}
			p.Close()
			synctest.Wait()
			if n := p.a.count.transferErrors.Load(); n != 1 {
				t.Errorf("%d transfers broke off", n)
			}
		})
	})
	t.Run("slow reader", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newPipeline(cfg, &fake{endless: true})
			p.dial()
			send(t, p, ask(1, askTransfer, ""))
			receive(t, p)
			time.Sleep(3 * time.Second)
			if got := p.reason(); got != "transfer" {
				t.Errorf("closed for %s", got)
			}
		})
	})
	t.Run("no place", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newPipeline(cfg, &fake{endless: true})
			p.a.transfers <- struct{}{} // somebody else's
			p.dial()
			send(t, p, ask(1, askTransfer, ""))
			start := time.Now()
			if got := p.reason(); got != "transfer" || time.Since(start) != 2*time.Second {
				t.Errorf("closed for %s after %s", got, time.Since(start))
			}
		})
	})
}

// A stop lets what was asked be answered and says with a keepalive of 0 that the connection ends.
func TestTCPStop(t *testing.T) {
	f := &fake{hold: make(chan struct{}), held: make(chan struct{}, 1)}
	l, reg := serving(t, ListenConfig{DNS: []netip.AddrPort{lo4}}, func() answerer { return &fake{hold: f.hold, held: f.held} })
	idle, busy := dialTCP(t, l.Addrs().DNS[0]), dialTCP(t, l.Addrs().DNS[0])
	for _, c := range []*net.TCPConn{idle, busy} {
		send(t, c, ask(1, askEcho, ""))
		receive(t, c)
	}
	send(t, busy, ask(2, askHoldLarge, ""), ask(3, askPeer, "")) // the answer to the first fills a write: the second is looked at after it
	<-f.held                                                     // the server is at work on the first, and has read both
	done := make(chan struct{})
	go func() {
		l.Stop(context.Background())
		close(done)
	}()
	<-l.stop.begun
	close(f.hold)
	if got := receive(t, busy); len(got) != streamMessage {
		t.Errorf("got %d octets", len(got))
	}
	if got := receive(t, busy); got != want(3, askPeer, busy.LocalAddr().String()+" tcp 0") {
		t.Errorf("got %q", got)
	}
	ended(t, idle)
	ended(t, busy)
	<-done
	if _, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(l.Addrs().DNS[0])); err == nil {
		t.Error("connected after the stop")
	}
	if got, err := reg.Gather(); err != nil || len(got) != 0 {
		t.Errorf("%d metrics after the stop, %v", len(got), err)
	}
}

// When ctx ends, so do connections that are still at work.
func TestTCPStopForced(t *testing.T) {
	l, _ := serving(t, ListenConfig{DNS: []netip.AddrPort{lo4}, WriteTimeout: time.Minute}, func() answerer { return &fake{endless: true} })
	c := dialTCP(t, l.Addrs().DNS[0])
	send(t, c, ask(1, askTransfer, ""))
	receive(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l.Stop(ctx)
	for {
		if _, err := c.Read(make([]byte, 1<<16)); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			return
		}
	}
}

func TestTCPProxy(t *testing.T) {
	l, reg := serving(t, ListenConfig{DNS: []netip.AddrPort{lo4}, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, nil)
	for _, c := range proxyCases {
		t.Run(c.name, func(t *testing.T) {
			s, err := net.DialTCP("tcp4", &net.TCPAddr{IP: net.ParseIP(c.sender())}, net.TCPAddrFromAddrPort(l.Addrs().DNS[0]))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			_ = s.SetDeadline(time.Now().Add(time.Minute))
			if _, err := s.Write(appendFrame(bytes.Clone(c.header), ask(1, askPeer, ""))); err != nil {
				t.Fatal(err)
			}
			if c.client == "" {
				ended(t, ignoreReset{s})
				if got := value(t, reg, "proxy_dropped_total", "tcp", c.drop); got < 1 {
					t.Errorf("not counted as %s", c.drop)
				}
				return
			}
			client := c.client
			if client == "sender" {
				client = s.LocalAddr().String()
			}
			if got := receive(t, s); got != want(1, askPeer, client+" tcp 100") {
				t.Errorf("got %q", got)
			}
		})
	}
}

// The limit per client counts who stands behind a proxy, and the proxy's own connections as nobody's.
func TestConnsPerClient(t *testing.T) {
	table := newConns(100, 2)
	var all []*conn
	add := func(addr string, claim bool) *conn {
		client, server := net.Pipe()
		t.Cleanup(func() { client.Close() })
		c := &conn{raw: server, transport: TCP, addr: netip.MustParseAddrPort(addr)}
		table.add(c)
		if claim {
			table.claim(c)
		}
		all = append(all, c)
		return c
	}
	a1, b1 := add("192.0.2.1:1", true), add("[2001:db8::1]:1", true)
	a2, b2 := add("192.0.2.1:2", true), add("[2001:db8::2]:1", true) // one /64 is one client
	add("[2001:db8:0:1::1]:1", true)
	for range 5 {
		add("192.0.2.1:9", false)
	}
	table.touch(a1)
	add("192.0.2.1:3", true)
	add("[2001:db8::3]:1", true)
	for c, want := range map[*conn]closeReason{a1: closedNot, a2: closedCrowd, b1: closedCrowd, b2: closedNot} {
		if got := closeReason(c.reason.Load()); got != want {
			t.Errorf("%s: %s, want %s", c.addr, closeReasonNames[got], closeReasonNames[want])
		}
	}
	for _, c := range all {
		table.remove(c)
		table.remove(c)
		table.touch(c)
		table.claim(c)
	}
	if table.all.Len() != 0 || len(table.crowds) != 0 || table.opened(TCP) != 0 {
		t.Errorf("left: %d, %d, %d", table.all.Len(), len(table.crowds), table.opened(TCP))
	}
	table.evict() // of nobody
}

// chunked gives its octets in pieces of given sizes and keeps what is written.
type chunked struct {
	net.Conn
	in     []byte
	sizes  []byte
	reads  int
	out    bytes.Buffer
	closed bool
}

func (c *chunked) Read(b []byte) (int, error) {
	if len(c.in) == 0 {
		return 0, io.EOF
	}
	n := len(c.in)
	if len(c.sizes) > 0 {
		n = 1 + int(c.sizes[c.reads%len(c.sizes)])
	}
	c.reads++
	n = copy(b, c.in[:min(n, len(c.in))])
	c.in = c.in[n:]
	return n, nil
}
func (c *chunked) Write(b []byte) (int, error)      { return c.out.Write(b) }
func (c *chunked) Close() error                     { c.closed = true; return nil }
func (c *chunked) SetDeadline(time.Time) error      { return nil }
func (c *chunked) SetReadDeadline(time.Time) error  { return nil }
func (c *chunked) SetWriteDeadline(time.Time) error { return nil }

// However a stream is cut into pieces, its messages are the same, each answered once and in order.
func FuzzTCPFraming(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, ask(1, askEcho, "hello")), ask(2, askEcho, "")), []byte{0})
	f.Add(appendFrame(nil, ask(1, askLarge, "x")), []byte{3, 200})
	f.Add([]byte{0, 0, 0, 1, 9, 255, 255, 1}, []byte{})
	f.Add(append(proxyFrom("192.0.2.1:1"), 0), []byte{255})
	f.Fuzz(func(t *testing.T, in, sizes []byte) {
		for i := range in {
			if in[i] == askTransfer || in[i] == askHold || in[i] == askHoldLarge { // not of interest here
				in[i] = askEcho
			}
		}
		p := newPipeline(ListenConfig{}, new(fake))
		raw := &chunked{in: bytes.Clone(in), sizes: sizes}
		c := &conn{raw: raw, transport: TCP, addr: netip.MustParseAddrPort("192.0.2.1:4711")}
		p.a.conns.add(c)
		p.a.serve(c)
		if !raw.closed || p.a.conns.opened(TCP) != 0 {
			t.Fatal("left open")
		}
		// The slow twin.
		var wanted []byte
		twin, buf := new(fake), make([]byte, streamMessage)
		peer := &Peer{Addr: c.addr, Transport: TCP, IdleTimeout: 100}
		first := true
		for rest := in; len(rest) >= 2; {
			n := int(rest[0])<<8 | int(rest[1])
			if len(rest) < 2+n {
				break
			}
			if a := twin.Handle(rest[2:2+n], buf[:0], peer); a != nil {
				wanted = appendFrame(wanted, a)
			}
			rest, first = rest[2+n:], false
		}
		if first && signed(in) || bytes.HasPrefix(in, []byte(proxySignature)) {
			wanted = nil // refused before anything is answered
		}
		if diff := cmp.Diff(wanted, append([]byte(nil), raw.out.Bytes()...)); diff != "" {
			t.Errorf("answers (-twin +session):\n%s", diff)
		}
	})
}

func BenchmarkTCPPipeline(b *testing.B) {
	l, _ := serving(b, ListenConfig{DNS: []netip.AddrPort{lo4}}, nil)
	c := dialTCP(b, l.Addrs().DNS[0])
	var out []byte
	const n = 20
	for i := range n {
		out = appendFrame(out, ask(uint16(i), askEcho, strings.Repeat("x", 60)))
	}
	in := make([]byte, len(out))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(out); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/query")
}

func BenchmarkTCPChurn(b *testing.B) {
	l, _ := serving(b, ListenConfig{DNS: []netip.AddrPort{lo4}}, nil)
	b.ReportAllocs()
	for b.Loop() {
		c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(l.Addrs().DNS[0]))
		if err != nil {
			b.Fatal(err)
		}
		send(b, c, ask(1, askEcho, ""))
		receive(b, c)
		_ = c.SetLinger(0) // no ports in TIME_WAIT
		c.Close()
	}
}
