package app

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/server/api"
)

// post is a network of nodes that loses messages.
type post struct {
	mu    sync.Mutex
	nodes map[string]*probes
	runs  map[string]int
	n     int
	lost  func(n int) bool // whether the message of that number gets lost
}

func newPost(lost func(int) bool, names ...string) *post {
	p := &post{nodes: map[string]*probes{}, runs: map[string]int{}, lost: lost}
	for _, name := range names {
		p.nodes[name] = newProbes(name, func(_ context.Context, target string) ([]api.ProbeResult, error) {
			time.Sleep(300 * time.Millisecond)
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.runs[name]++; target == "fra/none" {
				return nil, errors.New("fra/none is not checked")
			}
			return []api.ProbeResult{{Address: "192.0.2.1", Good: name != "n3"}}, nil
		}, p.send)
	}
	return p
}

func (p *post) send(to, _ string, data []byte) {
	p.mu.Lock()
	p.n++
	lost, node := p.lost(p.n), p.nodes[to]
	p.mu.Unlock()
	if lost || node == nil {
		return
	}
	go func() {
		time.Sleep(10 * time.Millisecond)
		if err := node.Merge(data); err != nil {
			panic(err)
		}
	}()
}

// All nodes are asked, and each checks once, however many messages get lost; one that is not there is named when the time is over.
func TestProbes(t *testing.T) {
	half := rand.New(rand.NewPCG(1, 2))
	never := func(int) bool { return false }
	for _, tt := range []struct {
		name   string
		lost   func(int) bool
		target string
		ask    []string
		most   time.Duration
		want   []api.ProbeResult
		runs   map[string]int
	}{
		{"all answer", never, "fra/wss", []string{"n2", "n3"}, 400 * time.Millisecond,
			[]api.ProbeResult{{Node: "n2", Address: "192.0.2.1", Good: true}, {Node: "n3", Address: "192.0.2.1"}}, map[string]int{"n2": 1, "n3": 1}},
		{"half of the messages get lost", func(int) bool { return half.IntN(2) == 0 }, "fra/wss", []string{"n2", "n3"}, 20 * time.Second,
			[]api.ProbeResult{{Node: "n2", Address: "192.0.2.1", Good: true}, {Node: "n3", Address: "192.0.2.1"}}, map[string]int{"n2": 1, "n3": 1}},
		{"one is not there", never, "fra/wss", []string{"n2", "n9"}, 20 * time.Second,
			[]api.ProbeResult{{Node: "n2", Address: "192.0.2.1", Good: true}, {Node: "n9", Local: true, Error: "no answer within 20s"}}, map[string]int{"n2": 1}},
		{"it is not checked there", never, "fra/none", []string{"n2"}, 400 * time.Millisecond, []api.ProbeResult{{Node: "n2", Local: true, Error: "fra/none is not checked"}}, map[string]int{"n2": 1}},
		{"nobody is asked", never, "fra/wss", nil, 0, nil, map[string]int{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPost(tt.lost, "n1", "n2", "n3")
				began := time.Now()
				got := p.nodes["n1"].ask(t.Context(), tt.target, tt.ask, 20*time.Second)
				if took := time.Since(began); took > tt.most {
					t.Errorf("it took %s", took)
				}
				slices.SortFunc(got, func(a, b api.ProbeResult) int { return strings.Compare(a.Node, b.Node) })
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
				time.Sleep(time.Second) // what is still on its way
				if diff := cmp.Diff(tt.runs, p.runs); diff != "" {
					t.Errorf("checks: %s", diff)
				}
			})
		})
	}
}

// Who asks too much is told so, and what was answered is forgotten after a while.
func TestProbesBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost(func(int) bool { return false }, "n1", "n2")
		var wg sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		for range maxProbeJobs + 10 {
			wg.Go(func() {
				for _, r := range p.nodes["n1"].ask(t.Context(), "fra/wss", []string{"n2"}, 5*time.Second) {
					if r.Error == "it has too much to check already" {
						mu.Lock()
						refused++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		if refused != 10 || p.runs["n2"] != maxProbeJobs {
			t.Errorf("%d refused, %d checked", refused, p.runs["n2"])
		}
		time.Sleep(2 * probeMemory)
		p.nodes["n1"].ask(t.Context(), "fra/wss", []string{"n2"}, 5*time.Second)
		if n := len(p.nodes["n2"].answers); n != 1 {
			t.Errorf("%d answers are remembered", n)
		}
	})
}
