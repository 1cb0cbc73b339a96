package admin

import _ "embed"

// description is the OpenAPI document. A test makes it from the routes and the types of server/api, and fails when it differs; with -update it writes it.
//
//go:embed openapi.json
var description []byte

// openapi is GET /v1/openapi.json.
func (s *Server) openapi(c *call) {
	c.w.Header().Set("Content-Type", jsonType)
	_, _ = c.w.Write(description) // a client that leaves is no error
}
