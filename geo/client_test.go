package geo

import (
	"net/netip"
	"testing"
)

func TestNewClient(t *testing.T) {
	for _, c := range []struct {
		name, ecs, sender string
		addr              string
		bits, offset      uint8
		isECS             bool
		scopeOf12, draw   uint8 // scopes of a decision by 12 bits, and of a draw
	}{
		{"subnet", "203.0.113.0/24", "192.0.2.1", "203.0.113.0", 24, 0, true, 12, 24},
		{"no option", "", "192.0.2.1", "192.0.2.1", 32, 0, false, 12, 24},
		{"source 0", "0.0.0.0/0", "192.0.2.1", "192.0.2.1", 32, 0, false, 12, 24},
		{"IPv6 subnet", "2001:db8:1::/56", "192.0.2.1", "2001:db8:1::", 56, 0, true, 12, 56},
		{"IPv6 source 0", "::/0", "2001:db8::1", "2001:db8::1", 128, 0, false, 12, 56},
		{"mapped sender", "", "::ffff:192.0.2.1", "192.0.2.1", 32, 0, false, 12, 24},
		{"sender with zone", "", "fe80::1%eth0", "fe80::1", 128, 0, false, 12, 56},
		{"6to4 sender", "", "2002:c633:6401::1", "198.51.100.1", 32, 16, false, 28, 40},
		{"mapped", "::ffff:203.0.113.0/120", "192.0.2.1", "203.0.113.0", 24, 96, true, 108, 120},
		{"mapped, 8 bits", "::ffff:203.0.0.0/104", "192.0.2.1", "203.0.0.0", 8, 96, true, 108, 120},
		{"mapped, too short", "::ffff:202.0.0.0/103", "192.0.2.1", "::ffff:202.0.0.0", 103, 0, true, 104, 104},
		{"NAT64", "64:ff9b::cb00:7100/120", "192.0.2.1", "203.0.113.0", 24, 96, true, 108, 120},
		{"NAT64, too short", "64:ff9b::/96", "192.0.2.1", "64:ff9b::", 96, 0, true, 104, 104},
		{"6to4", "2002:cb00:7100::/40", "192.0.2.1", "203.0.113.0", 24, 16, true, 28, 40},
		{"6to4 beyond its IPv4", "2002:cb00:7101:1::/64", "192.0.2.1", "203.0.113.1", 32, 16, true, 28, 40},
		{"6to4, 8 bits", "2002:cb00::/24", "192.0.2.1", "203.0.0.0", 8, 16, true, 28, 40},
		{"6to4, too short", "2002:ca00::/23", "192.0.2.1", "2002:ca00::", 23, 0, true, 24, 56},
		{"Teredo, whole", "2001:0:4136:e378:8000:63bf:34ff:8efe/128", "192.0.2.1", "203.0.113.1", 32, 96, true, 128, 128},
		{"Teredo, a bit short", "2001:0:4136:e378:8000:63bf:34ff:8efe/127", "192.0.2.1", "2001:0:4136:e378:8000:63bf:34ff:8efe", 127, 0, true, 128, 128},
		{"beside NAT64", "64:ff9b::1:0:0/96", "192.0.2.1", "64:ff9b::1:0:0", 96, 0, true, 96, 96},
		{"Teredo's neighbour", "2001:1::/48", "192.0.2.1", "2001:1::", 48, 0, true, 12, 56},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ecs netip.Prefix
			if c.ecs != "" {
				ecs = netip.MustParsePrefix(c.ecs)
			}
			got := NewClient(ecs.Addr(), uint8(max(ecs.Bits(), 0)), netip.MustParseAddr(c.sender))
			if got.Addr.String() != c.addr || got.Bits != c.bits || got.Offset != c.offset || got.ECS != c.isECS {
				t.Errorf("%v/%d offset %d ecs %v, want %s/%d offset %d ecs %v", got.Addr, got.Bits, got.Offset, got.ECS, c.addr, c.bits, c.offset, c.isECS)
			}
			if s := got.Scope(12); s != c.scopeOf12 {
				t.Errorf("scope of 12 bits: %d, want %d", s, c.scopeOf12)
			}
			if s := got.Scope(got.DrawBits()); s != c.draw {
				t.Errorf("scope of a draw: %d, want %d", s, c.draw)
			}
			if s := got.Scope(0); s != 0 {
				t.Errorf("scope of nothing: %d", s)
			}
		})
	}
}

func TestNetwork(t *testing.T) {
	for in, want := range map[string]string{
		"203.0.113.77/32":           "203.0.113.0",
		"203.0.112.0/20":            "203.0.112.0",
		"2001:db8:1:2ff::/64":       "2001:db8:1:200::",
		"64:ff9b::203.0.113.77/128": "203.0.113.0",
		"2002:cb00:714d::/48":       "203.0.113.0",
	} {
		p := netip.MustParsePrefix(in)
		c := NewClient(p.Addr(), uint8(p.Bits()), netip.Addr{})
		if got := c.Network().String(); got != want {
			t.Errorf("%s: draws by %s, want %s", in, got, want)
		}
	}
}
