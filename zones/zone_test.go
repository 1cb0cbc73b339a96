package zones_test

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// name is the wire form of a name, lower case.
func name(t testing.TB, text string) []byte {
	t.Helper()
	n, err := wire.ParseName(text)
	if err != nil {
		t.Fatal(err)
	}
	return wire.ToLower(nil, n)
}

// pack is the wire form of a record: owner and rdata.
func pack(t testing.TB, rr dns.RR) (owner, rdata []byte) {
	t.Helper()
	buf := make([]byte, 1<<16)
	n, err := dns.PackRR(rr, buf, 0, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	owner = name(t, rr.Header().Name)
	return owner, buf[len(owner)+10 : n]
}

// parse reads the text of a zone.
func parse(t testing.TB, origin, text string) []dns.RR {
	t.Helper()
	zp := dns.NewZoneParser(strings.NewReader(text), origin, "")
	zp.SetDefaultTTL(3600)
	var rrs []dns.RR
	for rr, ok := zp.Next(); ok; rr, ok = zp.Next() {
		rrs = append(rrs, rr)
	}
	if err := zp.Err(); err != nil {
		t.Fatal(err)
	}
	return rrs
}

// collect puts records into a builder.
func collect(t testing.TB, origin string, rrs []dns.RR) *zones.Builder {
	t.Helper()
	b := zones.NewBuilder(name(t, origin))
	for _, rr := range rrs {
		owner, rdata := pack(t, rr)
		b.Add(owner, rr.Header().Rrtype, rr.Header().Ttl, rdata)
	}
	return b
}

// build makes a zone of text; it must not be refused.
func build(t testing.TB, origin, text string) *zones.Zone {
	t.Helper()
	z, faults := collect(t, origin, parse(t, origin, text)).Build()
	if z == nil {
		t.Fatalf("zone %s is refused: %v", origin, faults)
	}
	return z
}

// set makes a set of zones: origin and text in turn.
func set(t testing.TB, zoneTexts ...string) *zones.Set {
	t.Helper()
	var zs []*zones.Zone
	for i := 0; i < len(zoneTexts); i += 2 {
		zs = append(zs, build(t, zoneTexts[i], zoneTexts[i+1]))
	}
	return zones.New(zs, nil)
}

const head = `@ SOA ns1 hostmaster 1 7200 900 1209600 300
@ NS ns1.elsewhere.
`

const mainZone = head + `
@        MX    10 mail
mail     A     192.0.2.25
MixedCase A    192.0.2.85
www      A     192.0.2.80
www      AAAA  2001:db8::80
a.b.c.ent A    192.0.2.100
alias    CNAME www
*.wild   A     192.0.2.110
host.wild A    192.0.2.111
x.deep.wild A  192.0.2.112
*.wildc  CNAME www
*.*.wild2 A    192.0.2.113
sub.*.ws TXT   "not a wildcard"
*.wildns NS    ns1.elsewhere.
*.wildns A     192.0.2.9
d        DNAME target
d        TXT   "at the owner"
a.target A     192.0.2.150
del      NS    ns1.del
ns1.del  A     192.0.2.120
hidden.del TXT "no"
delds    NS    ns.elsewhere.
delds    DS    60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118
x.y.deep NS    ns.elsewhere.
child    NS    ns1.child
ns1.child A    192.0.2.130
childns  NS    ns.elsewhere.
`

const childZone = head + `
www A 192.0.2.131
*   A 192.0.2.132
`

func TestFind(t *testing.T) {
	s := set(t, "edge.example.", mainZone, "child.edge.example.", childZone, "alone.example.", head+"*.x A 192.0.2.1\n* DNAME elsewhere.\n")
	for _, tt := range []struct {
		q     string // name and type
		kind  zones.Kind
		zone  string
		owner string // where the data stands
		wild  bool
	}{
		// exact
		{"edge.example. SOA", zones.Answer, "edge.example.", "edge.example.", false},
		{"www.edge.example. A", zones.Answer, "edge.example.", "www.edge.example.", false},
		{"mixedcase.edge.example. A", zones.Answer, "edge.example.", "mixedcase.edge.example.", false},
		{"www.edge.example. MX", zones.NoData, "edge.example.", "www.edge.example.", false},
		{"edge.example. PTR", zones.NoData, "edge.example.", "edge.example.", false},
		// label borders: bugs like a suffix of letters
		{"notedge.example. A", zones.Refused, "", "", false},
		{"example. A", zones.Refused, "", "", false},
		{". NS", zones.Refused, "", "", false},
		{"org. A", zones.Refused, "", "", false},
		// not there
		{"nosuch.edge.example. A", zones.NXDomain, "edge.example.", "", false},
		{"a.b.c.d.e.nosuch.edge.example. A", zones.NXDomain, "edge.example.", "", false},
		{"x.www.edge.example. A", zones.NXDomain, "edge.example.", "", false},
		{"nosuch.edge.example. DS", zones.NXDomain, "edge.example.", "", false},
		{"nosuch.edge.example. ANY", zones.NXDomain, "edge.example.", "", false},
		// empty non-terminals
		{"ent.edge.example. A", zones.NoData, "edge.example.", "ent.edge.example.", false},
		{"b.c.ent.edge.example. ANY", zones.NoData, "edge.example.", "b.c.ent.edge.example.", false},
		{"x.ent.edge.example. A", zones.NXDomain, "edge.example.", "", false},
		// aliases
		{"alias.edge.example. A", zones.Alias, "edge.example.", "alias.edge.example.", false},
		{"alias.edge.example. CNAME", zones.Answer, "edge.example.", "alias.edge.example.", false},
		{"alias.edge.example. ANY", zones.Answer, "edge.example.", "alias.edge.example.", false},
		{"x.alias.edge.example. A", zones.NXDomain, "edge.example.", "", false},
		// wildcards
		{"x.wild.edge.example. A", zones.Answer, "edge.example.", "*.wild.edge.example.", true},
		{"x.y.wild.edge.example. A", zones.Answer, "edge.example.", "*.wild.edge.example.", true},
		{"*.wild.edge.example. A", zones.Answer, "edge.example.", "*.wild.edge.example.", false},
		{"x.*.wild.edge.example. A", zones.NXDomain, "edge.example.", "", false},
		{"*x.wild.edge.example. A", zones.Answer, "edge.example.", "*.wild.edge.example.", true},
		{"x.wild.edge.example. AAAA", zones.NoData, "edge.example.", "*.wild.edge.example.", true},
		{"host.wild.edge.example. AAAA", zones.NoData, "edge.example.", "host.wild.edge.example.", false},
		{"x.host.wild.edge.example. A", zones.NXDomain, "edge.example.", "", false},
		{"deep.wild.edge.example. A", zones.NoData, "edge.example.", "deep.wild.edge.example.", false},
		{"y.deep.wild.edge.example. A", zones.NXDomain, "edge.example.", "", false},
		{"wild.edge.example. A", zones.NoData, "edge.example.", "wild.edge.example.", false},
		{"x.wildc.edge.example. A", zones.Alias, "edge.example.", "*.wildc.edge.example.", true},
		{"b.wild2.edge.example. A", zones.NoData, "edge.example.", "*.wild2.edge.example.", true},
		{"b.*.wild2.edge.example. A", zones.Answer, "edge.example.", "*.*.wild2.edge.example.", true},
		{"*.*.wild2.edge.example. A", zones.Answer, "edge.example.", "*.*.wild2.edge.example.", false},
		{"sub.*.ws.edge.example. TXT", zones.Answer, "edge.example.", "sub.*.ws.edge.example.", false},
		{"other.ws.edge.example. TXT", zones.NoData, "edge.example.", "*.ws.edge.example.", true},
		{"ghost.*.ws.edge.example. MX", zones.NXDomain, "edge.example.", "", false},
		{"x.wildns.edge.example. A", zones.Answer, "edge.example.", "*.wildns.edge.example.", true},
		// delegations
		{"del.edge.example. A", zones.Referral, "edge.example.", "del.edge.example.", false},
		{"del.edge.example. NS", zones.Referral, "edge.example.", "del.edge.example.", false},
		{"del.edge.example. ANY", zones.Referral, "edge.example.", "del.edge.example.", false},
		{"ns1.del.edge.example. A", zones.Referral, "edge.example.", "del.edge.example.", false},
		{"hidden.del.edge.example. TXT", zones.Referral, "edge.example.", "del.edge.example.", false},
		{"a.b.c.del.edge.example. DS", zones.Referral, "edge.example.", "del.edge.example.", false},
		{"delds.edge.example. DS", zones.Answer, "edge.example.", "delds.edge.example.", false},
		{"del.edge.example. DS", zones.NoData, "edge.example.", "del.edge.example.", false},
		{"x.y.deep.edge.example. A", zones.Referral, "edge.example.", "x.y.deep.edge.example.", false},
		{"y.deep.edge.example. A", zones.NoData, "edge.example.", "y.deep.edge.example.", false},
		{"z.y.deep.edge.example. A", zones.NXDomain, "edge.example.", "", false},
		// a child zone that is served here goes first, but for DS
		{"child.edge.example. SOA", zones.Answer, "child.edge.example.", "child.edge.example.", false},
		{"child.edge.example. NS", zones.Answer, "child.edge.example.", "child.edge.example.", false},
		{"ns1.child.edge.example. A", zones.Answer, "child.edge.example.", "*.child.edge.example.", true},
		{"child.edge.example. DS", zones.NoData, "edge.example.", "child.edge.example.", false},
		{"edge.example. DS", zones.NoData, "edge.example.", "edge.example.", false},
		// DNAME
		{"d.edge.example. TXT", zones.Answer, "edge.example.", "d.edge.example.", false},
		{"d.edge.example. DNAME", zones.Answer, "edge.example.", "d.edge.example.", false},
		{"d.edge.example. A", zones.NoData, "edge.example.", "d.edge.example.", false},
		{"a.d.edge.example. A", zones.Rename, "edge.example.", "d.edge.example.", false},
		{"a.b.d.edge.example. CNAME", zones.Rename, "edge.example.", "d.edge.example.", false},
		{"x.alone.example. DNAME", zones.NoData, "alone.example.", "x.alone.example.", false},
		{"q.alone.example. DNAME", zones.Answer, "alone.example.", "*.alone.example.", true},
		{"y.*.alone.example. A", zones.Rename, "alone.example.", "*.alone.example.", false},
		// ANY gives one rrset
		{"www.edge.example. ANY", zones.Answer, "edge.example.", "www.edge.example.", false},
	} {
		owner, typ, _ := strings.Cut(tt.q, " ")
		r := s.Find(name(t, owner), dns.StringToType[typ])
		zone := ""
		if r.Zone != nil {
			zone = r.Zone.String()
		}
		got := ""
		if o := r.Owner(); o != nil {
			got = wire.NameString(o)
		}
		if r.Kind != tt.kind || zone != tt.zone || got != tt.owner || r.Wild != tt.wild {
			t.Errorf("%s: %v in %q at %q, wild %v; want %v in %q at %q, wild %v", tt.q, r.Kind, zone, got, r.Wild, tt.kind, tt.zone, tt.owner, tt.wild)
		}
		if (r.Kind == zones.Answer || r.Kind == zones.Alias || r.Kind == zones.Rename) != (r.RRset.Count > 0) {
			t.Errorf("%s: %v with %d records", tt.q, r.Kind, r.RRset.Count)
		}
	}
}

// The target of a CNAME is looked for in its own zone only: never past a cut, even if the child is served here.
func TestFindInZone(t *testing.T) {
	s := set(t, "edge.example.", mainZone, "child.edge.example.", childZone)
	z := s.Zone(name(t, "edge.example."))
	for owner, want := range map[string]zones.Kind{
		"www.edge.example.":       zones.Answer,
		"www.child.edge.example.": zones.Referral,
		"edge.example.":           zones.NoData,
		"example.":                zones.Refused,
		"notedge.example.":        zones.Refused,
		"www.xedge.example.":      zones.Refused,
		".":                       zones.Refused,
	} {
		if got := z.Find(name(t, owner), wire.TypeA); got.Kind != want {
			t.Errorf("%s: %v, want %v", owner, got.Kind, want)
		}
	}
}

func TestFollow(t *testing.T) {
	const parent = "@ SOA ns h 1 7200 900 1209600 60\n@ NS ns.elsewhere.\nwww A 192.0.2.1\ncut NS ns.elsewhere.\nwww.below A 192.0.2.2\n"
	const child = "@ SOA ns h 1 7200 900 1209600 60\n@ NS ns.elsewhere.\nwww A 192.0.2.3\n"
	s := set(t, "example.", parent, "cut.example.", child, "below.example.", child, ".", child)
	z := s.Zone(name(t, "example."))
	for q, want := range map[string]zones.Kind{
		"www.example. A":        zones.Answer,
		"no.example. A":         zones.NXDomain,
		"www.cut.example. A":    zones.Referral,
		"www.below.example. A":  zones.Refused, // not delegated, but not this zone's either
		"no.below.example. A":   zones.Refused,
		"below.example. A":      zones.Refused,
		"below.example. DS":     zones.NoData, // the upper side's
		"example. DS":           zones.NoData, // of its own, though the zone above is here
		"www.elsewhere.test. A": zones.Refused,
	} {
		owner, typ, _ := strings.Cut(q, " ")
		if got := s.Follow(z, name(t, owner), dns.StringToType[typ]); got.Kind != want {
			t.Errorf("%s: %v, want %v", q, got.Kind, want)
		}
	}
}

func TestRootZone(t *testing.T) {
	s := set(t, ".", "@ SOA ns. h. 1 2 3 4 5\n@ NS ns.\nns A 192.0.2.1\ncom NS ns\n", "edge.example.", mainZone)
	for q, want := range map[string]zones.Kind{
		". NS": zones.Answer, "www.com. A": zones.Referral, "org. A": zones.NXDomain, "ns. A": zones.Answer, "www.edge.example. A": zones.Answer, ". DS": zones.NoData,
		"edge.example. DS": zones.NXDomain,
	} {
		owner, typ, _ := strings.Cut(q, " ")
		if got := s.Find(name(t, owner), dns.StringToType[typ]); got.Kind != want {
			t.Errorf("%s: %v, want %v", q, got.Kind, want)
		}
	}
}

func TestLookupClass(t *testing.T) {
	s := set(t, "edge.example.", mainZone)
	for class, want := range map[uint16]zones.Kind{
		dns.ClassINET: zones.Answer, dns.ClassCHAOS: zones.Refused, dns.ClassANY: zones.Refused, dns.ClassNONE: zones.Refused, 0: zones.Refused, 65280: zones.Refused,
	} {
		m := new(dns.Msg)
		m.SetQuestion("WwW.eDgE.example.", dns.TypeA)
		m.Question[0].Qclass = class
		msg, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		var q wire.Query
		if status := q.Parse(msg); status != wire.OK {
			t.Fatalf("class %d: %v", class, status)
		}
		if got := s.Lookup(&q); got.Kind != want {
			t.Errorf("class %d: %v, want %v", class, got.Kind, want)
		}
	}
}

func TestEmptySet(t *testing.T) {
	var s zones.Set
	if got := s.Find(name(t, "www.example."), wire.TypeA); got.Kind != zones.Refused {
		t.Errorf("got %v", got.Kind)
	}
}

func TestWith(t *testing.T) {
	s := set(t, "edge.example.", mainZone, "child.edge.example.", childZone)
	old := s.Zone(name(t, "edge.example."))
	next := build(t, "edge.example.", strings.Replace(mainZone, " 1 7200", " 2 7200", 1))
	n := s.With(zones.NewPlanTable(s), next)
	if got := n.Zone(name(t, "edge.example.")); got != next || got.Serial() != 2 {
		t.Errorf("got serial %d", got.Serial())
	}
	if n.Zone(name(t, "child.edge.example.")) != s.Zone(name(t, "child.edge.example.")) {
		t.Error("the other zone was built anew")
	}
	if s.Zone(name(t, "edge.example.")) != old || old.Serial() != 1 {
		t.Error("the old set has changed")
	}
	var order []string
	for z := range n.Zones() {
		order = append(order, z.String())
	}
	if got := strings.Join(order, " "); got != "edge.example. child.edge.example." {
		t.Errorf("order %s", got)
	}
}
