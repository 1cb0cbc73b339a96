// Package server is the data path: bytes in, bytes out.
//
// A listener (UDP in batches, TCP, TLS, HTTPS) hands each message to a [Handler], which every transport calls in the same way and which lives in one worker: it parses,
// finds the record, runs its filter chain for the client and writes the answer, all from one immutable [Snapshot] that it took at the beginning of the batch. See handle.go.
//
// What it is not: it reads no configuration file, no database and no zone file, speaks no admin protocol and knows no peers. Whoever does (server/app) builds the next
// Snapshot and publishes it.
package server

import "net/netip"

// Transport is how a message came.
type Transport uint8

// The transports.
const (
	UDP Transport = iota
	TCP
	DoT
	DoH
	Transports = 4
)

// Stream says that answers are not bound to a datagram's size.
func (t Transport) Stream() bool { return t != UDP }

// Secure says that the transport is encrypted, so that answers are padded (RFC 8467) when asked.
func (t Transport) Secure() bool { return t == DoT || t == DoH }

// Peer is who sent a message, and how.
type Peer struct {
	// Addr is the sender's address, IPv4 unmapped; what PROXY protocol says it is when that came from a trusted proxy.
	Addr      netip.AddrPort
	Transport Transport
	// IdleTimeout is what a keepalive option in the answer says (RFC 7828), in units of 100 ms; 0 for UDP.
	IdleTimeout uint16
}

// transportNames are the transports as metrics and logs name them.
var transportNames = [Transports]string{"udp", "tcp", "dot", "doh"}
