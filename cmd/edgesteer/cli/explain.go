package cli

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/app"
)

type explainOptions struct {
	*streams
	config string
	server string
	client string
	sender string
	down   []string
	share  []string
	load   []string
	output output
}

func newExplain(s *streams) *cobra.Command {
	o := &explainOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "explain NAME TYPE --client PREFIX",
		Short: "Tell why a client gets an answer",
		Long: "Explain answers one query as the server would, by the same code, and tells who asked, where that is, and what each filter of the chain did to which candidate and why.\n\n" +
			"With --config it loads the configuration and assumes that everything is up, but for what --down, --share and --load say; with --server it asks a running server about its present state. " +
			"With neither it asks the server of edgesteer.toml here, and takes that file itself if its server does not answer; without one it asks the server of this machine.",
		Example: "  edgesteer explain wss-primary.example.com A --client 1.0.16.0/24\n" +
			"  edgesteer explain wss-primary.example.com A --client 203.0.113.0/24 --down eu-west-1 --load us-east-1/envoy-wss=95000",
		Args:              arguments("NAME", "TYPE"),
		ValidArgsFunction: targets(unknown, types),
		RunE: func(cmd *cobra.Command, args []string) error {
			configured := cmd.Flags().Changed("config")
			switch config, server := typed(cmd.Flag("config")), typed(cmd.Flag("server")); {
			case config && server:
				return wrong(cmd.CommandPath()+" --help", "give --config or --server, not both")
			case config:
				o.server = ""
			}
			return o.run(cmd.Context(), args[0], args[1], configured)
		},
	}
	f := cmd.Flags()
	addConfig(cmd, &o.config)
	addServer(cmd, &o.server)
	f.StringVar(&o.client, "client", "", "the `PREFIX` or address that asks, sent as client subnet")
	f.StringVar(&o.sender, "sender", "", "`ADDRESS` that sends the query (left out: the client's)")
	f.StringSliceVar(&o.down, "down", nil, "assume that a `TARGET` is down: POP, POP/SERVICE or */SERVICE")
	f.StringSliceVar(&o.share, "share", nil, "assume that a target gets a share: `TARGET=37%`")
	f.StringSliceVar(&o.load, "load", nil, "assume the load of a target: `TARGET=95000`")
	completeLive(cmd, "down", everything)
	addOutput(cmd, &o.output)
	return cmd
}

func (o *explainOptions) run(ctx context.Context, name, qtype string, configured bool) error {
	client, err := subnet(o.client)
	if err != nil {
		return err
	}
	query := api.ExplainQuery{Name: name, Type: strings.ToUpper(qtype), Client: client, Sender: o.sender}
	assumed := len(o.down)+len(o.share)+len(o.load) > 0
	server := o.server
	if server == "" && !configured && !assumed {
		if server, err = o.localServer(); err != nil && !exists(o.config) {
			return err
		}
	}
	var e *api.Explanation
	switch {
	case server == "":
		e, err = o.offline(query)
	case assumed:
		err = wrong("leave out --server, or the assumptions", "--down, --share and --load are assumptions; a running server has a state of its own")
	default:
		e, err = online(ctx, server, query)
	}
	if err != nil {
		return err
	}
	if o.output == "json" {
		return o.json(e)
	}
	o.tell(e, state(server, o.config, assumed))
	return nil
}

// subnet takes a prefix or an address.
func subnet(s string) (string, error) {
	const hint = "edgesteer explain wss-primary.example.com A --client 1.0.16.0/24"
	if s == "" {
		return "", wrong(hint, "--client is missing")
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return s, nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return "", wrong(hint, "%q is not an address or a prefix", s)
	}
	return p.Masked().String(), nil
}

func online(ctx context.Context, server string, q api.ExplainQuery) (*api.Explanation, error) {
	c, err := newClient(server)
	if err != nil {
		return nil, err
	}
	return c.Explain(ctx, q)
}

func (o *explainOptions) offline(q api.ExplainQuery) (*api.Explanation, error) {
	share, err := assumptions(o.share, "37%", func(s string) (float64, bool) {
		f, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
		return f, err == nil && strings.HasSuffix(s, "%") && f >= 0 && f <= 100
	})
	if err != nil {
		return nil, err
	}
	for _, target := range o.down {
		share[target] = 0
	}
	loads, err := assumptions(o.load, "95000", func(s string) (float64, bool) {
		f, err := strconv.ParseFloat(s, 64)
		return f, err == nil && f >= 0
	})
	if err != nil {
		return nil, err
	}
	a, err := load(o.config)
	if err != nil {
		return nil, err
	}
	return a.Suppose(q, app.Assumptions{Share: share, Load: loads})
}

// assumptions reads TARGET=VALUE.
func assumptions(list []string, example string, parse func(string) (float64, bool)) (map[string]float64, error) {
	out := map[string]float64{}
	for _, s := range list {
		target, text, _ := strings.Cut(s, "=")
		value, ok := parse(text)
		if !ok {
			return nil, wrong("write it like eu-west-1/envoy-wss="+example, "%q is not TARGET=%s", s, example)
		}
		out[target] = value
	}
	return out, nil
}

// state says what the answer rests on.
func state(server, config string, assumed bool) string {
	switch {
	case server != "":
		return "that of now, of " + server
	case assumed:
		return "as assumed, everything else in " + config + " up"
	}
	return "everything in " + config + " up"
}

