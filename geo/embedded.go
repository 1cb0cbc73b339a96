package geo

import "net/netip"

// wrap is a range of IPv6 addresses that carry an IPv4 address.
type wrap struct {
	prefix netip.Prefix
	offset uint8 // bits in front of the IPv4 address
	least  uint8 // bits of the IPv4 address that must be known to locate it
	invert bool  // the IPv4 address is stored inverted
}

// wraps are the ranges that are located by the IPv4 address inside (steering.md section 2).
var wraps = [...]wrap{
	{prefix: netip.PrefixFrom(netip.AddrFrom16([16]byte{10: 0xff, 11: 0xff}), 96), offset: 96, least: 8},                 // ::ffff:0:0/96, IPv4-mapped, RFC 4291 section 2.5.5.2
	{prefix: netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0x00, 1: 0x64, 2: 0xff, 3: 0x9b}), 96), offset: 96, least: 8}, // 64:ff9b::/96, NAT64, RFC 6052
	{prefix: netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0x20, 1: 0x01}), 32), offset: 96, least: 32, invert: true},    // 2001::/32, Teredo, RFC 4380: whole addresses only
	{prefix: netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0x20, 1: 0x02}), 16), offset: 16, least: 8},                   // 2002::/16, 6to4, RFC 3056
}

// wrapOf is the index in wraps of the range that holds a, -1 for a plain address.
func wrapOf(a netip.Addr) int {
	if !a.Is6() {
		return -1
	}
	b := a.As16()
	switch {
	case b[0] == 0x20 && b[1] == 0x02:
		return 3
	case b[0] == 0x20 && b[1] == 0x01 && b[2] == 0 && b[3] == 0:
		return 2
	case b[0] == 0 && (b[1] == 0 || b[1] == 0x64):
		for i := range wraps[:2] {
			if wraps[i].prefix.Contains(a) {
				return i
			}
		}
	}
	return -1
}

// unwrap takes the embedded IPv4 address out if enough of it is known, and sets the floor below which a plain and an embedded address would share a scope.
func (c *Client) unwrap() {
	i := wrapOf(c.Addr)
	if i < 0 {
		// Only the /96 ranges lie in a network as narrow as a draw's; the maps' leaves keep away from all.
		for _, w := range wraps[:2] {
			if n := commonBits(c.Addr.As16(), w.prefix.Addr().As16()); n >= 48 {
				c.Floor = uint8(n) + 1
			}
		}
		return
	}
	w := &wraps[i]
	if c.Bits < w.offset+w.least {
		c.Floor = w.offset + w.least
		return
	}
	b := c.Addr.As16()
	var v4 [4]byte
	copy(v4[:], b[w.offset/8:])
	if w.invert {
		for i := range v4 {
			v4[i] = ^v4[i]
		}
	}
	c.Addr = netip.AddrFrom4(v4)
	c.Offset, c.Floor = w.offset, w.least
	c.Bits = min(c.Bits-w.offset, 32)
}

// unwrapAddr is the IPv4 address inside a whole address, or a itself.
func unwrapAddr(a netip.Addr) netip.Addr {
	if !a.Is6() {
		return a
	}
	c := Client{Addr: a, Bits: 128}
	c.unwrap()
	return c.Addr
}

// unwrapPrefix is the IPv4 prefix inside an embedded one that is long enough, or p itself.
func unwrapPrefix(p netip.Prefix) netip.Prefix {
	if !p.Addr().Is6() {
		return p
	}
	c := Client{Addr: p.Addr(), Bits: uint8(p.Bits())}
	c.unwrap()
	q, err := c.Addr.Prefix(int(c.Bits))
	if err != nil {
		return p
	}
	return q
}

// commonBits is the length of the longest prefix that a and b share.
func commonBits(a, b [16]byte) int {
	n := 0
	for i := range a {
		x := a[i] ^ b[i]
		if x == 0 {
			n += 8
			continue
		}
		for x&0x80 == 0 {
			x <<= 1
			n++
		}
		break
	}
	return n
}
