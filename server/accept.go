package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"time"
)

const (
	acceptPause = 5 * time.Millisecond  // after an error, most likely of too many open files
	acceptDrain = 10 * time.Millisecond // how long a stopped acceptor takes what the kernel has completed
)

// acceptor takes the connections of one address in and hands them to a session, or to net/http.
type acceptor struct {
	l         *Listeners
	ln        *net.TCPListener
	transport Transport
	addr      netip.AddrPort

	*streams // with the transport's counters
	tls      *tls.Config
	doh      *doh
}

func (a *acceptor) start() {
	s := *a.l.streams
	s.count = &a.l.metrics.stream[a.transport]
	a.streams = &s
	switch a.transport {
	case DoT:
		a.tls = a.l.certs.config("dot")
	case DoH:
		a.doh = newDoH(a.streams, a.l.certs, a.cfg.Log)
		a.doh.in = newInlet(a.ln.Addr())
		a.l.running.Go(func() {
			if err := a.doh.serve(); err != nil {
				a.cfg.Log.Error("https server ended", "address", a.addr, "error", err)
			}
		})
	}
	a.l.running.Go(a.run)
}

// stop lets connections that the kernel has completed in, then closes the listener.
func (a *acceptor) stop(ctx context.Context) {
	end := time.Now()
	if a.l.give == nil { // else another process accepts what the kernel has completed
		end = end.Add(acceptDrain)
	}
	_ = a.ln.SetDeadline(end)
	if a.doh != nil {
		a.l.running.Go(func() { a.doh.shutdown(ctx) })
	}
}

func (a *acceptor) run() {
	defer a.ln.Close()
	for {
		raw, err := a.ln.Accept()
		switch {
		case err == nil:
			a.count.accepted.Add(1)
			c := &conn{raw: raw, transport: a.transport, addr: addrPort(raw.RemoteAddr())}
			a.conns.add(c)
			a.l.sessions.Go(func() { a.serve(c) })
		case a.streams.stop.stopping() || errors.Is(err, net.ErrClosed):
			return
		default:
			// No descriptor left, most likely. Somebody who holds one without using it gives it back.
			a.count.acceptErrors.Add(1)
			a.conns.evict()
			pause := time.NewTimer(acceptPause)
			select {
			case <-pause.C:
			case <-a.streams.stop.begun:
				pause.Stop()
			}
		}
	}
}

// serve lets a connection in and serves it to its end.
func (a *acceptor) serve(c *conn) {
	_ = c.raw.SetDeadline(time.Now().Add(a.cfg.FirstTimeout))
	if a.stopping() { // Stop may have set its own just before, or not have seen this one
		_ = c.raw.SetReadDeadline(time.Now().Add(stopGrace))
	}
	if a.cfg.trusts(c.addr.Addr()) {
		client, why, err := readProxy(c.raw)
		switch {
		case err != nil:
			a.end(c, (&session{streams: a.streams, first: true}).why(err))
			return
		case why != proxyFine:
			a.count.proxy[why].Add(1)
			a.end(c, closedProxy)
			return
		case client.IsValid():
			c.addr = client
			a.conns.claim(c)
		}
	} else {
		a.conns.claim(c)
	}
	if a.transport == DoH {
		a.hand(c)
		return
	}
	s := a.session(c)
	if a.transport == DoT {
		records := newRecordConn(c.raw, func() { a.forged(c) })
		secure := tls.Server(records, a.tls)
		if err := secure.Handshake(); err != nil {
			why := s.why(err)
			if why == closedError {
				a.count.handshakeErrors.Add(1)
				why = closedTLS
			}
			a.end(c, why)
			return
		}
		a.count.handshakes.Add(1)
		s.rw, s.more = secure, records.ready
	}
	why := s.serve()
	if why == closedGiven {
		why = a.l.pass(s)
	}
	if s.rw != c.raw && why != closedReader && why != closedError {
		_ = c.raw.SetWriteDeadline(time.Now().Add(acceptDrain))
		_ = s.rw.(*tls.Conn).CloseWrite() // close_notify: the end is no cut (RFC 8446 section 6.1)
	}
	a.end(c, why)
}

// session is what answers on a new connection of TCP.
func (a *acceptor) session(c *conn) *session {
	return &session{
		streams: a.streams, c: c, rw: c.raw, first: true,
		peer: Peer{Addr: c.addr, Transport: a.transport, IdleTimeout: uint16(a.cfg.IdleTimeout / (100 * time.Millisecond))},
		in:   make([]byte, streamBuffer),
	}
}

// hand gives a connection to net/http.
func (a *acceptor) hand(c *conn) {
	_ = c.raw.SetDeadline(time.Time{}) // net/http sets its own
	records := newRecordConn(c.raw, func() { a.forged(c) })
	h := &inletConn{Conn: records, c: c, ended: func() {
		why := closedClient
		if a.stopping() {
			why = closedStop
		}
		a.end(c, why)
	}}
	if a.doh.in.put(h) != nil {
		_ = h.Close()
	}
}

func (a *acceptor) forged(c *conn) {
	a.count.proxy[proxyUntrusted].Add(1)
	c.close(closedProxy)
}

// end closes a connection and takes it out.
func (a *acceptor) end(c *conn, why closeReason) {
	c.close(why)
	a.conns.remove(c)
	a.count.closed[c.reason.Load()].Add(1)
}

func (a *acceptor) stopping() bool { return a.streams.stop.stopping() }

// trusts says whether a sender must speak PROXY protocol.
func (c *ListenConfig) trusts(a netip.Addr) bool { return proxies(c.Proxies).has(a) }

// addrPort is a TCP address, IPv4 unmapped and without a zone.
func addrPort(a net.Addr) netip.AddrPort {
	p := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}
