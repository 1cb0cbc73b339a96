//go:build !race

package server_test

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server"
)

// Answering allocates nothing, whatever the answer is: steered, static, negative, a referral, an error, truncated or rate limited, with the query mix and cookies on.
func TestHandleAllocs(t *testing.T) {
	partial := pops.Input{Intents: []pops.Intent{{ID: "a", Kind: pops.Drain, Class: pops.Person, Target: target(t, "fra"), Share: 50}}}
	p := publisher(t, world, zoneText, partial)
	hs := server.NewHandlers(server.HandlerConfig{
		Publisher: p, CookieSecrets: []server.CookieSecret{{1}}, RRL: server.RateLimit{PerSecond: 1, Slip: 2}, NSID: []byte("n"), Mix: server.NewMix(p, p.Snapshot().View.At),
	})
	h := hs.New()
	buf := make([]byte, 0, 4096)
	peer := server.Peer{Addr: netip.MustParseAddrPort("203.0.113.9:5")}
	for _, m := range []*dns.Msg{
		query("wss-primary.edge.example", dns.TypeA, "203.0.113.0/24"),
		query("wss-primary.edge.example", dns.TypeAAAA, "2001:db8:200::/48"),
		query("wss-backup.edge.example", dns.TypeA, "10.0.0.0/8"),
		query("alias.edge.example", dns.TypeA, "203.0.113.0/24"),
		query("static.edge.example", dns.TypeA, ""),
		query("nosuch.edge.example", dns.TypeA, ""),
		query("x.dn.edge.example", dns.TypeA, ""),
		query("loop1.edge.example", dns.TypeA, ""),
		query("host.sub.edge.example", dns.TypeA, ""),
		query("elsewhere.test", dns.TypeA, ""),
		query("fenced.edge.example", dns.TypeANY, "198.51.100.0/24"),
	} {
		m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"})
		q, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		msg := make([]byte, len(q), 4096)
		n := testing.AllocsPerRun(200, func() {
			copy(msg, q)
			h.Refresh()
			h.Handle(msg, buf, &peer)
			h.Done()
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", m.Question[0].String(), n)
		}
	}
}
