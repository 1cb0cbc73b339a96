package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
)

type peerOptions struct {
	question
}

func newPeer(s *streams) *cobra.Command {
	return group(&cobra.Command{
		Use:     "peer list|show",
		Short:   "Show the nodes of the fleet, and who is behind",
		Example: "  edgesteer peer list\n  edgesteer peer show dns-b",
	}, newPeerList(s), newPeerShow(s))
}

func newPeerList(s *streams) *cobra.Command {
	o := &peerOptions{question: question{streams: s}}
	return o.flags(&cobra.Command{
		Use:   "list",
		Short: "List the nodes of the fleet, as the one that is asked knows them",
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return put(cmd.Context(), &o.question, (*api.Client).Peers, o.list)
		},
	})
}

func newPeerShow(s *streams) *cobra.Command {
	o := &peerOptions{question: question{streams: s}}
	return o.flags(&cobra.Command{
		Use:               "show NODE",
		Short:             "Show one node: since when it is there, its clock, configuration and zones",
		Args:              arguments("NODE"),
		ValidArgsFunction: targets(nodes),
		RunE: func(cmd *cobra.Command, args []string) error {
			return put(cmd.Context(), &o.question, func(c *api.Client, ctx context.Context) (*api.PeerDetail, error) { return c.Peer(ctx, args[0]) }, o.show)
		},
	})
}

func (o *peerOptions) list(peers *api.Peers) error {
	now := time.Now()
	var rows [][]string
	for i := range peers.Peers {
		p := &peers.Peers[i]
		rows = append(rows, []string{p.Name, p.State, o.seen(p, now), p.PoP, p.Version, short8(p.Config), strconv.Itoa(p.Statements), o.lag(p), p.Address, skew(p)})
	}
	o.table([]string{"NODE", "STATE", "SEEN", "POP", "VERSION", "CONFIG", ">STATEMENTS", ">LAG", "ADDRESS", "NOTE"}, rows)
	return nil
}

func (o *peerOptions) show(d *api.PeerDetail) error {
	p, now := &d.Peer, time.Now()
	o.fields(
		"node", p.Name, "state", p.State, "since", o.clock(p.Since, now), "seen", o.seen(p, now), "address", p.Address, "pop", p.PoP,
		"version", p.Version, "started", o.moment(p.Started, now), "config", p.Config, "statements", strconv.Itoa(p.Statements), "ledger", p.Ledger, "lag", o.lag(p),
		"round trip", brief(p.RTT), "clock", clock(p), "note", skew(p),
	)
	var rows [][]string
	for _, zone := range slices.Sorted(maps.Keys(p.Serials)) {
		rows = append(rows, []string{zone, strconv.FormatUint(uint64(p.Serials[zone]), 10)})
	}
	if len(rows) > 0 {
		o.gap()
		o.section("zone", []string{"ZONE", ">SERIAL"}, rows)
	}
	return nil
}

// seen is when something last came from a node.
func (o *peerOptions) seen(p *api.Peer, now time.Time) string {
	switch {
	case p.LastSeen.IsZero():
		return "never"
	case !o.terminal:
		return o.clock(p.LastSeen, now)
	case p.Self:
		return "itself"
	}
	return api.Span(max(0, now.Sub(p.LastSeen))) + " ago"
}

// lag is since when a node does not obey what the one that is asked obeys.
func (o *peerOptions) lag(p *api.Peer) string {
	switch {
	case !p.Behind && o.terminal:
		return "-"
	case !p.Behind:
		return "0s"
	}
	return brief(p.Lag)
}

func (o *peerOptions) moment(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return o.clock(t, now)
}

// brief is a short time; "" if it is none.
func brief(d api.Duration) string {
	if d == 0 {
		return ""
	}
	return time.Duration(d).Round(100 * time.Microsecond).String()
}

// short8 is the beginning of a hash.
func short8(hash string) string { return hash[:min(8, len(hash))] }

// clock is how far a node's clock is from that of the node that is asked.
func clock(p *api.Peer) string {
	if p.Clock == 0 {
		return ""
	}
	return fmt.Sprintf("%+.3f s", p.Clock)
}

// clockOff is how many seconds a node's clock may be off without a word.
const clockOff = 10

// skew is what is not as on the node that is asked.
func skew(p *api.Peer) string {
	var notes []string
	if p.ConfigDiffers {
		notes = append(notes, "other configuration")
	}
	if p.ZonesDiffer {
		notes = append(notes, "other zones")
	}
	if p.Clock > clockOff || p.Clock < -clockOff {
		notes = append(notes, fmt.Sprintf("clock %+.0f s", p.Clock))
	}
	return strings.Join(notes, ", ")
}
