package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// responseBuffer holds what respond returns, until it is called again.
var responseBuffer = newBuffer()

// respond parses a query, whatever its status, and returns the response that build makes of it.
func respond(tb testing.TB, text string, opt OPT, limit int, build func(*Builder, *Query)) []byte {
	tb.Helper()
	var q Query
	status := q.Parse(raw(tb, text))
	for i := range responseBuffer[:4096] { // what is not written must not look right by chance
		responseBuffer[i] = 0xee
	}
	b := Builder{OPT: opt}
	b.Begin(&q, responseBuffer, limit)
	b.SetRCode(status.RCode())
	if build != nil {
		build(&b, &q)
	}
	return b.Finish()
}

// The OPT record of the response, octet for octet, RFC 6891 section 6.1. Sections of the others are in the names.
func TestOPT(t *testing.T) {
	ecs := "0008000700011800c00002"
	tests := []struct {
		name  string
		query string
		opt   OPT
		want  string // all that follows the question
	}{
		{"none to a query without one, RFC 6891 7", plain, OPT{Cookie: []byte(client8), NSID: []byte("x"), HasEDE: true, HasKeepalive: true, Pad: 468}, ""},
		{"default size", withOPT + " o:", OPT{}, "00 0029 04d0 00000000 0000"},
		{"a size", withOPT + " o:", OPT{UDPSize: 4096}, "00 0029 1000 00000000 0000"},
		{"a size below 512, RFC 6891 6.2.3", withOPT + " o:", OPT{UDPSize: 100}, "00 0029 0200 00000000 0000"},
		{"DO is copied, unknown flags are not, RFC 3225 3, RFC 8906 8.2.4", withOPT + " 00 0029 04d0 0000ffff 0000", OPT{}, "00 0029 04d0 00008000 0000"},
		{"BADVERS, version 0, RFC 6891 6.1.3", withOPT + " 00 0029 04d0 00010000 0004 fde90000", OPT{}, "00 0029 04d0 01000000 0000"},
		{"an unknown option is not copied, RFC 8906 8.2.3", withOPT + " o:fde90001ff", OPT{}, "00 0029 04d0 00000000 0000"},

		{"client subnet, RFC 7871 7.2.1", withOPT + " o:" + ecs, OPT{Scope: 17}, "00 0029 04d0 00000000 000b 0008 0007 0001 18 11 c00002"},
		{"client subnet of IPv6", withOPT + " o:0008000a0002300020010db80001", OPT{Scope: 56}, "00 0029 04d0 00000000 000e 0008 000a 0002 30 38 20010db80001"},
		{"client subnet /20", withOPT + " o:0008000700011400c63360", OPT{}, "00 0029 04d0 00000000 000b 0008 0007 0001 14 00 c63360"},
		{"scope within the family", withOPT + " o:" + ecs, OPT{Scope: 56}, "00 0029 04d0 00000000 000b 0008 0007 0001 18 20 c00002"},
		{"scope within the family, IPv6", withOPT + " o:0008000a0002300020010db80001", OPT{Scope: 255}, "00 0029 04d0 00000000 000e 0008 000a 0002 30 80 20010db80001"},
		{"source 0: scope 0", withOPT + " o:0008000400010000", OPT{Scope: 24}, "00 0029 04d0 00000000 0008 0008 0004 0001 00 00"},
		{"source 0 of IPv6: scope 0", withOPT + " o:0008000400020000", OPT{Scope: 24}, "00 0029 04d0 00000000 0008 0008 0004 0002 00 00"},
		{"family 0: mirrored, scope 0", withOPT + " o:0008000400000000", OPT{Scope: 24}, "00 0029 04d0 00000000 0008 0008 0004 0000 00 00"},
		{"no client subnet unasked", withOPT + " o:", OPT{Scope: 24}, "00 0029 04d0 00000000 0000"},
		{"a damaged client subnet is not mirrored", withOPT + " o:0008000700011818c00002", OPT{Scope: 24}, "00 0029 04d0 00000000 0000"},

		{"cookie, RFC 7873 5.2", withOPT + " o:", OPT{Cookie: []byte(client8 + "serverse")}, "00 0029 04d0 00000000 0014 000a 0010 0102030405060708 7365727665727365"},
		{"NSID asked, RFC 5001 2.2", withOPT + " o:00030000", OPT{NSID: []byte("a1")}, "00 0029 04d0 00000000 0006 0003 0002 6131"},
		{"NSID asked and without a name", withOPT + " o:00030000", OPT{}, "00 0029 04d0 00000000 0000"},
		{"NSID unasked", withOPT + " o:", OPT{NSID: []byte("a1")}, "00 0029 04d0 00000000 0000"},
		{"keepalive, RFC 7828 3.1", withOPT + " o:000b0000", OPT{HasKeepalive: true, Keepalive: 300}, "00 0029 04d0 00000000 0006 000b 0002 012c"},
		{"keepalive 0: close", withOPT + " o:000b0000", OPT{HasKeepalive: true}, "00 0029 04d0 00000000 0006 000b 0002 0000"},
		{"extended error, RFC 8914 2", withOPT + " o:", OPT{HasEDE: true, EDE: EDEProhibited, EDEText: "no"}, "00 0029 04d0 00000000 0008 000f 0004 0012 6e6f"},
		{"extended error 0 without text", withOPT + " o:", OPT{HasEDE: true}, "00 0029 04d0 00000000 0006 000f 0002 0000"},
		{"all in order", withOPT + " o:00030000" + ecs, OPT{Cookie: []byte(client8), NSID: []byte("a"), HasKeepalive: true, HasEDE: true, Pad: 128},
			"00 0029 04d0 00000000 0056 0008 0007 0001 18 00 c00002 000a 0008 0102030405060708 000b 0002 0000 0003 0001 61 000f 0002 0000 000c 002a x:00*42"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := respond(t, tt.query, tt.opt, MaxMessage, nil)
			unpacked(t, got)
			end := bytes.Index(got, raw(t, "n:www.conf.test 0001 0001")) + 19
			if want := raw(t, tt.want); !bytes.Equal(got[end:], want) {
				t.Errorf("got  %x\nwant %x", got[end:], want)
			}
			if n, want := binary.BigEndian.Uint16(got[10:]), uint16(bit(tt.want != "")); n != want {
				t.Errorf("%d additional records", n)
			}
		})
	}
}

