package zones_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// reply is a response under construction.
type reply struct {
	q wire.Query
	b wire.Builder
}

// begin starts the response to a question of a limit of octets; the query has no EDNS.
func begin(t testing.TB, owner string, typ uint16, limit int) *reply {
	t.Helper()
	m := new(dns.Msg)
	m.SetQuestion(owner, typ)
	msg, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	r := &reply{}
	if status := r.q.Parse(msg); status != wire.OK {
		t.Fatal(status)
	}
	r.b.Begin(&r.q, make([]byte, 0, wire.MaxMessage), limit)
	return r
}

// records are the records of the finished response, section by section.
func (r *reply) records(t testing.TB) string {
	t.Helper()
	var m dns.Msg
	if err := m.Unpack(r.b.Finish()); err != nil {
		t.Fatal(err)
	}
	var s []string
	for i, section := range [...][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			f := strings.SplitN(rr.String(), "\t", 5)
			s = append(s, fmt.Sprintf("%d %s %s %s %s", i, f[0], f[1], f[3], f[4]))
		}
	}
	return strings.Join(s, "\n")
}

func want(t testing.TB, got string, lines ...string) {
	t.Helper()
	if diff := cmp.Diff(strings.Join(lines, "\n"), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAppendNegative(t *testing.T) {
	for _, tt := range []struct {
		ttl, minimum, limit, want uint32
	}{
		{3600, 300, 1 << 31, 300},
		{60, 300, 1 << 31, 60},
		{3600, 300, 30, 30},
		{0, 300, 1 << 31, 0},
	} {
		z := build(t, "edge.example.", fmt.Sprintf("@ %d SOA ns h 7 7200 900 1209600 %d\n@ NS ns.elsewhere.\n", tt.ttl, tt.minimum))
		r := begin(t, "nosuch.edge.example.", dns.TypeA, 512)
		if !z.AppendNegative(&r.b, tt.limit) {
			t.Fatal("it did not fit")
		}
		want(t, r.records(t), fmt.Sprintf("1 edge.example. %d SOA ns.edge.example. h.edge.example. 7 7200 900 1209600 %d", tt.want, tt.minimum))
	}
}

const cuts = head + `
ns1       A    192.0.2.53
del       NS   ns1.del
del       NS   ns2.del
del       NS   ns1
del       NS   ns.sib
del       NS   ns.elsewhere.
del       NS   none.del
ns1.del   A    192.0.2.120
ns1.del   AAAA 2001:db8::120
ns2.del   A    192.0.2.121
sib       NS   ns.sib
ns.sib    A    192.0.2.130
`

// RFC 9471: addresses of servers below the cut must be there, those of others as far as there is room, and none of other zones.
func TestAppendReferral(t *testing.T) {
	s := set(t, "edge.example.", cuts)
	r := begin(t, "x.del.edge.example.", dns.TypeA, 512)
	res := s.Lookup(&r.q)
	if !res.AppendReferral(&r.b) {
		t.Error("it did not fit")
	}
	want(t, r.records(t),
		"1 del.edge.example. 3600 NS ns1.del.edge.example.",
		"1 del.edge.example. 3600 NS ns2.del.edge.example.",
		"1 del.edge.example. 3600 NS ns1.edge.example.",
		"1 del.edge.example. 3600 NS ns.sib.edge.example.",
		"1 del.edge.example. 3600 NS ns.elsewhere.",
		"1 del.edge.example. 3600 NS none.del.edge.example.",
		"2 ns1.del.edge.example. 3600 A 192.0.2.120",
		"2 ns1.del.edge.example. 3600 AAAA 2001:db8::120",
		"2 ns2.del.edge.example. 3600 A 192.0.2.121",
		"2 ns1.edge.example. 3600 A 192.0.2.53",
		"2 ns.sib.edge.example. 3600 A 192.0.2.130",
	)
}

// At every limit: all glue of the cut or false, other addresses as far as they fit, whole rrsets.
func TestAppendReferralLimits(t *testing.T) {
	var text strings.Builder
	text.WriteString(head)
	for i := range 13 {
		fmt.Fprintf(&text, "del NS ns%02d.del\nns%02d.del A 192.0.2.%d\nns%02d.del A 198.51.100.%d\n", i, i, i, i, i)
	}
	text.WriteString("del NS ns.sib\nsib NS ns.sib\nns.sib A 192.0.2.99\n")
	s := set(t, "edge.example.", text.String())
	whole := 0
	for limit := 512; limit < 900; limit++ {
		r := begin(t, "x.del.edge.example.", dns.TypeA, limit)
		res := s.Lookup(&r.q)
		ok := res.AppendReferral(&r.b)
		got := r.records(t)
		glue, sibling := strings.Count(got, "2 ns"), strings.Count(got, "192.0.2.99")
		if ns := strings.Count(got, "1 del"); ns != 14 || ok != (glue-sibling == 26) || !ok && sibling > 0 && glue == 27 {
			t.Fatalf("limit %d: %v with %d NS, %d addresses, %d of a sibling", limit, ok, ns, glue, sibling)
		}
		for i := range 13 {
			if n := strings.Count(got, fmt.Sprintf("2 ns%02d", i)); n == 1 {
				t.Fatalf("limit %d: half an rrset", limit)
			}
		}
		if ok && sibling == 1 {
			whole++
		}
	}
	if whole == 0 {
		t.Error("never whole")
	}
}

const hosts = head + `
@     NS    ns1
ns1   A     192.0.2.53
www   A     192.0.2.80
www   AAAA  2001:db8::80
alias CNAME www
*.w   A     192.0.2.9
mx    MX    10 www
mx    MX    20 ns1
mx    MX    30 www
mx    MX    40 alias
mx    MX    50 nosuch
mx    MX    60 x.w
mx    MX    70 a.del
mx    MX    80 mail.elsewhere.
null  MX    0 .
_srv  SRV   1 2 80 www
_srv  SRV   1 2 81 www
https HTTPS 1 . alpn=h2
https A     192.0.2.81
gone  HTTPS 0 .
gone  A     192.0.2.82
svcb  SVCB  0 www
del   NS    a.del
a.del A     192.0.2.120
c2    CNAME c3
`

func TestAppendAdditional(t *testing.T) {
	z := build(t, "edge.example.", hosts)
	www := []string{"2 www.edge.example. 3600 A 192.0.2.80", "2 www.edge.example. 3600 AAAA 2001:db8::80"}
	for owner, lines := range map[string][]string{
		"mx MX":       slices.Concat(www, []string{"2 ns1.edge.example. 3600 A 192.0.2.53"}),
		"null MX":     nil,
		"_srv SRV":    www,
		"https HTTPS": {"2 https.edge.example. 3600 A 192.0.2.81"},
		"gone HTTPS":  nil,
		"svcb SVCB":   www,
		"www A":       nil,
		"c2 CNAME":    nil,
	} {
		owner, typ, _ := strings.Cut(owner, " ")
		res := z.Find(name(t, owner+".edge.example."), dns.StringToType[typ])
		r := begin(t, owner+".edge.example.", dns.StringToType[typ], 1232)
		z.AppendAdditional(&r.b, res.RRset, res.Owner())
		want(t, r.records(t), lines...)
	}
	r := begin(t, "edge.example.", dns.TypeNS, 1232)
	res := z.Find(z.Apex(), dns.TypeNS)
	z.AppendAdditional(&r.b, res.RRset, z.Apex())
	want(t, r.records(t), "2 ns1.edge.example. 3600 A 192.0.2.53")
}

func TestAppendRRset(t *testing.T) {
	z := build(t, "edge.example.", head+"m MX 10 A\nm MX 20 b\na A 192.0.2.1\na 60 A 192.0.2.2\na A 192.0.2.1\n")
	for _, tt := range []struct {
		name, typ string
		own       bool
		lines     []string
	}{
		{"a", "A", true, []string{"0 %s 60 A 192.0.2.1", "0 %s 60 A 192.0.2.2"}},
		{"a", "A", false, []string{"0 %s 60 A 192.0.2.1", "0 %s 60 A 192.0.2.2"}},
		{"m", "MX", true, []string{"0 %s 3600 MX 10 a.edge.example.", "0 %s 3600 MX 20 b.edge.example."}},
		{"m", "MX", false, []string{"0 %s 3600 MX 10 a.edge.example.", "0 %s 3600 MX 20 b.edge.example."}},
	} {
		asked, owner := "X.eDgE.eXaMpLe.", "target.edge.example."
		r := begin(t, asked, dns.StringToType[tt.typ], 512)
		on := name(t, owner)
		if tt.own {
			on, owner = r.q.Name, asked
		}
		s := z.Find(name(t, tt.name+".edge.example."), dns.StringToType[tt.typ]).RRset
		if !s.Append(&r.b, wire.Answer, on, tt.own) {
			t.Fatal("it did not fit")
		}
		for i := range tt.lines {
			tt.lines[i] = strings.ReplaceAll(tt.lines[i], "%s", owner)
		}
		got := strings.ReplaceAll(r.records(t), "target.eDgE.eXaMpLe.", owner)
		got = strings.ReplaceAll(got, ".eDgE.eXaMpLe.", ".edge.example.")
		want(t, strings.ReplaceAll(got, "X.edge.example.", asked), tt.lines...)
	}
}

// What does not fit whole is not there at all.
func TestAppendWhole(t *testing.T) {
	var text strings.Builder
	text.WriteString(head)
	for i := range 100 {
		fmt.Fprintf(&text, "a A 192.0.2.%d\nm MX %d host%d\n", i, i, i)
	}
	z := build(t, "edge.example.", text.String())
	for _, tt := range []struct {
		name string
		typ  uint16
	}{{"a", dns.TypeA}, {"m", dns.TypeMX}} {
		for _, own := range []bool{true, false} {
			fits := 0
			for limit := 512; limit < 2600; limit += 3 {
				r := begin(t, tt.name+".edge.example.", tt.typ, limit)
				ok := z.Find(r.q.Name, tt.typ).RRset.Append(&r.b, wire.Answer, r.q.Name, own)
				if got := strings.Count(r.records(t), "\n"); ok && got != 99 || !ok && got != 0 {
					t.Fatalf("limit %d: %v with %d records", limit, ok, got+1)
				}
				if ok {
					fits++
				}
			}
			if fits == 0 {
				t.Error("never fits")
			}
		}
	}
}

func TestRename(t *testing.T) {
	long := strings.Repeat("c", 63) + "." + strings.Repeat("c", 63) + "." + strings.Repeat("c", 63)
	z := build(t, "edge.example.", head+"d 600 DNAME target\nl DNAME "+long+"\nroot DNAME .\n")
	r := begin(t, "a.b.d.edge.example.", dns.TypeA, 512)
	res := z.Find(r.q.Name, dns.TypeA)
	target, ok := res.Rename(nil, r.q.Name)
	if !ok || !res.AppendRename(&r.b, r.q.Name, target, false) {
		t.Fatal("no rename")
	}
	want(t, r.records(t), "0 d.edge.example. 600 DNAME target.edge.example.", "0 a.b.d.edge.example. 600 CNAME a.b.target.edge.example.")

	for owner, fits := range map[string]bool{
		strings.Repeat("e", 48) + ".l.edge.example.": true,
		strings.Repeat("e", 49) + ".l.edge.example.": false,
		strings.Repeat("e", 63) + ".l.edge.example.": false,
		"x.root.edge.example.":                       true,
	} {
		n := name(t, owner)
		res := z.Find(n, dns.TypeA)
		target, ok := res.Rename(nil, n)
		if ok != fits || ok && len(target) > wire.MaxName {
			t.Errorf("%s: %v, %d octets", owner, ok, len(target))
		}
	}
}

func TestRRsetsInOrder(t *testing.T) {
	// The order of RFC 4034 section 6.1.
	z := build(t, "example.", `example. SOA ns h 1 2 3 4 5
example. NS ns.elsewhere.
\200.z TXT "last"
*.z TXT "x"
z TXT "z"
zABC.a TXT "x"
Z.a TXT "x"
yljkjljk.a TXT "x"
a TXT "x"
a A 192.0.2.1
\001.z TXT "x"
`)
	var got []string
	for owner, s := range z.RRsets() {
		got = append(got, wire.NameString(owner)+" "+zones.TypeString(s.Type))
	}
	want(t, strings.Join(got, "\n"), "example. NS", "example. SOA", "a.example. A", "a.example. TXT", "yljkjljk.a.example. TXT", "z.a.example. TXT", "zabc.a.example. TXT",
		"z.example. TXT", `\001.z.example. TXT`, "*.z.example. TXT", `\200.z.example. TXT`)
}
