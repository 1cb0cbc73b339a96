package zonefile

import (
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// TypeNumber is the number of a type by its mnemonic, in either case, or in the form of RFC 3597 ("TYPE65400").
func TypeNumber(s string) (uint16, bool) {
	up := strings.ToUpper(s)
	if t, ok := dns.StringToType[up]; ok {
		return t, true
	}
	if digits, ok := strings.CutPrefix(up, "TYPE"); ok {
		n, err := strconv.ParseUint(digits, 10, 16)
		return uint16(n), err == nil
	}
	return 0, false
}

// TypeText is the mnemonic of a type, or its form of RFC 3597.
func TypeText(typ uint16) string { return dns.Type(typ).String() }

// AnswerText gives the response code of a message and its answer section as lines of a master file, for people.
func AnswerText(msg []byte) (rcode string, answer []string) {
	var m dns.Msg
	answer = []string{}
	if err := m.Unpack(msg); err != nil {
		return "unreadable: " + err.Error(), answer
	}
	for _, rr := range m.Answer {
		answer = append(answer, strings.ReplaceAll(rr.String(), "\t", " "))
	}
	return dns.RcodeToString[m.Rcode], answer
}
