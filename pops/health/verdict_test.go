package health

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// u: up, d: down, -: a voter without a fresh vote.
func TestDecide(t *testing.T) {
	for _, tt := range []struct{ votes, want string }{
		{"", "keep"},
		{"u", "up"}, {"d", "down"}, {"-", "keep"},
		{"uu", "up"}, {"ud", "gray"}, {"dd", "down"}, {"d-", "keep"},
		{"uuu", "up"}, {"uud", "gray"}, {"udd", "gray"}, {"ddd", "down"}, {"dd-", "down"}, {"d--", "keep"}, {"ud-", "gray"},
		{"uuud", "up"}, {"uudd", "gray"}, {"uddd", "down"}, {"dd--", "keep"}, {"ddd-", "down"},
		{"uuuud", "up"}, {"uuudd", "gray"}, {"uuddd", "gray"}, {"udddd", "down"}, {"dd---", "keep"}, {"ddd--", "down"}, {"udd--", "gray"},
		{"ddddd", "down"}, {"-----", "keep"},
	} {
		var ballots []ballot
		for _, c := range tt.votes {
			ballots = append(ballots, ballot{fresh: c != '-', down: c == 'd'})
		}
		o := decide(ballots, 0.75)
		got := "keep"
		switch {
		case o.clear && o.down:
			got = "down"
		case o.clear:
			got = "up"
		case o.quorum:
			got = "gray"
		}
		if got != tt.want {
			t.Errorf("%q: %s, want %s", tt.votes, got, tt.want)
		}
		if o.Voters != len(tt.votes) || o.Fresh != strings.Count(tt.votes, "u")+strings.Count(tt.votes, "d") || o.Down != strings.Count(tt.votes, "d") {
			t.Errorf("%q: %+v", tt.votes, o)
		}
	}
}

// A verdict follows from all ballots or from those before it; it never comes from nowhere.
func TestVerdictKeeps(t *testing.T) {
	now := time.Unix(1e9, 0)
	v := verdict{}
	for i, tt := range []struct {
		votes string
		down  bool
		gray  bool
		diss  int
	}{
		{"uuuuu", false, false, 0},
		{"uuuud", false, false, 1},
		{"uuudd", false, true, 2},
		{"uuddd", false, true, 3},
		{"udddd", true, false, 1},
		{"uuddd", true, true, 2},
		{"d----", true, false, 0},
		{"uu---", true, false, 2},
		{"-----", true, false, 0},
		{"uuuu-", false, false, 0},
	} {
		now = now.Add(time.Second)
		var ballots []ballot
		for k, c := range tt.votes {
			ballots = append(ballots, ballot{node: fmt.Sprint(k), fresh: c != '-', down: c == 'd'})
		}
		before := v
		turned, _ := v.apply(ballots, nil, 0.75, now)
		if v.Down != tt.down || v.gray.IsZero() == tt.gray || len(v.dissent) != tt.diss || turned != (before.Down != v.Down) {
			t.Errorf("%d %q: %+v, turned %t", i, tt.votes, v, turned)
		}
		if agreed := !tt.gray && 2*strings.Count(tt.votes, "-") < len(tt.votes); agreed == v.doubt.Equal(now) {
			t.Errorf("%d %q: last doubted at %v", i, tt.votes, v.doubt)
		}
		if turned && !v.Since.Equal(now) || !turned && before.Known && !v.Since.Equal(before.Since) {
			t.Errorf("%d %q: since %s", i, tt.votes, v.Since)
		}
	}
}

