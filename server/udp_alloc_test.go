//go:build linux && !race

package server

import (
	"net/netip"
	"testing"
)

// A batch costs no allocation, on any kind of address.
func TestUDPAllocations(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"} {
		t.Run(addr, func(t *testing.T) {
			at := netip.MustParseAddrPort(addr)
			l := openOne(t, at, &ListenConfig{Batch: 16, ReceiveBuffer: 1 << 20})
			defer l.release()
			to := netip.AddrPortFrom(lo4.Addr(), l.local().Port())
			if at.Addr().Is6() {
				to = netip.AddrPortFrom(lo6.Addr(), l.local().Port())
			}
			c := dialUDP(t, to)
			w := &udpWorker{answerer: new(fake), count: new(udpCounters), trusted: proxies{netip.MustParsePrefix("192.0.2.0/24")}}
			query, silent, buf := ask(1, askEcho, "hello"), ask(1, askSilence, ""), make([]byte, 100)
			got := testing.AllocsPerRun(100, func() {
				for range 8 {
					_, _ = c.Write(query)
					_, _ = c.Write(silent)
				}
				n, _ := l.receive()
				l.answer(w, n)
				for range n / 2 {
					_, _ = c.Read(buf)
				}
			})
			if got != 0 {
				t.Errorf("%v allocations per batch", got)
			}
			if n := w.count.answered.Load(); n != 101*8 {
				t.Errorf("%d answered", n)
			}
		})
	}
}
