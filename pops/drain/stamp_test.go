package drain

import (
	"math"
	"testing"
	"time"
)

func TestClockFollows(t *testing.T) {
	h := &hands{wall: noon}
	k := h.clock("a")
	h.pass(time.Minute)
	if got := k.Now(); !got.Equal(noon.Add(time.Minute)) {
		t.Errorf("after a minute: %v", got)
	}
	h.wall = h.wall.Add(time.Hour) // somebody sets the clock
	if got := k.Now(); !got.Equal(noon.Add(61 * time.Minute)) {
		t.Errorf("after a jump forward: %v", got)
	}
	k.SetOffset(2 * time.Second)
	if got := k.Now(); !got.Equal(noon.Add(61*time.Minute + 2*time.Second)) {
		t.Errorf("with peers 2 s ahead: %v", got)
	}
	k.SetOffset(-time.Hour)
	if got := k.Now(); !got.Equal(noon.Add(61*time.Minute + 2*time.Second)) {
		t.Errorf("with peers an hour behind it goes back: %v", got)
	}
}

// TestClockBack: the time of day jumps back an hour. Fleet time goes on at half speed until it is caught up, two hours later.
func TestClockBack(t *testing.T) {
	h := &hands{wall: noon}
	k := h.clock("a")
	h.wall = h.wall.Add(-time.Hour)
	last := k.Now()
	if !last.Equal(noon) {
		t.Errorf("right after the jump: %v", last)
	}
	for passed := time.Minute; passed <= 3*time.Hour; passed += time.Minute {
		h.pass(time.Minute)
		want := noon.Add(max(passed/2, passed-time.Hour))
		if got := k.Now(); !got.Equal(want) {
			t.Fatalf("%v after the jump: %v, want %v", passed, got, want)
		}
		if _, ahead := k.Offset(); ahead != max(0, time.Hour-passed/2) {
			t.Fatalf("%v after the jump: %v ahead", passed, ahead)
		}
	}
}

// TestClockBegin: a machine whose clock is an hour ahead learns so from its peers before it answers, or from its disk: it begins at fleet time, and never before what it has lived through.
func TestClockBegin(t *testing.T) {
	h := &hands{wall: noon.Add(time.Hour)}
	k := h.clock("a")
	k.Begin(-time.Hour)
	if got := k.Now(); !got.Equal(noon) {
		t.Errorf("begins at %v", got)
	}
	k.SetOffset(-2 * time.Hour)
	if got := k.Now(); !got.Equal(noon) {
		t.Errorf("goes back to %v", got)
	}
	k = h.clock("a")
	k.Begin(-time.Hour)
	k.Restore(noon.Add(time.Minute), Stamp{})
	k.Begin(-2 * time.Hour)
	if got := k.Now(); !got.Equal(noon.Add(time.Minute)) {
		t.Errorf("begins at %v, it has been at 12:01", got)
	}
}

func TestClockRestore(t *testing.T) {
	h := &hands{wall: noon}
	k := h.clock("a")
	k.Restore(noon.Add(time.Minute), Stamp{Wall: noon.Add(time.Hour).UnixNano(), Node: "b"})
	if got := k.Now(); !got.Equal(noon.Add(time.Minute)) {
		t.Errorf("now: %v", got)
	}
	if got := (k.Stamp(Stamp{})); got.Compare(Stamp{Wall: noon.Add(time.Hour).UnixNano(), Node: "b"}) <= 0 {
		t.Errorf("a stamp from before the restart: %v", got)
	}
	k.Restore(noon, Stamp{})
	if got := k.Now(); !got.Equal(noon.Add(time.Minute)) {
		t.Errorf("an older time: %v", got)
	}
}

func TestStamps(t *testing.T) {
	h := &hands{wall: noon}
	k := h.clock("a")
	last := Stamp{}
	next := func(after Stamp) Stamp {
		t.Helper()
		s := k.Stamp(after)
		if s.Compare(last) <= 0 || s.Compare(after) <= 0 || s.Node != "a" {
			t.Errorf("stamp %v after %v and %v", s, last, after)
		}
		return s
	}
	for range 3 {
		last = next(Stamp{})
	}
	h.wall = h.wall.Add(-time.Hour)
	last = next(Stamp{})

	near := Stamp{Wall: noon.Add(59 * time.Second).UnixNano(), Count: 7, Node: "b"}
	if !k.Observe(near) {
		t.Error("a stamp 59 s ahead is too far")
	}
	last = near
	last = next(Stamp{})

	far := Stamp{Wall: noon.Add(time.Hour).UnixNano(), Node: "b"}
	if k.Observe(far) {
		t.Error("a stamp an hour ahead advances the clock")
	}
	if s := next(Stamp{}); s.Wall >= far.Wall {
		t.Errorf("a stamp an hour ahead moved the clock to %v", s)
	}
	if s := k.Stamp(far); s.Compare(far) <= 0 { // but a version made from it beats it
		t.Errorf("stamp %v after %v", s, far)
	}
	if s := k.Stamp(Stamp{}); s.Wall >= far.Wall {
		t.Errorf("and moved the clock to %v", s)
	}
}

// A stamp is higher than the one that it follows, whatever that is.
func TestStampsDoNotWrap(t *testing.T) {
	k := (&hands{wall: noon}).clock("a")
	last := Stamp{Wall: noon.Add(time.Second).UnixNano(), Count: math.MaxUint32, Node: "b"}
	if got := k.Stamp(last); got.Compare(last) <= 0 {
		t.Errorf("%v after %v", got, last)
	}
	k.Observe(last)
	if got := k.Stamp(Stamp{}); got.Compare(last) <= 0 {
		t.Errorf("%v, %v was observed", got, last)
	}
}

// A clock that is ahead until it hears those of the others is not taken from the disk at the next start.
func TestClockWasAhead(t *testing.T) {
	n := &node{hands: hands{wall: noon.Add(10 * 365 * 24 * time.Hour)}, fs: newMemFS(), effect: &fakeEffect{}, t: t}
	n.open("a")
	n.Ledger.clock.Begin(noon.Sub(n.wall))
	n.flush()
	n.wall = noon // somebody has set it
	n.restart(false)
	n.Ledger.clock.Begin(0)
	if got := n.Now(); got.Sub(noon).Abs() > time.Minute {
		t.Errorf("begins at %v, it is %v", got, noon)
	}
}