// A node that fails more than half of everything while most others do not is sick.
func TestSick(t *testing.T) {
	for _, tt := range []struct{ fails, want string }{ // targets of 10 that each node fails
		{"9", ""},               // alone
		{"90", "0"},             // of two
		{"99", ""},              // both: it is the targets
		{"900", "0"},            //
		{"990", ""},             // one of two others does not: not most
		{"99000", "01"},         // the cut of two
		{"99900", ""},           //
		{"5000", ""},            // half is not more than half
		{"6000", "0"},           //
		{"9999900000", "01234"}, // half of the fleet: without them there is no quorum
	} {
		reports := map[string]*Report{}
		for i, c := range tt.fails {
			r := &Report{Node: fmt.Sprint(i), Votes: map[string]Vote{}}
			for k := range 10 {
				r.Votes[fmt.Sprint(k)] = Vote{Down: k < int(c-'0')}
			}
			reports[r.Node] = r
		}
		got := ""
		for i := range tt.fails {
			if sick(reports, func(*Report, string) bool { return true })[fmt.Sprint(i)] {
				got += fmt.Sprint(i)
			}
		}
		if got != tt.want {
			t.Errorf("%s: sick are %q, want %q", tt.fails, got, tt.want)
		}
	}
}

// carry brings everything that a node says to the others, unless it is cut off.
type carry struct {
	nodes map[string]*Monitor
	cut   map[string]bool
	queue chan func()
}

func newCarry() *carry {
	c := &carry{nodes: map[string]*Monitor{}, cut: map[string]bool{}, queue: make(chan func(), 1<<20)}
	return c
}

// settle carries what was said since.
func (c *carry) settle() {
	for {
		select {
		case f := <-c.queue:
			f()
		default:
			return
		}
	}
}

func (c *carry) say(node string) func(string, []byte) {
	return func(_ string, state []byte) {
		c.queue <- func() {
			for name, m := range c.nodes {
				if name != node && !c.cut[name] && !c.cut[node] {
					if err := m.Merge(state); err != nil {
						panic(err)
					}
				}
			}
		}
	}
}

// newFleet is n nodes n0.. that check pops PoPs; bad says which node cannot reach which endpoint, by index.
func newFleet(t *testing.T, n, pops int, bad func(node, endpoint int) bool, where ...string) (*carry, func(time.Duration)) {
	t.Helper()
	c := newCarry()
	for i := range n {
		f := &fake{result: func(a netip.Addr, _ int) error {
			for e := range pops {
				if a == address(e) && bad(i, e) {
					return errBad
				}
			}
			return nil
		}}
		name := fmt.Sprintf("n%d", i)
		pop := ""
		if i < len(where) {
			pop = where[i]
		}
		m, stop := start(t, Config{Node: name, PoP: pop, Plan: plan(pops, 1, f), Broadcast: c.say(name)})
		c.nodes[name] = m
		t.Cleanup(stop)
	}
	return c, func(d time.Duration) {
		for range int(d / (500 * time.Millisecond)) {
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			c.settle()
		}
	}
}

// H14, and what is shown of five nodes: one that cannot reach a PoP is a dissenter, two or three make it gray, four take it out.
func TestFleetVotes(t *testing.T) {
	for blind, want := range []string{"up", "up, 1 dissents", "up, gray, 2 dissent", "up, gray, 3 dissent", "down, 1 dissents", "down"} {
		t.Run(fmt.Sprintf("%d of 5", blind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Bool
				c, pass := newFleet(t, 5, 4, func(node, e int) bool { return broken.Load() && e == 2 && node < blind })
				pass(30 * time.Second)
				broken.Store(true)
				pass(2 * time.Minute)
				for name, m := range c.nodes {
					if gray, _ := m.Doubts(); len(gray) == 1 != strings.Contains(want, "gray") || len(gray) == 1 && gray[0].Target != m.Status()[2].Target {
						t.Errorf("%s doubts %v", name, gray)
					}
					for e, s := range m.Status() {
						if e != 2 && believes(&s) != "up" {
							t.Errorf("%s believes of %d: %s", name, e, believes(&s))
						}
						if e == 2 && believes(&s) != want {
							t.Errorf("%s believes: %s, want %s", name, believes(&s), want)
						}
					}
				}
				broken.Store(false)
				pass(2 * time.Minute)
				for name, m := range c.nodes {
					if s := m.Status()[2]; believes(&s) != "up" {
						t.Errorf("%s believes at the end: %s", name, believes(&s))
					}
				}
			})
		})
	}
}

