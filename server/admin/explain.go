package admin

import "github.com/edgesteer/edgesteer/server/api"

// explain is GET /v1/explain.
func (s *Server) explain(c *call) (*api.Explanation, error) {
	q, err := c.query()
	if err != nil {
		return nil, err
	}
	e := api.ExplainQuery{Name: q.Get("name"), Type: q.Get("type"), Client: q.Get("client"), Sender: q.Get("sender")}
	if e.Name == "" {
		return nil, invalid("name", "left out", "for example name=www.example.com")
	}
	if e.Type == "" {
		e.Type = "A"
	}
	if _, err := s.view(); err != nil {
		return nil, err
	}
	out, err := s.cfg.Explain(e)
	if err != nil { // it cannot fail but for the question
		return nil, invalid("", err.Error(), "")
	}
	return out, nil
}
