package transfer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// Bounds of what an SOA may say, and paces of our own.
const (
	minTimer   = 10 * time.Second    // of refresh and retry: a zone that says 0 would be asked for without end
	maxTimer   = 28 * 24 * time.Hour // of refresh and retry
	firstRetry = 5 * time.Second     // while there is no copy, and no SOA to go by; doubled each time
	lastRetry  = 5 * time.Minute
	spacing    = time.Second // between two checks of one zone, however many NOTIFYs come
	parallel   = 8           // checks and transfers of all zones at the same time
)

// Of a zone with at least shrinkFrom records, a new version with less than one in shrinkTo of them is not believed.
const (
	shrinkFrom = 50
	shrinkTo   = 10
)

// InConfig is what secondary zones need.
type InConfig struct {
	Zones []config.Zone // those with primaries are kept
	Keys  *Keys         // nil: none
	Dir   string        // where copies are kept; "": nowhere
	// Changed is told of a new version of a zone, and with nil that it has expired. It returns when the zone is served, or the reason why it cannot be: then the version before
	// stays. It is called from the goroutines of Run; not nil.
	Changed    func(apex []byte, z *zones.Zone) error
	Dialer     Dialer                // nil: a plain net.Dialer
	Log        *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are nowhere to be seen
}

// In keeps secondary zones: it has them transferred from their primaries, by the timers of their SOA (RFC 1034 section 4.3.5) and by NOTIFY (RFC 1996), keeps copies on disk, and
// says when one has expired. All methods may be called from any goroutine.
type In struct {
	changed func([]byte, *zones.Zone) error
	fetch   func(ctx context.Context, p *primary, apex []byte, have *zones.Zone) (*zones.Zone, error)
	store   store
	log     *slog.Logger
	metrics *inMetrics
	slots   chan struct{} // a place for each check that runs

	mu    sync.Mutex
	keys  *Keys
	zones map[string]*secondary // wire form, lower case
	ctx   context.Context       // of Run; nil before
	tasks sync.WaitGroup
}

// secondary is one zone that comes from elsewhere.
type secondary struct {
	apex   []byte
	name   string
	wake   chan struct{} // a NOTIFY has come, or the configuration has changed
	cancel context.CancelFunc

	// Guarded by In.mu.
	primaries []primary
	prefer    int         // the primary to ask first: the last good one, or that which sent a NOTIFY
	copy      *zones.Zone // the last good version, static records only; nil: none so far
	checked   time.Time   // when a primary last said that it is current
	serving   bool        // it has not expired

	last     time.Time // start of the last check
	failures int       // in a row
}

// NewIn starts from the copies on disk. Nothing is asked of primaries before Run.
func NewIn(c InConfig) (*In, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Dialer == nil {
		c.Dialer = &net.Dialer{}
	}
	f := &fetcher{dial: c.Dialer, now: time.Now}
	in := &In{
		changed: c.Changed, fetch: f.fetch, store: store{dir: c.Dir}, log: c.Log,
		slots: make(chan struct{}, parallel), keys: c.Keys, zones: map[string]*secondary{},
	}
	in.metrics = newInMetrics(in)
	in.Configure(c.Zones, c.Keys)
	for _, s := range in.zones {
		in.restore(s)
	}
	if c.Registerer != nil {
		if err := c.Registerer.Register(in.metrics); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// Configure takes the zones and keys of a configuration that has been loaded again. Zones that are no longer secondary are forgotten, though not their files; new ones are announced
// by Changed.
func (in *In) Configure(list []config.Zone, keys *Keys) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.keys = keys
	wanted := map[string]bool{}
	for i := range list {
		apex := parseName(list[i].Name)
		if len(list[i].Primaries) == 0 || apex == nil {
			continue
		}
		wanted[string(apex)] = true
		primaries := primariesOf(&list[i], keys)
		s := in.zones[string(apex)]
		if s == nil {
			s = &secondary{apex: apex, name: wire.NameString(apex), wake: make(chan struct{}, 1)}
			in.zones[string(apex)] = s
			s.primaries = primaries
			in.start(s)
			continue
		}
		if !samePrimaries(s.primaries, primaries) {
			s.prefer = 0
			s.poke()
		}
		s.primaries = primaries
	}
	for apex, s := range in.zones {
		if !wanted[apex] {
			if s.cancel != nil {
				s.cancel()
			}
			delete(in.zones, apex)
		}
	}
}

func primariesOf(z *config.Zone, keys *Keys) []primary {
	list := make([]primary, len(z.Primaries))
	for i, p := range z.Primaries {
		list[i] = primary{addr: p.Address, keyName: p.Key, timeout: p.Timeout}
		if p.Key != "" {
			list[i].key = keys.named(p.Key)
		}
		if list[i].timeout == 0 {
			list[i].timeout = 30 * time.Second
		}
	}
	return list
}

func samePrimaries(a, b []primary) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i].key, b[i].key
		if a[i].addr != b[i].addr || a[i].keyName != b[i].keyName || a[i].timeout != b[i].timeout || (x == nil) != (y == nil) ||
			x != nil && !reflect.DeepEqual(x.secret, y.secret) {
			return false
		}
	}
	return true
}

