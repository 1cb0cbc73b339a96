package health

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/edgesteer/edgesteer/server/config"
)

// icmpCheck sends an echo request and waits for its reply, through a datagram socket that needs no privilege (on Linux net.ipv4.ping_group_range must include the group).
type icmpCheck struct{ *dialer }

func newICMP(_ *config.Check, d *dialer) (Check, error) { return icmpCheck{d}, nil }

// Protocol numbers of ICMP (IANA).
const (
	protocolICMP   = 1
	protocolICMPv6 = 58
)

func (c icmpCheck) Probe(ctx context.Context, a netip.Addr) error {
	network, protocol, typ, reply := "udp4", protocolICMP, icmp.Type(ipv4.ICMPTypeEcho), icmp.Type(ipv4.ICMPTypeEchoReply)
	source := "0.0.0.0"
	if a.Is6() {
		network, protocol, typ, reply = "udp6", protocolICMPv6, ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
		source = "::"
	}
	if s := c.sources[family(a)]; s.IsValid() {
		source = s.String()
	}
	conn, err := icmp.ListenPacket(network, source)
	if err != nil {
		return &localError{"this node may not send echo requests: see net.ipv4.ping_group_range"}
	}
	defer func() { _ = conn.Close() }()
	if t, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(t) // the socket is open
	}
	token := rand.Uint64() // tells our reply from others: the system chooses the identifier
	data := binary.BigEndian.AppendUint64([]byte("edgesteer"), token)
	b, err := (&icmp.Message{Type: typ, Body: &icmp.Echo{Seq: int(uint16(token)), Data: data}}).Marshal(nil)
	if err != nil {
		return err
	}
	if _, err := conn.WriteTo(b, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0))); err != nil {
		if unrouted(err, a) {
			return &localError{"this node has no route to the address"}
		}
		return err
	}
	buf := make([]byte, 1500)
	for {
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			return err
		}
		m, err := icmp.ParseMessage(protocol, buf[:n])
		if err != nil {
			continue // not for us
		}
		if echo, ok := m.Body.(*icmp.Echo); ok && m.Type == reply && string(echo.Data) == string(data) {
			return nil
		}
		if m.Type == ipv4.ICMPTypeDestinationUnreachable || m.Type == ipv6.ICMPTypeDestinationUnreachable {
			return errors.New("host unreachable")
		}
	}
}
