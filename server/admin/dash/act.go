package dash

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

// order is what the form says: one of the levers, and how it is to be pulled.
type order struct {
	Kind     string // drain, shift, renew or lift
	Target   string // of a drain or a shift
	To       string // of a shift: the PoP that gets the networks
	ID       string // of a renewal or a lift: the statement
	By       string // percent
	Over     string // length of the ramp, "": at once
	For      string // until it expires
	Reason   string
	Ticket   string
	Override []string
	Key, If  string // Idempotency-Key, and the version of the ledger that was looked at
}

// orderOf reads the form.
func orderOf(r *http.Request) order {
	o := order{Kind: r.FormValue("kind"), Target: r.FormValue("target"), To: r.FormValue("to"), ID: r.FormValue("id"), By: r.FormValue("by"), Over: r.FormValue("over"), For: r.FormValue("for"),
		Reason: strings.TrimSpace(r.FormValue("reason")), Ticket: strings.TrimSpace(r.FormValue("ticket")), Key: r.FormValue("key"), If: r.FormValue("version")}
	for _, guard := range r.Form["override"] {
		if !slices.Contains(o.Override, guard) {
			o.Override = append(o.Override, guard)
		}
	}
	return o
}

// Does says what the button does.
func (o *order) Does() string {
	by := ""
	if o.By != "" && o.By != "100" {
		by = " by " + o.By + " %"
	}
	over := ""
	if o.Over != "" {
		over = " over " + o.Over
	}
	switch o.Kind {
	case "shift":
		return "Shift " + o.Target + " to " + o.To + by + over
	case "renew":
		return "Renew for " + cmp.Or(o.For, "8h")
	case "lift":
		return "Lift" + over
	}
	return "Drain " + o.Target + by + over
}

// send does the order, or only looks what it would do.
func (o *order) send(ctx context.Context, c *api.Client, dryRun bool) (*api.Change, error) {
	reason := o.Reason
	if dryRun {
		reason = cmp.Or(reason, "to see what it would do")
	}
	common := api.Order{Reason: reason, Ticket: o.Ticket, DryRun: dryRun, Override: o.Override}
	if !dryRun {
		common.Key, common.If = o.Key, o.If
	}
	by, err := percentage(o.By)
	if err != nil {
		return nil, err
	}
	over, err := length("over", o.Over)
	if err != nil {
		return nil, err
	}
	until, err := length("for", o.For)
	if err != nil {
		return nil, err
	}
	switch o.Kind {
	case "drain":
		return c.Drain(ctx, api.DrainRequest{Target: o.Target, By: by, For: until, Over: over, Order: common})
	case "shift":
		return c.Shift(ctx, api.ShiftRequest{From: o.Target, To: o.To, By: by, For: until, Over: over, Order: common})
	case "renew":
		return c.Renew(ctx, api.RenewRequest{ID: o.ID, For: until, Order: common})
	case "lift":
		return c.Restore(ctx, api.RestoreRequest{ID: o.ID, Over: over, Order: common})
	}
	return nil, wrong("kind", fmt.Sprintf("%q is no lever: drain, shift, renew and lift are", o.Kind))
}

func percentage(text string) (*float64, error) {
	if text == "" {
		return nil, nil
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "%")), 64)
	if err != nil {
		return nil, wrong("by", fmt.Sprintf("%q is not a percentage", text))
	}
	return &f, nil
}

func length(field, text string) (api.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := api.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		return 0, wrong(field, err.Error())
	}
	return d, nil
}

// wrong is a problem with what was typed.
func wrong(field, detail string) *api.Problem {
	return &api.Problem{Status: http.StatusUnprocessableEntity, Title: "A field holds something that it cannot", Field: field, Detail: detail}
}

func asProblem(err error) (*api.Problem, bool) { return errors.AsType[*api.Problem](err) }

// lever is the form, filled in, with what can be chosen.
type lever struct {
	order
	Caller    *api.Caller
	PoPs      []string
	Services  []string // */SERVICE
	Endpoints []string // POP/SERVICE, where a PoP has several
	Statement *said    // of a renewal or a lift
}

// CanAct tells whether the levers are for who looks.
func (l *lever) CanAct() bool { return l.Caller.Role == api.RoleOperator }

// form is the lever for one order, or all levers to choose from.
func (p *Page) form(w http.ResponseWriter, r *http.Request) {
	c := p.client(r)
	who, err := c.Caller(r.Context())
	if err != nil {
		p.fail(w, r, err)
		return
	}
	st, err := c.State(r.Context())
	if err != nil {
		p.fail(w, r, err)
		return
	}
	l := lever{order: orderOf(r), Caller: who}
	if l.Kind == "" || !l.CanAct() {
		p.render(w, http.StatusOK, "levers", &l)
		return
	}
	l.choices(st)
	if l.ID != "" && l.Statement == nil {
		p.fail(w, r, &api.Problem{Status: http.StatusNotFound, Title: "It is over", Detail: "statement " + l.ID + " has ended in the meantime"})
		return
	}
	p.render(w, http.StatusOK, "lever", &l)
}

