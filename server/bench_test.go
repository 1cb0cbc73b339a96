package server_test

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server"
)

func target(t testing.TB, s string) pops.Target {
	t.Helper()
	target, err := pops.ParseTarget(s)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// BenchmarkHandle answers batches of 32 from octets to octets: without counters, with them, and with the query mix, which is collected as often as a busy server does. What counters and mix
// cost is too little to be seen here on a machine that does other things too: see TestCountingCost.
func BenchmarkHandle(b *testing.B) {
	p := publisher(b, world, zoneText, pops.Input{})
	mix := server.NewMix(p, time.Now())
	for _, bb := range []struct {
		name string
		m    *dns.Msg
		mix  *server.Mix
		off  bool
	}{
		{"static uncounted", query("static.edge.example", dns.TypeA, ""), nil, true},
		{"static", query("static.edge.example", dns.TypeA, ""), nil, false},
		{"steered uncounted", query("wss-primary.edge.example", dns.TypeA, "203.0.113.0/24"), nil, true},
		{"steered", query("wss-primary.edge.example", dns.TypeA, "203.0.113.0/24"), nil, false},
		{"steered mix", query("wss-primary.edge.example", dns.TypeA, "203.0.113.0/24"), mix, false},
	} {
		b.Run(bb.name, func(b *testing.B) {
			h := server.NewHandlers(server.HandlerConfig{Publisher: p, Mix: bb.mix, Uncounted: bb.off, CookieSecrets: []server.CookieSecret{{1}}}).New()
			q, err := bb.m.Pack()
			if err != nil {
				b.Fatal(err)
			}
			peer := server.Peer{Addr: netip.MustParseAddrPort("203.0.113.9:5")}
			buf := make([]byte, 0, 4096)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				h.Handle(q, buf, &peer)
				if n++; n%32 == 0 {
					h.Done()
					h.Refresh()
				}
				if n%200_000 == 0 && bb.mix != nil { // about once a second
					b.StopTimer()
					mix.Collect(time.Now())
					b.StartTimer()
				}
			}
		})
	}
}

// BenchmarkWorkers answers with one worker and with two at once, each with a handler of its own. Two take no longer for a query than one as long as they write no line of the cache that
// the other uses: counters, rings and scratch are each worker's own, snapshot, zones and maps are only read. On a machine whose two processors are threads of one core it shows that, too.
func BenchmarkWorkers(b *testing.B) {
	p := publisher(b, world, zoneText, pops.Input{})
	q, err := query("wss-primary.edge.example", dns.TypeA, "203.0.113.0/24").Pack()
	if err != nil {
		b.Fatal(err)
	}
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			handlers := server.NewHandlers(server.HandlerConfig{Publisher: p, Mix: server.NewMix(p, time.Now()), CookieSecrets: []server.CookieSecret{{1}}})
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					h := handlers.New()
					peer := server.Peer{Addr: netip.MustParseAddrPort("203.0.113.9:5")}
					buf := make([]byte, 0, 4096)
					for n := range b.N {
						h.Handle(q, buf, &peer)
						if n%32 == 0 {
							h.Done()
							h.Refresh()
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
