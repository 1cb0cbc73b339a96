package admin

import (
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

// pin is POST /v1/pins.
func (s *Server) pin(c *call, r *api.PinRequest) (*api.Change, error) {
	target, err := s.target("target", r.Target)
	if err != nil {
		return nil, err
	}
	return s.apply(c, &r.Order, drain.Request{
		Kind:    pops.Pin,
		Target:  target,
		Start:   r.Start,
		For:     length(r.For),
		Forever: r.For == api.Forever,
	})
}
