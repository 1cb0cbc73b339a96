package health

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/edgesteer/edgesteer/server/config"
)

// dialer makes the connections of a check: to its port, from its source addresses, with TLS if it is asked for.
type dialer struct {
	port    uint16
	sources [2]netip.Addr // IPv4, IPv6; the zero Addr: the system chooses
	expiry  time.Duration // warn when a certificate ends sooner
	tls     *tls.Config   // nil: plain

	mu      sync.Mutex
	configs map[netip.Addr]*tls.Config // each address has its own, for its sessions
}

func newDialer(c *config.Check, port uint16, secure bool, protocols ...string) (*dialer, error) {
	d := &dialer{port: port, expiry: c.Expiry, configs: map[netip.Addr]*tls.Config{}}
	for _, s := range c.Source {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return nil, err
		}
		d.sources[family(a)] = a
	}
	if secure {
		name := c.SNI
		if name == "" {
			name = hostname(c.Host)
		}
		d.tls = &tls.Config{ServerName: name, InsecureSkipVerify: !c.Verify, NextProtos: protocols} //nolint:gosec // the operator's choice
	}
	return d, nil
}

// hostname is a host without its port.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return host
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

func (d *dialer) addrPort(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, d.port) }

// dial connects, with TLS if it is asked for.
func (d *dialer) dial(ctx context.Context, network string, a netip.Addr) (net.Conn, error) {
	conn, err := d.plain(ctx, network, a)
	if err != nil || d.tls == nil {
		return conn, err
	}
	t := tls.Client(conn, d.config(a))
	if err := t.HandshakeContext(ctx); err != nil {
		_ = conn.Close()                    // the handshake's error is the one that matters
		if is[tls.RecordHeaderError](err) { // net/http would say something else of it
			return nil, errors.New("no TLS")
		}
		return nil, err
	}
	return t, nil
}

func (d *dialer) plain(ctx context.Context, network string, a netip.Addr) (net.Conn, error) {
	var n net.Dialer
	if source := d.sources[family(a)]; source.IsValid() {
		if network == "udp" {
			n.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
		} else {
			n.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
		}
	}
	n.KeepAlive = -1 // a connection lives for one probe
	conn, err := n.DialContext(ctx, network, d.addrPort(a).String())
	if err != nil && unrouted(err, a) {
		return nil, &localError{"this node has no route to the address"}
	}
	return conn, err
}

// config is the TLS configuration for an address. The sessions in it make all handshakes but the first short.
func (d *dialer) config(a netip.Addr) *tls.Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.configs[a]
	if c == nil {
		c = d.tls.Clone()
		if c.ServerName == "" {
			c.ServerName = a.String()
		}
		c.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		d.configs[a] = c
	}
	return c
}

// certificate warns of a certificate that ends soon.
func (d *dialer) certificate(s *tls.ConnectionState) error {
	if s == nil || d.expiry <= 0 {
		return nil
	}
	return expires(s.PeerCertificates, time.Now(), d.expiry)
}

// expires warns of the first certificate of a chain to end, when it ends sooner than within.
func expires(chain []*x509.Certificate, now time.Time, within time.Duration) error {
	var end time.Time
	for _, c := range chain {
		if end.IsZero() || c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	if end.IsZero() || end.Sub(now) > within {
		return nil
	}
	return &Warning{"the certificate ends " + end.UTC().Format(time.DateOnly)}
}

// stateOf is the TLS state of a connection, nil if it is plain.
func stateOf(conn net.Conn) *tls.ConnectionState {
	t, ok := conn.(*tls.Conn)
	if !ok {
		return nil
	}
	s := t.ConnectionState()
	return &s
}

// bound makes reads and writes of a connection end with the context.
func bound(ctx context.Context, conn net.Conn) {
	if t, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(t) // fails on closed connections only
	}
}
