package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// beacon is what a node says of itself, once a second and at every change.
type beacon struct {
	Node       string            `json:"node"`
	Seq        uint64            `json:"seq"` // the highest is the newest
	PoP        string            `json:"pop,omitempty"`
	Version    string            `json:"version"`
	Started    time.Time         `json:"started"`
	Config     string            `json:"config"`            // hash of it
	Statements int               `json:"statements"`        // remembered
	Ledgers    []string          `json:"ledgers"`           // digests of the last states of the ledger that its answers obeyed, newest first
	Zones      string            `json:"zones"`             // digest of Serials
	Serials    map[string]uint32 `json:"serials,omitempty"` // by zone; left out of what is said once a second
}

// beaconMessage is beacons on their way.
type beaconMessage struct {
	From    string    `json:"from"`
	Wall    time.Time `json:"wall,omitzero"` // time of day at From when this was sent; zero: nobody knows how long this was on its way
	Ask     bool      `json:"ask,omitempty"` // From wants this node's beacon at once
	Beacons []aged    `json:"beacons,omitempty"`
}

type aged struct {
	beacon
	Age int64 `json:"age"` // since From heard it from the node itself, perhaps through others, in ms
}

// beaconLife is how long a node that is silent is remembered.
const beaconLife = 24 * time.Hour

// beacons is what all nodes have said of themselves. It implements gossip.State.
type beacons struct {
	wall func() time.Time
	rtt  func(node string) time.Duration // of the way to a node and back; 0: unknown
	ask  func(node string)               // a node wants to hear the beacon

	mu      sync.Mutex
	own     beacon
	others  map[string]*peer
	changed chan struct{} // closed and replaced when a node says that it obeys something else
}

// peer is another node.
type peer struct {
	beacon
	heard    time.Time     // when it last said so
	offset   time.Duration // its time of day, less this machine's
	wall     time.Time     // its time of day when that was measured
	measured time.Time     // zero: never
	behind   time.Time     // since when it does not obey what this node obeys; zero: it does
}

// newBeacons makes those of a node; wall nil is time.Now.
func newBeacons(own beacon, wall func() time.Time) *beacons {
	if wall == nil {
		wall = time.Now
	}
	return &beacons{
		wall: wall, rtt: func(string) time.Duration { return 0 }, ask: func(string) {},
		own: own, others: map[string]*peer{}, changed: make(chan struct{}),
	}
}

// MarshalBinary implements gossip.State: what is exchanged when nodes join, and now and then.
func (b *beacons) MarshalBinary() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	m := beaconMessage{From: b.own.Node, Wall: b.wall(), Beacons: []aged{{beacon: b.own}}}
	b.forget(now)
	for _, name := range slices.Sorted(maps.Keys(b.others)) {
		p := b.others[name]
		m.Beacons = append(m.Beacons, aged{beacon: p.beacon, Age: now.Sub(p.heard).Milliseconds()})
	}
	return json.Marshal(m)
}

// say gives the own beacon as it is said once a second; with serials, as it is said when they change.
func (b *beacons) say(serials bool) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.own.Seq++
	m := beaconMessage{From: b.own.Node, Wall: b.wall(), Beacons: []aged{{beacon: b.own}}}
	if serials {
		m.Wall = time.Time{} // others pass it on
	} else {
		m.Beacons[0].Serials = nil
	}
	return mustJSON(m)
}

// asking is the wish to hear a node's beacon.
func (b *beacons) asking() []byte { return mustJSON(beaconMessage{From: b.own.Node, Ask: true}) }

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("app: " + err.Error()) // of types that always encode
	}
	return data
}

