package zones_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// large is a zone of n names with an address each.
func large(t testing.TB, n int) *zones.Zone {
	t.Helper()
	b := collect(t, "large.example.", parse(t, "large.example.", head))
	for i := range n {
		b.Add(name(t, fmt.Sprintf("host-%06d.large.example.", i)), dns.TypeA, 300, binary.BigEndian.AppendUint32(nil, uint32(i)))
	}
	z, faults := b.Build()
	if z == nil {
		t.Fatal(faults)
	}
	return z
}

func BenchmarkFind(b *testing.B) {
	const n = 100_000
	s := zones.New([]*zones.Zone{large(b, n), build(b, "edge.example.", mainZone)}, nil)
	r := rand.New(rand.NewPCG(1, 2))
	for _, bm := range []struct {
		name string
		make func() string
		kind zones.Kind
	}{
		{"hit", func() string { return fmt.Sprintf("host-%06d.large.example.", r.IntN(n)) }, zones.Answer},
		{"nxdomain", func() string { return fmt.Sprintf("none-%06d.large.example.", r.IntN(n)) }, zones.NXDomain},
		{"deep-nxdomain", func() string { return fmt.Sprintf("a.b.c.d.e.f.none-%06d.large.example.", r.IntN(n)) }, zones.NXDomain},
		{"wildcard", func() string { return fmt.Sprintf("%d.wild.edge.example.", r.IntN(n)) }, zones.Answer},
		{"refused", func() string { return fmt.Sprintf("%d.example.org.", r.IntN(n)) }, zones.Refused},
	} {
		b.Run(bm.name, func(b *testing.B) {
			names := make([][]byte, 4096)
			for i := range names {
				names[i] = name(b, bm.make())
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if res := s.Find(names[i%len(names)], wire.TypeA); res.Kind != bm.kind {
					b.Fatal(res.Kind)
				}
				i++
			}
		})
	}
}

// The promise is less than 400 octets for a static name with one address.
func TestMemory(t *testing.T) {
	const n = 100_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	z := large(t, n)
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := float64(after.HeapAlloc-before.HeapAlloc) / n
	t.Logf("%.0f octets for each name", each)
	if each >= 400 {
		t.Errorf("%.0f octets for each name", each)
	}
	runtime.KeepAlive(z)
}
