package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// unpacked reads a response with the library.
func unpacked(tb testing.TB, msg []byte) *dns.Msg {
	tb.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(msg); err != nil {
		tb.Fatalf("%v: %x", err, msg)
	}
	return m
}

// rr is a record of a master file in the form that Append takes.
type rr struct {
	owner      []byte
	typ, class uint16
	ttl        uint32
	rdata      []byte
}

func record(tb testing.TB, text string) rr {
	tb.Helper()
	x, err := dns.NewRR(text)
	if err != nil {
		tb.Fatal(err)
	}
	return packed(tb, x)
}

func packed(tb testing.TB, x dns.RR) rr {
	tb.Helper()
	b := make([]byte, dns.Len(x)+300)
	end, err := dns.PackRR(x, b, 0, nil, false)
	if err != nil {
		tb.Fatalf("%v: %v", x, err)
	}
	h := x.Header()
	n := nameLen(b)
	return rr{b[:n], h.Rrtype, h.Class, h.Ttl, b[n+10 : end]}
}

func (r rr) appendTo(b *Builder, sec Section) bool {
	return b.Append(sec, r.owner, r.typ, r.class, r.ttl, r.rdata)
}

func (r rr) size() int { return len(r.owner) + 10 + len(r.rdata) }

func newBuffer() []byte { return make([]byte, MaxMessage) }

// Flags, codes and counts of the header, RFC 1035 section 4.1.1 and RFC 8906 section 8.1: ID, opcode, RD and CD are
// copied; RA, Z and AD are off.
func TestHeader(t *testing.T) {
	a := record(t, "www.conf.test. 60 A 192.0.2.1")
	question := "n:www.conf.test 0001 0001"
	tests := []struct {
		name  string
		query string
		build func(*Builder)
		want  string // the response up to the records
	}{
		{"nothing", plain, func(*Builder) {}, "1234 8000 0001 0000 0000 0000 " + question},
		{"every bit in the query", "1234 07ff 0001 0000 0000 0000 " + question, func(*Builder) {}, "1234 8110 0001 0000 0000 0000 " + question},
		{"AA", plain, func(b *Builder) { b.SetAA(true) }, "1234 8400 0001 0000 0000 0000 " + question},
		{"AA taken back", plain, func(b *Builder) { b.SetAA(true); b.SetAA(false) }, "1234 8000 0001 0000 0000 0000 " + question},
		{"TC", plain, func(b *Builder) { b.Truncate() }, "1234 8200 0001 0000 0000 0000 " + question},
		{"NXDOMAIN", plain, func(b *Builder) { b.SetRCode(RCodeNXDomain) }, "1234 8003 0001 0000 0000 0000 " + question},
		{"an extended code without EDNS", plain, func(b *Builder) { b.SetRCode(RCodeBadCookie) }, "1234 8002 0001 0000 0000 0000 " + question},
		{"counts", plain, func(b *Builder) {
			for sec, n := range []int{3, 2, 1} {
				for range n {
					a.appendTo(b, Section(sec))
				}
			}
		}, "1234 8000 0001 0003 0002 0001 " + question},
		{"NOTIFY", "1234 2400 0001 0000 0000 0000 " + question, func(b *Builder) { b.SetAA(true) }, "1234 a400 0001 0000 0000 0000 " + question},
		{"unknown opcode without question", "1234 7800 0000 0000 0000 0000", func(b *Builder) { b.SetRCode(RCodeNotImp) }, "1234 f804 0000 0000 0000 0000"},
		{"damaged question", "1234 0100 0001 0000 0000 0000 c00c", func(b *Builder) { b.SetRCode(RCodeFormErr) }, "1234 8101 0000 0000 0000 0000"},
		{"case is kept", "1234 0000 0001 0000 0000 0000 n:wWw.ConF.tesT 0001 0001", func(*Builder) {}, "1234 8000 0001 0000 0000 0000 n:wWw.ConF.tesT 0001 0001"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var q Query
			q.Parse(raw(t, tt.query))
			var b Builder
			b.Begin(&q, newBuffer(), MaxMessage)
			tt.build(&b)
			got := b.Finish()
			if want := raw(t, tt.want); !bytes.HasPrefix(got, want) {
				t.Errorf("got %x\nwant %x", got[:min(len(got), len(want))], want)
			}
		})
	}
}

