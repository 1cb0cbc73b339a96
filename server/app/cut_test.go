package app

import (
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/pops/gossip"
	"github.com/edgesteer/edgesteer/pops/gossip/gossiptest"
	"github.com/edgesteer/edgesteer/server/config"
)

// What follows is the control path of real servers, all but their listeners and admin API, on a network in memory and the clock of testing/synctest.

// skews are clocks of which those of the first two nodes alone would have another median.
func skews() []time.Duration {
	return []time.Duration{time.Hour, time.Hour, 0, 2 * time.Second, -time.Hour}
}

// virtual is a fleet in a bubble, of nodes whose clocks are off.
type virtual struct {
	t    *testing.T
	net  *gossiptest.Network
	apps []*App
	step atomic.Int64 // by which all clocks have been set forward, in ns
}

func virtualAddr(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(i + 1)}), 7946)
}

// threeRegions has 100 ms and 5 % loss between regions; sides are cut off from each other if cut is true.
func threeRegions(cut bool) func(from, to netip.AddrPort) gossiptest.Link {
	return func(from, to netip.AddrPort) gossiptest.Link {
		a, b := from.Addr().As4()[3]-1, to.Addr().As4()[3]-1
		l := gossiptest.Link{Delay: time.Millisecond, Cut: cut && (a < 2) != (b < 2)}
		if a%3 != b%3 {
			l.Delay, l.Jitter, l.Loss = 100*time.Millisecond, 10*time.Millisecond, 0.05
		}
		return l
	}
}

