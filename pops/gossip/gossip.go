// Package gossip makes one fleet of many nodes: it knows who is there, and carries states between them, on hashicorp/memberlist.
//
// A [State] is anything that can be written down and merged: the same in any order and any number of times. [Gossip.Broadcast] takes a piece of one to every node; pieces that do not
// fit a packet go over TCP. Nodes that join, or that notice that their states differ, exchange everything, so that nothing depends on a single message arriving, and a cut of any
// length heals.
//
// What it is not: it does not know what the states mean, decides nothing, keeps nothing on disk, elects nobody and asks no quorum.
package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"
)

// State is what nodes share. Merge must give the same result in whatever order and however often states and pieces of them are merged; both are called from several goroutines.
type State interface {
	MarshalBinary() ([]byte, error) // all of it, at most 16 MiB
	Merge([]byte) error             // another node's state, or a piece of one
}

// Pace is how patient the fleet is: how often members are probed, and for how long an answer is waited for.
type Pace string

// The paces. What is broadcast is sent at once at each of them.
const (
	Local Pace = "local" // one machine: a dead member is noticed in about 5 s
	LAN   Pace = "lan"   // one network: about 10 s
	WAN   Pace = "wan"   // round trips of up to 1 s: about 30 s
)

// Config is what a Gossip is made of.
type Config struct {
	Node      string         // this node's name, unique in the fleet; required
	Listen    netip.AddrPort // UDP and TCP; port 0: any; required
	Advertise netip.AddrPort // where the others reach this node; zero: Listen
	Seeds     []string       // HOST:PORT of nodes to join; this node may be among them
	// Keys are of 16, 24 or 32 octets (AES-GCM): the first encrypts, all decrypt. Without keys everything is in plain text, which New refuses unless Listen and Advertise are loopback.
	Keys    [][]byte
	Network Pace          // "": WAN
	Sync    time.Duration // between exchanges of everything with some other node; 0: 30 s; more in fleets above 32 nodes
	Rejoin  time.Duration // between attempts to reach seeds and lost members; 0: 10 s. It grows to three times that
	Meta    []byte        // what the others see of this node, at most 512 octets
	States  map[string]State
	// Same names the states of which equal ones give equal octets: those are compared once a second with some others, and exchanged if they differ.
	Same       []string
	Transport  memberlist.Transport  // nil: UDP and TCP on Listen
	Log        *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: the metrics are counted but not shown
}

// Gossip is one node's membership of the fleet. All methods are safe for concurrent use.
type Gossip struct {
	config  Config
	log     *slog.Logger
	metrics *metrics
	keyring *memberlist.Keyring
	list    *memberlist.Memberlist
	members *members
	sender  *sender
	inbox   chan []byte
	seen    *seen
	compare *comparer

	ctx    context.Context // of the goroutines, until stop
	stop   context.CancelFunc
	done   sync.WaitGroup
	closed sync.Once
}

// label keeps apart what is not ours: packets and streams without it are dropped unread.
const label = "edgesteer/1"

// New opens the membership of a fleet of one. Others can join from then on; [Gossip.Join] joins them.
func New(c Config) (*Gossip, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	g := &Gossip{
		config: c, log: c.Log, metrics: newMetrics(c.Registerer, c.States),
		inbox: make(chan []byte, inboxSize), seen: newSeen(),
	}
	g.ctx, g.stop = context.WithCancel(context.Background())
	g.members = newMembers(c.Node, g.log, g.metrics)
	g.sender = newSender(g)
	g.compare = newComparer(g)
	mc := c.memberlist()
	hooks := &hooks{g}
	mc.Delegate, mc.Events, mc.Ping, mc.Conflict = hooks, hooks, hooks, hooks
	mc.LogOutput = &libraryLog{log: g.log, metrics: g.metrics}
	if len(c.Keys) > 0 {
		ring, err := memberlist.NewKeyring(c.Keys, c.Keys[0])
		if err != nil {
			return nil, fmt.Errorf("gossip: %w", err)
		}
		g.keyring, mc.Keyring = ring, ring
	}
	list, err := memberlist.Create(mc)
	if err != nil {
		g.stop()
		return nil, fmt.Errorf("gossip on %s: %w", c.Listen, err)
	}
	g.list = list
	for _, run := range []func(context.Context){g.sender.run, g.receive, g.keepJoined, g.compare.run} {
		g.done.Go(func() { run(g.ctx) })
	}
	return g, nil
}

