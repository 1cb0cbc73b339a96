package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Client speaks to the admin API of one node. It is safe for concurrent use.
//
// What fails on the way is tried again a few times, until the context ends. Requests that change something carry an Idempotency-Key, so that a retried drain is one drain.
// Errors are a *Problem if the server answered, else an *UnreachableError.
type Client struct {
	server string
	base   string // of addresses
	token  string
	http   *http.Client
	dialer *http.Transport
}

// attempts is how often a request is sent, and pause the time before the second; each further pause is twice as long.
const (
	attempts = 4
	pause    = 100 * time.Millisecond
)

// maxAnswer bounds an answer, in octets.
const maxAnswer = 64 << 20

// New makes a client of a server, "unix:PATH", "https://HOST:PORT" or "http://127.0.0.1:PORT", which it does not contact yet. The token may be empty: the unix socket needs none,
// and over HTTPS a client certificate may stand for it (see UseTLS).
func New(server, token string) (*Client, error) {
	c := &Client{server: server, token: token}
	c.dialer = &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        4,
		IdleConnTimeout:     30 * time.Second,
	}
	// A redirect would take the token elsewhere, and there are none in this API.
	c.http = &http.Client{Transport: c.dialer, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if path, ok := strings.CutPrefix(server, "unix:"); ok {
		if path == "" {
			return nil, fmt.Errorf("server %q names no socket", server)
		}
		c.base = "http://localhost"
		c.dialer.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 3 * time.Second}).DialContext(ctx, "unix", path)
		}
		return c, nil
	}
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("server %q: give unix:PATH, https://HOST:PORT or http://127.0.0.1:PORT", server)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || (u.Path != "" && u.Path != "/") {
		return nil, fmt.Errorf("server %q: only scheme, host and port belong there", server)
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		return nil, fmt.Errorf("server %q: without TLS only this machine is spoken to; give https://%s", server, u.Host)
	}
	c.base = u.Scheme + "://" + u.Host
	return c, nil
}

// Over makes a client whose requests go by a transport instead of the network: to a server in the same process. name is what errors call the server.
func Over(name string, transport http.RoundTripper) *Client {
	return &Client{server: name, base: "http://localhost", http: &http.Client{Transport: transport}}
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// UseTLS sets roots and client certificates for https servers; call it before the first request, on a client that New has made.
func (c *Client) UseTLS(config *tls.Config) { c.dialer.TLSClientConfig = config }

// Server is what New was given.
func (c *Client) Server() string { return c.server }

// Local tells whether the server is a unix socket, where a request may name its author.
func (c *Client) Local() bool { return strings.HasPrefix(c.server, "unix:") }

// Status is the node's view of everything.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	return get[Status](ctx, c, "/v1/status", nil)
}

// State is the node's view of everything but how queries and answers are shared, which runs the chains over the query mix and so costs most of what Status does.
func (c *Client) State(ctx context.Context) (*Status, error) {
	return get[Status](ctx, c, "/v1/status", url.Values{"answers": {"false"}})
}

// PoPs are all PoPs and their state.
func (c *Client) PoPs(ctx context.Context) (*PoPs, error) {
	return get[PoPs](ctx, c, "/v1/pops", nil)
}

// PoP is one PoP, its state, and the statements that touch it.
func (c *Client) PoP(ctx context.Context, name string) (*PoPDetail, error) {
	return get[PoPDetail](ctx, c, "/v1/pops/"+url.PathEscape(name), nil)
}

// Caller is who asks, as the server knows them.
func (c *Client) Caller(ctx context.Context) (*Caller, error) {
	return get[Caller](ctx, c, "/v1/caller", nil)
}

// Rates are what the node has answered in the last seconds, at most as many as it remembers; 0: all of them.
func (c *Client) Rates(ctx context.Context, seconds int) (*Rates, error) {
	q := url.Values{}
	if seconds != 0 {
		q.Set("seconds", strconv.Itoa(seconds))
	}
	return get[Rates](ctx, c, "/v1/rates", q)
}

// Statements are those that have not ended; with all, those that have too, as far as they are remembered.
func (c *Client) Statements(ctx context.Context, all bool) (*Statements, error) {
	q := url.Values{}
	if all {
		q.Set("all", "true")
	}
	return get[Statements](ctx, c, "/v1/statements", q)
}

