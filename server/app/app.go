// Package app puts a server together: it is the one place that knows every other package.
//
// [New] loads a configuration and builds everything from it in one straight function; [App.Start] listens; [App.Reload] loads again, and changes nothing if it fails. The
// rebuild step, the single writer of the published snapshot, is in rebuild.go: verdicts, loads, statements, zones and location databases all join there.
//
// What it is not: it decides nothing about answers, health or drains; the packages that it joins do.
package app

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/pops/gossip"
	"github.com/edgesteer/edgesteer/pops/health"
	loads "github.com/edgesteer/edgesteer/pops/load"
	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/server/admin"
	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/server/dnstap"
	"github.com/edgesteer/edgesteer/zones/transfer"
)

// Options are what is not in the configuration.
type Options struct {
	Log     *slog.Logger     // nil: nothing is logged
	Version string           // of the program, for version.bind and status
	Listen  []string         // addresses for UDP and TCP instead of the configured ones
	Admin   []string         // addresses for the admin API instead of the configured ones
	Bound   []net.Listener   // where the admin API listens too; nil: none
	Wall    func() time.Time // this machine's time of day; nil: time.Now
	// Gossip changes what the fleet is made of, such as the transport, for tests with a network in memory; nil: nothing.
	Gossip func(*gossip.Config)
	// TakeOver has Start take over from the process of the same node that serves now, if there is one, without the loss of a query (Linux).
	TakeOver bool
}

// App is a server, with all its parts.
type App struct {
	opts      Options
	log       *slog.Logger
	registry  *prometheus.Registry // metrics of the data path, and of the whole
	control   *prometheus.Registry // metrics of one life of the control path, which shows those of registry too
	publisher server.Publisher
	mix       *server.Mix
	handlers  *server.Handlers
	listeners *server.Listeners
	clock     *drain.Clock          // fleet time; nil before Start
	ledger    *drain.Ledger         // nil before Start
	fleet     atomic.Pointer[fleet] // the other nodes; nil without [cluster] and before Start
	tap       *dnstap.Output        // nil without [dnstap]
	out       *transfer.Out
	in        *transfer.In
	health    *health.Monitor                   // nil before Start
	loads     *loads.Store                      // nil before Start
	held      atomic.Pointer[map[string]string] // targets that automation may not drain, and why
	ladder    ladder
	drills    *drills // nil before Start
	metrics   *metrics
	admin     *admin.Server
	started   time.Time
	answered  struct { // the last shares of PoPs
		sync.Mutex
		answers  admin.Answers
		snapshot uint64
		at       time.Time
	}
	stops [stages][]func(context.Context) // each in the order of starting, run backwards
	door  *door                           // where another process can take over; nil before Start, and where it cannot
	gone  chan int                        // gets the id of the process that took over, is closed then

	reloading sync.Mutex // held by who loads, for as long as that takes
	mu        sync.Mutex // held by whoever changes what follows, never for long
	parts     *parts
	garbage   chan struct{}        // gets something when there is much, see release
	loaded    map[string]time.Time // when the present version of a zone was loaded
}

