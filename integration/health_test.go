package integration

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/api"
)

// wssPort is where the websocket servers of the tests listen, each on an address of its own.
const wssPort = 8443

// wss is a websocket server of a PoP.
type wss struct {
	addr    netip.Addr
	refuse  atomic.Bool  // upgrades
	refused atomic.Int64 // requests
	oneIn   atomic.Int64 // every such request is refused; 0: none
	n       atomic.Int64 // requests
	greeted atomic.Int64 // those that were upgraded
}

func (w *wss) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	n := w.n.Add(1)
	if k := w.oneIn.Load(); w.refuse.Load() || k > 0 && n%k == 0 {
		w.refused.Add(1)
		rw.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	c, err := websocket.Accept(rw, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	w.greeted.Add(1)
	c.Read(r.Context()) // answers pings until the other side closes
}

func startWSS(t *testing.T) *wss {
	t.Helper()
	w := &wss{addr: loopback()}
	l, err := net.Listen("tcp", netip.AddrPortFrom(w.addr, wssPort).String())
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: w}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return w
}

// startChecked runs a server with four PoPs, home nearest to everybody, whose websocket servers are checked once a second.
func startChecked(t *testing.T) (*node, []*wss) {
	t.Helper()
	return startCheckedWith(t, "enabled = false")
}

func startCheckedWith(t *testing.T, automation string) (*node, []*wss) {
	t.Helper()
	servers := []*wss{startWSS(t), startWSS(t), startWSS(t), startWSS(t)}
	var b strings.Builder
	b.WriteString("[server]\nnode = \"n1\"\nlisten = [\"LISTEN\"]\n[server.rrl]\nenabled = false\n[automation]\n" + automation + "\n")
	for i, pop := range checkedPoPs() {
		fmt.Fprintf(&b, "[[pop]]\nname = %q\nlatitude = %d.0\nlongitude = 0.0\n", pop, 10+20*i)
	}
	fmt.Fprintf(&b, "[[service]]\nname = \"envoy-wss\"\n[service.check]\nkind = \"websocket\"\nport = %d\ninterval = \"1s\"\ntimeout = \"1s\"\n", wssPort)
	for i, pop := range checkedPoPs() {
		fmt.Fprintf(&b, "[service.at.%s]\naddresses = [%q]\nmeta = { priority = %d }\n", pop, servers[i].addr, i+1)
	}
	b.WriteString(`
[[zone]]
name = "example.com"
file = "zone"
[[zone.record]]
name = "wss-primary"
service = "envoy-wss"
ttl = 30
ttl_min = 5
filters = ["up", "priority", { filter = "select_first_n", N = 1 }]
[[zone.record]]
name = "wss-backup"
service = "envoy-wss"
ttl = 30
filters = ["up", "priority", { filter = "select_first_n", N = 3 }, "shuffle", { filter = "select_first_n", N = 1 }]
`)
	return prepare(t, b.String(), map[string]string{"zone": fleetZone}).start(), servers
}

func checkedPoPs() []string { return []string{"home", "east", "south", "asia"} }

// primary is the address that wss-primary gives.
func primary(n *node) string {
	n.t.Helper()
	r := n.ask("wss-primary.example.com", dns.TypeA, "192.0.2.0/24")
	a := addresses(r)
	if r.Rcode != dns.RcodeSuccess || len(a) != 1 {
		n.t.Fatalf("%s with %v", dns.RcodeToString[r.Rcode], a)
	}
	return a[0]
}

// becomes waits until wss-primary gives an address, and tells how long it took.
func becomes(n *node, want netip.Addr) time.Duration {
	n.t.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got := primary(n)
		took := time.Since(began)
		if got == want.String() {
			return took
		}
		if took > patience {
			out, _, _ := n.run("health", "list")
			n.t.Fatalf("wss-primary is %s, want %s within %s\n%s\n%s", got, want, patience, out, n.log)
		}
		<-tick.C
	}
}

// throughout looks again and again, as long as a time lasts, at what must be so all the while.
func throughout(d time.Duration, look func()) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		look()
	}
}

