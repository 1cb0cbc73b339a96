package zones_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/zones"
)

func TestBuildFaults(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		refused    bool
		want       []string // row and message; rows count from 0
	}{
		{"sound", head + "www A 192.0.2.1\n", false, nil},
		{"empty", "", true, []string{"-1 zone edge.example. has no SOA record"}},
		{"no SOA", "@ NS ns1.elsewhere.\n", true, []string{"-1 zone edge.example. has no SOA record"}},
		{"no NS", "@ SOA ns h 1 2 3 4 5\n", true, []string{"-1 zone edge.example. has no NS record"}},
		{"two SOA", head + "@ SOA ns h 2 2 3 4 5\n", true, []string{"2 zone edge.example. has 2 SOA records"}},
		{"the same SOA twice", head + "@ SOA ns1 hostmaster 1 7200 900 1209600 300\n", false, []string{"2 duplicate record of edge.example. SOA"}},
		{"SOA below", head + "www SOA ns h 1 2 3 4 5\n", true, []string{"2 www.edge.example. has a SOA record"}},
		{"outside", head + "www.elsewhere. A 192.0.2.1\nxedge.example. A 192.0.2.1\nexample. A 192.0.2.1\n", true, []string{
			"2 www.elsewhere. lies outside of zone edge.example.", "3 xedge.example. lies outside of zone edge.example.", "4 example. lies outside of zone edge.example.",
		}},
		{"CNAME and other data", head + "a A 192.0.2.1\na CNAME b\nb A 192.0.2.1\n", true, []string{"3 a.edge.example. has CNAME and other data (A)"}},
		{"other data and CNAME", head + "a CNAME b\na TXT x\nb A 192.0.2.1\n", true, []string{"3 a.edge.example. has CNAME and other data (TXT)"}},
		{"CNAME at the apex", head + "@ CNAME b\nb A 192.0.2.1\n", true, []string{"2 edge.example. has CNAME and other data (NS)"}},
		{"two CNAME", head + "a CNAME b.elsewhere.\na CNAME c.elsewhere.\n", true, []string{"2 a.edge.example. has 2 CNAME records"}},
		{"CNAME to nothing", head + "a CNAME nosuch\nb CNAME a\nc CNAME nosuch.elsewhere.\n", false, []string{"2 CNAME of a.edge.example. points to nosuch.edge.example., which does not exist"}},
		{"CNAME and what signs it", head + "a CNAME www\na NSEC b CNAME\nwww A 192.0.2.1\n", false, nil},
		{"two DNAME", head + "a DNAME b\na DNAME c\n", true, []string{"2 a.edge.example. has 2 DNAME records"}},
		{"DNAME to below itself", head + "a DNAME x.a\n", false, []string{"2 DNAME of a.edge.example. leads back to itself"}},
		{"DNAME to itself", head + "a DNAME a\n", false, []string{"2 DNAME of a.edge.example. leads back to itself"}},
		{"DNAMEs in a loop", head + "a DNAME b\nb DNAME c\nc DNAME y.a\nd DNAME a\n", false, []string{
			"2 DNAME of a.edge.example. leads back to itself", "3 DNAME of b.edge.example. leads back to itself", "4 DNAME of c.edge.example. leads back to itself"}},
		{"DNAMEs with an end", head + "a DNAME b\nb DNAME c\nc TXT x\nd DNAME elsewhere.\n", false, nil},
		{"duplicate", head + "a A 192.0.2.1\na A 192.0.2.1\n", false, []string{"3 duplicate record of a.edge.example. A"}},
		{"duplicate in other letters", head + "a NS B.elsewhere.\nA NS b.elsewhere.\n", false, []string{"3 duplicate record of a.edge.example. NS"}},
		{"TTL", head + "a 60 A 192.0.2.1\na 30 A 192.0.2.2\na 60 A 192.0.2.3\n", false, []string{
			"3 TTL 30 differs from that of other records of a.edge.example. A", "4 TTL 60 differs from that of other records of a.edge.example. A",
		}},
		{"MX to an alias", head + "@ MX 10 a\na CNAME www\nwww A 192.0.2.1\n", false, []string{"2 MX of edge.example. points to a.edge.example., an alias"}},
		{"MX to a name renamed", head + "@ MX 10 a.d\nd DNAME www\n", false, []string{"2 MX of edge.example. points to a.d.edge.example., an alias"}},
		{"MX to nothing", head + "@ MX 10 a\nx MX 0 .\ny MX 10 elsewhere.\n", false, []string{"2 MX of edge.example. points to a.edge.example., which does not exist"}},
		{"SRV to nothing", head + "_x._tcp SRV 1 2 3 a\n", false, []string{"2 SRV of _x._tcp.edge.example. points to a.edge.example., which does not exist"}},
		{"NS to an alias", head + "@ NS a\na CNAME www\nwww A 192.0.2.1\n", false, []string{"2 NS of edge.example. points to a.edge.example., an alias"}},
		{"NS without address", head + "@ NS ns1\n", false, []string{"2 name server ns1.edge.example. of edge.example. has no address here"}},
		{"NS with an address of a wildcard", head + "@ NS ns1.w\n*.w A 192.0.2.1\n", false, nil},
		{"glue missing", head + "del NS ns.del\n", false, []string{"2 name server ns.del.edge.example. of del.edge.example. has no address here"}},
		{"glue there", head + "del NS ns.del\nns.del A 192.0.2.1\n", false, nil},
		{"glue of a sibling", head + "del NS ns.sib\nsib NS ns.elsewhere.\n", false, nil},
		{"below a cut", head + "del NS ns.elsewhere.\nx.del A 192.0.2.1\nx.del TXT hidden\ndel TXT hidden\n", false, []string{
			"4 x.del.edge.example. TXT is never answered: it lies below the delegation of del.edge.example.", "5 del.edge.example. TXT is never answered: the name is delegated",
		}},
		{"below a DNAME", head + "d DNAME elsewhere.\nx.d A 192.0.2.1\n", false, []string{"3 x.d.edge.example. is never answered: it lies below the DNAME of d.edge.example."}},
		{"DNSKEY", head + "@ DNSKEY 257 3 13 AAAA\n", false, []string{"2 edge.example. has DNSKEY records"}},
		{"wildcard NS", head + "*.w NS ns.elsewhere.\n", false, []string{"2 NS at wildcard *.w.edge.example. has no agreed meaning"}},
		{"loop", head + "a CNAME b\nb CNAME c\nc CNAME a\nd CNAME a\n", false, []string{"4 CNAME of a.edge.example. is part of a loop"}},
		{"loop of one", head + "a CNAME a\n", false, []string{"2 CNAME of a.edge.example. is part of a loop"}},
		{"loop by wildcard", head + "*.w CNAME a.w\n", false, []string{"2 CNAME of *.w.edge.example. is part of a loop"}},
		{"loop by DNAME", head + "a CNAME a.d\nd DNAME @\n", false, []string{"2 CNAME of a.edge.example. is part of a loop"}},
		{"no loop", head + "a CNAME b\nc CNAME b\nb CNAME www\nwww A 192.0.2.1\nx CNAME y.del\ndel NS ns.elsewhere.\n", false, nil},
		{"meta type", head + "a ANY\n", true, []string{"2 type TYPE255 is no data of a zone"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			z, faults := collect(t, "edge.example.", parse(t, "edge.example.", tt.text)).Build()
			var got []string
			failed := false
			for _, f := range faults {
				got = append(got, fmt.Sprintf("%d %s", f.Row, f.Message))
				failed = failed || !f.Warning
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (z == nil) != tt.refused || failed != tt.refused {
				t.Errorf("refused is %v, want %v", z == nil, tt.refused)
			}
		})
	}
}

