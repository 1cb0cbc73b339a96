package app

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/pops/gossip"
	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
)

// fleet is the other nodes: what is exchanged with them, and what is known of them. A node without [cluster] has none.
type fleet struct {
	app     *App
	gossip  *gossip.Gossip
	beacons *beacons
	mixes   *mixes
	probes  *probes
	kick    chan struct{} // the beacon has news
	begun   atomic.Bool   // fleet time has begun
}

// States that are exchanged.
const (
	ledgerState = "ledger"
	healthState = "health"
	loadState   = "loads"
	beaconState = "beacons"
	mixState    = "mix"
)

const (
	beaconEvery = time.Second
	beaconLeast = 50 * time.Millisecond // between two beacons, however much happens
	// clockStep is the least change of the median offset that moves fleet time: networks are not more even than that.
	clockStep = 50 * time.Millisecond
	// clockWait is how long a starting node waits to hear the time of day of all others.
	clockWait = 2 * time.Second
)

// broadcast hands pieces of a state to the fleet, once there is one.
func (a *App) broadcast(state string) func(key string, data []byte) {
	return func(key string, data []byte) {
		if f := a.fleet.Load(); f != nil {
			f.gossip.Broadcast(state, key, data)
		}
	}
}

// openFleet joins the other nodes, bounded in time, and takes over what they know before the first answer (design: start order).
func (a *App) openFleet(ctx context.Context) error {
	cfg := a.parts.cfg
	c := cfg.Cluster
	if c == nil {
		return nil
	}
	keys, bad := clusterKeys(cfg)
	if bad != nil {
		return config.Problems(bad)
	}
	f := &fleet{app: a, kick: make(chan struct{}, 1)}
	f.beacons = newBeacons(beacon{Node: cfg.Server.Node, PoP: cfg.Server.PoP, Version: a.opts.Version, Started: a.started}, a.opts.Wall)
	f.beacons.rtt, f.beacons.ask = f.rtt, f.answer
	f.probes = newProbes(cfg.Server.Node, a.probeHere, f.sendProbe)
	f.mixes = newMixes(cfg.Server.Node, a.asks)
	f.look()
	gc := gossip.Config{
		Node: cfg.Server.Node, Listen: c.Listen, Seeds: c.Seeds, Keys: keys,
		Network: gossip.Pace(c.Network), Sync: c.Sync, Rejoin: c.Rejoin,
		States: map[string]gossip.State{ledgerState: a.ledger, healthState: a.health, loadState: a.loads, beaconState: f.beacons, mixState: f.mixes, probesState: f.probes},
		Same:   []string{ledgerState},
		Log:    a.log, Registerer: a.control,
	}
	if c.Advertise != nil {
		gc.Advertise = *c.Advertise
	}
	if a.opts.Gossip != nil {
		a.opts.Gossip(&gc)
	}
	var err error
	if f.gossip, err = gossip.New(gc); err != nil {
		return err
	}
	a.fleet.Store(f)
	a.atEnd(state, func(context.Context) {
		a.fleet.Store(nil)
		ctx, cancel := context.WithTimeout(context.Background(), c.Leave)
		defer cancel()
		leave := f.gossip.Close
		if a.door.giving() {
			leave = f.gossip.Release
		}
		if err := leave(ctx); err != nil {
			a.log.Warn("leaving the fleet", "err", err)
		}
	})
	a.background(state, f.run)
	f.join(ctx, c)
	return a.obey()
}

// clusterKeys reads the key file; without one there are none.
func clusterKeys(cfg *config.Config) ([][]byte, []config.Problem) {
	if cfg.Cluster.KeyFile == "" {
		return nil, nil
	}
	path := cfg.Path(cfg.Cluster.KeyFile)
	data, err := os.ReadFile(path)
	hint := "make one with: openssl rand -base64 32 > cluster.key"
	if err == nil {
		var keys [][]byte
		if keys, err = gossip.ParseKeys(data); err == nil {
			return keys, nil
		}
		err, hint = fmt.Errorf("%s: %w", path, err), "" // it has its own
	}
	return nil, []config.Problem{cfg.Problem(err.Error(), hint, "cluster", "key_file")}
}

