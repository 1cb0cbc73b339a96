package server

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/netip"
)

// PROXY protocol version 2 (https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt, section 2.2): a load balancer puts the client's address before a datagram, or
// before the first octet of a stream (and of TLS). Senders inside a trusted prefix must send the header; from anybody else it is a forged address, and is dropped.

const (
	proxySignature = "\r\n\r\n\x00\r\nQUIT\n"
	proxyFixed     = 16                // octets before the addresses
	proxyMax       = proxyFixed + 2048 // longest header taken, with its TLVs
)

// proxyReason is why a message was dropped on account of its PROXY header.
type proxyReason uint8

const (
	proxyMalformed proxyReason = iota // from a trusted sender, but not a version 2 header, or longer than proxyMax
	proxyMissing                      // from a trusted sender, without a header
	proxyUntrusted                    // a header from somebody else
	proxyReasons               = 3

	proxyFine proxyReason = 255
)

var proxyReasonNames = [proxyReasons]string{"malformed", "missing", "untrusted"}

// proxies are the prefixes whose senders speak PROXY protocol. They are few: a walk is quicker than a table.
type proxies []netip.Prefix

func (p proxies) has(a netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// signed says whether b begins with the signature. No DNS message does: it would be an inverse query with 13 questions.
func signed(b []byte) bool {
	return len(b) >= len(proxySignature) && b[0] == proxySignature[0] && string(b[:len(proxySignature)]) == proxySignature
}

// parseProxy reads the header at the start of b. It gives the client's address, IPv4 unmapped, and the octets of the header. The address is not valid when the header
// says LOCAL (the proxy speaks for itself: a health check) or names no family; the sender counts then.
func parseProxy(b []byte) (client netip.AddrPort, size int, why proxyReason) {
	if !signed(b) {
		return client, 0, proxyMissing
	}
	if len(b) < proxyFixed {
		return client, 0, proxyMalformed
	}
	command, family := b[12], b[13]
	n := int(binary.BigEndian.Uint16(b[14:]))
	size = proxyFixed + n
	if size > proxyMax || size > len(b) {
		return client, 0, proxyMalformed
	}
	body := b[proxyFixed:size]
	switch command {
	case 0x20: // LOCAL: whatever the header says about addresses is to be ignored
		return client, size, proxyFine
	case 0x21: // PROXY
	default:
		return client, 0, proxyMalformed
	}
	// The low half says stream (1) or datagram (2). What counts is how the message came: dnsdist can take UDP and ask by TCP.
	if family&0x0f > 2 {
		return client, 0, proxyMalformed
	}
	switch family >> 4 {
	case 0: // AF_UNSPEC
		return client, size, proxyFine
	case 1: // AF_INET: source, destination, ports
		if n < 12 {
			return client, 0, proxyMalformed
		}
		a := netip.AddrFrom4([4]byte(body[:4]))
		return netip.AddrPortFrom(a, binary.BigEndian.Uint16(body[8:])), size, proxyFine
	case 2: // AF_INET6
		if n < 36 {
			return client, 0, proxyMalformed
		}
		a := netip.AddrFrom16([16]byte(body[:16])).Unmap()
		return netip.AddrPortFrom(a, binary.BigEndian.Uint16(body[32:])), size, proxyFine
	}
	return client, 0, proxyMalformed // AF_UNIX and unknown ones cannot be located
}

// readProxy reads a header from the start of a stream, and not an octet more. An error is one of r.
func readProxy(r io.Reader) (client netip.AddrPort, why proxyReason, err error) {
	buf := make([]byte, proxyMax)
	fixed := buf[:proxyFixed]
	// Without the signature there may never be 16 octets: a short DNS message is enough to know.
	if _, err := io.ReadFull(r, fixed[:2]); err != nil {
		return client, proxyMissing, err
	}
	if !bytes.Equal(fixed[:2], []byte(proxySignature[:2])) {
		return client, proxyMissing, nil
	}
	if _, err := io.ReadFull(r, fixed[2:]); err != nil {
		return client, proxyMalformed, err
	}
	size := proxyFixed + int(binary.BigEndian.Uint16(fixed[14:]))
	if !signed(fixed) {
		return client, proxyMissing, nil
	}
	if size > len(buf) {
		return client, proxyMalformed, nil
	}
	if _, err := io.ReadFull(r, buf[proxyFixed:size]); err != nil {
		return client, proxyMalformed, err
	}
	client, _, why = parseProxy(buf[:size])
	return client, why, nil
}