// New loads what the configuration names and builds the server. Nothing listens yet. The error is config.Problems when the configuration cannot be served; warnings are
// logged.
func New(cfg *config.Config, o Options) (*App, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := override(cfg, &o); err != nil {
		return nil, err
	}
	a := &App{opts: o, log: o.Log, registry: prometheus.NewRegistry(), gone: make(chan int, 1), garbage: make(chan struct{}, 1)}
	a.metrics = newMetrics(a)
	var problems []config.Problem
	copies, err := a.newTransfers(cfg)
	if err != nil {
		return nil, err
	}
	a.parts, problems = load(cfg, copies, nil)
	if a.parts == nil {
		return nil, config.Problems(problems)
	}
	a.configureTransfers(a.parts)
	logProblems(a.log, problems)
	debug.FreeOSMemory() // compiling leaves several times of what stays
	now := a.now()
	a.started = now
	a.metrics.load(problems, true, time.Now())
	a.noteZones(nil, now)
	a.mix = server.NewMix(&a.publisher, now)
	if err := a.rebuild(now); err != nil {
		return nil, err
	}
	a.tap = a.newTap(cfg)
	hc, err := a.handlerConfig(cfg)
	if err != nil {
		return nil, err
	}
	a.handlers = server.NewHandlers(hc)
	for _, register := range []func() error{
		func() error { return a.handlers.Register(a.registry) },
		func() error { return a.publisher.Register(a.registry) },
		func() error { return a.mix.Register(a.registry) },
		func() error { return a.metrics.register(a.registry) },
		func() error {
			if a.tap == nil {
				return nil
			}
			return a.tap.Register(a.registry)
		},
	} {
		if err := register(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// override puts the addresses of the options into the configuration.
func override(cfg *config.Config, o *Options) error {
	if len(o.Listen) > 0 {
		cfg.Server.Listen = nil
		for _, s := range o.Listen {
			addr, err := netip.ParseAddrPort(s)
			if err != nil {
				return fmt.Errorf("address to listen on: %w", err)
			}
			cfg.Server.Listen = append(cfg.Server.Listen, addr)
		}
	}
	if len(o.Admin) > 0 {
		cfg.Admin.Listen = slices.Clone(o.Admin)
	}
	return nil
}

// stage is a part of a running server. Stages end in this order: first nobody can ask for anything new, then queries end, and last what their answers rest on.
type stage int

const (
	doors     stage = iota // admin API, automation, zone transfers
	answering              // listeners
	state                  // ledger, health, loads, the fleet, and what keeps the snapshot current
	stages    = int(iota)
)

// Start opens the ledger, listens, and returns when queries are answered. What it says is obeyed before the first answer (design: static stability).
func (a *App) Start(ctx context.Context) (err error) {
	var before *predecessor
	if a.opts.TakeOver {
		if before, err = a.takeOver(ctx); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			if before != nil && a.listeners != nil { // the sockets are the other process's too
				a.listeners.Give(ctx, func(*server.Conn, uintptr) error { return errTakenBack })
			}
			_ = a.Stop(ctx) // what went wrong is said already
			before.failed(err)
		}
	}()
	if err := a.openState(ctx, before.states()); err != nil {
		return err
	}
	if err := a.openAdmin(); err != nil {
		return err
	}
	if err := a.openListeners(before.sockets()); err != nil {
		return err
	}
	if err := before.replace(a.listeners); err != nil {
		return err
	}
	if err := a.openDoors(); err != nil {
		return err
	}
	a.openDoor()
	addrs := a.listeners.Addrs()
	a.log.Info("serving", "dns", addrs.DNS, "tls", addrs.TLS, "https", addrs.HTTPS, "zones", a.present().zones.Len())
	return nil
}

// openState opens what answers rest on. known are states that another process of this node had.
func (a *App) openState(ctx context.Context, known map[string][]byte) error {
	a.control = prometheus.NewRegistry()
	if err := a.control.Register(shown{a.registry}); err != nil {
		return err
	}
	if err := a.openLedger(); err != nil {
		return err
	}
	if err := a.newHealth(); err != nil {
		return err
	}
	if err := a.newLoads(); err != nil {
		return err
	}
	a.remember(known)
	if err := a.openFleet(ctx); err != nil {
		return err
	}
	if err := a.startHealth(ctx); err != nil {
		return err
	}
	a.background(state, a.loads.Run)
	a.background(state, a.keepCurrent)
	a.background(state, a.followFeeds)
	a.background(state, func(ctx context.Context) { release(ctx, a.garbage, debug.FreeOSMemory) })
	a.drills = a.newDrills()
	return nil
}

// openListeners answers queries, on inherited sockets as far as there are any.
func (a *App) openListeners(inherit []server.Socket) error {
	lc := a.listenConfig(a.present().cfg)
	lc.Inherit = inherit
	if a.tap != nil {
		a.background(answering, a.tap.Run)
	}
	listeners, err := server.Listen(lc, a.handlers)
	if err != nil {
		return err
	}
	a.listeners = listeners
	listeners.Start()
	a.atEnd(answering, listeners.Stop)
	return nil
}

// openDoors begins what people, automation and other servers ask of this one. The admin API is bound.
func (a *App) openDoors() error {
	a.background(doors, a.out.Run)
	a.background(doors, a.in.Run)
	if err := a.admin.Start(); err != nil {
		return err
	}
	a.background(doors, a.runAutomation)
	a.background(doors, a.runDrills)
	return nil
}

// shown are the metrics of the data path among those of a life of the control path. What is in it may change.
type shown struct{ *prometheus.Registry }

// Describe implements prometheus.Collector.
func (shown) Describe(chan<- *prometheus.Desc) {}

// atEnd has f called when a stage ends.
func (a *App) atEnd(s stage, f func(context.Context)) { a.stops[s] = append(a.stops[s], f) }

// background runs f until a stage ends.
func (a *App) background(s stage, f func(context.Context)) { a.atEnd(s, run(f)) }

// run runs f until what it gives is called.
func run(f func(context.Context)) func(context.Context) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	return func(context.Context) {
		cancel()
		<-done
	}
}

// end ends a stage, what began last first.
func (a *App) end(ctx context.Context, s stage) {
	for _, stop := range slices.Backward(a.stops[s]) {
		stop(ctx)
	}
	a.stops[s] = nil
}

// Stop ends everything that Start began. Queries that have arrived are answered; connections get until ctx is done. A process that is taking over is told that it may not.
func (a *App) Stop(ctx context.Context) error {
	a.door.shut()
	for s := range stage(stages) {
		a.end(ctx, s)
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("stopped before everything had come to its end: %w", err)
	}
	return nil
}

// Gone gets the id of the process that has taken over; then there is nothing left to do or to stop.
func (a *App) Gone() <-chan int { return a.gone }

// Addrs are the addresses for UDP and TCP, with the ports that the system chose.
func (a *App) Addrs() []netip.AddrPort { return a.listeners.Addrs().DNS }

// Reload reads the configuration again, and with it zone files, location databases and certificates. If anything is wrong that must not be served nothing changes, but that
// a broken zone file keeps only its own zone back. The problems are also logged.
//
// Loading can take long; statements, health and loads go on being obeyed meanwhile.
func (a *App) Reload() []config.Problem {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	defer a.spent() // also what was loaded in vain
	return a.reload()
}

// reload is Reload; the caller holds reloading.
func (a *App) reload() (problems []config.Problem) {
	began, prev := time.Now(), a.present()
	defer func() { a.metrics.reload(problems, a.present() != prev, began) }()
	cfg, problems := prev.cfg.Reload()
	if cfg == nil || config.Failed(problems) {
		a.log.Error("reload refused: everything stays as it was")
		logProblems(a.log, problems)
		return problems
	}
	if err := override(cfg, &a.opts); err != nil { // was fine at the start
		return append(problems, config.Problem{Message: err.Error()})
	}
	next, more := load(cfg, prev, a.said(cfg))
	problems = append(problems, more...)
	logProblems(a.log, problems)
	if next == nil {
		a.log.Error("reload refused: everything stays as it was")
		return problems
	}
	later := fixed(prev.cfg, cfg)
	logProblems(a.log, later)
	problems = append(problems, later...)
	a.configureTransfers(next)
	if err := a.replace(next); err != nil {
		return append(problems, config.Problem{File: cfg.File, Message: err.Error()})
	}
	if a.listeners != nil {
		if err := a.listeners.Reload(); err != nil {
			problems = append(problems, config.Problem{File: cfg.File, Message: err.Error(), Hint: "the old certificate stays in use"})
		}
	}
	problems = append(problems, a.reloadKeys(cfg)...)
	a.log.Info("reloaded", "version", a.publisher.Snapshot().Version, "zones", next.zones.Len())
	return problems
}

// present is what is loaded now.
func (a *App) present() *parts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.parts
}

