//go:build !race

package wire

import "testing"

// The answer path allocates nothing: any kind of query read and answered, with everything that a response can hold.
func TestNoAllocations(t *testing.T) {
	a := record(t, "www.conf.test. 60 A 192.0.2.1")
	soa := record(t, "conf.test. 60 SOA ns.conf.test. host.conf.test. 1 2 3 4 5")
	ns := record(t, "conf.test. 60 NS ns.other.net.")
	packed := raw(t, "c00c 0001 0001 0000003c 0004 c0000202")
	buf := newBuffer()
	nsid, cookie := []byte("dns-a"), []byte(client8+client8)
	for what, text := range map[string]string{
		"plain":     plain,
		"ECS":       withOPT + " o:0008000700011800c00002",
		"ECS, IPv6": withOPT + " o:0008000a0002300020010db80001",
		"options":   withOPT + " o:000300000008000700011800c00002000a00080102030405060708000c0000",
		"damaged":   withOPT + " o:0008000700011800c00003",
		"bad name":  "1234 0000 0001 0000 0000 0000 c00c",
		"long name": "1234 0000 0001 0000 0000 0000 x:0141*127 00 0001 0001",
		"notimp":    "1234 7800 0000 0000 0000 0000",
		"a record":  withOPT + " l:a c00c 0001 0001 00000000 0000",
	} {
		msg := raw(t, text)
		q, b := new(Query), new(Builder)
		n := testing.AllocsPerRun(200, func() {
			status := q.Parse(msg)
			b.OPT = OPT{NSID: nsid, Cookie: cookie, HasEDE: true, EDEText: "text", Pad: 468}
			b.Begin(q, buf, 1232)
			b.SetRCode(status.RCode())
			b.AppendPacked(Answer, 1, packed)
			b.Append(Answer, q.Name, a.typ, a.class, a.ttl, a.rdata)
			m := b.Mark()
			ns.appendTo(b, Authority)
			b.Rollback(m)
			soa.appendTo(b, Authority)
			b.OPT.Scope = 24
			b.Finish()
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	x, y := name(t, "Www.conf.test"), name(t, "conf.test")
	dst := make([]byte, 0, MaxName)
	if n := testing.AllocsPerRun(200, func() {
		ToLower(dst, x)
		EqualFold(x, y)
		IsSubdomain(x, y)
		Compare(x, y)
		CountLabels(x)
	}); n != 0 {
		t.Errorf("names: %v allocations", n)
	}
}
