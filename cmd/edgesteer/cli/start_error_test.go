package cli

import (
	"errors"
	"testing"
)

// A start that fails is told what helps, and nothing twice.
func TestStartError(t *testing.T) {
	for text, want := range map[string]string{
		"listen udp4 127.0.0.1:53: bind: address already in use (hint: ss -lnup 'sport = :53')": "--listen gives another",
		"listen udp4 127.0.0.1:53: bind: permission denied (hint: it takes a capability)":       "edgesteer serve --listen 127.0.0.1:5300",
		"admin: listen tcp 127.0.0.1:8053: bind: address already in use":                        "ss -lntup shows who has it; --listen gives another",
		"admin: listen tcp 127.0.0.1:80: bind: permission denied":                               "edgesteer serve --listen 127.0.0.1:5300; ports below 1024 need CAP_NET_BIND_SERVICE",
		"the state folder is held by another process":                                           "edgesteer serve --take-over takes over from it",
		"no such file": "",
	} {
		got := ""
		if f, ok := errors.AsType[*failure](startError(errors.New(text))); ok {
			got = f.hint
		}
		if got != want {
			t.Errorf("%s: hint %q, want %q", text, got, want)
		}
	}
}
