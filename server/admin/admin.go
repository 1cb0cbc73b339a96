// Package admin is the HTTP side of the control path: it finds out who asks and what they may, reads the request, hands it to the ledger of statements, and answers in the words of
// server/api.
//
// Every request goes the same way: call.go admits it, routes.go says which operation it is and for whom, and the operation stands in the file of its noun. Through a unix socket, whose file
// mode decides who may open it, no credentials are needed; over TCP a bearer token or a client certificate is, on loopback too.
//
// What it is not: it decides nothing about traffic. Whether a statement is accepted is the ledger's business (pops/drain), what is served is the snapshot's (server), and both are put
// together in server/app.
package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
)

// Config is what New needs. Fields without a word about nil are required.
type Config struct {
	Settings  config.Admin              // as server/config has loaded and checked them
	Listeners []net.Listener            // bound already, served like the addresses in Settings and closed by the server; nil: none
	Path      func(string) string       // makes the paths in Settings usable from here; nil: they are
	Node      api.Node                  // who answers
	Publisher *server.Publisher         // what is served
	Ledger    *drain.Ledger             // what was said
	Places    func() map[string]api.PoP // where PoPs are, by name: the fields from Country to Longitude; nil: nowhere
	Answers   func() Answers            // what the live query mix says; nil: unknown
	Counts    func() Counts             // what was answered since the start; nil: it is not counted
	Explain   func(api.ExplainQuery) (*api.Explanation, error)
	Zones     func() []api.ZoneInfo // by name
	Reload    func() *api.Reload    // reads zones anew
	Loads     Loads                 // who keeps loads and feeds; nil: nobody
	// Health is what is known of the endpoints that are checked; nil: none is.
	Health func() []api.EndpointHealth
	// Probe checks an endpoint, POP/SERVICE, from all nodes, or with a name from that one; an error says that it is not checked, or that there is no such node. nil: none is.
	Probe func(ctx context.Context, target, node string) ([]api.ProbeResult, error)
	// Automation is the rules for what Alertmanager asks for a target. nil: it is done, and undone at once.
	Automation func(pops.Target) Automation
	// Drills are the practice drains, as configured. nil: there are none.
	Drills func() []api.Drill
	// Drill is the request for one of them now, for a time that includes its ramps, 0: as long as its window; an error says that there is none of the target, or that the time is too short. Author, reason and
	// key are not in it. nil: there are none.
	Drill func(t pops.Target, last time.Duration) (drain.Request, error)
	// Alerted is told of every alert that comes to the webhook, whatever it is about. nil: nobody wants to know.
	Alerted func(name string, firing bool)
	// Rebuild makes what the ledger says what is served on this node. It returns when every answer obeys; an error says that what was served before still is. nil: the ledger's
	// word is enough.
	Rebuild func() error
	// Wait returns what is known of each node, when all reachable ones obey the present ledger or when the context ends. nil: there is this node only, and what it accepts it obeys.
	Wait     func(context.Context) []api.Applied
	Peers    func() []api.Peer    // all nodes of the fleet, by name; nil: there is this node only
	Warnings func() []string      // what a person should look at, beside what this package sees itself; nil: nothing
	NotReady func() []string      // what is missing to serve what should be; nil: nothing
	Registry *prometheus.Registry // what GET /metrics gives; this package's own metrics are added
	Log      *slog.Logger         // nil: nothing is logged
}

// Automation is the rules for what is asked by automation from outside.
type Automation struct {
	Enabled bool          // false: nothing is done
	Hold    time.Duration // for how long after the end of an outage its drain stays: longer after each flap
	Back    drain.Way     // how the share comes back from there
}

// Answers is who is answered what, as the live query mix has it.
type Answers struct {
	Queries float64            // steered queries a second
	PoPs    map[string]float64 // percent of all steered answers that name a PoP
}

// Server serves the admin API.
type Server struct {
	cfg       Config
	keys      *keys
	hosts     hosts
	origins   *http.CrossOriginProtection
	http      *http.Server
	metrics   *metrics
	hub       *hub
	rates     rates
	sessions  *sessions
	room      chan struct{} // for requests at the same time
	streams   chan struct{} // for event streams at the same time
	orders    sync.Mutex    // held while the ledger does one
	published chan struct{}
	stopWatch context.CancelFunc
	listeners []net.Listener
}

