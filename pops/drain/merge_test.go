package drain

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/pops"
)

// randomState is a state of few ids, so that merges meet: versions, lifts, evidence, receipts.
func randomState(r *rand.Rand) *state {
	s := newState()
	stamp := func() Stamp {
		return Stamp{Wall: noon.UnixNano() + int64(r.IntN(3)), Count: uint32(r.IntN(2)), Node: string(rune('a' + r.IntN(2)))}
	}
	for range r.IntN(4) {
		e := &Entry{Statement: Statement{
			ID: fmt.Sprint("d-", r.IntN(3)), Kind: pops.Drain, Role: pops.Person, Target: target("fra"), By: float64(1 + r.IntN(3)), Version: 1, Stamp: stamp(),
		}}
		if r.IntN(3) > 0 {
			e.Expires = noon.Add(time.Duration(r.IntN(3)) * time.Hour)
		}
		for range r.IntN(3) {
			e.Evidence = union(e.Evidence, []string{fmt.Sprint("seen ", r.IntN(4))})
		}
		if r.IntN(3) == 0 {
			e.Lift = &Lift{At: noon.Add(time.Duration(r.IntN(3)) * time.Minute), Author: "x", Role: pops.Person, Back: Way{Over: time.Duration(r.IntN(3)) * time.Minute}, Stamp: stamp()}
		}
		e.cover()
		s, _, _ = join(s, newState().with([]*Entry{e}, nil))
	}
	if r.IntN(2) == 0 {
		key := fmt.Sprint("k", r.IntN(2))
		s.receipts[key] = &Receipt{Key: key, Digest: fmt.Sprint(r.IntN(2)), At: noon, Stamp: stamp()}
	}
	return s
}

func merged(states ...*state) string {
	s := newState()
	for _, o := range states {
		s, _, _ = join(s, o)
	}
	return string(encoded(s.message()))
}

// TestJoin: merging is commutative, associative and idempotent.
func TestJoin(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 500 {
		a, b, c := randomState(r), randomState(r), randomState(r)
		want := merged(a, b, c)
		for _, order := range [][]*state{{a, c, b}, {b, a, c}, {b, c, a}, {c, a, b}, {c, b, a}, {a, b, c, a, b, c}, {c, c, b, a, a}} {
			if got := merged(order...); got != want {
				t.Fatalf("%s\nand in another order\n%s", want, got)
			}
		}
		ab, _, _ := join(a, b)
		bc, _, _ := join(b, c)
		left, _, _ := join(ab, c)
		right, changed, news := join(a, bc)
		if l, r := merged(left), merged(right); l != want || r != want {
			t.Fatalf("not associative:\n%s\n%s\n%s", want, l, r)
		}
		if again, changed, news := join(right, bc); len(changed) > 0 || news || merged(again) != want {
			t.Fatalf("not idempotent: %v", changed)
		}
		if (len(changed) > 0) != (fmt.Sprint(right.sorted()) != fmt.Sprint(a.sorted())) && !news {
			t.Fatalf("changed is %v", changed)
		}
		// What a message carries is the state.
		var m message
		if err := json.Unmarshal(encoded(right.message()), &m); err != nil {
			t.Fatal(err)
		}
		read, bad, err := m.state()
		if err != nil || bad > 0 || merged(read) != want {
			t.Fatalf("read back: %v, %d bad\n%s\n%s", err, bad, want, merged(read))
		}
	}
}

