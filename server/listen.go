package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Steer is how datagrams are spread over the workers of an address. It matters on Linux with more than one worker.
type Steer uint8

// The ways of steering.
const (
	SteerAuto Steer = iota // SteerCPU where every network device has a receive queue per worker, else SteerHash
	SteerHash              // by a hash of both addresses and ports
	SteerCPU               // to the worker whose thread is bound to the CPU that took the datagram in (SO_INCOMING_CPU, Linux 6.2)
)

// ListenConfig says where and how to listen. The zero value of every field but the addresses stands for its default.
type ListenConfig struct {
	// DNS are the addresses for UDP and TCP, each for both (RFC 7766 section 5). An IPv6 address takes no IPv4 in: list 0.0.0.0 and ::. On a wildcard address an answer
	// leaves from the address that was asked, which costs a little. Port 0: one that is free for both.
	DNS []netip.AddrPort
	// TLS are the addresses for DNS over TLS (RFC 7858), usually with port 853.
	TLS []netip.AddrPort
	// HTTPS are the addresses for DNS over HTTPS (RFC 8484), usually with port 443.
	HTTPS []netip.AddrPort

	// CertFile and KeyFile are PEM files with the certificate chain and the key for TLS and HTTPS; needed if and only if one of these is used.
	CertFile, KeyFile string
	// HTTPSPath is the path of DNS over HTTPS. Default /dns-query.
	HTTPSPath string

	// Proxies are the prefixes whose senders speak PROXY protocol version 2, on every transport, and must. A header from anybody else is dropped. Default none.
	Proxies []netip.Prefix

	// UDPWorkers is the number of workers of each address, 1 to 256: on Linux each has a thread and a socket. Default one per CPU, fewer where GOMAXPROCS is less.
	// Start raises GOMAXPROCS above the number of all workers.
	UDPWorkers int
	// Batch is the most datagrams that a worker takes at once, 1 to 512. Default 64. Linux only.
	Batch int
	// ReceiveBuffer is the kernel's buffer for datagrams not read yet, in octets per socket, 64 KiB to 1 GiB. Default 4 MiB. Above net.core.rmem_max it takes CAP_NET_ADMIN.
	ReceiveBuffer int
	// Share lets another process of the same user have the same addresses, for as long as it takes to change from one to the other without passing sockets. Else an address that is in use is an error.
	Share bool
	// Steer is how datagrams are spread over workers.
	Steer Steer
	// Portable takes package net for UDP, one datagram at a time, also on Linux.
	Portable bool

	// StreamWorkers is the number of handlers for TCP, TLS and HTTPS together, 1 to 256. Default GOMAXPROCS.
	StreamWorkers int
	// MaxConns is the most connections of TCP, TLS and HTTPS together, 1 to 1,000,000. The next closes the one idle for longest. Default 10,000.
	MaxConns int
	// MaxConnsPerClient is the most of these from one IPv4 address or IPv6 /64 (that of the PROXY header, where there is one). The next closes the client's own one that is
	// idle for longest. Default 256.
	MaxConnsPerClient int
	// MaxTransfers is the most zone transfers at one time, 1 to 10,000; another waits for WriteTimeout, then its connection is closed. Default 16.
	MaxTransfers int
	// HTTPSStreams is the most requests at one time on a connection of HTTP/2, 1 to 10,000. Default 100.
	HTTPSStreams int

	// IdleTimeout closes a connection on which nothing was asked for so long; it is what a keepalive option says (RFC 7828). 100 ms to 1 h, in steps of 100 ms. Default 10 s.
	IdleTimeout time.Duration
	// FirstTimeout is how long a client may take from connecting to the end of its first message, TLS handshake included. 10 ms to 1 min. Default 5 s.
	FirstTimeout time.Duration
	// MessageTimeout is how long a client may take for a later message, from its first octet. 10 ms to 1 min. Default 5 s.
	MessageTimeout time.Duration
	// WriteTimeout is how long a client may take to read its answers. 10 ms to 1 min. Default 5 s.
	WriteTimeout time.Duration

	// Inherit are open sockets that another process has handed over (Linux): those of addresses above are used in the place of new ones, the others are closed. Listen closes all the
	// files, also when it fails. An address with port 0 inherits nothing.
	Inherit []Socket

	// Log gets what happens at start, stop and reload. Default none.
	Log *slog.Logger
	// Metrics is where the transports' metrics are registered while they listen. Default nowhere.
	Metrics prometheus.Registerer
}