// reloadKeys takes over the key file as it is now.
func (a *App) reloadKeys(cfg *config.Config) []config.Problem {
	f := a.fleet.Load()
	if f == nil || cfg.Cluster == nil || cfg.Cluster.KeyFile == "" {
		return nil
	}
	keys, bad := clusterKeys(cfg)
	if bad == nil {
		if err := f.gossip.SetKeys(keys); err != nil {
			bad = []config.Problem{cfg.Problem(err.Error(), "", "cluster", "key_file")}
		}
	}
	for i := range bad {
		bad[i].Hint = "the old keys stay in use"
	}
	return bad
}

// join joins the fleet, and says loudly if nobody is there.
func (f *fleet) join(ctx context.Context, c *config.Cluster) {
	a := f.app
	ctx, cancel := context.WithTimeout(ctx, c.Join)
	defer cancel()
	start := time.Now()
	err := f.gossip.Join(ctx)
	empty := slices.ContainsFunc(a.ledger.Problems(), func(p drain.Problem) bool { return p.Kind == drain.NoState })
	switch {
	case err != nil && empty:
		a.log.Error("no drain state: there is none on disk and no peer was reached; serving as if nothing were drained", "waited", time.Since(start), "err", err)
	case err != nil:
		a.log.Warn("alone: serving the last known state", "waited", time.Since(start), "err", err)
	default:
		a.log.Info("joined the fleet", "took", time.Since(start), "statements", len(a.ledger.Statements()))
	}
	f.beginClock(ctx)
}

// beginClock sets fleet time by the others' clocks before anything rests on it, all of them if they answer: the first might be wrong by as much as this node's.
func (f *fleet) beginClock(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, clockWait)
	defer cancel()
	defer f.begun.Store(true)
	for {
		offset, peers := f.beacons.offset()
		others := f.reachable()
		if peers >= len(others) || ctx.Err() != nil {
			f.app.clock.Begin(offset)
			return
		}
		for _, name := range others {
			f.gossip.Send(name, beaconState, "ask", f.beacons.asking())
		}
		select {
		case <-ctx.Done():
		case <-time.After(4 * beaconLeast):
		}
	}
}

