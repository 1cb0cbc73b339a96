package admin

import "github.com/edgesteer/edgesteer/server/api"

// zones is GET /v1/zones.
func (s *Server) zones(*call) (*api.Zones, error) {
	return &api.Zones{Schema: api.Schema, Zones: s.cfg.Zones()}, nil
}

// reload is POST /v1/zones/reload. It has no body: it says nothing that could be wrong.
func (s *Server) reload(*call) (*api.Reload, error) {
	return s.cfg.Reload(), nil
}
