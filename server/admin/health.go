package admin

import (
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server/api"
)

// health is GET /v1/health.
func (s *Server) health(c *call) (*api.Health, error) {
	q, err := c.query()
	if err != nil {
		return nil, err
	}
	out := &api.Health{Schema: api.Schema, Node: s.cfg.Node.Name, Endpoints: s.cfg.Health()}
	if out.Endpoints == nil {
		out.Endpoints = []api.EndpointHealth{}
	}
	if !q.Has("target") {
		return out, nil
	}
	t, err := s.target("target", q.Get("target"))
	if err != nil {
		return nil, err
	}
	all := out.Endpoints
	out.Endpoints = []api.EndpointHealth{}
	for i := range all {
		if here, err := pops.ParseTarget(all[i].Target); err == nil && here.Touches(t) {
			out.Endpoints = append(out.Endpoints, all[i])
		}
	}
	return out, nil
}

// runHealth is POST /v1/health/run.
func (s *Server) runHealth(c *call, r *api.ProbeRequest) (*api.ProbeResults, error) {
	t, err := s.target("target", r.Target)
	if err != nil {
		return nil, err
	}
	if t.Service == "" || t.PoP == pops.Everywhere {
		return nil, invalid("target", "want one endpoint, as POP/SERVICE", "edgesteer health list shows what is checked")
	}
	results, err := s.cfg.Probe(c.r.Context(), t.String(), r.Node)
	if err != nil {
		return nil, unknown("target", err.Error(), "edgesteer health list shows what is checked, edgesteer peer list the nodes")
	}
	return &api.ProbeResults{Schema: api.Schema, Target: t.String(), Results: results}, nil
}