// RFC 6891 section 7: every response to a query with OPT has one, also the errors.
func TestOPTInErrors(t *testing.T) {
	tests := []struct {
		name  string
		query string
		rcode int
	}{
		{"damaged option", withOPT + " o:fde900", 1},
		{"damaged client subnet", withOPT + " o:0008000700012100c00002", 1},
		{"damaged cookie", withOPT + " o:000a000100", 1},
		{"octets after the OPT", withOPT + " o: 00", 1},
		{"unknown opcode", "1234 7800 0001 0000 0000 0001 n:www.conf.test 0001 0001 o:", 4},
		{"unknown version", withOPT + " 00 0029 04d0 00010000 0000", 16},
		{"no question", "1234 0000 0000 0000 0000 0001 o:", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := unpacked(t, respond(t, tt.query, OPT{}, 512, nil))
			if o := m.IsEdns0(); o == nil || len(m.Extra) != 1 || len(o.Option) != 0 || o.Version() != 0 {
				t.Errorf("OPT %v", o)
			}
			if m.Rcode != tt.rcode {
				t.Errorf("rcode %d, want %d", m.Rcode, tt.rcode)
			}
		})
	}
	t.Run("BADCOOKIE", func(t *testing.T) {
		m := unpacked(t, respond(t, withOPT+" o:000a0008"+"0102030405060708", OPT{Cookie: []byte(client8 + client8)}, 512, func(b *Builder, _ *Query) { b.SetRCode(RCodeBadCookie) }))
		if m.Rcode != 23 {
			t.Errorf("rcode %d", m.Rcode)
		}
	})
}

