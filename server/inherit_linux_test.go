package server

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// dup is what a process does that gets a descriptor.
func dup(fd uintptr) (*os.File, error) {
	n, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(n), "handed over"), nil
}

// succeed has new listeners take over from old ones, and stops the old.
func succeed(t *testing.T, old *Listeners, cfg ListenConfig, f func() answerer) *Listeners {
	t.Helper()
	err := old.Sockets(func(s Socket, fd uintptr) (err error) {
		s.File, err = dup(fd)
		cfg.Inherit = append(cfg.Inherit, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	l, _ := serving(t, cfg, f)
	old.Give(context.Background(), func(c *Conn, fd uintptr) error {
		c.Unread = append([]byte(nil), c.Unread...)
		file, err := dup(fd)
		if err != nil {
			return err
		}
		return l.Adopt(c, file)
	})
	return l
}

// Listeners take over from others again and again while queries run on UDP, on connections of TCP that stay, some of which send messages in pieces, and on new ones: none is lost, and no
// connection is cut.
func TestGive(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::]:0"} {
		t.Run(addr, func(t *testing.T) {
			cfg := ListenConfig{DNS: []netip.AddrPort{netip.MustParseAddrPort(addr)}, UDPWorkers: 2}
			l, _ := serving(t, cfg, nil)
			at := l.Addrs().DNS[0]
			cfg.DNS = []netip.AddrPort{at}
			to := at
			if at.Addr().IsUnspecified() {
				to = netip.AddrPortFrom(lo6.Addr(), at.Port())
			}
			var asked atomic.Int64
			var clients sync.WaitGroup
			quit := make(chan struct{})
			client := func(name string, query func(id uint16) error) {
				clients.Go(func() {
					for id := uint16(0); ; id++ {
						select {
						case <-quit:
							return
						default:
						}
						if err := query(id); err != nil {
							t.Errorf("%s, query %d: %v", name, id, err)
							return
						}
						asked.Add(1)
					}
				})
			}
			for range 4 {
				c := dialUDP(t, to)
				client("udp", func(id uint16) error {
					_ = c.SetDeadline(time.Now().Add(time.Minute))
					if _, err := c.Write(ask(id, askEcho, "")); err != nil {
						return err
					}
					return answered(c, id, 4)
				})
				stays := dialTCP(t, to)
				_ = stays.SetDeadline(time.Now().Add(5 * time.Minute))
				client("tcp", func(id uint16) error {
					if _, err := stays.Write(appendFrame(nil, ask(id, askEcho, ""))); err != nil {
						return err
					}
					return framed(stays, id)
				})
				pieces := dialTCP(t, to)
				_ = pieces.SetDeadline(time.Now().Add(5 * time.Minute))
				client("tcp in pieces", func(id uint16) error {
					m := appendFrame(nil, ask(id, askEcho, "a message of which the end comes later"))
					for _, part := range [][]byte{m[:1], m[1:9], m[9:]} {
						if _, err := pieces.Write(part); err != nil {
							return err
						}
					}
					return framed(pieces, id)
				})
				client("new tcp", func(id uint16) error {
					c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
					if err != nil {
						return err
					}
					defer c.Close()
					_ = c.SetDeadline(time.Now().Add(time.Minute))
					if _, err := c.Write(appendFrame(nil, ask(id, askEcho, ""))); err != nil {
						return err
					}
					return framed(c, id)
				})
			}
			for i := range 5 {
				before := asked.Load()
				eventually(t, "at work", func() bool { return asked.Load() > before+500 || t.Failed() })
				cfg.UDPWorkers = 1 + i%3
				l = succeed(t, l, cfg, nil)
			}
			close(quit)
			clients.Wait()
			t.Logf("%d queries", asked.Load())
		})
	}
}

// An idle connection that has asked nothing keeps its time limit, and addresses that are not listened on any more are let go.
func TestGiveIdle(t *testing.T) {
	for limit := time.Second; !giveIdle(t, limit); limit *= 4 { // the machine stalled for that long
		if limit >= time.Minute {
			t.Fatal("no connection lived until it was passed on")
		}
	}
}

// giveIdle passes a connection on that has asked nothing, whose time limit is so long, and is false if that was over before it was passed on.
func giveIdle(t *testing.T, limit time.Duration) bool {
	t.Helper()
	cfg := ListenConfig{DNS: []netip.AddrPort{lo4, lo4}, UDPWorkers: 1, FirstTimeout: min(limit, time.Minute)}
	old, reg := serving(t, cfg, nil)
	stays, goes := old.Addrs().DNS[0], old.Addrs().DNS[1]
	dialled := time.Now()
	c := dialTCP(t, stays)
	eventually(t, "accepted", func() bool { return value(t, reg, "stream_accepted_total", "tcp") == 1 })
	cfg.DNS = []netip.AddrPort{stays}
	l := succeed(t, old, cfg, nil)
	if got := l.streams.conns.opened(TCP); got != 1 {
		if time.Since(dialled) >= cfg.FirstTimeout {
			return false
		}
		t.Errorf("%d connections", got)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%d octets, %v: its first message is late", n, err)
	}
	if s, err := net.Dial("tcp", goes.String()); err == nil {
		s.Close()
		t.Error("an address that was given up is listened on")
	}
	return true
}

func framed(c net.Conn, id uint16) error {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return err
	}
	return answered(io.LimitReader(c, int64(binary.BigEndian.Uint16(size[:]))), id, int(binary.BigEndian.Uint16(size[:])))
}

func answered(r io.Reader, id uint16, size int) error {
	buf := make([]byte, size)
	if _, err := io.ReadFull(r, buf); err != nil {
		return err
	}
	if got := binary.BigEndian.Uint16(buf); got != id {
		return fmt.Errorf("answer to %d", got)
	}
	return nil
}

// What speaks TLS cannot be passed on: it ends as at a stop, between two messages, and the next connection is the other process's, without a moment in which none is accepted.
func TestGiveTLS(t *testing.T) {
	cert, key := certFiles(t, "dns.example.com", time.Now().Add(time.Hour))
	cfg := ListenConfig{TLS: []netip.AddrPort{lo4}, HTTPS: []netip.AddrPort{lo4}, CertFile: cert, KeyFile: key}
	old, _ := serving(t, cfg, nil)
	dot, doh := old.Addrs().TLS[0], old.Addrs().HTTPS[0]
	c := tls.Client(dialTCP(t, dot), insecure("dot"))
	query := func(c net.Conn, id uint16) {
		t.Helper()
		if _, err := c.Write(appendFrame(nil, ask(id, askEcho, ""))); err != nil {
			t.Fatal(err)
		}
		if err := framed(c, id); err != nil {
			t.Fatal(err)
		}
	}
	query(c, 1)
	cfg.TLS, cfg.HTTPS = []netip.AddrPort{dot}, []netip.AddrPort{doh}
	l := succeed(t, old, cfg, nil)
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection that was open ended with %v", err)
	}
	query(tls.Client(dialTCP(t, dot), insecure("dot")), 2)
	if got := l.streams.conns.opened(DoT); got != 1 {
		t.Errorf("the new one has %d connections", got)
	}
	if err := tls.Client(dialTCP(t, doh), insecure("h2")).Handshake(); err != nil {
		t.Error(err)
	}
}
