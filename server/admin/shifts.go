package admin

import (
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

// shift is POST /v1/shifts.
func (s *Server) shift(c *call, r *api.ShiftRequest) (*api.Change, error) {
	from, err := s.target("from", r.From)
	if err != nil {
		return nil, err
	}
	to, err := s.target("to", r.To)
	if err != nil {
		return nil, err
	}
	return s.apply(c, &r.Order, drain.Request{
		Kind:    pops.Shift,
		Target:  from,
		To:      to,
		By:      all(r.By),
		Start:   r.Start,
		For:     length(r.For),
		Forever: r.For == api.Forever,
		Over:    way(r.Over, r.Steps),
		Back:    way(r.Restore, nil),
	})
}