// Merge implements gossip.State.
func (b *beacons) Merge(data []byte) error {
	var m beaconMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("beacons: %w", err)
	}
	wall := b.wall()
	half := b.rtt(m.From) / 2
	if m.Ask {
		b.ask(m.From)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, one := range m.Beacons {
		heard := now.Add(-time.Duration(max(0, one.Age)) * time.Millisecond)
		switch {
		case one.Node == "" || now.Sub(heard) > beaconLife:
		case one.Node == b.own.Node:
			b.own.Seq = max(b.own.Seq, one.Seq) // of an earlier life
		default:
			b.hear(&one.beacon, heard)
		}
	}
	if p := b.others[m.From]; p != nil && !m.Wall.IsZero() {
		p.wall, p.measured = m.Wall.Add(half), now
		p.offset = p.wall.Sub(wall)
	}
	return nil
}

// hear takes note of a beacon, unless a newer one is known.
func (b *beacons) hear(one *beacon, heard time.Time) {
	p := b.others[one.Node]
	if p == nil {
		p = &peer{}
		b.others[one.Node] = p
	} else if one.Seq <= p.Seq {
		if one.Serials != nil && one.Zones == p.Zones { // it took another way
			p.Serials = one.Serials
		}
		return
	}
	serials := one.Serials
	if serials == nil && one.Zones == p.Zones {
		serials = p.Serials
	}
	news := !slices.Equal(one.Ledgers, p.Ledgers)
	p.beacon, p.Serials = *one, serials
	if heard.After(p.heard) {
		p.heard = heard
	}
	b.judge(p)
	if news {
		b.tell()
	}
}

// judge says whether a peer is behind.
func (b *beacons) judge(p *peer) {
	switch {
	case len(b.own.Ledgers) > 0 && len(p.Ledgers) > 0 && b.own.Ledgers[0] == p.Ledgers[0]:
		p.behind = time.Time{}
	case p.behind.IsZero():
		p.behind = time.Now()
	}
}

func (b *beacons) tell() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// ledgersKept is how many digests a beacon has: who waits for one sees it though another has followed.
const ledgersKept = 6

// obeys takes note that this node's answers obey a state of the ledger; true if that is news.
func (b *beacons) obeys(digest string, statements int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.own.Ledgers) > 0 && b.own.Ledgers[0] == digest {
		return false
	}
	b.own.Statements = statements
	b.own.Ledgers = append([]string{digest}, b.own.Ledgers[:min(len(b.own.Ledgers), ledgersKept-1)]...)
	for _, p := range b.others {
		b.judge(p)
	}
	b.tell()
	return true
}

// serves takes note of what this node serves; true if that is news.
func (b *beacons) serves(config, zones string, serials map[string]uint32) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.own.Config == config && b.own.Zones == zones {
		return false
	}
	b.own.Config, b.own.Zones, b.own.Serials = config, zones, serials
	return true
}

func (b *beacons) forget(now time.Time) {
	maps.DeleteFunc(b.others, func(_ string, p *peer) bool { return now.Sub(p.heard) > beaconLife })
}

// all gives this node's beacon, those of all others of the last 24 h, and a channel that is closed when that changes.
func (b *beacons) all() (own beacon, others map[string]peer, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(time.Now())
	others = make(map[string]peer, len(b.others))
	for name, p := range b.others {
		others[name] = *p
	}
	return b.own, others, b.changed
}

// offset is the median of the times of day of this node and its peers, less its own, and how many peers that rests on. The own clock counts too: so all nodes arrive at the same fleet time,
// whatever their clocks say. Of an even number it is the lower of the two in the middle: fleet time can go forward at any time, and back only slowly.
//
// Peers that are silent count on by what they said last, for as long as they are remembered: clocks go on evenly, and were it otherwise, a cut would give each side a time of its own. What has passed
// since then is taken from the runtime's monotonic clock, so that a jump of this machine's time of day moves none of them.
func (b *beacons) offset() (median time.Duration, peers int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wall := b.wall().Round(0)
	offsets := []time.Duration{0}
	for _, p := range b.others {
		if since := time.Since(p.measured); !p.measured.IsZero() && since <= beaconLife {
			offsets = append(offsets, p.wall.Add(since).Sub(wall))
		}
	}
	slices.Sort(offsets)
	return offsets[(len(offsets)-1)/2], len(offsets) - 1
}
