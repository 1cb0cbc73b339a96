package config

import (
	"net/netip"
	"time"
)

// Server is the DNS server: its addresses and its limits.
type Server struct {
	Node          string           `toml:"node"`                                   // this node's name in history, votes and NSID; left out: the host's name
	PoP           string           `toml:"pop"`                                    // the PoP that this node stands in; it does not vote on its own PoP
	Listen        []netip.AddrPort `toml:"listen" default:"0.0.0.0:53, [::]:53"`   // addresses for UDP and TCP
	State         string           `toml:"state" default:"state"`                  // folder of ledger, history, verdicts and secondary zones
	NSID          bool             `toml:"nsid" default:"true"`                    // answer the NSID option with the node's name (RFC 5001)
	Chaos         bool             `toml:"chaos" default:"true"`                   // answer version.bind, hostname.bind and id.server in class CH (RFC 4892)
	HideVersion   bool             `toml:"hide_version"`                           // leave the version out of version.bind
	CookieSecrets []string         `toml:"cookie_secrets"`                         // server cookie secrets, 32 hex digits each (RFC 9018); the first signs, all verify; left out: random, or the fleet's
	ProxyProtocol []netip.Prefix   `toml:"proxy_protocol"`                         // senders that must speak PROXY protocol v2; from all others it is dropped
	Stop          time.Duration    `toml:"stop" default:"5s" range:"0s..5m"`       // time that queries in flight get at shutdown
	TransfersOut  int              `toml:"transfers" default:"10" range:"1..1000"` // zone transfers that run at the same time
	UDP           UDP              `toml:"udp"`                                    // limits of UDP
	TCP           TCP              `toml:"tcp"`                                    // limits of TCP and TLS
	RRL           RRL              `toml:"rrl"`                                    // response rate limiting
	TLS           *TLS             `toml:"tls"`                                    // DNS over TLS (RFC 7858); left out: not offered
	HTTPS         *HTTPS           `toml:"https"`                                  // DNS over HTTPS (RFC 8484); left out: not offered
}

// UDP limits. Sizes are octets.
type UDP struct {
	MaxSize           int `toml:"max_size" default:"1232" range:"512..4096"`            // largest answer, advertised and sent
	MaxSizeUnverified int `toml:"max_size_unverified" default:"1232" range:"512..4096"` // largest answer to a sender without a valid cookie; larger ones are truncated
	Workers           int `toml:"workers" default:"0" range:"0..1024"`                  // sockets and threads of each address; 0: one for each CPU
	Batch             int `toml:"batch" default:"64" range:"1..1024"`                   // datagrams read and written by one system call
	Buffer            int `toml:"buffer" default:"4194304" range:"0..1073741824"`       // receive buffer of each socket; the system may allow less; 0: the system's default
}

// TCP limits, of DNS over TLS too.
type TCP struct {
	Connections int           `toml:"connections" default:"4096" range:"1..1000000"`           // open connections in all; past it the one idle for longest is closed
	PerClient   int           `toml:"connections_per_client" default:"256" range:"1..1000000"` // open connections of one address; past it that client's oldest idle one is closed
	Idle        time.Duration `toml:"idle" default:"10s" range:"100ms..10m"`                   // a connection without a query is closed after it; sent as keepalive (RFC 7828)
	Timeout     time.Duration `toml:"timeout" default:"5s" range:"100ms..5m"`                  // for the rest of a message, the TLS handshake, and the client taking an answer
}

// RRL is response rate limiting: answers of one kind to one prefix. Senders with a valid cookie are exempt, TCP is never limited.
type RRL struct {
	Enabled bool           `toml:"enabled" default:"true"`                       // whether answers are limited
	Rate    int            `toml:"rate" default:"500" range:"1..1000000"`        // answers a second for each sender prefix, owner name and class of RCODE
	Slip    int            `toml:"slip" default:"2" range:"0..100"`              // each slip-th answer over the rate is sent truncated, the others not at all; 0: none is sent
	IPv4    int            `toml:"ipv4_prefix" default:"24" range:"8..32"`       // length of the prefix that counts as one sender
	IPv6    int            `toml:"ipv6_prefix" default:"56" range:"16..128"`     // length of the prefix that counts as one sender
	Table   int            `toml:"table" default:"65536" range:"1024..16777216"` // counters kept by each worker
	Exempt  []netip.Prefix `toml:"exempt"`                                       // senders that are never limited
}

// TLS is DNS over TLS. The files are read again when they change.
type TLS struct {
	Listen      []netip.AddrPort `toml:"listen" need:"true"`      // addresses
	Certificate string           `toml:"certificate" need:"true"` // PEM file: certificate and chain
	Key         string           `toml:"key" need:"true"`         // PEM file: private key
}

