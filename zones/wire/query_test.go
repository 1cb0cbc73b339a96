package wire

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Parts of the messages below.
const (
	partQ    = " n:www.conf.test 0001 0001 "
	partA    = " n:x.test 0001 0001 00000000 0004 01020304 "
	partOPT  = " 00 0029 04d0 00000000 0000 "
	partTSIG = " n:key 00fa 00ff 00000000 003d n:hmac-sha256 000000000000 012c 0020 x:00*32 1234 0000 0000 "
)

var statusTests = []struct {
	name string
	ref  string
	msg  string
	want Status
}{
	{"nothing", "RFC 1035 4.1.1", "", Drop},
	{"11 octets", "RFC 1035 4.1.1", "x:31*11", Drop},
	{"a response", "RFC 1035 4.1.1", "1234 8000 0001 0000 0000 0000" + partQ, Drop},
	{"an error response", "RFC 1035 4.1.1", "1234 8001 0001 0000 0000 0000" + partQ, Drop},
	{"a response with another opcode", "RFC 1035 4.1.1", "1234 f800 0001 0000 0000 0000" + partQ, Drop},

	{"plain", "RFC 1035 4.1", plain, OK},
	{"every bit but QR", "RFC 8906 8.1.4", "1234 07f0 0001 0000 0000 0000" + partQ, OK},
	{"an RCODE", "RFC 1035 4.1.1", "1234 000f 0001 0000 0000 0000" + partQ, OK},
	{"NOTIFY", "RFC 1996 3", "1234 2400 0001 0000 0000 0000 n:conf.test 0006 0001", OK},
	{"NOTIFY with the SOA in its answer section", "RFC 1996 3.7", "1234 2400 0001 0001 0000 0000 n:conf.test 0006 0001 c00c 0006 0001 00000000 0016 00 00 x:00*20", OK},
	{"NOTIFY with two questions", "RFC 9619 4", "1234 2000 0002 0000 0000 0000 n:conf.test 0006 0001 n:conf.test 0006 0001", FormErr},
	{"NOTIFY without question", "RFC 1996 3.7", "1234 2000 0000 0000 0000 0000", FormErr},

	{"IQUERY", "RFC 3425 3", "1234 0800 0001 0000 0000 0000" + partQ, NotImp},
	{"STATUS", "RFC 8906 8.1.5", "1234 1000 0001 0000 0000 0000" + partQ, NotImp},
	{"UPDATE", "RFC 2136 2", "1234 2800 0001 0000 0001 0000 n:conf.test 0006 0001 n:new.conf.test 0001 0001 0000003c 0004 c0000263", NotImp},
	{"UPDATE cut short", "RFC 2136 2", "1234 2800 0001 0000 0001 0000 n:conf.test 0006 0001 n:new.conf.test 0001", NotImp},
	{"DSO with a TLV", "RFC 8490 5.4", "1234 3000 0000 0000 0000 0000 0001 0004 00003a98", NotImp},
	{"opcode 15, header only", "RFC 8906 8.1.5", "1234 7800 0000 0000 0000 0000", NotImp},
	{"ones but QR", "RFC 8906 8.1.5", "1234 7fff ffff ffff ffff ffff", NotImp},

	{"header only", "RFC 9619 4", "1234 0000 0000 0000 0000 0000", FormErr},
	{"no question, OPT", "RFC 9619 4", "1234 0000 0000 0000 0000 0001" + partOPT, FormErr},
	{"two questions", "RFC 9619 4", "1234 0000 0002 0000 0000 0000" + partQ + partQ, FormErr},
	{"two questions announced", "RFC 9619 4", "1234 0000 0002 0000 0000 0000" + partQ, FormErr},
	{"all counts 65535", "RFC 1035 4.1", "1234 0000 ffff ffff ffff ffff" + partQ, FormErr},
	{"one question, 65535 of the rest", "RFC 1035 4.1", "1234 0000 0001 ffff ffff ffff" + partQ, FormErr},
	{"question announced and not there", "RFC 1035 4.1", "1234 0000 0001 0000 0000 0000", FormErr},
	{"cut before the class", "RFC 1035 4.1.2", "1234 0000 0001 0000 0000 0000 n:www.conf.test 0001", FormErr},
	{"cut inside the class", "RFC 1035 4.1.2", "1234 0000 0001 0000 0000 0000 n:www.conf.test 0001 00", FormErr},
	{"cut inside a label", "RFC 1035 4.1.2", "1234 0000 0001 0000 0000 0000 03 7777", FormErr},
	{"no root", "RFC 1035 3.1", "1234 0000 0001 0000 0000 0000 l:www l:conf l:test", FormErr},
	{"octets after the question", "RFC 1035 4.1", plain + " 010203", FormErr},
	{"octets after the OPT", "RFC 1035 4.1", withOPT + partOPT + "00", FormErr},

	{"the root", "RFC 1035 3.1", "1234 0000 0001 0000 0000 0000 00 0002 0001", OK},
	{"label of 63", "RFC 1035 2.3.4", "1234 0000 0001 0000 0000 0000 3f x:61*63 00 0001 0001", OK},
	{"label of 64", "RFC 1035 2.3.4", "1234 0000 0001 0000 0000 0000 40 x:61*64 00 0001 0001", FormErr},
	{"label type 10", "RFC 6891 5", "1234 0000 0001 0000 0000 0000 80 x:61*64 00 0001 0001", FormErr},
	{"name of 255", "RFC 1035 2.3.4", "1234 0000 0001 0000 0000 0000 3f x:61*63 3f x:62*63 3f x:63*63 3d x:64*61 00 0001 0001", OK},
	{"name of 256", "RFC 1035 2.3.4", "1234 0000 0001 0000 0000 0000 3f x:61*63 3f x:62*63 3f x:63*63 3e x:64*62 00 0001 0001", FormErr},
	{"name of 257", "RFC 1035 2.3.4", "1234 0000 0001 0000 0000 0000 3f x:61*63 3f x:62*63 3f x:63*63 3f x:64*63 00 0001 0001", FormErr},
	{"127 labels", "RFC 1035 2.3.4", "1234 0000 0001 0000 0000 0000 x:0161*127 00 0001 0001", OK},
	{"128 labels", "RFC 1035 2.3.4", "1234 0000 0001 0000 0000 0000 x:0161*128 00 0001 0001", FormErr},
	{"200 labels", "RFC 1035 2.3.4", "1234 0000 0001 0000 0000 0000 x:0161*200 00 0001 0001", FormErr},
	{"question: pointer to itself", "RFC 9267 2", "1234 0000 0001 0000 0000 0000 c00c 0001 0001", FormErr},
	{"question: pointers to each other", "RFC 9267 2", "1234 0000 0001 0000 0000 0000 c00e c00c 0001 0001", FormErr},
	{"question: pointer forwards", "RFC 9267 2", "1234 0000 0001 0000 0000 0000 c012 0001 0001 l:www 00", FormErr},
	{"question: pointer into the header", "RFC 9267 2", "1234 0000 0001 0000 0000 0000 c000 0001 0001", FormErr},
	{"question: pointer to a zero of the header", "RFC 9267 2", "1234 0000 0001 0000 0000 0000 l:www c006 0001 0001", FormErr},
	{"question: half a pointer", "RFC 9267 2", "1234 0000 0001 0000 0000 0000 l:www c0", FormErr},

	{"answer announced and not there", "RFC 1035 4.1", "1234 0000 0001 0001 0000 0000" + partQ, FormErr},
	{"authority announced and not there", "RFC 1035 4.1", "1234 0000 0001 0000 0001 0000" + partQ, FormErr},
	{"additional announced and not there", "RFC 1035 4.1", withOPT, FormErr},
	{"records in every section", "RFC 1035 4.1", "1234 0000 0001 0001 0001 0001" + partQ + partA + partA + partA, OK},
	{"IXFR with its SOA", "RFC 1995 3", "1234 0000 0001 0000 0001 0000 n:conf.test 00fb 0001 c00c 0006 0001 00000000 0016 00 00 x:00*20", OK},
	{"record without data", "RFC 2136 2.4", withOPT + " c00c 0001 00ff 00000000 0000", OK},
	{"rdata past the end", "RFC 1035 4.1.3", withOPT + " c00c 0001 0001 0000003c 0100 0102", FormErr},
	{"cut in the TTL", "RFC 1035 4.1.3", withOPT + " c00c 0001 0001 0000", FormErr},
	{"cut in the owner", "RFC 1035 4.1.3", withOPT + " l:www", FormErr},
	{"owner with a pointer", "RFC 1035 4.1.4", withOPT + " l:a c00c 0001 0001 00000000 0000", OK},
	{"owner with a pointer to a pointer", "RFC 1035 4.1.4", "1234 0000 0001 0000 0000 0002" + partQ + "l:a c00c 0001 0001 00000000 0000 c01f 0001 0001 00000000 0000", OK},
	{"owner: half a pointer", "RFC 9267 2", withOPT + " c0", FormErr},
	{"owner: pointer to itself", "RFC 9267 2", withOPT + " c01f 0001 0001 00000000 0000", FormErr},
	{"owner: pointer to its own label", "RFC 9267 2", withOPT + " l:a c01f 0001 0001 00000000 0000", FormErr},
	{"owner: pointer forwards", "RFC 9267 2", withOPT + " c029 0001 0001 00000000 0001 00", FormErr},
	{"owner: pointer into the header", "RFC 9267 2", withOPT + " c004 0001 0001 00000000 0000", FormErr},
	{"owner: pointer past the end", "RFC 9267 2", withOPT + " ffff 0001 0001 00000000 0000", FormErr},
	{"owner: label type 01", "RFC 6891 5", withOPT + " 41 x:61*65 00 0001 0001 00000000 0000", FormErr},
	{"owner of 255 by a pointer", "RFC 1035 2.3.4", "1234 0000 0001 0000 0000 0001 3f x:61*63 3f x:61*63 3f x:61*63 3b x:61*59 00 0001 0001 l:a c00c 0001 0001 00000000 0000", OK},
	{"owner of 256 by a pointer", "RFC 1035 2.3.4", "1234 0000 0001 0000 0000 0001 3f x:61*63 3f x:61*63 3f x:61*63 3b x:61*59 00 0001 0001 l:ab c00c 0001 0001 00000000 0000", FormErr},

	{"OPT", "RFC 6891 6.1.2", withOPT + partOPT, OK},
	{"OPT after another record", "RFC 6891 6.1.1", "1234 0000 0001 0000 0000 0002" + partQ + partA + partOPT, OK},
	{"two OPTs", "RFC 6891 6.1.1", "1234 0000 0001 0000 0000 0002" + partQ + partOPT + partOPT, FormErr},
	{"OPT not of the root", "RFC 6891 6.1.2", withOPT + " n:www.conf.test 0029 04d0 00000000 0000", FormErr},
	{"OPT of a pointer to the root", "RFC 6891 6.1.2", withOPT + " c01a 0029 04d0 00000000 0000", FormErr},
	{"OPT in the answer section", "RFC 6891 6.1.1", "1234 0000 0001 0001 0000 0000" + partQ + partOPT, FormErr},
	{"OPT in the authority section", "RFC 6891 6.1.1", "1234 0000 0001 0000 0001 0000" + partQ + partOPT, FormErr},
	{"OPT as the type asked", "RFC 6891 6.1.1", "1234 0000 0001 0000 0000 0000 n:www.conf.test 0029 0001", OK},
	{"OPT: all flags", "RFC 6891 6.1.4", withOPT + " 00 0029 04d0 0000ffff 0000", OK},
	{"OPT: an RCODE", "RFC 6891 6.1.3", withOPT + " 00 0029 04d0 ff000000 0000", OK},
	{"OPT: version 1", "RFC 6891 6.1.3", withOPT + " 00 0029 04d0 00010000 0000", BadVers},
	{"OPT: version 255 with what may be options", "RFC 6891 6.1.3", withOPT + " 00 0029 04d0 00ff8000 0003 000800", BadVers},
	{"OPT: version 1 and another OPT", "RFC 6891 6.1.1", "1234 0000 0001 0000 0000 0002" + partQ + " 00 0029 04d0 00010000 0000" + partOPT, FormErr},
	{"OPT: version 1, unknown opcode", "RFC 8906 8.1.5", "1234 7800 0001 0000 0000 0001" + partQ + " 00 0029 04d0 00010000 0000", NotImp},
	{"option head of three octets", "RFC 6891 6.1.2", withOPT + " o:fde900", FormErr},
	{"option longer than the record", "RFC 6891 6.1.2", withOPT + " o:fde9000201", FormErr},
	{"unknown option", "RFC 8906 8.2.3", withOPT + " o:00640000", OK},
	{"the first draft's client subnet code", "RFC 7871 11.1", withOPT + " o:50fa000700011800c00002", OK},
	{"EDE in a query", "RFC 8914 3", withOPT + " o:000f00020000", OK},
	{"report channel in a query", "RFC 9567 6.1", withOPT + " o:0012000100", OK},
	{"chain", "RFC 7901 5.1", withOPT + " o:000d000100", OK},
	{"keepalive with a time-out", "RFC 7828 3.3.1", withOPT + " o:000b0002000a", OK},
	{"keepalive of one octet: of no meaning over UDP", "RFC 7828 3.3.1", withOPT + " o:000b000100", OK},

	{"TSIG", "RFC 8945 5.2", withOPT + partTSIG, OK},
	{"TSIG after OPT", "RFC 8945 5.2", "1234 0000 0001 0000 0000 0002" + partQ + partOPT + partTSIG, OK},
	{"TSIG before OPT", "RFC 8945 5.2", "1234 0000 0001 0000 0000 0002" + partQ + partTSIG + partOPT, FormErr},
	{"two TSIGs", "RFC 8945 5.2", "1234 0000 0001 0000 0000 0002" + partQ + partTSIG + partTSIG, FormErr},
	{"TSIG in the answer section", "RFC 8945 5.2", "1234 0000 0001 0001 0000 0000" + partQ + partTSIG, FormErr},
	{"TSIG of two octets", "RFC 8945 5.2", withOPT + " n:key 00fa 00ff 00000000 0002 0000", FormErr},
	{"TSIG cut in its MAC", "RFC 8945 5.2", withOPT + " n:key 00fa 00ff 00000000 0013 l:sha 00 000000000000 012c 0020 000000", FormErr},
	{"TSIG with an octet too many", "RFC 8945 5.2", withOPT + " n:key 00fa 00ff 00000000 0016 l:sha 00 000000000000 012c 0000 1234 0000 0000 00", FormErr},
	{"TSIG with a TTL", "RFC 8945 4.2", withOPT + " n:key 00fa 00ff 00000001 0015 l:sha 00 000000000000 012c 0000 1234 0000 0000", FormErr},
	{"TSIG of class IN", "RFC 8945 4.2", withOPT + " n:key 00fa 0001 00000000 0015 l:sha 00 000000000000 012c 0000 1234 0000 0000", FormErr},
}