// A PoP whose port is open but refuses the upgrade leaves the answers after fall checks, with no operator, and comes back after rise.
func TestHandshakesStop(t *testing.T) {
	t.Parallel()
	n, servers := startChecked(t)
	if got := primary(n); got != servers[0].addr.String() {
		t.Fatalf("wss-primary is %s at the start", got)
	}
	servers[0].refuse.Store(true)
	becomes(n, servers[1].addr)
	if k := servers[0].refused.Load(); k < 3 {
		t.Errorf("out after %d checks that failed, fall is 3", k)
	}
	for range 50 {
		if a := addresses(n.ask("wss-backup.example.com", dns.TypeA, "192.0.2.0/24")); slices.Contains(a, servers[0].addr.String()) {
			t.Fatalf("wss-backup gives %v", a)
		}
	}
	list, err := n.api.Health(background(), "home/envoy-wss")
	if err != nil {
		t.Fatal(err)
	}
	e := list.Endpoints[0]
	if e.Verdict != api.HealthDown || e.Votes[0].Error != "upgrade refused: status 503" || e.Addresses[0].InARow < 3 || !e.Quorum {
		t.Errorf("%+v", e)
	}
	if out, _, code := n.run("health", "run", "home/envoy-wss"); code != 4 || !strings.Contains(out, "upgrade refused: status 503") {
		t.Errorf("health run: exit code %d, %q", code, out)
	}
	if out, _, code := n.run("health", "list"); code != 0 || !strings.Contains(out, "home/envoy-wss\twebsocket\tdown\t") || !strings.Contains(out, "east/envoy-wss\twebsocket\tup\t") {
		t.Errorf("health list: exit code %d, %q", code, out)
	}
	if out, _, code := n.run("health", "show", "home/envoy-wss"); code != 0 || !strings.Contains(out, "vote\tn1\t\tdown\t") {
		t.Errorf("health show: exit code %d, %q", code, out)
	}
	before := servers[0].greeted.Load()
	servers[0].refuse.Store(false)
	becomes(n, servers[0].addr)
	if k := servers[0].greeted.Load() - before; k < 5 {
		t.Errorf("back after %d checks that passed, rise is 5", k)
	}
	if out, _, code := n.run("health", "run", "home/envoy-wss"); code != 0 || !strings.Contains(out, "\tgood\t") {
		t.Errorf("health run: exit code %d, %q", code, out)
	}
}

// H11: after a crash what was down is out before the first check.
func TestCrashWhileDown(t *testing.T) {
	t.Parallel()
	n, servers := startChecked(t)
	servers[0].refuse.Store(true)
	becomes(n, servers[1].addr)
	eventually(t, "the verdict is on disk", func() bool {
		last, err := os.ReadFile(filepath.Join(n.dir, "state", "verdicts.json"))
		return err == nil && strings.Contains(string(last), `"home/envoy-wss":{"known":true,"down":true`)
	})
	n.kill()
	before := servers[0].greeted.Load()
	servers[0].refuse.Store(false) // a first check would find it up
	n.start()
	if got := primary(n); got != servers[1].addr.String() && servers[0].greeted.Load() < before+5 { // else the test was slower than rise checks
		t.Errorf("after the crash wss-primary is %s, want %s", got, servers[1].addr)
	}
	becomes(n, servers[0].addr)
}

// Without any last verdict one round of checks comes before the first answer.
func TestFirstRound(t *testing.T) {
	t.Parallel()
	n, servers := startChecked(t)
	n.stop()
	servers[0].refuse.Store(true)
	n.forget("state/verdicts.json")
	n.edit("interval = \"1s\"\ntimeout = \"1s\"", "interval = \"20s\"\ntimeout = \"20s\"") // the round is waited for as long as a check may take
	n.start()
	if got := primary(n); got != servers[1].addr.String() {
		t.Errorf("the first answer is %s, want %s", got, servers[1].addr)
	}
}

// H05: one failure in three flaps nothing.
func TestOneInThree(t *testing.T) {
	t.Parallel()
	n, servers := startChecked(t)
	servers[0].oneIn.Store(3)
	throughout(12*time.Second, func() {
		if got := primary(n); got != servers[0].addr.String() {
			t.Fatalf("wss-primary is %s", got)
		}
	})
	if k := servers[0].n.Load(); k < 10 {
		t.Errorf("only %d checks", k)
	}
}