// tell writes an explanation for people.
func (o *explainOptions) tell(e *api.Explanation, state string) {
	database := ""
	if e.Database != nil {
		database = strings.Join(e.Database.Names, ", ")
		if e.Database.Attribution != "" {
			database += " (" + e.Database.Attribution + ")"
		}
	}
	o.fields(
		"question", e.Name+" "+e.Type,
		"client", client(e.Client),
		"place", place(e.Client),
		"database", database,
		"state", state,
	)
	for _, l := range e.Links {
		o.link(l)
	}
	fmt.Fprintln(o.out)
	possible := strings.Join(e.Possible, ", ")
	if e.PossibleAtMost {
		possible = "at most " + possible
	}
	result := []string{"rcode", e.RCode, "scope", "/" + strconv.Itoa(e.Scope), "possible", possible}
	for _, r := range e.Answer {
		result = append(result, "answer", o.bold(strings.Join(strings.Fields(r), " ")))
	}
	o.fields(result...)
	for _, w := range e.Warnings {
		fmt.Fprintf(o.err, "warning: %s\n", w)
	}
}

func client(a api.Asker) string {
	s := a.Prefix
	if a.Embedded != "" {
		s += " in " + a.Embedded
	}
	switch a.Source {
	case "ecs":
		return s + ", from the client subnet of a query sent by " + a.Sender
	case "resolver":
		return s + ", the sender"
	}
	return s
}

func place(a api.Asker) string {
	if a.LocatedBy == "nothing" || a.LocatedBy == "" {
		return "unknown"
	}
	var parts []string
	for _, p := range []string{a.Country, a.Subdivision, a.Georegion} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if a.ASN != 0 {
		parts = append(parts, fmt.Sprintf("AS%d", a.ASN))
	}
	if a.Latitude != nil && a.Longitude != nil {
		at := fmt.Sprintf("at %.1f, %.1f", *a.Latitude, *a.Longitude)
		if a.Centre != "" {
			at += " (centre of " + a.Centre + ")"
		}
		parts = append(parts, at)
	}
	s := strings.Join(parts, ", ") + "; located by " + map[string]string{"ecs": "client subnet", "resolver": "sender"}[a.LocatedBy]
	if a.Row != "" {
		s += ", row " + a.Row
	}
	return s
}

func (o *explainOptions) link(l api.Link) {
	title := l.Owner + ": " + l.Kind
	switch {
	case l.Type != "":
		title = fmt.Sprintf("%s %s: %s, TTL %d", l.Owner, l.Type, l.Kind, l.TTL)
	case l.Zone != "":
		title += " in zone " + l.Zone
	case l.Kind == "refused":
		title += ", it is in no zone of this server"
	}
	fmt.Fprintf(o.out, "\n%s\n", o.bold(title))
	for i, step := range l.Steps {
		o.step(i+1, step)
	}
	if l.Rung > 1 {
		fmt.Fprintf(o.out, "  rung %d of the ladder: %s\n", l.Rung, rung(l.Rung))
	}
	if l.Shed != "" {
		fmt.Fprintf(o.out, "  shed_load %s: it would have removed everybody\n", l.Shed)
	}
}

func rung(n int) string {
	switch n {
	case 2:
		return "everybody with a share above 0"
	case 3:
		return "health is ignored"
	}
	return "everybody"
}

// shown is how many candidates of a step are written for people; JSON has all.
const shown = 6

// step writes what a filter did: those removed with the reason, and those left in their order.
func (o *explainOptions) step(n int, s api.Step) {
	title := strings.TrimSpace(s.Filter + " " + s.Config)
	fmt.Fprintf(o.out, "  %d. %-36s %2d -> %-2d  %s\n", n, title, len(s.Before), len(s.After), o.dim(fmt.Sprintf("relies on /%d", s.Bits)))
	why := map[string][]string{}
	for _, note := range s.Notes {
		why[note.Answer] = append(why[note.Answer], note.Text)
	}
	var stayed, lines []string // stayed: in their old order
	for _, c := range s.Before {
		if slices.ContainsFunc(s.After, func(a api.Candidate) bool { return a.Answer == c.Answer }) {
			stayed = append(stayed, c.Answer)
		} else {
			lines = append(lines, "- "+c.Answer+reasons(why[c.Answer]))
		}
	}
	o.lines(lines)
	lines = nil
	for i, c := range s.After {
		moved := i >= len(stayed) || stayed[i] != c.Answer
		if !moved && len(why[c.Answer]) == 0 && c.Serves == "" {
			continue
		}
		name := c.Answer
		if c.Serves != "" {
			name += " (serving " + c.Serves + ")"
		}
		lines = append(lines, fmt.Sprintf("%d %s%s", i+1, name, reasons(why[c.Answer])))
	}
	o.lines(lines)
	o.lines(why[""])
}

// lines writes the first of them.
func (o *explainOptions) lines(list []string) {
	for i, line := range list {
		if i == shown && len(list) > shown+1 {
			fmt.Fprintf(o.out, "     %s\n", o.dim(fmt.Sprintf("... and %d more", len(list)-shown)))
			return
		}
		fmt.Fprintf(o.out, "     %s\n", line)
	}
}

func reasons(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return ": " + strings.Join(list, "; ")
}
