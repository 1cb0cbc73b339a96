package admin

import (
	"net/http"
	"strings"

	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
)

// peers is GET /v1/peers.
func (s *Server) peers(*call) (*api.Peers, error) {
	out := &api.Peers{Schema: api.Schema, Node: s.cfg.Node.Name, Peers: s.cfg.Peers()}
	for i := range out.Peers {
		out.Peers[i].Serials = nil
	}
	return out, nil
}

// peer is GET /v1/peers/{peer}.
func (s *Server) peer(c *call) (*api.PeerDetail, error) {
	name := c.r.PathValue("peer")
	var names []string
	for _, p := range s.cfg.Peers() {
		if strings.EqualFold(p.Name, name) {
			return &api.PeerDetail{Schema: api.Schema, Node: s.cfg.Node.Name, Peer: p}, nil
		}
		names = append(names, p.Name)
	}
	return nil, problem(http.StatusNotFound, api.ProblemUnknown, "no node of the fleet is called "+name, config.DidYouMean(name, names))
}
