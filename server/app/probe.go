package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

// Somebody wants an endpoint checked now, from all nodes or from one. The wish goes to each node apart, once a second until it has answered: packets get lost.

const (
	probesState = "probes"
	// probeSlack is what the way to another node and back may take on top of the check's timeout.
	probeSlack = 2 * time.Second
	probeAgain = time.Second
	// probeMemory is for how long an answer is kept, for those who ask again because it got lost.
	probeMemory = time.Minute
	// maxProbeJobs is how many wishes of others are done at the same time.
	maxProbeJobs = 64
)

// probeMessage is a wish, or the answer to one.
type probeMessage struct {
	ID      string            `json:"id"` // of the wish
	From    string            `json:"from"`
	Target  string            `json:"target,omitempty"` // of a wish: the endpoint
	Results []api.ProbeResult `json:"results,omitempty"`
	Error   string            `json:"error,omitempty"` // of an answer: it is not checked there, or there is too much to do
}

// probes passes on wishes and answers. It implements gossip.State, and has no state to be exchanged.
type probes struct {
	node string
	run  func(ctx context.Context, target string) ([]api.ProbeResult, error) // checks, within the timeout of the check
	send func(node, key string, data []byte)                                 // once; it may get lost

	mu      sync.Mutex
	wishes  map[string]chan probeMessage // of this node, by id
	answers map[string]*probeMessage     // of this node to others, by id; nil: it is being made
	order   []string                     // ids of answers, oldest first
	begun   map[string]time.Time
	busy    int // answers that are being made
}

func newProbes(node string, run func(context.Context, string) ([]api.ProbeResult, error), send func(node, key string, data []byte)) *probes {
	return &probes{node: node, run: run, send: send, wishes: map[string]chan probeMessage{}, answers: map[string]*probeMessage{}, begun: map[string]time.Time{}}
}

// MarshalBinary implements gossip.State: there is nothing to exchange.
func (p *probes) MarshalBinary() ([]byte, error) { return []byte("{}"), nil }

// Merge implements gossip.State.
func (p *probes) Merge(data []byte) error {
	var m probeMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("probes: %w", err)
	}
	switch {
	case m.ID == "":
	case m.Target != "":
		p.wish(&m)
	default:
		p.mu.Lock()
		c := p.wishes[m.ID]
		p.mu.Unlock()
		if c != nil {
			select {
			case c <- m:
			default: // answered more often than was asked
			}
		}
	}
	return nil
}

// wish does what another node wants, once, and says again what came of it.
func (p *probes) wish(m *probeMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for len(p.order) > 0 && now.Sub(p.begun[p.order[0]]) > probeMemory && p.answers[p.order[0]] != nil {
		delete(p.answers, p.order[0])
		delete(p.begun, p.order[0])
		p.order = p.order[1:]
	}
	if answer, known := p.answers[m.ID]; known {
		if answer != nil {
			p.send(m.From, m.ID, mustJSON(answer))
		}
		return
	}
	if p.busy >= maxProbeJobs {
		p.send(m.From, m.ID, mustJSON(probeMessage{ID: m.ID, From: p.node, Error: "it has too much to check already"}))
		return
	}
	p.busy++
	p.answers[m.ID], p.begun[m.ID] = nil, now
	p.order = append(p.order, m.ID)
	go func() {
		answer := &probeMessage{ID: m.ID, From: p.node}
		results, err := p.run(context.Background(), m.Target)
		if answer.Results = results; err != nil {
			answer.Error = err.Error()
		}
		p.mu.Lock()
		p.answers[m.ID] = answer
		p.busy--
		p.mu.Unlock()
		p.send(m.From, m.ID, mustJSON(answer))
	}()
}

// ask has nodes check a target, and gives their results when all have answered or limit is over. Of those that have not there is one that says so.
func (p *probes) ask(ctx context.Context, target string, nodes []string, limit time.Duration) []api.ProbeResult {
	if len(nodes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	wish := probeMessage{ID: rand.Text(), From: p.node, Target: target}
	answers := make(chan probeMessage, 4*len(nodes))
	p.mu.Lock()
	p.wishes[wish.ID] = answers
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.wishes, wish.ID)
	}()
	missing := map[string]bool{}
	for _, n := range nodes {
		missing[n] = true
	}
	again := time.NewTicker(probeAgain)
	defer again.Stop()
	var out []api.ProbeResult
	say := func() {
		for n := range missing {
			p.send(n, wish.ID, mustJSON(wish))
		}
	}
	say()
	for len(missing) > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-again.C:
			say()
		case m := <-answers:
			if !missing[m.From] {
				continue
			}
			delete(missing, m.From)
			if m.Error != "" {
				out = append(out, api.ProbeResult{Node: m.From, Local: true, Error: m.Error})
			}
			for _, r := range m.Results {
				r.Node = m.From
				out = append(out, r)
			}
		}
	}
	for n := range missing {
		out = append(out, api.ProbeResult{Node: n, Local: true, Error: "no answer within " + limit.String()})
	}
	return out
}

// probe checks a target now: from all nodes, or from one.
func (a *App) probe(ctx context.Context, target, node string) ([]api.ProbeResult, error) {
	timeout, ok := a.health.Timeout(target)
	if !ok {
		return nil, fmt.Errorf("%s is not checked", target)
	}
	own := a.present().cfg.Server.Node
	var others []string
	f := a.fleet.Load()
	if f != nil {
		others = f.reachable()
	}
	if node != "" && node != own {
		if !slices.Contains(others, node) {
			return nil, fmt.Errorf("no node %q is within reach, there are %s", node, strings.Join(append(others, own), ", "))
		}
		others = []string{node}
	}
	var out, mine []api.ProbeResult
	var err error
	var wg sync.WaitGroup
	if node == "" || node == own {
		wg.Go(func() { mine, err = a.probeHere(ctx, target) })
	}
	if node != own {
		out = f.ask(ctx, target, others, timeout+probeSlack)
	}
	wg.Wait()
	out = append(out, mine...)
	slices.SortStableFunc(out, func(x, y api.ProbeResult) int { return cmp.Compare(x.Node, y.Node) })
	return out, err
}

// ask is probes.ask; of no fleet there is nobody to be asked.
func (f *fleet) ask(ctx context.Context, target string, nodes []string, limit time.Duration) []api.ProbeResult {
	if f == nil {
		return nil
	}
	return f.probes.ask(ctx, target, nodes, limit)
}

// probeHere checks a target now, from this node.
func (a *App) probeHere(ctx context.Context, target string) ([]api.ProbeResult, error) {
	results, err := a.health.ProbeNow(ctx, target)
	if err != nil {
		return nil, err
	}
	out := make([]api.ProbeResult, 0, len(results))
	for _, r := range results {
		out = append(out, api.ProbeResult{
			Node: a.present().cfg.Server.Node, Address: r.Address.String(), Good: r.Fault == "", Error: r.Fault, Warning: r.Warning, Local: r.Local, Took: api.Duration(r.Took),
		})
	}
	return out, nil
}
