package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
)

// course is how much leaves, when, and how: the flags of drain and shift.
type course struct {
	by    by
	last  lasting
	over  length
	steps steps
	back  length
	start start
}

func (c *course) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&c.by, "by", "whole `PERCENT` of the target's networks that leave (left out: 100%)")
	f.Var(&c.last, "for", "`TIME` until it expires, 1m to 72h, or forever (left out: 8h)")
	f.Var(&c.over, "over", "`TIME` over which the networks leave (left out: at once)")
	f.Var(&c.steps, "steps", "of --over: `PERCENTS` of the way, such as 1%,10%,50%,100% (left out: a straight line)")
	f.Var(&c.back, "back", "`TIME` over which the networks come back after its end (left out: at once)")
	f.Var(&c.start, "start", "`TIME` from now, such as 2h, or a moment such as 2026-12-24T22:00:00Z (left out: now)")
	complete(cmd, "for", "1h", "8h", "24h", "72h", "forever")
	complete(cmd, "by")
}

type drainOptions struct {
	orderOptions
	course
}

func newDrain(s *streams) *cobra.Command {
	o := &drainOptions{orderOptions: orderOptions{streams: s}}
	cmd := &cobra.Command{
		Use:   "drain TARGET --reason WHY",
		Short: "Take a PoP, or a part of it, out of the answers",
		Long: "Drain takes a target out of the answers: POP (all that is there), POP/SERVICE (one service there) or */SERVICE (one service everywhere). " +
			"`edgesteer pop list` shows the names.\n\n" +
			"It first shows what will change and how to undo it, and asks; --dry-run stops there. Clients follow when the TTL of what they have is over. " +
			"The drain ends by itself after --for, and before that by `edgesteer restore TARGET`.\n\n" +
			"A person's drain of a target replaces that person's or another's earlier one of the same target: --by 20% after --by 38% gives 18% back.",
		Example: "  edgesteer drain eu-west-1 --reason \"fibre works\" --dry-run\n" +
			"  edgesteer drain eu-west-1 --reason \"fibre works\" --ticket NET-123\n" +
			"  edgesteer drain eu-west-1/envoy-wss --by 37% --over 10m --for 2h --reason \"too many errors\"\n" +
			"  edgesteer restore eu-west-1 --reason \"fibre is back\"",
		Args:              arguments("TARGET"),
		ValidArgsFunction: targets(everything),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.addWhy(cmd)
	o.course.addFlags(cmd)
	o.addHow(cmd)
	return cmd
}

func (o *drainOptions) run(ctx context.Context, target string) error {
	return o.orderOptions.run(ctx, "edgesteer drain "+target, func(ctx context.Context, c *api.Client, order api.Order) (*api.Change, error) {
		return c.Drain(ctx, api.DrainRequest{
			Target: target, By: o.by.percent(), For: api.Duration(o.last.length), Start: o.start.time(),
			Over: api.Duration(o.over), Steps: o.steps, Restore: api.Duration(o.back), Order: order,
		})
	})
}

// start is the flag --start: a moment, or a time from now.
type start struct {
	text string
	at   time.Time
}

func (s *start) String() string  { return s.text }
func (s *start) Type() string    { return "TIME" }
func (s *start) time() time.Time { return s.at }

func (s *start) Set(text string) error {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		d, err := api.ParseDuration(text)
		if err != nil || d == api.Forever {
			return errors.New("want a time from now such as 2h, or a moment such as 2026-12-24T22:00:00Z")
		}
		at = time.Now().Add(time.Duration(d))
	}
	*s = start{text, at}
	return nil
}