// poke has a zone checked soon.
func (s *secondary) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // one is waiting already
	}
}

// Zones are the secondary zones that can be served now, static records only.
func (in *In) Zones() (list []*zones.Zone) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, s := range in.zones {
		if s.serving {
			list = append(list, s.copy)
		}
	}
	return list
}

// Run keeps the zones until ctx is done, and returns when nothing runs any more.
func (in *In) Run(ctx context.Context) {
	in.mu.Lock()
	in.ctx = ctx
	for _, s := range in.zones {
		in.start(s)
	}
	in.mu.Unlock()
	<-ctx.Done()
	in.mu.Lock()
	in.ctx = nil
	in.mu.Unlock()
	in.tasks.Wait()
}

// start begins to keep a zone if Run runs. The caller holds mu.
func (in *In) start(s *secondary) {
	if in.ctx == nil {
		return
	}
	ctx, cancel := context.WithCancel(in.ctx)
	s.cancel = cancel
	in.tasks.Go(func() { in.keep(ctx, s) })
}

// keep looks after one zone until ctx is done.
func (in *In) keep(ctx context.Context, s *secondary) {
	if s.copy == nil && in.restore(s) { // configured after the start
		if err := in.changed(s.apex, s.copy); err != nil {
			in.log.Error("serving secondary zone", "zone", s.name, "err", err)
		}
	}
	next := time.Now()
	for {
		at := next
		if end, ok := in.expiry(s); ok && end.Before(at) {
			at = end
		}
		timer := time.NewTimer(time.Until(at))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.wake:
			timer.Stop()
			if soon := s.last.Add(spacing); soon.Before(next) {
				next = soon
			}
		case <-timer.C:
		}
		in.expire(s)
		if now := time.Now(); now.Before(next) {
			continue
		}
		s.last = time.Now()
		good := in.check(ctx, s)
		next = s.last.Add(in.pause(s, good))
	}
}

// check asks the primaries in turn until one has the zone, and reports whether one had.
func (in *In) check(ctx context.Context, s *secondary) bool {
	select {
	case in.slots <- struct{}{}:
		defer func() { <-in.slots }()
	case <-ctx.Done():
		return false
	}
	in.mu.Lock()
	primaries, prefer, have := s.primaries, s.prefer, s.copy
	in.mu.Unlock()
	for i := range primaries {
		n := (prefer + i) % len(primaries)
		p := &primaries[n]
		begun := time.Now()
		z, err := in.fetch(ctx, p, s.apex, have)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			err = in.take(s, z, begun)
		}
		in.metrics.count(z, err)
		if err != nil {
			in.log.Warn("secondary zone is not refreshed", "zone", s.name, "primary", p.addr, "err", err)
			continue
		}
		if z != nil {
			in.log.Info("secondary zone transferred", "zone", s.name, "primary", p.addr, "serial", z.Serial(), "names", z.Names(), "took", time.Since(begun).Round(time.Millisecond))
		}
		in.mu.Lock()
		s.prefer = n
		in.mu.Unlock()
		return true
	}
	return false
}

// refusal is a version of a zone that is not taken.
type refusal struct{ error }

// take makes a version that a primary has sent the zone that is served and kept; nil: that at hand is current.
func (in *In) take(s *secondary, z *zones.Zone, asked time.Time) error {
	in.mu.Lock()
	have, serving := s.copy, s.serving
	in.mu.Unlock()
	now := z
	if z == nil {
		now = have
	} else if old, n := records(have), records(z); serving && old >= shrinkFrom && n*shrinkTo < old && in.store.has(s.apex) {
		return refusal{fmt.Errorf("serial %d has %d records, the version at hand %d: not believed before that expires; to take it sooner remove %s", z.Serial(), n, old, in.store.path(s.apex))}
	}
	if z != nil || !serving {
		if err := in.changed(s.apex, now); err != nil {
			return refusal{fmt.Errorf("serial %d cannot be served: %w", now.Serial(), err)}
		}
	}
	in.mu.Lock()
	s.copy, s.checked, s.serving = now, asked, true
	in.mu.Unlock()
	var err error
	if z == nil {
		err = in.store.touch(s.apex, asked)
	}
	if z != nil || errors.Is(err, fs.ErrNotExist) {
		err = in.store.save(now, asked)
	}
	if err != nil { // it is served all the same
		in.metrics.storeErrors.Inc()
		in.log.Error("keeping a copy of secondary zone", "zone", s.name, "err", err)
	}
	return nil
}

