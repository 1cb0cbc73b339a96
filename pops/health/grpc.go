package health

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/edgesteer/edgesteer/server/config"
)

// grpcCheck asks grpc.health.v1 for a service over a connection of its own.
type grpcCheck struct {
	*dialer
	service, authority string
}

func newGRPC(c *config.Check, d *dialer) (Check, error) {
	return &grpcCheck{dialer: d, service: c.Service, authority: c.Host}, nil
}

func (c *grpcCheck) Probe(ctx context.Context, a netip.Addr) error {
	var fault atomic.Pointer[error] // of connecting: gRPC would wrap it beyond recognition
	var state atomic.Pointer[tls.ConnectionState]
	connect := func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := c.dial(ctx, "tcp", a)
		if err != nil {
			fault.Store(&err)
			return nil, err
		}
		state.Store(stateOf(conn))
		return conn, nil
	}
	options := []grpc.DialOption{
		grpc.WithContextDialer(connect), grpc.WithTransportCredentials(insecure.NewCredentials()), // the dialer has done TLS
		grpc.WithDisableServiceConfig(), grpc.WithNoProxy(), grpc.WithUserAgent(agent),
	}
	if c.authority != "" {
		options = append(options, grpc.WithAuthority(c.authority))
	}
	client, err := grpc.NewClient("passthrough:///"+c.addrPort(a).String(), options...)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	r, err := grpc_health_v1.NewHealthClient(client).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: c.service})
	switch {
	case err != nil && fault.Load() != nil:
		return *fault.Load()
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return errors.New("gRPC " + status.Code(err).String())
	case r.Status != grpc_health_v1.HealthCheckResponse_SERVING:
		return fmt.Errorf("gRPC health %s", strings.ToLower(r.Status.String()))
	}
	return c.certificate(state.Load())
}
