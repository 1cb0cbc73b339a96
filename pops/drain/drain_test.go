package drain

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/pops"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// hands is a clock that stands still until it is moved.
type hands struct {
	wall time.Time
	mono time.Duration
}

func (h *hands) clock(node string) *Clock {
	return NewClock(ClockConfig{Node: node, Wall: func() time.Time { return h.wall }, Mono: func() time.Duration { return h.mono }})
}

// pass lets time pass.
func (h *hands) pass(d time.Duration) {
	h.wall = h.wall.Add(d)
	h.mono += d
}

// fleet is iad, fra and sin with envoy-wss everywhere and envoy-edge at iad and fra.
var fleet = &pops.Fleet{
	PoPs:     []pops.PoP{{Name: "iad"}, {Name: "fra"}, {Name: "sin"}},
	Services: []pops.Service{{Name: "envoy-wss"}, {Name: "envoy-edge"}},
	Endpoints: []pops.Endpoint{
		{PoP: 0, Service: 0}, {PoP: 1, Service: 0}, {PoP: 2, Service: 0}, {PoP: 0, Service: 1}, {PoP: 1, Service: 1},
	},
}

// node is a ledger and what a test moves.
type node struct {
	*Ledger
	hands
	fs     *memFS
	told   []string // what was broadcast
	effect *fakeEffect
	t      testing.TB
}

// fakeEffect reports as broken what its function says.
type fakeEffect struct {
	report func(before *pops.View, after []*pops.View) Report
	err    error
}

func (e *fakeEffect) Effect(before *pops.View, after ...*pops.View) (Report, error) {
	if e.report == nil {
		return Report{}, e.err
	}
	return e.report(before, after), e.err
}

func newNode(t testing.TB, name string) *node {
	n := &node{hands: hands{wall: noon}, fs: newMemFS(), effect: &fakeEffect{}, t: t}
	n.open(name)
	return n
}

func (n *node) config(name string) Config {
	return Config{
		Node: name, Dir: "state", FS: n.fs, Clock: n.hands.clock(name), Effect: n.effect,
		Fleet:     func() *pops.Fleet { return fleet },
		Broadcast: func(_ string, state []byte) { n.told = append(n.told, string(state)) },
		Log:       slog.New(slog.DiscardHandler),
	}
}

func (n *node) open(name string) {
	n.t.Helper()
	l, err := New(n.config(name))
	if err != nil {
		n.t.Fatal(err)
	}
	n.Ledger = l
}

// restart opens the ledger again from the disk, as after kill -9 or, with powerLoss, after a loss of power.
func (n *node) restart(powerLoss bool) {
	n.t.Helper()
	n.fs = n.fs.after(powerLoss)
	n.open(n.Ledger.config.Node)
}

func (n *node) flush() {
	n.t.Helper()
	if !n.Flush() {
		n.t.Fatalf("not all on disk: %v", n.Problems())
	}
}

func target(s string) pops.Target {
	t, err := pops.ParseTarget(s)
	if err != nil {
		panic(err)
	}
	return t
}

// drain is a person's drain.
func drain(s string, by float64) Request {
	return Request{Kind: pops.Drain, Target: target(s), By: by, Author: "ann", Role: pops.Person, Reason: "fibre works"}
}

func pin(s string) Request {
	r := drain(s, 0)
	r.Kind = pops.Pin
	return r
}

func shift(from, to string) Request {
	r := drain(from, 100)
	r.Kind, r.To = pops.Shift, target(to)
	return r
}

func automation(s, outage string) Request {
	r := drain(s, 100)
	r.Author, r.Role, r.Outage, r.Reason = "alertmanager", pops.Automation, outage, "check fails"
	return r
}

func restore(s string) LiftRequest {
	return LiftRequest{Target: target(s), Author: "bob", Role: pops.Person, Reason: "works done"}
}

func (n *node) apply(r Request) *Entry {
	n.t.Helper()
	result, err := n.Apply(r)
	if err != nil {
		n.t.Fatalf("%s of %s: %v", r.Kind, r.Target, err)
	}
	return result.Statements[0]
}

func (n *node) lift(r LiftRequest) Result {
	n.t.Helper()
	result, err := n.Lift(r)
	if err != nil {
		n.t.Fatalf("restore %s: %v", r.Target, err)
	}
	return result
}

// refused gives the refusal that an error is.
func refused(t testing.TB, err error) *Refusal {
	t.Helper()
	var bad *Refusal
	if !errors.As(err, &bad) {
		t.Fatalf("error %v is no refusal", err)
	}
	return bad
}

// shares is what stands now, as "fra 63, pin sin".
func (n *node) shares() string {
	var list []string
	for _, i := range n.Intents(n.Now()) {
		s := fmt.Sprintf("%s %g", i.Target, float64(i.Share))
		switch i.Kind {
		case pops.Pin:
			s = fmt.Sprintf("pin %s", i.Target)
		case pops.Shift:
			s += " to " + i.To.String()
		}
		list = append(list, s)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func (n *node) want(shares string) {
	n.t.Helper()
	if got := n.shares(); got != shares {
		n.t.Errorf("stands: %q, want %q", got, shares)
	}
}

// ops is the history, oldest first.
func (n *node) ops() string {
	var list []string
	for _, r := range slices.Backward(n.History(Query{Limit: 1000})) {
		list = append(list, string(r.Op))
	}
	return strings.Join(list, " ")
}

func (n *node) problem(kind ProblemKind) bool {
	return slices.ContainsFunc(n.Problems(), func(p Problem) bool { return p.Kind == kind })
}