// believes is a status in short.
func believes(s *Status) string {
	out := "unknown"
	if s.Known {
		out = direction(s.Down)
	}
	if !s.Gray.IsZero() {
		out += ", gray"
	}
	if !s.Quorum {
		out += ", no quorum"
	}
	dissent, abstain := 0, 0
	for _, v := range s.Votes {
		if v.Dissents {
			dissent++
		}
		if v.Abstains {
			abstain++
		}
	}
	switch {
	case dissent == 1:
		out += ", 1 dissents"
	case dissent > 1:
		out += fmt.Sprintf(", %d dissent", dissent)
	}
	if abstain > 0 {
		out += fmt.Sprintf(", %d abstain", abstain)
	}
	return out
}

// A node that is cut off from everything changes no verdict: not its own, since absence of a report is not a vote, and not the others'. It abstains as soon as the others hear of it.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cut atomic.Bool
		c, pass := newFleet(t, 5, 4, func(node, _ int) bool { return cut.Load() && node == 0 })
		pass(30 * time.Second)
		cut.Store(true)
		c.cut["n0"] = true
		pass(5 * time.Minute)
		for name, m := range c.nodes {
			for _, s := range m.Status() {
				want := "up"
				if name == "n0" {
					want = "up, no quorum"
				}
				if s.Down || !s.Gray.IsZero() || name == "n0" && s.Quorum {
					t.Errorf("%s believes of %s: %s, want %s", name, s.Target, believes(&s), want)
				}
			}
		}
		c.cut["n0"] = false // the others hear it again, with all that they have missed, but it still reaches nothing
		state, err := c.nodes["n0"].MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		c.say("n0")("", state)
		pass(time.Minute)
		for name, m := range c.nodes {
			if gray, abstaining := m.Doubts(); len(gray) != 0 || !slices.Equal(abstaining, []string{"n0"}) {
				t.Errorf("%s doubts %v, and %v abstain", name, gray, abstaining)
			}
			for _, s := range m.Status() {
				if got := believes(&s); got != "up, 1 abstain" {
					t.Errorf("%s believes of %s: %s", name, s.Target, got)
				}
			}
		}
	})
}

// Nodes that stand in a PoP do not vote on it; when only such are left the verdict stays.
func TestVotersElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		c, pass := newFleet(t, 3, 4, func(node, e int) bool { return broken.Load() && e == 1 && node == 0 }, "p1", "p1", "p2")
		pass(30 * time.Second)
		broken.Store(true)
		pass(2 * time.Minute)
		for name, m := range c.nodes {
			if s := m.Status()[1]; believes(&s) != "up" || s.Voters != 1 {
				t.Errorf("%s believes: %s of %d voters", name, believes(&s), s.Voters)
			}
		}
	})
}

// A node that ends remains a voter for a day: one of two nodes alone changes no verdict until then.
func TestSeenInTheLastDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		c, pass := newFleet(t, 2, 4, func(_, e int) bool { return broken.Load() && e == 1 })
		pass(30 * time.Second)
		c.cut["n1"] = true
		broken.Store(true)
		pass(10 * time.Minute)
		if s := c.nodes["n0"].Status()[1]; believes(&s) != "up, no quorum, 1 dissents" {
			t.Errorf("after 10 minutes: %s", believes(&s))
		}
		time.Sleep(24 * time.Hour)
		pass(time.Minute)
		if s := c.nodes["n0"].Status()[1]; believes(&s) != "down" {
			t.Errorf("after a day: %s", believes(&s))
		}
	})
}

