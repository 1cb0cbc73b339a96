package server

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
)

// proxyHeader writes a header as a proxy would.
func proxyHeader(command, family byte, body ...byte) []byte {
	b := append([]byte(proxySignature), command, family)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	return append(b, body...)
}

func proxyFrom(client string) []byte {
	a := netip.MustParseAddrPort(client)
	src := a.Addr().AsSlice()
	body := append(src, make([]byte, len(src))...) // the destination is not looked at
	body = binary.BigEndian.AppendUint16(body, a.Port())
	body = append(body, 0, 53)
	if a.Addr().Is4() {
		return proxyHeader(0x21, 0x12, body...)
	}
	return proxyHeader(0x21, 0x22, body...)
}

// proxyCase is a header and what becomes of it.
type proxyCase struct {
	name    string
	foreign bool
	header  []byte
	client  string // what the handler sees; "sender"; empty: dropped
	drop    string // then the reason
}

// proxyCases are what both UDP loops, TCP and TLS are tested with. The sender is trusted unless foreign.
var proxyCases = []proxyCase{
	{"ipv4", false, proxyFrom("203.0.113.9:4711"), "203.0.113.9:4711", ""},
	{"ipv6", false, proxyFrom("[2001:db8::9]:4711"), "[2001:db8::9]:4711", ""},
	{"mapped", false, proxyFrom("[::ffff:203.0.113.9]:4711"), "203.0.113.9:4711", ""},
	{"stream", false, proxyHeader(0x21, 0x11, 203, 0, 113, 9, 0, 0, 0, 0, 0x12, 0x67, 0, 53), "203.0.113.9:4711", ""},
	{"tlv", false, proxyHeader(0x21, 0x12, append([]byte{203, 0, 113, 9, 0, 0, 0, 0, 0x12, 0x67, 0, 53}, 0xe0, 0, 2, 'h', 'i')...), "203.0.113.9:4711", ""},
	{"many tlvs", false, proxyHeader(0x21, 0x12, append([]byte{203, 0, 113, 9, 0, 0, 0, 0, 0x12, 0x67, 0, 53}, make([]byte, 2036)...)...), "203.0.113.9:4711", ""},
	{"local", false, proxyHeader(0x20, 0), "sender", ""},
	{"local with addresses", false, proxyHeader(0x20, 0x12, 203, 0, 113, 9, 0, 0, 0, 0, 0x12, 0x67, 0, 53), "sender", ""},
	{"no family", false, proxyHeader(0x21, 0), "sender", ""},
	{"none", false, nil, "", "missing"},
	{"unix", false, proxyHeader(0x21, 0x31, make([]byte, 216)...), "", "malformed"},
	{"family 4", false, proxyHeader(0x21, 0x41, make([]byte, 216)...), "", "malformed"},
	{"protocol 3", false, proxyHeader(0x21, 0x13, make([]byte, 12)...), "", "malformed"},
	{"version 1", false, proxyHeader(0x11, 0x12, make([]byte, 12)...), "", "malformed"},
	{"command 2", false, proxyHeader(0x22, 0x12, make([]byte, 12)...), "", "malformed"},
	{"short ipv4", false, proxyHeader(0x21, 0x12, make([]byte, 11)...), "", "malformed"},
	{"short ipv6", false, proxyHeader(0x21, 0x22, make([]byte, 35)...), "", "malformed"},
	{"too long", false, proxyHeader(0x21, 0x12, make([]byte, 2049)...), "", "malformed"},
	{"foreign", true, proxyFrom("203.0.113.9:4711"), "", "untrusted"},
	{"foreign local", true, proxyHeader(0x20, 0), "", "untrusted"},
	{"foreign plain", true, nil, "sender", ""},
}

func (c *proxyCase) sender() string {
	if c.foreign {
		return "127.0.0.2"
	}
	return "127.0.0.1"
}

// A header that ends before it says.
func TestProxyCut(t *testing.T) {
	whole := proxyFrom("203.0.113.9:4711")
	for n := range whole {
		_, _, why := parseProxy(whole[:n])
		want := proxyMalformed
		if n < len(proxySignature) {
			want = proxyMissing
		}
		if why != want {
			t.Errorf("%d octets: %d", n, why)
		}
	}
}

// Whatever comes, a header is taken whole or not at all, and both readers agree.
func FuzzProxy(f *testing.F) {
	for _, c := range proxyCases {
		f.Add(append(bytes.Clone(c.header), "rest"...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		client, size, why := parseProxy(b)
		if why == proxyFine {
			if size < proxyFixed || size > len(b) || size > proxyMax || !signed(b) {
				t.Fatalf("size %d of %d", size, len(b))
			}
			if client.IsValid() && client.Addr().Is4In6() {
				t.Fatalf("client %s", client)
			}
		} else if size != 0 || client.IsValid() {
			t.Fatalf("dropped with %s, %d", client, size)
		}
		r := bytes.NewReader(b)
		streamed, whyStreamed, err := readProxy(r)
		if err != nil {
			if why == proxyFine {
				t.Fatalf("stream fails with %v", err)
			}
			return
		}
		if (whyStreamed == proxyFine) != (why == proxyFine) || streamed != client {
			t.Fatalf("datagram %s %d, stream %s %d", client, why, streamed, whyStreamed)
		}
		if why == proxyFine && len(b)-r.Len() != size {
			t.Fatalf("stream took %d octets of %d", len(b)-r.Len(), size)
		}
	})
}
