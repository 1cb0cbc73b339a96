package gossip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"
)

// ErrAlone is that no other node was reached.
var ErrAlone = errors.New("no other node of the fleet was reached")

// Join asks the seeds until this node has exchanged states with another, or ctx ends: then the error is ErrAlone. Without seeds, or with itself as the only one, there is nobody to wait
// for. Seeds are asked for ever, whatever Join says.
func (g *Gossip) Join(ctx context.Context) error {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		others, changed := g.members.count()
		missing := g.seeds(ctx)
		if others > 0 || len(missing) == 0 && len(g.config.Seeds) <= 1 || g.reach(ctx, missing) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", ErrAlone, strings.Join(g.config.Seeds, ", "))
		case <-changed: // somebody has joined this node
		case <-time.After(jitter(pause)):
		}
	}
}

// seeds are the addresses of seeds that are not members.
func (g *Gossip) seeds(ctx context.Context) (out []string) {
	for _, s := range g.config.Seeds {
		host, port, err := net.SplitHostPort(s)
		if err != nil {
			continue
		}
		hosts := []string{host}
		if ip := net.ParseIP(host); ip != nil {
			hosts[0] = ip.String()
		} else {
			if hosts, err = net.DefaultResolver.LookupHost(ctx, host); err != nil {
				g.metrics.joins.WithLabelValues(joinFailed).Inc()
				g.log.Debug("looking up a seed", "seed", s, "err", err)
				continue
			}
		}
		for _, h := range hosts {
			if addr := net.JoinHostPort(h, port); !g.members.has(addr) {
				out = append(out, addr)
			}
		}
	}
	return out
}

// reach exchanges everything with the nodes at some addresses, all at the same time, and tells whether one has answered; it does not wait for the others then.
func (g *Gossip) reach(ctx context.Context, addrs []string) bool {
	answers := make(chan error, len(addrs))
	for _, addr := range addrs {
		go func() { answers <- g.exchange(ctx, addr) }()
	}
	for range addrs {
		if <-answers == nil {
			return true
		}
	}
	return false
}

// exchange exchanges everything with the node at an address. It gives up waiting when ctx ends: the library has a limit of its own.
func (g *Gossip) exchange(ctx context.Context, addr string) error {
	answer := make(chan error, 1)
	go func() {
		_, err := g.list.Join([]string{addr})
		answer <- err
	}()
	var err error
	select {
	case err = <-answer:
	case <-ctx.Done():
		err = ctx.Err()
	}
	outcome := joinDone
	if err != nil {
		outcome = joinFailed
		g.log.Debug("exchange", "addr", addr, "err", err)
	}
	g.metrics.joins.WithLabelValues(outcome).Inc()
	return err
}

// keepJoined asks seeds that are not members, and one that was lost, for ever: less often as long as nobody answers, but no pause is longer than three times the configured one, so that a
// cut of any length heals soon after its end.
func (g *Gossip) keepJoined(ctx context.Context) {
	pause := g.config.Rejoin
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(jitter(pause)):
		}
		missing := g.seeds(ctx)
		if lost := g.members.lost(); len(lost) > 0 {
			missing = append(missing, lost[rand.IntN(len(lost))])
		}
		switch {
		case len(missing) == 0 || g.reach(ctx, missing):
			pause = g.config.Rejoin
		default:
			pause = min(pause*3/2, 3*g.config.Rejoin)
		}
	}
}