// check refuses what cannot work, and fills in what was left out.
func (c *Config) check() error {
	if c.Node == "" || !c.Listen.IsValid() {
		return errors.New("gossip needs a node name and an address")
	}
	if len(c.Meta) > memberlist.MetaMaxSize {
		return fmt.Errorf("gossip: meta of %d octets, at most %d fit", len(c.Meta), memberlist.MetaMaxSize)
	}
	if len(c.Keys) == 0 && !(c.Listen.Addr().IsLoopback() && (!c.Advertise.IsValid() || c.Advertise.Addr().IsLoopback())) {
		return fmt.Errorf("gossip on %s: without a key only loopback is allowed, or everyone could drain (hint: openssl rand -base64 32 > cluster.key)", c.Listen)
	}
	for i, k := range c.Keys {
		if err := memberlist.ValidateKey(k); err != nil {
			return fmt.Errorf("gossip: key %d: %w", i+1, err)
		}
	}
	for _, name := range c.Same {
		if c.States[name] == nil {
			return fmt.Errorf("gossip: no state %q to compare", name)
		}
	}
	switch c.Network {
	case "":
		c.Network = WAN
	case Local, LAN, WAN:
	default:
		return fmt.Errorf("gossip: network %q is not local, lan or wan", c.Network)
	}
	if c.Sync <= 0 {
		c.Sync = 30 * time.Second
	}
	if c.Rejoin <= 0 {
		c.Rejoin = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// memberlist is the configuration of the library.
func (c *Config) memberlist() *memberlist.Config {
	var mc *memberlist.Config
	switch c.Network {
	case Local:
		mc = memberlist.DefaultLocalConfig()
	case LAN:
		mc = memberlist.DefaultLANConfig()
		mc.TCPTimeout = 5 * time.Second
	default:
		mc = memberlist.DefaultWANConfig()
		mc.TCPTimeout = 10 * time.Second
		mc.GossipInterval = 200 * time.Millisecond // it costs nothing while there is nothing to say
		mc.ProbeInterval = 2 * time.Second
		mc.ProbeTimeout = time.Second
	}
	mc.Name = c.Node
	mc.Label = label
	mc.Transport = c.Transport
	mc.BindAddr, mc.BindPort = c.Listen.Addr().String(), int(c.Listen.Port())
	if c.Advertise.IsValid() {
		mc.AdvertiseAddr, mc.AdvertisePort = c.Advertise.Addr().String(), int(c.Advertise.Port())
	}
	mc.PushPullInterval = c.Sync
	mc.DeadNodeReclaimTime = time.Second // a node that comes back may have another address
	return mc
}

// Addr is where the others reach this node.
func (g *Gossip) Addr() string { return g.list.LocalNode().Address() }

// Close says goodbye to the others, waiting for what is to be sent and for them to hear it until ctx ends, and closes everything.
func (g *Gossip) Close(ctx context.Context) error {
	var err error
	g.closed.Do(func() {
		g.sender.flush(ctx)
		g.sender.goodbye()
		timeout := time.Minute
		if until, ok := ctx.Deadline(); ok {
			timeout = max(time.Millisecond, time.Until(until))
		}
		left := make(chan error, 1)
		go func() { left <- g.list.Leave(timeout) }()
		select {
		case err = <-left:
		case <-ctx.Done():
			err = ctx.Err()
		}
		err = errors.Join(err, g.end())
	})
	return err
}

// Release closes everything without goodbye, once what waits is sent or ctx has ended: another process goes on as this node, and the others need not notice.
func (g *Gossip) Release(ctx context.Context) error {
	var err error
	g.closed.Do(func() {
		g.sender.flush(ctx)
		err = g.end()
	})
	return err
}

// Kill closes everything without a word, as a crash does.
func (g *Gossip) Kill() error {
	var err error
	g.closed.Do(func() { err = g.end() })
	return err
}

func (g *Gossip) end() error {
	g.stop()
	err := g.list.Shutdown()
	g.done.Wait()
	g.sender.end()
	return err
}

// addrPort is HOST:PORT of a member.
func addrPort(n *memberlist.Node) string {
	return net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(n.Port)))
}
