package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/api"
)

// loaded is a configuration of two PoPs of which home is preferred as long as it may be: its load is pushed, or polled from URL, and whether it is up may come from a feed.
const loaded = `
[server]
node = "n1"
listen = ["LISTEN"]
[server.rrl]
enabled = false
[[feed]]
name = "home-up"
max_age = "10s"
[[pop]]
name = "home"
[[pop]]
name = "away"
[[service]]
name = "wss"
[service.load]
metric = "connections"
low_watermark = 80
high_watermark = 100
max_age = "10s"
interval = "1s"
%s
[service.at.home]
addresses = ["192.0.2.1"]
meta = { priority = 1 }
[service.at.away]
addresses = ["192.0.2.2"]
meta = { priority = 2 }
[[zone]]
name = "example.com"
file = "zone"
[[zone.record]]
name = "shed"
service = "wss"
ttl = 30
filters = ["up", { filter = "shed_load", metric = "connections" }, "priority", { filter = "select_first_n", N = 1 }]
[[zone.record]]
name = "fed"
type = "A"
ttl = 30
filters = ["up", "priority", { filter = "select_first_n", N = 1 }]
[[zone.record.answer]]
rdata = ["192.0.2.11"]
meta = { priority = 1, up = { feed = "home-up" } }
[[zone.record.answer]]
rdata = ["192.0.2.12"]
meta = { priority = 2, up = true }
`

// gives waits until a name gives an address.
func gives(n *node, name, want string) {
	n.t.Helper()
	var got []string
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ; time.Since(began) < patience; <-tick.C {
		if got = addresses(n.ask(name, dns.TypeA, "198.51.100.0/24")); slices.Equal(got, []string{want}) {
			return
		}
	}
	n.t.Fatalf("%s gives %v, want %s within %s\n%s", name, got, want, patience, n.log)
}

func push(n *node, target string, value float64) {
	n.t.Helper()
	if _, err := n.api.ReportLoads(background(), api.LoadReport{Loads: []api.LoadSample{{Target: target, Value: &value}}}); err != nil {
		n.t.Fatal(err)
	}
}

// A load that is pushed sheds within a second; when its reporter stops it grows stale, is shown as that, and sheds nothing.
func TestLoadPushed(t *testing.T) {
	t.Parallel()
	n := prepare(t, fmt.Sprintf(loaded, ""), map[string]string{"zone": fleetZone}).start()
	gives(n, "shed.example.com", "192.0.2.1")
	push(n, "home/wss", 120)
	gives(n, "shed.example.com", "192.0.2.2")
	gives(n, "shed.example.com", "192.0.2.1")
	list, err := n.api.Loads(background())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list.Loads, func(v api.Value) bool { return v.Name == "home/wss" })
	if v := list.Loads[i]; !v.Stale || v.Value == nil || *v.Value != 120 || v.Node != "n1" {
		t.Errorf("%+v", v)
	}
}

// A load that rises from 70 to 110 % of the high watermark takes clients away in proportion, each once; while it swings by 5 % nobody moves; when its reports stop it is stale, is shown as that, and sheds
// nothing.
func TestLoadRamp(t *testing.T) {
	t.Parallel()
	n := prepare(t, strings.Replace(fmt.Sprintf(loaded, ""), `high_watermark = 100
max_age = "10s"`, `high_watermark = 100
max_age = "30s"`, 1), map[string]string{"zone": fleetZone}).start()
	clients := networks(2000)
	// at reports a load and gives who has left home once it is in the answers.
	at := func(load float64) []bool {
		t.Helper()
		push(n, "home/wss", load)
		eventually(t, "the load is in the answers", func() bool {
			p, err := n.api.PoP(background(), "home")
			if err != nil {
				t.Fatal(err)
			}
			l := p.PoP.Endpoints[0].Load
			return l != nil && l.Value != nil && *l.Value == load && !l.Stale && time.Since(l.Time) < time.Minute
		})
		return left(n.crowd("shed.example.com", clients), "192.0.2.1")
	}
	gone := make([]bool, len(clients))
	for _, load := range []float64{70, 80, 83, 86, 90, 95, 100, 110} {
		now := at(load)
		k := 0
		for i := range now {
			if gone[i] && !now[i] {
				t.Fatalf("%s is back while the load rises to %g", clients[i], load)
			}
			if now[i] {
				k++
			}
		}
		want := min(1, max(0, (load-80)/20))
		if share := float64(k) / float64(len(clients)); share < want-0.04 || share > want+0.04 {
			t.Errorf("at %g %.1f %% have left, want %.1f %%", load, 100*share, 100*want)
		}
		gone = now
	}
	eventually(t, "the load is stale, and nobody is away", func() bool {
		p, err := n.api.PoP(background(), "home")
		if err != nil {
			t.Fatal(err)
		}
		e := p.PoP.Endpoints[0]
		return e.Load.Stale && e.Load.Value != nil && *e.Load.Value == 110 && e.Shed == 0
	})
	if now := left(n.crowd("shed.example.com", clients), "192.0.2.1"); slices.Contains(now, true) {
		t.Error("a stale load takes clients away")
	}
	peak := at(94)
	for i, load := range []float64{92, 90, 91, 94, 90, 93, 94} {
		if now := at(load); !slices.Equal(now, peak) {
			t.Errorf("step %d: somebody moves while the load swings between 90 and 94", i)
		}
	}
}

