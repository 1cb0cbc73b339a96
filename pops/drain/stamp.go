package drain

import (
	"cmp"
	"math"
	"sync"
	"time"
)

// Stamp orders versions of statements over the whole fleet: a hybrid logical clock and the node that gave it.
type Stamp struct {
	Wall  int64  `json:"wall"`            // fleet time in nanoseconds since 1970
	Count uint32 `json:"count,omitempty"` // tells stamps of one nanosecond apart
	Node  string `json:"node"`
}

// Compare is -1, 0 or 1: by time, then by count, then by node name.
func (s Stamp) Compare(o Stamp) int {
	return cmp.Or(cmp.Compare(s.Wall, o.Wall), cmp.Compare(s.Count, o.Count), cmp.Compare(s.Node, o.Node))
}

// farAhead is how far a stamp may be ahead of fleet time and still advance the clock.
const farAhead = time.Minute

// ClockConfig is what a Clock is made of.
type ClockConfig struct {
	Node string           // in every stamp; unique in the fleet
	Wall func() time.Time // this machine's time of day, which may jump; nil: time.Now
	// Mono is time that passes evenly and never jumps, from any origin; nil: the runtime's monotonic clock.
	Mono func() time.Duration
}

// Clock gives fleet time and stamps. Fleet time is this machine's time of day plus the median offset to fresh peers. It never runs backwards: when the time of day jumps back, fleet
// time goes on at half speed until it is caught up, so that no ramp turns back and every expiry still comes, at the latest after twice the time that was left. Safe for concurrent use.
type Clock struct {
	node string
	wall func() time.Time
	mono func() time.Duration

	mu     sync.Mutex
	offset time.Duration
	now    time.Time     // the last fleet time given
	at     time.Duration // mono of it
	last   Stamp         // the highest stamp given or observed
	floor  time.Time     // what was kept on disk: no start goes back before it
}

// NewClock makes a clock. Restore tells it what it knew in its last life.
func NewClock(c ClockConfig) *Clock {
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Mono == nil {
		start := time.Now()
		c.Mono = func() time.Duration { return time.Since(start) }
	}
	k := &Clock{node: c.Node, wall: c.Wall, mono: c.Mono}
	k.now, k.at = k.own(), c.Mono()
	return k
}

// own is the time of day without the runtime's monotonic reading, which would hide a jump.
func (k *Clock) own() time.Time { return k.wall().Round(0).UTC().Add(k.offset) }

// Now is fleet time, in UTC.
func (k *Clock) Now() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.advance()
}

func (k *Clock) advance() time.Time {
	own, at := k.own(), k.mono()
	if least := k.now.Add(max(0, at-k.at) / 2); own.Before(least) {
		own = least
	}
	k.now, k.at = own, at
	return own
}

// Stamp gives a stamp that is higher than every stamp this clock gave or observed, and higher than after: a new version beats the one that it was made from, whatever clock that
// one came from.
func (k *Clock) Stamp(after Stamp) Stamp {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := Stamp{Wall: k.advance().UnixNano(), Node: k.node}
	if s.Wall <= k.last.Wall {
		s = k.last.above(k.node)
	}
	k.last = s
	if s.Compare(after) <= 0 {
		s = after.above(k.node)
	}
	return s
}

// above is the next stamp after s, by a node.
func (s Stamp) above(node string) Stamp {
	if s.Count == math.MaxUint32 {
		return Stamp{Wall: s.Wall + 1, Node: node}
	}
	return Stamp{Wall: s.Wall, Count: s.Count + 1, Node: node}
}

// valid says whether there are stamps after s.
func (s Stamp) valid() bool { return s.Node != "" && s.Wall < math.MaxInt64-int64(time.Hour) }

// Observe takes note of a stamp of another node. One that is more than a minute ahead of fleet time does not advance the clock: false.
func (k *Clock) Observe(s Stamp) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.Wall > k.advance().Add(farAhead).UnixNano() {
		return false
	}
	if s.Compare(k.last) > 0 {
		k.last = s
	}
	return true
}

// Restore tells the clock the fleet time and the highest stamp that were kept on disk: it goes on from there and not from before.
func (k *Clock) Restore(now time.Time, last Stamp) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now = now.Round(0).UTC(); now.After(k.floor) {
		k.floor = now
	}
	if k.advance().Before(now) {
		k.now = now
	}
	if last.Compare(k.last) > 0 {
		k.last = last
	}
}

// Begin is SetOffset before anything rests on this clock, that is before the first query is answered: fleet time may go back then, to no earlier than what was kept on disk.
func (k *Clock) Begin(offset time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.offset = offset
	k.now, k.at = k.own(), k.mono()
	if k.now.Before(k.floor) {
		k.now = k.floor
	}
}

// SetOffset tells the clock the median offset of fresh peers' times of day to its own.
func (k *Clock) SetOffset(offset time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.advance()
	k.offset = offset
	k.advance()
}

// Offset is what SetOffset said, and how far fleet time is ahead of the time that it should be because that jumped back.
func (k *Clock) Offset() (offset, ahead time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.advance()
	return k.offset, max(0, now.Sub(k.own()))
}

func (k *Clock) highest() Stamp {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}
