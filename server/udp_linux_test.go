package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A second server takes the port over while queries run: none is lost.
func TestUDPHandOver(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"} {
		for _, mode := range []Steer{SteerHash, SteerCPU} {
			t.Run(fmt.Sprint(addr, mode), func(t *testing.T) {
				var served [2]atomic.Int64
				node := func(i int) func() answerer { return func() answerer { return &countingEcho{n: &served[i]} } }
				cfg := ListenConfig{DNS: []netip.AddrPort{netip.MustParseAddrPort(addr)}, UDPWorkers: 2, Steer: mode}
				old, _ := serving(t, cfg, node(0))
				at := old.Addrs().DNS[0]
				to := at
				if at.Addr().IsUnspecified() {
					to = netip.AddrPortFrom(lo4.Addr(), at.Port())
					if at.Addr().Is6() {
						to = netip.AddrPortFrom(lo6.Addr(), at.Port())
					}
				}
				const clients = 64 // the kernel chooses a socket by the client: that none of them comes to the second server has a chance of one in 2^64
				quit := make(chan struct{})
				result := make(chan error, clients)
				for i := range clients {
					c := dialUDP(t, to)
					go func() {
						buf := make([]byte, 10)
						for id := uint16(0); ; id++ {
							select {
							case <-quit:
								result <- nil
								return
							default:
							}
							if _, err := c.Write(ask(id, askEcho, "")); err != nil {
								result <- err
								return
							}
							if _, err := c.Read(buf); err != nil {
								result <- fmt.Errorf("client %d, query %d: %w", i, id, err)
								return
							}
						}
					}()
				}
				eventually(t, "old one at work", func() bool { return served[0].Load() > 100 })
				cfg.DNS = []netip.AddrPort{at}
				if _, err := listen(cfg, node(1)); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "hint: ss -lnup") {
					t.Errorf("an address in use: %v", err)
				}
				cfg.Share = true
				serving(t, cfg, node(1))
				if mode == SteerHash {
					eventually(t, "both at work", func() bool { return served[1].Load() > 100 })
				}
				old.Stop(context.Background())
				now := served[1].Load()
				eventually(t, "new one alone at work", func() bool { return served[1].Load() > now+1000 })
				close(quit)
				for range clients {
					if err := <-result; err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// countingEcho is an echo that counts, of no allocation.
type countingEcho struct {
	fake
	n *atomic.Int64
}

func (e *countingEcho) Handle(msg, buf []byte, _ *Peer) []byte {
	e.n.Add(1)
	return append(buf, msg...)
}

// openOne opens a loop of its own.
func openOne(t *testing.T, addr netip.AddrPort, c *ListenConfig) *batchLoop {
	t.Helper()
	memory, err := newBuffers(loopBytes(c.Batch))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.release()
	l, err := openBatch(addr, c, nil, true, memory)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Loops share memory, each has its own part, and the last gives it back.
func TestBuffers(t *testing.T) {
	const batch = 3 // no multiple of a line
	memory, err := newBuffers(2 * loopBytes(batch))
	if err != nil {
		t.Fatal(err)
	}
	var parts [][]byte
	for range 2 {
		memory.use()
		for _, n := range []int{batch * udpSlot, batch * 28, batch * udpControl} {
			p := memory.take(n)
			if len(p) != n || cap(p) != n || uintptr(unsafe.Pointer(&p[0]))%64 != 0 {
				t.Errorf("%d of %d octets at %p", len(p), cap(p), p)
			}
			parts = append(parts, p)
		}
	}
	if at := uintptr(unsafe.Pointer(&parts[0][0])); at%hugePage != 0 {
		t.Errorf("begins at %#x", at)
	}
	for i, p := range parts {
		for j := range p {
			p[j] = byte(i + 1)
		}
	}
	for i, p := range parts {
		if bytes.Count(p, []byte{byte(i + 1)}) != len(p) {
			t.Errorf("part %d is another's too", i)
		}
	}
	memory.release()
	memory.release()
	if memory.mapped == nil {
		t.Error("given back while somebody uses it")
	}
	memory.release()
	if memory.mapped != nil {
		t.Error("not given back")
	}
}

// An answer that cannot be sent is counted and does not keep the others of its batch.
func TestUDPSendErrors(t *testing.T) {
	l := openOne(t, lo4, &ListenConfig{Batch: 8, ReceiveBuffer: 64 << 10})
	defer l.release()
	c := dialUDP(t, l.local())
	n := 0
	eventually(t, "three at once", func() bool { // a kernel that is busy brings some of them later
		for i := range 3 {
			if _, err := c.Write(ask(uint16(i), askEcho, "")); err != nil {
				t.Fatal(err)
			}
		}
		var errno unix.Errno
		if n, errno = l.receive(); errno != 0 {
			t.Fatal(errno)
		}
		for rest := 3 - n; rest > 0; {
			k, errno := l.receive()
			if errno != 0 {
				t.Fatal(errno)
			}
			rest -= k
		}
		return n == 3
	})
	// The second asks from an address of no route.
	bad := (*unix.RawSockaddrInet4)(unsafe.Pointer(&l.names[1]))
	bad.Addr = [4]byte{255, 255, 255, 255}
	w := &udpWorker{answerer: new(fake), count: new(udpCounters)}
	l.answer(w, n)
	if got := []uint64{w.count.received.Load(), w.count.answered.Load(), w.count.sendErrors.Load()}; got[0] != 3 || got[1] != 2 || got[2] != 1 {
		t.Errorf("received, answered, errors: %v", got)
	}
	buf := make([]byte, 10)
	for _, id := range []byte{0, 2} {
		if _, err := c.Read(buf); err != nil || buf[1] != id {
			t.Errorf("answer %d: %v %v", id, buf[:2], err)
		}
	}
}

// readable tells whether a datagram waits to be read.
func readable(l *batchLoop) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}, 0)
	return n == 1 && err == nil
}

// What nobody reads in time is counted by the kernel.
func TestUDPKernelDrops(t *testing.T) {
	l := openOne(t, lo4, &ListenConfig{Batch: 1, ReceiveBuffer: 1})
	c := dialUDP(t, l.local())
	for range 100 {
		if _, err := c.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	var got uint64
	kept := 0
	eventually(t, "all are dropped or taken", func() bool { // a kernel that is busy brings some of them later
		for readable(l) {
			n, errno := l.receive()
			if errno != 0 {
				t.Fatal(errno)
			}
			kept += n
		}
		got = l.kernelDrops()
		return int(got)+kept == 100
	})
	if got == 0 || kept == 0 {
		t.Errorf("%d of 100 dropped, %d taken", got, kept)
	}
	l.release()
	if after := l.kernelDrops(); after != got {
		t.Errorf("%d after closing, %d before", after, got)
	}
}

func TestUDPReceiveBuffer(t *testing.T) {
	l := openOne(t, lo4, &ListenConfig{Batch: 1, ReceiveBuffer: 1 << 20})
	defer l.release()
	want := 1 << 20
	if unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, want) != nil { // not with CAP_NET_ADMIN, which root in a container may lack
		b, err := os.ReadFile("/proc/sys/net/core/rmem_max")
		if err != nil {
			t.Skip(err)
		}
		most, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		want = min(want, most)
	}
	if l.room() != want {
		t.Errorf("the kernel granted %d, want %d", l.room(), want)
	}
}

func TestAsyncPreemptOff(t *testing.T) {
	for v, want := range map[string]bool{"": false, "asyncpreemptoff=1": true, "asyncpreemptoff=0": false, "madvdontneed=1,asyncpreemptoff=1": true, "asyncpreemptoff=1,asyncpreemptoff=0": false} {
		if got := asyncPreemptOff(v); got != want {
			t.Errorf("%q: %v", v, got)
		}
	}
	t.Setenv("GODEBUG", "asyncpreemptoff=1")
	if _, err := listen(ListenConfig{DNS: []netip.AddrPort{lo4}}, nil); err == nil || !strings.Contains(err.Error(), "hint: remove it") {
		t.Errorf("got %v", err)
	}
	l, err := listen(ListenConfig{DNS: []netip.AddrPort{lo4}, Portable: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Stop(context.Background())
}

func TestSteer(t *testing.T) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	lan := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		mode    Steer
		addr    netip.Addr
		workers int
		want    bool
	}{
		{SteerHash, lan, 2, false},
		{SteerCPU, lan, 1, false},
		{SteerCPU, lan, 2, set.Count() >= 2},
		{SteerCPU, lan, set.Count() + 1, false},
		{SteerAuto, lo4.Addr(), 2, false},
	} {
		if got := steer(c.mode, c.addr, c.workers); (len(got) == c.workers) != c.want {
			t.Errorf("%v %s %d: %v", c.mode, c.addr, c.workers, got)
		}
	}
}

func TestReceiveQueues(t *testing.T) {
	dir := t.TempDir()
	for path := range map[string]bool{"eth0/device": true, "eth0/queues/rx-0": true, "eth0/queues/rx-1": true, "eth0/queues/tx-0": true, "lo/queues/rx-0": true} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got := receiveQueues(dir); got != 2 {
		t.Errorf("%d queues", got)
	}
	if got := receiveQueues(t.TempDir()); got != 0 {
		t.Errorf("%d queues without a device", got)
	}
}

// Without a file descriptor left, a connection idle for longest gives its own to the next client.
func TestTCPNoDescriptor(t *testing.T) {
	l, reg := serving(t, ListenConfig{DNS: []netip.AddrPort{lo4}}, nil)
	var idle []*net.TCPConn
	for range 10 {
		idle = append(idle, dialTCP(t, l.Addrs().DNS[0]))
	}
	eventually(t, "accepted", func() bool { return value(t, reg, "stream_accepted_total") == 10 })
	eventually(t, "an error of accepting", func() bool { // what earlier tests have left may give a descriptor back, or take the last one, just then
		err := withoutDescriptor(t, l.Addrs().DNS[0])
		if err != nil {
			t.Log(err)
		}
		return err == nil && value(t, reg, "stream_accept_errors_total", "tcp") >= 1
	})
	eventually(t, "the oldest gave way", func() bool { return value(t, reg, "stream_closed_total", "tcp", "limit") >= 1 })
	ended(t, ignoreReset{idle[0]})
}

// withoutDescriptor asks over TCP while this process may open one file more: the client's end.
func withoutDescriptor(t *testing.T, at netip.AddrPort) error {
	t.Helper()
	next, err := unix.Dup(0) // the lowest number that is free
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(next)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = uint64(next) + 1
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}()
	good, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(at))
	if err != nil {
		return err
	}
	defer good.Close()
	_ = good.SetDeadline(time.Now().Add(time.Minute))
	if _, err := good.Write(appendFrame(nil, ask(1, askEcho, "good"))); err != nil {
		return err
	}
	_, err = good.Read(make([]byte, 100))
	return err
}

