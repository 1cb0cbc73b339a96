package drain

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgesteer/edgesteer/pops"
)

// running opens a ledger on fs with the clock of the bubble, and runs it until the test ends.
func running(t *testing.T, fs *memFS) *node {
	l, err := New(Config{Node: "a", Dir: "state", FS: fs, Fleet: func() *pops.Fleet { return fleet }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { l.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return &node{Ledger: l, fs: fs, t: t}
}

// TestRun lets a day go by.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := running(t, newMemFS())
		r := drain("fra", 100)
		r.Over.Over, r.For, r.Back.Over = 10*time.Minute, time.Hour, 100*time.Minute
		n.apply(r)
		n.want("")
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{time.Minute, "fra 90"}, {9 * time.Minute, "fra 0"}, {50 * time.Minute, "fra 0"}, {time.Minute, "fra 1"}, {99 * time.Minute, ""}} {
			time.Sleep(step.after)
			synctest.Wait()
			n.want(step.want)
		}
		if got := n.ops(); got != "problem accepted expired" {
			t.Errorf("history: %q", got)
		}
		time.Sleep(24 * time.Hour)
		if p := n.Problems(); len(p) > 0 {
			t.Errorf("problems after a day: %v", p)
		}
	})
}

// TestRunWritesMerges: what a peer says is in force at once and on disk soon.
func TestRunWritesMerges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := newNode(t, "b")
		peer.apply(drain("fra", 50))
		state, _ := peer.MarshalBinary()
		fs := newMemFS()
		n := running(t, fs)
		changed, stop := n.Subscribe()
		defer stop()
		if err := n.Merge(state); err != nil {
			t.Fatal(err)
		}
		<-changed
		n.want("fra 50")
		synctest.Wait()
		c := &node{fs: fs.after(true), hands: hands{wall: time.Now()}, effect: &fakeEffect{}, t: t}
		c.open("a")
		c.want("fra 50")
	})
}

// TestRunRetries: what the disk did not take is written when it does.
func TestRunRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		n := running(t, fs)
		fs.fault = func(int, string, string) error { return errNoRoom }
		r := drain("fra", 50)
		r.Override = []string{Volatile}
		n.apply(r)
		time.Sleep(time.Minute)
		synctest.Wait()
		if !n.problem(DiskFailing) || !n.problem(HistoryFailing) {
			t.Errorf("problems: %v", n.Problems())
		}
		fs.mu.Lock()
		fs.fault = nil
		fs.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if p := n.Problems(); len(p) > 0 {
			t.Errorf("problems: %v", p)
		}
		c := &node{fs: fs.after(true), hands: hands{wall: time.Now()}, effect: &fakeEffect{}, t: t}
		c.open("a")
		c.want("fra 50")
	})
}

// TestClockJumpsBack: the time of day jumps back an hour, before and after a restart. No ramp turns back, nothing that has expired comes back, and every expiry still comes.
func TestClockJumpsBack(t *testing.T) {
	n := newNode(t, "a")
	short := drain("iad", 50)
	short.For = 10 * time.Minute
	n.apply(short)
	r := drain("fra", 100)
	r.Over.Over, r.For = 100*time.Minute, 2*time.Hour
	n.apply(r)
	n.pass(40 * time.Minute)
	n.flush()
	n.want("fra 60")

	n.hands.wall = n.hands.wall.Add(-time.Hour)
	n.want("fra 60")
	n.pass(20 * time.Minute) // at half speed
	n.flush()
	n.want("fra 50")
	if !n.problem(ClockBack) {
		t.Errorf("problems: %v", n.Problems())
	}
	n.restart(true)
	n.want("fra 50")
	n.pass(100 * time.Minute) // caught up
	n.flush()
	n.want("fra 0")
	if n.problem(ClockBack) {
		t.Errorf("problems: %v", n.Problems())
	}
	n.pass(20 * time.Minute)
	n.want("")
	later := n.apply(drain("sin", 1))
	if first := n.History(Query{Limit: 100}); later.Stamp.Wall <= first[len(first)-1].Time.UnixNano() {
		t.Errorf("stamp %v is older than the first record", later.Stamp)
	}
}

func TestPeersClocks(t *testing.T) {
	n := newNode(t, "a")
	n.Ledger.clock.SetOffset(11 * time.Second)
	n.flush()
	if !n.problem(ClockOff) {
		t.Errorf("problems: %v", n.Problems())
	}
	n.Ledger.clock.SetOffset(time.Second)
	n.pass(time.Minute)
	n.flush()
	if n.problem(ClockOff) {
		t.Errorf("problems: %v", n.Problems())
	}
}

// TestSlowDisk: while the disk takes its time over an order, what peers say is in force at once, and afterwards nothing of either is missing.
func TestSlowDisk(t *testing.T) {
	n, peer := newNode(t, "a"), newNode(t, "b")
	peer.apply(drain("fra", 50))
	state, _ := peer.MarshalBinary()
	hangs, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	n.fs.fault = func(_ int, op, _ string) error {
		if op == "sync" {
			once.Do(func() { close(hangs); <-goOn })
		}
		return nil
	}
	ordered, merged := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := n.Apply(drain("iad", 5))
		ordered <- err
	}()
	<-hangs
	go func() { merged <- n.Merge(state) }()
	select {
	case err := <-merged:
		if err != nil {
			t.Error(err)
		}
		n.want("fra 50")
	case <-time.After(time.Minute):
		t.Error("a peer's statement waits for the disk")
	}
	close(goOn)
	if err := <-ordered; err != nil {
		t.Error(err)
	}
	n.want("fra 50, iad 95")
	n.flush()
	n.restart(true)
	n.want("fra 50, iad 95")
	if got := n.ops(); !strings.Contains(got, "merged") || !strings.Contains(got, "accepted") {
		t.Errorf("history: %q", got)
	}
}
