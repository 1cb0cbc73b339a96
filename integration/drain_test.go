package integration

import (
	"context"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/api"
)

// fleet is a configuration of four PoPs, two services and three steered names, for the tests of drains. All clients go to "home" as long as they may: it is the first in
// every order, because priority sorts before anything else.
const fleet = `
[server]
node   = "n1"
listen = ["LISTEN"]
[server.rrl]
enabled = false

[[pop]]
name = "home"
country = "US"
latitude = 38.9
longitude = -77.4
[[pop]]
name = "east"
country = "DE"
latitude = 50.1
longitude = 8.7
[[pop]]
name = "south"
country = "BR"
latitude = -23.5
longitude = -46.6
[[pop]]
name = "asia"
country = "SG"
latitude = 1.3
longitude = 103.8

[[service]]
name = "wss"
[service.at.home]
addresses = ["192.0.2.1"]
meta = { priority = 1 }
[service.at.east]
addresses = ["192.0.2.2"]
meta = { priority = 2 }
[service.at.south]
addresses = ["192.0.2.3"]
meta = { priority = 2 }
[service.at.asia]
addresses = ["192.0.2.4"]
meta = { priority = 2 }

[[service]]
name = "edge"
[service.at.home]
addresses = ["198.51.100.1"]
meta = { priority = 1 }
[service.at.east]
addresses = ["198.51.100.2"]
meta = { priority = 2 }

[[zone]]
name = "example.com"
file = "zone"

[[zone.record]]
name = "home"
service = "wss"
ttl = 30
filters = ["up", "geotarget_country", "priority", { filter = "select_first_n", N = 1 }]

[[zone.record]]
name = "edge"
service = "edge"
ttl = 30
filters = ["up", "priority", { filter = "select_first_n", N = 1 }]

[[zone.record]]
name = "primary"
service = "wss"
ttl = 30
filters = ["up", "shed_load", "geotarget_country", { filter = "select_first_n", N = 1 }]

[[zone.record]]
name = "backup"
service = "wss"
ttl = 30
filters = ["up", "shed_load", { filter = "avoid_record", record = "primary" }, "geotarget_country", { filter = "select_first_n", N = 3 }, "shuffle", { filter = "select_first_n", N = 1 }]
`

const fleetZone = `$ORIGIN example.com.
$TTL 300
@ SOA ns1 hostmaster 1 3600 600 86400 60
@ NS ns1
ns1 A 127.0.0.1
`

func startFleet(t testing.TB) *node {
	t.Helper()
	return prepare(t, fleet, map[string]string{"zone": fleetZone}).start()
}

func (n *node) drain(target string, by float64) *api.Change {
	n.t.Helper()
	c, err := n.api.Drain(background(), api.DrainRequest{Target: target, By: &by, Order: api.Order{Reason: "test", Override: []string{"half", "last", "capacity"}}})
	if err != nil {
		n.t.Fatalf("drain %s by %v: %v", target, by, err)
	}
	return c
}

func (n *node) restore(target string) *api.Change {
	n.t.Helper()
	c, err := n.api.Restore(background(), api.RestoreRequest{Target: target, Order: api.Order{Reason: "test"}})
	if err != nil {
		n.t.Fatalf("restore %s: %v", target, err)
	}
	return c
}

// left gives for each network whether it has left the PoP with this address.
func left(answers []string, address string) []bool {
	out := make([]bool, len(answers))
	for i, a := range answers {
		out[i] = a != address
	}
	return out
}

func share(gone []bool) float64 {
	n := 0
	for _, g := range gone {
		if g {
			n++
		}
	}
	return 100 * float64(n) / float64(len(gone))
}

// A drain takes the share of networks that it names, exactly as a set: 38 % takes those of 37 % and one more in a hundred, for every record and service of the PoP, and after a
// restart the same.
func TestDrainShares(t *testing.T) {
	count := 100_000
	if testing.Short() {
		count = 20_000
	}
	clients := networks(count)
	n := startFleet(t)
	gone := func() []bool { return left(n.crowd("home.example.com", clients), "192.0.2.1") }

	if s := share(gone()); s != 0 {
		t.Fatalf("without a drain %.3f %% have left", s)
	}
	n.drain("home", 37)
	at37 := gone()
	if s := share(at37); math.Abs(s-37) > 0.5 {
		t.Errorf("37 %% drains %.3f %%", s)
	}
	if edge := left(n.crowd("edge.example.com", clients), "198.51.100.1"); !slices.Equal(edge, at37) {
		t.Error("another service of the PoP sees other networks leave")
	}
	n.drain("home", 38)
	at38 := gone()
	moved := 0
	for i := range at38 {
		if at37[i] && !at38[i] {
			t.Fatalf("%s has come back at 38 %%", clients[i])
		}
		if at38[i] && !at37[i] {
			moved++
		}
	}
	if s := 100 * float64(moved) / float64(count); math.Abs(s-1) > 0.1*math.Sqrt(100_000/float64(count)) {
		t.Errorf("37 -> 38 %% moves %.3f %%", s)
	}
	n.drain("home", 37)
	if !slices.Equal(gone(), at37) {
		t.Error("--by 37% after --by 38% does not give 37 % again")
	}
	n.kill()
	n.start()
	if !slices.Equal(gone(), at37) {
		t.Error("after kill -9 and a start other networks have left")
	}
	n.drain("home", 100)
	if s := share(gone()); s != 100 {
		t.Errorf("100 %% drains %.3f %%", s)
	}
	n.restore("home")
	if s := share(gone()); s != 0 {
		t.Errorf("restored, %.3f %% are gone", s)
	}
	n.stop()
}

