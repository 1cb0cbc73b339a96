// Package gossiptest is a network in memory for memberlist: packets and streams between nodes of one process, with delay, loss and cuts. It works on the clock of testing/synctest, so that
// hours of a fleet pass in seconds.
//
// What it is not: a model of the fleet. What runs on it is the real code; only the wires are made here.
package gossiptest

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// Network joins transports. Change what it does with Set at any time.
type Network struct {
	mu     sync.Mutex
	nodes  map[string]*Transport
	rules  func(from, to netip.AddrPort) Link
	random *rand.Rand
	octets atomic.Int64
}

// Link is what happens between two nodes, one way.
type Link struct {
	Cut    bool
	Delay  time.Duration // one way
	Jitter time.Duration // up to so much more
	Loss   float64       // of packets, 0 to 1; streams are only slower then, by a second
}

// New makes a network on which everything arrives at once. The seed makes its chances repeatable.
func New(seed uint64) *Network {
	return &Network{nodes: map[string]*Transport{}, random: rand.New(rand.NewPCG(seed, seed)), rules: func(_, _ netip.AddrPort) Link { return Link{} }}
}

// Set changes the links.
func (n *Network) Set(rules func(from, to netip.AddrPort) Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules = rules
}

// Octets is how many octets have been sent since the beginning.
func (n *Network) Octets() int64 { return n.octets.Load() }

// chance decides what becomes of one packet or connection.
func (n *Network) chance(from, to netip.AddrPort) (link Link, lost bool, delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	link = n.rules(from, to)
	delay = link.Delay
	if link.Jitter > 0 {
		delay += time.Duration(n.random.Int64N(int64(link.Jitter)))
	}
	return link, n.random.Float64() < link.Loss, delay
}

func (n *Network) at(addr string) (*Transport, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t, ok := n.nodes[addr]
	return t, ok
}

// Transport makes a node's end of the network. An address that was given up by Shutdown can be had again.
func (n *Network) Transport(addr netip.AddrPort) *Transport {
	t := &Transport{net: n, addr: addr, packets: make(chan *memberlist.Packet, 4096), streams: make(chan net.Conn, 256), down: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nodes[addr.String()] = t
	return t
}

// Transport is one node's end. It implements memberlist.Transport.
type Transport struct {
	net     *Network
	addr    netip.AddrPort
	packets chan *memberlist.Packet
	streams chan net.Conn
	down    chan struct{}
	once    sync.Once
}

var errUnreachable = errors.New("unreachable")

// FinalAdvertiseAddr implements memberlist.Transport.
func (t *Transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.addr.Addr().AsSlice(), int(t.addr.Port()), nil
}

// PacketCh implements memberlist.Transport.
func (t *Transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *Transport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown implements memberlist.Transport.
func (t *Transport) Shutdown() error {
	t.once.Do(func() {
		close(t.down)
		t.net.mu.Lock()
		defer t.net.mu.Unlock()
		if t.net.nodes[t.addr.String()] == t {
			delete(t.net.nodes, t.addr.String())
		}
	})
	return nil
}

// WriteTo implements memberlist.Transport.
func (t *Transport) WriteTo(b []byte, addr string) (time.Time, error) {
	now := time.Now()
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return now, err
	}
	t.net.octets.Add(int64(len(b) + 28)) // IP and UDP
	link, lost, delay := t.net.chance(t.addr, to)
	if link.Cut || lost {
		return now, nil
	}
	p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(t.addr)}
	deliver := func() {
		if peer, ok := t.net.at(addr); ok {
			p.Timestamp = time.Now()
			select {
			case peer.packets <- p:
			default: // its buffer is full
			}
		}
	}
	if delay == 0 {
		deliver()
	} else {
		time.AfterFunc(delay, deliver)
	}
	return now, nil
}

// DialTimeout implements memberlist.Transport.
func (t *Transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	link, lost, delay := t.net.chance(t.addr, to)
	trip := 2 * delay
	if lost {
		trip += time.Second // the first packet is sent again
	}
	peer, ok := t.net.at(addr)
	switch {
	case link.Cut || trip > timeout:
		time.Sleep(timeout)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errUnreachable}
	case !ok:
		time.Sleep(trip)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	time.Sleep(trip)
	here, there := newPipe(t, to), newPipe(peer, t.addr)
	here.peer, there.peer = there, here
	select {
	case peer.streams <- there:
		return here, nil
	default:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errUnreachable}
	}
}
