package server

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/zones"
)

const (
	ringSize   = 1 << 11 // samples that a handler keeps until they are collected
	sampled    = 1 << 10 // how many it should take from one collection to the next: sorting them in must not keep a processor from answering
	halfLife   = 5 * time.Minute
	heavyMost  = 1024 // networks followed by name for a record
	heavyLeast = 16   // of a record of which little was seen
	// classExamples is how many clients are kept of each class, to stand for the rest of it.
	classExamples = 32
)

// asked is one steered query, as the mix samples it.
type asked struct {
	record *zones.Record
	client geo.Client
}

// ring passes samples from one handler to the collector, without locks: the handler writes entries and shows them at the end of its batch, the collector shows what it has
// taken. Of many queries the handler takes one of so many, as the collector has found of the last ones; the others are only counted, and what the ring holds stands for them too.
type ring struct {
	entries [ringSize]asked
	head    uint64 // next entry to write; the handler's
	full    uint64 // tail as the handler saw it last, plus the size
	missed  uint64
	wait    uint32 // queries until the next that is taken
	stride  uint32 // so many are passed over after one that is taken

	_     [64]byte
	shown atomic.Uint64 // entries before this one are complete
	lost  atomic.Uint64 // queries that were only counted
	_     [64]byte
	taken atomic.Uint64 // entries before this one may be written over
	want  atomic.Uint32 // the stride that the collector wants
	lost0 uint64        // lost as of the last collection; the collector's
}

// add samples a query. If it takes it, it costs a copy of the client.
func (r *ring) add(record *zones.Record, client *geo.Client) {
	if r.wait > 0 {
		r.wait--
		r.missed++
		return
	}
	if r.head == r.full {
		r.missed++
		return
	}
	e := &r.entries[r.head%ringSize]
	e.record, e.client = record, *client
	r.head++
	r.wait = r.stride
}

// flush shows what was added to the collector.
func (r *ring) flush() {
	if r == nil || r.shown.Load() == r.head && r.missed == 0 {
		return
	}
	r.shown.Store(r.head)
	if r.missed > 0 {
		r.lost.Add(r.missed)
		r.missed = 0
	}
	r.full = r.taken.Load() + ringSize
	r.stride = r.want.Load()
	r.wait = min(r.wait, r.stride)
}

// Mix knows who asks for each steered record: how much comes from each class of networks that its map tells apart, and from the heaviest single networks. Counts fade with a
// half-life of five minutes. The handlers sample into rings, Collect takes them in.
type Mix struct {
	publisher *Publisher

	mu       sync.Mutex
	rings    []*ring
	cells    map[MixKey]*cell
	asked    map[MixKey]float64 // queries since the start, which do not fade
	examples map[classKey]*examples
	atlas    *geo.Atlas // that the class numbers are of
	born     time.Time
	epoch    time.Time // weights are scaled by 2^((t - epoch) / halfLife), so that nothing has to be multiplied to fade
	last     time.Time
	rand     *rand.Rand
}

// MixKey names a steered record: its owner in wire form, and type.
type MixKey struct {
	Owner string
	Type  uint16
}

// cell is the mix of one record.
type cell struct {
	plan    int // of the map that tells classes apart, -1: there is one class
	total   float64
	seen    int
	classes map[uint32]float64
	heavy   map[netip.Addr]*heavyCell
	heap    lightest // the same
}

// classKey is a class of the map of a plan.
type classKey struct {
	plan  int
	class uint32
}

// examples are clients of a class, a uniform choice of those seen, one per query. All records with one plan share them: what a chain asks of places is the same.
type examples struct {
	seen    int
	clients []geo.Client
}

type heavyCell struct {
	client  geo.Client
	network netip.Addr
	class   uint32
	weight  float64 // upper bound (space-saving: Metwally, Agrawal, El Abbadi 2005)
	over    float64 // by which weight may be too high
	at      int     // in the heap
}

// lightest is a heap of networks, the lightest first.
type lightest []*heavyCell

func (l lightest) Len() int           { return len(l) }
func (l lightest) Less(i, j int) bool { return l[i].weight < l[j].weight }
func (l lightest) Swap(i, j int)      { l[i], l[j] = l[j], l[i]; l[i].at, l[j].at = i, j }
func (l *lightest) Push(x any)        { h := x.(*heavyCell); h.at = len(*l); *l = append(*l, h) }
func (l *lightest) Pop() any {
	h := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return h
}

