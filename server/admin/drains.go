package admin

import (
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

// drain is POST /v1/drains.
func (s *Server) drain(c *call, r *api.DrainRequest) (*api.Change, error) {
	target, err := s.target("target", r.Target)
	if err != nil {
		return nil, err
	}
	if c.by.class() == pops.Person && (r.Outage != "" || r.Evidence != nil) {
		return nil, invalid("outage", "only automation tells outages and evidence", "say it in the reason")
	}
	return s.apply(c, &r.Order, drain.Request{
		Kind:     pops.Drain,
		Target:   target,
		By:       all(r.By),
		Start:    r.Start,
		For:      length(r.For),
		Forever:  r.For == api.Forever,
		Over:     way(r.Over, r.Steps),
		Back:     way(r.Restore, nil),
		Outage:   r.Outage,
		Evidence: r.Evidence,
	})
}

// all is a percentage, or all of it.
func all(by *float64) float64 {
	if by == nil {
		return 100
	}
	return *by
}
