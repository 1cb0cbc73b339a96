package admin

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/server/api"
)

func TestPeers(t *testing.T) {
	list := []api.Peer{
		{Name: "dns-a", State: "alive", Self: true, Serials: map[string]uint32{"example.com.": 7}},
		{Name: "dns-b", State: "suspect", Behind: true, Clock: -12.5, Serials: map[string]uint32{"example.com.": 6}},
	}
	f := newFixture(t, func(c *Config) { c.Peers = func() []api.Peer { return append([]api.Peer(nil), list...) } })
	var peers api.Peers
	f.do(t, f.tcp, "GET", "/v1/peers", "viewer", nil).into(t, &peers)
	want := []api.Peer{{Name: "dns-a", State: "alive", Self: true}, {Name: "dns-b", State: "suspect", Behind: true, Clock: -12.5}}
	if diff := cmp.Diff(want, peers.Peers); diff != "" || peers.Node != "node1" || peers.Schema != api.Schema {
		t.Errorf("%+v\n%s", peers, diff)
	}
	var one api.PeerDetail
	f.do(t, f.unix, "GET", "/v1/peers/DNS-B", "", nil).into(t, &one)
	if diff := cmp.Diff(list[1], one.Peer); diff != "" {
		t.Error(diff)
	}
	if a := f.do(t, f.unix, "GET", "/v1/peers/dns-x", "", nil); a.status != http.StatusNotFound || a.problem.Type != api.ProblemUnknown || a.problem.Hint == "" {
		t.Errorf("%+v", a)
	}
}

// TestPeersAlone is a node without a fleet: it knows itself.
func TestPeersAlone(t *testing.T) {
	f := newFixture(t)
	f.change(t, f.unix, "/v1/drains", "", api.DrainRequest{Target: "fra", Order: because("works")})
	var peers api.Peers
	f.do(t, f.unix, "GET", "/v1/peers", "", nil).into(t, &peers)
	if len(peers.Peers) != 1 || peers.Peers[0].Name != "node1" || !peers.Peers[0].Self || peers.Peers[0].State != "alive" || peers.Peers[0].Statements != 1 {
		t.Errorf("%+v", peers)
	}
}
