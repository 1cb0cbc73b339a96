package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
)

type restoreOptions struct {
	orderOptions
	over  length
	steps steps
	now   bool
	id    string
}

func newRestore(s *streams) *cobra.Command {
	o := &restoreOptions{orderOptions: orderOptions{streams: s, example: "fibre is back"}}
	cmd := &cobra.Command{
		Use:   "restore TARGET --reason WHY",
		Short: "Take back what was said of a target",
		Long: "Restore takes back every drain, shift and pin of exactly this target, whoever made it, and lists them. What else still bears on it is listed, too. " +
			"Health checks keep their word: restore gives nothing to a target that is down.",
		Example: "  edgesteer restore eu-west-1 --reason \"fibre is back\"\n" +
			"  edgesteer restore eu-west-1 --over 30m --reason \"fibre is back, slowly\"",
		Args:              targetOrID(&o.id),
		ValidArgsFunction: targets(drained),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.addWhy(cmd)
	f := cmd.Flags()
	f.Var(&o.over, "over", "`TIME` over which the networks come back (left out: as the statement says, else at once)")
	f.Var(&o.steps, "steps", "of --over: `PERCENTS` of the way, such as 1%,10%,50%,100% (left out: a straight line)")
	f.BoolVar(&o.now, "now", false, "at once, whatever the statement says")
	f.StringVar(&o.id, "id", "", "instead of a target, the `ID` of one statement")
	completeLive(cmd, "id", ids)
	o.addHow(cmd)
	return cmd
}

func (o *restoreOptions) run(ctx context.Context, args []string) error {
	line, target := "edgesteer restore --id "+o.id, ""
	if len(args) > 0 {
		line, target = "edgesteer restore "+args[0], args[0]
	}
	return o.orderOptions.run(ctx, line, func(ctx context.Context, c *api.Client, order api.Order) (*api.Change, error) {
		return c.Restore(ctx, api.RestoreRequest{Target: target, ID: o.id, Over: api.Duration(o.over), Steps: o.steps, Now: o.now, Order: order})
	})
}