// NewMix starts an empty mix; now is the time of its birth.
func NewMix(p *Publisher, now time.Time) *Mix {
	return &Mix{publisher: p, cells: map[MixKey]*cell{}, asked: map[MixKey]float64{}, examples: map[classKey]*examples{}, born: now, epoch: now, last: now, rand: rand.New(rand.NewPCG(1, 2))}
}

// ring makes a ring for one more handler.
func (m *Mix) ring() *ring {
	r := &ring{full: ringSize}
	m.mu.Lock()
	m.rings = append(m.rings, r)
	m.mu.Unlock()
	return r
}

// Collect takes in what the handlers have sampled since the last call. Call it about once a second; now must not go backwards.
func (m *Mix) Collect(now time.Time) {
	snap := m.publisher.Snapshot()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rescale(now)
	m.renumber(snap)
	scale := m.scale(now)
	for _, r := range m.rings {
		shown, lost := r.shown.Load(), r.lost.Load()
		taken := r.taken.Load()
		n := shown - taken
		all := n + lost - r.lost0
		r.want.Store(uint32(all / sampled))
		if n == 0 {
			continue
		}
		each := float64(all) / float64(n)
		r.lost0 = lost
		for ; taken < shown; taken++ {
			e := &r.entries[taken%ringSize]
			m.count(snap, e, each, scale)
			e.record = nil
		}
		r.taken.Store(taken)
	}
}

// scale is the weight of one query at a time.
func (m *Mix) scale(now time.Time) float64 {
	return math.Exp2(float64(now.Sub(m.epoch)) / float64(halfLife))
}

// rescale starts a new epoch before weights grow out of the precision of a float, and forgets what has faded away.
func (m *Mix) rescale(now time.Time) {
	m.last = now
	if now.Sub(m.epoch) < 20*halfLife {
		return
	}
	f := 1 / m.scale(now)
	m.epoch = now
	for key, c := range m.cells {
		c.total *= f
		for class := range c.classes {
			if c.classes[class] *= f; c.classes[class] < 1e-3 {
				delete(c.classes, class)
			}
		}
		for _, h := range c.heap { // a common factor leaves the heap in order
			h.weight, h.over = h.weight*f, h.over*f
		}
		if c.total < 1e-3 {
			delete(m.cells, key)
		}
	}
}

// count takes in a sample that stands for each queries.
func (m *Mix) count(snap *Snapshot, e *asked, each, scale float64) {
	key, weight := MixKey{string(e.record.Name), e.record.Type}, each*scale
	m.asked[key] += each
	c := m.cells[key]
	if c == nil {
		c = &cell{plan: planOf(snap.Atlas, e.record), classes: map[uint32]float64{}, heavy: map[netip.Addr]*heavyCell{}}
		m.cells[key] = c
	}
	class := classOf(snap.Atlas, c.plan, &e.client)
	c.total += weight
	c.seen++
	c.classes[class] += weight
	c.addHeavy(e.client, class, weight)
	m.example(classKey{c.plan, class}, e.client)
}

// example keeps a client of a class, or not, so that each one seen has the same chance (reservoir sampling).
func (m *Mix) example(key classKey, client geo.Client) {
	x := m.examples[key]
	if x == nil {
		x = &examples{}
		m.examples[key] = x
	}
	x.seen++
	if len(x.clients) < classExamples {
		x.clients = append(x.clients, client)
	} else if i := m.rand.IntN(min(x.seen, 1<<16)); i < classExamples {
		x.clients[i] = client
	}
}

func planOf(a *geo.Atlas, r *zones.Record) int {
	if r.Chain.Plan >= a.Len() {
		return -1
	}
	return r.Chain.Plan
}

func classOf(a *geo.Atlas, plan int, c *geo.Client) uint32 {
	if plan < 0 {
		return 0
	}
	return a.Map(plan).Lookup(c).Class
}

// renumber sorts what is known into the classes of a new atlas, by the examples: each stands for its part of the old class.
func (m *Mix) renumber(snap *Snapshot) {
	if m.atlas == snap.Atlas {
		return
	}
	old := m.examples
	m.examples, m.atlas = map[classKey]*examples{}, snap.Atlas
	for key, c := range m.cells {
		rec := snap.Zones.Find([]byte(key.Owner), key.Type).Record
		if rec == nil {
			delete(m.cells, key)
			continue
		}
		was := c.plan
		c.plan = planOf(snap.Atlas, rec)
		classes := map[uint32]float64{}
		for class, weight := range c.classes {
			x := old[classKey{was, class}]
			if x == nil {
				continue
			}
			for _, client := range x.clients {
				n := classOf(snap.Atlas, c.plan, &client)
				classes[n] += weight / float64(len(x.clients))
				m.example(classKey{c.plan, n}, client)
			}
		}
		c.classes = classes
		for _, h := range c.heap {
			h.class = classOf(snap.Atlas, c.plan, &h.client)
		}
	}
}

