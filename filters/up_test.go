package filters

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/edgesteer/edgesteer/pops"
)

// TestUp: steering.md section 3 (`up`) and section 4 (Share, Shift, Nobody left).
func TestUp(t *testing.T) {
	dead := func(mask uint64) func(*pops.State) { return func(s *pops.State) { s.Dead = mask } }
	table(t, []row{
		{name: "all up", chain: "up", spots: []spot{{name: "a"}, {name: "b"}}, want: "a b", rung: 1},
		{name: "drained means nobody", chain: "up", spots: []spot{{name: "a", state: share(0)}, {name: "b"}}, want: "b", rung: 1},
		{name: "health is a share of 0", chain: "up", spots: []spot{{name: "a", state: down}, {name: "b"}}, want: "b", rung: 1},
		{name: "explicit, up", chain: "up", spots: []spot{{name: "a", answer: explicit(yes)}, {name: "b"}}, want: "a b", rung: 1},
		{name: "explicit, down", chain: "up", spots: []spot{{name: "a", answer: explicit(no)}, {name: "b"}}, want: "b", rung: 1},
		{name: "explicit, without up and without a PoP: down, as at NS1", chain: "up", spots: []spot{{name: "a", answer: explicit(none)}, {name: "b"}}, want: "b", rung: 1},
		{name: "explicit, tied, without up: as its PoP", chain: "up", spots: []spot{{name: "a", answer: tied(none)}, {name: "b"}}, want: "a b", rung: 1},
		{name: "explicit, tied, and down", chain: "up", spots: []spot{{name: "a", answer: tied(no)}, {name: "b"}}, want: "b", rung: 1},
		{name: "a feed without data gives the last configured value", chain: "up", spots: []spot{{name: "a", answer: explicit(fed(1))}, {name: "b", answer: explicit(fed(0))}}, want: "a", rung: 1},

		{name: "rung 2: a share above 0", chain: "up", spots: []spot{{name: "a", state: share(0.0001)}, {name: "b", state: share(0)}}, want: "a", rung: 2},
		{name: "rung 3: health ignored, statements honoured", chain: "up", spots: []spot{{name: "a", state: down}, {name: "b", state: share(0)}}, want: "a", rung: 3},
		{name: "rung 3: up = false is like a verdict", chain: "up", spots: []spot{{name: "a", answer: explicit(no)}, {name: "b", state: share(0)}}, want: "a", rung: 3},
		{name: "rung 3: a drained PoP stays out", chain: "up", spots: []spot{{name: "a", state: both(share(0), down)}, {name: "b", state: down}}, want: "b", rung: 3},
		{name: "rung 4: all", chain: "up", spots: []spot{{name: "a", state: share(0)}, {name: "b", state: share(0)}}, want: "a b", rung: 4},
		{name: "the order within a rung is untouched", chain: "priority; up",
			spots: []spot{{name: "a", state: share(0), answer: ranked(2, 0)}, {name: "b", state: share(0), answer: ranked(1, 0)}}, want: "b a", rung: 4},

		{name: "one dead address of two", chain: "up", spots: []spot{{name: "a", state: dead(1)}, {name: "b"}}, want: "a b", rung: 1},
		{name: "all addresses of the family dead", chain: "up", spots: []spot{{name: "a", state: dead(3)}, {name: "b"}}, want: "b", rung: 1},
		{name: "those of the other family do not matter", chain: "up", v6: true,
			spots: []spot{{name: "a", state: dead(1), answer: func(a *Answer) { a.Has4, a.Has6 = 1, 2 }}, {name: "b", answer: func(a *Answer) { a.Has6 = 2 }}}, want: "a b", rung: 1},
		{name: "dead addresses come back on rung 3", chain: "up", spots: []spot{{name: "a", state: dead(3)}, {name: "b", state: share(0)}}, want: "a", rung: 3},

		{name: "shift: A's place, B's endpoint", chain: "up; priority; select_first_n",
			spots: []spot{{name: "a", state: shift(0, 1), answer: ranked(1, 0)}, {name: "b", answer: ranked(3, 0)}, {name: "c", answer: ranked(2, 0)}}, want: "b", rung: 1},
		{name: "shift: the second candidate of an endpoint is dropped", chain: "up; priority; select_first_n N=2",
			spots: []spot{{name: "a", state: shift(0, 1), answer: ranked(1, 0)}, {name: "b", answer: ranked(2, 0)}, {name: "c", answer: ranked(3, 0)}}, want: "b c", rung: 1},
		{name: "shift: B in its own place before A", chain: "up; priority",
			spots: []spot{{name: "a", state: shift(0, 1), answer: ranked(2, 0)}, {name: "b", answer: ranked(1, 0)}, {name: "c", answer: ranked(3, 0)}}, want: "b c", rung: 1},
		{name: "shift to what is drained: a plain drain", chain: "up", spots: []spot{{name: "a", state: shift(0, 1)}, {name: "b", state: share(0)}, {name: "c"}}, want: "c", rung: 1},
		{name: "shift to what is dead: a plain drain", chain: "up", spots: []spot{{name: "a", state: shift(0, 1)}, {name: "b", state: dead(3)}, {name: "c"}}, want: "c", rung: 1},
		{name: "shift to what has no address of the family: a plain drain", chain: "up", v6: true,
			spots: []spot{{name: "a", state: shift(0, 1), answer: func(a *Answer) { a.Has6 = 1 }}, {name: "b"}, {name: "c", answer: func(a *Answer) { a.Has6 = 1 }}}, want: "c", rung: 1},
		{name: "shift to what its metadata calls down: a plain drain", chain: "up",
			spots: []spot{{name: "a", state: shift(0, 1)}, {name: "b", answer: func(a *Answer) { a.Up = no }}, {name: "c"}}, want: "c", rung: 1},
		{name: "shift is one step: B's own shift is not followed", chain: "up",
			spots: []spot{{name: "a", state: shift(0, 1)}, {name: "b", state: shift(0, 2)}, {name: "c"}}, want: "c", rung: 1},
		{name: "a shift takes place on rung 3, too", chain: "up; priority; select_first_n",
			spots: []spot{{name: "a", state: shift(0, 1), answer: ranked(1, 0)}, {name: "b", state: down, answer: ranked(3, 0)}, {name: "c", state: share(0), answer: ranked(2, 0)}}, want: "b", rung: 3},
	})
}

