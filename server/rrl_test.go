package server

import (
	"net/netip"
	"testing"
)

// apart is a limiter in whose table the accounts of some senders and classes do not meet, as chance might have it.
func apart(cfg RateLimit, owner []byte, senders ...netip.Addr) *limiter {
	for {
		l := newLimiter(cfg)
		seen, accounts := map[*bucket]bool{}, 0
		for _, a := range senders {
			for _, c := range []class{classNegative, classError} {
				seen[l.account(a, owner, c)] = true
				accounts++
			}
		}
		if len(seen) == accounts {
			return l
		}
	}
}

func TestLimiter(t *testing.T) {
	a, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8:0:ff00::1")
	owner := []byte("\x07example\x00")
	l := apart(RateLimit{PerSecond: 10, Slip: 2, Slots: 1024}, owner, a, netip.MustParseAddr("198.51.100.1"), v6)
	count := func(sender netip.Addr, c class, now uint64, n int) (got [3]int) {
		for range n {
			got[l.limit(sender, owner, c, now)]++
		}
		return got
	}
	const start = 1_000_000
	if got := count(a, classError, start, 10); got[pass] != 10 {
		t.Errorf("a second's worth at once: %v", got)
	}
	if got := count(a, classError, start, 10); got[pass] != 0 || got[slip] != 5 || got[drop] != 5 {
		t.Errorf("over the limit: %v, want half slipped", got)
	}
	if got := count(netip.MustParseAddr("192.0.2.200"), classError, start, 1); got[pass] != 0 {
		t.Error("a neighbour in the /24 has an account of its own")
	}
	if got := count(netip.MustParseAddr("198.51.100.1"), classError, start, 10); got[pass] != 10 {
		t.Errorf("another network shares the account: %v", got)
	}
	if got := count(a, classNegative, start, 10); got[pass] != 10 {
		t.Errorf("another class shares the account: %v", got)
	}
	if got := count(a, classError, start+100, 2); got[pass] != 1 {
		t.Errorf("after 100 ms: %v, want 1 passed", got)
	}
	if got := count(a, classError, start+60_000, 20); got[pass] != 10 {
		t.Errorf("after a quiet minute: %v, want 10 passed", got)
	}
	if got := count(v6, classError, start, 10); got[pass] != 10 {
		t.Errorf("IPv6: %v", got)
	}
	if got := count(netip.MustParseAddr("2001:db8:0:ffff::2"), classError, start, 1); got[pass] != 0 {
		t.Error("a neighbour in the /56 has an account of its own")
	}
	narrow := apart(RateLimit{PerSecond: 1, IPv4: 32, Exempt: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}}, owner, a, a.Next())
	narrow.limit(a, owner, classError, start)
	if narrow.limit(a, owner, classError, start) != drop || narrow.limit(a.Next(), owner, classError, start) != pass {
		t.Error("with /32 a sender is not one address")
	}
	for range 10 {
		if narrow.limit(netip.MustParseAddr("198.51.100.7"), owner, classError, start) != pass {
			t.Fatal("an exempt sender is limited")
		}
	}
	off := newLimiter(RateLimit{})
	if off.limit(a, owner, classError, start) != pass {
		t.Error("no limit limits")
	}
	none := newLimiter(RateLimit{PerSecond: 1})
	none.limit(a, owner, classError, start)
	for range 10 {
		if v := none.limit(a, owner, classError, start); v != drop {
			t.Fatalf("slip 0 gives %v", v)
		}
	}
}

func TestLimiterAllocs(t *testing.T) {
	l := newLimiter(RateLimit{PerSecond: 500, Slip: 2})
	a, owner := netip.MustParseAddr("2001:db8::1"), []byte("\x07example\x00")
	if n := testing.AllocsPerRun(100, func() { l.limit(a, owner, classError, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