// Compression, octet for octet. RFC 1035 section 4.1.4, RFC 3597 section 4.
func TestCompression(t *testing.T) {
	tests := []struct {
		name    string
		records []string // all in the answer section; the question is www.conf.test
		want    string   // what follows the question, without class and TTL (0001 0000003c)
	}{
		{"the question's name", []string{"www.conf.test. A 192.0.2.1"}, "c00c 0001 0004 c0000201"},
		{"the same in other letters", []string{"WWW.conf.Test. A 192.0.2.1"}, "c00c 0001 0004 c0000201"},
		{"the end of the question's name", []string{"conf.test. A 192.0.2.1", "test. A 192.0.2.1"}, "c010 0001 0004 c0000201 c015 0001 0004 c0000201"},
		{"below the question's name", []string{"a.www.conf.test. A 192.0.2.1"}, "l:a c00c 0001 0004 c0000201"},
		{"beside it, twice", []string{"ns.conf.test. A 192.0.2.1", "ns.conf.test. A 192.0.2.2"}, "l:ns c010 0001 0004 c0000201 c01f 0001 0004 c0000202"},
		{"the root", []string{". NS .", "net. NS ."}, "00 0002 0001 00 n:net 0002 0001 00"},
		{"nothing in common", []string{"net. NS a.net."}, "n:net 0002 0004 l:a c01f"},
		{"a name keeps its letters", []string{"www.conf.test. NS Ns.CONF.test.", "www.conf.test. NS x.nS.conf.test."}, "c00c 0002 0005 l:Ns c010 c00c 0002 0004 l:x c02b"},
		{"labels compare whole", []string{"wwwx.conf.test. A 192.0.2.1", "ww.conf.test. A 192.0.2.1"}, "l:wwwx c010 0001 0004 c0000201 l:ww c010 0001 0004 c0000201"},
		{"a dot in a label", []string{`www\.conf.test. A 192.0.2.1`}, "08 7777772e636f6e66 c015 0001 0004 c0000201"},
		{"only letters of ASCII fold", []string{`\193. A 192.0.2.1`, `\225. A 192.0.2.1`, `[. A 192.0.2.1`, `{. A 192.0.2.1`},
			"01c100 0001 0004 c0000201 01e100 0001 0004 c0000201 015b00 0001 0004 c0000201 017b00 0001 0004 c0000201"},

		{"CNAME", []string{"www.conf.test. CNAME a.conf.test."}, "c00c 0005 0004 l:a c010"},
		{"PTR", []string{"www.conf.test. PTR www.conf.test."}, "c00c 000c 0002 c00c"},
		{"MX", []string{"www.conf.test. MX 10 mx.conf.test."}, "c00c 000f 0007 000a l:mx c010"},
		{"SOA", []string{"conf.test. SOA ns.conf.test. host.ns.conf.test. 1 2 3 4 5"}, "c010 0006 0020 l:ns c010 l:host c02b 00000001 00000002 00000003 00000004 00000005"},
		{"MINFO", []string{"www.conf.test. MINFO a.conf.test. b.conf.test."}, "c00c 000e 0008 l:a c010 l:b c010"},
		{"MB, MG, MR, MD, MF", []string{"www.conf.test. MB test.", "www.conf.test. MG test.", "www.conf.test. MR test.", "www.conf.test. MD test.", "www.conf.test. MF test."},
			"c00c 0007 0002 c015 c00c 0008 0002 c015 c00c 0009 0002 c015 c00c 0003 0002 c015 c00c 0004 0002 c015"},

		{"SRV: not compressed, and no target of a pointer", []string{"www.conf.test. SRV 1 2 3 a.net.", "www.conf.test. NS a.net."},
			"c00c 0021 000d 0001 0002 0003 n:a.net c00c 0002 0007 n:a.net"},
		{"DNAME", []string{"www.conf.test. DNAME conf.test."}, "c00c 0027 000b n:conf.test"},
		{"RP", []string{"www.conf.test. RP a.test. test."}, "c00c 0011 000e n:a.test n:test"},
		{"AFSDB", []string{"www.conf.test. AFSDB 1 conf.test."}, "c00c 0012 000d 0001 n:conf.test"},
		{"KX", []string{"www.conf.test. KX 1 conf.test."}, "c00c 0024 000d 0001 n:conf.test"},
		{"NAPTR", []string{`www.conf.test. NAPTR 1 2 "" "" "" conf.test.`}, "c00c 0023 0012 0001 0002 00 00 00 n:conf.test"},
		{"SVCB", []string{"www.conf.test. SVCB 0 conf.test."}, "c00c 0040 000d 0000 n:conf.test"},
		{"HTTPS", []string{"www.conf.test. HTTPS 0 conf.test."}, "c00c 0041 000d 0000 n:conf.test"},
		{"NSEC", []string{"www.conf.test. NSEC conf.test. A"}, "c00c 002f 000e n:conf.test 000140"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := parsed(t, plain)
			var b Builder
			b.Begin(q, newBuffer(), MaxMessage)
			var want []byte
			for _, text := range tt.records {
				owner, rest, _ := strings.Cut(text, " ")
				if !record(t, owner+" 60 "+rest).appendTo(&b, Answer) {
					t.Fatal("no room")
				}
			}
			got := b.Finish()
			unpacked(t, got)
			want = raw(t, tt.want)
			if got := withoutClassTTL(t, got[q.QEnd:]); !bytes.Equal(got, want) {
				t.Errorf("got  %x\nwant %x", got, want)
			}
		})
	}
}