func TestAddBadData(t *testing.T) {
	b := collect(t, "edge.example.", parse(t, "edge.example.", head))
	a := name(t, "a.edge.example.")
	for _, bad := range []struct {
		typ   uint16
		ttl   uint32
		rdata string
	}{
		{dns.TypeA, 60, "123"},
		{dns.TypeAAAA, 60, "1234"},
		{dns.TypeNS, 60, ""},
		{dns.TypeNS, 60, "\x01a\x00x"},
		{dns.TypeCNAME, 60, "\x05a"},
		{dns.TypeDNAME, 60, "\xc0\x0c"},
		{dns.TypeMX, 60, "\x00"},
		{dns.TypeMX, 60, "\x00\x00"},
		{dns.TypeSRV, 60, "\x00\x00\x00\x00\x00\x00"},
		{dns.TypeSVCB, 60, "\x00\x00\x09a"},
		{dns.TypeSOA, 60, "\x00\x00"},
		{0, 60, ""},
		{dns.TypeTSIG, 60, ""},
		{dns.TypeA, 1 << 31, "1234"},
	} {
		b.Add(a, bad.typ, bad.ttl, []byte(bad.rdata))
	}
	b.Add(append([]byte(strings.Repeat("\x3f"+strings.Repeat("a", 63), 4)), name(t, "edge.example.")...), dns.TypeA, 60, []byte("1234"))
	z, faults := b.Build()
	if z != nil || len(faults) != 15 {
		t.Errorf("%d faults: %v", len(faults), faults)
	}
	for i, f := range faults {
		if f.Row != 2+i || f.Warning {
			t.Errorf("fault %d: %+v", i, f)
		}
	}
}

