package drain

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/pops"
)

// TestLedgerModel has five nodes, whose clocks are up to an hour apart, say, lift, renew and replace at random for weeks, tell each other some of it, crash, and lose all but their disk. Then all tell each
// other everything, and know the same: every statement that was accepted, the end of each that somebody ended who knew of it, and of no other. What a node remembered at any moment before, however
// long ago, brings nothing back.
func TestLedgerModel(t *testing.T) {
	for seed := range uint64(2) {
		m := newModel(t, seed)
		for range 150 {
			m.step()
		}
		m.settle()
		m.check()
		before, _ := m.nodes[0].MarshalBinary()
		for _, old := range m.memories {
			if err := m.nodes[m.random.IntN(len(m.nodes))].Merge(old); err != nil {
				t.Fatal(err)
			}
		}
		m.settle()
		m.check()
		if after, _ := m.nodes[0].MarshalBinary(); string(after) != string(before) {
			t.Errorf("seed %d: what was remembered before changes what is known now:\n%s\n%s", seed, before, after)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

type model struct {
	t        *testing.T
	random   *rand.Rand
	nodes    []*node
	made     map[string]*Entry // accepted, as it was last said, by id
	ended    map[string]bool   // somebody has ended it
	memories [][]byte          // states of nodes at some moments
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, random: rand.New(rand.NewPCG(seed, 3)), made: map[string]*Entry{}, ended: map[string]bool{}}
	for i := range 5 {
		n := &node{hands: hands{wall: noon.Add(time.Duration(m.random.IntN(7200)-3600) * time.Second)}, fs: newMemFS(), effect: &fakeEffect{}, t: t}
		n.open(fmt.Sprint("n", i))
		m.nodes = append(m.nodes, n)
	}
	return m
}

func (m *model) step() {
	i := m.random.IntN(len(m.nodes))
	n := m.nodes[i]
	where := []string{"fra", "iad", "sin", "fra/envoy-wss", "*/envoy-edge"}[m.random.IntN(5)]
	var result Result
	var err error
	switch what := m.random.IntN(20); {
	case what < 5:
		r := drain(where, float64(1+m.random.IntN(100)))
		r.For = time.Duration(1+m.random.IntN(48)) * time.Hour
		r.Forever = m.random.IntN(10) == 0
		if r.Forever {
			r.For = 0
		}
		r.Back.Over = time.Duration(m.random.IntN(2)) * time.Hour
		if m.random.IntN(3) == 0 {
			r.Over.Over = time.Duration(1+m.random.IntN(50)) * time.Minute
		}
		result, err = n.Apply(r)
	case what < 6:
		result, err = n.Apply(pin(where))
	case what < 8:
		result, err = n.Apply(automation(where, fmt.Sprint("outage ", m.random.IntN(50))))
	case what < 11:
		r := restore(where)
		r.Back.Over = time.Duration(m.random.IntN(3)) * time.Hour
		result, err = n.Lift(r)
	case what < 12:
		result, err = n.Renew(RenewRequest{Target: target(where), Author: "bob", Role: pops.Person, For: time.Duration(1+m.random.IntN(72)) * time.Hour})
	case what < 14: // one hears what another knows
		m.tell(n, m.nodes[m.random.IntN(len(m.nodes))])
	case what < 16: // the last that another broadcast arrives
		if from := m.nodes[m.random.IntN(len(m.nodes))]; len(from.told) > 0 {
			err = n.Merge([]byte(from.told[len(from.told)-1]))
		}
	case what < 17:
		n.flush()
		n.restart(m.random.IntN(2) == 0)
	case what < 18:
		b, _ := n.MarshalBinary()
		m.memories = append(m.memories, b)
	default:
		d := time.Duration(m.random.IntN(600)) * time.Minute
		for _, n := range m.nodes {
			n.pass(d)
			n.flush()
		}
	}
	if err != nil {
		if r := refused(m.t, err); r.Code != Conflict && r.Code != Unknown && r.Code != Invalid {
			m.t.Errorf("%v", err)
		}
		return
	}
	for _, e := range result.Statements {
		m.made[e.ID] = e
	}
	for _, e := range result.Ended {
		m.ended[e.ID] = true
	}
}

func (m *model) tell(from, to *node) {
	b, _ := from.MarshalBinary()
	if err := to.Merge(b); err != nil {
		m.t.Fatal(err)
	}
}

// settle has all nodes tell one everything, and that one all the others.
func (m *model) settle() {
	nodes := m.nodes
	for _, n := range nodes[1:] {
		m.tell(n, nodes[0])
	}
	for _, n := range nodes[1:] {
		m.tell(nodes[0], n)
	}
	latest := nodes[0].Now()
	for _, n := range nodes { // clocks that are an hour apart forget an hour apart
		if now := n.Now(); now.After(latest) {
			latest = now
		}
	}
	for _, n := range nodes {
		n.pass(latest.Sub(n.Now()))
		n.flush()
	}
	agree(m.t, nodes...)
}

func (m *model) check() {
	n := m.nodes[0]
	now := n.Now()
	for id, said := range m.made {
		e, ok := n.Statement(id)
		until, forgotten := said.keepUntil()
		switch {
		case !ok && forgotten && now.After(until):
		case !ok:
			m.t.Errorf("%s is forgotten: %+v", id, said)
		case m.ended[id] != (e.Lift != nil):
			m.t.Errorf("%s: somebody ended it: %v, its end is %+v", id, m.ended[id], e.Lift)
		}
	}
	for _, e := range n.Statements() {
		if m.made[e.ID] == nil {
			m.t.Errorf("nobody said %+v", e)
		}
	}
}