// withoutClassTTL leaves class and TTL out of records, so that a test's expectation can be read.
func withoutClassTTL(t *testing.T, rrs []byte) []byte {
	t.Helper()
	return bytes.ReplaceAll(rrs, raw(t, "0001 0000003c"), nil)
}

// Pointers reach 0x3fff; a name that comes later is written out, but can still point to earlier ones.
func TestPointerReach(t *testing.T) {
	const reach = 0x3fff
	q := parsed(t, plain)
	var b Builder
	b.Begin(q, newBuffer(), MaxMessage)
	txt := rr{q.Name, TypeTXT, ClassIN, 60, make([]byte, 255)}
	for b.Len() < reach-2*txt.size() {
		txt.appendTo(&b, Answer)
	}
	b.Append(Answer, q.Name, TypeTXT, ClassIN, 60, make([]byte, reach-b.Len()-12))
	if b.Len() != reach {
		t.Fatalf("the next record begins at %#x", b.Len())
	}
	ns := record(t, "aa.bb.conf.test. 60 A 192.0.2.1") // aa at 0x3fff, bb past the reach
	var sizes []int
	for range 3 {
		before := b.Len()
		ns.appendTo(&b, Answer)
		sizes = append(sizes, b.Len()-before)
	}
	// aa.bb + pointer to conf.test each time
	if diff := cmp.Diff([]int{6 + 2 + 14, 6 + 2 + 14, 6 + 2 + 14}, sizes); diff != "" {
		t.Error(diff)
	}
	m := unpacked(t, b.Finish())
	for _, x := range m.Answer[len(m.Answer)-3:] {
		if x.Header().Name != "aa.bb.conf.test." {
			t.Error(x)
		}
	}
}

