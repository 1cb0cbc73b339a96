package gossip_test

import (
	"encoding/base64"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgesteer/edgesteer/pops/gossip"
	"github.com/edgesteer/edgesteer/pops/gossip/gossiptest"
)

var fleetSize = flag.Int("fleet", 0, "simulate a fleet of so many nodes instead of 5 and 50")

// text is of n octets that cannot be compressed to less than three quarters.
func text(n int) string {
	b := make([]byte, n*3/4)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return base64.StdEncoding.EncodeToString(b)
}

func sizes() []int {
	if *fleetSize > 0 {
		return []int{*fleetSize}
	}
	if testing.Short() {
		return []int{5}
	}
	return []int{5, 50}
}

// A broadcast is everywhere within the promised time: 1 s on one network, 5 s with 100 ms and 5 % loss between regions, whatever the size of the fleet. What it costs is shown.
func TestSimulation(t *testing.T) {
	for _, size := range sizes() {
		for _, tt := range []struct {
			name    string
			pace    gossip.Pace
			links   func(from, to netip.AddrPort) gossiptest.Link
			promise time.Duration
		}{
			{"one network", gossip.LAN, oneNetwork, time.Second},
			{"three regions", gossip.WAN, threeRegions, 5 * time.Second},
		} {
			t.Run(fmt.Sprintf("%d nodes, %s", size, tt.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t, size, tt.pace, tt.links)
					defer f.end()
					time.Sleep(time.Minute) // joining is over
					const quiet = 30
					before := f.net.Octets()
					time.Sleep(quiet * time.Second)
					idle := f.net.Octets() - before
					random := rand.New(rand.NewPCG(1, 2))
					var took []time.Duration
					rounds := 100
					if size > 5 {
						rounds = 30
					}
					before = f.net.Octets()
					for i := range rounds {
						start := time.Now()
						f.note(f.nodes[random.IntN(size)], "key", i+1, text(500))
						took = append(took, f.everywhere(start, "key", i+1))
						time.Sleep(time.Until(start.Add(5 * time.Second)))
					}
					cost := (f.net.Octets()-before)/int64(rounds) - 5*idle/quiet
					p50, p99 := quantile(took, 0.5), quantile(took, 0.99)
					t.Logf("everywhere: p50 %v, p99 %v; quiet: %d octets a node and second; one broadcast of 500 octets: %d octets a node",
						p50.Round(100*time.Microsecond), p99.Round(100*time.Microsecond), idle/quiet/int64(size), cost/int64(size))
					if p99 > tt.promise {
						t.Errorf("p99 is %v, promised are %v", p99, tt.promise)
					}
				})
			})
		}
	}
}

// 200 pieces of 1 KB and one of 4 KB at once: what does not fit a packet goes over TCP, and all nodes agree within 2 s (S04).
func TestLargeStates(t *testing.T) {
	for _, size := range sizes() {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, size, gossip.WAN, threeRegions)
				defer f.end()
				for i := range 200 {
					f.note(f.nodes[i%size], fmt.Sprint("key", i), 1, text(1024))
				}
				f.note(f.nodes[1], "large", 1, text(4096))
				took := f.within(time.Minute, "all nodes agree", f.same)
				t.Logf("all agree after %v", took)
				if limit := 2 * time.Second; size <= 50 && took > limit {
					t.Errorf("all agree after %v, promised are %v", took, limit)
				}
			})
		})
	}
}

// A fleet is cut into two for five minutes, longer than the library remembers the dead. Each side goes on; after healing all have both sides' notes within 60 s (S02, S03).
func TestCut(t *testing.T) {
	for _, size := range sizes() {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, size, gossip.WAN, threeRegions)
				defer f.end()
				side := func(i int) bool { return i < size*2/5 }
				f.net.Set(func(from, to netip.AddrPort) gossiptest.Link {
					l := threeRegions(from, to)
					l.Cut = side(number(from)) != side(number(to))
					return l
				})
				time.Sleep(2 * time.Minute)
				for i, n := range f.nodes {
					f.note(n, "of "+n.name, 1, "made apart")
					f.note(n, "of all", i+1, "version of "+n.name)
				}
				time.Sleep(3 * time.Minute)
				if n := alive(f.nodes[0].gossip); n != size*2/5 {
					t.Errorf("%d members on a side of %d", n, size*2/5)
				}
				if f.same() {
					t.Error("the two sides agree, the test cuts nothing")
				}
				f.net.Set(threeRegions)
				took := f.within(time.Minute, "all nodes agree", f.same)
				t.Logf("all agree %v after healing", took.Round(time.Millisecond))
				f.within(3*time.Minute, "all nodes know each other", func() bool {
					for _, n := range f.nodes {
						if alive(n.gossip) != size {
							return false
						}
					}
					return true
				})
			})
		})
	}
}
