package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/pops/health"
	"github.com/edgesteer/edgesteer/server/config"
)

// practising is two nodes with drills, whose ledgers are told of each other's statements, in a synctest bubble: its clock begins on Saturday, 2000-01-01, at midnight UTC.
type practising struct {
	t        *testing.T
	ledgers  []*drain.Ledger
	nodes    []*drills
	drills   []config.Drill
	verdicts []pops.Verdict
	gives    func(query string) (string, error)
	refuse   string // a guard rail that does not hold
	lower    uint64 // answers from rung 3
	waiting  [][2]any
}

// guardRail is an Effect.
type guardRail func() string

func (g guardRail) Effect(*pops.View, ...*pops.View) (drain.Report, error) {
	if why := g(); why != "" {
		return drain.Report{Broken: []drain.Broken{{Guard: "half", Detail: why}}}, nil
	}
	return drain.Report{}, nil
}

func practise(t *testing.T, list ...config.Drill) *practising {
	t.Helper()
	p := &practising{t: t, drills: list, gives: func(string) (string, error) { return "", nil }}
	for i := range 2 {
		node := fmt.Sprintf("n%d", i+1)
		ledger, err := drain.New(drain.Config{
			Node: node, Dir: t.TempDir(), Fleet: fourPoPs,
			Effect:    guardRail(func() string { return p.refuse }),
			Broadcast: func(_ string, state []byte) { p.waiting = append(p.waiting, [2]any{1 - i, state}) },
			Log:       slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ledger.Close() })
		p.ledgers = append(p.ledgers, ledger)
		f := fourPoPs()
		p.nodes = append(p.nodes, &drills{
			now: ledger.Now, ledger: ledger, log: slog.New(slog.DiscardHandler),
			gives: func(_ context.Context, query string) (string, error) { return p.gives(query) },
			rungs: func() [pops.RungAll + 1]uint64 { return [pops.RungAll + 1]uint64{pops.RungSaid: p.lower} },
			shares: func() map[string]float64 {
				return map[string]float64{"fra": 25 * float64(p.view(ledger, f).States[0].Share) / 100}
			},
			scene: func() *scene {
				return &scene{now: ledger.Now(), drills: p.drills, view: p.view(ledger, f), entries: ledger.Statements(), health: []health.Status{}}
			},
			alerts: map[string]time.Time{}, told: map[string]string{}, blind: map[string]time.Time{}, runs: map[string]*rehearsal{},
		})
	}
	return p
}

func (p *practising) view(l *drain.Ledger, f *pops.Fleet) *pops.View {
	loads := make([]pops.Load, len(f.Endpoints))
	for e := range loads {
		loads[e] = pops.Load{Value: 20 + 10*float64(e), At: l.Now(), Fresh: l.Now().Add(time.Minute)}
	}
	return pops.NewView(f, pops.Input{Now: l.Now(), Intents: l.Intents(l.Now()), Verdicts: p.verdicts, Loads: loads})
}

// until lets time pass to a time of day, with a look of each node every two seconds.
func (p *practising) until(clock string) {
	p.t.Helper()
	end, err := time.ParseInLocation("2006-01-02 15:04:05", "2000-01-01 "+clock, time.UTC)
	if err != nil {
		p.t.Fatal(err)
	}
	if night := 9*time.Hour + 58*time.Minute; time.Now().UTC().Hour() == 0 { // nothing is due
		time.Sleep(night)
	}
	for time.Now().Before(end) {
		for _, n := range p.nodes {
			n.tick(p.t.Context())
		}
		for _, w := range p.waiting {
			if err := p.ledgers[w[0].(int)].Merge(w[1].([]byte)); err != nil {
				p.t.Fatal(err)
			}
		}
		p.waiting = nil
		time.Sleep(drillEvery)
	}
}

// shares is what stands, on both nodes.
func (p *practising) stands(want string) {
	p.t.Helper()
	for i, l := range p.ledgers {
		var list []string
		for _, in := range l.Intents(l.Now()) {
			list = append(list, fmt.Sprintf("%s %s %.3g", in.Class, in.Target, float64(in.Share)))
		}
		if got := strings.Join(list, ", "); got != want {
			p.t.Errorf("n%d at %s: %q stands, want %q", i+1, time.Now().UTC().Format(time.TimeOnly), got, want)
		}
	}
}