// choices fills in what can be chosen.
func (l *lever) choices(st *api.Status) {
	for _, pop := range st.PoPs {
		l.PoPs = append(l.PoPs, pop.Name)
		for _, e := range pop.Endpoints {
			if every := "*/" + e.Service; !slices.Contains(l.Services, every) {
				l.Services = append(l.Services, every)
			}
			if len(pop.Endpoints) > 1 {
				l.Endpoints = append(l.Endpoints, pop.Name+"/"+e.Service)
			}
		}
	}
	for i := range st.Statements {
		if st.Statements[i].ID == l.ID {
			s := newSaid(&st.Statements[i], st.Time)
			l.Statement = &s
		}
	}
}

// effect is what an order would do, or what it has done.
type effect struct {
	order
	Change  *api.Change
	Problem *api.Problem // why it would be refused, or was
	PoPs    []api.PoPEffect
	More    int // PoPs that are not shown: little changes for them
	Loads   []api.LoadEffect
	Missing string // what has to be said before the button is live
}

// Live tells whether the button may be pressed.
func (e *effect) Live() bool { return e.Problem == nil && e.Missing == "" && e.Change != nil }

// effectRows is how many PoPs of a prediction are shown.
const effectRows = 8

// preview shows what an order would do. Its button is live when the order would be accepted as it was shown, and presses exactly that.
func (p *Page) preview(w http.ResponseWriter, r *http.Request) {
	e := effect{order: orderOf(r)}
	if (e.Kind == "drain" || e.Kind == "shift") && e.Target == "" || e.Kind == "shift" && e.To == "" {
		p.render(w, http.StatusOK, "effect", &e)
		return
	}
	change, err := e.send(r.Context(), p.client(r), true)
	problem, ok := asProblem(err)
	switch {
	case err == nil:
		e.Change = change
		e.If, e.Key = change.Version, rand.Text()
	case ok && problem.Status != http.StatusUnauthorized && problem.Status != http.StatusForbidden && problem.Status < 500:
		e.Problem = problem // the answer to what was asked
		if problem.Type == api.ProblemRefused {
			problem.Hint = "to do it all the same, tick the guard rails below" // the API's is for a terminal
		}
		e.Change = &api.Change{Effect: problem.Effect, Guards: problem.Guards}
	default:
		p.fail(w, r, err)
		return
	}
	e.sort()
	if e.Reason == "" && e.Kind != "renew" {
		e.Missing = "Say why, for those who come after you."
	}
	p.render(w, http.StatusOK, "effect", &e)
}

// sort puts the PoPs first that lose or gain most.
func (e *effect) sort() {
	if e.Change.Effect == nil {
		return
	}
	e.PoPs = slices.Clone(e.Change.Effect.PoPs)
	moved := func(x api.PoPEffect) float64 {
		if x.AnswersBefore == nil || x.AnswersAfter == nil {
			return 0
		}
		return max(*x.AnswersAfter-*x.AnswersBefore, *x.AnswersBefore-*x.AnswersAfter)
	}
	slices.SortStableFunc(e.PoPs, func(a, b api.PoPEffect) int {
		if changes := func(x api.PoPEffect) bool { return x.ShareBefore != x.ShareAfter }; changes(a) != changes(b) {
			if changes(a) {
				return -1
			}
			return 1
		}
		return cmp.Compare(moved(b), moved(a))
	})
	if len(e.PoPs) > effectRows {
		e.More = len(e.PoPs) - effectRows
		e.PoPs = e.PoPs[:effectRows]
	}
	e.Loads = e.Change.Effect.Loads
}

// LoadOf is the predicted load of a PoP's endpoint that comes nearest to its capacity, nil if none is known.
func (e *effect) LoadOf(pop string) *api.LoadEffect {
	var worst *api.LoadEffect
	full := func(l *api.LoadEffect) float64 {
		if l.Capacity == nil || *l.Capacity == 0 {
			return *l.Peak
		}
		return *l.Peak / *l.Capacity
	}
	for i := range e.Loads {
		if l := &e.Loads[i]; l.PoP == pop && l.Peak != nil && (worst == nil || full(l) > full(worst)) {
			worst = l
		}
	}
	return worst
}

// act pulls the lever.
func (p *Page) act(w http.ResponseWriter, r *http.Request) {
	e := effect{order: orderOf(r)}
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
	defer cancel()
	change, err := e.send(ctx, p.client(r), false)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	e.Change = change
	e.sort()
	w.Header().Set("HX-Trigger", "acted")
	p.render(w, http.StatusOK, "done", &e)
}
