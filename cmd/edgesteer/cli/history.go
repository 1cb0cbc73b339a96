package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
)

type historyOptions struct {
	*streams
	server string
	query  api.HistoryQuery
	output output
}

func newHistory(s *streams) *cobra.Command {
	o := &historyOptions{streams: s}
	cmd := &cobra.Command{
		Use:     "history",
		Short:   "Show what was done, refused and ended: who, when and why",
		Long:    "History shows, newest first, every statement, refusal, override, expiry, renewal and restore that this node knows of. Times are UTC.",
		Example: "  edgesteer history\n  edgesteer history --target eu-west-1 --limit 10\n  edgesteer history --id d-7k2mabcdef -o json",
		Args:    arguments(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.query.Target, "target", "", "only what touches this `TARGET`")
	f.StringVar(&o.query.ID, "id", "", "only what was said of the statement with this `ID`")
	f.IntVar(&o.query.Limit, "limit", 25, "at most `N` entries, up to 1000")
	f.Uint64Var(&o.query.Before, "before", 0, "only entries older than `NUMBER`")
	addServer(cmd, &o.server)
	addOutput(cmd, &o.output)
	completeLive(cmd, "target", everything)
	completeLive(cmd, "id", ids)
	return cmd
}

func (o *historyOptions) run(ctx context.Context) error {
	if o.query.Limit < 1 {
		return wrong("edgesteer history --limit 25", "--limit %d is not above 0", o.query.Limit)
	}
	c, err := o.connect(o.server)
	if err != nil {
		return err
	}
	h, err := inTime(ctx, func(ctx context.Context) (*api.History, error) { return c.History(ctx, o.query) })
	if err != nil {
		return err
	}
	if o.output == "json" {
		return o.json(h)
	}
	for i := range h.Entries {
		o.entry(&h.Entries[i])
	}
	if len(h.Entries) == 0 {
		return o.nothing(ctx, c)
	}
	if h.Before > 0 {
		fmt.Fprintf(o.err, "older: edgesteer history%s --before %d\n", o.filters(), h.Before)
	}
	return nil
}

// nothing says why there is nothing: perhaps what was asked for does not exist.
func (o *historyOptions) nothing(ctx context.Context, c *api.Client) error {
	switch {
	case o.query.Before > 0:
		fmt.Fprintln(o.err, "nothing is older")
	case o.query.ID != "":
		return hinted(fmt.Errorf("nothing is known of a statement %q", o.query.ID), "edgesteer history shows what there is")
	case o.query.Target != "":
		names := everything(ctx, c, o.query.Target)
		for i := range names {
			names[i], _, _ = strings.Cut(names[i], "\t")
		}
		if !slices.Contains(names, o.query.Target) {
			return hinted(fmt.Errorf("nothing is known of a target %q", o.query.Target), cmp.Or(config.DidYouMean(o.query.Target, names), "edgesteer pop list shows what there is"))
		}
		fmt.Fprintf(o.err, "nothing was done to %s yet\n", o.query.Target)
	default:
		fmt.Fprintln(o.err, "nothing was done yet")
	}
	return nil
}

func (o *historyOptions) filters() (s string) {
	if o.query.Target != "" {
		s += " --target " + quoted(o.query.Target)
	}
	if o.query.ID != "" {
		s += " --id " + quoted(o.query.ID)
	}
	return s
}

// entry writes what was done, for people on two lines, so that a reason is not cut.
func (o *historyOptions) entry(e *api.HistoryEntry) {
	what := ""
	if e.Kind != "" {
		what = string(e.Kind) + " "
	}
	by := 0.0
	if e.After != nil {
		by = e.After.By
	}
	what += object(e.Target, e.To, e.Kind, by)
	text := why(e.Reason, e.Ticket)
	switch message := oneLine(e.Message); {
	case text == "":
		text = message
	case message != "":
		text += " (" + message + ")"
	}
	author := who(e.Author, e.Class)
	if !o.terminal {
		fmt.Fprintln(o.out, strings.Join([]string{e.Time.UTC().Format(time.RFC3339), string(e.Action), e.Statement, what, author, text}, "\t"))
		return
	}
	const margin = 21
	first := fmt.Sprintf("%s  %-8s  %s", e.Time.UTC().Format("2006-01-02 15:04:05"), e.Action, strings.TrimSpace(e.Statement+" "+what))
	fmt.Fprintln(o.out, strings.TrimRight(first, " "))
	if author != "" {
		text = author + ": " + text
	}
	fmt.Fprintln(o.out, o.wrapped(margin, strings.Repeat(" ", margin)+text))
}
