package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// The backends listen on 127.BLOCK.n.m, of which the configuration has the first block. Beside another demo they take the next.
const (
	firstBlock  = 53
	lastBlock   = 60
	backendPort = 5380
)

// Sickness is what is wrong with a PoP.
type Sickness string

// The ways to be sick.
const (
	Well     Sickness = ""
	Refusing Sickness = "refuse" // handshakes are answered with 503
	Silent   Sickness = "hang"   // handshakes are taken and never answered
)

// backends are all PoPs behind the demo's addresses.
type backends struct {
	text    string // the configuration, with the addresses that they have
	block   int
	pops    map[string]*backend
	names   []string // of the PoPs, as configured
	servers []*http.Server
	ctx     context.Context // ends with them: connections live as long
	end     context.CancelFunc
}

// backend is one PoP: what answers at all of its addresses.
type backend struct {
	mu    sync.Mutex
	sick  Sickness
	conns map[*websocket.Conn]bool
	all   context.Context
}

// endpoints finds PoPs and their addresses in the configuration's text.
var endpoints = regexp.MustCompile(`(?m)^\[service\.at\.([a-z0-9-]+)\]\naddresses = \["([0-9.]+)", "([0-9.]+)"\]`)

// listenBackends makes a backend for every PoP of a configuration. The error says that this system's loopback network has no such addresses.
func listenBackends(text string) (b *backends, err error) {
	for block := firstBlock; block <= lastBlock; block++ {
		b = &backends{block: block, pops: map[string]*backend{}}
		b.ctx, b.end = context.WithCancel(context.Background())
		b.text = strings.ReplaceAll(text, fmt.Sprintf("\"127.%d.", firstBlock), fmt.Sprintf("\"127.%d.", block))
		if err = b.listen(); err == nil {
			return b, nil
		}
		b.close()
	}
	return nil, err
}

func (b *backends) listen() error {
	for _, m := range endpoints.FindAllStringSubmatch(b.text, -1) {
		pop := &backend{conns: map[*websocket.Conn]bool{}, all: b.ctx}
		b.pops[m[1]] = pop
		b.names = append(b.names, m[1])
		for _, address := range m[2:] {
			ip, err := netip.ParseAddr(address)
			if err != nil {
				return err
			}
			l, err := net.Listen("tcp", netip.AddrPortFrom(ip, backendPort).String())
			if err != nil {
				return err
			}
			s := &http.Server{Handler: pop, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
			b.servers = append(b.servers, s)
			go func() { _ = s.Serve(l) }() // it ends when it is closed
		}
	}
	if len(b.names) == 0 {
		return errors.New("the configuration has no endpoints")
	}
	return nil
}

func (b *backends) close() {
	b.end()
	for _, s := range b.servers {
		_ = s.Close() // there is nothing to save
	}
}

// set makes a PoP sick or well. A sick one loses the connections that it has.
func (b *backends) set(pop string, s Sickness) error {
	p := b.pops[pop]
	if p == nil {
		return fmt.Errorf("there is no PoP %q with backends", pop)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sick = s
	if s != Well {
		for c := range p.conns {
			_ = c.CloseNow() // the client notices
		}
	}
	return nil
}

// sick are the PoPs that are not well.
func (b *backends) sick() (names []string) {
	for _, name := range b.names {
		p := b.pops[name]
		p.mu.Lock()
		if p.sick != Well {
			names = append(names, name)
		}
		p.mu.Unlock()
	}
	return names
}

// open is how many connections a PoP has.
func (b *backends) open(pop string) int {
	p := b.pops[pop]
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// ServeHTTP takes a websocket and says back what it hears, as long as the PoP is well.
func (p *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	sick := p.sick
	p.mu.Unlock()
	switch sick {
	case Refusing:
		http.Error(w, "made sick by edgesteer demo break", http.StatusServiceUnavailable)
		return
	case Silent:
		select {
		case <-r.Context().Done():
		case <-p.all.Done():
		}
		return
	}
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // the library has answered
	}
	defer func() { _ = c.CloseNow() }() // it is over
	p.mu.Lock()
	p.conns[c] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}()
	for {
		kind, message, err := c.Reader(p.all)
		if err != nil {
			return
		}
		answer, err := c.Writer(p.all, kind)
		if err != nil {
			return
		}
		if _, err := io.Copy(answer, message); err != nil || answer.Close() != nil {
			return
		}
	}
}
