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

type popOptions struct {
	question
}

func newPoP(s *streams) *cobra.Command {
	return group(&cobra.Command{
		Use:     "pop list|show",
		Short:   "Show PoPs and who decides what they get",
		Example: "  edgesteer pop list\n  edgesteer pop show eu-west-1",
	}, newPoPList(s), newPoPShow(s))
}

func newPoPList(s *streams) *cobra.Command {
	o := &popOptions{question: question{streams: s}}
	return o.flags(&cobra.Command{
		Use:   "list",
		Short: "List the PoPs with their places and services",
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return put(cmd.Context(), &o.question, (*api.Client).PoPs, o.list)
		},
	})
}

func newPoPShow(s *streams) *cobra.Command {
	o := &popOptions{question: question{streams: s}}
	return o.flags(&cobra.Command{
		Use:               "show POP",
		Short:             "Show one PoP: what it gets, all that bears on it, and who won",
		Args:              arguments("POP"),
		ValidArgsFunction: targets(popsOnly),
		RunE: func(cmd *cobra.Command, args []string) error {
			return put(cmd.Context(), &o.question, func(c *api.Client, ctx context.Context) (*api.PoPDetail, error) { return c.PoP(ctx, args[0]) }, o.show)
		},
	})
}

func (o *popOptions) list(pops *api.PoPs) error {
	var rows [][]string
	for i := range pops.PoPs {
		p := &pops.PoPs[i]
		var services []string
		for _, e := range p.Endpoints {
			services = append(services, e.Service)
		}
		rows = append(rows, []string{p.Name, o.share(p.Share), o.part(p.Answers), where(p, ","), strings.Join(services, ",")})
	}
	o.blankUnknown(rows, 2)
	o.tableOr("no PoPs are configured", []string{"POP", ">SHARE", ">ANSWERS", "PLACE", "SERVICES"}, rows)
	return nil
}

// where is a PoP's place: its subdivisions, else its countries, and its regions.
func where(p *api.PoP, comma string) string {
	places := p.Subdivision
	if places == nil {
		places = p.Country
	}
	return strings.Join(append(append([]string{}, places...), p.Georegion...), comma)
}

func (o *popOptions) show(d *api.PoPDetail) error {
	p, now := &d.PoP, time.Now()
	at := where(p, ", ")
	if p.Latitude != nil && p.Longitude != nil {
		at += fmt.Sprintf("; %.1f, %.1f", *p.Latitude, *p.Longitude)
	}
	o.fields("pop", p.Name, "place", at, "share", o.share(p.Share), "answers", o.part(p.Answers))
	o.gap()
	var rows [][]string
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		rows = append(rows, append([]string{e.Service, o.share(e.Share)}, append(o.load(e), trouble(e), addresses(e))...))
	}
	o.blankUnknown(rows, 2)
	o.section("endpoint", []string{"SERVICE", ">SHARE", ">LOAD", ">WATERMARKS", ">CAPACITY", "STATE", "ADDRESSES"}, rows)
	told := o.bears(p.Name, p.Why, now)
	for i := range p.Endpoints {
		if e := &p.Endpoints[i]; !slices.EqualFunc(e.Why, p.Why, sameReason) {
			told = append(told, o.bears(p.Name+"/"+e.Service, e.Why, now)...)
		}
	}
	d.Statements = slices.DeleteFunc(d.Statements, func(st api.Statement) bool { return slices.Contains(told, st.ID) })
	if len(d.Statements) > 0 {
		o.gap()
		o.statements(d.Statements, now)
	}
	return nil
}

func sameReason(a, b api.Reason) bool {
	return a.Kind == b.Kind && a.Statement == b.Statement && a.Applied == b.Applied && a.Why == b.Why
}

func addresses(e *api.Endpoint) string {
	if e.CNAME != "" {
		return e.CNAME
	}
	var list []string
	for _, a := range e.Addresses {
		if a.Down {
			list = append(list, a.Address+" (down)")
		} else {
			list = append(list, a.Address)
		}
	}
	return strings.Join(list, " ")
}

// bears writes all that bears on a share, what decides first. It gives the statements that it names.
func (o *popOptions) bears(on string, list []api.Reason, now time.Time) (told []string) {
	if len(list) == 0 {
		return nil
	}
	if o.terminal {
		fmt.Fprintln(o.out)
		fmt.Fprintln(o.out, o.bold(on))
	}
	for i := range list {
		r := &list[i]
		told = append(told, r.Statement)
		verdict := "applies"
		switch {
		case !r.Applied:
			verdict = "not applied"
		case r.Decides:
			verdict = "decides"
		}
		if o.terminal {
			fmt.Fprintln(o.out, o.wrapped(13, fmt.Sprintf("%-11s  %s", verdict, o.reason(r, now))))
		} else {
			fmt.Fprintln(o.out, strings.Join([]string{"reason", on, verdict, o.reason(r, now)}, "\t"))
		}
	}
	return told
}

// reason is what bears on a share, by whom, how much it leaves, until when and why; and why it is not applied.
func (o *popOptions) reason(r *api.Reason, now time.Time) string {
	text := string(r.Kind)
	if r.Kind != api.KindHealth {
		text += " " + r.Statement + " by " + who(r.Author, r.Class)
	}
	switch {
	case r.Kind == api.KindPin:
		text += " takes health and automation out"
	case r.ShiftTo != "":
		text += " leaves " + api.Percent(r.Share) + ", the others go to " + r.ShiftTo
	default:
		text += " leaves " + api.Percent(r.Share)
	}
	if r.End != nil {
		text += ", until " + o.until(r.End, now)
	}
	if r.Text != "" {
		text += ": " + why(r.Text, "")
	}
	if r.Why != "" {
		text += " (" + r.Why + ")"
	}
	return text
}
