package admin

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/edgesteer/edgesteer/server/api"
)

// hosts are the names by which browsers may call this server. A page whose name was pointed here (DNS rebinding) calls it by that name, and is turned away; by an address it cannot.
type hosts map[string]bool

func newHosts(names []string) hosts {
	h := hosts{"localhost": true}
	for _, n := range names {
		h[hostname(n)] = true
	}
	return h
}

// portOf is the port of an address, "" if it has none.
func portOf(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	return port
}

// hostname is a Host header without port and final dot, in lower case.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

func (h hosts) check(r *http.Request) *api.Problem {
	name := hostname(r.Host)
	if _, err := netip.ParseAddr(name); err == nil || h[name] {
		return nil
	}
	return problem(http.StatusMisdirectedRequest, api.ProblemHost, "this server is not called "+r.Host, "call it by its address, or add the name to admin.hosts of its configuration")
}

// secure are the headers of every answer: nothing here is for another page, for a frame or for a cache. The page sets a content policy of its own.
func secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}
