package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
)

type pinOptions struct {
	orderOptions
	last  lasting
	start start
}

func newPin(s *streams) *cobra.Command {
	o := &pinOptions{orderOptions: orderOptions{streams: s}}
	cmd := &cobra.Command{
		Use:   "pin TARGET --reason WHY",
		Short: "Keep a target in the answers whatever health and automation say",
		Long: "Pin keeps a target in the answers: health checks, automation and drills do not count for it. A person's drain does; what a person drains cannot be pinned.\n" +
			"`edgesteer restore TARGET` ends it.",
		Example:           "  edgesteer pin eu-west-1/envoy-wss --for 1h --reason \"the check is wrong, not the service\"",
		Args:              arguments("TARGET"),
		ValidArgsFunction: targets(everything),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.addWhy(cmd)
	cmd.Flags().Var(&o.last, "for", "`TIME` until it expires, 1m to 72h, or forever (left out: 8h)")
	cmd.Flags().Var(&o.start, "start", "`TIME` from now, such as 2h, or a moment such as 2026-12-24T22:00:00Z (left out: now)")
	complete(cmd, "for", "1h", "8h", "24h", "72h", "forever")
	o.addHow(cmd)
	return cmd
}

func (o *pinOptions) run(ctx context.Context, target string) error {
	return o.orderOptions.run(ctx, "edgesteer pin "+target, func(ctx context.Context, c *api.Client, order api.Order) (*api.Change, error) {
		return c.Pin(ctx, api.PinRequest{Target: target, For: api.Duration(o.last.length), Start: o.start.time(), Order: order})
	})
}
