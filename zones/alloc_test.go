//go:build !race

package zones_test

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// Nothing on the path of a query allocates.
func TestAllocations(t *testing.T) {
	s := set(t, "edge.example.", mainZone+"mx MX 10 mail\n", "child.edge.example.", childZone)
	var names [256]byte
	for q, kind := range map[string]zones.Kind{
		"mx.edge.example.": zones.Answer, "a.b.c.d.e.edge.example.": zones.NXDomain, "x.y.wild.edge.example.": zones.NoData, "alias.edge.example.": zones.Alias,
		"a.b.del.edge.example.": zones.Referral, "a.d.edge.example.": zones.Rename, "www.child.edge.example.": zones.NoData, "www.example.": zones.Refused,
	} {
		r := begin(t, q, dns.TypeMX, 1232)
		buf := make([]byte, 0, wire.MaxMessage)
		n := testing.AllocsPerRun(100, func() {
			r.b.Begin(&r.q, buf, 1232)
			res := s.Lookup(&r.q)
			if res.Kind != kind {
				t.Fatalf("%s: %v, want %v", q, res.Kind, kind)
			}
			switch res.Kind {
			case zones.Answer:
				res.RRset.Append(&r.b, wire.Answer, r.q.Name, true)
				res.Zone.AppendAdditional(&r.b, res.RRset, r.q.Name)
			case zones.Alias:
				res.RRset.Append(&r.b, wire.Answer, r.q.Name, true)
				res = res.Zone.Find(res.RRset.Target(), r.q.Type)
			case zones.Rename:
				target, _ := res.Rename(names[:0], r.q.Name)
				res.AppendRename(&r.b, r.q.Name, target, false)
			case zones.Referral:
				res.AppendReferral(&r.b)
			case zones.NoData, zones.NXDomain:
				res.Zone.AppendNegative(&r.b, 60)
			}
			r.b.Finish()
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", q, n)
		}
	}
}

func TestRecordAllocations(t *testing.T) {
	for _, rec := range []*zones.Record{
		steered(t, "s.example.", dns.TypeA, []string{"192.0.2.1", "192.0.2.2"}, []string{"192.0.2.3"}),
		steered(t, "s.example.", dns.TypeCNAME, []string{"a.example."}, []string{"b.example."}),
	} {
		x := run(rec, 1, map[int]uint64{0: 1}, 0, 1)
		r := begin(t, "s.example.", rec.Type, 1232)
		buf := make([]byte, 0, wire.MaxMessage)
		n := testing.AllocsPerRun(100, func() {
			r.b.Begin(&r.q, buf, 1232)
			x.Begin(rec.Pool)
			rec.Candidates(x)
			x.Rung = 1
			rec.Append(&r.b, r.q.Name, true, 30, x)
			rec.Target(x)
			r.b.Finish()
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", rec, n)
		}
	}
}
