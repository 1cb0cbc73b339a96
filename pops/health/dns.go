package health

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/config"
)

// dnsCheck asks one question over UDP, or DNS over TLS, and looks at the RCODE.
type dnsCheck struct {
	*dialer
	name  string
	typ   uint16
	rcode int
}

func newDNS(c *config.Check, d *dialer) (Check, error) {
	k := &dnsCheck{dialer: d, name: dns.Fqdn(c.Name)}
	var ok bool
	if _, valid := dns.IsDomainName(c.Name); c.Name == "" || !valid {
		return nil, &fieldError{"name", "a dns check needs the name that it asks for", `for example name = "example.com"`}
	}
	if k.typ, ok = dns.StringToType[strings.ToUpper(c.Type)]; !ok {
		return nil, &fieldError{"type", fmt.Sprintf("unknown type %q", c.Type), ""}
	}
	if k.rcode, ok = dns.StringToRcode[strings.ToUpper(c.Rcode)]; !ok {
		return nil, &fieldError{"rcode", fmt.Sprintf("unknown RCODE %q", c.Rcode), `for example rcode = "NOERROR"`}
	}
	return k, nil
}

func (c *dnsCheck) Probe(ctx context.Context, a netip.Addr) error {
	network := "udp"
	if c.tls != nil {
		network = "tcp"
	}
	conn, err := c.dial(ctx, network, a)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	bound(ctx, conn)
	q := new(dns.Msg)
	q.SetQuestion(c.name, c.typ)
	q.RecursionDesired = false
	q.SetEdns0(1232, false)
	dc := &dns.Conn{Conn: conn, UDPSize: 1232}
	if err := dc.WriteMsg(q); err != nil {
		return err
	}
	for {
		r, err := dc.ReadMsg()
		switch {
		case err != nil:
			return err
		case r.Id != q.Id || !r.Response: // of somebody else
			continue
		case r.Rcode != c.rcode:
			return fmt.Errorf("RCODE %s", dns.RcodeToString[r.Rcode])
		}
		return c.certificate(stateOf(conn))
	}
}