// HTTPS is DNS over HTTPS. The files are read again when they change.
type HTTPS struct {
	Listen      []netip.AddrPort `toml:"listen" need:"true"`                            // addresses
	Path        string           `toml:"path" default:"/dns-query"`                     // path of the resource
	Certificate string           `toml:"certificate" need:"true"`                       // PEM file: certificate and chain
	Key         string           `toml:"key" need:"true"`                               // PEM file: private key
	Streams     int              `toml:"streams" default:"250" range:"1..10000"`        // requests of one connection that are answered at the same time
	Connections int              `toml:"connections" default:"4096" range:"1..1000000"` // open connections in all
}

// Log is what is written to standard error.
type Log struct {
	Level  string `toml:"level" default:"info" oneof:"debug, info, warn, error"` // lowest level that is written
	Format string `toml:"format" default:"text" oneof:"text, json"`              // form of a line
}

// Dnstap is the query log: dnstap messages in Frame Streams, to a reader on this machine. No query waits for it.
type Dnstap struct {
	Socket    string `toml:"socket" need:"true"`                                  // unix socket of the reader; while it is not there messages are dropped, and it is tried again
	Sample    int    `toml:"sample" default:"1" range:"1..1000000"`               // one query in so many is told of, with its answer
	Queries   bool   `toml:"queries" default:"true"`                              // tell of queries (AUTH_QUERY)
	Responses bool   `toml:"responses" default:"true"`                            // tell of answers (AUTH_RESPONSE)
	Identity  string `toml:"identity"`                                            // who answered, in every message; left out: the node's name
	Buffer    int    `toml:"buffer" default:"1048576" range:"262144..1073741824"` // octets that each worker keeps for the reader
}

// Admin is the HTTP API, with metrics and the page.
type Admin struct {
	Listen   []string      `toml:"listen"`                                            // "unix:PATH" or addresses; left out: admin.sock in the state folder; other addresses than loopback need tls
	Mode     string        `toml:"socket_mode" default:"0660"`                        // file mode of the socket, octal: who may open it may do everything
	Hosts    []string      `toml:"hosts"`                                             // further names by which browsers may call this node (Host header)
	Tokens   []Token       `toml:"token"`                                             // bearer tokens
	Clients  []AdminClient `toml:"client"`                                            // names in client certificates; needs tls.client_ca
	TLS      *AdminTLS     `toml:"tls"`                                               // serves HTTPS instead of HTTP on the addresses
	MaxBody  int           `toml:"max_body" default:"1048576" range:"1024..67108864"` // octets of a request
	Requests int           `toml:"requests" default:"64" range:"1..10000"`            // requests served at the same time
	Timeout  time.Duration `toml:"timeout" default:"10s" range:"100ms..5m"`           // for one request, event streams apart
}

// Token is one bearer token, known by its hash.
type Token struct {
	Name   string `toml:"name" need:"true"`                                      // shown as author
	Role   string `toml:"role" need:"true" oneof:"viewer, operator, automation"` // what it may do
	SHA256 string `toml:"sha256" need:"true"`                                    // hash of the token, 64 hex digits
}

// AdminClient is a name that a client certificate may bear.
type AdminClient struct {
	Name string `toml:"name" need:"true"`                                      // a DNS name, an email address or the common name in the certificate; shown as author
	Role string `toml:"role" need:"true" oneof:"viewer, operator, automation"` // what it may do
}

// AdminTLS makes the admin addresses HTTPS. The files are read again when they change.
type AdminTLS struct {
	Certificate string `toml:"certificate" need:"true"` // PEM file: certificate and chain
	Key         string `toml:"key" need:"true"`         // PEM file: private key
	ClientCA    string `toml:"client_ca"`               // PEM file: who signs client certificates; left out: none are asked for
}

// Geo is where clients are.
type Geo struct {
	Databases []string `toml:"databases"` // location databases (.mmdb: City or Country, ASN); left out: the embedded country database
}

// Cluster is the fleet.
type Cluster struct {
	Listen    netip.AddrPort  `toml:"listen" need:"true"`                            // UDP and TCP, for the other nodes
	Advertise *netip.AddrPort `toml:"advertise"`                                     // the address by which the others reach this node; left out: listen
	Seeds     []string        `toml:"seeds"`                                         // HOST:PORT of nodes to join; asked again for ever
	KeyFile   string          `toml:"key_file"`                                      // one base64 key a line of 16, 24 or 32 octets; the first encrypts, all decrypt; needed off loopback
	Network   string          `toml:"network" default:"wan" oneof:"local, lan, wan"` // pace of probes and timeouts
	Sync      time.Duration   `toml:"sync" default:"30s" range:"1s..10m"`            // between exchanges of the whole state with some other node
	Rejoin    time.Duration   `toml:"rejoin" default:"10s" range:"1s..10m"`          // between attempts to reach seeds that are not members
	Join      time.Duration   `toml:"join_timeout" default:"10s" range:"0s..5m"`     // longest wait for the first peer at start, before answering
	Leave     time.Duration   `toml:"leave_timeout" default:"2s" range:"0s..1m"`     // longest wait for the others to hear that this node leaves
}
