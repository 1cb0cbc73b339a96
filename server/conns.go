package server

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// closeReason is why a stream connection ended.
type closeReason uint32

const (
	closedNot      closeReason = iota
	closedClient               // by the client
	closedIdle                 // no message for IdleTimeout
	closedFirst                // no first message within FirstTimeout, TLS handshake included
	closedSlow                 // a message was not whole within MessageTimeout
	closedReader               // the client did not take its answers within WriteTimeout
	closedFull                 // the one idle for longest when MaxConns was reached
	closedCrowd                // the one idle for longest of a client that reached MaxConnsPerClient
	closedTLS                  // the handshake failed
	closedProxy                // PROXY header malformed, missing or from a sender that is not trusted
	closedTransfer             // a zone transfer failed, or MaxTransfers was reached for too long
	closedError                // any other error of the network
	closedStop                 // the server stops
	closedGiven                // another process goes on with it
	closeReasons   = int(iota)
)

var closeReasonNames = [closeReasons]string{"", "client", "idle", "first_message", "slow_message", "slow_reader", "limit", "client_limit", "tls", "proxy", "transfer", "error", "stop", "given"}

// conn is an open connection of a stream transport.
type conn struct {
	raw       net.Conn // below TLS
	transport Transport
	addr      netip.AddrPort // the client's, from the PROXY header if there was one
	reason    atomic.Uint32  // closeReason; the first one stays

	// guarded by conns.mu
	all    *list.Element // nil when it has left the table
	crowd  *crowd        // nil: not counted by client
	within *list.Element
}

// close closes the connection for a reason. It may be called by anybody, at any time.
func (c *conn) close(why closeReason) {
	c.reason.CompareAndSwap(uint32(closedNot), uint32(why))
	_ = c.raw.Close()
}

// crowd is the connections of one client.
type crowd struct {
	key   netip.Addr
	conns *list.List
}

// conns are the open stream connections of all listeners, in the order of their last message. A full table gives way at its idle end, so that clients that hold
// connections without using them hold up nobody else.
type conns struct {
	max, perClient int

	mu     sync.Mutex
	all    *list.List // of *conn, idle for longest first
	crowds map[netip.Addr]*crowd
	open   [Transports]int
}

func newConns(limit, perClient int) *conns {
	return &conns{max: limit, perClient: perClient, all: list.New(), crowds: make(map[netip.Addr]*crowd)}
}

// add takes a new connection in, as if it had sent a message now, and closes another if that makes one too many.
func (t *conns) add(c *conn) {
	t.mu.Lock()
	var out *conn
	if t.all.Len() >= t.max {
		out = t.all.Front().Value.(*conn)
		t.drop(out)
	}
	c.all = t.all.PushBack(c)
	t.open[c.transport]++
	t.mu.Unlock()
	if out != nil {
		out.close(closedFull)
	}
}

// claim counts a connection for its client, c.addr, and closes another of the client if that makes one too many.
func (t *conns) claim(c *conn) {
	key := clientKey(c.addr.Addr())
	t.mu.Lock()
	if c.all == nil {
		t.mu.Unlock()
		return
	}
	k := t.crowds[key]
	if k == nil {
		k = &crowd{key: key, conns: list.New()}
		t.crowds[key] = k
	}
	var out *conn
	if k.conns.Len() >= t.perClient {
		out = k.conns.Front().Value.(*conn)
	}
	c.crowd, c.within = k, k.conns.PushBack(c)
	if out != nil {
		t.drop(out)
	}
	t.mu.Unlock()
	if out != nil {
		out.close(closedCrowd)
	}
}

// touch notes that c did something just now.
func (t *conns) touch(c *conn) {
	t.mu.Lock()
	if c.all != nil {
		t.all.MoveToBack(c.all)
		if c.crowd != nil {
			c.crowd.conns.MoveToBack(c.within)
		}
	}
	t.mu.Unlock()
}

// remove takes c out. It may be called twice.
func (t *conns) remove(c *conn) {
	t.mu.Lock()
	t.drop(c)
	t.mu.Unlock()
}

// evict closes the connection idle for longest, if there is one.
func (t *conns) evict() {
	t.mu.Lock()
	var out *conn
	if e := t.all.Front(); e != nil {
		out = e.Value.(*conn)
		t.drop(out)
	}
	t.mu.Unlock()
	if out != nil {
		out.close(closedFull)
	}
}

// each calls f with every connection.
func (t *conns) each(f func(*conn)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := t.all.Front(); e != nil; e = e.Next() {
		f(e.Value.(*conn))
	}
}

// opened is the number of connections of a transport.
func (t *conns) opened(tr Transport) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[tr]
}

func (t *conns) drop(c *conn) {
	if c.all == nil {
		return
	}
	t.all.Remove(c.all)
	t.open[c.transport]--
	c.all = nil
	if k := c.crowd; k != nil {
		k.conns.Remove(c.within)
		if k.conns.Len() == 0 {
			delete(t.crowds, k.key)
		}
		c.crowd, c.within = nil, nil
	}
}

// clientKey is who counts as one client: an IPv4 address, an IPv6 /64.
func clientKey(a netip.Addr) netip.Addr {
	if a.Is4() {
		return a
	}
	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return a
	}
	return p.Addr()
}
