package admin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

// class is what stands behind the statements of a caller.
func (c caller) class() pops.Class {
	if c.role == automation {
		return pops.Automation
	}
	return pops.Person
}

// target reads a target that must exist.
func (s *Server) target(field, text string) (pops.Target, error) {
	t, err := pops.ParseTarget(text)
	if err != nil {
		return t, invalid(field, err.Error(), "")
	}
	view, err := s.view()
	if err != nil {
		return t, err
	}
	if err := view.Fleet.Check(t); err != nil {
		return t, unknownTarget(field, err)
	}
	return t, nil
}

// unknownTarget is the problem of a name that matches nothing.
func unknownTarget(field string, err error) *api.Problem {
	p := unknown(field, err.Error(), "edgesteer pop list shows what there is")
	if u, ok := errors.AsType[*pops.UnknownError](err); ok {
		p.Near = u.Near
	}
	return p
}

func length(d api.Duration) time.Duration {
	if d == api.Forever {
		return 0
	}
	return time.Duration(d)
}

func way(over api.Duration, steps []float64) drain.Way {
	return drain.Way{Over: time.Duration(over), Steps: steps}
}

// apply makes a statement.
func (s *Server) apply(c *call, o *api.Order, r drain.Request) (*api.Change, error) {
	r.Author, r.Role = c.by.name, c.by.class()
	r.Reason, r.Ticket, r.Override, r.Key = o.Reason, o.Ticket, o.Override, o.Key
	return s.change(o, func(dryRun bool) (drain.Result, error) {
		r.DryRun = dryRun
		return s.cfg.Ledger.Apply(r)
	})
}

// change has the ledger do something, unless it is not any more what the author has looked at, and tells what became of it.
func (s *Server) change(o *api.Order, do func(dryRun bool) (drain.Result, error)) (*api.Change, error) {
	result, before, err := s.ordered(o, do)
	if err != nil {
		return nil, refusal(err, o.Override)
	}
	now := s.cfg.Ledger.Now()
	back, notes := undo(&result, before, now)
	out := &api.Change{
		Schema:     api.Schema,
		DryRun:     o.DryRun,
		Repeated:   result.Repeated,
		Statements: describe(result.Statements, now),
		Before:     describe(formerly(&result, before), now),
		Ended:      describe(result.Ended, now),
		Remaining:  describe(result.Remaining, now),
		Shares:     shares(result.Changes),
		Guards:     guards(&result.Report, o.Override),
		Undo:       back,
		Warnings:   slices.Concat(result.Warnings, result.Report.Warnings, notes),
		Durable:    result.Durable,
		Version:    versionOf(s.cfg.Ledger.Statements()),
	}
	out.Effect, _ = result.Report.Detail.(*api.Effect)
	for _, e := range result.Statements {
		if !e.Expires.IsZero() && (out.Expires == nil || e.Expires.Before(*out.Expires)) {
			out.Expires = &e.Expires
		}
	}
	if o.DryRun {
		return out, nil
	}
	if err := s.cfg.Rebuild(); err != nil {
		out.Warnings = append(out.Warnings, "accepted, but not in the answers of this node yet: "+err.Error())
	}
	if !out.Durable {
		out.Warnings = append(out.Warnings, "this node's disk has not confirmed it: if the node ends before the disk works, it forgets it")
	}
	return out, nil
}

// formerly are the statements of a result that were there before, as they were.
func formerly(r *drain.Result, before []*drain.Entry) (out []*drain.Entry) {
	for _, e := range r.Statements {
		if i := slices.IndexFunc(before, func(b *drain.Entry) bool { return b.ID == e.ID }); i >= 0 && !r.Repeated {
			out = append(out, before[i])
		}
	}
	return out
}

