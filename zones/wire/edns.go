package wire

import (
	"encoding/binary"
	"net/netip"
)

// Octets of a cookie option, RFC 7873 section 4.
const (
	clientCookie = 8
	minCookie    = 16 // with a server cookie
	maxCookie    = 40
)

// ECS is the client subnet option of a query (RFC 7871 section 6).
type ECS struct {
	Family uint16 // 1 IPv4, 2 IPv6; 0 only with Source 0
	Source uint8  // bits that the sender told, up to 32 or 128
	// Addr has Family's length and zero bits after the first Source; it is the zero Addr when Family is 0.
	Addr netip.Addr
}

// opt reads an OPT record, RFC 6891 section 6.1.2. Its name has been seen to be the root.
func (q *Query) opt(fixed, options []byte) bool {
	q.HasOPT = true
	q.UDPSize = binary.BigEndian.Uint16(fixed[2:])
	q.Version = fixed[5]
	q.DO = fixed[6]&0x80 != 0
	if q.Version != 0 {
		return true // options of another version may look otherwise
	}
	for len(options) > 0 {
		if len(options) < 4 {
			return false
		}
		end := 4 + int(binary.BigEndian.Uint16(options[2:]))
		if end > len(options) {
			return false
		}
		if !q.option(binary.BigEndian.Uint16(options), options[4:end]) {
			return false
		}
		options = options[end:]
	}
	return true
}

// option reads one option; false is FORMERR. Only client subnet and cookie can be damaged: the RFCs of the others, and
// those of options that we do not know, want them ignored rather than refused.
func (q *Query) option(code uint16, data []byte) bool {
	switch code {
	case OptionECS:
		if q.HasECS { // which of two clients is meant?
			return false
		}
		q.HasECS = q.ECS.parse(data)
		return q.HasECS
	case OptionCookie:
		if q.Cookie != nil {
			return true // RFC 7873 section 5.2: the first one counts
		}
		if n := len(data); n != clientCookie && (n < minCookie || n > maxCookie) {
			return false // RFC 7873 section 5.2.2
		}
		q.Cookie = q.cookieBuf[:copy(q.cookieBuf[:], data)]
	case OptionNSID:
		q.NSID = true
	case OptionExpire:
		q.Expire = true
	case OptionKeepalive:
		q.Keepalive = true
	case OptionPadding:
		q.Padding = true
	case OptionReportChannel:
		q.ReportChannel = true
	}
	return true
}

// parse reads a client subnet option of a query: a known family, a source length that it allows, scope 0, exactly the
// octets that the source length covers, and no bit set beyond it (RFC 7871 sections 6 and 7.1.2).
func (e *ECS) parse(data []byte) bool {
	if len(data) < 4 || data[3] != 0 {
		return false
	}
	family, source, addr := binary.BigEndian.Uint16(data), data[2], data[4:]
	if len(addr) != (int(source)+7)/8 {
		return false
	}
	if rest := source & 7; rest != 0 && addr[len(addr)-1]<<rest != 0 {
		return false
	}
	var at netip.Addr
	switch {
	case family == 1 && source <= 32:
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], uint32(word(addr)>>32))
		at = netip.AddrFrom4(a)
	case family == 2 && source <= 128:
		var a [16]byte
		binary.BigEndian.PutUint64(a[:], word(addr))
		binary.BigEndian.PutUint64(a[8:], word(addr[min(8, len(addr)):]))
		at = netip.AddrFrom16(a)
	case family != 0 || source != 0:
		return false
	}
	*e = ECS{family, source, at}
	return true
}

// word is the first eight octets of b, or as many as there are with zeros after them. Copying them into an array would do
// the same, but reading it back at once, in a wider piece, has the processor wait for the copy.
func word(b []byte) uint64 {
	var w uint64
	for i, c := range b[:min(8, len(b))] {
		w |= uint64(c) << (56 - 8*i)
	}
	return w
}
