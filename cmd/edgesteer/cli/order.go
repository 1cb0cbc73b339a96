package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
)

// orderOptions are what all commands that change traffic have in common: they show what will change, ask, do it, and say how to take it back.
type orderOptions struct {
	*streams
	server   string
	example  string // of a reason, for hints; "": that of a drain
	reason   string
	ticket   string
	author   string
	override []string
	wait     wait
	dryRun   bool
	yes      bool
	output   output
}

// request is one request of the API; the order says whether it is a dry run.
type request func(context.Context, *api.Client, api.Order) (*api.Change, error)

// addWhy adds the flags that say why.
func (o *orderOptions) addWhy(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false // the most used first
	cmd.Flags().StringVar(&o.reason, "reason", "", "`WHY`, for those who come after you; needed")
	cmd.Flags().StringVar(&o.ticket, "ticket", "", "number or address of a `TICKET`")
}

// addHow adds the flags that all have but for those that say why.
func (o *orderOptions) addHow(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would change, and change nothing")
	f.BoolVar(&o.yes, "yes", false, "do it without asking; scripts need this")
	f.StringSliceVar(&o.override, "override", nil, "break these `GUARDS`: capacity, half, last; volatile: accept what the disk refuses, until a restart")
	f.Var(&o.wait, "wait", "return when all nodes within reach obey; after this `TIME` with exit code 3")
	f.Lookup("wait").NoOptDefVal = "10s"
	f.StringVar(&o.author, "author", "", "your `NAME`, where many share one account; through a socket only (left out: SUDO_USER)")
	addServer(cmd, &o.server)
	addOutput(cmd, &o.output)
	complete(cmd, "override", "capacity", "half", "last", "volatile")
}

// run does an order. line is the command so far, for hints: edgesteer drain eu-west-1.
func (o *orderOptions) run(ctx context.Context, line string, do request) error {
	switch {
	case strings.TrimSpace(o.reason) == "" && !o.dryRun:
		return wrong(line+" --reason "+strconv.Quote(cmp.Or(o.example, "fibre works")), "--reason is missing: say why, for those who come after you")
	case !o.dryRun && !o.yes && !o.asks:
		return wrong("add --yes to do it, or --dry-run to see what it would do", "there is no terminal to ask on")
	}
	signal.Ignore(syscall.SIGPIPE) // an order is sent also when nobody reads the preview
	c, err := o.connect(o.server)
	if err != nil {
		return err
	}
	send := func(order api.Order) (*api.Change, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTime+time.Duration(order.Wait))
		defer cancel()
		return do(ctx, c, order)
	}
	order := o.order(c)
	preview, refused, err := o.preview(order, send)
	p := &printer{streams: o.streams, named: o.server, from: c.Server()}
	switch {
	case o.dryRun && err == nil:
		return o.simulated(p, preview, refused)
	case o.yes && isProblem(err): // let the server refuse it: a refusal is in the history, a preview is not
		preview = new(api.Change)
	case err != nil:
		return err
	case o.output != "json":
		p.preview(preview)
	case !o.yes:
		onErr := *p
		onErr.streams = &streams{out: o.err, err: o.err}
		onErr.preview(preview)
	}
	if !o.yes {
		if refused != nil {
			return refused
		}
		if err := o.confirm(); err != nil {
			return err
		}
		order.If = preview.Version // what was looked at is what is changed
	}
	order.Wait = api.Duration(o.wait)
	done, err := send(order)
	if err != nil {
		return guarded(err)
	}
	o.ordered = true
	if o.output == "json" {
		err = o.json(done)
	} else {
		p.done(done, preview)
	}
	return cmp.Or(late(done), err)
}

// simulated is the end of a dry run. Exit code 4: it would be refused.
func (o *orderOptions) simulated(p *printer, preview *api.Change, refused error) error {
	if o.output == "json" {
		if err := o.json(preview); err != nil {
			return err
		}
	} else {
		p.preview(preview)
	}
	if f, ok := errors.AsType[*failure](refused); ok {
		f.code = exitProblems
	}
	return refused
}

func isProblem(err error) bool {
	_, ok := errors.AsType[*api.Problem](err)
	return ok
}

func (o *orderOptions) order(c *api.Client) api.Order {
	order := api.Order{Reason: o.reason, Ticket: o.ticket, Override: o.override}
	if strings.TrimSpace(order.Reason) == "" {
		order.Reason = "dry run" // asked for what is done only
	}
	if c.Local() {
		order.Author = o.author
		if order.Author == "" {
			order.Author = os.Getenv("SUDO_USER")
		}
	}
	return order
}

