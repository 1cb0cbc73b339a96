package gossip_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/edgesteer/edgesteer/pops/gossip"
	"github.com/edgesteer/edgesteer/pops/gossip/gossiptest"
)

func key(c string) []byte { return bytes.Repeat([]byte(c), 32) }

// What cannot work or is not safe is refused, with what to do (S09: plain text off loopback).
func TestRefused(t *testing.T) {
	lo, far := netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("192.0.2.1:7946")
	for _, tt := range []struct {
		name   string
		config gossip.Config
		want   string
	}{
		{"no name", gossip.Config{Listen: lo}, "node name"},
		{"no address", gossip.Config{Node: "n"}, "address"},
		{"plain text", gossip.Config{Node: "n", Listen: far}, "without a key only loopback"},
		{"plain text on all addresses", gossip.Config{Node: "n", Listen: netip.MustParseAddrPort("0.0.0.0:7946")}, "without a key only loopback"},
		{"plain text behind another address", gossip.Config{Node: "n", Listen: lo, Advertise: far}, "without a key only loopback"},
		{"short key", gossip.Config{Node: "n", Listen: far, Keys: [][]byte{key("k"), []byte("short")}}, "key 2"},
		{"much meta", gossip.Config{Node: "n", Listen: lo, Meta: make([]byte, 513)}, "513 octets"},
		{"unknown state", gossip.Config{Node: "n", Listen: lo, Same: []string{"x"}}, `no state "x"`},
		{"unknown pace", gossip.Config{Node: "n", Listen: lo, Network: "moon"}, `"moon"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, err := gossip.New(tt.config)
			if err == nil {
				g.Kill()
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestParseKeys(t *testing.T) {
	line := func(n int) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, n)) }
	for _, tt := range []struct {
		file string
		keys int
		want string
	}{
		{"# of the fleet\n" + line(32) + "\n\n" + line(16) + "\r\n" + line(24), 3, ""},
		{"", 0, "no key"},
		{"# none\n", 0, "no key"},
		{line(32) + "\nnot base64!\n", 0, "line 2: not base64"},
		{line(31), 0, "line 1: a key of 31 octets"},
	} {
		keys, err := gossip.ParseKeys([]byte(tt.file))
		if len(keys) != tt.keys || (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %d keys, %v", tt.file, len(keys), err)
		}
	}
}

// A wrong key and plain text keep a node out; keys are rotated while the fleet works.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, gossip.LAN, oneNetwork)
		defer f.end()
		for i, keys := range [][][]byte{{key("x")}, nil} {
			f.keys = keys
			stranger := f.open("stranger", addrOf(10+i), map[string]gossip.State{"notes": newNotes()})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			if err := stranger.Join(ctx); !errors.Is(err, gossip.ErrAlone) {
				t.Errorf("a node with keys %q joined: %v", keys, err)
			}
			cancel()
			stranger.Broadcast("notes", "bad", []byte(`{"bad":{"Version":1}}`))
			time.Sleep(30 * time.Second)
			if n := alive(f.nodes[0].gossip); n != 3 {
				t.Errorf("%d members", n)
			}
			stranger.Kill()
		}
		old, fresh := key("k"), key("n")
		version := 0
		for _, step := range [][][]byte{{old, fresh}, {fresh, old}, {fresh}, {fresh}} {
			for i, n := range f.nodes {
				if err := n.gossip.SetKeys(step); err != nil {
					t.Fatal(err)
				}
				version++
				start := time.Now()
				f.note(f.nodes[(i+1)%3], "key", version, "during rotation")
				if took := f.everywhere(start, "key", version); took > time.Second {
					t.Errorf("took %v with keys %d of %q", took, i, step)
				}
			}
		}
		f.keys = [][]byte{old}
		late := f.open("late", addrOf(20), map[string]gossip.State{"notes": newNotes()})
		defer late.Kill()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := late.Join(ctx); err == nil {
			t.Error("a node with the old key joined")
		}
		if err := f.nodes[0].gossip.SetKeys(nil); err == nil {
			t.Error("all keys were removed")
		}
		if err := f.nodes[0].gossip.SetKeys([][]byte{[]byte("short")}); err == nil {
			t.Error("a short key was taken")
		}
	})
}

// A node that joins has everything before Join returns, however empty its disk.
func TestJoinBringsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, gossip.WAN, threeRegions)
		defer f.end()
		for i := range 100 {
			f.note(f.nodes[i%3], fmt.Sprint("key", i), 1, text(300))
		}
		f.within(time.Minute, "all agree", f.same)
		f.nodes[2].gossip.Kill()
		time.Sleep(time.Second)
		n := f.start(2)
		want, _ := f.nodes[0].notes.MarshalBinary()
		if have, _ := n.notes.MarshalBinary(); !bytes.Equal(have, want) {
			t.Errorf("Join returned with %d octets of %d", len(have), len(want))
		}
	})
}

// Alone, a node says so in time, goes on asking with pauses that grow but have a limit (S02), and joins when somebody is there.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := gossiptest.New(1)
		network.Set(oneNetwork)
		registry := prometheus.NewRegistry()
		open := func(name string, i int, seeds ...string) *gossip.Gossip {
			c := gossip.Config{Node: name, Listen: addrOf(i), Seeds: seeds, Transport: network.Transport(addrOf(i))}
			if i == 1 {
				c.Registerer = registry
			}
			g, err := gossip.New(c)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		single := open("single", 9, addrOf(9).String())
		defer single.Kill()
		start := time.Now()
		if err := single.Join(t.Context()); err != nil || time.Since(start) > 0 {
			t.Errorf("who has no other seed than itself waited %v: %v", time.Since(start), err)
		}
		g := open("n1", 1, addrOf(1).String(), addrOf(2).String())
		defer g.Kill()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start = time.Now()
		if err := g.Join(ctx); !errors.Is(err, gossip.ErrAlone) || time.Since(start) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		failed := func() float64 {
			n, err := testutil.GatherAndCount(registry, "edgesteer_gossip_joins_total")
			if err != nil || n != 2 {
				t.Fatal(n, err)
			}
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, family := range families {
				for _, m := range family.GetMetric() {
					if family.GetName() == "edgesteer_gossip_joins_total" && m.GetLabel()[0].GetValue() == "failed" {
						return m.GetCounter().GetValue()
					}
				}
			}
			return 0
		}
		time.Sleep(2 * time.Minute)
		before := failed()
		time.Sleep(10 * time.Minute)
		if n := failed() - before; n < 16 || n > 26 {
			t.Errorf("%v attempts in 10 minutes, of which each should be 30 s after the one before, more or less a fifth", n)
		}
		other := open("n2", 2)
		defer other.Kill()
		f := &fleet{t: t}
		f.within(40*time.Second, "the two are one fleet", func() bool { return alive(g) == 2 && alive(other) == 2 })
		g.Kill()
		other.Kill()
		single.Kill()
		time.Sleep(time.Minute)
	})
}

// Who leaves has left at once; who is killed is suspect, then dead, and remembered; who comes back is alive, at another address too.
func TestMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 5, gossip.LAN, oneNetwork)
		defer f.end()
		state := func(i int) gossip.Liveness {
			for _, m := range f.nodes[0].gossip.Members() {
				if m.Name == f.nodes[i].name {
					return m.State
				}
			}
			return "unknown"
		}
		time.Sleep(10 * time.Second)
		for _, m := range f.nodes[0].gossip.Members() {
			if m.State != gossip.Alive || m.Name != "n000" && (m.RTT == 0 || m.RTT > 2*time.Millisecond || time.Since(m.LastSeen) > 10*time.Second) {
				t.Errorf("%+v", m)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := f.nodes[4].gossip.Close(ctx); err != nil {
			t.Error(err)
		}
		f.within(2*time.Second, "n004 has left", func() bool { return state(4) == gossip.Left })
		f.nodes[3].gossip.Kill()
		f.within(30*time.Second, "n003 is suspect", func() bool { return state(3) == gossip.Suspect })
		f.within(time.Minute, "n003 is dead", func() bool { return state(3) == gossip.Dead })
		time.Sleep(2 * time.Minute)
		if state(3) != gossip.Dead || state(4) != gossip.Left {
			t.Errorf("n003 is %s, n004 %s", state(3), state(4))
		}
		f.nodes[3].addr = addrOf(33)
		f.start(3)
		f.start(4)
		f.within(10*time.Second, "both are back", func() bool { return state(3) == gossip.Alive && state(4) == gossip.Alive })
	})
}

// What was broadcast just before a graceful end is not lost with the node.
func TestCloseSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, gossip.WAN, threeRegions)
		defer f.end()
		for i := range 50 {
			f.note(f.nodes[2], fmt.Sprint("key", i), 1, text(3000))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := f.nodes[2].gossip.Close(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(200 * time.Millisecond)
		for _, n := range f.nodes[:2] {
			for i := range 50 {
				if _, ok := n.notes.when(fmt.Sprint("key", i), 1); !ok {
					t.Fatalf("%s lacks key%d", n.name, i)
				}
			}
		}
	})
}

// While many join, and news of members fills the packets, a broadcast is not held up (S05).
func TestBroadcastWhileManyJoin(t *testing.T) {
	if testing.Short() {
		t.Skip("a large fleet")
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 5, gossip.LAN, oneNetwork)
		defer f.end()
		first := f.nodes
		for i := 5; i < 105; i++ {
			n := &node{name: fmt.Sprintf("n%03d", i), addr: addrOf(i)}
			f.nodes = append(f.nodes, n)
			go f.start(i)
		}
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		f.note(f.nodes[0], "drain", 1, text(500))
		all := f.nodes
		f.nodes = first
		if took := f.everywhere(start, "drain", 1); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		f.nodes = all
		f.within(time.Minute, "all have it", func() bool {
			for _, n := range f.nodes {
				if n.notes == nil {
					return false
				}
				if _, ok := n.notes.when("drain", 1); !ok {
					return false
				}
			}
			return true
		})
	})
}

// A thousand changes of one key at once are one message to each, with the last of them.
func TestLaterReplacesEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, gossip.LAN, oneNetwork)
		defer f.end()
		before := f.net.Octets()
		start := time.Now()
		for v := range 1000 {
			f.note(f.nodes[0], "key", v+1, text(2000))
		}
		f.everywhere(start, "key", 1000)
		if sent := f.net.Octets() - before; sent > 200_000 {
			t.Errorf("%d octets for 1000 changes of one key of 2 KB", sent)
		}
		f.nodes[0].gossip.Send(f.nodes[1].name, "notes", "one", []byte(`{"one":{"Version":1}}`))
		f.nodes[0].gossip.Send("nobody", "notes", "one", []byte(`{"one":{"Version":2}}`))
		f.nodes[0].gossip.Tell("notes", "some", []byte(`{"some":{"Version":1}}`))
		f.nodes[0].gossip.Tell("nothing", "some", []byte(`{"some":{"Version":1}}`))
		time.Sleep(10 * time.Millisecond)
		for i, want := range []bool{false, true, false} {
			if _, ok := f.nodes[i].notes.when("one", 1); ok != want {
				t.Errorf("node %d was sent it: %v", i, ok)
			}
			if _, ok := f.nodes[i].notes.when("some", 1); ok != (i > 0) {
				t.Errorf("node %d was told it: %v", i, ok)
			}
		}
	})
}
