package gossip

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	packetSize = 1000 // octets of a message that goes in a packet
	streamSize = 1 << 20
	fan        = 64                    // members that a broadcast is sent to by the node that makes it
	relay      = 4                     // members that each node passes a new broadcast on to at once, in fleets that fan does not cover
	told       = 32                    // members that Tell tells
	gather     = 10 * time.Millisecond // before a stream, so that what is said in one breath goes as one
	burst      = 16                    // broadcasts of one node in packets at once, and a second; more go as streams: packets get lost, all the more if there are many
	outboxSize = 4096                  // keys that wait
	outboxRoom = 8 << 20               // octets that wait
)

// sender sends: what waits is kept by state and key, so that a later piece takes the place of an earlier one, and no caller ever waits.
//
// A broadcast goes to at most fan members at once, in packets of its own, so that the library's news of members cannot crowd it out; and also into the library's queue, which repeats it a
// few times to members at random. Each node passes on what is new to it in the same way. What does not fit a packet goes over TCP.
type sender struct {
	g     *Gossip
	queue *memberlist.TransmitLimitedQueue

	mu    sync.Mutex
	out   map[recordKey]waiting
	order []recordKey
	room  int
	lanes map[string]*lane
	idle  *sync.Cond // on mu: nothing waits
	busy  bool       // run is sending what it took
	over  bool       // no more streams
	wake  chan struct{}

	credit float64 // broadcasts that may go in packets; of run only
	asOf   time.Time
}

type recordKey struct{ state, key, to string }

// waiting is a record that is to be sent.
type waiting struct {
	record
	to  string // member; "": everybody
	way way
}

// way is how a record spreads.
type way int

const (
	toAll  way = iota // a broadcast that was made here
	passed            // a broadcast of another node
	toSome            // once
)

func newSender(g *Gossip) *sender {
	s := &sender{g: g, out: map[recordKey]waiting{}, lanes: map[string]*lane{}, wake: make(chan struct{}, 1)}
	s.idle = sync.NewCond(&s.mu)
	s.queue = &memberlist.TransmitLimitedQueue{RetransmitMult: 4, NumNodes: func() int {
		others, _ := g.members.count()
		return others + 1
	}}
	return s
}

// Broadcast sends a piece of a state to all nodes; each passes it on once. It never waits: a piece of the same key that was not sent yet is replaced, and if far too much waits the oldest is
// given up.
func (g *Gossip) Broadcast(state, key string, data []byte) {
	r := record{state: state, key: key, id: rand.Uint64() | 1, data: data}
	g.seen.add(r.id)
	g.sender.put(waiting{record: r})
}

// Tell sends a piece of a state to at most 32 members at random, once: it is not repeated and not passed on. It is for what will soon be said again.
func (g *Gossip) Tell(state, key string, data []byte) {
	g.sender.put(waiting{record: record{state: state, key: key, data: data}, way: toSome})
}

// Send sends a piece of a state to one node, once. To nodes that are not there it sends nothing.
func (g *Gossip) Send(node, state, key string, data []byte) {
	g.sender.put(waiting{record: record{state: state, key: key, data: data}, to: node, way: toSome})
}

func (s *sender) put(w waiting) {
	k := recordKey{state: w.state, key: w.key, to: w.to}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.out[k]; ok {
		s.room -= len(old.data)
	} else {
		s.order = append(s.order, k)
	}
	s.out[k] = w
	s.room += len(w.data)
	for len(s.out) > 1 && (len(s.out) > outboxSize || s.room > outboxRoom) {
		oldest := s.order[0]
		s.room -= len(s.out[oldest].data)
		delete(s.out, oldest)
		s.order = s.order[1:]
		s.g.metrics.dropped.WithLabelValues(dropOutbox).Inc()
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *sender) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		s.send()
	}
}

// send sends all that waits.
func (s *sender) send() {
	s.mu.Lock()
	s.busy = true
	var ours, theirs, once []record
	single := map[string][]record{}
	for _, k := range s.order {
		switch w := s.out[k]; {
		case w.to != "":
			single[w.to] = append(single[w.to], w.record)
		case w.way == toSome:
			once = append(once, w.record)
		case w.way == passed:
			theirs = append(theirs, w.record)
		default:
			ours = append(ours, w.record)
		}
	}
	clear(s.out)
	s.order, s.room = nil, 0
	s.mu.Unlock()

	for name, records := range single {
		if node, ok := s.g.members.alive(name); ok {
			s.to(node, records, true)
		}
	}
	s.spread(once, told, true)
	calm := s.calm(len(ours))
	s.spread(ours, fan, calm)
	if others, _ := s.g.members.count(); others > fan {
		s.spread(theirs, relay, true)
	}
	if calm {
		for _, r := range ours {
			s.repeat(r)
		}
	}
	for _, r := range theirs {
		s.repeat(r)
	}

	s.mu.Lock()
	s.busy = false
	s.idle.Broadcast()
	s.mu.Unlock()
}

// calm tells whether n more broadcasts may go in packets.
func (s *sender) calm(n int) bool {
	now := time.Now()
	s.credit = min(burst, s.credit+burst*now.Sub(s.asOf).Seconds())
	s.asOf = now
	if float64(n) > s.credit {
		return false
	}
	s.credit -= float64(n)
	return true
}

