package zonefile

import (
	"fmt"
	"strings"

	"golang.org/x/net/idna"
)

// foreign says how a name is written that is not ASCII (RFC 5890); "" if it is ASCII. The name is in text form, with octets as they are or as \DDD.
func foreign(name string) string {
	raw := plain(name)
	if strings.IndexFunc(raw, func(r rune) bool { return r > 0x7f }) < 0 {
		return ""
	}
	ascii, err := idna.Lookup.ToASCII(raw)
	if err != nil {
		return "names that are not ASCII are written in Punycode, xn--..."
	}
	return fmt.Sprintf("did you mean %q?", ascii)
}

// plain undoes the escapes \DDD of octets above 127.
func plain(name string) string {
	if !strings.Contains(name, `\`) {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		var octet uint8
		if n, err := fmt.Sscanf(name[i:], `\%3d`, &octet); err == nil && n == 1 && octet > 0x7f {
			b.WriteByte(octet)
			i += 3
			continue
		}
		b.WriteByte(name[i])
	}
	return b.String()
}