// History is what was done, refused and ended, newest first.
func (c *Client) History(ctx context.Context, h HistoryQuery) (*History, error) {
	q := url.Values{}
	set(q, "target", h.Target)
	set(q, "id", h.ID)
	if h.Limit != 0 {
		q.Set("limit", strconv.Itoa(h.Limit))
	}
	if h.Before != 0 {
		q.Set("before", strconv.FormatUint(h.Before, 10))
	}
	return get[History](ctx, c, "/v1/history", q)
}

// Explain tells why a client gets an answer.
func (c *Client) Explain(ctx context.Context, e ExplainQuery) (*Explanation, error) {
	q := url.Values{}
	set(q, "name", e.Name)
	set(q, "type", e.Type)
	set(q, "client", e.Client)
	set(q, "sender", e.Sender)
	return get[Explanation](ctx, c, "/v1/explain", q)
}

func set(q url.Values, key, value string) {
	if value != "" {
		q.Set(key, value)
	}
}

// Zones are the zones that are served.
func (c *Client) Zones(ctx context.Context) (*Zones, error) {
	return get[Zones](ctx, c, "/v1/zones", nil)
}

// Health is what the nodes believe of the endpoints that are checked; target may be "" for all.
func (c *Client) Health(ctx context.Context, target string) (*Health, error) {
	q := url.Values{}
	set(q, "target", target)
	return get[Health](ctx, c, "/v1/health", q)
}

// RunHealth checks an endpoint now, from one node, or with "" from all.
func (c *Client) RunHealth(ctx context.Context, target, node string) (*ProbeResults, error) {
	return post[ProbeResults](ctx, c, "/v1/health/run", ProbeRequest{Target: target, Node: node}, Order{})
}

// Drills are the practice drains that are configured.
func (c *Client) Drills(ctx context.Context) (*Drills, error) {
	return get[Drills](ctx, c, "/v1/drills", nil)
}

// RunDrill runs a configured practice drain now.
func (c *Client) RunDrill(ctx context.Context, r DrillRequest) (*Change, error) {
	return post[Change](ctx, c, "/v1/drills", r, r.Order)
}

// Peers are the nodes of the fleet, as the one that is asked knows them.
func (c *Client) Peers(ctx context.Context) (*Peers, error) {
	return get[Peers](ctx, c, "/v1/peers", nil)
}

// Peer is one node of the fleet.
func (c *Client) Peer(ctx context.Context, name string) (*PeerDetail, error) {
	return get[PeerDetail](ctx, c, "/v1/peers/"+url.PathEscape(name), nil)
}

// Loads are the newest loads of endpoints and values of feeds.
func (c *Client) Loads(ctx context.Context) (*Loads, error) {
	return get[Loads](ctx, c, "/v1/loads", nil)
}

// ReportLoads reports loads of endpoints.
func (c *Client) ReportLoads(ctx context.Context, r LoadReport) (*Taken, error) {
	return post[Taken](ctx, c, "/v1/loads", r, Order{})
}

// ReportFeed reports a value of the metadata that is bound to a feed.
func (c *Client) ReportFeed(ctx context.Context, name string, r FeedReport) (*Taken, error) {
	return post[Taken](ctx, c, "/v1/feeds/"+url.PathEscape(name), r, Order{})
}

// ReloadZones reads the zones anew.
func (c *Client) ReloadZones(ctx context.Context) (*Reload, error) {
	return post[Reload](ctx, c, "/v1/zones/reload", nil, Order{})
}

// Drain takes a part of the fleet out of the answers.
func (c *Client) Drain(ctx context.Context, r DrainRequest) (*Change, error) {
	return post[Change](ctx, c, "/v1/drains", r, r.Order)
}

// Shift sends the networks of one PoP to another.
func (c *Client) Shift(ctx context.Context, r ShiftRequest) (*Change, error) {
	return post[Change](ctx, c, "/v1/shifts", r, r.Order)
}

// Pin keeps a target in the answers whatever health and automation say.
func (c *Client) Pin(ctx context.Context, r PinRequest) (*Change, error) {
	return post[Change](ctx, c, "/v1/pins", r, r.Order)
}