// addHeavy counts a network by the space-saving algorithm: a new one takes the place of the lightest. A record of which little was seen needs few places: a network with more
// than 1 % of its queries stands out all the same.
func (c *cell) addHeavy(client geo.Client, class uint32, weight float64) {
	network := client.Network()
	h := c.heavy[network]
	switch {
	case h != nil:
		h.class, h.weight = class, h.weight+weight
		heap.Fix(&c.heap, h.at)
		return
	case len(c.heap) < min(heavyMost, max(heavyLeast, c.seen/8)):
		h = &heavyCell{client: client, network: network, class: class, weight: weight}
		heap.Push(&c.heap, h)
	default:
		h = c.heap[0]
		delete(c.heavy, h.network)
		*h = heavyCell{client: client, network: network, class: class, weight: h.weight + weight, over: h.weight, at: 0}
		heap.Fix(&c.heap, 0)
	}
	c.heavy[network] = h
}

// PerSecond turns a Rate into queries a second: what a steady stream leaves after fading, or has left so far.
func (m *Mix) PerSecond(rate float64) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	age := float64(m.last.Sub(m.born)) / float64(halfLife)
	if age <= 0 {
		return 0
	}
	return rate * math.Ln2 / halfLife.Seconds() / (1 - math.Exp2(-age))
}

// Heavy is a network that asks much.
type Heavy struct {
	Client geo.Client
	Share  float64 // of the record's queries, 0..1: at least
}

// Weighted is a client that stands for a share of a record's queries.
type Weighted struct {
	Client geo.Client
	Weight float64
}

// RecordMix is who asks for one record.
type RecordMix struct {
	Key     MixKey
	Rate    float64 // queries that count now: what is left of all queries after fading
	Clients []Weighted
	Heavy   []Heavy // those above 1 % of the record's queries, heaviest first
}

// Snapshot is the mix as it is now: for each record clients that stand for all its queries, with weights that add up to Rate. Networks that are heavy for certain stand for
// themselves, the rest of a class is spread over examples of it. The clients of all records are at most about limit, so that who runs chains over them knows how long that takes.
func (m *Mix) Snapshot(limit int) []RecordMix {
	m.mu.Lock()
	defer m.mu.Unlock()
	scale := m.scale(m.last)
	classes := 1
	for _, c := range m.cells {
		classes += len(c.classes)
	}
	each := max(1, min(classExamples, limit/classes))
	out := make([]RecordMix, 0, len(m.cells))
	for key, c := range m.cells {
		if c.total > 0 {
			out = append(out, m.record(key, c, scale, each))
		}
	}
	slices.SortFunc(out, func(a, b RecordMix) int {
		return cmp.Or(cmp.Compare(a.Key.Owner, b.Key.Owner), cmp.Compare(a.Key.Type, b.Key.Type))
	})
	return out
}

// record is the mix of one record, with at most each examples of a class.
func (m *Mix) record(key MixKey, c *cell, scale float64, each int) RecordMix {
	r := RecordMix{Key: key, Rate: c.total / scale}
	sure := map[uint32]float64{} // by class: what heavy networks have for certain
	known := map[netip.Addr]bool{}
	for _, h := range c.heap {
		if w := h.weight - h.over; w > 0.01*c.total {
			known[h.network] = true
			sure[h.class] += w
			r.Heavy = append(r.Heavy, Heavy{h.client, w / c.total})
			r.Clients = append(r.Clients, Weighted{h.client, w / scale})
		}
	}
	for class, weight := range c.classes {
		rest := (weight - sure[class]) / scale
		x := m.examples[classKey{c.plan, class}]
		if rest <= 0 || x == nil {
			continue
		}
		first := len(r.Clients)
		for _, client := range x.clients {
			if len(r.Clients)-first < each && !known[client.Network()] {
				r.Clients = append(r.Clients, Weighted{client, 0})
			}
		}
		if len(r.Clients) == first { // all examples are heavy networks
			r.Clients = append(r.Clients, Weighted{x.clients[0], 0})
		}
		for i := first; i < len(r.Clients); i++ {
			r.Clients[i].Weight = rest / float64(len(r.Clients)-first)
		}
	}
	slices.SortFunc(r.Heavy, func(a, b Heavy) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), a.Client.Addr.Compare(b.Client.Addr))
	})
	return r
}