// H03: one check per endpoint and interval, however many records use it.
func TestOneCheck(t *testing.T) {
	t.Parallel()
	_, servers := startChecked(t)
	before := servers[0].n.Load()
	eventually(t, "a check", func() bool { return servers[0].n.Load() > before })
	before = servers[0].n.Load()
	// Two records use the endpoint: with a check for each it would take five seconds. A test that is late to look has missed a second or two.
	if took := eventually(t, "ten more", func() bool { return servers[0].n.Load() >= before+10 }); took < 7*time.Second {
		t.Errorf("ten checks in %v, once a second", took)
	}
}

// When everything fails, for example because the path of the check is wrong, panic keeps half of the capacity, what automation has drained included, and it is told.
func TestPanic(t *testing.T) {
	t.Parallel()
	n, servers := startCheckedWith(t, "restore_after = \"1s\"")
	for _, s := range servers {
		s.refuse.Store(true)
	}
	eventually(t, "all are down, panic, and a drain by automation", func() bool {
		primary(n) // fails on anything but one address
		return n.warned("health has removed so much of envoy-wss") && len(automationDrains(n)) > 0 &&
			!slices.ContainsFunc(checkedPoPs(), func(pop string) bool { return n.belief(pop+"/envoy-wss").Verdict != api.HealthDown })
	})
	throughout(3*time.Second, func() {
		in := 0
		for _, pop := range checkedPoPs() {
			if n.belief(pop+"/envoy-wss").Verdict != api.HealthDown {
				t.Fatalf("%s is not down", pop)
			}
			p, err := n.api.PoP(background(), pop)
			if err != nil {
				t.Fatal(err)
			}
			if p.PoP.Endpoints[0].Share == 100 {
				in++
			}
		}
		if in != 2 {
			t.Fatalf("%d of 4 PoPs are in the answers, want half", in)
		}
	})
	if d := automationDrains(n); len(d) != 1 {
		t.Errorf("more than 34 %% drained: %+v", d)
	}
}

// Without panic the ladder answers when everything fails: never nothing, and explain, metrics, warnings and events name the rung.
func TestLadder(t *testing.T) {
	t.Parallel()
	n, servers := startCheckedWith(t, "enabled = false\npanic = \"100%\"")
	events := make(chan string, 1000)
	go n.api.Events(t.Context(), 0, func(e api.Event) error {
		if e.Kind == api.EventAlert {
			events <- e.Text
		}
		return nil
	}, nil)
	for _, s := range servers {
		s.refuse.Store(true)
	}
	const rung = "answers come from rung 3 of the ladder"
	eventually(t, "the third rung", func() bool {
		primary(n) // fails on anything but one address
		return n.warned(rung)
	})
	if n.metric("edgesteer_ladder_rung_total", `rung="3"`) == 0 {
		t.Error("no metric names the rung")
	}
	out, _, code := n.run("explain", "wss-primary.example.com", "A", "--client", "192.0.2.0/24")
	if code != 0 || !strings.Contains(out, "rung 3 of the ladder: health is ignored") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for {
		select {
		case text := <-events:
			if strings.HasPrefix(text, rung) {
				return
			}
		case <-time.After(patience):
			t.Fatal("no event names the rung")
		}
	}
}

