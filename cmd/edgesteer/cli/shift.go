package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
)

type shiftOptions struct {
	orderOptions
	course
}

func newShift(s *streams) *cobra.Command {
	o := &shiftOptions{orderOptions: orderOptions{streams: s}}
	cmd := &cobra.Command{
		Use:   "shift FROM TO --reason WHY",
		Short: "Send the networks of one PoP to another",
		Long: "Shift sends networks that would get FROM to TO instead, whatever the filters would choose next. FROM is POP or POP/SERVICE, TO a PoP.\n" +
			"Where TO cannot take them they leave as by a drain. `edgesteer restore FROM` ends it.",
		Example: "  edgesteer shift eu-west-1 eu-central-1 --by 25% --reason \"move the evening peak\"\n" +
			"  edgesteer restore eu-west-1 --reason \"peak is over\"",
		Args:              arguments("FROM", "TO"),
		ValidArgsFunction: targets(everything, popsOnly),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0], args[1]) },
	}
	o.addWhy(cmd)
	o.course.addFlags(cmd)
	o.addHow(cmd)
	return cmd
}

func (o *shiftOptions) run(ctx context.Context, from, to string) error {
	return o.orderOptions.run(ctx, "edgesteer shift "+from+" "+to, func(ctx context.Context, c *api.Client, order api.Order) (*api.Change, error) {
		return c.Shift(ctx, api.ShiftRequest{
			From: from, To: to, By: o.by.percent(), For: api.Duration(o.last.length), Start: o.start.time(),
			Over: api.Duration(o.over), Steps: o.steps, Restore: api.Duration(o.back), Order: order,
		})
	})
}