// Draining one PoP by 1 % costs the resolvers of clients whose first choice is another nothing: their scope stays as wide as it was.
func TestSmallDrainLeavesScopes(t *testing.T) {
	n := startFleet(t)
	clients := networks(2000)
	type answer struct {
		address string
		scope   int
	}
	all := func() []answer {
		out := make([]answer, len(clients))
		for i, c := range clients {
			r := n.ask("primary.example.com", dns.TypeA, c.String())
			out[i] = answer{addresses(r)[0], scope(r)}
		}
		return out
	}
	before := all()
	n.drain("south", 1)
	touched := 0
	for i, a := range all() {
		if before[i].address == "192.0.2.3" {
			if a.scope < 24 {
				t.Errorf("%s: a draw decided, yet the scope is /%d", clients[i], a.scope)
			}
			touched++
			continue
		}
		if a != before[i] {
			t.Errorf("%s: %v before, %v with another PoP drained by 1 %%", clients[i], before[i], a)
		}
	}
	if touched == 0 {
		t.Error("no client of the drained PoP was asked for: the test shows nothing")
	}
}

// A backup name never gives the primary's PoP while two candidates remain, under every mix of drains.
func TestBackupAvoidsPrimary(t *testing.T) {
	n := startFleet(t)
	clients := networks(400)
	for _, drains := range []map[string]float64{
		{}, {"home": 50}, {"home": 100}, {"home": 100, "east": 30}, {"home": 37, "east": 100, "south": 50}, {"asia/wss": 100, "home": 99}, {"*/wss": 50},
	} {
		for target, by := range drains {
			n.drain(target, by)
		}
		primary, backup := n.crowd("primary.example.com", clients), n.crowd("backup.example.com", clients)
		for i := range clients {
			if primary[i] == backup[i] && n.available(clients[i]) >= 2 {
				t.Errorf("%v: %s gets %s from both names", drains, clients[i], primary[i])
			}
		}
		for target := range drains {
			n.restore(target)
		}
	}
}

// available asks explain how many candidates pass up and shed_load for a client.
func (n *node) available(client netip.Prefix) int {
	e, err := n.api.Explain(background(), api.ExplainQuery{Name: "primary.example.com", Type: "A", Client: client.String()})
	if err != nil {
		n.t.Fatal(err)
	}
	return len(e.Links[0].Steps[1].After)
}

