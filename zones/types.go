package zones

import (
	"strconv"

	"github.com/edgesteer/edgesteer/zones/wire"
)

// TypeString is the name of a type for people: its mnemonic if it is one of those that messages speak of most, else the form of RFC 3597 ("TYPE65400").
func TypeString(typ uint16) string {
	switch typ {
	case wire.TypeA:
		return "A"
	case wire.TypeNS:
		return "NS"
	case wire.TypeCNAME:
		return "CNAME"
	case wire.TypeSOA:
		return "SOA"
	case wire.TypePTR:
		return "PTR"
	case wire.TypeMX:
		return "MX"
	case wire.TypeTXT:
		return "TXT"
	case wire.TypeAAAA:
		return "AAAA"
	case wire.TypeSRV:
		return "SRV"
	case wire.TypeNAPTR:
		return "NAPTR"
	case wire.TypeDNAME:
		return "DNAME"
	case wire.TypeDS:
		return "DS"
	case wire.TypeRRSIG:
		return "RRSIG"
	case wire.TypeNSEC:
		return "NSEC"
	case typeDNSKEY:
		return "DNSKEY"
	case wire.TypeSVCB:
		return "SVCB"
	case wire.TypeHTTPS:
		return "HTTPS"
	case typeCAA:
		return "CAA"
	}
	return "TYPE" + strconv.Itoa(int(typ))
}

const (
	typeKEY    uint16 = 25
	typeDNSKEY uint16 = 48
	typeNSEC3  uint16 = 50
	typeCAA    uint16 = 257
)
