package admin

import (
	"math"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

// maxHistory is the most entries of one answer.
const maxHistory = 1000

// history is GET /v1/history.
func (s *Server) history(c *call) (*api.History, error) {
	q, err := c.query()
	if err != nil {
		return nil, err
	}
	limit, err := number(q, "limit", 1, maxHistory, 100)
	if err != nil {
		return nil, err
	}
	before, err := number(q, "before", 1, math.MaxUint64, 0)
	if err != nil {
		return nil, err
	}
	query := drain.Query{ID: q.Get("id"), Before: before, Limit: int(limit) + 1}
	if text := q.Get("target"); text != "" {
		// History is older than the fleet: what is not there any more can be asked for.
		if query.Target, err = pops.ParseTarget(text); err != nil {
			return nil, invalid("target", err.Error(), "")
		}
	}
	records := s.cfg.Ledger.History(query)
	h := &api.History{Schema: api.Schema, Entries: []api.HistoryEntry{}}
	if len(records) > int(limit) {
		records = records[:limit]
		h.Before = records[limit-1].Seq
	}
	for i := range records {
		h.Entries = append(h.Entries, historyEntry(&records[i]))
	}
	return h, nil
}

// historyEntry describes a record of the history.
func historyEntry(r *drain.Record) api.HistoryEntry {
	e := api.HistoryEntry{
		Seq:       r.Seq,
		Time:      r.Time,
		Node:      r.Node,
		Action:    api.Action(r.Op),
		Statement: r.ID,
		Target:    r.Target.String(),
		To:        r.To.String(),
		Author:    r.Author,
		Reason:    r.Reason,
		Ticket:    r.Ticket,
		Message:   r.Message,
	}
	if r.Kind.Valid() {
		e.Kind = api.Kind(r.Kind.String())
	}
	if r.Role.Valid() {
		e.Class = api.Class(r.Role.String())
	}
	for _, g := range r.Guards {
		e.Guards = append(e.Guards, api.GuardName(g))
	}
	if len(r.Changes) > 0 {
		e.Shares = shares(r.Changes)
	}
	if r.Before != nil {
		before := statement(r.Before, r.Time)
		e.Before = &before
	}
	if r.After != nil {
		after := statement(r.After, r.Time)
		e.After = &after
	}
	return e
}