// An idle worker that is told to stop answers what comes just before by what is published then, not by what was when it last had something to do.
func TestUDPStopRefreshes(t *testing.T) {
	for try := range 100 { // each takes as long as it takes a worker to be idle, and one that is idle looks up every tenth of a second
		cfg := ListenConfig{DNS: []netip.AddrPort{lo4}, UDPWorkers: 1}
		if err := cfg.fill(); err != nil {
			t.Fatal(err)
		}
		loops, err := openUDP(lo4, &cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		d := &dated{}
		done := make(chan struct{})
		go func() {
			loops[0].run(&udpWorker{answerer: d, count: new(udpCounters)})
			close(done)
		}()
		eventually(t, "idle", func() bool { return d.refreshed.Load() >= udpQuiet })
		d.published.Store(1)
		loops[0].stop(false)
		c := dialUDP(t, loops[0].local())
		_, err = c.Write(ask(0, askEcho, ""))
		buf := make([]byte, 10)
		if err == nil {
			_, err = c.Read(buf)
		}
		<-done
		if err != nil { // the worker looked up between the stop and the query
			t.Logf("try %d: %v", try, err)
			continue
		}
		if buf[3] != 1 {
			t.Error("answered by what was published before the worker was idle")
		}
		return
	}
	t.Error("no query came in time")
}

// dated answers with what was published when it was last refreshed.
type dated struct {
	fake
	published, refreshed atomic.Int64
	has                  byte
}

func (d *dated) Refresh() {
	d.has = byte(d.published.Load())
	d.refreshed.Add(1)
}

func (d *dated) Handle(msg, buf []byte, _ *Peer) []byte {
	return append(buf, msg[0], msg[1], msg[2]|0x80, d.has)
}
