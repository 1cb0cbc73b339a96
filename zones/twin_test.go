package zones_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// twin is the slow way to look up: the algorithm of RFC 1034 section 4.3.2 over a list of records, name by name from the apex down.
type twin map[string][]dns.RR // by apex

type found struct {
	kind  zones.Kind
	zone  string
	owner string
	wild  bool
	rrs   string
}

func (tw twin) find(q string, typ uint16) found {
	var above []string // the apexes of the zones that it could be in, the longest first
	for a := range tw {
		if dns.IsSubDomain(a, q) {
			above = append(above, a)
		}
	}
	if len(above) == 0 {
		return found{kind: zones.Refused}
	}
	slices.SortFunc(above, func(a, b string) int { return len(b) - len(a) })
	apex := above[0]
	if typ == dns.TypeDS && q == apex && len(above) > 1 {
		apex = above[1]
	}
	rrs := tw[apex]
	labels := dns.SplitDomainName(q)
	for n := dns.CountLabel(apex); n <= len(labels); n++ {
		above := dns.Fqdn(strings.Join(labels[len(labels)-n:], "."))
		if above != apex && !strings.HasPrefix(above, "*.") && has(rrs, above, dns.TypeNS) && !(above == q && typ == dns.TypeDS) {
			return found{kind: zones.Referral, zone: apex, owner: above}
		}
		if above != q && has(rrs, above, dns.TypeDNAME) {
			return found{kind: zones.Rename, zone: apex, owner: above, rrs: list(rrs, above, dns.TypeDNAME)}
		}
	}
	if exists(rrs, q) {
		return data(rrs, apex, q, typ, false)
	}
	encloser := q
	for !exists(rrs, encloser) {
		_, encloser, _ = strings.Cut(encloser, ".")
		encloser = dns.Fqdn(encloser)
	}
	if star := "*." + strings.TrimPrefix(encloser, "."); exists(rrs, star) {
		return data(rrs, apex, star, typ, true)
	}
	return found{kind: zones.NXDomain, zone: apex}
}

func data(rrs []dns.RR, apex, owner string, typ uint16, wild bool) found {
	f := found{kind: zones.NoData, zone: apex, owner: owner, wild: wild}
	switch {
	case has(rrs, owner, typ):
		f.kind, f.rrs = zones.Answer, list(rrs, owner, typ)
	case has(rrs, owner, dns.TypeCNAME):
		f.kind, f.rrs = zones.Alias, list(rrs, owner, dns.TypeCNAME)
	}
	return f
}

func has(rrs []dns.RR, owner string, typ uint16) bool { return list(rrs, owner, typ) != "" }

func exists(rrs []dns.RR, name string) bool {
	return slices.ContainsFunc(rrs, func(rr dns.RR) bool { return dns.IsSubDomain(name, rr.Header().Name) })
}

func list(rrs []dns.RR, owner string, typ uint16) string {
	var s []string
	for _, rr := range rrs {
		if rr.Header().Name == owner && rr.Header().Rrtype == typ {
			s = append(s, strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
	}
	return strings.Join(s, "|")
}

// texts is the rdata of an rrset as text.
func texts(t testing.TB, s zones.RRset) string {
	var out []string
	for rdata := range s.RData() {
		rr, err := unpack(s.Type, rdata)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return strings.Join(out, "|")
}

func unpack(typ uint16, rdata []byte) (dns.RR, error) {
	h := dns.RR_Header{Name: ".", Rrtype: typ, Class: dns.ClassINET, Rdlength: uint16(len(rdata))}
	rr, _, err := dns.UnpackRRWithHeader(h, rdata, 0)
	return rr, err
}

// some makes the records of a random zone that is not refused. Few labels, so that names meet.
func some(r *rand.Rand, apex string) []dns.RR {
	owners := map[string][]uint16{}
	var rrs []dns.RR
	add := func(format string, args ...any) {
		rr, err := dns.NewRR(fmt.Sprintf(format, args...))
		if err != nil {
			panic(err)
		}
		rrs = append(rrs, rr)
	}
	add("%s 60 SOA ns.z. h.z. 1 2 3 4 5", apex)
	add("%s 60 NS ns.elsewhere.", apex)
	owners[apex] = []uint16{dns.TypeSOA, dns.TypeNS}
	for range r.IntN(14) {
		owner := label(r, apex, 4)
		types := owners[owner]
		typ := [...]uint16{dns.TypeA, dns.TypeA, dns.TypeTXT, dns.TypeCNAME, dns.TypeNS, dns.TypeDNAME, dns.TypeDS, dns.TypeMX}[r.IntN(8)]
		if slices.Contains(types, typ) || slices.Contains(types, dns.TypeCNAME) || typ == dns.TypeCNAME && len(types) > 0 {
			continue
		}
		owners[owner] = append(types, typ)
		switch typ {
		case dns.TypeA:
			for i := range 1 + r.IntN(3) {
				add("%s 60 A 192.0.2.%d", owner, i)
			}
		case dns.TypeTXT:
			add("%s 60 TXT %d", owner, r.IntN(10))
		case dns.TypeDS:
			add("%s 60 DS 1 8 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", owner)
		case dns.TypeMX:
			add("%s 60 MX 10 %s", owner, label(r, apex, 3))
		default:
			add("%s 60 %s %s", owner, dns.TypeToString[typ], label(r, apex, 3))
		}
	}
	return rrs
}

// label makes a name of up to deep labels below apex.
func label(r *rand.Rand, apex string, deep int) string {
	var s strings.Builder
	for range r.IntN(deep + 1) {
		s.WriteString([...]string{"a.", "b.", "*.", "a.", "cc."}[r.IntN(5)])
	}
	if apex != "." || s.Len() == 0 {
		s.WriteString(apex)
	}
	return s.String()
}

func compare(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	tw := twin{}
	var zs []*zones.Zone
	for _, apex := range [...]string{"z.", "a.z.", "b.a.z.", "other.", "."} {
		if apex != "z." && r.IntN(3) > 0 {
			continue
		}
		rrs := some(r, apex)
		z, faults := collect(t, apex, rrs).Build()
		if z == nil {
			t.Fatalf("seed %d: zone %s is refused: %v\n%v", seed, apex, faults, rrs)
		}
		tw[apex] = rrs
		zs = append(zs, z)
	}
	s := zones.New(zs, nil)
	for range 200 {
		q := label(r, [...]string{"z.", "z.", "z.", "other.", ".", "xz."}[r.IntN(6)], 5)
		typ := [...]uint16{dns.TypeA, dns.TypeTXT, dns.TypeNS, dns.TypeDS, dns.TypeCNAME, dns.TypeDNAME, dns.TypeMX, dns.TypeSOA}[r.IntN(8)]
		res := s.Find(name(t, q), typ)
		got := found{kind: res.Kind, wild: res.Wild}
		if res.Zone != nil {
			got.zone = res.Zone.String()
		}
		if o := res.Owner(); o != nil {
			got.owner = wire.NameString(o)
		}
		if res.RRset.Count > 0 {
			got.rrs = texts(t, res.RRset)
		}
		if want := tw.find(q, typ); got != want {
			t.Fatalf("seed %d: %s %s: %+v\nwant %+v\n%v", seed, q, dns.TypeToString[typ], got, want, tw)
		}
	}
}

func TestFindAgainstTwin(t *testing.T) {
	for seed := range uint64(150) {
		compare(t, seed)
	}
}

func FuzzFind(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(compare)
}