func TestParseStatus(t *testing.T) {
	for _, tt := range statusTests {
		t.Run(tt.name, func(t *testing.T) {
			var q Query
			if got := q.Parse(raw(t, tt.msg)); got != tt.want {
				t.Errorf("status %d, want %d (%s)", got, tt.want, tt.ref)
			}
		})
	}
}

// A client subnet option is FORMERR unless every octet of it is as RFC 7871 section 6 says.
func TestParseECS(t *testing.T) {
	addr := netip.MustParseAddr
	tests := []struct {
		name   string
		option string // data of the option
		want   *ECS   // nil: FORMERR
	}{
		{"IPv4 /24", "00011800 c00002", &ECS{1, 24, addr("192.0.2.0")}},
		{"IPv4 /32", "00012000 c6336407", &ECS{1, 32, addr("198.51.100.7")}},
		{"IPv4 /20", "00011400 c63360", &ECS{1, 20, addr("198.51.96.0")}},
		{"IPv4 /25", "00011900 c6336480", &ECS{1, 25, addr("198.51.100.128")}},
		{"IPv4 /1", "00010100 80", &ECS{1, 1, addr("128.0.0.0")}},
		{"IPv4 /0", "00010000", &ECS{1, 0, addr("0.0.0.0")}},
		{"IPv6 /48", "00023000 20010db80001", &ECS{2, 48, addr("2001:db8:1::")}},
		{"IPv6 /56", "00023800 20010db80000ab", &ECS{2, 56, addr("2001:db8:0:ab00::")}},
		{"IPv6 /128", "00028000 20010db8000000000000000000000001", &ECS{2, 128, addr("2001:db8::1")}},
		{"IPv6 /0", "00020000", &ECS{2, 0, addr("::")}},
		{"a mapped IPv4 address stays IPv6", "00027800 00000000000000000000ffffc00002", &ECS{2, 120, addr("::ffff:192.0.2.0")}},
		{"family 0, /0", "00000000", &ECS{Family: 0}},
		{"family 0, /8", "00000800 00", nil},
		{"family 0 with octets", "00000000 00", nil},
		{"family 3", "00031800 c00002", nil},
		{"family 3, /0", "00030000", nil},
		{"family 256, /0", "01000000", nil},
		{"IPv4 /33", "00012100 c000020180", nil},
		{"IPv6 /129", "00028100 20010db800000000000000000000000100", nil},
		{"IPv6 /129 in 16 octets", "00028100 20010db8000000000000000000000001", nil},
		{"IPv4 /255", "0001ff00 " + strings.Repeat("00", 32), nil},
		{"a bit past /23", "00011700 c00003", nil},
		{"bits past /20", "00011400 c63364", nil},
		{"a bit past /1", "00010100 c0", nil},
		{"a bit past /55", "00023700 20010db80000ab", nil},
		{"an octet too few", "00011800 c000", nil},
		{"an octet too many", "00011800 c0000200", nil},
		{"/0 with octets", "00010000 c0000200", nil},
		{"a scope", "00011818 c00002", nil},
		{"three octets", "000118", nil},
		{"nothing", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data := raw(t, tt.option)
			var q Query
			got := q.Parse(append(raw(t, withOPT+" 00 0029 04d0 00000000 00"), optRData(OptionECS, data)...))
			if !q.HasOPT {
				t.Error("no OPT for the reply")
			}
			if tt.want == nil {
				if got != FormErr || q.HasECS {
					t.Errorf("status %d, HasECS %v, want FORMERR without an option to mirror", got, q.HasECS)
				}
				return
			}
			if got != OK || !q.HasECS {
				t.Fatalf("status %d, HasECS %v", got, q.HasECS)
			}
			if diff := cmp.Diff(*tt.want, q.ECS, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("twice", func(t *testing.T) {
		var q Query
		if got := q.Parse(raw(t, withOPT+" o:0008000700011800c000020008000700011800c63364")); got != FormErr || q.HasECS {
			t.Errorf("status %d, HasECS %v", got, q.HasECS)
		}
	})
}

// optRData is the last octet of the length and the options of an OPT record that holds one option.
func optRData(code uint16, data []byte) []byte {
	return append([]byte{byte(len(data) + 4), byte(code >> 8), byte(code), 0, byte(len(data))}, data...)
}

// RFC 7873 section 5.2.2: 8 octets, or 16 to 40; all others are FORMERR.
func TestParseCookieLength(t *testing.T) {
	for n := range 60 {
		cookie := bytes.Repeat([]byte{0xab}, n)
		var q Query
		got := q.Parse(append(raw(t, withOPT+" 00 0029 04d0 00000000 00"), optRData(OptionCookie, cookie)...))
		want := FormErr
		if n == 8 || n >= 16 && n <= 40 {
			want = OK
		} else {
			cookie = nil
		}
		if got != want || !bytes.Equal(q.Cookie, cookie) || (q.Cookie == nil) != (cookie == nil) {
			t.Errorf("%d octets: status %d, cookie %x", n, got, q.Cookie)
		}
	}
}

func TestParseFacts(t *testing.T) {
	type facts struct {
		ID                                                   uint16
		Opcode                                               uint8
		RD, CD, AD                                           bool
		Name, RawName                                        string
		Labels                                               int
		Type, Class                                          uint16
		QEnd                                                 int
		HasOPT                                               bool
		UDPSize                                              uint16
		Version                                              uint8
		DO, NSID, Expire, Keepalive, Padding, Report, HasECS bool
		Cookie                                               string
		CookieOnly                                           bool
		TSIG                                                 int
	}
	of := func(q *Query) facts {
		f := facts{ID: q.ID, Opcode: q.Opcode, RD: q.RD, CD: q.CD, AD: q.AD, Labels: q.Labels, Type: q.Type, Class: q.Class, QEnd: q.QEnd,
			HasOPT: q.HasOPT, UDPSize: q.UDPSize, Version: q.Version, DO: q.DO, NSID: q.NSID, Expire: q.Expire, Keepalive: q.Keepalive,
			Padding: q.Padding, Report: q.ReportChannel, HasECS: q.HasECS, Cookie: string(q.Cookie), CookieOnly: q.CookieOnly, TSIG: q.TSIG}
		if q.Name != nil {
			f.Name, f.RawName = NameString(q.Name), NameString(q.RawName)
		}
		return f
	}
	base := facts{ID: 0x1234, Name: "www.conf.test.", RawName: "www.conf.test.", Labels: 3, Type: TypeA, Class: ClassIN, QEnd: 31}
	with := func(f func(*facts)) facts {
		x := base
		f(&x)
		return x
	}
	header := func(opcode uint8) facts { return facts{ID: 0x1234, Opcode: opcode, QEnd: HeaderSize} }
	tests := []struct {
		name string
		msg  string
		want facts
	}{
		{"plain", plain, base},
		{"flags", "1234 0130 0001 0000 0000 0000 n:www.conf.test 0001 0001", with(func(f *facts) { f.RD, f.CD, f.AD = true, true, true })},
		{"case is kept and folded, RFC 4343 3", "1234 0000 0001 0000 0000 0000 n:wWw.COnf.tEST 001c 0003", with(func(f *facts) {
			f.RawName, f.Type, f.Class = "wWw.COnf.tEST.", TypeAAAA, ClassCH
		})},
		{"only letters of ASCII fold, RFC 4343 3.2", `1234 0000 0001 0000 0000 0000 n:@[\193\225\000Z 0001 0001`, with(func(f *facts) {
			f.RawName, f.Name, f.Labels, f.QEnd = `\@[\193\225\000Z.`, `\@[\193\225\000z.`, 1, 24
		})},
		{"the root", "1234 0000 0001 0000 0000 0000 00 0002 0001", with(func(f *facts) {
			f.Name, f.RawName, f.Labels, f.Type, f.QEnd = ".", ".", 0, TypeNS, 17
		})},
		{"NOTIFY", "1234 2400 0001 0000 0000 0000 n:www.conf.test 0001 0001", with(func(f *facts) { f.Opcode = OpNotify })},
		{"OPT", withOPT + " 00 0029 1000 00008000 0000", with(func(f *facts) { f.HasOPT, f.UDPSize, f.DO = true, 4096, true })},
		{"size of one octet, as sent", withOPT + " 00 0029 0001 00007fff 0000", with(func(f *facts) { f.HasOPT, f.UDPSize = true, 1 })},
		{"every option", withOPT + " o:00030000000900000008000700011800c00002000a00080102030405060708000c00020000000b000000120000", with(func(f *facts) {
			f.HasOPT, f.UDPSize, f.NSID, f.Expire, f.Keepalive, f.Padding, f.Report, f.HasECS, f.Cookie = true, 1232, true, true, true, true, true, true, client8
		})},
		{"two cookies: the first counts, RFC 7873 5.2", withOPT + " o:000a00080102030405060708000a000101", with(func(f *facts) {
			f.HasOPT, f.UDPSize, f.Cookie = true, 1232, client8
		})},
		{"TSIG", withOPT + " n:key 00fa 00ff 00000000 0015 l:sha 00 000000000000 012c 0000 1234 0000 0000", with(func(f *facts) { f.TSIG = 31 })},
		{"BADVERS keeps question and OPT", withOPT + " 00 0029 04d0 00018000 0000", with(func(f *facts) {
			f.HasOPT, f.UDPSize, f.Version, f.DO = true, 1232, 1, true
		})},
		{"damaged option: question and OPT stay, options go", withOPT + " o:0003000000080007000118000a000100000a000800", with(func(f *facts) {
			f.HasOPT, f.UDPSize = true, 1232
		})},
		{"NOTIMP keeps the question", "1234 1000 0001 0000 0000 0000 n:www.conf.test 0001 0001", with(func(f *facts) { f.Opcode = 2 })},
		{"no question", "1234 0000 0000 0000 0000 0000", header(0)},
		{"header only, opcode 15", "1234 7800 0000 0000 0000 0000", header(15)},
		{"a question that breaks off leaves none", "1234 0000 0001 0000 0000 0000 l:www l:conf", header(0)},
		{"cookie without a question, RFC 7873 5.4", "1234 0000 0000 0000 0000 0001 o:000a00080102030405060708", facts{
			ID: 0x1234, QEnd: HeaderSize, HasOPT: true, UDPSize: 1232, Cookie: client8, CookieOnly: true}},
		{"NOTIFY has no such thing", "1234 2000 0000 0000 0000 0001 o:000a00080102030405060708", facts{
			ID: 0x1234, Opcode: OpNotify, QEnd: HeaderSize, HasOPT: true, UDPSize: 1232, Cookie: client8}},
	}
	var q Query // the same one for all: nothing of one message may stay for the next
	dirt := raw(t, "ffff 2130 0001 0000 0000 0002 x:0161*127 00 ffff ffff 00 0029 ffff 00008000 002d 00030000 00090000 0008000700011800c00002 "+
		"000a00080102030405060708 000c00020000 000b0000 00120000 n:key 00fa 00ff 00000000 0015 l:sha 00 000000000000 012c 0000 1234 0000 0000")
	if s := q.Parse(dirt); s != OK || !q.HasECS || q.TSIG == 0 {
		t.Fatalf("status %d of the message that leaves dirt", s)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q.Parse(dirt)
			q.Parse(raw(t, tt.msg))
			if diff := cmp.Diff(tt.want, of(&q)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("drop", func(t *testing.T) {
		q.Parse(dirt)
		q.Parse(nil)
		if diff := cmp.Diff(facts{QEnd: HeaderSize}, of(&q)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSuffix(t *testing.T) {
	q := parsed(t, "1234 0000 0001 0000 0000 0000 n:wWw.Conf.test 0001 0001")
	var got []string
	for n := range q.Labels + 1 {
		got = append(got, NameString(q.Suffix(n)))
	}
	if diff := cmp.Diff([]string{"www.conf.test.", "conf.test.", "test.", "."}, got); diff != "" {
		t.Error(diff)
	}
}

// What outlives the datagram: everything but Msg and RawName.
func TestQueryOutlivesDatagram(t *testing.T) {
	msg := raw(t, withOPT+" o:0008000700011800c00002000a00080102030405060708")
	var q Query
	q.Parse(msg)
	clear(msg[q.QEnd:])
	if q.ECS.Addr != netip.MustParseAddr("192.0.2.0") || string(q.Cookie) != client8 || NameString(q.Name) != "www.conf.test." {
		t.Errorf("%v %x %s", q.ECS, q.Cookie, NameString(q.Name))
	}
}

// A name may go through as many pointers as the library allows, 126, and no more: a message full of pointers to pointers
// costs little.
func TestPointerChain(t *testing.T) {
	for _, n := range []int{125, 126, 127, 5000} {
		msg := raw(t, "1234 0000 0001 0000 0000 0002 n:www.conf.test 0001 0001 00 0010 0001 00000000")
		msg = binary.BigEndian.AppendUint16(msg, uint16(2*n)) // the pointers lie in the data of a record
		to := HeaderSize
		for range n {
			at := len(msg)
			msg = binary.BigEndian.AppendUint16(msg, 0xc000|uint16(to))
			to = at
		}
		msg = binary.BigEndian.AppendUint16(msg, 0xc000|uint16(to-2)) // one more makes n
		msg = append(msg, raw(t, "0001 0001 00000000 0000")...)
		want := OK
		if n > 126 {
			want = FormErr
		}
		if got := checkParse(t, new(Query), msg); got != want {
			t.Errorf("%d pointers: status %d, want %d", n, got, want)
		}
	}
}