// A load that is polled, and a source that stops.
func TestLoadPolled(t *testing.T) {
	t.Parallel()
	var home atomic.Int64
	home.Store(50)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]int64{"home": home.Load(), "away": 10})
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	n := prepare(t, fmt.Sprintf(loaded, fmt.Sprintf("url = \"http://%s/loads\"", l.Addr())), map[string]string{"zone": fleetZone}).start()
	gives(n, "shed.example.com", "192.0.2.1")
	home.Store(150)
	gives(n, "shed.example.com", "192.0.2.2")
	s.Close()
	gives(n, "shed.example.com", "192.0.2.1")
}

// A feed says that an answer is down; when nothing is heard for its age, the last configured value counts, which here is none: down.
func TestFeedPushed(t *testing.T) {
	t.Parallel()
	n := prepare(t, fmt.Sprintf(loaded, ""), map[string]string{"zone": fleetZone}).start()
	report := func(v float64) {
		t.Helper()
		if _, err := n.api.ReportFeed(background(), "home-up", api.FeedReport{Value: &v}); err != nil {
			t.Fatal(err)
		}
	}
	report(1)
	gives(n, "fed.example.com", "192.0.2.11")
	report(0)
	gives(n, "fed.example.com", "192.0.2.12")
	report(1)
	gives(n, "fed.example.com", "192.0.2.11")
	if _, err := n.api.ReportFeed(background(), "hom-up", api.FeedReport{Value: new(float64)}); err == nil {
		t.Error("a feed that nothing is bound to was taken in")
	}
	eventually(t, "the feed is shown as stale", func() bool {
		list, err := n.api.Loads(background())
		if err != nil {
			t.Fatal(err)
		}
		f := list.Feeds
		return len(f) == 1 && f[0].Stale && *f[0].Value == 1
	})
	gives(n, "fed.example.com", "192.0.2.12")
}

// Places can come from a feed, too: what it says is compiled in a few seconds, what is not good is refused, and when it says nothing any more the configured value counts.
func TestFeedOfPlace(t *testing.T) {
	t.Parallel()
	n := prepare(t, `
[server]
node = "n1"
listen = ["LISTEN"]
[server.rrl]
enabled = false
[[feed]]
name = "place"
max_age = "30s"
[[zone]]
name = "example.com"
file = "zone"
[[zone.record]]
name = "fed"
type = "A"
ttl = 30
filters = ["up", "geotarget_country", { filter = "select_first_n", N = 1 }]
[[zone.record.answer]]
rdata = ["192.0.2.11"]
meta = { up = true, country = { feed = "place", value = "BR" } }
[[zone.record.answer]]
rdata = ["192.0.2.12"]
meta = { up = true, country = "DE" }
`, map[string]string{"zone": fleetZone}).start()
	french := func() string { return strings.Join(addresses(n.ask("fed.example.com", dns.TypeA, "90.0.0.0/24")), " ") }
	if got := french(); got != "192.0.2.12" {
		t.Fatalf("a client in France gets %s while the other answer is in Brazil", got)
	}
	for _, bad := range []api.FeedReport{{Text: []string{"XX"}}, {Value: new(float64)}, {}, {Text: []string{"FR"}, Value: new(float64)}} {
		if _, err := n.api.ReportFeed(background(), "place", bad); err == nil {
			t.Errorf("%+v was taken in", bad)
		}
	}
	if _, err := n.api.ReportFeed(background(), "place", api.FeedReport{Text: []string{"FR", "BE"}}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Log(n.log)
		}
	}()
	eventually(t, "the answer is in France", func() bool { return french() == "192.0.2.11" })
	list, err := n.api.Loads(background())
	if err != nil || len(list.Feeds) != 1 || !slices.Equal(list.Feeds[0].Text, []string{"FR", "BE"}) || list.Feeds[0].Value != nil {
		t.Errorf("%v %+v", err, list)
	}
	eventually(t, "the feed says nothing, and the answer is in Brazil", func() bool { return french() == "192.0.2.12" })
}
