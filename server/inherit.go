package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"
)

// A process hands its listeners over to another one of the same node in three steps, so that no query is lost: the other gets the very sockets (Sockets; ListenConfig.Inherit) and
// answers on them too; then this one reads no more, and passes on the connections of TCP between two messages (Give; Adopt). Nothing is closed that something could be queued in.
//
// TLS cannot be passed on: DoT connections end as at a stop, with close_notify between two messages, and HTTP/2 ones with GOAWAY.

// Socket is an open socket on which queries or connections come in.
type Socket struct {
	Transport Transport
	Addr      netip.AddrPort // that it is bound to
	File      *os.File       `json:"-"` // its descriptor, in the process that inherits it
}

// Conn is a connection of TCP that another process goes on with, between two messages.
type Conn struct {
	Client netip.AddrPort // that of the PROXY header, where there was one
	Fresh  bool           // no message has come so far
	Unread []byte         // the beginning of the next message, less than 64 KiB + 2
}

// Sockets calls f with every open socket and its descriptor, which stays the Listeners' own.
func (l *Listeners) Sockets(f func(s Socket, fd uintptr) error) error {
	for _, u := range l.udp {
		for _, loop := range u.loops {
			var err error
			if e := loop.control(func(fd uintptr) { err = f(Socket{Transport: UDP, Addr: u.addr}, fd) }); e != nil || err != nil {
				return errors.Join(e, err)
			}
		}
	}
	for _, a := range l.accept {
		raw, err := a.ln.SyscallConn()
		if err != nil {
			return err
		}
		if e := raw.Control(func(fd uintptr) { err = f(Socket{Transport: a.transport, Addr: a.addr}, fd) }); e != nil || err != nil {
			return errors.Join(e, err)
		}
	}
	return nil
}

// Give is Stop for Listeners whose sockets another process answers on already: it leaves in them what is queued, and hands open connections of TCP on to take, with their descriptors,
// which are closed when take returns. take may be called from several goroutines.
func (l *Listeners) Give(ctx context.Context, take func(c *Conn, fd uintptr) error) {
	l.stopOnce.Do(func() {
		l.give = take
		l.shut(ctx)
	})
}

// pass hands the connection of a session on.
func (l *Listeners) pass(s *session) closeReason {
	raw, err := s.c.raw.(*net.TCPConn).SyscallConn()
	if err == nil {
		c := &Conn{Client: s.c.addr, Fresh: s.first, Unread: s.in[s.r:s.w]}
		if e := raw.Control(func(fd uintptr) { err = l.give(c, fd) }); e != nil {
			err = e
		}
	}
	if err != nil {
		return closedStop
	}
	return closedGiven
}

// Adopt goes on with a connection that another process has given. It closes the file. Call it after Start.
func (l *Listeners) Adopt(c *Conn, file *os.File) error {
	raw, err := net.FileConn(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("connection of %s: %w", c.Client, err)
	}
	for _, a := range l.accept {
		if a.transport != TCP {
			continue
		}
		k := &conn{raw: raw, transport: TCP, addr: c.Client}
		a.conns.add(k)
		a.conns.claim(k)
		l.sessions.Go(func() { a.resume(k, c) })
		return nil
	}
	return errors.Join(errors.New("nothing listens on TCP any more"), raw.Close())
}

// resume serves an adopted connection to its end.
func (a *acceptor) resume(k *conn, c *Conn) {
	s := a.session(k)
	if need := len(c.Unread) + 1; need > len(s.in) {
		s.in = make([]byte, min(2*need, streamFrame))
	}
	s.w = copy(s.in, c.Unread)
	s.first = c.Fresh
	if s.first {
		s.deadline(time.Now().Add(a.cfg.FirstTimeout))
	}
	why := s.serve()
	if why == closedGiven {
		why = a.l.pass(s)
	}
	a.end(k, why)
}

// inherited are the descriptors of an address.
func (l *Listeners) inherited(t Transport, a netip.AddrPort) (files []*os.File) {
	for _, s := range l.cfg.Inherit {
		if s.Transport == t && s.Addr == a {
			files = append(files, s.File)
		}
	}
	return files
}

func inheritTCP(f *os.File, a netip.AddrPort) (*net.TCPListener, error) {
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("inheriting the socket of %s: %w", a, err)
	}
	t, ok := ln.(*net.TCPListener)
	if !ok || t.Addr().(*net.TCPAddr).AddrPort().Port() != a.Port() {
		return nil, errors.Join(fmt.Errorf("a socket that should be of %s is of %s", a, ln.Addr()), ln.Close())
	}
	return t, nil
}

func closeSockets(list []Socket) {
	for _, s := range list {
		_ = s.File.Close()
	}
}
