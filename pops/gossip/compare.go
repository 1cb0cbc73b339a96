package gossip

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	compareEvery = time.Second
	comparePeers = 3
	settled      = 2 * time.Second // how long a state must not have changed for a difference to count: what is on its way needs no exchange
)

// comparer notices that another node's state differs: a message that never arrived, the other side of a cut that has healed. It tells a few others the digests of the states named in
// Config.Same; one that finds a difference exchanges everything with the sender.
type comparer struct {
	g *Gossip

	mu        sync.Mutex
	own       map[string]digest
	exchanges map[string]bool // under way, by node
}

type digest struct {
	sum   uint64
	since time.Time // that it is so
}

func newComparer(g *Gossip) *comparer {
	return &comparer{g: g, own: map[string]digest{}, exchanges: map[string]bool{}}
}

func (c *comparer) run(ctx context.Context) {
	if len(c.g.config.Same) == 0 {
		return
	}
	pause := time.NewTimer(compareEvery)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		start := time.Now()
		c.look()
		c.tell()
		// Writing down a large state takes long: it may take 2 % of the time.
		pause.Reset(jitter(max(compareEvery, 50*time.Since(start))))
	}
}

// jitter is d, up to a fifth more or less.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.4*float64(d))
}

// look brings the digests up to date.
func (c *comparer) look() {
	for _, name := range c.g.config.Same {
		b, err := c.g.config.States[name].MarshalBinary()
		if err != nil {
			continue
		}
		h := fnv.New64a()
		h.Write(b)
		c.mu.Lock()
		if d, ok := c.own[name]; !ok || d.sum != h.Sum64() {
			c.own[name] = digest{sum: h.Sum64(), since: time.Now()}
		}
		c.mu.Unlock()
	}
}

// tell sends the digests of settled states to a few members.
func (c *comparer) tell() {
	m := message{kind: digests, sender: c.g.config.Node}
	c.mu.Lock()
	for name, d := range c.own {
		if time.Since(d.since) >= settled {
			m.records = append(m.records, record{state: name, data: binary.BigEndian.AppendUint64(nil, d.sum)})
		}
	}
	c.mu.Unlock()
	if len(m.records) == 0 {
		return
	}
	for _, node := range c.g.members.others(comparePeers) {
		c.g.sender.packet(node, &m)
	}
}

// heard compares another node's digests with those of settled states here.
func (c *comparer) heard(m *message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range m.records {
		own, ok := c.own[r.state]
		if !ok || time.Since(own.since) < settled || bytes.Equal(r.data, binary.BigEndian.AppendUint64(nil, own.sum)) {
			continue
		}
		node, ok := c.g.members.alive(m.sender)
		if !ok || c.exchanges[m.sender] || len(c.exchanges) >= comparePeers {
			return
		}
		c.g.metrics.differing.WithLabelValues(r.state).Inc()
		c.exchanges[m.sender] = true
		go c.exchange(node)
		return
	}
}

func (c *comparer) exchange(node *memberlist.Node) {
	_ = c.g.exchange(c.g.ctx, addrPort(node)) // counted; it will be tried again if they still differ
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.exchanges, node.Name)
}
