package app

import (
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/pops/health"
	"github.com/edgesteer/edgesteer/server/config"
)

// world is what the automation of one node acts on: four PoPs with two services each, five voters, a real ledger, and time.
type world struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	fleet   *pops.Fleet
	ledger  *drain.Ledger
	votes   [][]health.Vote   // by endpoint, by voter
	status  []health.Status   // verdicts, by endpoint
	spared  []map[int]bool    // by PoP: the endpoints that were down when a person lifted its drain, and are since
	ended   [][]time.Time     // by PoP: ends of its drains
	refused map[string]string // targets that there was no room for in the last look, and why
	starts  int               // drains of PoPs
	lifts   map[pops.Class]int
}

// lazyFS syncs nothing, so that weeks take seconds.
type lazyFS struct{ drain.OS }

func (lazyFS) SyncDir(string) error { return nil }

func (l lazyFS) Open(name string, flag int, perm fs.FileMode) (drain.File, error) {
	f, err := l.OS.Open(name, flag, perm)
	return lazyFile{f}, err
}

type lazyFile struct{ drain.File }

func (lazyFile) Sync() error { return nil }

func newWorld(t *testing.T, seed uint64) *world {
	f := fourPoPs()
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), now: moment(), fleet: f,
		votes: make([][]health.Vote, len(f.Endpoints)), spared: make([]map[int]bool, len(f.PoPs)), ended: make([][]time.Time, len(f.PoPs)),
		lifts: map[pops.Class]int{},
	}
	for e := range f.Endpoints {
		w.votes[e] = make([]health.Vote, 5)
		w.status = append(w.status, health.Status{Target: f.UnitTarget(f.EndpointUnit(e)).String(), Known: true, Quorum: true, Since: moment().Add(-time.Hour)})
	}
	ledger, err := drain.New(drain.Config{
		Node: "n0", Dir: t.TempDir(), FS: lazyFS{}, Fleet: func() *pops.Fleet { return f }, Log: slog.New(slog.DiscardHandler),
		Clock: drain.NewClock(drain.ClockConfig{Node: "n0", Wall: func() time.Time { return w.now }, Mono: func() time.Duration { return w.now.Sub(moment()) }}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	w.ledger = ledger
	return w
}

// turn has the voters vote on an endpoint, all but perhaps one, and makes the verdict.
func (w *world) turn(e int, down bool) {
	stubborn := w.random.IntN(10)
	for n := range w.votes[e] {
		if v := &w.votes[e][n]; n != stubborn && v.Down != down {
			*v = health.Vote{Down: down, Since: w.now.Add(-time.Duration(w.random.IntN(1000)) * time.Millisecond), Error: "timeout"}
		}
	}
	against := 0
	for _, v := range w.votes[e] {
		if v.Down {
			against++
		}
	}
	s := &w.status[e]
	s.Gray = time.Time{}
	switch {
	case against >= 4 && !s.Down, against <= 1 && s.Down:
		s.Down, s.Since = !s.Down, w.now
	case against == 2 || against == 3:
		s.Gray = w.now
	}
	if !s.Down {
		delete(w.spared[w.fleet.Endpoints[e].PoP], e)
	}
}

// restart has a voter forget when it began to vote as it does.
func (w *world) restart(n int) {
	for e := range w.votes {
		w.votes[e][n].Since = w.now
	}
}

// overrule has a person lift what automation has made for a PoP.
func (w *world) overrule(p int) {
	e := w.standing(p)
	if e == nil {
		return
	}
	if _, err := w.ledger.Lift(drain.LiftRequest{IDs: []string{e.ID}, Author: "alice", Role: pops.Person, Reason: "I know better", Now: true}); err != nil {
		w.t.Fatal(err)
	}
	w.lifts[pops.Person]++
	w.ended[p] = append(w.ended[p], w.now)
	w.spared[p] = map[int]bool{}
	for e := range w.fleet.Endpoints {
		if w.fleet.Endpoints[e].PoP == p && w.status[e].Down {
			w.spared[p][e] = true
		}
	}
}

// standing is automation's drain of a PoP.
func (w *world) standing(p int) *drain.Entry {
	for _, e := range w.ledger.Statements() {
		if e.Live(w.now) && automated(e, pops.Target{PoP: w.fleet.PoPs[p].Name}, true) {
			return e
		}
	}
	return nil
}

func (w *world) view() *pops.View {
	return pops.NewView(w.fleet, pops.Input{Now: w.now, Intents: w.ledger.Intents(w.now)})
}

// look has automation look and act, and checks what it does.
func (w *world) look() {
	list := append([]health.Status(nil), w.status...)
	for e := range list {
		for n, v := range w.votes[e] {
			list[e].Votes = append(list[e].Votes, health.NodeVote{Node: string(rune('a' + n)), Fresh: true, Vote: v})
		}
	}
	r := rules()
	w.refused = map[string]string{}
	for _, d := range automate(&outlook{now: w.now, rules: r, health: list, view: w.view(), entries: w.ledger.Statements()}) {
		p := w.fleet.FindPoP(strings.Split(d.target, "/")[0])
		whole := !strings.Contains(d.target, "/")
		switch {
		case d.alert != "":
			w.refused[d.target] = d.alert
		case d.drain != nil:
			had := w.standing(p) != nil
			_, err := w.ledger.Apply(*d.drain)
			if err == nil && whole && !had {
				w.starts++
			}
		case d.lift != nil:
			if whole {
				w.mayLift(p, &r)
				w.ended[p] = append(w.ended[p], w.now)
				w.lifts[pops.Automation]++
			}
			if _, err := w.ledger.Lift(*d.lift); err != nil {
				w.t.Errorf("%s: %v", d.target, err)
			}
		}
	}
}

// mayLift checks that a PoP has been well for as long as its flaps demand.
func (w *world) mayLift(p int, r *config.Automation) {
	need := r.RestoreAfter
	for _, at := range w.ended[p] {
		if w.now.Sub(at) < flapMemory {
			need = min(2*need, r.RestoreMax)
		}
	}
	for e := range w.fleet.Endpoints {
		if s := &w.status[e]; w.fleet.Endpoints[e].PoP == p && (s.Down || !s.Gray.IsZero() || w.now.Sub(s.Since) < need) {
			w.t.Errorf("%s is given back, but %s is down %v, gray %v since %v; it has to be well for %v", w.fleet.PoPs[p].Name, s.Target, s.Down, !s.Gray.IsZero(), w.now.Sub(s.Since), need)
		}
	}
}

// check compares what stands with what has to.
func (w *world) check() {
	view := w.view()
	away := make([]float64, len(w.fleet.Services))
	for e := range w.fleet.Endpoints {
		away[w.fleet.Endpoints[e].Service] += 1 - float64(view.States[e].Said)/100
	}
	for service, part := range away {
		if 100*part/4 > 34 {
			w.t.Errorf("%.0f %% of %s is drained", 100*part/4, w.fleet.Services[service].Name)
		}
	}
	for p := range w.fleet.PoPs {
		name, sick := w.fleet.PoPs[p].Name, false
		for e := range w.fleet.Endpoints {
			sick = sick || w.fleet.Endpoints[e].PoP == p && w.status[e].Down
		}
		switch stands := w.standing(p) != nil; {
		case stands && len(w.spared[p]) > 0:
			w.t.Errorf("%s is drained again though a person has lifted that, and it was never up since", name)
		case sick && !stands && len(w.spared[p]) == 0 && !strings.Contains(w.refused[name], "max_drained"):
			w.t.Errorf("%s is sick and not drained: %s", name, w.refused[name])
		case strings.Contains(w.refused[name], "max_drained") && away[0]+away[1] == 0:
			w.t.Errorf("%s may not be drained though nothing else is: %s", name, w.refused[name])
		}
	}
}

// TestAutomationModel has endpoints fail and recover at random, with voters that go on voting as they did or are restarted, and persons who know better, for some weeks: whatever happens, what is sick is
// drained, within the bound; what a person lifted stays lifted for as long as that outage lasts; and what is given back has been well for long enough.
func TestAutomationModel(t *testing.T) {
	starts, lifts := 0, map[pops.Class]int{}
	for seed := range uint64(4) {
		w := newWorld(t, seed)
		for range 250 {
			w.now = w.now.Add(time.Duration(1+w.random.IntN(40)) * time.Minute / 2)
			switch what, e := w.random.IntN(20), w.random.IntN(len(w.status)); {
			case what < 5:
				w.turn(e, true)
			case what < 14:
				w.turn(e, false)
			case what < 16:
				w.restart(w.random.IntN(5))
			case what < 18:
				w.overrule(w.random.IntN(len(w.fleet.PoPs)))
			}
			w.ledger.Flush()
			w.look()
			w.look() // nothing new: what was done stands
			w.check()
			if t.Failed() {
				t.Fatalf("seed %d, after %v", seed, w.now.Sub(moment()))
			}
		}
		for class, n := range w.lifts {
			lifts[class] += n
		}
		starts += w.starts
	}
	if starts < 30 || lifts[pops.Person] < 10 || lifts[pops.Automation] < 20 {
		t.Errorf("%d drains, %v lifts: the test says little", starts, lifts)
	}
}