// exchange lets nodes tell each other all they know, in a random order.
func exchange(t *testing.T, r *rand.Rand, nodes ...*node) {
	t.Helper()
	for range 2 {
		for _, i := range r.Perm(len(nodes) * len(nodes)) {
			from, to := nodes[i/len(nodes)], nodes[i%len(nodes)]
			b, _ := from.MarshalBinary()
			if err := to.Merge(b); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func agree(t *testing.T, nodes ...*node) {
	t.Helper()
	want, _ := nodes[0].MarshalBinary()
	for _, n := range nodes[1:] {
		if got, _ := n.MarshalBinary(); string(got) != string(want) {
			t.Fatalf("%s and %s differ:\n%s\n%s", nodes[0].Ledger.config.Node, n.Ledger.config.Node, want, got)
		}
	}
}

// TestTwoSides: both sides of a cut act, with clocks an hour apart. Both sides' statements are kept, and a lift kills only what it had seen.
func TestTwoSides(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	a, b, c := newNode(t, "a"), newNode(t, "b"), newNode(t, "c")
	a.wall = a.wall.Add(time.Hour)
	x := a.apply(drain("fra", 38))
	a.apply(drain("iad", 5))
	exchange(t, r, a, b, c)
	agree(t, a, b, c)

	left := a.apply(drain("fra", 20)) // each side replaces the drain of fra by its own
	right := b.apply(drain("fra", 50))
	c.lift(restore("fra"))               // and the third lifts the one that it knows
	b.apply(pin("sin"))                  // a pin on one side
	a.apply(drain("sin/envoy-wss", 100)) // what it pins is drained on the other
	b.lift(restore("iad"))
	d := a.apply(drain("iad", 7)) // the lift had not seen this one
	exchange(t, r, a, b, c)
	agree(t, a, b, c)
	for _, n := range []*node{a, b, c} {
		n.want("fra 50, fra 80, iad 93, pin sin, sin/envoy-wss 0")
		if e, _ := n.Statement(x.ID); e.Lift == nil {
			t.Errorf("%s: what was replaced on two sides and lifted on a third stands", n.Ledger.config.Node)
		}
	}
	result := c.lift(restore("fra")) // now it knows both
	if len(result.Ended) != 2 || !slices.ContainsFunc(result.Ended, func(e *Entry) bool { return e.ID == left.ID }) || !slices.ContainsFunc(result.Ended, func(e *Entry) bool { return e.ID == right.ID }) {
		t.Errorf("lifted: %+v", result.Ended)
	}
	exchange(t, r, a, b, c)
	agree(t, a, b, c)
	b.want("iad 93, pin sin, sin/envoy-wss 0")
	h := b.History(Query{ID: d.ID})
	if len(h) != 1 || h[0].Op != Merged || h[0].Node != "b" || h[0].After.Stamp.Node != "a" {
		t.Errorf("history of what a made, on b: %+v", h)
	}
}

// TestOneForAll: who knows of drains that were made on two sides gives back with a new one, which ends them all; the share goes on from the lowest. One that was not known stands.
func TestOneForAll(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	a, b, c := newNode(t, "a"), newNode(t, "b"), newNode(t, "c")
	a.apply(drain("fra", 61))
	newest := b.apply(drain("fra", 63))
	exchange(t, r, a, b)
	agree(t, a, b)
	c.apply(drain("fra", 30)) // not seen by the others yet

	slow := drain("fra", 20)
	slow.Over = Way{Over: 10 * time.Minute}
	result, err := a.Apply(slow)
	if err != nil {
		t.Fatal(err)
	}
	if e := result.Statements[0]; len(result.Ended) != 2 || result.Ended[0].ID != newest.ID || e.Replaces != newest.ID || e.Version != newest.Version+1 || e.Ramp.From != 37 {
		t.Errorf("ended %+v by %+v", result.Ended, e)
	}
	for _, ended := range result.Ended {
		if h := a.History(Query{ID: ended.ID}); len(h) < 2 || h[0].Op != LiftedOp || !strings.Contains(h[0].Message, result.Statements[0].ID) {
			t.Errorf("history of %s: %+v", ended.ID, h)
		}
	}
	a.pass(10 * time.Minute)
	a.want("fra 80")
	for _, n := range []*node{b, c} {
		n.pass(10 * time.Minute)
	}
	exchange(t, r, a, b, c)
	agree(t, a, b, c)
	b.want("fra 70, fra 80")
}

// TestTwoLifts: a drain is lifted on two sides. After the merge the lift counts that has given everything back first, so that nothing is taken away again.
func TestTwoLifts(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	for _, test := range []struct{ first, second time.Duration }{{30 * time.Minute, 0}, {0, 30 * time.Minute}, {30 * time.Minute, 25 * time.Minute}, {30 * time.Minute, 10 * time.Minute}} {
		a, b := newNode(t, "a"), newNode(t, "b")
		a.apply(drain("fra", 100))
		exchange(t, r, a, b)
		lift := restore("fra")
		lift.Back.Over = test.first
		a.lift(lift)
		a.pass(10 * time.Minute)
		b.pass(10 * time.Minute)
		lift.Back.Over = test.second
		b.lift(lift)
		exchange(t, r, a, b)
		agree(t, a, b)
		for at := a.Now(); at.Before(noon.Add(2 * time.Hour)); at = at.Add(time.Minute) {
			want := !at.Before(noon.Add(min(test.first, 10*time.Minute+test.second)))
			if got := len(a.Intents(at)) == 0; got != want {
				t.Errorf("%v after %v: all is back %v, want %v", test.second, test.first, got, want)
				break
			}
		}
	}
}

// TestClearWins: a node whose clock is an hour ahead says something, another clears or renews it later: the later one wins.
func TestClearWins(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	a, b := newNode(t, "a"), newNode(t, "b")
	a.wall = a.wall.Add(time.Hour)
	e := a.apply(drain("fra", 50))
	a.apply(drain("iad", 50))
	exchange(t, r, a, b)
	renewed, err := b.Renew(RenewRequest{Target: target("fra"), Author: "bob", Role: pops.Person, For: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	b.lift(restore("iad"))
	exchange(t, r, a, b)
	agree(t, a, b)
	got, _ := a.Statement(e.ID)
	if got.Version != 2 || !got.Expires.Equal(renewed.Statements[0].Expires) {
		t.Errorf("the renewal lost: %+v", got)
	}
	a.want("") // an hour ahead, a is where b's hour is over
	b.want("fra 50")
}

// TestOldStateLoses: a node that comes back with an old ledger brings nothing back to life.
func TestOldStateLoses(t *testing.T) {
	for _, away := range []time.Duration{time.Hour, 30 * 24 * time.Hour} {
		a, b := newNode(t, "a"), newNode(t, "b")
		for name, forever := range map[string]bool{"fra": true, "iad": false} {
			r := drain(name, 50)
			r.Forever = forever
			a.apply(r)
		}
		edited := drain("sin", 10)
		edited.Forever = true
		a.apply(edited)
		old, _ := a.MarshalBinary()
		edited.By = 20
		a.apply(edited)
		a.lift(restore("fra"))
		a.lift(restore("iad"))
		a.pass(away)
		b.pass(away)
		a.flush()
		if err := b.Merge(old); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 1))
		exchange(t, r, a, b)
		agree(t, a, b)
		a.want("sin 80")
		b.want("sin 80")
	}
}

func TestTombstones(t *testing.T) {
	n := newNode(t, "a")
	short := drain("fra", 50)
	short.For = time.Hour
	n.apply(short)
	n.lift(restore("fra"))
	forever := drain("iad", 50)
	forever.Forever = true
	n.apply(forever)
	n.lift(restore("iad"))
	count := func(want int) {
		t.Helper()
		n.flush()
		if got := len(n.Statements()); got != want {
			t.Errorf("%d remembered, want %d", got, want)
		}
	}
	n.pass(time.Hour + MaxFor + 7*24*time.Hour) // its end, a renewal that it may have had elsewhere, seven days
	count(2)
	n.pass(time.Second)
	count(1)
	n.pass(100 * 365 * 24 * time.Hour)
	count(1)
	n.restart(true)
	count(1)
}

func TestFarStampsCount(t *testing.T) {
	a, b := newNode(t, "a"), newNode(t, "b")
	a.wall = a.wall.AddDate(20, 0, 0)
	a.apply(drain("fra", 50))
	state, _ := a.MarshalBinary()
	if err := b.Merge(state); err != nil {
		t.Fatal(err)
	}
	b.want("fra 50") // active on receipt, whatever the time is
	if e := b.apply(drain("iad", 50)); e.Stamp.Wall > noon.Add(time.Minute).UnixNano() {
		t.Errorf("the clock followed to %v", e.Stamp)
	}
}

func TestMergeBadInput(t *testing.T) {
	n := newNode(t, "a")
	n.apply(drain("fra", 50))
	for name, b := range map[string]string{
		"nothing":       "",
		"not JSON":      "\x00\x01",
		"newer":         `{"version":9,"entries":[]}`,
		"no id":         `{"version":1,"entries":[{"kind":"drain","role":"person","target":"fra","stamp":{"wall":1,"node":"b"}}]}`,
		"unknown kind":  `{"version":1,"entries":[{"id":"x","kind":"explode","role":"person","target":"fra","stamp":{"wall":1,"node":"b"}}]}`,
		"bad ramp":      `{"version":1,"entries":[{"id":"x","kind":"drain","role":"person","target":"fra","ramp":{"from":100,"to":-5},"stamp":{"wall":1,"node":"b"}}]}`,
		"beyond time":   `{"version":1,"entries":[{"id":"x","kind":"drain","role":"person","target":"iad","expires":"9999-12-31T23:59:59Z","ramp":{"from":100,"to":0},"back":{"over":3600000000000},"stamp":{"wall":1,"node":"b"}}]}`,
		"lift beyond":   `{"version":1,"entries":[{"id":"x","kind":"drain","role":"person","target":"iad","ramp":{"from":100,"to":0},"lift":{"at":"9999-12-31T23:59:59Z","role":"person","back":{"over":3600000000000},"stamp":{"wall":1,"node":"b"}},"stamp":{"wall":1,"node":"b"}}]}`,
		"last stamp":    `{"version":1,"entries":[{"id":"x","kind":"drain","role":"person","target":"iad","ramp":{"from":100,"to":0},"stamp":{"wall":9223372036854775807,"node":"b"}}]}`,
		"null entry":    `{"version":1,"entries":[null]}`,
		"null receipt":  `{"version":1,"entries":[],"receipts":[null]}`,
		"bad way back":  `{"version":1,"entries":[{"id":"x","kind":"drain","role":"person","target":"fra","back":{"over":-1},"stamp":{"wall":1,"node":"b"}}]}`,
		"shift nowhere": `{"version":1,"entries":[{"id":"x","kind":"shift","role":"person","target":"fra","stamp":{"wall":1,"node":"b"}}]}`,
	} {
		if err := n.Merge([]byte(b)); err == nil {
			t.Errorf("%s: merged", name)
		}
		if !n.problem(ForeignState) {
			t.Errorf("%s: no problem", name)
		}
		n.settle(ForeignState)
		n.want("fra 50")
	}
	// One bad entry does not hold back the others.
	good := `{"version":1,"entries":[null,{"id":"y","kind":"of another version","target":["fra"]},{"id":"x","kind":"drain","role":"person","target":"iad","by":10,"ramp":{"from":100,"to":90},"stamp":{"wall":1,"node":"b"}}]}`
	if err := n.Merge([]byte(good)); err == nil {
		t.Error("no error")
	}
	n.want("fra 50, iad 90")
}

// TestBroadcast: what is told, one message a statement, makes another node the same.
func TestBroadcast(t *testing.T) {
	a, b := newNode(t, "a"), newNode(t, "b")
	r := drain("fra", 38)
	r.Key = "k"
	a.apply(r)
	a.apply(drain("fra", 20))
	a.apply(automation("iad", "o"))
	if _, err := a.Renew(RenewRequest{Target: target("fra"), Author: "bob", Role: pops.Person}); err != nil {
		t.Fatal(err)
	}
	a.lift(restore("iad"))
	for _, state := range a.told {
		if err := b.Merge([]byte(state)); err != nil {
			t.Fatal(err)
		}
	}
	agree(t, a, b)
	b.want("fra 80")
	b.flush()
	b.restart(true)
	b.want("fra 80")
}

// TestGuardBrokenByMerge: nothing is undone, and it is told, until it is over.
func TestGuardBrokenByMerge(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 14))
	a, b := newNode(t, "a"), newNode(t, "b")
	last := func(_ *pops.View, after []*pops.View) Report {
		for _, v := range after {
			if v.States[0].Share == 0 && v.States[1].Share == 0 {
				return Report{Broken: []Broken{{Guard: "last", Detail: "envoy-edge has no endpoint left"}}}
			}
		}
		return Report{}
	}
	a.effect.report, b.effect.report = last, last
	a.apply(drain("iad", 100))
	b.apply(drain("fra", 100))
	exchange(t, rnd, a, b)
	for _, n := range []*node{a, b} {
		n.flush()
		n.want("fra 0, iad 0")
		if !n.problem(GuardByMerge) {
			t.Errorf("no alert: %v", n.Problems())
		}
		h := n.History(Query{Limit: 1})[0]
		if diff := cmp.Diff([]string{"last"}, h.Guards); h.Op != GuardBroken || diff != "" || !strings.Contains(h.Message, "envoy-edge has no endpoint left") {
			t.Errorf("record: %+v", h)
		}
	}
	a.lift(restore("iad"))
	if a.problem(GuardByMerge) {
		t.Error("the alert stays where it was lifted")
	}
	exchange(t, rnd, a, b)
	b.flush()
	if b.problem(GuardByMerge) {
		t.Error("the alert stays where the lift came by merge")
	}
	// What its author overrode is not broken by the merge.
	r := drain("iad", 100)
	r.Override = []string{"last"}
	a.apply(r)
	exchange(t, rnd, a, b)
	b.flush()
	if b.problem(GuardByMerge) || strings.HasSuffix(b.ops(), string(GuardBroken)) {
		t.Error("an overridden guard rail alerts on another node")
	}
}

func FuzzMerge(f *testing.F) {
	r := rand.New(rand.NewPCG(15, 16))
	for range 5 {
		f.Add(encoded(randomState(r).message()), encoded(randomState(r).message()))
	}
	f.Add([]byte(`{"version":1,"entries":[{"id":"x","kind":"drain","role":"person","target":"iad","ramp":{"from":100,"to":90,"over":-1},"stamp":{"wall":1,"node":"b"}}]}`), []byte("{"))
	f.Fuzz(func(t *testing.T, x, y []byte) {
		read := func(b []byte) *state {
			var m message
			if json.Unmarshal(b, &m) != nil {
				return nil
			}
			s, _, err := m.state()
			if err != nil {
				return nil
			}
			return s
		}
		a, b := read(x), read(y)
		if a == nil || b == nil {
			return
		}
		want := merged(a, b)
		if got := merged(b, a, b); got != want {
			t.Fatalf("not the same in another order:\n%s\n%s", want, got)
		}
		again := read([]byte(want))
		if again == nil || merged(again) != want {
			t.Fatalf("not the same when read back:\n%s", want)
		}
		for _, e := range again.entries { // and what came in can be evaluated
			for _, at := range []time.Time{{}, noon, noon.AddDate(100, 0, 0)} {
				if s := e.Share(at); !(s >= 0 && s <= 100) {
					t.Fatalf("share %v", s)
				}
				if n := e.Next(at); !n.IsZero() && !n.After(at) {
					t.Fatalf("next of %v is %v", at, n)
				}
				e.Phase(at)
			}
		}
		again.prune(noon)
	})
}

// The history of a node says of what came from another whether it was said or taken back there, and by whom.
func TestHeard(t *testing.T) {
	said := new(Entry)
	said.ID, said.Author, said.Reason = "d-1", "alice", "sick"
	back := said.copied()
	back.Lift = &Lift{Author: "bob", Reason: "well"}
	for _, tt := range []struct {
		old, e                  *Entry
		author, reason, message string
	}{
		{nil, said, "alice", "sick", ""},
		{said, back, "bob", "well", "lifted"},
		{nil, back, "bob", "well", "lifted"},
		{back, back.copied(), "alice", "sick", ""},
	} {
		if r := heard(tt.old, tt.e); r.Op != Merged || r.Author != tt.author || r.Reason != tt.reason || r.Message != tt.message || r.Before != tt.old || r.After != tt.e {
			t.Errorf("%+v", r)
		}
	}
}
