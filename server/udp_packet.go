package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

const (
	packetWait  = 100 * time.Millisecond // the longest read: stop and Refresh are seen then
	packetDrain = 5 * time.Millisecond   // a stopped loop goes on until nothing has come for so long, at most udpDrainLimit
)

// packetSocket is a socket that several loops share.
type packetSocket struct {
	*net.UDPConn
	addr     netip.AddrPort
	wild     bool
	users    atomic.Int32 // loops that run
	stopping atomic.Bool
	given    atomic.Bool // with stopping: another process reads the socket too
	close    sync.Once
}

// packetLoop serves a socket through package net, one datagram at a time: the portable twin of batchLoop.
type packetLoop struct {
	*packetSocket
	slot []byte
	oob  []byte
}

// openPacket opens the socket of one address and a loop per worker.
func openPacket(addr netip.AddrPort, c *ListenConfig) ([]udpLoop, error) {
	network := "udp6"
	if addr.Addr().Is4() {
		network = "udp4"
	}
	lc := net.ListenConfig{Control: reusePort}
	if addr.Port() == 0 {
		lc.Control = nil // a port of the kernel's choice must be nobody else's
	}
	pc, err := lc.ListenPacket(context.Background(), network, addr.String())
	if err != nil {
		return nil, fmt.Errorf("udp %s: %w", addr, err)
	}
	conn := pc.(*net.UDPConn)
	s := &packetSocket{UDPConn: conn, wild: addr.Addr().IsUnspecified()}
	s.addr = netip.AddrPortFrom(addr.Addr(), conn.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	if s.wild {
		if network == "udp4" {
			err = ipv4.NewPacketConn(conn).SetControlMessage(ipv4.FlagDst, true)
		} else {
			err = ipv6.NewPacketConn(conn).SetControlMessage(ipv6.FlagDst, true)
		}
		if err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("udp %s: %w", addr, err)
		}
	}
	_ = conn.SetReadBuffer(c.ReceiveBuffer) // as much as the system grants
	_ = conn.SetWriteBuffer(c.ReceiveBuffer)
	loops := make([]udpLoop, c.UDPWorkers)
	for i := range loops {
		l := &packetLoop{packetSocket: s, slot: make([]byte, udpSlot)}
		if s.wild {
			l.oob = make([]byte, 128)
		}
		s.users.Add(1)
		loops[i] = l
	}
	return loops, nil
}

func (l *packetLoop) local() netip.AddrPort { return l.addr }
func (l *packetLoop) kernelDrops() uint64   { return 0 } // no portable way to know
func (l *packetLoop) room() int             { return 0 }

func (s *packetSocket) stop(given bool) {
	s.given.Store(given)
	s.stopping.Store(true)
	end := time.Now()
	if !given {
		end = end.Add(packetDrain)
	}
	_ = s.SetReadDeadline(end)
}

func (s *packetSocket) control(f func(fd uintptr)) error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(f)
}

func (s *packetSocket) release() {
	if s.users.Add(-1) == 0 {
		s.close.Do(func() { _ = s.Close() })
	}
}

func (l *packetLoop) run(w *udpWorker) {
	defer l.release()
	defer w.Refresh()
	l.wait()
	var end time.Time // of draining
	more := false     // something came since the deadline was set
	for {
		n, oob, from, err := l.read()
		w.Refresh()
		if err != nil {
			if l.stopping.Load() || errors.Is(err, net.ErrClosed) {
				if end.IsZero() {
					end = time.Now().Add(udpDrainLimit)
				}
				if !more || l.given.Load() || !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().After(end) {
					return
				}
				more = false
				_ = l.SetReadDeadline(time.Now().Add(packetDrain))
				continue
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				w.count.readErrors.Add(1)
			}
			l.wait()
			continue
		}
		more = true
		answered, failed := 0, 0
		if a := w.answer(l.slot, n, from); len(a) > 0 {
			answered = 1
			if l.write(a, oob, from) != nil {
				answered, failed = 0, 1
			}
		}
		w.Done()
		w.count.batch(1, answered, failed)
	}
}

// wait bounds the next reads.
func (s *packetSocket) wait() {
	_ = s.SetReadDeadline(time.Now().Add(packetWait))
	if s.stopping.Load() { // stop may have set its own just before
		_ = s.SetReadDeadline(time.Now().Add(packetDrain))
	}
}

func (l *packetLoop) read() (n int, oob []byte, from netip.AddrPort, err error) {
	if !l.wild {
		n, from, err = l.ReadFromUDPAddrPort(l.slot)
	} else {
		var k int
		n, k, _, from, err = l.ReadMsgUDPAddrPort(l.slot, l.oob)
		oob = l.oob[:k]
	}
	return n, oob, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), err
}

// write sends an answer, on a wildcard socket from the address that the control message oob says the query came to.
func (l *packetLoop) write(b, oob []byte, to netip.AddrPort) error {
	if !l.wild {
		_, err := l.WriteToUDPAddrPort(b, to)
		return err
	}
	var leave []byte
	if l.addr.Addr().Is4() {
		var c ipv4.ControlMessage
		if err := c.Parse(oob); err == nil {
			leave = (&ipv4.ControlMessage{Src: c.Dst}).Marshal()
		}
	} else {
		var c ipv6.ControlMessage
		if err := c.Parse(oob); err == nil {
			out := ipv6.ControlMessage{Src: c.Dst}
			if c.Dst.IsLinkLocalUnicast() {
				out.IfIndex = c.IfIndex
			}
			leave = out.Marshal()
		}
	}
	_, _, err := l.WriteMsgUDPAddrPort(b, leave, to)
	return err
}
