package app

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
)

const fleetConfig = `
[server]
node = "NAME"
listen = ["127.0.0.1:0"]
[admin]
listen = ["unix:admin.sock"]
[cluster]
listen = "HOST:7946"
network = "local"
seeds = [SEEDS]
join_timeout = "5s"

[[pop]]
name = "home"
[[pop]]
name = "away"
[[service]]
name = "wss"
[service.at.home]
addresses = ["192.0.2.1"]
[service.at.away]
addresses = ["192.0.2.2"]
[[zone]]
name = "example.com"
file = "zone"
[[zone.record]]
name = "wss"
service = "wss"
filters = ["up"]
`

// startSkewed starts a fleet in this process, at the same moment, of nodes whose clocks are off.
func startSkewed(t *testing.T, skews []time.Duration) []*App {
	t.Helper()
	var hosts, seeds []string
	for i := range skews {
		hosts = append(hosts, fmt.Sprintf("127.%d.%d.%d", 200+os.Getpid()%50, os.Getpid()/50%250, 10+i))
		seeds = append(seeds, fmt.Sprintf("%q", hosts[i]+":7946"))
	}
	apps := make([]*App, len(skews))
	errs := make(chan error, len(skews))
	for i, skew := range skews {
		dir := t.TempDir()
		text := strings.NewReplacer("NAME", fmt.Sprintf("n%d", i), "HOST", hosts[i], "SEEDS", strings.Join(seeds, ", ")).Replace(fleetConfig)
		for name, content := range map[string]string{"edgesteer.toml": text, "zone": "$ORIGIN example.com.\n$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 60\n@ NS ns1\nns1 A 127.0.0.1\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg, problems := config.Load(filepath.Join(dir, "edgesteer.toml"))
		if config.Failed(problems) {
			t.Fatal(problems)
		}
		a, err := New(cfg, Options{Log: slog.New(slog.DiscardHandler), Version: "test", Wall: func() time.Time { return time.Now().Add(skew) }})
		if err != nil {
			t.Fatal(err)
		}
		apps[i] = a
		go func() { errs <- a.Start(t.Context()) }()
	}
	for range apps {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, a := range apps {
			_ = a.Stop(t.Context()) // its context is over: at once
		}
	})
	return apps
}

// share is what home gets, as a node's answers have it.
func share(a *App) float64 {
	v := a.publisher.Snapshot().View
	return float64(v.States[v.Fleet.PoPUnit(v.Fleet.FindPoP("home"))].Share)
}

func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// Clocks are an hour apart. Fleet time is the same on all nodes; a ramp gives the same shares at any moment; a lift made by a clock that is behind ends what one that is ahead said (S07).
func TestSkewedClocks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	apps := startSkewed(t, []time.Duration{0, time.Hour, -time.Hour, 2 * time.Second, 0})
	soon(t, "fleet time is the same", func() bool {
		return !slices.ContainsFunc(apps, func(a *App) bool { return time.Until(a.now()).Abs() > 500*time.Millisecond })
	})
	target, err := pops.ParseTarget("home")
	if err != nil {
		t.Fatal(err)
	}
	request := drain.Request{Kind: pops.Drain, Target: target, By: 100, Author: "test", Role: pops.Person, Reason: "test", Override: []string{"half", "last", "capacity"}}
	ramp := request
	ramp.Over = drain.Way{Over: 2 * time.Minute}
	if _, err := apps[1].ledger.Apply(ramp); err != nil {
		t.Fatal(err)
	}
	soon(t, "all nodes are on the ramp", func() bool {
		return !slices.ContainsFunc(apps, func(a *App) bool { return share(a) == 100 })
	})
	for range 40 {
		var shares []float64
		for _, a := range apps {
			shares = append(shares, share(a))
		}
		// A second of this ramp is 0.8 %, and an hour all of it: a node may be late for a few seconds.
		if slices.Max(shares)-slices.Min(shares) > 8 {
			t.Errorf("shares %v", shares)
		}
		<-time.After(50 * time.Millisecond)
	}
	if _, err := apps[2].ledger.Lift(drain.LiftRequest{Target: target, Author: "test", Role: pops.Person, Reason: "test", Now: true}); err != nil {
		t.Fatal(err)
	}
	soon(t, "all nodes have lifted it", func() bool {
		return !slices.ContainsFunc(apps, func(a *App) bool { return share(a) != 100 })
	})
	soon(t, "the clocks of the others are known", func() bool {
		return !slices.ContainsFunc(apps[0].peers(), func(p api.Peer) bool {
			return math.Abs(p.Clock-map[string]float64{"n1": 3600, "n2": -3600, "n3": 2}[p.Name]) > 1.5
		})
	})
}

// What a beacon of an earlier life, an old one, one of itself and a broken one do.
func TestBeacons(t *testing.T) {
	now := time.Now()
	b := newBeacons(beacon{Node: "a"}, func() time.Time { return now })
	say := func(m beaconMessage) {
		t.Helper()
		if err := b.Merge(mustJSON(m)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Merge([]byte("{")); err == nil {
		t.Error("half a message was taken")
	}
	b.obeys("x", 1)
	say(beaconMessage{From: "b", Wall: now.Add(time.Hour), Beacons: []aged{
		{beacon: beacon{Node: "b", Seq: 5, Ledgers: []string{"x"}, Zones: "z", Serials: map[string]uint32{"example.": 1}}},
		{beacon: beacon{Node: "a", Seq: 7}},
		{beacon: beacon{Node: "c", Seq: 1, Ledgers: []string{"y"}}, Age: time.Hour.Milliseconds()},
		{beacon: beacon{Node: "old", Seq: 1}, Age: (25 * time.Hour).Milliseconds()},
	}})
	if b.say(false); b.own.Seq != 8 {
		t.Errorf("after a beacon of its earlier life the number is %d", b.own.Seq)
	}
	say(beaconMessage{From: "b", Beacons: []aged{{beacon: beacon{Node: "b", Seq: 4, Version: "older"}}, {beacon: beacon{Node: "b", Seq: 6, Zones: "z", Ledgers: []string{"x"}}}}})
	_, others, changed := b.all()
	if len(others) != 2 || others["b"].Seq != 6 || others["b"].Version != "" || others["b"].Serials["example."] != 1 || !others["b"].behind.IsZero() || others["c"].behind.IsZero() {
		t.Errorf("%+v", others)
	}
	if median, peers := b.offset(); median != 0 || peers != 1 {
		t.Errorf("the lower of two is %v, of %d peers", median, peers)
	}
	if !b.obeys("y", 2) || b.obeys("y", 2) {
		t.Error("news is not news")
	}
	select {
	case <-changed:
	default:
		t.Error("nobody was told")
	}
	if _, others, _ = b.all(); others["b"].behind.IsZero() || !others["c"].behind.IsZero() {
		t.Errorf("%+v", others)
	}
}
