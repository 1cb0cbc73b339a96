package admin

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/edgesteer/edgesteer/server/api"
)

// healthz is GET /healthz: it answers, so the process runs.
func (s *Server) healthz(*call) (*api.Probe, error) {
	return &api.Probe{Schema: api.Schema, OK: true}, nil
}

// readyz is GET /readyz.
func (s *Server) readyz(*call) (*api.Probe, error) {
	if missing := s.cfg.NotReady(); len(missing) > 0 {
		return nil, unavailable(strings.Join(missing, "; "), "")
	}
	return &api.Probe{Schema: api.Schema, OK: true}, nil
}

// scrape is GET /metrics.
func (s *Server) scrape(c *call) {
	promhttp.HandlerFor(s.cfg.Registry, promhttp.HandlerOpts{}).ServeHTTP(c.w, c.r)
}
