// Package wire reads DNS queries and writes DNS responses, as octets, on buffers that belong to the caller.
//
// A worker owns one [Query] and one [Builder] and uses them again for every message:
//
//	switch status := q.Parse(datagram); status {
//	case wire.Drop: // silence
//	case wire.OK: // q.Name, q.Type, q.ECS ... are the facts; look up, then Begin, Append, Finish
//	default: // Begin, SetRCode(status.RCode()), Finish
//	}
//
// Neither allocates. A query holds one question and, in its OPT record, the options that decide something
// (client subnet, cookie, NSID, keepalive, padding); a response is written front to back in one pass, with
// compressed names, whole rrsets kept or left out by [Builder.Mark] and [Builder.Rollback], and an OPT record
// whose room is set aside before the first record is written.
//
// It is not a DNS library: it reads no response, keeps no record in parsed form and knows the text of no type.
// Record data arrives packed (zones/zonefile does that at load time). What it accepts and builds is held against
// miekg/dns by fuzz tests.
//
// Names are in wire form: length octets and labels, ending in the root's zero octet, never compressed.
package wire

// Sizes in octets.
const (
	HeaderSize = 12    // RFC 1035 section 4.1.1
	MaxName    = 255   // a name with its length octets, RFC 1035 section 2.3.4
	MaxLabel   = 63    // a label without its length octet
	MaxLabels  = 127   // labels of the longest name, without the root
	MinLimit   = 512   // what every client takes over UDP, RFC 1035 section 4.2.1
	MaxMessage = 65535 // over TCP, RFC 1035 section 4.2.2

	// DefaultUDPSize is what a server advertises, and sends at most over UDP, when nothing else is configured:
	// an Ethernet frame of IPv6 without fragments (DNS flag day 2020).
	DefaultUDPSize = 1232
)

// Opcodes, RFC 6895 section 2.2.
const (
	OpQuery  uint8 = 0
	OpNotify uint8 = 4 // RFC 1996
	OpUpdate uint8 = 5 // RFC 2136
)

// Response codes, RFC 6895 section 2.3. Those above 15 need an OPT record.
const (
	RCodeNoError   uint16 = 0
	RCodeFormErr   uint16 = 1
	RCodeServFail  uint16 = 2
	RCodeNXDomain  uint16 = 3
	RCodeNotImp    uint16 = 4
	RCodeRefused   uint16 = 5
	RCodeYXDomain  uint16 = 6 // a DNAME substitution too long, RFC 6672 section 2.2
	RCodeNotAuth   uint16 = 9
	RCodeBadVers   uint16 = 16
	RCodeBadCookie uint16 = 23 // RFC 7873 section 8
)

// Classes, RFC 6895 section 3.2.
const (
	ClassIN   uint16 = 1
	ClassCH   uint16 = 3
	ClassNONE uint16 = 254
	ClassANY  uint16 = 255
)

// Types that the data path or the builder knows by number.
const (
	TypeA     uint16 = 1
	TypeNS    uint16 = 2
	TypeMD    uint16 = 3
	TypeMF    uint16 = 4
	TypeCNAME uint16 = 5
	TypeSOA   uint16 = 6
	TypeMB    uint16 = 7
	TypeMG    uint16 = 8
	TypeMR    uint16 = 9
	TypePTR   uint16 = 12
	TypeHINFO uint16 = 13
	TypeMINFO uint16 = 14
	TypeMX    uint16 = 15
	TypeTXT   uint16 = 16
	TypeAAAA  uint16 = 28
	TypeSRV   uint16 = 33
	TypeNAPTR uint16 = 35
	TypeDNAME uint16 = 39
	TypeOPT   uint16 = 41
	TypeDS    uint16 = 43
	TypeRRSIG uint16 = 46
	TypeNSEC  uint16 = 47
	TypeSVCB  uint16 = 64
	TypeHTTPS uint16 = 65
	TypeTKEY  uint16 = 249
	TypeTSIG  uint16 = 250
	TypeIXFR  uint16 = 251
	TypeAXFR  uint16 = 252
	TypeMAILB uint16 = 253
	TypeMAILA uint16 = 254
	TypeANY   uint16 = 255
)

// EDNS option codes.
const (
	OptionNSID          uint16 = 3  // RFC 5001
	OptionECS           uint16 = 8  // RFC 7871
	OptionExpire        uint16 = 9  // RFC 7314
	OptionCookie        uint16 = 10 // RFC 7873
	OptionKeepalive     uint16 = 11 // RFC 7828
	OptionPadding       uint16 = 12 // RFC 7830
	OptionEDE           uint16 = 15 // RFC 8914
	OptionReportChannel uint16 = 18 // RFC 9567
)

// Extended errors, RFC 8914 section 5.2: those that an authoritative server has reason to send.
const (
	EDEOther        uint16 = 0
	EDENotReady     uint16 = 14
	EDEProhibited   uint16 = 18
	EDENotAuth      uint16 = 20 // not authoritative
	EDENotSupported uint16 = 21
	EDEInvalidData  uint16 = 24
)

// Status says what becomes of a message that was read.
type Status uint8

// What [Query.Parse] returns.
const (
	OK      Status = iota // a well-formed QUERY or NOTIFY (see Query.Opcode): go on
	Drop                  // silence: shorter than a header, or itself a response
	FormErr               // reply with that RCODE
	NotImp                // an opcode other than QUERY and NOTIFY
	BadVers               // an EDNS version other than 0
)

// RCode is the response code to send; NOERROR for OK and for Drop, which sends none.
func (s Status) RCode() uint16 {
	switch s {
	case FormErr:
		return RCodeFormErr
	case NotImp:
		return RCodeNotImp
	case BadVers:
		return RCodeBadVers
	}
	return RCodeNoError
}