// The TTL of a record is low while something about its endpoints is about to change: checks have begun to fail or to pass again, or a ramp is under way.
func TestTTLFalls(t *testing.T) {
	t.Parallel()
	n, servers := startChecked(t)
	n.edit("timeout = \"1s\"\n", "timeout = \"1s\"\nfall = 10\nrise = 10\n") // the change is near for nine seconds: long enough to be seen
	if r, err := n.api.ReloadZones(background()); err != nil || slices.ContainsFunc(r.Problems, func(p api.ConfigProblem) bool { return !p.Warning }) {
		t.Fatal(r, err)
	}
	ttl := func(name string) uint32 { return n.ask(name, dns.TypeA, "192.0.2.0/24").Answer[0].Header().Ttl }
	is := func(what string, want uint32) {
		t.Helper()
		eventually(t, fmt.Sprintf("TTL %d: %s", want, what), func() bool { return ttl("wss-primary.example.com") == want })
	}
	is("all is well", 30)
	servers[0].refuse.Store(true)
	is("checks have begun to fail", 5)
	if got := primary(n); got != servers[0].addr.String() {
		t.Errorf("home has left after a check: %s", got)
	}
	becomes(n, servers[1].addr)
	is("it is down, and that is that", 30)
	servers[0].refuse.Store(false)
	is("checks have begun to pass", 5)
	becomes(n, servers[0].addr)
	is("it is up again", 30)
	if _, err := n.api.Drain(background(), api.DrainRequest{Target: "east", Over: api.Duration(10 * time.Minute), Order: api.Order{Reason: "a ramp"}}); err != nil {
		t.Fatal(err)
	}
	is("a ramp is under way", 5)
	if got := ttl("wss-backup.example.com"); got != 30 {
		t.Errorf("the TTL of a record without ttl_min is %d", got)
	}
}

// warned tells whether a node warns of something.
func (n *node) warned(text string) bool {
	n.t.Helper()
	s, err := n.api.Status(background())
	if err != nil {
		n.t.Fatal(err)
	}
	return slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.Contains(w, text) })
}

// H17: a person's drain is never lifted by a check that recovers, and a person's pin takes health out.
func TestPeopleOverHealth(t *testing.T) {
	t.Parallel()
	n, servers := startChecked(t)
	servers[0].refuse.Store(true)
	becomes(n, servers[1].addr)
	if _, err := n.api.Pin(background(), api.PinRequest{Target: "home", Order: api.Order{Reason: "the check is wrong"}}); err != nil {
		t.Fatal(err)
	}
	becomes(n, servers[0].addr)
	if _, err := n.api.Restore(background(), api.RestoreRequest{Target: "home", Order: api.Order{Reason: "the check was right"}}); err != nil {
		t.Fatal(err)
	}
	becomes(n, servers[1].addr)
	if _, err := n.api.Drain(background(), api.DrainRequest{Target: "home", Order: api.Order{Reason: "we repair it"}}); err != nil {
		t.Fatal(err)
	}
	servers[0].refuse.Store(false)
	eventually(t, "home is up", func() bool { return n.belief("home/envoy-wss").Verdict == api.HealthUp })
	throughout(2*time.Second, func() {
		if got := primary(n); got != servers[1].addr.String() {
			t.Fatalf("wss-primary is %s although a person has drained it", got)
		}
	})
}

// automationDrains are the drains that automation has made, restoring ones too.
func automationDrains(n *node) (out []api.Statement) {
	n.t.Helper()
	list, err := n.api.Statements(background(), true)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, s := range list.Statements {
		if s.Class == api.ClassAutomation {
			out = append(out, s)
		}
	}
	return out
}

// Automation drains a PoP that is down, with the evidence, and gives it its clients back along the ramp.
func TestAutomation(t *testing.T) {
	t.Parallel()
	n, servers := startCheckedWith(t, "restore_after = \"1s\"\nramp = [\"50%\", \"100%\"]\nramp_step = \"2s\"")
	servers[0].refuse.Store(true)
	becomes(n, servers[1].addr)
	var drains []api.Statement
	eventually(t, "automation has drained something", func() bool {
		drains = automationDrains(n)
		return len(drains) > 0
	})
	if len(drains) != 1 || drains[0].Target != "home" || drains[0].Author != "automation" || !slices.Equal(drains[0].Evidence, []string{"n1: home/envoy-wss: upgrade refused: status 503"}) {
		t.Fatalf("%+v\n%s", drains, n.log)
	}
	// A person's pin takes health and automation out; nothing of theirs ends by that.
	pin, err := n.api.Pin(background(), api.PinRequest{Target: "home", Order: api.Order{Reason: "the check is wrong"}})
	if err != nil {
		t.Fatal(err)
	}
	becomes(n, servers[0].addr)
	if _, err := n.api.Restore(background(), api.RestoreRequest{ID: pin.Statements[0].ID, Order: api.Order{Reason: "the check was right"}}); err != nil {
		t.Fatal(err)
	}
	becomes(n, servers[1].addr)
	servers[0].refuse.Store(false)
	shares := map[float64]bool{}
	eventually(t, "home has its clients back", func() bool {
		p, err := n.api.PoP(background(), "home")
		if err != nil {
			t.Fatal(err)
		}
		shares[p.PoP.Share] = true
		return p.PoP.Share == 100
	})
	rampSeen(t, shares)
	becomes(n, servers[0].addr)
	if d := automationDrains(n); len(d) != 1 || !rampedBack(d[0]) {
		t.Errorf("%+v", d)
	}
}

