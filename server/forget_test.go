package server_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/zones"
)

// A handler that has answered and is idle now keeps nothing of the zones and maps that were served before: they can be large.
func TestHandlerForgets(t *testing.T) {
	p := publisher(t, world, zoneText, pops.Input{})
	h := server.NewHandlers(server.HandlerConfig{Publisher: p}).New()
	for _, n := range []string{"wss-primary.edge.example", "alias.edge.example", "static.edge.example", "nosuch.edge.example", "x.dn.edge.example", "host.sub.edge.example"} {
		ask(t, h, query(n, dns.TypeA, "203.0.113.0/24"), "192.0.2.1", server.UDP)
	}
	atlas, set, zone := func() (weak.Pointer[geo.Atlas], weak.Pointer[zones.Set], []weak.Pointer[zones.Zone]) {
		s := p.Snapshot()
		var list []weak.Pointer[zones.Zone]
		for z := range s.Zones.Zones() {
			list = append(list, weak.Make(z))
		}
		return weak.Make(s.Atlas), weak.Make(s.Zones), list
	}()
	other := publisher(t, world, zoneText, pops.Input{}).Snapshot()
	if err := p.Publish(&server.Snapshot{Zones: other.Zones, Atlas: other.Atlas, View: other.View}); err != nil {
		t.Fatal(err)
	}
	h.Refresh()
	runtime.GC()
	runtime.GC()
	if atlas.Value() != nil || set.Value() != nil {
		t.Errorf("kept: maps %v, set of zones %v", atlas.Value() != nil, set.Value() != nil)
	}
	for _, z := range zone {
		if z.Value() != nil {
			t.Errorf("zone %s is kept", z.Value())
		}
	}
	runtime.KeepAlive(h)
}
