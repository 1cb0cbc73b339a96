package admin

import (
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

// restore is POST /v1/restores.
func (s *Server) restore(c *call, r *api.RestoreRequest) (*api.Change, error) {
	target, ids, err := which(r.Target, r.ID)
	if err != nil {
		return nil, err
	}
	if r.Now && r.Over > 0 {
		return nil, invalid("now", "at once, and over a time, contradict each other", "")
	}
	return s.change(&r.Order, func(dryRun bool) (drain.Result, error) {
		return s.cfg.Ledger.Lift(drain.LiftRequest{
			Target:   target,
			IDs:      ids,
			Author:   c.by.name,
			Role:     c.by.class(),
			Reason:   r.Reason,
			Ticket:   r.Ticket,
			Back:     way(r.Over, r.Steps),
			Now:      r.Now,
			Override: r.Override,
			Key:      r.Key,
			DryRun:   dryRun,
		})
	})
}

// which reads what a renewal or a restore is about: a target, which need not exist any more, or a statement.
func which(target, id string) (pops.Target, []string, error) {
	switch {
	case (target == "") == (id == ""):
		return pops.Target{}, nil, invalid("target", "give a target or the id of a statement, one of the two", "")
	case id != "":
		return pops.Target{}, []string{id}, nil
	}
	t, err := pops.ParseTarget(target)
	if err != nil {
		return t, nil, invalid("target", err.Error(), "")
	}
	return t, nil, nil
}
