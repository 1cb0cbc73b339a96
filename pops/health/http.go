package health

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/edgesteer/edgesteer/server/config"
)

// maxBody is how many octets of a body are looked at.
const maxBody = 64 << 10

// httpCheck makes a request over a connection of its own (HTTP/1.1) and looks at the response. A redirect is not followed: it is a response like any other.
type httpCheck struct {
	*dialer
	method, scheme, host, path string
	headers                    map[string]string
	status                     []int
	body                       *regexp.Regexp // nil: whatever
	expect                     []expectation
	client                     *http.Client
}

// expectation is what a header of the response must match.
type expectation struct {
	header string
	value  *regexp.Regexp
}

func newHTTP(c *config.Check, d *dialer) (Check, error) {
	h, err := makeHTTP(c, d)
	return h, err
}

func makeHTTP(c *config.Check, d *dialer) (*httpCheck, error) {
	h := &httpCheck{dialer: d, method: c.Method, scheme: "http", host: c.Host, path: c.Path, headers: c.Headers, status: c.Status}
	if d.tls != nil {
		h.scheme = "https"
	}
	if !strings.HasPrefix(c.Path, "/") {
		return nil, &fieldError{"path", fmt.Sprintf("path %q does not begin with /", c.Path), ""}
	}
	if _, err := url.ParseRequestURI(c.Path); err != nil {
		return nil, &fieldError{"path", err.Error(), ""}
	}
	if _, err := http.NewRequest(c.Method, "http://192.0.2.1/", http.NoBody); err != nil {
		return nil, &fieldError{"method", fmt.Sprintf("%q is not a method", c.Method), ""}
	}
	if c.Body != "" {
		var err error
		if h.body, err = regexp.Compile(c.Body); err != nil {
			return nil, &fieldError{"body", err.Error(), ""}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Expect)) {
		re, err := regexp.Compile(c.Expect[name])
		if err != nil {
			return nil, &entryError{fieldError{"expect_headers", err.Error(), ""}, name}
		}
		h.expect = append(h.expect, expectation{name, re})
	}
	connect := func(ctx context.Context, _, address string) (net.Conn, error) {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, err
		}
		return h.dial(ctx, "tcp", ap.Addr())
	}
	h.client = &http.Client{
		Transport: &http.Transport{
			DialContext: connect, DialTLSContext: connect,
			DisableKeepAlives: true, DisableCompression: true,
			MaxResponseHeaderBytes: maxBody,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return h, nil
}

// url is that of an address: the name of the host is in a header.
func (h *httpCheck) url(a netip.Addr) string {
	return h.scheme + "://" + h.addrPort(a).String() + h.path
}

func (h *httpCheck) Probe(ctx context.Context, a netip.Addr) error {
	r, err := http.NewRequestWithContext(ctx, h.method, h.url(a), http.NoBody)
	if err != nil {
		return err
	}
	r.Host = h.host
	r.Header.Set("User-Agent", agent)
	for k, v := range h.headers {
		r.Header.Set(k, v)
	}
	res, err := h.client.Do(r)
	if err != nil {
		return unwrapURL(err)
	}
	defer func() { _ = res.Body.Close() }() // what matters of it was read
	if !slices.Contains(h.status, res.StatusCode) {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	if err := h.headersMatch(res.Header); err != nil {
		return err
	}
	if h.body != nil {
		body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
		if err != nil {
			return err
		}
		if !h.body.Match(body) {
			return fmt.Errorf("the body does not match %q", h.body)
		}
	}
	return h.certificate(res.TLS)
}

// agent is the User-Agent of probes.
const agent = "edgesteer-health"

func (h *httpCheck) headersMatch(got http.Header) error {
	for _, e := range h.expect {
		values := got.Values(e.header)
		if len(values) == 0 {
			return fmt.Errorf("no header %s", e.header)
		}
		if !slices.ContainsFunc(values, e.value.MatchString) {
			return fmt.Errorf("header %s does not match %q", e.header, e.value)
		}
	}
	return nil
}

// unwrapURL takes what nobody needs off an error: method and URL.
func unwrapURL(err error) error {
	if u, ok := err.(*url.Error); ok { //nolint:errorlint // only the outermost
		return u.Err
	}
	return err
}
