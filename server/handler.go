package server

import (
	crand "crypto/rand"
	"encoding/binary"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/edgesteer/edgesteer/filters"
	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/server/dnstap"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// HandlerConfig is what all handlers of a server have in common. It must not be changed after the first handler is made.
type HandlerConfig struct {
	Publisher *Publisher // where the current snapshot is; something must have been published before the first message

	MaxUDP        int            // octets of the largest UDP answer, advertised and sent, 512..4096; 0: 1232
	MaxUnverified int            // octets of the largest UDP answer to a sender without a valid cookie; larger ones are truncated; 0: MaxUDP
	CookieSecrets []CookieSecret // the first signs, all verify; empty: cookies are not offered
	RRL           RateLimit
	NSID          []byte // the name of this server for RFC 5001; empty: not told
	Hostname      string // hostname.bind and id.server in class CH; empty: refused
	Version       string // version.bind and version.server in class CH; empty: refused

	// Uncounted keeps no counters at all, but for those of the mix: to measure what counting costs.
	Uncounted bool
	// Mix samples who asks; nil: nobody wants to know.
	Mix *Mix
	// Tap is where the query log goes; nil: there is none.
	Tap *dnstap.Output
	// Messages serves what is no plain question: zone transfers and NOTIFY. nil: both are refused.
	Messages Messages
	// Now is the clock of cookies and rate limits; nil: time.Now.
	Now func() time.Time
}

// Messages is who serves zone transfers and change notices, and knows the keys of signed messages (zones/transfer). It may allocate and take its time: it is asked only for
// such messages, which are rare.
type Messages interface {
	// Verify checks the TSIG record of a message (RFC 8945 section 5.2). The rcode is NOERROR, or that to refuse the message with; either way the Signer ends the answer. It may
	// be nil when there is an rcode: then the answer has no TSIG record.
	Verify(msg []byte) (Signer, uint16)
	// Notify takes a NOTIFY (RFC 1996) and gives the rcode to answer with.
	Notify(msg []byte, zone []byte, peer *Peer) (rcode uint16)
	// Transfer takes an AXFR or IXFR on a stream transport. It gives an rcode to refuse with, or a function that sends the messages of the transfer.
	Transfer(msg []byte, zone *zones.Zone, peer *Peer) (Transfer, uint16)
}

// Signer ends the answer to one signed message with a TSIG record.
type Signer interface {
	// Size is how many octets Sign appends.
	Size() int
	// Sign appends the record to a whole answer, in place if its capacity allows.
	Sign(answer []byte) []byte
}

// Transfer writes the messages of a zone transfer. It runs after the handler that made it has gone on to other queries, so it holds all that it needs. send writes one message
// of at most 65,535 octets before it returns; when it fails, Transfer returns its error.
type Transfer func(send func(msg []byte) error) error

// Handlers makes handlers and knows all that it made, for whoever reads the counters.
type Handlers struct {
	cfg     HandlerConfig
	limiter *limiter
	cookies cookies

	mu  sync.Mutex
	all []*stats
}

// NewHandlers checks nothing: the configuration was checked where it was read.
func NewHandlers(cfg HandlerConfig) *Handlers {
	if cfg.MaxUDP == 0 {
		cfg.MaxUDP = wire.DefaultUDPSize
	}
	if cfg.MaxUnverified == 0 {
		cfg.MaxUnverified = cfg.MaxUDP
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Handlers{cfg: cfg, limiter: newLimiter(cfg.RRL), cookies: cookies{cfg.CookieSecrets}}
}

// New makes a handler for one more worker. Handlers are few and live as long as their worker does.
func (hs *Handlers) New() *Handler {
	h := &Handler{seed: maphash.MakeSeed(), cfg: &hs.cfg, limiter: hs.limiter, cookies: &hs.cookies, stats: newStats(hs.cfg.Uncounted)}
	if hs.cfg.Mix != nil {
		h.samples = hs.cfg.Mix.ring()
	}
	if hs.cfg.Tap != nil {
		h.tap = hs.cfg.Tap.Tap()
	}
	var seed [16]byte
	crand.Read(seed[:]) // never fails
	h.exec.Rand = rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:])))
	h.Refresh()
	hs.mu.Lock()
	hs.all = append(hs.all, h.stats)
	hs.mu.Unlock()
	return h
}

// Handler answers messages. It belongs to one worker and is not safe for concurrent use: everything a query needs is in its scratch space, so that answering allocates
// nothing.
type Handler struct {
	cfg     *HandlerConfig
	limiter *limiter
	cookies *cookies
	stats   *stats
	units   *unitStats  // those of the stats, of the fleet that is served
	samples *ring       // nil: nobody wants to know
	tap     *dnstap.Tap // nil: no query log

	snap  *Snapshot // of this batch
	clock int64     // of this batch, in ms

	// Of the message being answered.
	peer     *Peer
	buf      []byte // where the answer goes
	q        wire.Query
	b        wire.Builder
	verified bool   // the sender's address is proven: a valid cookie, or a stream
	kind     kind   // of the answer
	account  []byte // what rate limiting books the answer on, besides the sender
	rcode    uint16
	transfer Transfer
	signer   Signer // nil but for messages with TSIG

	recent zones.Recent
	exec   filters.Exec
	client geo.Client
	trace  *recorder // nil but for explain
	cookie [fullCookieLen]byte
	names  [2][wire.MaxName]byte // of renamed names (DNAME), in turn
	seed   maphash.Seed
	way    [maxLinks + 1]uint64 // hashes of the names that aliases led to
	dnames [maxLinks + 1]uint64 // hashes of the owners of DNAMEs in the answer
}

// Refresh takes the current snapshot and the time. A worker calls it before each batch of messages, so that one atomic load serves many queries, and now and then when it is
// idle, so that old snapshots can go.
func (h *Handler) Refresh() {
	old := h.snap
	h.snap = h.cfg.Publisher.Snapshot()
	if old != nil && (old.Zones != h.snap.Zones || old.Atlas != h.snap.Atlas) {
		h.forget()
	}
	if f := h.snap.View.Fleet; h.units == nil || h.units.fleet != f {
		h.units = newUnitStats(f, h.units)
		h.stats.units.Store(h.units)
	}
	h.clock = h.cfg.Now().UnixMilli()
}

// forget lets go of all that the last messages were answered from.
func (h *Handler) forget() {
	h.recent, h.exec, h.account = zones.Recent{}, filters.Exec{Rand: h.exec.Rand}, nil
	h.b.OPT = wire.OPT{}
}

// Done makes visible what the batch has counted. A worker calls it after each batch.
func (h *Handler) Done() {
	h.stats.flush()
	h.samples.flush()
	if h.tap != nil {
		h.tap.Flush()
	}
}

// Transfer gives, once, what the last Handle began: a zone transfer that the stream's owner must run instead of sending an answer; nil if there is none.
func (h *Handler) Transfer() Transfer {
	t := h.transfer
	h.transfer = nil
	return t
}

// kind is what an answer was, for counters and rate limits.
type kind uint8

const (
	kindStatic kind = iota
	kindSteered
	kindNoData
	kindNXDomain
	kindReferral
	kindRefused
	kindError // FORMERR, NOTIMP, BADVERS, SERVFAIL...
	kindChaos
	kindOther // NOTIFY, transfers
	kinds
)

var kindNames = [kinds]string{"static", "steered", "nodata", "nxdomain", "referral", "refused", "error", "chaos", "other"}
