package server

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"

	"github.com/dchest/siphash"
)

// CookieSecret is a secret of interoperable server cookies (RFC 9018 section 4): 16 octets. All servers behind one address share it.
type CookieSecret [16]byte

const (
	clientCookieLen = 8
	fullCookieLen   = 24

	cookieMaxAge   = 3600 // seconds; RFC 9018 section 4.3
	cookieMaxAhead = 300
	cookieRenewAge = 1800
)

// cookies makes and checks server cookies. The first secret signs, all verify, so that secrets can be rotated without refusing anybody.
type cookies struct {
	secrets []CookieSecret
}

// check says whether got, a whole cookie from the sender, carries a server part of ours that is still good, and whether it is time to give a new one.
func (c *cookies) check(got []byte, sender netip.Addr, now uint32) (valid, renew bool) {
	if len(got) != fullCookieLen || got[8] != 1 {
		return false, true
	}
	age := int32(now - binary.BigEndian.Uint32(got[12:]))
	if age > cookieMaxAge || age < -cookieMaxAhead {
		return false, true
	}
	for i := range c.secrets {
		if cookieHash(&c.secrets[i], got, sender) == binary.LittleEndian.Uint64(got[16:]) {
			return true, i > 0 || age > cookieRenewAge || age < 0
		}
	}
	return false, true
}

// sign completes dst, whose first 8 octets are the client's cookie, with a server cookie of now.
func (c *cookies) sign(dst *[fullCookieLen]byte, sender netip.Addr, now uint32) {
	dst[8], dst[9], dst[10], dst[11] = 1, 0, 0, 0
	binary.BigEndian.PutUint32(dst[12:], now)
	binary.LittleEndian.PutUint64(dst[16:], cookieHash(&c.secrets[0], dst[:], sender))
}

// cookieHash is SipHash-2-4 over client cookie, version, reserved, timestamp and the sender's address (RFC 9018 section 4.4).
func cookieHash(secret *CookieSecret, cookie []byte, sender netip.Addr) uint64 {
	var in [32]byte
	n := copy(in[:], cookie[:16])
	if sender.Is4() {
		a := sender.As4()
		n += copy(in[n:], a[:])
	} else {
		a := sender.As16()
		n += copy(in[n:], a[:])
	}
	return siphash.Hash(binary.LittleEndian.Uint64(secret[:8]), binary.LittleEndian.Uint64(secret[8:]), in[:n])
}

// NewCookieSecret makes a random secret, good for a server that shares its address with no other.
func NewCookieSecret() (s CookieSecret) {
	rand.Read(s[:]) // never fails
	return s
}
