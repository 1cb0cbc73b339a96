package admin

import (
	"time"

	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

// drills is GET /v1/drills.
func (s *Server) drills(*call) (*api.Drills, error) {
	return &api.Drills{Schema: api.Schema, Drills: s.cfg.Drills()}, nil
}

// drill is POST /v1/drills. What it makes gives way to everything, whoever wants it.
func (s *Server) drill(c *call, r *api.DrillRequest) (*api.Change, error) {
	target, err := s.target("target", r.Target)
	if err != nil {
		return nil, err
	}
	if r.For < 0 {
		return nil, invalid("for", "a drill has an end", "")
	}
	d, err := s.cfg.Drill(target, time.Duration(r.For))
	if err != nil {
		return nil, unknown("target", err.Error(), "edgesteer drill list shows what is configured")
	}
	d.Author, d.Reason, d.Ticket, d.Override, d.Key = c.by.name, r.Reason, r.Ticket, r.Override, r.Key
	return s.change(&r.Order, func(dryRun bool) (drain.Result, error) {
		d.DryRun = dryRun
		return s.cfg.Ledger.Apply(d)
	})
}
