package dash

import (
	"bytes"
	"io"
	"net/http"

	"github.com/edgesteer/edgesteer/server/api"
)

// inner carries requests of the API's client to the API in the same process, in the name of a browser: with its credentials, from its connection, for its page.
type inner struct {
	api     http.Handler
	browser *http.Request
}

// client speaks to the API in the name of who sends a request.
func (p *Page) client(r *http.Request) *api.Client {
	return api.Over("this node", &inner{p.api, r})
}

// carried are the headers that say who asks and for which page.
func carried() []string {
	return []string{"Authorization", "Cookie", "Origin", "Sec-Fetch-Site"}
}

// RoundTrip implements http.RoundTripper. The answer is whole when it returns: event streams are not for here.
func (t *inner) RoundTrip(r *http.Request) (*http.Response, error) {
	a := t.serve(r)
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: r,
	}, nil
}

// serve has the API answer a request.
func (t *inner) serve(r *http.Request) *answer {
	in := r.Clone(r.Context())
	in.Host, in.RemoteAddr, in.TLS = t.browser.Host, t.browser.RemoteAddr, t.browser.TLS
	in.RequestURI = r.URL.RequestURI()
	for _, name := range carried() {
		if v := t.browser.Header.Values(name); len(v) > 0 {
			in.Header[name] = v
		}
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	a := &answer{header: http.Header{}, status: http.StatusOK}
	t.api.ServeHTTP(a, in)
	return a
}

// answer keeps what a handler answers.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