// replace puts newly loaded parts in the place of the old ones and publishes them.
func (a *App) replace(next *parts) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, old := a.now(), a.parts.zones
	a.parts = next
	if a.health != nil {
		a.health.Reload(next.checks)
		a.loads.Reload(next.loads)
	}
	a.noteZones(old, now)
	a.spent()
	return a.rebuild(now)
}

// logProblems logs each problem on a line.
func logProblems(log *slog.Logger, problems []config.Problem) {
	for _, p := range problems {
		if p.Warning {
			log.Warn("configuration", "problem", p.String())
		} else {
			log.Error("configuration", "problem", p.String())
		}
	}
}

func (a *App) listenConfig(cfg *config.Config) server.ListenConfig {
	s := &cfg.Server
	lc := server.ListenConfig{
		DNS:     s.Listen,
		Proxies: s.ProxyProtocol,

		UDPWorkers: s.UDP.Workers, Batch: s.UDP.Batch, ReceiveBuffer: s.UDP.Buffer,
		MaxConns: s.TCP.Connections, MaxConnsPerClient: s.TCP.PerClient, MaxTransfers: s.TransfersOut,
		IdleTimeout: s.TCP.Idle, FirstTimeout: s.TCP.Timeout, MessageTimeout: s.TCP.Timeout, WriteTimeout: s.TCP.Timeout,
		Log: a.log, Metrics: a.registry,
	}
	if t := s.TLS; t != nil {
		lc.TLS, lc.CertFile, lc.KeyFile = t.Listen, cfg.Path(t.Certificate), cfg.Path(t.Key)
	}
	if t := s.HTTPS; t != nil {
		lc.HTTPS, lc.HTTPSPath, lc.HTTPSStreams = t.Listen, t.Path, t.Streams
		lc.CertFile, lc.KeyFile = cfg.Path(t.Certificate), cfg.Path(t.Key)
	}
	return lc
}