// T08: an answer that fits only without the options is cut, and the OPT record with its options is there all the same.
// T03: so at every size of the answer, with TC exactly when something was left out. T01: without EDNS, 512 octets and no OPT.
func TestTruncationKeepsOPT(t *testing.T) {
	queries := map[string]string{
		"no EDNS": plain,
		"OPT":     withOPT + " o:",
		"options": withOPT + " o:000300000008001400028000" + "20010db8000000000000000000000001" + "000a00080102030405060708",
	}
	for what, text := range queries {
		for _, limit := range []int{512, 1232} {
			t.Run(fmt.Sprintf("%s %d", what, limit), func(t *testing.T) {
				opt := OPT{NSID: []byte("dns-a"), Cookie: []byte(strings.Repeat("c", 40)), HasEDE: true, EDEText: strings.Repeat("t", 100), Scope: 56}
				empty := len(respond(t, text, opt, MaxMessage, nil)) - 6 - 100 // the extended error may go
				if what != "options" {
					opt = OPT{}
					empty = len(respond(t, text, opt, MaxMessage, nil))
				}
				cut := 0
				for size := 1; size < 1300; size++ { // of one TXT record's data
					got := respond(t, text, opt, limit, func(b *Builder, q *Query) {
						if !b.Append(Answer, q.Name, TypeTXT, ClassIN, 60, make([]byte, size)) {
							b.Truncate()
						}
					})
					m := unpacked(t, got)
					fits := empty+12+size <= limit
					if len(got) > limit || m.Truncated == fits || len(m.Answer) != int(bit(fits)) {
						t.Fatalf("data of %d octets: response of %d, TC %v, %d answers", size, len(got), m.Truncated, len(m.Answer))
					}
					if m.Truncated {
						cut++
					}
					o := m.IsEdns0()
					if (o != nil) != (what != "no EDNS") {
						t.Fatalf("data of %d octets: OPT %v", size, o)
					}
					if what == "options" && len(o.Option) < 3 {
						t.Fatalf("data of %d octets: options %v", size, o)
					}
				}
				if cut == 0 {
					t.Error("nothing was cut")
				}
			})
		}
	}
}

// RFC 8914: an extended error is a supplement: it must not push out data, and its text goes first.
func TestEDEYields(t *testing.T) {
	text := strings.Repeat("t", 20)
	const base = 31 + 11 // header, question, OPT
	for room := range 40 {
		got := respond(t, withOPT+" o:", OPT{}, 512, func(b *Builder, q *Query) {
			if !b.Append(Answer, q.Name, TypeTXT, ClassIN, 60, make([]byte, 512-base-12-room)) {
				t.Fatalf("%d octets left: the record did not fit", room)
			}
			b.OPT.HasEDE, b.OPT.EDE, b.OPT.EDEText = true, EDEOther, text // known late
		})
		want := 0
		switch {
		case room >= 6+len(text):
			want = 6 + len(text)
		case room >= 6:
			want = 6
		}
		unpacked(t, got)
		if n := len(got) - (512 - room); n != want {
			t.Errorf("%d octets left: extended error of %d, want %d", room, n, want)
		}
	}
}

// RFC 8467 section 4.1: responses are multiples of the block, but never over the limit.
func TestPadding(t *testing.T) {
	const block = 468
	for size := range 1200 {
		for _, limit := range []int{1232, MaxMessage} {
			got := respond(t, withOPT+" o:000c0000", OPT{Pad: block}, limit, func(b *Builder, q *Query) {
				if !b.Append(Answer, q.Name, TypeTXT, ClassIN, 60, make([]byte, size)) {
					b.Truncate()
				}
			})
			m := unpacked(t, got)
			unpadded := 31 + 11
			if len(m.Answer) > 0 {
				unpadded += 12 + size
			}
			want := min((unpadded+4+block-1)/block*block, limit)
			if unpadded+4 > limit {
				want = unpadded
			}
			if len(got) != want {
				t.Fatalf("data of %d octets, limit %d: %d octets, want %d", size, limit, len(got), want)
			}
		}
	}
}

// The longest question with every option that we must send fits into 512 octets; of a long NSID none is sent then.
func TestLongestQuestion(t *testing.T) {
	text := "1234 0000 0001 0000 0000 0001 3f x:61*63 3f x:62*63 3f x:63*63 3d x:64*61 00 0001 0001 " +
		"o:000300000008001400028000" + "20010db8000000000000000000000001" + "000a00080102030405060708"
	for _, nsid := range []int{10, 400} {
		got := respond(t, text, OPT{NSID: make([]byte, nsid), Cookie: make([]byte, 40)}, 512, nil)
		m := unpacked(t, got)
		want := 2 + int(bit(nsid == 10))
		if len(got) > 512 || len(m.IsEdns0().Option) != want {
			t.Errorf("NSID of %d octets: response of %d, options %v", nsid, len(got), m.IsEdns0())
		}
	}
}

func TestAppendPacked(t *testing.T) {
	rrs := raw(t, "c00c 0001 0001 0000003c 0004 c0000201 c00c 0001 0001 0000003c 0004 c0000202")
	q := parsed(t, plain)
	var b Builder
	b.Begin(q, newBuffer(), 512)
	n := 0
	for b.AppendPacked(Answer, 2, rrs) {
		n += 2
	}
	got := b.Finish()
	if m := unpacked(t, got); len(m.Answer) != n || n != (512-31)/32*2 || len(got) != 31+n*16 {
		t.Errorf("%d records for %d in %d octets", len(m.Answer), n, len(got))
	}
}