// newVirtual starts a fleet in a bubble and returns when its fleet time is one.
func newVirtual(t *testing.T, skews []time.Duration) *virtual {
	t.Helper()
	f := &virtual{t: t, net: gossiptest.New(1)}
	f.net.Set(threeRegions(false))
	var seeds []string
	for i := range skews {
		seeds = append(seeds, fmt.Sprintf("%q", virtualAddr(i)))
	}
	for i, skew := range skews {
		dir := t.TempDir()
		text := strings.NewReplacer("NAME", fmt.Sprintf("n%d", i), "HOST:7946", virtualAddr(i).String(), "SEEDS", strings.Join(seeds, ", "), `"local"`, `"wan"`).Replace(virtualConfig)
		for name, content := range map[string]string{"edgesteer.toml": text, "zone": "$ORIGIN example.com.\n$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 60\n@ NS ns1\nns1 A 127.0.0.1\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg, problems := config.Load(filepath.Join(dir, "edgesteer.toml"))
		if config.Failed(problems) {
			t.Fatal(problems)
		}
		a, err := New(cfg, Options{
			Log: slog.New(slog.DiscardHandler), Version: "test", Wall: func() time.Time { return time.Now().Add(skew + time.Duration(f.step.Load())) },
			Gossip: func(c *gossip.Config) { c.Transport = f.net.Transport(virtualAddr(i)) },
		})
		if err != nil {
			t.Fatal(err)
		}
		f.apps = append(f.apps, a)
	}
	for i := range f.apps { // those with the wrong clocks last, as they would join a fleet that runs
		if err := f.apps[(i+2)%len(f.apps)].openState(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	f.within(time.Minute, "fleet time is one", func() bool {
		return !slices.ContainsFunc(f.apps, func(a *App) bool { return a.now().Sub(f.apps[0].now()).Abs() > 300*time.Millisecond })
	})
	return f
}

// end ends all nodes, and waits until nothing goes on behind the test.
func (f *virtual) end() {
	var ends sync.WaitGroup
	for _, a := range f.apps {
		ends.Go(func() { a.end(f.t.Context(), state) })
	}
	ends.Wait()
	time.Sleep(2 * time.Minute)
}

func (f *virtual) within(limit time.Duration, what string, ok func() bool) time.Duration {
	f.t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > limit {
			f.t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(start)
}

// agree tells whether all nodes know and obey the same.
func (f *virtual) agree() bool {
	first := f.apps[0]
	return !slices.ContainsFunc(f.apps, func(a *App) bool {
		return ledgerDigest(a.ledger.Statements()) != ledgerDigest(first.ledger.Statements()) || !slices.Equal(shares(a), shares(first))
	})
}

// shares is what every endpoint gets, as a node's answers have it.
func shares(a *App) (out []pops.Share) {
	for _, s := range a.publisher.Snapshot().View.States {
		out = append(out, s.Share)
	}
	return out
}

// say has a node say something about a target, and gives the id of the statement.
func (f *virtual) say(node int, kind pops.Kind, text string, by float64, over time.Duration) string {
	f.t.Helper()
	target, err := pops.ParseTarget(text)
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := f.apps[node].ledger.Apply(drain.Request{
		Kind: kind, Target: target, By: by, Over: drain.Way{Over: over}, Author: "test", Role: pops.Person, Reason: "test", Override: []string{"half", "last", "capacity"},
	})
	if err != nil {
		f.t.Fatalf("%s %s at n%d: %v", kind, text, node, err)
	}
	return r.Statements[0].ID
}

func (f *virtual) lift(node int, text string) {
	f.t.Helper()
	target, err := pops.ParseTarget(text)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.apps[node].ledger.Lift(drain.LiftRequest{Target: target, Author: "test", Role: pops.Person, Reason: "test", Now: true}); err != nil {
		f.t.Fatal(err)
	}
}

// Five nodes in three regions, whose clocks are an hour apart, are cut 2+3 for five minutes. Drains, pins and lifts are said on both sides. After healing all nodes know and obey the same within 60 s,
// nothing is lost, and no drain was ended by a lift that had not seen it (S03).
func TestCutSkewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newVirtual(t, skews())
		defer f.end()
		shared := f.say(0, pops.Drain, "third", 10, 0)
		also := f.say(4, pops.Drain, "fourth", 10, 0)
		f.within(5*time.Second, "all agree", f.agree)

		f.net.Set(threeRegions(true))
		time.Sleep(2 * time.Minute)
		left := f.say(0, pops.Drain, "home", 30, 0)
		right := f.say(3, pops.Drain, "home", 40, 0)
		pin := f.say(1, pops.Pin, "away/wss", 0, 0)
		other := f.say(4, pops.Pin, "away/edge", 0, 0) // its clock is two hours behind
		f.lift(4, "third")                             // what both sides knew
		again := f.say(1, pops.Drain, "third", 20, 0)  // its clock is an hour ahead; it has not seen the lift, nor the lift it
		f.lift(1, "fourth")
		f.lift(2, "fourth")
		gone := f.say(2, pops.Drain, "fourth", 5, 0)
		time.Sleep(10 * time.Second) // all of its side have it
		f.lift(3, "fourth")
		time.Sleep(3*time.Minute - 10*time.Second)
		if f.agree() {
			t.Error("the sides agree: the test cuts nothing")
		}
		for _, a := range f.apps {
			if off := a.now().Sub(f.apps[2].now()); off.Abs() > 500*time.Millisecond {
				t.Errorf("fleet time of %s is %v off: each side has its own", a.parts.cfg.Server.Node, off)
			}
		}
		f.net.Set(threeRegions(false))
		took := f.within(time.Minute, "one view", f.agree)
		t.Logf("one view %v after healing", took)
		for _, a := range f.apps {
			stands := map[string]bool{}
			for _, e := range a.ledger.Statements() {
				if e.Live(a.now()) {
					stands[e.ID] = true
				}
			}
			for id, want := range map[string]bool{left: true, right: true, pin: true, other: true, again: true, shared: false, also: false, gone: false} {
				if stands[id] != want {
					t.Errorf("%s: %s stands: %v", a.parts.cfg.Server.Node, id, stands[id])
				}
			}
			if len(stands) != 5 {
				t.Errorf("%s: %v", a.parts.cfg.Server.Node, stands)
			}
		}
		if got := shares(f.apps[0])[0]; got != 60 {
			t.Errorf("home gets %v %%, of two drains the lower share counts", got)
		}
	})
}

// A ramp of ten minutes gives shares within 1 % on all nodes at any moment, whatever their clocks say, and within 1 % of where it should be (S07).
func TestRampSkewed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	synctest.Test(t, func(t *testing.T) {
		f := newVirtual(t, skews())
		defer f.end()
		const ramp = 10 * time.Minute
		start := time.Now()
		f.say(1, pops.Drain, "home", 100, ramp) // its clock is an hour ahead
		worst, most := 0.0, 0.0
		for time.Since(start) < ramp+5*time.Second {
			want := max(0, 100*(1-time.Since(start).Seconds()/ramp.Seconds()))
			var all []float64
			for _, a := range f.apps {
				all = append(all, float64(shares(a)[0]))
				worst = max(worst, math.Abs(all[len(all)-1]-want))
			}
			most = max(most, slices.Max(all)-slices.Min(all))
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("at most %.2f %% between two nodes, %.2f %% off", most, worst)
		if most > 1.000001 || worst > 1.1 { // shares move in steps of 1 %
			t.Errorf("at most %.2f %% between two nodes, %.2f %% off; promised is 1 %%", most, worst)
		}
		if slices.ContainsFunc(f.apps, func(a *App) bool { return shares(a)[0] != 0 }) {
			t.Error("the ramp does not end")
		}
	})
}

const virtualConfig = fleetConfig + `
[[pop]]
name = "third"
[[pop]]
name = "fourth"
[[service]]
name = "edge"
[service.at.home]
addresses = ["192.0.2.11"]
[service.at.away]
addresses = ["192.0.2.12"]
[service.at.third]
addresses = ["192.0.2.13"]
[service.at.fourth]
addresses = ["192.0.2.14"]
`