// spread sends records to n members at random.
func (s *sender) spread(records []record, n int, packets bool) {
	if len(records) == 0 {
		return
	}
	for _, node := range s.g.members.others(n) {
		s.to(node, records, packets)
	}
}

// to sends records to a member: what is small in packets, if it may, the rest as a stream.
func (s *sender) to(node *memberlist.Node, records []record, packets bool) {
	if !packets {
		s.stream(node, records)
		return
	}
	var large []record
	m := message{kind: pieces, sender: s.g.config.Node}
	send := func() {
		if len(m.records) > 0 {
			s.packet(node, &m)
			m.records = nil
		}
	}
	for _, r := range records {
		switch {
		case !s.fits(&r):
			large = append(large, r)
			continue
		case m.size()+r.size() > packetSize:
			send()
		}
		m.records = append(m.records, r)
	}
	send()
	if len(large) > 0 {
		s.stream(node, large)
	}
}

// fits tells whether a record can go in a packet.
func (s *sender) fits(r *record) bool {
	m := message{sender: s.g.config.Node, records: []record{*r}}
	return m.size() <= packetSize
}

func (s *sender) packet(node *memberlist.Node, m *message) {
	b := m.encode()
	s.g.metrics.sent.WithLabelValues(wayPacket).Inc()
	s.g.metrics.octets.WithLabelValues(wayPacket).Add(float64(len(b)))
	if err := s.g.list.SendBestEffort(node, b); err != nil {
		s.g.log.Debug("gossip packet", "peer", node.Name, "err", err)
	}
}

// repeat puts a broadcast that fits a packet into the queue that is sent from along with news of members.
func (s *sender) repeat(r record) {
	if r.id == 0 || !s.fits(&r) {
		return
	}
	m := message{kind: pieces, sender: s.g.config.Node, records: []record{r}}
	s.queue.QueueBroadcast(&repeated{name: r.state + "\x00" + r.key, message: m.encode()})
	if s.queue.NumQueued() > outboxSize {
		s.queue.Prune(outboxSize)
		s.g.metrics.dropped.WithLabelValues(dropOutbox).Inc()
	}
}

// repeated is a broadcast in the library's queue.
type repeated struct {
	name    string
	message []byte
}

func (r *repeated) Name() string    { return r.name }
func (r *repeated) Message() []byte { return r.message }
func (r *repeated) Finished()       {}

func (r *repeated) Invalidates(o memberlist.Broadcast) bool {
	other, ok := o.(memberlist.NamedBroadcast)
	return ok && other.Name() == r.name
}

// lane is what waits for one member to be sent over TCP: one stream at a time, so that a member that cannot be reached holds up nobody else.
type lane struct {
	records map[recordKey]record
	order   []recordKey
	room    int
}

func (s *sender) stream(node *memberlist.Node, records []record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	l, running := s.lanes[node.Name]
	if !running {
		l = &lane{records: map[recordKey]record{}}
		s.lanes[node.Name] = l
	}
	for _, r := range records {
		k := recordKey{state: r.state, key: r.key}
		old, ok := l.records[k]
		if !ok {
			l.order = append(l.order, k)
		}
		if l.room += len(r.data) - len(old.data); l.room > outboxRoom {
			l.room += len(old.data) - len(r.data)
			s.g.metrics.dropped.WithLabelValues(dropOutbox).Inc()
			if !ok {
				l.order = l.order[:len(l.order)-1]
			}
			continue
		}
		l.records[k] = r
	}
	if !running {
		go s.drive(node, l)
	}
}

// drive empties a lane.
func (s *sender) drive(node *memberlist.Node, l *lane) {
	for {
		time.Sleep(gather)
		m := message{kind: pieces, sender: s.g.config.Node}
		s.mu.Lock()
		for size := 0; len(l.order) > 0 && size < streamSize; l.order = l.order[1:] {
			r := l.records[l.order[0]]
			delete(l.records, l.order[0])
			l.room -= len(r.data)
			size += r.size()
			m.records = append(m.records, r)
		}
		if len(m.records) == 0 {
			delete(s.lanes, node.Name)
			s.idle.Broadcast()
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		b := m.encode()
		s.g.metrics.sent.WithLabelValues(wayStream).Inc()
		s.g.metrics.octets.WithLabelValues(wayStream).Add(float64(len(b)))
		if err := s.g.list.SendReliable(node, b); err != nil {
			s.g.metrics.dropped.WithLabelValues(dropUnsent).Add(float64(len(m.records)))
			s.g.log.Debug("gossip stream", "peer", node.Name, "err", err)
		}
	}
}

// flush waits until nothing waits any more, or ctx ends.
func (s *sender) flush(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.idle.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for ctx.Err() == nil && (s.busy || len(s.out) > 0 || len(s.lanes) > 0) {
		s.idle.Wait()
	}
}

// end lets no stream begin. One that is being sent to a node that does not answer is not waited for.
func (s *sender) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// goodbye tells the others that this node leaves on purpose: the library knows, but does not say.
func (s *sender) goodbye() {
	for _, node := range s.g.members.others(1 << 16) {
		s.packet(node, &message{kind: goodbye, sender: s.g.config.Node})
	}
}