// newTap makes the query log; nil if there is none.
func (a *App) newTap(cfg *config.Config) *dnstap.Output {
	d := cfg.Dnstap
	if d == nil {
		return nil
	}
	return dnstap.New(dnstap.Config{
		Socket: cfg.Path(d.Socket), Identity: cmp.Or(d.Identity, cfg.Server.Node), Version: strings.TrimSpace("edgesteer " + a.opts.Version),
		Sample: d.Sample, Queries: d.Queries, Responses: d.Responses, Buffer: d.Buffer, Log: a.log,
	})
}

func (a *App) handlerConfig(cfg *config.Config) (server.HandlerConfig, error) {
	s := &cfg.Server
	hc := server.HandlerConfig{
		Publisher: &a.publisher, Mix: a.mix, Tap: a.tap, Messages: messages{a},
		MaxUDP: s.UDP.MaxSize, MaxUnverified: s.UDP.MaxSizeUnverified,
	}
	if s.RRL.Enabled {
		hc.RRL = server.RateLimit{PerSecond: uint32(s.RRL.Rate), Slip: uint32(s.RRL.Slip), Slots: s.RRL.Table, IPv4: s.RRL.IPv4, IPv6: s.RRL.IPv6, Exempt: s.RRL.Exempt}
	}
	if s.NSID {
		hc.NSID = []byte(s.Node)
	}
	if s.Chaos {
		hc.Hostname = s.Node
		hc.Version = "edgesteer"
		if !s.HideVersion && a.opts.Version != "" {
			hc.Version += " " + a.opts.Version
		}
	}
	for _, text := range s.CookieSecrets {
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != 16 {
			return hc, errors.New("server.cookie_secrets: a secret is 32 hex digits")
		}
		hc.CookieSecrets = append(hc.CookieSecrets, server.CookieSecret(b))
	}
	if len(hc.CookieSecrets) == 0 {
		hc.CookieSecrets = []server.CookieSecret{server.NewCookieSecret()}
	}
	return hc, nil
}
