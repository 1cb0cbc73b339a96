package health

import (
	"slices"

	"github.com/edgesteer/edgesteer/server/config"
)

// kind is a row of the registry.
type kind struct {
	name string
	port uint16   // when none is configured; 0: there must be one
	tls  uint16   // the same with TLS; 0: the kind does not speak it
	bare bool     // has no port at all, or may be without one
	alpn []string // protocols offered in the TLS handshake
	keys []string // of its configuration, beside those that every kind reads
	make func(*config.Check, *dialer) (Check, error)
}

// Keys of several kinds.
var (
	keysOfDial  = []string{"port", "source", "tls", "verify", "sni", "host", "expiry_warning"}
	keysOfWeb   = append(slices.Clip(keysOfDial), "path", "headers", "expect_headers")
	keysOfFetch = append(slices.Clip(keysOfWeb), "method", "status", "body")
)

// kinds is every kind of check. To add one: a file with its name, and a row.
func kinds() []kind {
	return []kind{
		{name: "tcp", keys: keysOfDial, make: newTCP},
		{name: "http", port: 80, tls: 443, alpn: []string{"http/1.1"}, keys: keysOfFetch, make: newHTTP},
		{name: "https", tls: 443, alpn: []string{"http/1.1"}, keys: keysOfFetch, make: newHTTP},
		{name: "websocket", port: 80, tls: 443, alpn: []string{"http/1.1"}, keys: keysOfWeb, make: newWebsocket},
		{name: "grpc", alpn: []string{"h2"}, keys: append(slices.Clip(keysOfDial), "service"), make: newGRPC},
		{name: "dns", port: 53, tls: 853, alpn: []string{"dot"}, keys: append(slices.Clip(keysOfDial), "name", "type", "rcode"), make: newDNS},
		{name: "icmp", bare: true, keys: []string{"source"}, make: newICMP},
		{name: "exec", bare: true, keys: []string{"port", "command"}, make: newExec},
	}
}
