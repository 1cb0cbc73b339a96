package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
)

type renewOptions struct {
	orderOptions
	last lasting
	id   string
}

func newRenew(s *streams) *cobra.Command {
	o := &renewOptions{orderOptions: orderOptions{streams: s}}
	cmd := &cobra.Command{
		Use:   "renew TARGET --for TIME",
		Short: "Give the statements of a target another end",
		Long:  "Renew lets every drain, shift and pin of exactly this target last for another time from now, longer or shorter. Nothing else of them changes, so no reason is needed.",
		Example: "  edgesteer renew eu-west-1 --for 8h\n" +
			"  edgesteer renew eu-west-1 --for forever --reason \"decommissioned\"",
		Args:              targetOrID(&o.id),
		ValidArgsFunction: targets(drained),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().Var(&o.last, "for", "`TIME` from now until it expires, 1m to 72h, or forever; needed")
	cmd.Flags().StringVar(&o.reason, "reason", "", "`WHY`, for the history")
	cmd.Flags().StringVar(&o.id, "id", "", "instead of a target, the `ID` of one statement")
	completeLive(cmd, "id", ids)
	complete(cmd, "for", "1h", "8h", "24h", "72h", "forever")
	o.addHow(cmd)
	return cmd
}

func (o *renewOptions) run(ctx context.Context, args []string) error {
	line, target := "edgesteer renew --id "+o.id, ""
	if len(args) > 0 {
		line, target = "edgesteer renew "+args[0], args[0]
	}
	if o.last.length == 0 {
		return wrong(line+" --for 8h", "--for is missing: say how long it shall last from now")
	}
	if o.reason == "" {
		o.reason = "renewed"
	}
	return o.orderOptions.run(ctx, line, func(ctx context.Context, c *api.Client, order api.Order) (*api.Change, error) {
		return c.Renew(ctx, api.RenewRequest{Target: target, ID: o.id, For: api.Duration(o.last.length), Order: order})
	})
}

// targetOrID wants a target, or the flag --id instead.
func targetOrID(id *string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case *id == "":
			return arguments("TARGET")(cmd, args)
		case len(args) > 0:
			return &failure{code: exitUsage, err: errors.New("give a target, or the --id of a statement, not both"), hint: cmd.CommandPath() + " --help"}
		}
		return nil
	}
}