// A single endpoint that is down, of a PoP that is otherwise well, is drained alone, and comes back along the ramp.
func TestAutomationOfEndpoint(t *testing.T) {
	t.Parallel()
	n, servers := startCheckedWith(t, "pop_down = \"60%\"\nrestore_after = \"1s\"\nramp = [\"50%\", \"100%\"]\nramp_step = \"2s\"")
	n.edit("[[zone]]\n", fmt.Sprintf("[[service]]\nname = \"tcp\"\n[service.check]\nkind = \"tcp\"\nport = %d\ninterval = \"1s\"\ntimeout = \"1s\"\n[service.at.home]\naddresses = [%q]\n[service.at.east]\naddresses = [%q]\n[[zone]]\n", wssPort, servers[0].addr, servers[1].addr))
	if r, err := n.api.ReloadZones(background()); err != nil || slices.ContainsFunc(r.Problems, func(p api.ConfigProblem) bool { return !p.Warning }) {
		t.Fatal(r, err)
	}
	servers[0].refuse.Store(true)
	becomes(n, servers[1].addr)
	eventually(t, "automation has drained something", func() bool { return len(automationDrains(n)) > 0 })
	if d := automationDrains(n); len(d) != 1 || d[0].Target != "home/envoy-wss" || d[0].Reason != "down: envoy-wss (upgrade refused: status 503: n1)" {
		t.Errorf("%+v", d)
	}
	if e := n.belief("home/tcp"); e.Verdict != api.HealthUp {
		t.Errorf("the port is %s", e.Verdict)
	}
	servers[0].refuse.Store(false)
	shares := map[float64]bool{}
	eventually(t, "home/envoy-wss has its clients back", func() bool {
		p, err := n.api.PoP(background(), "home")
		if err != nil {
			t.Fatal(err)
		}
		if other := p.PoP.Endpoints[1].Share; other != 100 {
			t.Fatalf("the share of the other endpoint is %g", other)
		}
		shares[p.PoP.Endpoints[0].Share] = true
		return p.PoP.Endpoints[0].Share == 100
	})
	rampSeen(t, shares)
	if d := automationDrains(n); len(d) != 1 || !rampedBack(d[0]) {
		t.Errorf("%+v", d)
	}
}

// rampSeen wants that what was seen of a share while it came back along the ramp 50, 100 % is of that ramp. A test that is slower than a step has not seen that one.
func rampSeen(t testing.TB, shares map[float64]bool) {
	t.Helper()
	for share := range shares {
		if share != 0 && share != 50 && share != 100 {
			t.Errorf("the share was %g on the way back", share)
		}
	}
	if !shares[50] {
		late(t, "the share was never 50 %% on the way back")
	}
}

// rampedBack tells whether a statement was lifted along the ramp 50, 100 %.
func rampedBack(s api.Statement) bool {
	return s.Lifted != nil && s.Lifted.Over > 0 && slices.Equal(s.Lifted.Steps, []float64{50, 100})
}