// notes are what the history of a node has of drills, oldest first.
func (p *practising) notes(node int) (out []string) {
	for _, r := range slices.Backward(p.ledgers[node].History(drain.Query{Limit: 1000})) {
		if r.Op == drain.Noted {
			out = append(out, r.Message)
		}
	}
	return out
}

// noted wants the same of all nodes; the time that a drill took may differ by a look.
func (p *practising) noted(want ...string) {
	p.t.Helper()
	for i := range p.ledgers {
		if diff := cmp.Diff(want, p.notes(i)); diff != "" {
			p.t.Errorf("n%d: %s", i+1, diff)
		}
	}
}

func tenToEleven(t *testing.T, target string) config.Drill {
	t.Helper()
	d := config.Drill{Target: target, By: 100, Over: 10 * time.Minute}
	if err := d.Window.UnmarshalText([]byte("Sat 10:00-11:00")); err != nil {
		t.Fatal(err)
	}
	return d
}

// A drill runs once in its window, in a fleet as on one node, along its ramps, and the history has a report.
func TestDrill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := practise(t, tenToEleven(t, "fra"))
		p.until("10:00:00")
		p.stands("")
		p.until("10:05:00")
		p.stands("drill fra 50")
		p.until("10:30:00")
		p.stands("drill fra 0")
		p.until("10:55:01")
		p.stands("drill fra 50")
		p.until("12:00:00")
		p.stands("")
		if n := len(p.ledgers[0].Statements()); n != 1 {
			t.Errorf("%d statements of two nodes", n)
		}
		p.noted("drill report: fra by 100 % for 49m58s, ended as planned; answers that named fra: 25.0 % before, 0.0 % at the least; highest load elsewhere: nrt/wss with 80 % of its capacity; no answer came from a lower rung of the ladder")
	})
}

func TestDrillDoesNotBegin(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(p *practising, d *config.Drill)
		want []string
	}{
		{"blocked", func(_ *practising, d *config.Drill) {
			d.Blocked = []config.Dates{{First: "1999-12-24", Last: "2000-01-06"}}
		}, nil},
		{"another day", func(_ *practising, d *config.Drill) { d.Window.Days = [7]bool{time.Monday: true} }, nil},
		{"its condition holds", func(p *practising, d *config.Drill) {
			d.Abort = "errors > 0"
			p.gives = func(q string) (string, error) { return "{code=\"503\"} is 7 of " + q, nil }
		}, []string{`drill does not begin: its abort condition holds: {code="503"} is 7 of errors > 0`}},
		{"its condition cannot be asked", func(p *practising, d *config.Drill) {
			d.Abort = "errors > 0"
			p.gives = func(string) (string, error) { return "", errors.New("connection refused") }
		}, []string{"drill does not begin: its abort condition cannot be asked: connection refused"}},
		{"its alert fires", func(p *practising, d *config.Drill) {
			d.Alert = "Everything"
			for _, n := range p.nodes {
				n.heard("Everything", true)
			}
		}, nil}, // heard at midnight: forgotten by ten, see below
		{"another PoP is down", func(p *practising, _ *config.Drill) { p.verdicts = []pops.Verdict{2: {Down: true}} }, []string{"drill does not begin: dub/wss may serve only 0 %"}},
		{"a guard rail", func(p *practising, _ *config.Drill) { p.refuse = "3 of 4 endpoints of wss" }, []string{"drill does not begin: half: 3 of 4 endpoints of wss"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := tenToEleven(t, "fra")
				p := practise(t)
				tt.set(p, &d)
				p.drills = []config.Drill{d}
				p.until("09:59:00")
				if tt.name == "its alert fires" {
					for _, n := range p.nodes {
						n.heard("Everything", true)
					}
					tt.want = []string{"drill does not begin: alert Everything fires"}
				}
				p.until("10:30:00")
				p.stands("")
				p.noted(tt.want...)
			})
		})
	}
}