// A node that begins anew, with a clock that is behind, is believed at once.
func TestNewLife(t *testing.T) {
	now := time.Unix(2e9, 0)
	at := func(name string, t0 time.Time) *Monitor {
		m, err := New(Config{Node: name, Plan: plan(2, 1, &fake{}), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return t0 }})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	peer, old, young := at("n2", now), at("n1", now), at("n1", now.Add(-time.Hour))
	exchange := func(from, to *Monitor) {
		b, err := from.MarshalBinary()
		if err == nil {
			err = to.Merge(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	set := func(m *Monitor, down bool) {
		m.mu.Lock()
		m.reports["n1"].Votes["p0/wss"] = Vote{Down: down, Set: m.now()}
		m.mu.Unlock()
	}
	set(old, true)
	exchange(old, peer)
	set(young, false)
	exchange(peer, young)
	exchange(young, peer)
	if v := peer.reports["n1"].Votes["p0/wss"]; v.Down {
		t.Errorf("the peer still believes the earlier life: %+v", v)
	}
}

func TestReportLattice(t *testing.T) {
	base := time.Unix(1e9, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	parts := make([]Report, 12)
	for i := range parts {
		r := Report{Node: "a", Epoch: base.Add(time.Duration(rng.IntN(2)) * time.Hour), At: base.Add(time.Duration(rng.IntN(100)) * time.Second), Votes: map[string]Vote{}}
		for k := range 3 {
			if rng.IntN(2) == 0 {
				r.Votes[fmt.Sprint(k)] = Vote{Down: rng.IntN(2) == 0, Set: base.Add(time.Duration(rng.IntN(4)) * time.Second)}
			}
		}
		parts[i] = r
	}
	var want Report
	for n := range 200 {
		var got Report
		for range 2 { // any number of times
			for _, i := range rng.Perm(len(parts)) {
				p := parts[i]
				got.join(&p, base)
			}
		}
		if n == 0 {
			want = got
			continue
		}
		if diff := cmp.Diff(encode(want), encode(got)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestMergeRefuses(t *testing.T) {
	m, err := New(Config{Node: "n1", Plan: plan(1, 1, &fake{}), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"", "{", `{"version": 2}`, "[]"} {
		if m.Merge([]byte(s)) == nil {
			t.Errorf("%q was merged", s)
		}
	}
	if len(m.reports) != 1 {
		t.Errorf("%d reports", len(m.reports))
	}
}

func FuzzMerge(f *testing.F) {
	f.Add(encode(Report{Node: "n2", At: time.Unix(1e9, 0), Votes: map[string]Vote{"p0/wss": {Down: true, Dead: []netip.Addr{address(0)}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := New(Config{Node: "n1", Plan: plan(1, 1, &fake{}), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		_ = m.Merge(b)
		m.mu.Lock()
		m.evaluate(m.now())
		m.mu.Unlock()
		s, err := m.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Merge(s); err != nil {
			t.Fatalf("its own state: %v", err)
		}
	})
}

// A node that began with a clock that was far ahead, until it heard the others', has a vote like any other, and none when it has been gone for a day.
func TestClockWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		ahead.Store(int64(10 * 365 * 24 * time.Hour))
		c, pass := newFleet(t, 2, 1, func(int, int) bool { return false })
		m, stop := start(t, Config{Node: "late", Plan: plan(1, 1, &fake{}), Broadcast: c.say("late"), Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		t.Cleanup(stop)
		c.nodes["late"] = m
		pass(2 * time.Second)
		ahead.Store(0)
		whole, _ := c.nodes["n0"].MarshalBinary() // as all nodes exchange now and then
		if err := m.Merge(whole); err != nil {
			t.Error(err)
		}
		pass(time.Minute)
		for name, m := range c.nodes {
			if s := m.Status()[0]; s.Voters != 3 || s.Fresh != 3 {
				t.Errorf("%s: %d of %d votes are fresh, want all of 3", name, s.Fresh, s.Voters)
			}
		}
		n0 := c.nodes["n0"]
		n0.mu.Lock()
		defer n0.mu.Unlock()
		if at := n0.reports["late"].At; time.Until(at) > maxAhead {
			t.Errorf("n0 takes it for a voter until a day after %v", at)
		}
	})
}
