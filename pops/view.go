package pops

import (
	"math"
	"net/netip"
	"time"
)

// State is the state of one unit in a View.
type State struct {
	Share      Share     // lowest of everything that applies (steering.md section 4)
	Said       Share     // lowest of the statements alone, health ignored: rung 3
	Shift      Unit      // where the networks that leave by a shift go, NoUnit if there is no shift
	ShiftShare Share     // a network leaves by the shift when its bucket is at or above this; others that leave just leave
	Moving     bool      // the share is about to change: a ramp is under way, an end is near, checks waver; answers had better not be kept for long
	Shed       float64   // probability 0..1 that shed_load takes a network away, already rising at once and falling slowly
	HasLoad    bool      // the load is known and fresh
	Load       float64   // in the unit of Metric; the last one that was known when HasLoad is false, and LoadAt is not zero
	LoadAt     time.Time // when it was so; zero: nobody knows
	Metric     Metric    // of the service
	Dead       uint64    // bit i: Endpoint.Addresses[i] failed its checks, on the rungs that honour it: see View.Dead
}

// View is what is in use at one moment. Its single writer is NewView; it is immutable.
type View struct {
	Version uint64    // as given to NewView
	At      time.Time // fleet time that it was computed for
	Fleet   *Fleet
	States  []State   // by Unit
	Feeds   []float64 // by feed; NaN when never seen or stale
	AllUp   bool      // every unit is available to every client, with all its addresses: nothing is drained, shifted or down
	NoShed  bool      // no load takes a network away from any unit

	// Next is the first moment after At at which the same loads would give another view: a load goes stale, a shed probability falls. Zero if none does. Verdicts, feeds and
	// statements are not in it: whoever hands those in knows.
	Next time.Time
	// Lost are the statements whose target names nothing in this fleet: they do nothing until it exists again, and must be shown.
	Lost []Intent
	// Ended are the ids of the drills that something touched: they do not count in this view and are to be lifted.
	Ended []string
	// Panic are the services of which health has removed as much as it may, so that further down verdicts are only shown. Indexes into Fleet.Services, rising.
	Panic []int

	reasons [][]Reason          // by Unit
	sheds   []shedding          // by endpoint; nil if no load ever shed
	owns    map[ownKey]shedding // of answers' own loads, those that shed lately; nil if none did
}

// Rungs of the last-resort ladder (steering.md section 4): on each, more units are available to a client than on the one below.
const (
	RungBucket = 1 // the client's bucket is below the share
	RungShare  = 2 // the share is above 0
	RungSaid   = 3 // health ignored: the statements leave a share above 0
	RungAll    = 4 // everything
)

// Available says whether a unit is available to a client on a rung. network is the client's address masked to min(source length, /24 or /56). drawn says that the client's
// bucket decided, so that another network might see something else. NoUnit is always available. It does not allocate.
func (v *View) Available(u Unit, network netip.Addr, rung int) (in, drawn bool) {
	if u < 0 {
		return true, false
	}
	s := &v.States[u]
	switch {
	case rung >= RungAll:
		return true, false
	case rung == RungSaid:
		return s.Said > 0, false
	case rung == RungShare || s.Share <= 0 || s.Share >= 100:
		return s.Share > 0, false
	}
	return v.bucket(u, network) < float64(s.Share), true
}

// Shift says where a client goes that a unit is not available to: to another endpoint if the client leaves by a shift and that endpoint is available to it on the same rung, else
// NoUnit: it just leaves. A shift is one step: the other endpoint's own shift is not followed. drawn is as in Available. It does not allocate.
func (v *View) Shift(u Unit, network netip.Addr, rung int) (to Unit, drawn bool) {
	if u < 0 {
		return NoUnit, false
	}
	s := &v.States[u]
	if s.Shift < 0 || s.ShiftShare >= 100 {
		return NoUnit, false
	}
	if s.ShiftShare > 0 {
		drawn = true
		if v.bucket(u, network) < float64(s.ShiftShare) {
			return NoUnit, drawn
		}
	}
	in, also := v.Available(s.Shift, network, rung)
	if !in {
		return NoUnit, drawn || also
	}
	return s.Shift, drawn || also
}

func (v *View) bucket(u Unit, network netip.Addr) float64 {
	return Bucket(TagUp, network, v.Fleet.PoPs[v.Fleet.PoPOf(u)].Name)
}

// Dead gives the addresses of an endpoint that are left out on a rung: bit i is Endpoint.Addresses[i]. From RungSaid on none is.
func (v *View) Dead(u Unit, rung int) uint64 {
	if u < 0 || rung >= RungSaid {
		return 0
	}
	return v.States[u].Dead
}

// Number gives a number of metadata now: of its feed if that has fresh data, else as configured. false if the key is missing, or bound to a feed that has no fresh data where no
// value was configured.
func (v *View) Number(x Value) (float64, bool) {
	if i := int(x.Feed) - 1; i >= 0 && i < len(v.Feeds) && !math.IsNaN(v.Feeds[i]) {
		return v.Feeds[i], x.Set
	}
	return x.Const, x.Set && !math.IsNaN(x.Const)
}

// Reasons says why a unit has its share: what decided first, then what applies, then what does not and why not. The caller must not change it. nil when nothing was said.
func (v *View) Reasons(u Unit) []Reason {
	if u < 0 || int(u) >= len(v.reasons) {
		return nil
	}
	return v.reasons[u]
}