// A drill gives way to everything, at once, and does not begin again in the same window.
func TestDrillEndsEarly(t *testing.T) {
	for _, tt := range []struct {
		name  string
		begin func(p *practising)
		want  string // why
	}{
		{"its condition begins to hold", func(p *practising) { p.gives = func(string) (string, error) { return "{} is 1", nil } }, "its abort condition holds: {} is 1"},
		{"its condition cannot be asked any more", func(p *practising) {
			p.gives = func(string) (string, error) { return "", errors.New("connection refused") }
		}, "its abort condition cannot be asked: connection refused"},
		{"its alert comes to one node", func(p *practising) { p.nodes[1].heard("Everything", true) }, "alert Everything fires"},
		{"its target is down", func(p *practising) { p.verdicts = []pops.Verdict{{Down: true}} }, "fra/wss is down"},
		{"another place is down", func(p *practising) { p.verdicts = []pops.Verdict{2: {Down: true}} }, "dub/wss may serve only 0 %"},
		{"a person drains its target", func(p *practising) {
			r := drain.Request{Kind: pops.Drain, Target: pops.Target{PoP: "fra", Service: "wss"}, By: 10, Author: "ann", Role: pops.Person, Reason: "fibre works"}
			if _, err := p.ledgers[0].Apply(r); err != nil {
				p.t.Fatal(err)
			}
		}, "drain d-"},
		{"it is not configured any more", func(p *practising) { p.drills = nil }, "it is not configured any more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := tenToEleven(t, "fra")
				d.Abort, d.Alert = "errors > 0", "Everything"
				p := practise(t, d)
				p.until("10:20:00")
				p.stands("drill fra 0")
				tt.begin(p)
				p.until("10:22:00")
				p.gives = func(string) (string, error) { return "", nil }
				p.verdicts = nil
				for _, n := range p.nodes {
					n.heard("Everything", false)
				}
				p.until("11:30:00")
				for i, l := range p.ledgers {
					var drills []*drain.Entry
					for _, e := range l.Statements() {
						if e.Role == pops.Drill {
							drills = append(drills, e)
						}
					}
					if len(drills) != 1 || drills[0].Lift == nil || !strings.HasPrefix(drills[0].Lift.Reason, "ended early: "+tt.want) {
						t.Fatalf("n%d: %+v", i+1, drills[0].Lift)
					}
					if at := drills[0].Lift.At.UTC().Format("15:04"); at != "10:20" {
						t.Errorf("n%d: it ended at %s", i+1, at)
					}
					if n := p.notes(i); len(n) != 1 || !strings.Contains(n[0], "ended early: "+tt.want) {
						t.Errorf("n%d: %q", i+1, n)
					}
				}
			})
		})
	}
}

// A drill that is over before a node has looked is reported there too, once; one of before the node's time is not.
func TestDrillBetweenLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := practise(t)
		short := func(target string) {
			at, err := pops.ParseTarget(target)
			if err != nil {
				t.Fatal(err)
			}
			e, err := p.ledgers[0].Apply(drain.Request{Kind: pops.Drain, Target: at, By: 100, Author: "ann", Role: pops.Drill, For: time.Hour, Reason: "test"})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if _, err := p.ledgers[0].Lift(drain.LiftRequest{IDs: []string{e.Statements[0].ID}, Author: "ann", Role: pops.Person, Reason: "seen enough"}); err != nil {
				t.Fatal(err)
			}
		}
		short("dub")
		time.Sleep(time.Second)
		p.nodes[0].tick(t.Context())
		time.Sleep(time.Minute)
		short("fra")
		for range 3 {
			p.nodes[0].tick(t.Context())
			time.Sleep(drillEvery)
		}
		notes := p.notes(0)
		if want := "drill report: fra by 100 % for 1s, ended by ann: seen enough; "; len(notes) != 1 || !strings.HasPrefix(notes[0], want) {
			t.Errorf("%q, want one with %q", notes, want)
		}
	})
}

// A node that comes late leaves the drill to the next window; one that ran while no node was there to end it ends by itself.
func TestDrillAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := practise(t, tenToEleven(t, "*/edge"))
		time.Sleep(10*time.Hour + 6*time.Minute)
		p.until("10:59:00")
		p.stands("")
		p.noted()
		time.Sleep(7*24*time.Hour - time.Hour) // Saturday again, 9:59
		for range 60 {
			for _, n := range p.nodes[:1] {
				n.tick(t.Context())
			}
			time.Sleep(drillEvery)
		}
		id := p.ledgers[0].Statements()[0].ID
		time.Sleep(2 * time.Hour)
		p.nodes[0].tick(t.Context())
		if e, _ := p.ledgers[0].Statement(id); e.Lift != nil || e.Share(p.ledgers[0].Now()) != 100 {
			t.Errorf("%+v", e)
		}
		if n := p.notes(0); len(n) != 1 || !strings.HasPrefix(n[0], "drill report: */edge by 100 % for 50m58s, ended by itself: nobody was there to end it; ") {
			t.Errorf("%q", n)
		}
	})
}
