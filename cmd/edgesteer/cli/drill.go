package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
)

type drillListOptions struct {
	question
}

func newDrill(s *streams) *cobra.Command {
	return group(&cobra.Command{
		Use:     "drill list|run",
		Short:   "Show the practice drains, or run one now",
		Example: "  edgesteer drill list\n  edgesteer drill run eu-west-1 --for 15m --reason \"before the season\"",
	}, newDrillList(s), newDrillRun(s))
}

func newDrillList(s *streams) *cobra.Command {
	o := &drillListOptions{question: question{streams: s}}
	return o.flags(&cobra.Command{
		Use:   "list",
		Short: "List the practice drains: when they run, and what became of the last",
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return put(cmd.Context(), &o.question, (*api.Client).Drills, o.list)
		},
	})
}

func (o *drillListOptions) list(d *api.Drills) error {
	now := time.Now()
	var rows [][]string
	for i := range d.Drills {
		e := &d.Drills[i]
		when := "never"
		switch {
		case e.Statement != "":
			when = "runs until " + o.clock(e.Ends, now)
		case !e.Next.IsZero():
			when = o.clock(e.Next, now)
		}
		last := e.Last
		if last != "" {
			last = o.clock(e.LastAt, now) + " " + last
		}
		rows = append(rows, []string{e.Target, fmt.Sprintf("%g %%", e.By), time.Duration(e.Over).String(), e.Window, when, last})
	}
	o.tableOr("no practice drains are configured", []string{"TARGET", ">BY", ">OVER", "WINDOW", "NEXT", "LAST"}, rows)
	return nil
}

type drillRunOptions struct {
	orderOptions
	last length
}

func newDrillRun(s *streams) *cobra.Command {
	o := &drillRunOptions{orderOptions: orderOptions{streams: s, example: "before the season"}}
	cmd := &cobra.Command{
		Use:   "run TARGET --reason WHY",
		Short: "Run a configured practice drain now",
		Long: "Run does what the schedule would do in the window of the drill: it drains the target, and gives it back. The drill ends early when its abort condition holds, when its alert fires, when " +
			"anything else touches its target, and when something else of its services is drained or down. A report is in `edgesteer history`.\n`edgesteer restore TARGET` ends it.",
		Example:           "  edgesteer drill run eu-west-1 --for 15m --reason \"before the season\"",
		Args:              arguments("TARGET"),
		ValidArgsFunction: targets(drills),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.addWhy(cmd)
	cmd.Flags().Var(&o.last, "for", "`TIME` that it takes, ramps included (left out: as long as its window)")
	o.addHow(cmd)
	if err := cmd.Flags().MarkHidden("override"); err != nil { // nobody breaks a guard rail to practise
		panic(err)
	}
	return cmd
}

func (o *drillRunOptions) run(ctx context.Context, target string) error {
	return o.orderOptions.run(ctx, "edgesteer drill run "+target, func(ctx context.Context, c *api.Client, order api.Order) (*api.Change, error) {
		return c.RunDrill(ctx, api.DrillRequest{Target: target, For: api.Duration(o.last), Order: order})
	})
}
