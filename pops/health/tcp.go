package health

import (
	"context"
	"net/netip"

	"github.com/edgesteer/edgesteer/server/config"
)

// tcpCheck connects, and with TLS shakes hands.
type tcpCheck struct{ *dialer }

func newTCP(_ *config.Check, d *dialer) (Check, error) { return tcpCheck{d}, nil }

func (c tcpCheck) Probe(ctx context.Context, a netip.Addr) error {
	conn, err := c.dial(ctx, "tcp", a)
	if err != nil {
		return err
	}
	warning := c.certificate(stateOf(conn))
	_ = conn.Close() // it was good while it lasted
	return warning
}