// run says this node's beacon once a second and at every change, and keeps fleet time.
func (f *fleet) run(ctx context.Context) {
	tick := time.NewTicker(beaconEvery)
	defer tick.Stop()
	first, told := true, time.Now()
	for {
		if f.look() || first {
			f.gossip.Broadcast(beaconState, f.beacons.own.Node+" with zones", f.beacons.say(true))
		}
		first = false
		f.gossip.Tell(beaconState, f.beacons.own.Node, f.beacons.say(false))
		if time.Since(told) >= mixEvery {
			told = time.Now()
			f.gossip.Tell(mixState, f.mixes.node, f.mixes.say())
		}
		if now, _ := f.app.clock.Offset(); f.begun.Load() {
			if offset, _ := f.beacons.offset(); (offset - now).Abs() >= clockStep {
				f.app.clock.SetOffset(offset)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(beaconLeast):
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-f.kick:
		}
	}
}

// look brings the beacon up to date with what is served; true if that is news.
func (f *fleet) look() bool {
	serials := map[string]uint32{}
	parts := f.app.present()
	h := fnv.New64a()
	for z := range parts.zones.Zones() {
		serials[z.String()] = z.Serial()
	}
	for _, name := range slices.Sorted(maps.Keys(serials)) {
		fmt.Fprint(h, name, serials[name])
	}
	return f.beacons.serves(parts.cfg.Hash(), strconv.FormatUint(h.Sum64(), 16), serials)
}

// answer sends the own beacon to a node that wants it.
func (f *fleet) answer(node string) {
	if f.app.fleet.Load() == nil { // it is being opened
		return
	}
	f.gossip.Send(node, beaconState, f.beacons.own.Node, f.beacons.say(false))
}

// sendProbe sends a wish for a check, or what came of one.
func (f *fleet) sendProbe(node, key string, data []byte) {
	if f.app.fleet.Load() != nil { // else it is being opened
		f.gossip.Send(node, probesState, key, data)
	}
}

// rtt is the time of the way to a node and back; 0: unknown.
func (f *fleet) rtt(node string) time.Duration {
	if f.app.fleet.Load() == nil {
		return 0
	}
	for _, m := range f.gossip.Members() {
		if m.Name == node {
			return m.RTT
		}
	}
	return 0
}

// ledgerDigest is the same for ledgers that say the same.
func ledgerDigest(entries []*drain.Entry) string {
	h := fnv.New64a()
	var b []byte
	stamp := func(s drain.Stamp) {
		b = binary.BigEndian.AppendUint64(b, uint64(s.Wall))
		b = binary.BigEndian.AppendUint32(b, s.Count)
		b = append(b, s.Node...)
	}
	for _, e := range entries {
		b = append(b[:0], e.ID...)
		stamp(e.Stamp)
		if e.Lift != nil {
			stamp(e.Lift.Stamp)
		}
		h.Write(b)
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// obeys takes note that the answers obey what the ledger said a moment ago, and tells the others.
func (a *App) obeys(entries []*drain.Entry) {
	f := a.fleet.Load()
	if f == nil || !f.beacons.obeys(ledgerDigest(entries), len(entries)) {
		return
	}
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// reachable are the other nodes that are there, by name.
func (f *fleet) reachable() (names []string) {
	for _, m := range f.gossip.Members() {
		if m.Name != f.beacons.own.Node && (m.State == gossip.Alive || m.State == gossip.Suspect) {
			names = append(names, m.Name)
		}
	}
	return names
}

// wait tells which nodes obey the present ledger, when all within reach do or ctx ends.
func (a *App) wait(ctx context.Context) []api.Applied {
	own := api.Applied{Node: a.present().cfg.Server.Node, Applied: true, Time: a.now()}
	f := a.fleet.Load()
	if f == nil {
		return []api.Applied{own}
	}
	a.obeys(a.ledger.Statements()) // the answers do: whoever changes the ledger rebuilds before it waits
	wanted := map[string]bool{}
	asked := time.Time{}
	done := map[string]api.Applied{own.Node: own}
	for {
		self, others, changed := f.beacons.all()
		wanted[self.Ledgers[0]] = true // and what follows it, which has everything too
		missing := 0
		reachable := f.reachable()
		for _, name := range reachable {
			p := others[name]
			switch n := done[name]; {
			case n.Applied:
			case slices.ContainsFunc(p.Ledgers, func(d string) bool { return wanted[d] }):
				done[name] = api.Applied{Node: name, Applied: true, Time: a.now()}
			default:
				missing++
				done[name] = api.Applied{Node: name, Error: "it has not said that it obeys; last heard of " + ago(p.heard)}
			}
		}
		if missing == 0 || ctx.Err() != nil {
			out := make([]api.Applied, 0, len(done))
			for _, name := range slices.Sorted(maps.Keys(done)) {
				if n := done[name]; n.Applied || slices.Contains(reachable, name) {
					out = append(out, n)
				}
			}
			return out
		}
		if time.Since(asked) >= beaconEvery {
			asked = time.Now()
			for _, name := range reachable {
				if !done[name].Applied {
					f.gossip.Send(name, beaconState, "ask", f.beacons.asking())
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(beaconEvery):
		}
	}
}

func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return time.Since(t).Round(100*time.Millisecond).String() + " ago"
}

// peers is what is known of all nodes, this one included.
func (a *App) peers() []api.Peer {
	cfg := a.present().cfg
	f := a.fleet.Load()
	if f == nil {
		return []api.Peer{{
			Name: cfg.Server.Node, State: string(gossip.Alive), Self: true, PoP: cfg.Server.PoP, Version: a.opts.Version, Config: cfg.Hash(), Started: a.started,
			Statements: len(a.ledger.Statements()), Since: a.started, LastSeen: a.now(),
		}}
	}
	own, others, _ := f.beacons.all()
	out := []api.Peer{}
	for _, m := range f.gossip.Members() {
		p := api.Peer{Name: m.Name, Address: m.Addr, State: string(m.State), Since: m.Since, LastSeen: m.LastSeen, RTT: api.Duration(m.RTT)}
		b, known := own, true
		if m.Name == own.Node {
			p.Self, p.LastSeen = true, time.Now()
		} else {
			var other peer
			other, known = others[m.Name]
			b = other.beacon
			if other.heard.After(p.LastSeen) {
				p.LastSeen = other.heard
			}
			if known && !other.behind.IsZero() {
				p.Behind, p.Lag = true, api.Duration(time.Since(other.behind))
			}
			if !other.measured.IsZero() {
				p.Clock = other.offset.Seconds()
			}
		}
		if known {
			p.PoP, p.Version, p.Config, p.Started = b.PoP, b.Version, b.Config, b.Started
			p.ConfigDiffers, p.ZonesDiffer = b.Config != own.Config, b.Zones != own.Zones
			p.Statements, p.Serials = b.Statements, b.Serials
			if len(b.Ledgers) > 0 {
				p.Ledger = b.Ledgers[0]
			}
		}
		out = append(out, p)
	}
	return out
}