// A 0x20 question comes back letter for letter, and so do the owners that are its name or end like it
// (draft-vixie-dnsext-dns0x20).
func TestMixedCase(t *testing.T) {
	q := parsed(t, "1234 0000 0001 0000 0000 0000 n:wWw.ConF.tesT 0001 0001")
	var b Builder
	for _, owner := range [][]byte{q.Name, q.RawName, name(t, "WWW.CONF.TEST")} {
		b.Begin(q, newBuffer(), MaxMessage)
		b.Append(Answer, owner, TypeA, ClassIN, 60, []byte{192, 0, 2, 1})
		b.AppendPacked(Answer, 1, raw(t, "c00c 0001 0001 0000003c 0004 c0000202"))
		record(t, "conf.test. 60 NS www.conf.test.").appendTo(&b, Authority)
		m := unpacked(t, b.Finish())
		got := []string{m.Question[0].Name, m.Answer[0].Header().Name, m.Answer[1].Header().Name, m.Ns[0].Header().Name, m.Ns[0].(*dns.NS).Ns}
		want := []string{"wWw.ConF.tesT.", "wWw.ConF.tesT.", "wWw.ConF.tesT.", "ConF.tesT.", "wWw.ConF.tesT."}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// A record goes in whole or not at all, at every size of the room: nothing past the limit is touched, and what could not
// be written leaves no trace, also not in the names to point to.
func TestAppendFits(t *testing.T) {
	long := strings.Repeat("x", 60)
	records := []rr{
		record(t, "www.conf.test. 60 TXT "+strings.Repeat("y", 200)),
		record(t, "www.conf.test. 60 TXT "+strings.Repeat("z", 150)),
		record(t, "a."+long+".conf.test. 60 MX 10 b."+long+"."+long+".test."),
		record(t, "conf.test. 60 SOA ns.conf.test. host."+long+".conf.test. 1 2 3 4 5"),
		record(t, "b."+long+"."+long+".test. 60 NS c."+long+".test."),
	}
	var whole Builder
	whole.Begin(parsed(t, plain), newBuffer(), MaxMessage)
	for _, r := range records {
		r.appendTo(&whole, Answer)
	}
	size := len(whole.Finish())
	if size < 600 {
		t.Fatalf("%d octets: too few for this test", size)
	}
	q := parsed(t, plain)
	var b Builder
	for limit := MinLimit; limit <= size; limit++ {
		buf := bytes.Repeat([]byte{0xee}, size+100)
		b.Begin(q, buf, limit)
		for _, r := range records {
			before := slices.Clone(buf[:b.Len()])
			mark := b.Mark()
			if !r.appendTo(&b, Answer) {
				if b.Mark() != mark || !bytes.Equal(before, buf[:b.Len()]) {
					t.Fatalf("limit %d: traces of a record that did not fit", limit)
				}
			}
		}
		got := b.Finish()
		if len(got) > limit {
			t.Fatalf("limit %d: %d octets", limit, len(got))
		}
		if limit == size && len(got) != size {
			t.Errorf("a response of exactly the limit, %d, was cut to %d", limit, len(got))
		}
		if bytes.Count(buf[limit:], []byte{0xee}) != len(buf)-limit {
			t.Fatalf("limit %d: octets past it were written", limit)
		}
		for _, x := range unpacked(t, got).Answer {
			have := packed(t, x)
			if !slices.ContainsFunc(records, func(r rr) bool {
				return r.typ == have.typ && bytes.Equal(r.owner, have.owner) && bytes.Equal(r.rdata, have.rdata)
			}) {
				t.Fatalf("limit %d: %v", limit, x)
			}
		}
	}
}

// T04: a response of exactly 512 or 1232 octets goes out whole; one octet more does not fit.
func TestExactSize(t *testing.T) {
	for _, limit := range []int{512, 1232, 4096, MaxMessage} {
		for _, opt := range []string{"", "o:", "o:0008000700011800c00002"} {
			for _, extra := range []int{0, 1} {
				t.Run(fmt.Sprintf("%d %q +%d", limit, opt, extra), func(t *testing.T) {
					q := parsed(t, plain)
					optLen := 0
					if opt != "" {
						q = parsed(t, withOPT+" "+opt)
						optLen = len(raw(t, opt))
					}
					var b Builder
					b.Begin(q, newBuffer(), limit)
					fits := b.Append(Answer, q.Name, TypeTXT, ClassIN, 60, make([]byte, limit-q.QEnd-optLen-12+extra))
					if fits != (extra == 0) {
						t.Fatalf("fits: %v", fits)
					}
					if got := len(b.Finish()); fits && got != limit {
						t.Errorf("%d octets", got)
					}
				})
			}
		}
	}
}

func TestRollback(t *testing.T) {
	a, b2 := record(t, "a.conf.test. 60 NS b.net."), record(t, "b.net. 60 NS a.conf.test.")
	q := parsed(t, plain)
	var b Builder

	b.Begin(q, newBuffer(), MaxMessage)
	a.appendTo(&b, Answer)
	b2.appendTo(&b, Authority)
	want := hex.EncodeToString(b.Finish())

	b.Begin(q, newBuffer(), MaxMessage)
	empty := b.Mark()
	b2.appendTo(&b, Answer)
	b.Rollback(empty) // the question's names went in with the first record: they must come back
	a.appendTo(&b, Answer)
	m := b.Mark()
	record(t, "c.net. 60 MX 1 d.c.net.").appendTo(&b, Answer)
	b.AppendPacked(Additional, 2, raw(t, "c00c 0001 0001 0000003c 0004 c0000202 c00c 0001 0001 0000003c 0004 c0000202"))
	b.Rollback(m)
	b2.appendTo(&b, Authority)
	if got := hex.EncodeToString(b.Finish()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Mistakes of the caller are refused, not written.
func TestAppendRefuses(t *testing.T) {
	q := parsed(t, plain)
	var b Builder
	b.Begin(q, newBuffer(), MaxMessage)
	a := record(t, "www.conf.test. 60 A 192.0.2.1")
	a.appendTo(&b, Authority)
	before := b.Mark()
	for what, ok := range map[string]bool{
		"a section that is past":          a.appendTo(&b, Answer),
		"packed, a section that is past":  b.AppendPacked(Answer, 1, raw(t, "c00c 0001 0001 0000003c 0004 c0000202")),
		"an empty owner":                  b.Append(Additional, nil, TypeA, ClassIN, 0, a.rdata),
		"an owner without root":           b.Append(Additional, []byte("\x01a"), TypeA, ClassIN, 0, a.rdata),
		"an owner with octets after it":   b.Append(Additional, []byte("\x01a\x00\x00"), TypeA, ClassIN, 0, a.rdata),
		"an owner with a label of 64":     b.Append(Additional, append(append([]byte{64}, make([]byte, 64)...), 0), TypeA, ClassIN, 0, a.rdata),
		"an owner of 256 octets":          b.Append(Additional, raw(t, "3f x:61*63 3f x:62*63 3f x:63*63 3e x:64*62 00"), TypeA, ClassIN, 0, a.rdata),
		"an owner of 128 labels":          b.Append(Additional, raw(t, "x:0161*128 00"), TypeA, ClassIN, 0, a.rdata),
		"rdata of more than 65535 octets": b.Append(Additional, q.Name, TypeTXT, ClassIN, 0, make([]byte, 65536)),
	} {
		if ok {
			t.Errorf("%s was accepted", what)
		}
	}
	if b.Mark() != before {
		t.Error("something was written")
	}
}

// Rdata that does not hold the name its type wants goes out as it came.
func TestRDataWithoutName(t *testing.T) {
	for _, rdata := range []string{"", "00", "40", "0161", "000a", "000a 05", "c00c", "01610001620000000001", "x:0161*128 00"} {
		for _, typ := range []uint16{TypeNS, TypeMX, TypeSOA, TypeMINFO} {
			q := parsed(t, plain)
			var b Builder
			b.Begin(q, newBuffer(), MaxMessage)
			d := raw(t, rdata)
			if !b.Append(Answer, q.Name, typ, ClassIN, 0, d) {
				t.Fatal("no room")
			}
			got := b.Finish()[q.QEnd:]
			if n := int(binary.BigEndian.Uint16(got[10:])); n != len(d) || !bytes.Equal(got[12:], d) {
				t.Errorf("type %d: %x for %x", typ, got[10:], d)
			}
		}
	}
}

// More names than the table holds: compression gets worse, the response stays right.
func TestManyNames(t *testing.T) {
	for what, host := range map[string]string{
		"hosts":  "h%d-%d.conf.test.",
		"labels": "h%d.a%d." + strings.Repeat("b.", 100),
	} {
		t.Run(what, func(t *testing.T) {
			q := parsed(t, plain)
			var b Builder
			for round := range 3 { // names of one response must not stay for the next
				b.Begin(q, newBuffer(), MaxMessage)
				n := 0
				// the last letter differs: every name brings all its labels
				for b.Append(Answer, q.Name, TypeNS, ClassIN, 60, name(t, fmt.Sprintf(host+"x%d.", n, round, n))) {
					n++
				}
				m := unpacked(t, b.Finish())
				if len(m.Answer) != n || n < 200 {
					t.Fatalf("%d records for %d", len(m.Answer), n)
				}
				for i, x := range m.Answer {
					if want := fmt.Sprintf(host+"x%d.", i, round, i); x.(*dns.NS).Ns != want {
						t.Fatalf("%s for %s", x.(*dns.NS).Ns, want)
					}
				}
			}
		})
	}
}

// After 65535 responses the generation number of the names comes round; what it meant then must be forgotten, even where
// the octets of the old name stand at the old place again, as data.
func TestNamesGeneration(t *testing.T) {
	q := parsed(t, plain)
	buf := newBuffer()
	old := record(t, "old.net. 60 A 192.0.2.1")
	data := append(make([]byte, 8), old.owner...)
	write := func(b *Builder) string {
		b.Begin(q, buf, MaxMessage)
		b.Append(Answer, q.Name, TypeTXT, ClassIN, 60, data)
		old.appendTo(b, Answer)
		return hex.EncodeToString(b.Finish())
	}
	want := write(new(Builder))
	b := new(Builder)
	b.Begin(q, buf, MaxMessage)
	b.Append(Answer, q.Name, TypeTXT, ClassIN, 60, data[:8])
	old.appendTo(b, Answer)
	for range 1<<16 - 2 {
		b.Begin(q, buf, MaxMessage)
	}
	if got := write(b); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The response may be written over the query.
func TestInPlace(t *testing.T) {
	text := "1234 0100 0001 0000 0000 0001 n:wWw.conf.test 0001 0001 o:000300000008000700011800c00002000a00080102030405060708"
	build := func(b *Builder, q *Query, buf []byte) string {
		b.OPT = OPT{NSID: []byte("dns-a"), Scope: 20, Cookie: append(slices.Clone(q.Cookie), client8...)}
		b.Begin(q, buf, 1232)
		b.Append(Answer, q.RawName, TypeCNAME, ClassIN, 60, name(t, "a.conf.test"))
		record(t, "a.conf.test. 60 A 192.0.2.1").appendTo(b, Answer)
		record(t, "conf.test. 60 NS ns.conf.test.").appendTo(b, Authority)
		return hex.EncodeToString(b.Finish())
	}
	var b Builder
	want := build(&b, parsed(t, text), newBuffer())

	slab := newBuffer()
	msg := slab[:copy(slab, raw(t, text))]
	var q Query
	q.Parse(msg)
	if got := build(&b, &q, msg[:0]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := build(&b, &q, msg[:0]); got != want { // and started over
		t.Errorf("again: got  %s\nwant %s", got, want)
	}
}

// No response is longer than its length field over TCP can say.
func TestMaxMessage(t *testing.T) {
	q := parsed(t, plain)
	var b Builder
	b.Begin(q, make([]byte, 1<<17), 1<<17)
	for b.Append(Answer, q.Name, TypeTXT, ClassIN, 60, make([]byte, 1000)) {
	}
	for b.Append(Answer, q.Name, TypeA, ClassIN, 60, make([]byte, 4)) {
	}
	if n := len(b.Finish()); n > 65535 || n < 65535-16 {
		t.Errorf("%d octets", n)
	}
}

func TestBeginTooSmall(t *testing.T) {
	for _, tt := range []struct{ size, limit int }{{511, 1232}, {1232, 511}, {0, 0}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d octets, limit %d: no panic", tt.size, tt.limit)
				}
			}()
			new(Builder).Begin(parsed(t, plain), make([]byte, tt.size), tt.limit)
		}()
	}
}