// H13: automation that would go past its bound alerts, and drains nothing.
func TestAutomationBound(t *testing.T) {
	t.Parallel()
	n, servers := startCheckedWith(t, "max_drained = \"34%\"")
	if _, err := n.api.Drain(background(), api.DrainRequest{Target: "east", Order: api.Order{Reason: "planned"}}); err != nil {
		t.Fatal(err)
	}
	servers[0].refuse.Store(true)
	becomes(n, servers[2].addr)
	var status *api.Status
	held := func() bool {
		var err error
		if status, err = n.api.Status(background()); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(status.Warnings, func(w string) bool { return strings.HasPrefix(w, "automation may not drain home: 50 % of envoy-wss") })
	}
	eventually(t, "the bound is told", held)
	if len(automationDrains(n)) > 0 {
		t.Errorf("%q %+v", status.Warnings, automationDrains(n))
	}
}

// Three nodes make one verdict: all vote, each knows of the others' votes, and a node that starts anew serves the verdict before its first check.
func TestFleetHealth(t *testing.T) {
	t.Parallel()
	servers := []*wss{startWSS(t), startWSS(t)}
	nodes := prepareCluster(t, 3, nil)
	for _, n := range nodes {
		n.check(fmt.Sprintf("kind = \"websocket\"\nport = %d\ninterval = \"1s\"\ntimeout = \"1s\"\n", wssPort), servers[0].addr.String(), servers[1].addr.String())
	}
	startCluster(t, nodes)
	home := func(n *node) api.EndpointHealth {
		h, err := n.api.Health(background(), "home/wss")
		if err != nil {
			t.Fatal(err)
		}
		return h.Endpoints[0]
	}
	all := func(verdict api.HealthState) func() bool {
		return func() bool {
			return !slices.ContainsFunc(nodes, func(n *node) bool { e := home(n); return e.Verdict != verdict || e.Voters != 3 || e.Fresh != 3 })
		}
	}
	eventually(t, "three votes for up", all(api.HealthUp))
	servers[0].refuse.Store(true)
	eventually(t, "three votes for down", all(api.HealthDown))
	if e := home(nodes[0]); len(e.Votes) != 3 || e.Votes[2].Error != "upgrade refused: status 503" {
		t.Errorf("%+v", e)
	}
	out, errs, code := nodes[0].run("health", "run", "home/wss")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 4 || len(lines) != 3 || !strings.HasPrefix(lines[0], "n1\t"+servers[0].addr.String()+"\tupgrade refused: status 503") || !strings.HasPrefix(lines[2], "n3\t"+servers[0].addr.String()+"\tupgrade refused: status 503") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if out, errs, code = nodes[0].run("health", "run", "east/wss", "--node", "n2"); code != 0 || !strings.HasPrefix(out, "n2\t"+servers[1].addr.String()+"\tgood\t") || strings.Count(out, "\n") != 1 {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if out, errs, code = nodes[0].run("health", "run", "east/wss", "--node", "n9"); code != 1 || !strings.Contains(errs, `no node "n9" is within reach`) {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	nodes[2].cmd.Process.Signal(syscall.SIGSTOP) // it is there, and does nothing
	out, errs, code = nodes[0].run("health", "run", "east/wss")
	nodes[2].cmd.Process.Signal(syscall.SIGCONT)
	if code != 4 || !strings.Contains(out, "n1\t"+servers[1].addr.String()+"\tgood") || !strings.Contains(out, "n3\t\tnot possible from there: no answer within 3s") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	nodes[2].kill()
	if err := os.RemoveAll(filepath.Join(nodes[2].dir, "state")); err != nil {
		t.Fatal(err)
	}
	nodes[2].start()
	if got := addresses(nodes[2].ask("home.example.com", dns.TypeA, "192.0.2.0/24")); slices.Contains(got, servers[0].addr.String()) {
		t.Errorf("a node without a past gives %v", got)
	}
}

// check gives a node of a cluster a check of its service wss, and the service other addresses than the documented ones, in the order of the PoPs. Automation is off.
func (n *node) check(check string, addresses ...string) {
	n.t.Helper()
	n.edit("name = \"wss\"\n", "name = \"wss\"\n[service.check]\n"+check)
	for i, a := range addresses {
		n.edit(fmt.Sprintf("\"192.0.2.%d\"", i+1), fmt.Sprintf("%q", a))
	}
	n.edit("[[pop]]\n", "[automation]\nenabled = false\n[[pop]]\n")
}
