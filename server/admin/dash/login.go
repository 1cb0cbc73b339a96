package dash

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/edgesteer/edgesteer/server/api"
)

// loginForm asks for a token. A script takes it from the fragment of the address, which browsers send nowhere: that is how a link can have one.
func (p *Page) loginForm(w http.ResponseWriter, _ *http.Request) {
	p.render(w, http.StatusOK, "login", nil)
}

// login shows the token to the API and hands its cookie on.
func (p *Page) login(w http.ResponseWriter, r *http.Request) {
	body, err := json.Marshal(api.SessionRequest{Token: r.FormValue("token")})
	if err != nil {
		p.fail(w, r, err)
		return
	}
	a := p.session(r, "/v1/sessions", bytes.NewReader(body))
	if a.status == http.StatusOK {
		w.Header()["Set-Cookie"] = a.header["Set-Cookie"]
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	problem := new(api.Problem)
	_ = json.Unmarshal(a.body.Bytes(), problem) // what cannot be read is shown without a reason
	p.render(w, a.status, "login", problem)
}

// logout ends the session.
func (p *Page) logout(w http.ResponseWriter, r *http.Request) {
	w.Header()["Set-Cookie"] = p.session(r, "/v1/sessions/end", http.NoBody).header["Set-Cookie"]
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// session asks the API about the browser's session. The cookie is in the header of the answer, which the client does not give.
func (p *Page) session(r *http.Request, path string, body io.Reader) *answer {
	in := (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Scheme: "http", Host: "localhost", Path: path}, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(body),
	}).WithContext(r.Context())
	return (&inner{p.api, r}).serve(in)
}
