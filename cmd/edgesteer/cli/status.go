package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
)

type statusOptions struct {
	*streams
	server string
	watch  bool
	brief  bool     // PoPs with nothing to tell are left out
	fresh  *fresh   // of a watch: what has changed lately; nil: it is none
	drawn  []string // of a watch: the lines of the screen
	output output
}

func newStatus(s *streams) *cobra.Command {
	o := &statusOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the PoPs, what they get and why, and what was said",
		Long: "Status shows what each PoP gets of its networks (SHARE) and of all answers (ANSWERS), its load against its watermarks and its capacity, and what decides; " +
			"then the statements in force with who made them, until when and why.\n" +
			"Where a PoP has several services, those are shown that differ from it.\n\n" +
			"With --watch it goes on: on a terminal the picture is drawn anew every second until Ctrl-C, and what a PoP gets is marked with * for ten seconds when it has changed; " +
			"otherwise there is a line for each thing that happens.",
		Example: "  edgesteer status\n  edgesteer status --watch",
		Args:    arguments(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().BoolVar(&o.watch, "watch", false, "go on and show what changes")
	addServer(cmd, &o.server)
	addOutput(cmd, &o.output)
	return cmd
}

func (o *statusOptions) run(ctx context.Context) error {
	c, err := o.connect(o.server)
	if err != nil {
		return err
	}
	switch {
	case o.watch && o.moves && o.output != "json":
		return o.redraw(ctx, c)
	case o.watch:
		return o.follow(ctx, c)
	}
	st, err := inTime(ctx, c.Status)
	if err != nil {
		return err
	}
	if o.output == "json" {
		return o.json(st)
	}
	o.show(st, c.Server())
	return nil
}

// inTime sends a request that takes no more than its time.
func inTime[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return f(ctx)
}

// show writes a status.
func (o *statusOptions) show(st *api.Status, server string) {
	o.head(st, server)
	var rows [][]string
	quiet := 0
	for i := range st.PoPs {
		list := o.popRows(&st.PoPs[i])
		if o.brief && len(list) == 1 && st.PoPs[i].Share == 100 && list[0][6] == "" && o.fresh.mark(st.PoPs[i].Name, st.Time) != "*" {
			quiet++
			continue
		}
		rows = append(rows, list...)
	}
	o.blankUnknown(rows, 2, 3)
	heading := []string{"POP", ">SHARE", ">ANSWERS", ">LOAD", ">WATERMARKS", ">CAPACITY", "WHY"}
	if o.fresh != nil {
		heading = append([]string{""}, heading...)
		for i := range rows {
			rows[i] = append([]string{o.fresh.mark(rows[i][0], st.Time)}, rows[i]...)
		}
	}
	o.section("pop", heading, rows)
	if quiet > 0 {
		fmt.Fprintln(o.out, o.dim(count(quiet, "PoP")+" more with nothing to tell, at 100 %"))
	}
	if len(st.Statements) > 0 {
		o.gap()
		o.statements(st.Statements, st.Time)
	}
	var notes [][]string
	for _, text := range st.NotReady {
		notes = append(notes, []string{"not ready: " + text})
	}
	if !st.Ledger.Durable {
		notes = append(notes, []string{"the disk refuses statements: " + st.Ledger.Error})
	}
	for _, text := range st.Warnings {
		if !st.Ledger.Durable && strings.HasSuffix(text, st.Ledger.Error) {
			continue // has been said
		}
		notes = append(notes, []string{text})
	}
	if len(notes) == 0 {
		return
	}
	o.gap()
	for _, n := range notes {
		if o.terminal {
			fmt.Fprintln(o.out, o.wrapped(2, o.bold("warning:")+" "+n[0]))
		} else {
			fmt.Fprintf(o.out, "warning\t%s\n", n[0])
		}
	}
}

// head is the line about the node.
func (o *statusOptions) head(st *api.Status, server string) {
	if !o.terminal {
		return
	}
	asked := "unknown"
	if st.Queries != nil {
		asked = api.Short(*st.Queries)
	}
	fmt.Fprintln(o.out, o.cut(fmt.Sprintf("%s, up %s, %s, %s steered queries a second (5-minute average)", o.bold(st.Node.Name), api.Span(st.Time.Sub(st.Node.Started)), count(len(st.Statements), "statement"), asked)))
	fmt.Fprintln(o.out, o.dim(o.cut(server)))
	fmt.Fprintln(o.out)
}

// blankUnknown leaves figures out, for people, of which no row has one.
func (s *streams) blankUnknown(rows [][]string, columns ...int) {
	for _, i := range columns {
		known := slices.ContainsFunc(rows, func(row []string) bool { return row[i] != "" && row[i] != "unknown" })
		for _, row := range rows {
			if s.terminal && !known {
				row[i] = ""
			}
		}
	}
}

// gap is an empty line between tables for people.
func (s *streams) gap() {
	if s.terminal {
		fmt.Fprintln(s.out)
	}
}

// popRows are a PoP and those of its endpoints that are worth a row: the only one is in the PoP's own.
func (s *streams) popRows(p *api.PoP) [][]string {
	row := []string{p.Name, s.share(p.Share), s.part(p.Answers), "", "", "", reasonText(deciding(p.Why))}
	if len(p.Endpoints) == 1 {
		e := &p.Endpoints[0]
		copy(row[3:], s.load(e))
		if e.Share < p.Share {
			row[1], row[6] = s.share(e.Share), reasonText(deciding(e.Why))
		}
		row[6] = join(row[6], trouble(e))
		return [][]string{row}
	}
	rows := [][]string{row}
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		if s.terminal && e.Share == p.Share && trouble(e) == "" {
			continue
		}
		reason := ""
		if e.Share != p.Share {
			reason = reasonText(deciding(e.Why))
		}
		rows = append(rows, append([]string{p.Name + "/" + e.Service, s.share(e.Share), ""}, append(s.load(e), join(reason, trouble(e)))...))
	}
	return rows
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// load is the load of an endpoint, its watermarks and its capacity.
func (s *streams) load(e *api.Endpoint) []string {
	load, marks, capacity := "", "", ""
	if l := e.Load; l != nil {
		load = s.amount(l.Value)
		if l.Stale && l.Value != nil {
			load += " (old)"
		}
		if l.Low != nil && l.High != nil {
			marks = s.amount(l.Low) + "-" + s.amount(l.High)
		}
	}
	if e.Capacity != nil {
		capacity = s.amount(e.Capacity)
	}
	return []string{load, marks, capacity}
}

// trouble is what is wrong with an endpoint beside its share.
func trouble(e *api.Endpoint) string {
	var list []string
	if e.Shed > 0 {
		list = append(list, api.Percent(e.Shed)+" shed")
	}
	down := 0
	for _, a := range e.Addresses {
		if a.Down {
			down++
		}
	}
	if down > 0 && down < len(e.Addresses) {
		list = append(list, fmt.Sprintf("%d of %d addresses down", down, len(e.Addresses)))
	}
	if e.Load != nil && e.Load.Value != nil && e.Capacity != nil && *e.Load.Value > *e.Capacity {
		list = append(list, "above capacity")
	}
	return strings.Join(list, ", ")
}

// deciding is the reason that set a share; nil if nothing bears on it.
func deciding(list []api.Reason) *api.Reason {
	for i := range list {
		if list[i].Decides {
			return &list[i]
		}
	}
	for i := range list {
		if list[i].Applied {
			return &list[i] // a pin
		}
	}
	return nil
}

// reasonText is a reason in a few words.
func reasonText(r *api.Reason) string {
	switch {
	case r == nil:
		return ""
	case r.Kind == api.KindHealth:
		return "health: " + r.Text
	}
	text := string(r.Kind)
	if r.ShiftTo != "" {
		text += " to " + r.ShiftTo
	}
	return text + " by " + who(r.Author, r.Class) + ": " + why(r.Text, "")
}

// statements writes each with who made it, until when and why: for people on two lines, so that a reason is not cut.
func (s *streams) statements(list []api.Statement, now time.Time) {
	for i := range list {
		st := &list[i]
		what := string(st.Kind) + " " + object(st.Target, st.To, st.Kind, st.By) + progress(st)
		reason := why(st.Reason, st.Ticket)
		if !s.terminal {
			fmt.Fprintln(s.out, strings.Join([]string{"statement", st.ID, what, who(st.Author, st.Class), s.end(st, now), reason}, "\t"))
			continue
		}
		fmt.Fprintln(s.out, s.wrapped(14, fmt.Sprintf("%-12s  %s, %s", st.ID, what, s.end(st, now))))
		fmt.Fprintln(s.out, s.wrapped(14, strings.Repeat(" ", 14)+who(st.Author, st.Class)+": "+reason))
	}
}

// end is until when a statement is in force.
func (s *streams) end(st *api.Statement, now time.Time) string {
	switch {
	case st.State == api.StateScheduled:
		return "from " + s.clock(st.Start, now)
	case st.State == api.StateRestoring:
		return "coming back"
	case !s.terminal:
		return s.until(st.End, now)
	case st.End == nil:
		return "for ever"
	}
	return "until " + s.until(st.End, now)
}

// progress tells how far a ramp is.
func progress(st *api.Statement) string {
	left := 100 - st.Share
	if st.Kind == api.KindPin || st.State == api.StateScheduled || left == st.By {
		return ""
	}
	return ", now " + api.Percent(left)
}