// fill sets the defaults and gives all that is wrong.
func (c *ListenConfig) fill() error {
	procs := runtime.GOMAXPROCS(0)
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	number := func(field string, v *int, def, low, high int) {
		if *v == 0 {
			*v = def
		}
		if *v < low || *v > high {
			bad(field, "%d is outside %d to %d", *v, low, high)
		}
	}
	duration := func(field string, v *time.Duration, def, low, high time.Duration) {
		if *v == 0 {
			*v = def
		}
		if *v < low || *v > high {
			bad(field, "%s is outside %s to %s", *v, low, high)
		}
	}
	number("UDPWorkers", &c.UDPWorkers, min(runtime.NumCPU(), procs, 256), 1, 256)
	number("Batch", &c.Batch, 64, 1, 512)
	number("ReceiveBuffer", &c.ReceiveBuffer, 4<<20, 64<<10, 1<<30)
	number("StreamWorkers", &c.StreamWorkers, min(procs, 256), 1, 256)
	number("MaxConns", &c.MaxConns, 10_000, 1, 1_000_000)
	number("MaxConnsPerClient", &c.MaxConnsPerClient, 256, 1, 1_000_000)
	number("MaxTransfers", &c.MaxTransfers, 16, 1, 10_000)
	number("HTTPSStreams", &c.HTTPSStreams, 100, 1, 10_000)
	duration("IdleTimeout", &c.IdleTimeout, 10*time.Second, 100*time.Millisecond, time.Hour)
	duration("FirstTimeout", &c.FirstTimeout, 5*time.Second, 10*time.Millisecond, time.Minute)
	duration("MessageTimeout", &c.MessageTimeout, 5*time.Second, 10*time.Millisecond, time.Minute)
	duration("WriteTimeout", &c.WriteTimeout, 5*time.Second, 10*time.Millisecond, time.Minute)
	if c.Steer > SteerCPU {
		bad("Steer", "%d is unknown", c.Steer)
	}
	if c.HTTPSPath == "" {
		c.HTTPSPath = "/dns-query"
	}
	if !strings.HasPrefix(c.HTTPSPath, "/") {
		bad("HTTPSPath", "%q does not begin with /", c.HTTPSPath)
	}
	if len(c.DNS)+len(c.TLS)+len(c.HTTPS) == 0 {
		bad("DNS", "no address to listen on")
	}
	seen := make(map[netip.AddrPort]bool)
	for _, f := range []struct {
		name  string
		addrs []netip.AddrPort
	}{{"DNS", c.DNS}, {"TLS", c.TLS}, {"HTTPS", c.HTTPS}} {
		for _, a := range f.addrs {
			switch {
			case !a.IsValid():
				bad(f.name, "an address is missing")
			case a.Addr().Is4In6():
				bad(f.name, "%s is an IPv4 address in an IPv6 one (hint: write %s)", a, a.Addr().Unmap())
			case a.Port() != 0 && seen[a]:
				bad(f.name, "%s is listed twice", a)
			}
			seen[a] = true
		}
	}
	if secure := len(c.TLS)+len(c.HTTPS) > 0; secure != (c.CertFile != "" && c.KeyFile != "") || !secure && c.CertFile+c.KeyFile != "" {
		bad("CertFile, KeyFile", "both belong with addresses for TLS or HTTPS, and only with them")
	}
	for _, p := range c.Proxies {
		if !p.IsValid() || p.Addr().Is4In6() {
			bad("Proxies", "%s is no prefix", p)
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

// answerer is what a listener wants of a handler; each worker has its own.
type answerer interface {
	// Refresh takes the current snapshot. It is called before each batch of messages, and of an idle handler several times a second so that old snapshots can go.
	Refresh()
	// Done is called after each batch.
	Done()
	// Handle gives the answer to msg, written to the start of buf, whose capacity is its room and which may begin where msg does; nil: silence.
	Handle(msg, buf []byte, p *Peer) []byte
	// Transfer gives what the last Handle left to be done on a stream, once; nil: nothing.
	Transfer() Transfer
}

// Listeners are the open addresses of all transports.
type Listeners struct {
	cfg     ListenConfig
	factory func() answerer
	certs   *certificate // nil without TLS and HTTPS
	udp     []udpAddress
	accept  []*acceptor
	streams *streams // shared by the acceptors; its counters are each transport's
	stop    *stopper
	metrics *transportMetrics

	give     func(*Conn, uintptr) error // set before the stop: open connections are handed on
	running  sync.WaitGroup             // loops, acceptors, housekeeping
	sessions sync.WaitGroup
	started  bool
	stopOnce sync.Once
}

// udpAddress is one address and its workers.
type udpAddress struct {
	addr  netip.AddrPort
	loops []udpLoop
	count []*udpCounters
}

// Addrs are the addresses listened on, in the order of the configuration, with the ports that the kernel chose.
type Addrs struct {
	DNS, TLS, HTTPS []netip.AddrPort
}

// Listen binds every address, or none, for handlers that hs makes: one per worker. Nothing is read before Start.
func Listen(cfg ListenConfig, hs *Handlers) (*Listeners, error) {
	return listen(cfg, func() answerer { return hs.New() })
}

// listen binds every address, or none.
func listen(cfg ListenConfig, factory func() answerer) (*Listeners, error) {
	if err := cfg.fill(); err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	defer closeSockets(cfg.Inherit)
	l := &Listeners{cfg: cfg, factory: factory, stop: &stopper{begun: make(chan struct{})}}
	if cfg.CertFile != "" {
		l.certs = &certificate{certFile: cfg.CertFile, keyFile: cfg.KeyFile}
		if err := l.certs.load(time.Now()); err != nil {
			return nil, err
		}
		if end := l.certs.notAfter(); time.Now().After(end) {
			cfg.Log.Error("certificate has expired", "file", cfg.CertFile, "expired", end)
		}
	}
	if err := l.bind(); err != nil {
		l.close()
		return nil, fmt.Errorf("listening: %w", err)
	}
	l.metrics = newTransportMetrics(l)
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(l.metrics); err != nil {
			l.close()
			return nil, fmt.Errorf("listening: %w", err)
		}
	}
	return l, nil
}

func (l *Listeners) bind() error {
	if err := l.free(); err != nil {
		return err
	}
	for _, a := range l.cfg.DNS {
		u, ln, err := l.bindBoth(a)
		if err != nil {
			return err
		}
		l.udp = append(l.udp, u)
		l.accept = append(l.accept, &acceptor{l: l, ln: ln, transport: TCP, addr: u.addr})
	}
	for _, t := range []struct {
		transport Transport
		addrs     []netip.AddrPort
	}{{DoT, l.cfg.TLS}, {DoH, l.cfg.HTTPS}} {
		for _, a := range t.addrs {
			ln, err := l.bindTCP(t.transport, a)
			if err != nil {
				return err
			}
			bound := netip.AddrPortFrom(a.Addr(), ln.Addr().(*net.TCPAddr).AddrPort().Port())
			l.accept = append(l.accept, &acceptor{l: l, ln: ln, transport: t.transport, addr: bound})
		}
	}
	return nil
}

// bindBoth binds an address for UDP and TCP; a free port has to be free for both.
func (l *Listeners) bindBoth(a netip.AddrPort) (udpAddress, *net.TCPListener, error) {
	inherited := l.inherited(UDP, a)
	for try := 0; ; try++ {
		loops, err := openUDP(a, &l.cfg, inherited)
		if err != nil {
			return udpAddress{}, nil, hinted(a, err)
		}
		u := udpAddress{addr: loops[0].local(), loops: loops}
		ln, err := l.bindTCP(TCP, u.addr)
		if err == nil {
			for range loops {
				u.count = append(u.count, new(udpCounters))
			}
			return u, ln, nil
		}
		for _, loop := range loops {
			loop.release()
		}
		if a.Port() != 0 || !errors.Is(err, syscall.EADDRINUSE) || try == 20 {
			return udpAddress{}, nil, err
		}
	}
}

// free makes sure that no address is another process's already. Where ports are shared, binding would not tell, and two servers by mistake would answer half of the queries each. It looks before
// anything is bound, for addresses of one configuration may overlap.
func (l *Listeners) free() error {
	if l.cfg.Share {
		return nil
	}
	for _, t := range []struct {
		transport Transport
		addrs     []netip.AddrPort
	}{{UDP, l.cfg.DNS}, {TCP, l.cfg.DNS}, {DoT, l.cfg.TLS}, {DoH, l.cfg.HTTPS}} {
		for _, a := range t.addrs {
			if a.Port() == 0 || len(l.inherited(t.transport, a)) > 0 {
				continue
			}
			family := "6" // and not 4, too, as without it
			if a.Addr().Is4() {
				family = "4"
			}
			var c io.Closer
			var err error
			if t.transport == UDP {
				c, err = net.ListenUDP("udp"+family, net.UDPAddrFromAddrPort(a))
			} else {
				c, err = net.ListenTCP("tcp"+family, net.TCPAddrFromAddrPort(a))
			}
			switch {
			case err == nil:
				_ = c.Close()
			case errors.Is(err, syscall.EADDRINUSE):
				return hinted(a, err)
			}
		}
	}
	return nil
}

func (l *Listeners) bindTCP(t Transport, a netip.AddrPort) (*net.TCPListener, error) {
	if files := l.inherited(t, a); len(files) > 0 {
		return inheritTCP(files[0], a)
	}
	network := "tcp6"
	if a.Addr().Is4() {
		network = "tcp4"
	}
	// Idle connections end after seconds; probing them would only cost system calls.
	lc := net.ListenConfig{Control: reusePort, KeepAlive: -1}
	ln, err := lc.Listen(context.Background(), network, a.String())
	if err != nil {
		return nil, hinted(a, err)
	}
	return ln.(*net.TCPListener), nil
}

// hinted adds what helps to the errors that operators meet.
func hinted(a netip.AddrPort, err error) error {
	switch {
	case errors.Is(err, syscall.EACCES) && a.Port() < 1024:
		return fmt.Errorf("%w (hint: a port below 1024 takes CAP_NET_BIND_SERVICE)", err)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w (hint: ss -lnup 'sport = :%d'; ss -lntp 'sport = :%d')", err, a.Port(), a.Port())
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w (hint: no interface has this address)", err)
	}
	return err
}

// Addrs gives the addresses listened on.
func (l *Listeners) Addrs() Addrs {
	var a Addrs
	for _, x := range l.accept {
		switch x.transport {
		case TCP:
			a.DNS = append(a.DNS, x.addr)
		case DoT:
			a.TLS = append(a.TLS, x.addr)
		case DoH:
			a.HTTPS = append(a.HTTPS, x.addr)
		}
	}
	return a
}

// Reload reads the certificate's files again. When they cannot be used, or hold an expired certificate, the one before stays and the error says why.
func (l *Listeners) Reload() error {
	if l.certs == nil {
		return nil
	}
	err := l.certs.load(time.Now())
	if err != nil {
		l.metrics.reloadErrors.Add(1)
		return err
	}
	l.metrics.reloads.Add(1)
	l.cfg.Log.Info("certificate loaded", "file", l.certs.certFile, "expires", l.certs.notAfter())
	return nil
}

// spareProcs is how many Ps there are beside those of the UDP workers: the rest of the program lives on one, and what takes long, such as loading, is on the other. Where both had the same, a
// worker that gave way for a moment could wait for 10 ms.
const spareProcs = 2

// Start begins to answer. It is called once.
func (l *Listeners) Start() {
	l.started = true
	total := 0
	for i := range l.udp {
		total += len(l.udp[i].loops)
	}
	// Each worker holds a P while it waits.
	if !l.cfg.Portable && runtime.GOMAXPROCS(0) < total+spareProcs {
		runtime.GOMAXPROCS(total + spareProcs)
	}
	for _, u := range l.udp {
		if got := u.loops[0].room(); got != 0 && got < l.cfg.ReceiveBuffer {
			l.cfg.Log.Warn("receive buffer is smaller than asked for", "address", u.addr, "octets", got, "asked", l.cfg.ReceiveBuffer, "hint", "raise net.core.rmem_max")
		}
		for i, loop := range u.loops {
			l.running.Go(func() {
				loop.run(&udpWorker{answerer: l.factory(), trusted: l.cfg.Proxies, count: u.count[i], peer: Peer{Transport: UDP}})
			})
		}
		l.cfg.Log.Info("listening", "address", u.addr, "transport", "udp", "workers", len(u.loops))
	}
	l.streams = &streams{
		listeners: l,
		cfg:       &l.cfg,
		conns:     newConns(l.cfg.MaxConns, l.cfg.MaxConnsPerClient),
		workers:   newWorkers(l.cfg.StreamWorkers, l.factory),
		transfers: make(chan struct{}, l.cfg.MaxTransfers),
		stop:      l.stop,
	}
	l.metrics.serve(l.streams)
	for _, a := range l.accept {
		a.start()
		l.cfg.Log.Info("listening", "address", a.addr, "transport", transportNames[a.transport])
	}
	l.running.Go(l.housekeeping)
}

// housekeeping has idle stream handlers let go of old snapshots and publish their counts.
func (l *Listeners) housekeeping() {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.streams.workers.refresh()
		case <-l.stop.begun:
			return
		}
	}
}

