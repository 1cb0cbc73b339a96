package server

import (
	"encoding/hex"
	"net/netip"
	"testing"
)

func secret(t *testing.T, s string) CookieSecret {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 {
		t.Fatalf("secret %q", s)
	}
	return CookieSecret(b)
}

// The test vectors of RFC 9018 appendix A.
func TestCookieVectors(t *testing.T) {
	first := []string{"e5e973e5a6b2a43f48e7dc849e37bfcf"}
	rolled := []string{"445536bcd2513298075a5d379663c962", "dd3bdf9344b678b185a6f5cb60fca715"}
	for _, c := range []struct {
		name, got, sender string
		secrets           []string
		now               uint32
		valid, renew      bool
		want              string // the new cookie
	}{
		{"A.1 learning a new server cookie", "2464c4abcf10c957", "198.51.100.100", first, 1559731985, false, true, "2464c4abcf10c957010000005cf79f111f8130c3eee29480"},
		{"A.2 the same client learning a renewed one", "2464c4abcf10c957010000005cf79f111f8130c3eee29480", "198.51.100.100", first, 1559734385, true, true,
			"2464c4abcf10c957010000005cf7a871d4a564a1442aca77"},
		{"A.3 another client, reserved octets not zero", "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5", "203.0.113.203", first, 1559734700, false, true,
			"fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e"},
		{"A.4 IPv6 client, rolled over secret", "22681ab97d52c298010000005cf7c57926556bd0934c72f8", "2001:db8:220:1:59de:d0f4:8769:82b8", rolled, 1559741961, true, true,
			"22681ab97d52c298010000005cf7c609a6bb79d16625507a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			jar := &cookies{}
			for _, s := range c.secrets {
				jar.secrets = append(jar.secrets, secret(t, s))
			}
			got, _ := hex.DecodeString(c.got)
			sender := netip.MustParseAddr(c.sender)
			valid, renew := jar.check(got, sender, c.now)
			if valid != c.valid || renew != c.renew {
				t.Errorf("check: valid %v renew %v, want %v %v", valid, renew, c.valid, c.renew)
			}
			var out [fullCookieLen]byte
			copy(out[:], got)
			jar.sign(&out, sender, c.now)
			if hex.EncodeToString(out[:]) != c.want {
				t.Errorf("new cookie %x, want %s", out, c.want)
			}
		})
	}
}

func TestCookieAge(t *testing.T) {
	jar := &cookies{secrets: []CookieSecret{secret(t, "00112233445566778899aabbccddeeff")}}
	sender := netip.MustParseAddr("192.0.2.1")
	const made = 1_000_000
	var c [fullCookieLen]byte
	copy(c[:], "12345678")
	jar.sign(&c, sender, made)
	for _, tt := range []struct {
		now          uint32
		valid, renew bool
	}{
		{made, true, false},
		{made + 1800, true, false},
		{made + 1801, true, true},
		{made + 3600, true, true},
		{made + 3601, false, true},
		{made - 1, true, true},
		{made - 300, true, true},
		{made - 301, false, true},
	} {
		if valid, renew := jar.check(c[:], sender, tt.now); valid != tt.valid || renew != tt.renew {
			t.Errorf("%+d s: valid %v renew %v, want %v %v", int64(tt.now)-made, valid, renew, tt.valid, tt.renew)
		}
	}
	if valid, _ := jar.check(c[:], netip.MustParseAddr("192.0.2.2"), made); valid {
		t.Error("another sender's cookie is valid")
	}
	c[20]++
	if valid, _ := jar.check(c[:], sender, made); valid {
		t.Error("a changed cookie is valid")
	}
}
