package admin

import (
	"slices"
	"time"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

// statements is GET /v1/statements.
func (s *Server) statements(c *call) (*api.Statements, error) {
	q, err := c.query()
	if err != nil {
		return nil, err
	}
	all := q.Get("all")
	if all != "" && all != "true" && all != "false" {
		return nil, invalid("all", "want true or false", "")
	}
	return &api.Statements{Schema: api.Schema, Version: versionOf(s.cfg.Ledger.Statements()), Statements: s.said(all == "true")}, nil
}

// said gives the statements that still bear on anything or will, or all that are remembered, newest first.
func (s *Server) said(all bool) []api.Statement {
	now := s.cfg.Ledger.Now()
	out := []api.Statement{}
	for _, e := range s.cfg.Ledger.Statements() {
		if all || !over(e.Phase(now)) {
			out = append(out, statement(e, now))
		}
	}
	slices.SortStableFunc(out, func(a, b api.Statement) int { return b.Made.Compare(a.Made) })
	return out
}

func over(p drain.Phase) bool {
	return p == drain.Lifted || p == drain.Replaced || p == drain.Expired
}

// statement describes an entry of the ledger at a moment.
func statement(e *drain.Entry, now time.Time) api.Statement {
	s := api.Statement{
		ID:        e.ID,
		Version:   e.Version,
		Kind:      api.Kind(e.Kind.String()),
		Class:     api.Class(e.Role.String()),
		Target:    e.Target.String(),
		To:        e.To.String(),
		By:        e.By,
		Share:     float64(e.Share(now)),
		State:     api.StatementState(e.Phase(now)),
		Author:    e.Author,
		Reason:    e.Reason,
		Outage:    e.Outage,
		Ticket:    e.Ticket,
		Evidence:  e.Evidence,
		Overrides: e.Override,
		Node:      e.Stamp.Node,
		Made:      e.Created,
		Start:     e.Start,
		End:       moment(e.Expires),
		Replaces:  e.Replaces,
		Restore:   api.Duration(e.Back.Over),
	}
	if s.Start.IsZero() {
		s.Start = e.Created
	}
	if e.Ramp.Over > 0 {
		s.Ramp = ramp(e.Ramp)
	}
	if l := e.Lift; l != nil {
		s.Lifted = &api.Lift{Author: l.Author, Reason: l.Reason, Ticket: l.Ticket, Node: l.Stamp.Node, Time: l.At, Over: api.Duration(l.Back.Over), Steps: l.Back.Steps}
	}
	return s
}

func ramp(r pops.Ramp) *api.Ramp {
	return &api.Ramp{Start: r.Start, From: float64(r.From), To: float64(r.To), Over: api.Duration(r.Over), Steps: r.Steps}
}

// moment is a time that may be none.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