// preview asks what would happen. If guard rails would break, refused says so, and the preview is of what they keep from happening.
func (o *orderOptions) preview(order api.Order, do func(api.Order) (*api.Change, error)) (preview *api.Change, refused, err error) {
	order.DryRun = true
	preview, err = do(order)
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Type == api.ProblemRefused {
		refused = guarded(err)
		named := order.Override
		for _, g := range p.Guards {
			order.Override = append(slices.Clip(order.Override), string(g.Name))
		}
		if preview, err = do(order); err != nil {
			return nil, nil, refused
		}
		for i := range preview.Guards {
			preview.Guards[i].Overridden = slices.Contains(named, string(preview.Guards[i].Name))
		}
		for i := range preview.Statements {
			preview.Statements[i].Overrides = named
		}
	}
	return preview, refused, err
}

// guarded says which guard rails refuse; the details are in the preview.
func guarded(err error) error {
	p, ok := errors.AsType[*api.Problem](err)
	if !ok || p.Type != api.ProblemRefused {
		return err
	}
	var names []string
	for _, g := range p.Guards {
		if name := string(g.Name); !g.Overridden && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return err
	}
	what := "a guard rail would break: " + names[0]
	if len(names) > 1 {
		what = "guard rails would break: " + strings.Join(names, ", ")
	}
	return hinted(&broken{text: "refused, " + what, problem: p}, "to do it all the same, add --override "+strings.Join(names, ","))
}

// broken is a refusal in a few words.
type broken struct {
	text    string
	problem *api.Problem
}

func (b *broken) Error() string { return b.text }
func (b *broken) Unwrap() error { return b.problem }

// confirm asks; only yes is yes.
func (o *orderOptions) confirm() error {
	fmt.Fprint(o.err, "Proceed? [y/N] ")
	answer, err := bufio.NewReader(o.in).ReadString('\n')
	if err != nil {
		fmt.Fprintln(o.err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was changed")
}

// late is exit code 3 if not every node obeys in time.
func late(done *api.Change) error {
	var behind []string
	for _, n := range done.Nodes {
		if !n.Applied {
			behind = append(behind, n.Node)
		}
	}
	if behind == nil {
		return nil
	}
	return &failure{code: exitLate, err: errors.New("done here, but not in time on " + strings.Join(behind, ", ")), hint: "edgesteer status shows whether it came through"}
}

// wait is the flag --wait: how long to wait for other nodes.
type wait api.Duration

func (w *wait) String() string {
	if *w == 0 {
		return ""
	}
	return api.Duration(*w).String()
}

func (w *wait) Type() string { return "TIME" }

func (w *wait) Set(s string) error {
	d, err := api.ParseDuration(s)
	if err != nil || d == api.Forever || d == 0 {
		return errors.New(`want a length of time such as "10s"`)
	}
	*w = wait(d)
	return nil
}

// length is a flag that takes a length of time: --for, --over.
type length api.Duration

func (l *length) String() string {
	if *l == 0 {
		return ""
	}
	return api.Duration(*l).String()
}

func (l *length) Type() string { return "TIME" }

func (l *length) Set(s string) error {
	d, err := api.ParseDuration(s)
	if err != nil {
		return errors.New(`want a length of time such as "10m", "8h" or "3d"`)
	}
	*l = length(d)
	return nil
}

// lasting is the flag --for: a length of time that is not nothing.
type lasting struct{ length }

func (l *lasting) Set(s string) error {
	if err := l.length.Set(s); err != nil {
		return err
	}
	if l.length == 0 {
		return errors.New(`0 would end at once; want a length of time such as "8h" or "3d", or "forever"`)
	}
	return nil
}

// by is the flag --by: a whole percentage. 0 is all.
type by float64

func (b *by) String() string {
	if *b == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*b), 'f', -1, 64) + "%"
}

func (b *by) Type() string { return "PERCENT" }

func (b *by) Set(s string) error {
	f, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(s, "%")), 64)
	switch {
	case err != nil:
		return errors.New("want a percentage such as 37%")
	case f == 0:
		return errors.New("0% would do nothing; edgesteer restore gives everything back")
	case !(f >= 1 && f <= 100 && f == float64(int(f))):
		return errors.New("want a whole percentage from 1% to 100%")
	}
	*b = by(f)
	return nil
}

// percent is what the API takes.
func (b by) percent() *float64 {
	f := float64(b)
	if f == 0 {
		f = 100
	}
	return &f
}

// steps is the flag --steps: parts of the way, rising to 100.
type steps []float64

func (p *steps) String() string {
	var words []string
	for _, f := range *p {
		words = append(words, strconv.FormatFloat(f, 'f', -1, 64)+"%")
	}
	return strings.Join(words, ",")
}

func (p *steps) Type() string { return "PERCENTS" }

func (p *steps) Set(s string) error {
	*p = nil
	for word := range strings.SplitSeq(s, ",") {
		f, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(word, "%")), 64)
		if err != nil {
			return errors.New("want percentages of the way such as 1%,10%,50%,100%")
		}
		*p = append(*p, f)
	}
	return nil
}