// Every answer after a command's return obeys it, and while a thousand random commands are given no client sees an error, an empty answer or none.
func TestCommandsUnderLoad(t *testing.T) {
	commands, rate := 1000, 20_000
	if testing.Short() || raceEnabled {
		commands, rate = 150, 2_000
	}
	n := startFleet(t)
	clients := networks(5000)
	stop := make(chan struct{})
	var asked, bad, unanswered atomic.Int64
	var wg sync.WaitGroup
	const senders = 4
	for s := range senders {
		wg.Go(func() {
			conn, err := dns.Dial("udp", n.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for i := s; ; {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				for range max(1, rate/senders/1000) {
					i += senders
					asked.Add(1)
					r, err := exchange(conn, question("primary.example.com", dns.TypeA, clients[i%len(clients)].String()))
					switch {
					case err != nil:
						unanswered.Add(1)
					case r.Rcode != dns.RcodeSuccess || len(r.Answer) == 0:
						bad.Add(1)
					}
				}
			}
		})
	}
	address := map[string]string{"home": "192.0.2.1", "east": "192.0.2.2", "south": "192.0.2.3", "asia": "192.0.2.4"}
	rnd := rand.New(rand.NewPCG(1, 1))
	pops := []string{"home", "east", "south", "asia"}
	drained := map[string]bool{}
	for range commands {
		pop := pops[rnd.IntN(len(pops))]
		switch rnd.IntN(4) {
		case 0:
			n.drain(pop, float64(1+rnd.IntN(100)))
			drained[pop] = true
		case 1:
			if !drained[pop] {
				continue
			}
			n.restore(pop)
			delete(drained, pop)
		case 2: // a ramp
			by := float64(1 + rnd.IntN(100))
			_, err := n.api.Drain(background(), api.DrainRequest{Target: pop, By: &by, Over: api.Duration(time.Second), Order: api.Order{Reason: "ramp", Override: []string{"half", "last"}}})
			if err != nil {
				t.Fatal(err)
			}
			drained[pop] = true
		case 3: // whole, and looked at: the command has returned, so nobody is sent there any more while others remain
			if len(drained) > 1 || len(drained) == 1 && !drained[pop] {
				continue
			}
			n.drain(pop, 100)
			drained[pop] = true
			for range 20 {
				r := n.ask("primary.example.com", dns.TypeA, clients[rnd.IntN(len(clients))].String())
				if slices.Contains(addresses(r), address[pop]) {
					t.Errorf("%s was drained, and the command had returned: %v", pop, r.Answer)
				}
			}
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%d queries during %d commands", asked.Load(), commands)
	if bad.Load() > 0 || unanswered.Load() > 0 {
		t.Errorf("of %d queries %d were answered with an error or nothing, %d not at all", asked.Load(), bad.Load(), unanswered.Load())
	}
}

// A shift sends the networks that leave one PoP to another, and no other.
func TestShift(t *testing.T) {
	n := startFleet(t)
	clients := networks(3000)
	by := 40.0
	if _, err := n.api.Shift(background(), api.ShiftRequest{From: "home", To: "asia", By: &by, Order: api.Order{Reason: "test"}}); err != nil {
		t.Fatal(err)
	}
	gone := 0
	for i, a := range n.crowd("home.example.com", clients) {
		switch a {
		case "192.0.2.1":
		case "192.0.2.4":
			gone++
		default:
			t.Fatalf("%s was sent to %s", clients[i], a)
		}
	}
	if s := 100 * float64(gone) / float64(len(clients)); math.Abs(s-40) > 3 {
		t.Errorf("a shift of 40 %% moves %.1f %%", s)
	}
	for _, bad := range [][2]string{{"asia", "home"}, {"asia", "east"}} {
		_, err := n.api.Shift(background(), api.ShiftRequest{From: bad[0], To: bad[1], Order: api.Order{Reason: "test"}})
		if err == nil {
			t.Errorf("shift %s -> %s closes a chain or a loop and was accepted", bad[0], bad[1])
		}
	}
}

// kill -9 in the middle of applies: every statement whose acceptance was told is there after a restart, and the history knows it.
func TestKill(t *testing.T) {
	rounds, applies := 10, 20
	if testing.Short() {
		rounds = 4
	}
	n := startFleet(t)
	accepted := map[string]int{} // the highest version that was confirmed
	confirmed := 0
	rnd := rand.New(rand.NewPCG(3, 3))
	for range rounds {
		after := 1 + rnd.IntN(applies-1)
		killed := make(chan struct{})
		kill := sync.OnceFunc(func() {
			go func() {
				n.kill()
				close(killed)
			}()
		})
		for i := range applies {
			if i == after {
				kill()
			}
			ctx, cancel := context.WithTimeout(background(), patience)
			by := float64(1 + rnd.IntN(30))
			c, err := n.api.Drain(ctx, api.DrainRequest{Target: []string{"home", "east", "south", "asia/wss", "east/edge"}[i%5], By: &by, Order: api.Order{Reason: "test"}})
			cancel()
			if err != nil {
				break
			}
			confirmed++
			for _, s := range c.Statements {
				accepted[s.ID] = max(accepted[s.ID], s.Version)
			}
		}
		kill()
		<-killed
		n.start()
	}
	history, err := n.api.History(background(), api.HistoryQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, h := range history.Entries {
		if h.Statement != "" {
			known[h.Statement] = true
		}
	}
	all, err := n.api.Statements(background(), true)
	if err != nil {
		t.Fatal(err)
	}
	newest := map[string]int{}
	for _, s := range all.Statements {
		newest[s.ID] = s.Version
	}
	for id, version := range accepted {
		if newest[id] < version {
			t.Errorf("statement %s was confirmed in version %d and is there in version %d", id, version, newest[id])
		}
		if !known[id] {
			t.Errorf("statement %s is not in the history", id)
		}
	}
	if confirmed < rounds {
		t.Errorf("only %d statements were confirmed: the test shows little", confirmed)
	}
	t.Logf("%d statements confirmed, %d kills", confirmed, rounds)
}