// New checks the configuration and reads the certificate. Nothing listens before Start.
func New(c Config) (*Server, error) {
	if c.Path == nil {
		c.Path = func(p string) string { return p }
	}
	if c.Places == nil {
		c.Places = func() map[string]api.PoP { return nil }
	}
	if c.Answers == nil {
		c.Answers = func() Answers { return Answers{} }
	}
	if c.Counts == nil {
		c.Counts = func() Counts { return Counts{} }
	}
	if c.Loads == nil {
		c.Loads = noLoads{}
	}
	if c.Health == nil {
		c.Health = func() []api.EndpointHealth { return nil }
	}
	if c.Probe == nil {
		c.Probe = func(_ context.Context, target, _ string) ([]api.ProbeResult, error) {
			return nil, errors.New(target + " is not checked")
		}
	}
	if c.Automation == nil {
		c.Automation = func(pops.Target) Automation { return Automation{Enabled: true} }
	}
	if c.Drills == nil {
		c.Drills = func() []api.Drill { return []api.Drill{} }
	}
	if c.Drill == nil {
		c.Drill = func(pops.Target, time.Duration) (drain.Request, error) {
			return drain.Request{}, errors.New("no drills are configured")
		}
	}
	if c.Alerted == nil {
		c.Alerted = func(string, bool) {}
	}
	if c.Rebuild == nil {
		c.Rebuild = func() error { return nil }
	}
	if c.Wait == nil {
		c.Wait = func(context.Context) []api.Applied {
			return []api.Applied{{Node: c.Node.Name, Applied: true, Time: c.Ledger.Now()}}
		}
	}
	if c.Peers == nil {
		c.Peers = func() []api.Peer {
			return []api.Peer{{
				Name: c.Node.Name, State: "alive", Self: true, PoP: c.Node.PoP, Version: c.Node.Version, Config: c.Node.Config, Started: c.Node.Started,
				Statements: len(c.Ledger.Statements()), Since: c.Node.Started, LastSeen: c.Ledger.Now(),
			}}
		}
	}
	if c.Warnings == nil {
		c.Warnings = func() []string { return nil }
	}
	if c.NotReady == nil {
		c.NotReady = func() []string { return nil }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	t := c.Settings.TLS
	for _, listen := range c.Settings.Listen {
		if err := checkListen(listen, t != nil); err != nil {
			return nil, err
		}
	}
	for _, l := range c.Listeners {
		if err := checkListen(l.Addr().String(), t != nil); err != nil {
			return nil, err
		}
	}
	keys, err := newKeys(c.Settings)
	if err != nil {
		return nil, err
	}
	if len(c.Settings.Clients) > 0 && (t == nil || t.ClientCA == "") {
		return nil, errors.New("admin.client: client certificates are not asked for (hint: set client_ca in [admin.tls])")
	}
	table := routes()
	s := &Server{
		cfg:       c,
		keys:      keys,
		hosts:     newHosts(c.Settings.Hosts),
		origins:   http.NewCrossOriginProtection(),
		metrics:   newMetrics(c.Registry, table),
		hub:       newHub(c.Ledger.Now()),
		rates:     rates{wake: make(chan struct{})},
		sessions:  newSessions(c.Ledger.Now),
		room:      make(chan struct{}, c.Settings.Requests),
		streams:   make(chan struct{}, maxStreams),
		published: make(chan struct{}, 1),
		stopWatch: func() {},
	}
	handler, err := s.handler(table)
	if err != nil {
		return nil, err
	}
	s.http = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       headerTime + c.Settings.Timeout,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       connContext,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug), // what clients can provoke: broken handshakes, odd requests
	}
	if t != nil {
		files, err := newCertificates(c.Path(t.Certificate), c.Path(t.Key), c.Path(t.ClientCA), c.Log)
		if err != nil {
			return nil, err
		}
		s.http.TLSConfig = files.server()
		files.register(c.Registry)
	}
	return s, nil
}
