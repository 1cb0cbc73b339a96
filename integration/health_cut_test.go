package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgesteer/edgesteer/server/api"
)

// Five nodes and four PoPs, nginx in each, in network namespaces of their own. Some nodes are cut off from one PoP: one is outvoted, two or three make the endpoint gray, and the verdict stays whatever
// it was, four make it down. A node that is cut off from everything has no vote, and changes nothing.
func TestCutFromPoP(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	w := newWires(t, 9)
	nodes, places := prepareCluster(t, 5, w.hosts[:5]), w.hosts[5:]
	for i, place := range places {
		web := startNginx(t, w.spaces[5+i], fmt.Sprintf("server { listen %s:8080; root DIR/www; }", place), nil)
		if err := os.Mkdir(filepath.Join(web.dir, "www"), 0o700); err != nil {
			t.Fatal(err)
		}
		web.write("www/healthz", "ok")
	}
	for i, n := range nodes {
		n.space = w.spaces[i]
		n.check("kind = \"http\"\nport = 8080\npath = \"/healthz\"\ninterval = \"2s\"\ntimeout = \"2s\"\nfall = 2\nrise = 2\n", places...)
	}
	startCluster(t, nodes)

	// reach lets the first so many nodes reach home, and cuts the others off from it.
	reach := func(k int) {
		t.Helper()
		for i := range nodes {
			w.nft(i, "flush chain inet cut input")
			if i >= k {
				w.nft(i, "add rule inet cut input ip saddr "+places[0]+" drop")
			}
		}
	}
	// see waits until all nodes know that so many of five fresh votes say that home is down, and believe what follows from that.
	see := func(against int, verdict api.HealthState, gray bool) {
		t.Helper()
		var last api.EndpointHealth
		defer func() {
			if t.Failed() {
				t.Logf("%+v", last)
			}
		}()
		eventually(t, fmt.Sprintf("%d of 5 against home: %s, gray %v", against, verdict, gray), func() bool {
			return !slices.ContainsFunc(nodes, func(n *node) bool {
				last = n.belief("home/wss")
				return last.Fresh != 5 || last.Against != against || last.Verdict != verdict || last.Gray != gray
			})
		})
	}
	// given tells whether all nodes, or with false none, send clients home.
	given := func(want bool) {
		t.Helper()
		eventually(t, fmt.Sprintf("home is given: %v", want), func() bool {
			return !slices.ContainsFunc(nodes, func(n *node) bool {
				return slices.Contains(n.spaced("home.example.com"), places[0]) != want
			})
		})
	}
	see(0, api.HealthUp, false)
	given(true)

	reach(4)
	see(1, api.HealthUp, false)
	for _, n := range nodes {
		eventually(t, "the dissenter is shown", func() bool {
			e := n.belief("home/wss")
			v := voteOf(e, "n5")
			return v.Node == "n5" && v.Dissents && v.Error == "timeout" && !voteOf(e, "n1").Dissents
		})
		if n.warned("gray") {
			t.Error("a single dissenter is alerted")
		}
	}
	given(true)

	for _, k := range []int{3, 2} {
		reach(k)
		see(5-k, api.HealthUp, true)
		for _, n := range nodes {
			eventually(t, "it is warned that home/wss is gray", func() bool { return n.warned("home/wss is gray") })
		}
		given(true)
	}

	reach(1)
	see(4, api.HealthDown, false)
	given(false)

	reach(2) // between the two the verdict stays what it was: now that is down
	see(3, api.HealthDown, true)
	given(false)

	reach(5)
	see(0, api.HealthUp, false)
	given(true)

	// n5 reaches no PoP: it is n5 that is sick, and it has no vote.
	for _, place := range places {
		w.nft(4, "add rule inet cut input ip saddr "+place+" drop")
	}
	eventually(t, "n5 abstains everywhere", func() bool {
		return !slices.ContainsFunc(nodes, func(n *node) bool {
			e := n.belief("asia/wss")
			v := voteOf(e, "n5")
			return e.Fresh != 4 || e.Against != 0 || !v.Down || v.Counts || !strings.Contains(v.Why, "more than half") || !n.warned("n5 fails more than half")
		})
	})
	for _, n := range nodes {
		for _, pop := range []string{"home", "east", "south", "asia"} {
			if e := n.belief(pop + "/wss"); e.Verdict != api.HealthUp || e.Gray {
				t.Errorf("%s: %s is %s, gray %v, because of a node that abstains", n.dir, pop, e.Verdict, e.Gray)
			}
		}
	}
	given(true)

	// n5 hears nobody at all: for itself too every verdict stays, and for the others it is no voice.
	w.nft(4, "add rule inet cut input iifname eth0 drop")
	for i := range 4 {
		w.nft(i, "add rule inet cut input ip saddr "+w.hosts[4]+" drop")
	}
	eventually(t, "n5 hears nobody, and nobody n5", func() bool {
		return !nodes[4].belief("home/wss").Quorum && !voteOf(nodes[0].belief("home/wss"), "n5").Fresh
	})
	for _, n := range nodes {
		if e := n.belief("home/wss"); e.Verdict != api.HealthUp || e.Gray {
			t.Errorf("%s: home is %s, gray %v, because of a node that is alone", n.dir, e.Verdict, e.Gray)
		}
	}
	reach(5)
	see(0, api.HealthUp, false)
}

// spaced are the addresses that a node in a namespace gives, asked from there.
func (n *node) spaced(name string) []string {
	n.t.Helper()
	host, port, _ := strings.Cut(n.addr, ":")
	cmd := exec.Command("ip", "netns", "exec", n.space, need(n.t, "dig"), "+short", "+subnet=20.0.0.0/24", "@"+host, "-p", port, name, "A")
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("%v\n%s", err, out)
	}
	return strings.Fields(string(out))
}

// voteOf is a node's vote on an endpoint; the zero Vote while nothing is known of it.
func voteOf(e api.EndpointHealth, node string) api.Vote {
	if i := slices.IndexFunc(e.Votes, func(v api.Vote) bool { return v.Node == node }); i >= 0 {
		return e.Votes[i]
	}
	return api.Vote{}
}
