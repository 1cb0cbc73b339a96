package admin

import (
	"net/http"

	"github.com/edgesteer/edgesteer/server/admin/dash"
	"github.com/edgesteer/edgesteer/server/api"
)

// pagePath is the route of the page in metrics and logs.
const pagePath = "/page"

// addPage serves the page beside the API, which is all that it speaks to: what it asks passes serveRoute like everything else, with the browser's credentials.
func (s *Server) addPage(mux *http.ServeMux) error {
	page, err := dash.New(mux)
	if err != nil {
		return err
	}
	handler := s.serveRoute(&route{path: pagePath, op: raw("text/html", func(s *Server, c *call) {
		if p := s.strangers(c.r); p != nil { // through the socket, too: a tunnel can lead a browser there
			s.fail(c, p)
			return
		}
		page.ServeHTTP(c.w, c.r)
	})})
	for _, pattern := range dash.Paths() {
		mux.HandleFunc(pattern, handler)
	}
	return nil
}

// strangers turns browsers away that call this server by another's name, or for the page of somebody else.
func (s *Server) strangers(r *http.Request) *api.Problem {
	if p := s.hosts.check(r); p != nil {
		return p
	}
	if err := s.origins.Check(r); err != nil {
		return problem(http.StatusForbidden, api.ProblemCrossOrigin, err.Error(), "")
	}
	return nil
}
