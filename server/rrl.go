package server

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
)

// RateLimit configures response rate limiting over UDP: how many answers of one kind one network gets in a second, so that a forged sender cannot use the server to flood
// somebody. Clients that show a valid cookie, and every stream transport, are exempt: their address is proven.
type RateLimit struct {
	PerSecond uint32 // answers of one kind per sender prefix (/24, /56), owner and rcode class; 0: no limit
	Slip      uint32 // every Slip-th answer over the limit is sent truncated, so that a real client comes back over TCP; 0: none
	Slots     int    // size of the table, rounded up to a power of two; 0: 65536. A collision can only make the limit stricter for both
	// IPv4 and IPv6 are how many bits of an address make a sender; 0: 24 and 56.
	IPv4, IPv6 int
	Exempt     []netip.Prefix // senders that are never limited
}

// class is the kind of answer that is limited as one (BIND and Knot count so, too).
type class uint8

const (
	classPositive class = iota
	classNegative       // NXDOMAIN and NODATA: by zone, so that random names share one account
	classReferral
	classError
)

type verdict uint8

const (
	pass verdict = iota
	slip
	drop
)

// limiter is a table of token buckets that all workers share. A bucket is one word, changed by compare-and-swap: the moment (ms) up to which the answers sent so far have used
// up the rate. It is written only for answers that can amplify (see Handler.admit), so that ordinary queries never meet here.
type limiter struct {
	cfg   RateLimit
	seed  maphash.Seed
	slots []bucket
}

type bucket struct {
	used atomic.Uint64 // virtual time of the next free token, in 1/1024 ms, 0 never used
	over atomic.Uint32 // answers over the limit, for slip
}

func newLimiter(cfg RateLimit) *limiter {
	n := 1
	for n < cfg.Slots {
		n *= 2
	}
	if cfg.Slots == 0 {
		n = 1 << 16
	}
	if cfg.IPv4 == 0 {
		cfg.IPv4 = 24
	}
	if cfg.IPv6 == 0 {
		cfg.IPv6 = 56
	}
	return &limiter{cfg: cfg, seed: maphash.MakeSeed(), slots: make([]bucket, n)}
}

// limit takes a token for an answer of one class about owner to the network of sender. now is in milliseconds of any steady clock.
// The bucket holds one second's worth of tokens.
func (l *limiter) limit(sender netip.Addr, owner []byte, c class, now uint64) verdict {
	if l.cfg.PerSecond == 0 || l.exempt(sender) {
		return pass
	}
	b := l.account(sender, owner, c)
	const second = 1000 << 10
	cost, t := second/uint64(l.cfg.PerSecond), now<<10+second
	for { // whoever fails to swap has been overtaken by one who did not
		used := b.used.Load()
		next := max(used, t-second) + cost
		if next > t {
			break
		}
		if b.used.CompareAndSwap(used, next) {
			return pass
		}
	}
	if l.cfg.Slip > 0 && b.over.Add(1)%l.cfg.Slip == 0 {
		return slip
	}
	return drop
}

// account is the bucket of answers of one class about owner to the network of sender.
func (l *limiter) account(sender netip.Addr, owner []byte, c class) *bucket {
	var sum [17]byte
	a := l.network(sender).As16()
	copy(sum[:], a[:])
	sum[16] = byte(c)
	key := maphash.Bytes(l.seed, owner) + maphash.Bytes(l.seed, sum[:])
	return &l.slots[key&uint64(len(l.slots)-1)]
}

func (l *limiter) exempt(sender netip.Addr) bool {
	for i := range l.cfg.Exempt {
		if l.cfg.Exempt[i].Contains(sender) {
			return true
		}
	}
	return false
}

// network is what counts as one sender: by default its /24 or /56.
func (l *limiter) network(a netip.Addr) netip.Addr {
	bits := l.cfg.IPv4
	if a.Is6() {
		bits = l.cfg.IPv6
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return a
	}
	return p.Addr()
}