// ordered does one order after the other, so that of two who act at once on what they have seen the second hears of the first. before are the statements as they were.
func (s *Server) ordered(o *api.Order, do func(dryRun bool) (drain.Result, error)) (result drain.Result, before []*drain.Entry, err error) {
	s.orders.Lock()
	defer s.orders.Unlock()
	before = s.cfg.Ledger.Statements()
	if o.If != "" && o.If != versionOf(before) {
		// What has changed the ledger may be this very order, tried again.
		if o.Key != "" {
			if result, err = do(true); err == nil && result.Repeated {
				return result, before, nil
			}
		}
		return result, nil, outdated(before, s.cfg.Ledger.Now())
	}
	result, err = do(o.DryRun)
	return result, before, err
}

// versionOf is a text that differs when statements do.
func versionOf(entries []*drain.Entry) string {
	var h xxhash.Digest
	h.Reset()
	for _, e := range entries {
		fmt.Fprint(&h, e.ID, e.Stamp)
		if e.Lift != nil {
			fmt.Fprint(&h, e.Lift.Stamp)
		}
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// outdated tells whose word has come in between.
func outdated(entries []*drain.Entry, now time.Time) *api.Problem {
	p := problem(http.StatusPreconditionFailed, api.ProblemConflict, "the statements have changed since you looked", "look again, then decide")
	var last drain.Stamp
	for _, e := range entries {
		if e.Stamp.Compare(last) > 0 {
			last = e.Stamp
			p.By, p.ID = e.Author, e.ID
			p.Detail = fmt.Sprintf("%s was first: %s %s of %s, %s ago: %s", e.Author, e.Kind, e.ID, e.Target, ago(now, e.Created), e.Reason)
		}
		if l := e.Lift; l != nil && l.Stamp.Compare(last) > 0 {
			last = l.Stamp
			p.By, p.ID = l.Author, e.ID
			p.Detail = fmt.Sprintf("%s was first: lifted %s %s of %s, %s ago: %s", l.Author, e.Kind, e.ID, e.Target, ago(now, l.At), l.Reason)
		}
	}
	return p
}

func ago(now, t time.Time) time.Duration { return max(0, now.Sub(t)).Round(time.Second) }

// refusal is the problem that an error of the ledger is.
func refusal(err error, overridden []string) error {
	var r *drain.Refusal
	switch {
	case errors.Is(err, drain.ErrClosed):
		return unavailable("this node is stopping", "ask another node")
	case !errors.As(err, &r):
		return err
	}
	var p *api.Problem
	switch r.Code {
	case drain.Invalid:
		p = invalid("", r.Message, r.Hint)
	case drain.Unknown:
		p = unknown("", r.Message, r.Hint)
		p.Near = r.Near
	case drain.Forbidden:
		p = forbidden(r.Message, r.Hint)
	case drain.Disk:
		p = unavailable(r.Message, r.Hint)
	case drain.Guard:
		p = problem(http.StatusConflict, api.ProblemRefused, r.Message, r.Hint)
	default:
		p = problem(http.StatusConflict, api.ProblemConflict, r.Message, r.Hint)
	}
	if len(r.IDs) > 0 {
		p.ID = r.IDs[0]
	}
	if r.Code == drain.Disk {
		return stuck{p}
	}
	if r.Report != nil {
		p.Guards = guards(r.Report, overridden)
		p.Effect, _ = r.Report.Detail.(*api.Effect)
	}
	return p
}

// stuck is a problem that another attempt a moment later would meet again: clients are not told to try.
type stuck struct{ *api.Problem }

// Unwrap gives the problem.
func (s stuck) Unwrap() error { return s.Problem }

func describe(entries []*drain.Entry, now time.Time) []api.Statement {
	out := make([]api.Statement, 0, len(entries))
	for _, e := range entries {
		out = append(out, statement(e, now))
	}
	return out
}

func shares(changes []drain.Change) []api.ShareChange {
	out := make([]api.ShareChange, 0, len(changes))
	for _, c := range changes {
		out = append(out, api.ShareChange{Target: c.Target.String(), Before: c.Before, After: c.After})
	}
	return out
}

func guards(r *drain.Report, overridden []string) (out []api.Guard) {
	for _, b := range r.Broken {
		out = append(out, api.Guard{Name: api.GuardName(b.Guard), Text: b.Detail, Overridden: slices.Contains(overridden, b.Guard)})
	}
	return out
}
