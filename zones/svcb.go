package zones

import (
	"encoding/binary"
	"fmt"

	"github.com/edgesteer/edgesteer/zones/wire"
)

// Parameters of SVCB and HTTPS records that speak of others (RFC 9460 section 14.3.2).
const (
	paramMandatory     = 0
	paramALPN          = 1
	paramNoDefaultALPN = 2
)

// CheckSVCB says why clients have to leave a record of type SVCB or HTTPS out, whose data is otherwise sound: what is mandatory must be there (RFC 9460 section 8), and
// no-default-alpn needs alpn (section 7.1.1). Neither list may be empty, nor mandatory name a key twice. nil: they need not. A record that is an alias has no parameters that count.
func CheckSVCB(rdata []byte) error {
	target := targetOf(wire.TypeSVCB, rdata)
	if target == nil || rdata[0]|rdata[1] == 0 {
		return nil
	}
	has := map[uint16]bool{}
	var mandatory []byte
	for b := rdata[2+len(target):]; len(b) >= 4; {
		key, n := binary.BigEndian.Uint16(b), int(binary.BigEndian.Uint16(b[2:]))
		if len(b) < 4+n {
			return nil
		}
		if n == 0 && (key == paramMandatory || key == paramALPN) {
			return fmt.Errorf("key%d has no value (RFC 9460 sections 7.1.1 and 8)", key)
		}
		if key == paramMandatory {
			mandatory = b[4 : 4+n]
		}
		has[key] = true
		b = b[4+n:]
	}
	for last := -1; len(mandatory) >= 2; mandatory = mandatory[2:] {
		key := binary.BigEndian.Uint16(mandatory)
		switch {
		case key == paramMandatory:
			return fmt.Errorf("mandatory lists itself (RFC 9460 section 8)")
		case int(key) <= last:
			return fmt.Errorf("mandatory lists key%d twice or out of order (RFC 9460 section 8)", key)
		case !has[key]:
			return fmt.Errorf("key%d is mandatory, and missing (RFC 9460 section 8)", key)
		}
		last = int(key)
	}
	if has[paramNoDefaultALPN] && !has[paramALPN] {
		return fmt.Errorf("no-default-alpn without alpn (RFC 9460 section 7.1.1)")
	}
	return nil
}
