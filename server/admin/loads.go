package admin

import (
	"fmt"
	"net/http"

	"github.com/edgesteer/edgesteer/server/api"
)

// loads is GET /v1/loads.
func (s *Server) loads(*call) (*api.Loads, error) {
	out := s.cfg.Loads.Status()
	out.Schema = api.Schema
	return out, nil
}

// pushLoads is POST /v1/loads.
func (s *Server) pushLoads(_ *call, r *api.LoadReport) (*api.Taken, error) {
	if len(r.Loads) == 0 {
		return nil, invalid("loads", "there are none", "")
	}
	for i, l := range r.Loads {
		field := fmt.Sprintf("loads[%d]", i)
		if _, err := s.target(field+".target", l.Target); err != nil {
			return nil, err
		}
		if l.Value == nil {
			return nil, invalid(field+".value", "it is missing", "")
		}
	}
	if at, err := s.cfg.Loads.Push(r.Loads); err != nil {
		return nil, invalid(fmt.Sprintf("loads[%d]", at), err.Error(), "")
	}
	return &api.Taken{Schema: api.Schema, Taken: len(r.Loads)}, nil
}

// pushFeed is POST /v1/feeds/{name}.
func (s *Server) pushFeed(c *call, r *api.FeedReport) (*api.Taken, error) {
	if (r.Value == nil) == (len(r.Text) == 0) {
		return nil, invalid("value", "want a value or a text", "")
	}
	name := c.r.PathValue("name")
	known, err := s.cfg.Loads.Feed(name, r)
	switch {
	case !known:
		return nil, problem(http.StatusNotFound, api.ProblemUnknown, fmt.Sprintf("no metadata is bound to a feed %q", name), "GET /v1/loads shows the feeds")
	case err != nil:
		return nil, invalid("", err.Error(), "")
	}
	return &api.Taken{Schema: api.Schema, Taken: 1}, nil
}

// Loads is who keeps what is reported.
type Loads interface {
	Status() *api.Loads
	Push([]api.LoadSample) (at int, err error)         // at is the index of the load that is wrong
	Feed(name string, r *api.FeedReport) (bool, error) // false: no metadata is bound to it
}

// noLoads keeps nothing.
type noLoads struct{}

func (noLoads) Status() *api.Loads { return &api.Loads{Loads: []api.Value{}, Feeds: []api.Value{}} }
func (noLoads) Push([]api.LoadSample) (int, error) {
	return 0, fmt.Errorf("loads are not taken in here")
}
func (noLoads) Feed(string, *api.FeedReport) (bool, error) { return false, nil }