// TestUpBuckets: a network is at a PoP when its bucket is below the share, exactly (steering.md section 4, Bucket); who leaves by a shift is at the other.
func TestUpBuckets(t *testing.T) {
	plain := scene(t, []spot{{name: "fra", state: share(63)}, {name: "ams"}}, "up", "")
	shifted := scene(t, []spot{{name: "fra", state: shift(63, 1)}, {name: "ams"}}, "up; select_first_n", "")
	x := &Exec{}
	stayed := 0
	networks(10000, func(p netip.Prefix) {
		want, wantShifted := "ams", "ams"
		if pops.Bucket("up", p.Addr(), "fra") < 63 {
			want, wantShifted = "fra ams", "fra"
			stayed++
		}
		if got, _ := plain.names(x, p); got != want {
			t.Errorf("%v: drained to 63 %%: got %s, want %s", p, got, want)
		}
		if got, _ := shifted.names(x, p); got != wantShifted {
			t.Errorf("%v: shifted from 63 %%: got %s, want %s", p, got, wantShifted)
		}
	})
	if stayed < 6150 || stayed > 6450 {
		t.Errorf("%d of 10000 networks stayed, want 6300 +- 150", stayed)
	}
}

// TestAvailable: an answer is available to somebody where `up` needs no last resort for it.
func TestAvailable(t *testing.T) {
	for seed := range uint64(40) {
		r := newRand(seed)
		for _, w := range newWorlds(r, 4) {
			w.chain, _ = New(chainOf("up"), Env{Pool: w.pool})
			x := &Exec{}
			for range 8 {
				w.setView(testView(r, w.view.Fleet))
				ecs, sender := testClient(r)
				w.run(x, ecs, sender)
				some := slices.ContainsFunc(x.start, func(c Candidate) bool { return w.pool.Answers[c.Answer].Available(w.view, x.V6) })
				if len(x.start) > 0 && some != (x.Rung <= pops.RungShare) {
					t.Fatalf("seed %d: available %v on rung %d\n%v", seed, some, x.Rung, w)
				}
			}
		}
	}
}