// records is the number of static records of a zone; nil has none.
func records(z *zones.Zone) (n int) {
	if z != nil {
		for _, s := range z.RRsets() {
			n += s.Count
		}
	}
	return n
}

// restore takes the copy on disk, and reports whether it can be served.
func (in *In) restore(s *secondary) bool {
	z, checked, err := in.store.load(s.apex)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			in.metrics.storeErrors.Inc()
			in.log.Error("copy of secondary zone cannot be used", "zone", s.name, "err", err)
		}
		return false
	}
	now := time.Now()
	if checked.After(now) { // a clock was wrong
		checked = now
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	s.copy, s.checked = z, checked
	s.serving = now.Before(checked.Add(timersOf(z).expire))
	if !s.serving {
		in.log.Error("secondary zone has expired", "zone", s.name, "checked", checked)
	}
	return s.serving
}

// expiry is when a zone that is served expires.
func (in *In) expiry(s *secondary) (time.Time, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !s.serving {
		return time.Time{}, false
	}
	return s.checked.Add(timersOf(s.copy).expire), true
}

// expire takes a zone out of service when its time has come.
func (in *In) expire(s *secondary) {
	if end, ok := in.expiry(s); !ok || time.Now().Before(end) {
		return
	}
	in.mu.Lock()
	s.serving = false
	checked := s.checked
	in.mu.Unlock()
	in.metrics.expired.Inc()
	in.log.Error("secondary zone has expired", "zone", s.name, "checked", checked)
	if err := in.changed(s.apex, nil); err != nil {
		in.log.Error("taking secondary zone out of service", "zone", s.name, "err", err)
	}
}

// pause is how long to wait after a check. A tenth of it is left to chance, so that zones and nodes do not march in step.
func (in *In) pause(s *secondary, good bool) time.Duration {
	in.mu.Lock()
	defer in.mu.Unlock()
	d := min(firstRetry<<min(s.failures, 10), lastRetry)
	if s.copy != nil {
		t := timersOf(s.copy)
		d = t.retry
		if good {
			d = t.refresh
		}
	}
	s.failures++
	if good {
		s.failures = 0
	}
	return d - rand.N(d/10)
}

// timers are those of an SOA, within bounds.
type timers struct{ refresh, retry, expire time.Duration }

func timersOf(z *zones.Zone) timers {
	rdata := z.SOA().First()
	tail := rdata[len(rdata)-20:]
	at := func(i int) time.Duration { return time.Duration(binary.BigEndian.Uint32(tail[i:])) * time.Second }
	t := timers{refresh: min(max(at(4), minTimer), maxTimer), retry: min(max(at(8), minTimer), maxTimer)}
	t.expire = max(at(12), t.refresh+t.retry) // one that lapses before it can be refreshed would come and go
	return t
}

// Notify takes a NOTIFY for a zone (wire form, lower case) and gives the rcode to answer with. It must come from a primary of the zone and bear that one's key, if it has one
// (RFC 1996 section 3.10); then the zone is checked soon.
func (in *In) Notify(msg, name []byte, from netip.AddrPort) uint16 {
	var q wire.Query
	if q.Parse(msg) != wire.OK {
		return wire.RCodeFormErr
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	s := in.zones[string(name)]
	switch {
	case s == nil:
		in.metrics.notify(notifyZone)
		return wire.RCodeNotAuth
	case q.Type != wire.TypeSOA: // RFC 1996 section 3.2: the only type so far
		in.metrics.notify(notifyType)
		return wire.RCodeNotImp
	}
	var signer *Signer
	if q.TSIG != 0 {
		var rcode uint16
		if signer, rcode = in.keys.verify(&q, time.Now); rcode != wire.RCodeNoError {
			in.metrics.notify(notifyKey)
			return rcode
		}
	}
	known := false
	for i := range s.primaries {
		p := &s.primaries[i]
		if p.addr.Addr().Unmap() != from.Addr().Unmap() {
			continue
		}
		known = true
		if p.keyName == "" || p.key != nil && signer != nil && signer.key == p.key {
			s.prefer = i
			s.poke()
			in.metrics.notify(notifyTaken)
			return wire.RCodeNoError
		}
	}
	if known {
		in.metrics.notify(notifyKey)
	} else {
		in.metrics.notify(notifyAddress)
	}
	return wire.RCodeRefused
}
