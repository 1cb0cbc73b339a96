package zones_test

import (
	"fmt"
	"testing"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// What Recent finds is what the set finds, at whatever time and in whatever order names are asked for, also after the set has changed.
func TestRecent(t *testing.T) {
	var recent zones.Recent
	large := large(t, 300)
	for round, s := range []*zones.Set{
		zones.New([]*zones.Zone{large, build(t, "edge.example.", mainZone)}, nil),
		zones.New([]*zones.Zone{large}, nil),
	} {
		ask := func(n string, class, typ uint16) {
			t.Helper()
			m := new(dns.Msg)
			m.SetQuestion(n, typ)
			m.Question[0].Qclass = class
			octets, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			var q wire.Query
			if status := q.Parse(octets); status != wire.OK {
				t.Fatal(n, status)
			}
			want, got := s.Lookup(&q), recent.Lookup(s, &q)
			if fmt.Sprintf("%+v", want) != fmt.Sprintf("%+v", *got) {
				t.Errorf("round %d, %s %d: %+v, want %+v", round, n, typ, *got, want)
			}
		}
		for range 3 {
			for i := range 300 { // more than there is room for
				n := fmt.Sprintf("host-%06d.large.example.", i)
				ask(n, dns.ClassINET, dns.TypeA)
				ask(n, dns.ClassINET, dns.TypeTXT)
				ask("HOST-000001.large.EXAMPLE.", dns.ClassINET, dns.TypeA)
				ask("host-000001.large.example.", dns.ClassCHAOS, dns.TypeA)
				ask(fmt.Sprintf("none-%d.large.example.", i), dns.ClassINET, dns.TypeA)
				ask(fmt.Sprintf("%d.wild.edge.example.", i), dns.ClassINET, dns.TypeA)
			}
			for _, n := range []string{".", "a.", "example.", "edge.example.", "large.example.", "host-000001.large.example.net.", "a.host-000001.large.example.", "host-000001.a.b.c.d.e.f.g.h.i.j.k.large.example."} {
				ask(n, dns.ClassINET, dns.TypeA)
				ask(n, dns.ClassINET, dns.TypeSOA)
			}
		}
	}
}

// Two names of one slot do not take the place of one another in an answer: all names of the same length and the same words where the slot is chosen by.
func TestRecentAlike(t *testing.T) {
	b := collect(t, "large.example.", parse(t, "large.example.", head))
	var names []string
	for i := range 64 {
		n := fmt.Sprintf("aaaaaaaa-%02d.bbbbbbbbbbbb.large.example.", i)
		names = append(names, n)
		b.Add(name(t, n), dns.TypeA, 300, []byte{192, 0, 2, byte(i)})
	}
	z, faults := b.Build()
	if z == nil {
		t.Fatal(faults)
	}
	s := zones.New([]*zones.Zone{z}, nil)
	var recent zones.Recent
	for range 2 {
		for i, n := range names {
			m := new(dns.Msg)
			m.SetQuestion(n, dns.TypeA)
			octets, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			var q wire.Query
			q.Parse(octets)
			if r := recent.Lookup(s, &q); r.Kind != zones.Answer || r.RRset.First()[3] != byte(i) {
				t.Errorf("%s: %+v", n, r)
			}
		}
	}
}