func TestBuildSteeredFaults(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		records    map[string][]string // owner and type: a CNAME's targets or addresses
		want       []string
	}{
		{"beside other types", "s TXT x\n", map[string][]string{"s A": {"192.0.2.1"}}, nil},
		{"beside static", "s A 192.0.2.9\n", map[string][]string{"s A": {"192.0.2.1"}}, []string{"3 s.edge.example. A is there twice"}},
		{"at a static alias", "s CNAME www.elsewhere.\n", map[string][]string{"s A": {"192.0.2.1"}}, []string{"3 s.edge.example. has CNAME and other data (A)"}},
		{"CNAME beside static", "s TXT x\n", map[string][]string{"s CNAME": {"www.elsewhere."}}, []string{"3 s.edge.example. has CNAME and other data (TXT)"}},
		{"at a cut", "s NS ns.elsewhere.\n", map[string][]string{"s A": {"192.0.2.1"}}, []string{"3 steered record s.edge.example. stands at a delegation"}},
		{"below a cut", "s NS ns.elsewhere.\n", map[string][]string{"x.s A": {"192.0.2.1"}}, []string{"3 steered record x.s.edge.example. lies below s.edge.example., which is delegated"}},
		{"below a DNAME", "s DNAME elsewhere.\n", map[string][]string{"x.s A": {"192.0.2.1"}}, []string{"3 steered record x.s.edge.example. lies below s.edge.example., which has a DNAME"}},
		{"loop by itself", "x TXT x\n", map[string][]string{"s CNAME": {"elsewhere.", "s.edge.example."}}, []string{"3 steered CNAME of s.edge.example. can lead back to itself"}},
		{"loop by a static alias", "x CNAME s\n", map[string][]string{"s CNAME": {"elsewhere.", "x.edge.example."}}, []string{"3 steered CNAME of s.edge.example. can lead back to itself"}},
		{"no loop", "x CNAME s\n", map[string][]string{"s CNAME": {"elsewhere.", "y.edge.example."}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := collect(t, "edge.example.", parse(t, "edge.example.", head+tt.text))
			for key, rdata := range tt.records {
				owner, typ, _ := strings.Cut(key, " ")
				b.AddRecord(steered(t, owner+".edge.example.", dns.StringToType[typ], rdata))
			}
			_, faults := b.Build()
			var got []string
			for _, f := range faults {
				if !f.Warning {
					got = append(got, fmt.Sprintf("%d %s", f.Row, f.Message))
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	b := collect(t, "edge.example.", parse(t, "edge.example.", head))
	b.AddRecord(steered(t, "s.edge.example.", dns.TypeA, []string{"192.0.2.1"}))
	b.AddRecord(steered(t, "S.edge.example.", dns.TypeA, []string{"192.0.2.1"}))
	b.AddRecord(steered(t, "s.elsewhere.", dns.TypeA, []string{"192.0.2.1"}))
	if z, faults := b.Build(); z != nil || len(faults) != 2 {
		t.Errorf("%v", faults)
	}
}

// A zone built of another's rrsets is the same.
func TestAddZone(t *testing.T) {
	old := build(t, "edge.example.", mainZone)
	b := zones.NewBuilder(old.Apex())
	b.AddZone(old)
	z, faults := b.Build()
	if z == nil {
		t.Fatal(faults)
	}
	list := func(z *zones.Zone) (out []string) {
		for owner, s := range z.RRsets() {
			out = append(out, fmt.Sprintf("%q %d %d %s", owner, s.Type, s.TTL, texts(t, s)))
		}
		return out
	}
	if diff := cmp.Diff(list(old), list(z)); diff != "" {
		t.Error(diff)
	}
}
