package server

import (
	"sync/atomic"
	"time"

	"github.com/edgesteer/edgesteer/zones/wire"
)

// stat numbers a counter of a handler. The sets are closed: nothing of a query becomes a label. What is known of a message at one moment is one cell of a table, so that it takes
// one addition; who scrapes adds up rows and columns.
type stat uint16

const (
	statDropped      stat = iota // not a query: no answer
	statTruncated                // TC set
	statSlipped                  // rate limited: sent truncated
	statLimited                  // rate limited: not sent
	statECSUnlocated             // placed by the sender
	statShedIgnored
	statTransfer // AXFR or IXFR begun
	statSpent    // ns that the timed messages took together

	statRung // + ladder rung of a steered answer that named nobody; of those that did see unitStats
)

const (
	statTime   = statRung + rungs                            // + bucket of the time that a message took
	statAsked  = statTime + timeBuckets                      // + askedCell
	statAnswer = statAsked + typeClasses*subnets*cookieKinds // + answerCell
	statsFixed = int(statAnswer) + senders*int(kinds)*rcodeClasses
)

// askedCell is what a message carried.
func askedCell(qtype uint16, sub subnet, c cookieKind) stat {
	return statAsked + (typeClass(qtype)*subnets+stat(sub))*cookieKinds + stat(c)
}

// answerCell is what was answered to whom.
func answerCell(p *Peer, k kind, rcode uint16) stat {
	sender := stat(p.Transport) * 2
	if p.Addr.Addr().Is6() {
		sender++
	}
	return statAnswer + (sender*stat(kinds)+stat(k))*rcodeClasses + rcodeClass(rcode)
}

// senders are the transports, each by family.
const senders = 2 * Transports

// subnet is the client subnet option of a query.
type subnet uint8

const (
	subnetNone subnet = iota
	subnet4
	subnet6
	subnetZero // source length 0
	subnets    = 4
)

var subnetNames = [subnets]string{"none", "ipv4", "ipv6", "zero"}

// cookieKind is the cookie of a query.
type cookieKind uint8

const (
	cookieNone   cookieKind = iota
	cookieClient            // a client part only
	cookieValid
	cookieInvalid
	cookieIgnored // cookies are not offered
	cookieKinds   = 5
)

var cookieNames = [cookieKinds]string{"none", "client", "valid", "invalid", "ignored"}

const typeClasses = 14

// typeNames are the closed set of query types that are counted apart.
var typeNames = [typeClasses]string{"other", "A", "AAAA", "CNAME", "HTTPS", "SVCB", "NS", "SOA", "TXT", "MX", "PTR", "SRV", "DS", "ANY"}

// typeTable has the places in typeNames of the types below 256.
var typeTable = [256]uint8{
	wire.TypeA: 1, wire.TypeAAAA: 2, wire.TypeCNAME: 3, wire.TypeHTTPS: 4, wire.TypeSVCB: 5, wire.TypeNS: 6, wire.TypeSOA: 7, wire.TypeTXT: 8, wire.TypeMX: 9, wire.TypePTR: 10, wire.TypeSRV: 11,
	wire.TypeDS: 12, wire.TypeANY: 13,
}

func typeClass(t uint16) stat {
	if t >= uint16(len(typeTable)) {
		return 0
	}
	return stat(typeTable[t])
}

const rcodeClasses = 12

// rcodeNames are the closed set of response codes that are counted apart.
var rcodeNames = [rcodeClasses]string{"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "NOTAUTH", "NOTZONE", "BADVERS", "BADCOOKIE", "other"}

// rcodeTable has the places in rcodeNames of the codes below 32.
var rcodeTable = [32]uint8{
	0, 1, 2, 3, 4, 5, 6, rcodeOther, rcodeOther, 7, 8, rcodeOther, rcodeOther, rcodeOther, rcodeOther, rcodeOther,
	9, rcodeOther, rcodeOther, rcodeOther, rcodeOther, rcodeOther, rcodeOther, 10, rcodeOther, rcodeOther, rcodeOther, rcodeOther, rcodeOther, rcodeOther, rcodeOther, rcodeOther,
}

const rcodeOther = rcodeClasses - 1

func rcodeClass(rcode uint16) stat {
	if rcode >= uint16(len(rcodeTable)) {
		return rcodeOther
	}
	return stat(rcodeTable[rcode])
}

const (
	// timeEvery says which messages are timed: one of so many of each worker. It is a prime, so that no pattern of clients keeps in step with it.
	timeEvery   = 1021
	timeBuckets = 13 // those of timeBounds, and what took longer
)

// timeBounds are the upper bounds of the buckets of times.
var timeBounds = [timeBuckets - 1]time.Duration{
	250, 500, time.Microsecond, 2500, 5 * time.Microsecond, 10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond,
	250 * time.Microsecond, time.Millisecond, 10 * time.Millisecond,
}

// stats are the counters of one handler. The handler counts in plain words and adds what changed to the shared totals once per batch, so that a query costs no locked
// instruction and a batch a handful. The totals are read by whoever scrapes.
type stats struct {
	delta   [statsFixed]uint32
	touched [statsFixed]stat // first those whose delta is not 0
	changed int              // so many
	off     bool             // nothing is counted
	untimed int32            // messages until the next that is timed
	began   time.Time
	_       [64]byte
	total   [statsFixed]atomic.Uint64
	units   atomic.Pointer[unitStats]
	_       [64]byte
}

func newStats(off bool) *stats {
	return &stats{off: off}
}

func (s *stats) add(c stat) { s.addMany(c, 1) }

func (s *stats) addMany(c stat, n uint32) {
	if s.off {
		return
	}
	if s.delta[c] == 0 {
		s.touched[s.changed] = c
		s.changed++
	}
	s.delta[c] += n
}

// start begins the time of a message if that is one to be timed. A message that gets no answer has no end: the next one is timed in its place.
func (s *stats) start() {
	if s.untimed--; s.untimed < 0 && !s.off {
		s.startTimer()
	}
}

// end ends the time of a message that is answered.
func (s *stats) end() {
	if s.untimed < 0 && !s.off {
		s.stopTimer()
	}
}

// startTimer and stopTimer are rare, and kept out of the code of every message.
//
//go:noinline
func (s *stats) startTimer() { s.began = time.Now() }

//go:noinline
func (s *stats) stopTimer() {
	d := time.Since(s.began)
	bucket := stat(0)
	for int(bucket) < len(timeBounds) && d > timeBounds[bucket] {
		bucket++
	}
	s.add(statTime + bucket)
	s.addMany(statSpent, uint32(max(1, min(d, time.Second))))
	s.untimed = timeEvery - 1
}

// flush adds the batch's counts to the totals.
func (s *stats) flush() {
	for _, c := range s.touched[:s.changed] {
		s.total[c].Add(uint64(s.delta[c]))
		s.delta[c] = 0
	}
	s.changed = 0
	s.units.Load().flush()
}