// Renew moves the expiry of statements.
func (c *Client) Renew(ctx context.Context, r RenewRequest) (*Change, error) {
	return post[Change](ctx, c, "/v1/renewals", r, r.Order)
}

// Restore takes statements back.
func (c *Client) Restore(ctx context.Context, r RestoreRequest) (*Change, error) {
	return post[Change](ctx, c, "/v1/restores", r, r.Order)
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (*T, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	answer := new(T)
	return answer, c.do(ctx, http.MethodGet, path, nil, Order{}, answer)
}

func post[T any](ctx context.Context, c *Client, path string, body any, o Order) (*T, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	if o.Key == "" {
		o.Key = rand.Text()
	}
	answer := new(T)
	return answer, c.do(ctx, http.MethodPost, path, data, o, answer)
}

// do sends a request until there is an answer that another attempt would not change.
func (c *Client) do(ctx context.Context, method, path string, body []byte, o Order, answer any) error {
	wait := pause
	for attempt := 1; ; attempt++ {
		retry, err := c.once(ctx, method, path, body, o, answer)
		if err == nil || !retry || attempt == attempts {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
		wait *= 2
	}
}

// once sends a request and says whether it is worth another attempt.
func (c *Client) once(ctx context.Context, method, path string, body []byte, o Order, answer any) (retry bool, err error) {
	r, err := c.request(ctx, method, path, body)
	if err != nil {
		return false, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if o.Key != "" {
		r.Header.Set("Idempotency-Key", o.Key)
	}
	if o.If != "" {
		r.Header.Set("If-Match", strconv.Quote(o.If))
	}
	res, err := c.http.Do(r)
	if err != nil {
		return !permanent(err), c.unreachable(ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // what matters of it was read
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return true, c.unreachable(ctx, err)
	case len(data) > maxAnswer:
		return false, fmt.Errorf("%s: answer of more than %d octets", c.server, maxAnswer)
	case res.StatusCode != http.StatusOK:
		err := c.problem(res, data)
		if _, ours := errors.AsType[*Problem](err); ours && res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") == "" {
			return false, err // a full disk stays full: each attempt would be another refusal in the history
		}
		return res.StatusCode >= 502 || res.StatusCode == http.StatusTooManyRequests, err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return false, fmt.Errorf("%s: answer is not of this API: %w", c.server, err)
	}
	return false, nil
}

func (c *Client) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "edgesteer")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r, nil
}

// problem reads an answer that is not a success.
func (c *Client) problem(res *http.Response, data []byte) error {
	if t, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); t == "application/problem+json" {
		p := new(Problem)
		if json.Unmarshal(data, p) == nil && p.Type != "" {
			return p
		}
	}
	return &UnreachableError{Server: c.server, Err: fmt.Errorf("it answers %s", res.Status), Hint: "is that the admin address of an edgesteer server?"}
}

// UnreachableError says that there was no answer of the API.
type UnreachableError struct {
	Server string
	Err    error
	Hint   string // what to do; may be empty
}

func (e *UnreachableError) Error() string { return fmt.Sprintf("asking %s: %v", e.Server, e.Err) }

func (e *UnreachableError) Unwrap() error { return e.Err }

// Advice is the hint.
func (e *UnreachableError) Advice() string { return e.Hint }

// unreachable makes an error of the transport readable: without the address that nobody typed, and with a hint.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	e := &UnreachableError{Server: c.server, Err: err}
	var unknown *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		e.Hint = "it did not answer in time; what was asked may have been done: look with edgesteer status"
	case errors.Is(err, os.ErrNotExist):
		e.Hint = "no server runs there; start one with edgesteer serve, or name another with --server"
	case errors.Is(err, os.ErrPermission):
		e.Hint = "the socket's file mode decides who may use it: become a member of its group, or use a token over HTTPS"
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Hint = "nothing listens there; is the server running?"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"): // of net/http, which has no error for it
		e.Hint = "that port speaks HTTP without TLS: give http://" + strings.TrimPrefix(c.server, "https://")
	case errors.As(err, &unknown):
		e.Hint = "the certificate is not signed by an authority that this machine trusts, or is for another name"
	}
	return e
}

// permanent tells whether another attempt would fail in the same way.
func permanent(err error) bool {
	var unknown *tls.CertificateVerificationError
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) || errors.As(err, &unknown) || errors.Is(err, context.Canceled)
}