// Stop lets what has come be answered, closes everything and waits for it; when ctx ends before, it closes connections at once. A process that listens on the same
// addresses meanwhile (Linux) takes over without the loss of a datagram; Give loses no connection either. It may be called twice, and without Start.
func (l *Listeners) Stop(ctx context.Context) {
	l.stopOnce.Do(func() { l.shut(ctx) })
}

func (l *Listeners) shut(ctx context.Context) {
	l.stop.begin(time.Now().Add(stopGrace))
	if l.cfg.Metrics != nil {
		defer l.cfg.Metrics.Unregister(l.metrics)
	}
	if !l.started {
		l.close()
		return
	}
	for _, u := range l.udp {
		for _, loop := range u.loops {
			loop.stop(l.give != nil)
		}
	}
	for _, a := range l.accept {
		a.stop(ctx)
	}
	end, _ := l.stop.when()
	l.streams.conns.each(func(c *conn) {
		switch {
		case c.transport == TCP && l.give != nil:
			_ = c.raw.SetReadDeadline(time.Now())
		case c.transport != DoH: // net/http has its own way
			_ = c.raw.SetReadDeadline(end)
		}
	})
	done := make(chan struct{})
	go func() {
		l.running.Wait()
		l.sessions.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		l.streams.conns.each(func(c *conn) { c.close(closedStop) })
		<-done
	}
	l.streams.workers.refresh()
}

// close closes what was bound and not started.
func (l *Listeners) close() {
	for _, u := range l.udp {
		for _, loop := range u.loops {
			loop.release()
		}
	}
	for _, a := range l.accept {
		_ = a.ln.Close()
	}
}

// stopper tells everybody that the server stops.
type stopper struct {
	begun chan struct{}
	end   atomic.Int64 // Unix time in ns at which idle connections are closed; 0: not stopping
}

func (s *stopper) begin(end time.Time) {
	s.end.Store(end.UnixNano())
	close(s.begun)
}

func (s *stopper) stopping() bool { return s.end.Load() != 0 }

func (s *stopper) when() (time.Time, bool) {
	end := s.end.Load()
	return time.Unix(0, end), end != 0
}
