package gossip_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/pops/gossip"
	"github.com/edgesteer/edgesteer/pops/gossip/gossiptest"
)

// notes is a simple state: of each key the highest version. It remembers when it learned what.
type notes struct {
	mu    sync.Mutex
	Notes map[string]note
	heard map[string]time.Time // by key and version
}

type note struct {
	Version int
	Text    string
}

func newNotes() *notes { return &notes{Notes: map[string]note{}, heard: map[string]time.Time{}} }

func (n *notes) MarshalBinary() ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return json.Marshal(n.Notes) // keys in order
}

func (n *notes) Merge(b []byte) error {
	var more map[string]note
	if err := json.Unmarshal(b, &more); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for k, v := range more {
		if old, ok := n.Notes[k]; !ok || v.Version > old.Version {
			n.Notes[k] = v
			n.heard[fmt.Sprint(k, "@", v.Version)] = time.Now()
		}
	}
	return nil
}

// when tells when a version of a key was learned.
func (n *notes) when(key string, version int) (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, ok := n.heard[fmt.Sprint(key, "@", version)]
	return at, ok
}

// node is one of a fleet in memory.
type node struct {
	name   string
	addr   netip.AddrPort
	notes  *notes
	gossip *gossip.Gossip
}

// fleet is a fleet in memory. Nodes are in three regions by turns.
type fleet struct {
	t     testing.TB
	net   *gossiptest.Network
	nodes []*node
	pace  gossip.Pace
	keys  [][]byte
}

func addrOf(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, byte(i >> 8), byte(i)}), 7946)
}

// number is the inverse of addrOf.
func number(a netip.AddrPort) int {
	b := a.Addr().As4()
	return int(b[2])<<8 | int(b[3])
}

// oneNetwork is a network of half a millisecond.
func oneNetwork(_, _ netip.AddrPort) gossiptest.Link {
	return gossiptest.Link{Delay: 200 * time.Microsecond, Jitter: 300 * time.Microsecond}
}

// threeRegions has 100 ms and 5 % loss between regions.
func threeRegions(from, to netip.AddrPort) gossiptest.Link {
	if number(from)%3 == number(to)%3 {
		return oneNetwork(from, to)
	}
	return gossiptest.Link{Delay: 100 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 0.05}
}

// newFleet starts n nodes, of which the first three are the seeds of all, and returns when all know each other.
func newFleet(t testing.TB, n int, pace gossip.Pace, links func(from, to netip.AddrPort) gossiptest.Link) *fleet {
	t.Helper()
	f := &fleet{t: t, net: gossiptest.New(1), pace: pace, keys: [][]byte{bytes.Repeat([]byte("k"), 32)}}
	f.net.Set(links)
	for i := range n {
		f.nodes = append(f.nodes, &node{name: fmt.Sprintf("n%03d", i), addr: addrOf(i)})
		f.start(i)
	}
	f.within(2*time.Minute, "all nodes know each other", func() bool {
		return !slices.ContainsFunc(f.nodes, func(n *node) bool { return alive(n.gossip) != len(f.nodes) })
	})
	return f
}

// start starts a node without any state.
func (f *fleet) start(i int) *node {
	f.t.Helper()
	n := f.nodes[i]
	n.notes = newNotes()
	n.gossip = f.open(n.name, n.addr, map[string]gossip.State{"notes": n.notes})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.gossip.Join(ctx); err != nil && i > 2 {
		f.t.Errorf("%s: %v", n.name, err)
	}
	return n
}

func (f *fleet) open(name string, addr netip.AddrPort, states map[string]gossip.State) *gossip.Gossip {
	f.t.Helper()
	g, err := gossip.New(gossip.Config{
		Node: name, Listen: addr, Seeds: []string{addrOf(0).String(), addrOf(1).String(), addrOf(2).String()}[:min(3, max(1, number(addr)))],
		Keys: f.keys, Network: f.pace, States: states, Same: slices.Sorted(maps.Keys(states)), Transport: f.net.Transport(addr),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return g
}

// end ends all nodes. In a bubble nothing may go on behind the test.
func (f *fleet) end() {
	for _, n := range f.nodes {
		n.gossip.Kill()
	}
	time.Sleep(time.Minute)
}

func alive(g *gossip.Gossip) (n int) {
	for _, m := range g.Members() {
		if m.State == gossip.Alive || m.State == gossip.Suspect {
			n++
		}
	}
	return n
}

// within waits for something and gives how long it took.
func (f *fleet) within(d time.Duration, what string, ok func() bool) time.Duration {
	f.t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > d {
			f.t.Fatalf("not within %v: %s", d, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(start)
}

// note makes a note at a node, and broadcasts it.
func (f *fleet) note(n *node, key string, version int, text string) {
	b, err := json.Marshal(map[string]note{key: {version, text}})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := n.notes.Merge(b); err != nil {
		f.t.Fatal(err)
	}
	n.gossip.Broadcast("notes", key, b)
}

// everywhere waits until all nodes have a version of a key, and gives how long that took from start.
func (f *fleet) everywhere(start time.Time, key string, version int) time.Duration {
	f.t.Helper()
	var last time.Time
	f.within(time.Minute, key+" is everywhere", func() bool {
		last = start
		for _, n := range f.nodes {
			at, ok := n.notes.when(key, version)
			if !ok {
				return false
			}
			if at.After(last) {
				last = at
			}
		}
		return true
	})
	return last.Sub(start)
}

// same tells whether all nodes hold the same.
func (f *fleet) same() bool {
	first, _ := f.nodes[0].notes.MarshalBinary()
	return !slices.ContainsFunc(f.nodes[1:], func(n *node) bool {
		b, _ := n.notes.MarshalBinary()
		return !bytes.Equal(first, b)
	})
}

// quantile of durations.
func quantile(d []time.Duration, q float64) time.Duration {
	slices.Sort(d)
	return d[min(len(d)-1, int(q*float64(len(d))))]
}
