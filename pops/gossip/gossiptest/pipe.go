package gossiptest

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// pipe is one end of a stream: what is written at one end can be read at the other after the delay of the link. A cut swallows it.
type pipe struct {
	owner *Transport
	to    netip.AddrPort
	peer  *pipe

	mu       sync.Mutex
	cond     *sync.Cond
	buf      bytes.Buffer
	last     time.Time // when the last of what is on its way arrives
	eof      bool
	closed   bool
	deadline time.Time
	timer    *time.Timer
}

func newPipe(owner *Transport, to netip.AddrPort) *pipe {
	p := &pipe{owner: owner, to: to}
	p.cond = sync.NewCond(&p.mu)
	return p
}

// Read implements net.Conn.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.closed:
			return 0, net.ErrClosed
		case p.buf.Len() > 0:
			return p.buf.Read(b)
		case p.eof:
			return 0, io.EOF
		case !p.deadline.IsZero() && !time.Now().Before(p.deadline):
			return 0, os.ErrDeadlineExceeded
		}
		p.cond.Wait()
	}
}

// Write implements net.Conn. Nothing holds it up.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return 0, net.ErrClosed
	}
	p.owner.net.octets.Add(int64(len(b) + 40*(1+len(b)/1400))) // IP and TCP
	data := append([]byte(nil), b...)
	p.arrive(func(to *pipe) { to.buf.Write(data) })
	return len(b), nil
}

// arrive does something at the other end when it is due there, in order.
func (p *pipe) arrive(do func(*pipe)) {
	link, _, delay := p.owner.net.chance(p.owner.addr, p.to)
	if link.Cut {
		return
	}
	to := p.peer
	deliver := func() {
		to.mu.Lock()
		defer to.mu.Unlock()
		do(to)
		to.cond.Broadcast()
	}
	to.mu.Lock()
	at := time.Now().Add(delay)
	if at.Before(to.last) {
		at = to.last
	}
	now := !at.After(time.Now())
	if !now {
		at = at.Add(time.Nanosecond) // after the one before
	}
	to.last = at
	to.mu.Unlock()
	if now {
		deliver()
	} else {
		time.AfterFunc(time.Until(at), deliver)
	}
}

// Close implements net.Conn.
func (p *pipe) Close() error {
	p.mu.Lock()
	was := p.closed
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.cond.Broadcast()
	p.mu.Unlock()
	if !was {
		p.arrive(func(to *pipe) { to.eof = true })
	}
	return nil
}

// SetDeadline implements net.Conn.
func (p *pipe) SetDeadline(t time.Time) error { return p.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (p *pipe) SetReadDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.deadline = t
	if !t.IsZero() && !p.closed {
		p.timer = time.AfterFunc(time.Until(t), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.cond.Broadcast()
		})
	}
	return nil
}

// SetWriteDeadline implements net.Conn.
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements net.Conn.
func (p *pipe) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(p.owner.addr) }

// RemoteAddr implements net.Conn.
func (p *pipe) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(p.to) }
