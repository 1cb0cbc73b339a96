package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
)

type healthOptions struct {
	question
	node string
}

func newHealth(s *streams) *cobra.Command {
	return group(&cobra.Command{
		Use:     "health list|show|run",
		Short:   "Show what the nodes believe of the endpoints, or check one now",
		Example: "  edgesteer health list\n  edgesteer health show eu-west-1/envoy-wss\n  edgesteer health run eu-west-1/envoy-wss",
	}, newHealthList(s), newHealthShow(s), newHealthRun(s))
}

func newHealthList(s *streams) *cobra.Command {
	o := &healthOptions{question: question{streams: s}}
	return o.flags(&cobra.Command{
		Use:   "list",
		Short: "List the endpoints that are checked, with the verdict of the fleet",
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return put(cmd.Context(), &o.question, func(c *api.Client, ctx context.Context) (*api.Health, error) { return c.Health(ctx, "") }, o.list)
		},
	})
}

func newHealthShow(s *streams) *cobra.Command {
	o := &healthOptions{question: question{streams: s}}
	return o.flags(&cobra.Command{
		Use:               "show TARGET",
		Short:             "Show what each node believes of endpoints, and what this one has seen of each address",
		Args:              arguments("TARGET"),
		ValidArgsFunction: targets(everything),
		RunE: func(cmd *cobra.Command, args []string) error {
			return put(cmd.Context(), &o.question, func(c *api.Client, ctx context.Context) (*api.Health, error) { return c.Health(ctx, args[0]) }, func(h *api.Health) error { return o.show(args[0], h) })
		},
	})
}

func newHealthRun(s *streams) *cobra.Command {
	o := &healthOptions{question: question{streams: s}}
	cmd := &cobra.Command{
		Use:               "run POP/SERVICE",
		Short:             "Check an endpoint now, from all nodes or from one",
		Long:              "Run checks every address of an endpoint once, from all nodes of the fleet that are within reach, and tells what came of it. It counts towards no verdict. Exit code 4: an address fails, or a node does not answer.",
		Args:              arguments("POP/SERVICE"),
		ValidArgsFunction: targets(everything),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&o.node, "node", "", "check from this `NODE` only")
	completeLive(cmd, "node", nodes)
	return cmd
}

func (o *healthOptions) list(h *api.Health) error {
	now := time.Now()
	var rows [][]string
	for i := range h.Endpoints {
		e := &h.Endpoints[i]
		rows = append(rows, []string{e.Target, e.Kind, believed(e), o.age(e.Since, now), votes(e), evidence(e)})
	}
	o.tableOr("no endpoint is checked: no service has a check", []string{"ENDPOINT", "CHECK", "VERDICT", "SINCE", "VOTES", "LAST ERROR"}, rows)
	return nil
}

// believed is a verdict, and whether the nodes are at one about it.
func believed(e *api.EndpointHealth) string {
	switch {
	case e.Gray:
		return string(e.Verdict) + " (gray)"
	case !e.Quorum && e.Verdict != api.HealthUnknown:
		return string(e.Verdict) + " (kept)"
	}
	return string(e.Verdict)
}

// votes are those that say up, those that count, and those that might.
func votes(e *api.EndpointHealth) string {
	return fmt.Sprintf("%d up, %d down of %d", e.Fresh-e.Against, e.Against, e.Voters)
}

// evidence is the error that some node saw last, and which it was when there are several.
func evidence(e *api.EndpointHealth) string {
	for _, v := range e.Votes {
		if v.Error != "" {
			if len(e.Votes) > 1 {
				return v.Node + ": " + v.Error
			}
			return v.Error
		}
	}
	for _, a := range e.Addresses {
		if a.Error != "" {
			return a.Address + ": " + a.Error
		}
	}
	for _, a := range e.Addresses {
		if a.Warning != "" {
			return "warning: " + a.Warning
		}
	}
	return ""
}

// age is how long ago something was, for programs when it was.
func (o *healthOptions) age(t, now time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case !o.terminal:
		return o.clock(t, now)
	}
	return api.Span(max(0, now.Sub(t))) + " ago"
}

func (o *healthOptions) show(target string, h *api.Health) error {
	if len(h.Endpoints) == 0 {
		return hinted(fmt.Errorf("nothing of %s is checked", target), "edgesteer health list shows what is")
	}
	now := time.Now()
	for i := range h.Endpoints {
		e := &h.Endpoints[i]
		if i > 0 {
			o.gap()
		}
		o.fields("endpoint", e.Target, "verdict", believed(e), "since", o.age(e.Since, now), "votes", votes(e), "check", e.Kind+" every "+e.Interval.String())
		o.gap()
		var rows [][]string
		for _, v := range e.Votes {
			rows = append(rows, []string{v.Node, v.PoP, voted(&v), o.age(v.Since, now), v.Error})
		}
		o.section("vote", []string{"NODE", "POP", "VOTE", "SINCE", "ERROR"}, rows)
		o.gap()
		rows = nil
		for _, a := range e.Addresses {
			rows = append(rows, []string{
				a.Address, string(a.State), o.age(a.Since, now), o.age(a.Last, now), o.due(a.Next, now), time.Duration(a.Took).Round(100 * time.Microsecond).String(),
				strconv.FormatUint(a.Checks, 10), strconv.FormatUint(a.Faults, 10), strconv.Itoa(a.InARow), result(a.Error, a.Warning), a.LastError,
			})
		}
		o.section("address", []string{"ADDRESS", "STATE", "SINCE", "CHECKED", "NEXT", ">TOOK", ">CHECKS", ">FAULTS", ">IN A ROW", "RESULT", "LAST ERROR"}, rows)
	}
	return nil
}

func voted(v *api.Vote) string {
	out := string(api.HealthUp)
	if v.Down {
		out = string(api.HealthDown)
	}
	switch {
	case v.Why != "":
		out += " (does not count: " + v.Why + ")"
	case v.Dissents:
		out += " (dissents)"
	}
	return out
}

func result(err, warning string) string {
	switch {
	case err != "":
		return err
	case warning != "":
		return "good, but " + warning
	}
	return "good"
}

// due is when something will be.
func (o *healthOptions) due(t, now time.Time) string {
	if !o.terminal {
		return o.clock(t, now)
	}
	return "in " + api.Span(max(0, t.Sub(now)))
}

func (o *healthOptions) run(ctx context.Context, target string) error {
	c, err := o.connect(o.server)
	if err != nil {
		return err
	}
	r, err := inTime(ctx, func(ctx context.Context) (*api.ProbeResults, error) { return c.RunHealth(ctx, target, o.node) })
	if err != nil {
		return err
	}
	failed := false
	var rows [][]string
	for _, p := range r.Results {
		failed = failed || !p.Good
		text := result(p.Error, p.Warning)
		if p.Local {
			text = "not possible from there: " + p.Error
		}
		rows = append(rows, []string{p.Node, p.Address, text, time.Duration(p.Took).Round(100 * time.Microsecond).String()})
	}
	if o.output == "json" {
		err = o.json(r)
	} else {
		o.table([]string{"NODE", "ADDRESS", "RESULT", ">TOOK"}, rows)
	}
	if err == nil && failed {
		return &failure{code: exitProblems}
	}
	return err
}
