package admin

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

// TestHost checks what a page sends whose name was pointed at this server (DNS rebinding).
func TestHost(t *testing.T) {
	f := newFixture(t)
	for _, test := range []struct {
		host string
		ok   bool
	}{
		{"127.0.0.1:8053", true},
		{"127.0.0.1", true},
		{"[::1]:8053", true},
		{"192.0.2.1", true}, // a proxy or a NAT; no page has an address for a name
		{"localhost:8053", true},
		{"LOCALHOST", true},
		{"dns1.example.com", true},
		{"dns1.example.com.:443", true},
		{"evil.example.com", false},
		{"evil.example.com:8053", false},
		{"localhost.evil.example.com", false},
		{"127.0.0.1.evil.example.com", false},
	} {
		a := f.do(t, f.tcp, "GET", "/healthz", "", nil, "Host", test.host)
		if ok := a.status == 200; ok != test.ok || !ok && (a.status != 421 || a.problem.Name() != "host") {
			t.Errorf("%s: status %d", test.host, a.status)
		}
		if a := f.do(t, f.unix, "GET", "/healthz", "", nil, "Host", test.host); a.status != 200 { // no browser gets there
			t.Errorf("%s through the socket: status %d", test.host, a.status)
		}
	}
}

// TestCrossOrigin checks what browsers send for pages of others, with credentials that they might add by themselves.
func TestCrossOrigin(t *testing.T) {
	f := newFixture(t)
	own := f.url(f.tcp)
	for _, test := range []struct {
		name    string
		headers []string
		ok      bool
	}{
		{"no browser", nil, true},
		{"own page", []string{"Sec-Fetch-Site", "same-origin", "Origin", own}, true},
		{"own page, old browser", []string{"Origin", own}, true},
		{"typed", []string{"Sec-Fetch-Site", "none"}, true},
		{"another page", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example.com"}, false},
		{"a page beside", []string{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:1"}, false},
		{"another page, old browser", []string{"Origin", "https://evil.example.com"}, false},
		{"a file or sandbox", []string{"Origin", "null"}, false},
	} {
		a := f.do(t, f.tcp, "POST", "/v1/zones/reload", "operator", nil, test.headers...)
		if ok := a.status == 200; ok != test.ok || !ok && (a.status != 403 || a.problem.Name() != "cross-origin") {
			t.Errorf("%s: status %d %s", test.name, a.status, a.body)
		}
		if a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: another page may read", test.name)
		}
	}
}

func TestHeaders(t *testing.T) {
	f := newFixture(t)
	for _, path := range []string{"/healthz", "/v1/status", "/nothing"} {
		a := f.do(t, f.tcp, "GET", path, "viewer", nil)
		for header, want := range map[string]string{
			"X-Content-Type-Options":  "nosniff",
			"Cache-Control":           "no-store",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
			"Referrer-Policy":         "no-referrer",
		} {
			if got := a.header.Get(header); got != want {
				t.Errorf("%s: %s is %q", path, header, got)
			}
		}
	}
}

func TestNotThere(t *testing.T) {
	f := newFixture(t)
	for _, test := range []struct {
		method, path string
		status       int
		name         string
		allow, hint  string
	}{
		{"GET", "/v1/statuss", 404, "not-found", "", `did you mean "/v1/status"?`},
		{"GET", "/nothing", 404, "not-found", "", ""},
		{"GET", "/v1/drains", 405, "method-not-allowed", "POST", "use POST"},
		{"DELETE", "/v1/pops/fra", 405, "method-not-allowed", "GET", "use GET"},
		{"TRACE", "/v1/status", 405, "method-not-allowed", "GET", "use GET"},
	} {
		a := f.do(t, f.unix, test.method, test.path, "", nil)
		if a.status != test.status || a.problem.Name() != test.name || a.header.Get("Allow") != test.allow || a.problem.Hint != test.hint {
			t.Errorf("%s %s: %d %v %+v", test.method, test.path, a.status, a.header, a.problem)
		}
	}
	if a := f.do(t, f.unix, "HEAD", "/v1/status", "", nil); a.status != 200 || len(a.body) != 0 {
		t.Errorf("HEAD: %d with %d octets", a.status, len(a.body))
	}
}

func TestLimits(t *testing.T) {
	f := newFixture(t)
	long := strings.Repeat("x", f.cfg.Settings.MaxBody)
	a := f.do(t, f.unix, "POST", "/v1/drains", "", api.DrainRequest{Target: "fra", Order: api.Order{Reason: long}})
	if a.status != 413 || a.problem.Name() != "too-large" {
		t.Errorf("long body: %d %s", a.status, a.body)
	}
	// Reading stops at the limit whatever the client goes on to send.
	a = f.do(t, f.unix, "POST", "/v1/drains", "", io.MultiReader(strings.NewReader(long), strings.NewReader(long)))
	if a.status != 413 {
		t.Errorf("endless body: %d", a.status)
	}
	if a := f.do(t, f.unix, "GET", "/healthz", "", nil, "X-Long", strings.Repeat("x", 2*maxHeader)); a.status != 431 {
		t.Errorf("long header: %d", a.status)
	}
	for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json-seq", "nonsense;"} {
		if a := f.do(t, f.unix, "POST", "/v1/drains", "", "{}", "Content-Type", contentType); a.status != 415 || a.problem.Name() != "media-type" {
			t.Errorf("Content-Type %q: %d", contentType, a.status)
		}
	}
}

// TestBusy checks that requests past the limit are turned away, and that probes are not.
func TestBusy(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	f := newFixture(t, func(c *Config) {
		c.Settings.Requests = 1
		c.Explain = func(api.ExplainQuery) (*api.Explanation, error) {
			close(inside)
			<-leave
			return &api.Explanation{Schema: api.Schema}, nil
		}
	})
	done := make(chan int)
	go func() { done <- f.do(t, f.unix, "GET", "/v1/explain?name=a&client=192.0.2.1", "", nil).status }()
	<-inside
	a := f.do(t, f.unix, "GET", "/v1/status", "", nil)
	if a.status != 503 || a.problem.Name() != "busy" || a.header.Get("Retry-After") != "1" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := f.do(t, f.unix, "GET", "/healthz", "", nil); a.status != 200 {
		t.Errorf("healthz while busy: %d", a.status)
	}
	close(leave)
	if status := <-done; status != 200 {
		t.Errorf("the one inside: %d", status)
	}
	if a := f.do(t, f.unix, "GET", "/v1/status", "", nil); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}

// TestStalledBody checks that a client which does not send what it announced is left after admin.timeout.
func TestStalledBody(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Settings.Timeout = 50 * time.Millisecond })
	c, err := net.Dial("tcp", f.Addrs()[1].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(c, "POST /v1/drains HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", tokens["operator"])
	start := time.Now()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		io.Copy(io.Discard, res.Body)
		if res.StatusCode < 400 {
			t.Errorf("status %d", res.StatusCode)
		}
	}
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("left after %v: %v", took, err)
	}
}

// TestFault checks that a fault of the program is told, logged, and counted, and that what it says stays here.
func TestFault(t *testing.T) {
	log := new(bytes.Buffer)
	f := newFixture(t, func(c *Config) {
		c.Explain = func(api.ExplainQuery) (*api.Explanation, error) { panic("secret") }
		c.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	a := f.do(t, f.unix, "GET", "/v1/explain?name=a&client=10.0.0.0", "", nil)
	if a.status != 500 || a.problem.Name() != "internal" || bytes.Contains(a.body, []byte("secret")) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if !strings.Contains(log.String(), "panic=secret") || !strings.Contains(log.String(), "guard_test.go") {
		t.Errorf("log %s", log)
	}
}
