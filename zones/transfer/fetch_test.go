package transfer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// library is a primary of miekg/dns.
type library struct {
	z       *zones.Zone
	records []dns.RR // in place of z's
	size    int      // records of a message
	secrets map[string]string
	addr    netip.AddrPort
}

func (l *library) serve(tb testing.TB) *library {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	l.addr = netip.MustParseAddrPort(listener.Addr().String())
	s := &dns.Server{Listener: listener, TsigSecret: l.secrets, Handler: dns.HandlerFunc(l.answer)}
	done := make(chan struct{})
	go func() { defer close(done); s.ActivateAndServe() }()
	tb.Cleanup(func() { listener.Close(); <-done })
	return l
}

func (l *library) answer(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	m.Authoritative = true
	t := q.IsTsig()
	if l.secrets != nil && (t == nil || w.TsigStatus() != nil) {
		m.Rcode = dns.RcodeNotAuth
		w.WriteMsg(m)
		return
	}
	records := l.records
	if records == nil {
		records = rrs(l.z)
		records = append(records, records[0])
	}
	if q.Question[0].Qtype == dns.TypeSOA {
		m.Answer = records[:1]
		if t != nil && l.secrets != nil {
			m.SetTsig(t.Hdr.Name, t.Algorithm, 300, time.Now().Unix())
		}
		w.WriteMsg(m)
		return
	}
	tr := new(dns.Transfer)
	ch := make(chan *dns.Envelope)
	go func() {
		defer close(ch)
		for len(records) > 0 {
			n := min(max(l.size, 1), len(records))
			ch <- &dns.Envelope{RR: records[:n]}
			records = records[n:]
		}
	}()
	tr.Out(w, q, ch)
	for range ch { // after an error
	}
}

// rrs are the records of a zone, its SOA first.
func rrs(z *zones.Zone) (list []dns.RR) {
	add := func(owner []byte, s zones.RRset) {
		for rdata := range s.RData() {
			h := dns.RR_Header{Name: wire.NameString(owner), Rrtype: s.Type, Class: dns.ClassINET, Ttl: s.TTL, Rdlength: uint16(len(rdata))}
			rr, _, err := dns.UnpackRRWithHeader(h, rdata, 0)
			if err != nil {
				panic(err)
			}
			list = append(list, rr)
		}
	}
	add(z.Apex(), z.SOA())
	for owner, s := range z.RRsets() {
		if s.Type != wire.TypeSOA {
			add(owner, s)
		}
	}
	return list
}

func fetchFrom(p *primary, apex []byte, have *zones.Zone) (*zones.Zone, error) {
	f := &fetcher{dial: &net.Dialer{}, now: time.Now}
	if p.timeout == 0 {
		p.timeout = 10 * time.Second
	}
	return f.fetch(context.Background(), p, apex, have)
}

// A zone arrives as it is, from the library and from ourselves, signed and not.
func TestFetch(t *testing.T) {
	z := small(t, 9)
	key := keys(t).named("key.example")
	for _, tt := range []struct {
		name string
		p    func() *primary
	}{
		{"library", func() *primary { return &primary{addr: (&library{z: z, size: 3}).serve(t).addr} }},
		{"library, signed", func() *primary {
			return &primary{addr: (&library{z: z, size: 1, secrets: map[string]string{"key.example.": secret}}).serve(t).addr, key: key, keyName: "key.example"}
		}},
		{"ourselves", func() *primary {
			o, _ := out(t, &config.Transfer{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
			return &primary{addr: netip.MustParseAddrPort(serve(t, o, z).addr)}
		}},
		{"ourselves, signed", func() *primary {
			o, _ := out(t, &config.Transfer{Keys: []string{"key.example"}})
			return &primary{addr: netip.MustParseAddrPort(serve(t, o, z).addr), key: key, keyName: "key.example"}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.p()
			for _, have := range []*zones.Zone{nil, small(t, 8), small(t, 1<<32-1)} {
				got, err := fetchFrom(p, z.Apex(), have)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(text(z), text(got)); diff != "" {
					t.Error(diff)
				}
			}
			if got, err := fetchFrom(p, z.Apex(), z); got != nil || err != nil {
				t.Errorf("current: %v, %v", got, err)
			}
			if _, err := fetchFrom(p, z.Apex(), small(t, 10)); !errors.Is(err, errBehind) {
				t.Errorf("older: %v", err)
			}
		})
	}
}

// A TTL with its highest bit set is taken as 0 (RFC 2181 section 8): one such record keeps no zone out of service.
func TestFetchTTL(t *testing.T) {
	var list []dns.RR
	for _, text := range []string{"edge.example. 60 SOA a. b. 5 1 1 1 1", "edge.example. 60 NS ns.elsewhere.", "x.edge.example. 2147483648 TXT x", "y.edge.example. 2147483647 TXT y", "edge.example. 60 SOA a. b. 5 1 1 1 1"} {
		r, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	p := &primary{addr: (&library{records: list, size: 9}).serve(t).addr, timeout: 5 * time.Second}
	z, err := fetchFrom(p, []byte("\x04edge\x07example\x00"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint32{"\x01x": 0, "\x01y": 1<<31 - 1} {
		if r := z.Find([]byte(name+"\x04edge\x07example\x00"), dns.TypeTXT); r.Kind != zones.Answer || r.RRset.TTL != want {
			t.Errorf("%q: %v with TTL %d, want %d", name, r.Kind, r.RRset.TTL, want)
		}
	}
}

// Data that miekg/dns refuses or changes is taken as it is, and kept: it is the primary's affair.
func TestFetchOpaque(t *testing.T) {
	apex := wired(t, "edge.example")
	b := zones.NewBuilder(apex)
	b.AddZone(small(t, 1))
	for typ, rdata := range map[uint16]string{
		dns.TypeSVCB:  "\x00\x01\x00\x00\x06\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\x00\x02\x01", // ipv6hint=::ffff:192.0.2.1
		dns.TypeHTTPS: "\x00\x01\x00\xff\xff\x00\x00",                                                                 // key65535
		dns.TypeISDN:  "\x041234",
		dns.TypeTXT:   "\x05cut",
		dns.TypeNSEC:  "\xc0\x0c",
	} {
		b.Add(append([]byte("\x03odd"), apex...), typ, 60, []byte(rdata))
	}
	z, faults := b.Build()
	if z == nil {
		t.Fatal(faults)
	}
	o, _ := out(t, &config.Transfer{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	got, err := fetchFrom(&primary{addr: netip.MustParseAddrPort(serve(t, o, z).addr)}, apex, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text(z), text(got)); diff != "" {
		t.Error(diff)
	}
	s := &store{dir: t.TempDir()}
	if err := s.save(got, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got, _, err = s.load(apex); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text(z), text(got)); diff != "" {
		t.Errorf("kept: %s", diff)
	}
}

// 100,000 records, signed, both ways ours.
func TestFetchLarge(t *testing.T) {
	z := large(t, "large.example.", 1, 100_000)
	o, _ := out(t, &config.Transfer{Keys: []string{"key.example"}}, "large.example")
	p := &primary{addr: netip.MustParseAddrPort(serve(t, o, z).addr), key: keys(t).named("key.example"), keyName: "key.example", timeout: time.Minute}
	begun := time.Now()
	got, err := fetchFrom(p, z.Apex(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d names in %v", got.Names(), time.Since(begun))
	if text(got) != text(z) {
		t.Error("the zone is another one")
	}
}

func TestFetchKeys(t *testing.T) {
	z := small(t, 1)
	k := keys(t)
	secrets := map[string]string{"key.example.": secret}
	for _, tt := range []struct {
		name    string
		primary *library
		key     string
		want    string
	}{
		{"not signed, should be", &library{z: z, secrets: secrets}, "", "answer is NOTAUTH"},
		{"other key", &library{z: z, secrets: secrets}, "other.example", "answer is NOTAUTH"},
		{"answers are not signed", &library{z: z}, "key.example", "TSIG: message is not signed"},
		{"no such key", &library{z: z}, "gone.example", "key gone.example cannot be used"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &primary{addr: tt.primary.serve(t).addr, keyName: tt.key}
			if tt.key != "" {
				p.key = k.named(tt.key)
			}
			if _, err := fetchFrom(p, z.Apex(), nil); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	// From ourselves: why the key was refused is said.
	o, _ := out(t, &config.Transfer{Keys: []string{"key.example"}})
	s := serve(t, o, z)
	wrong := *k.named("key.example")
	wrong.secret = []byte("wrong")
	stranger := *k.named("key.example")
	stranger.name, stranger.text = wired(t, "stranger.example"), "stranger.example."
	for want, key := range map[string]*key{"BADSIG": &wrong, "BADKEY": &stranger, "answer is REFUSED": k.named("other.example")} {
		if _, err := fetchFrom(&primary{addr: netip.MustParseAddrPort(s.addr), key: key, keyName: key.text}, z.Apex(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// What a primary sends is a whole, sound zone of this name or nothing.
func TestFetchBroken(t *testing.T) {
	rr := func(text string) dns.RR {
		r, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	soa, ns := rr("edge.example. 60 SOA a. b. 5 1 1 1 1"), rr("edge.example. 60 NS ns.elsewhere.")
	for _, tt := range []struct {
		name    string
		records []dns.RR
		want    string
	}{
		{"whole", []dns.RR{soa, ns, soa}, ""},
		{"no end", []dns.RR{soa, ns}, "unexpected EOF"},
		{"more after the end", []dns.RR{soa, ns, soa, ns}, ""}, // in a later message: never read
		{"other SOA at the end", []dns.RR{soa, ns, rr("edge.example. 60 SOA a. b. 6 1 1 1 1")}, "the closing SOA differs"},
		{"outside", []dns.RR{soa, ns, rr("www.elsewhere. 60 A 192.0.2.1"), soa}, "www.elsewhere. lies outside of zone edge.example."},
		{"no NS", []dns.RR{soa, rr("www.edge.example. 60 A 192.0.2.1"), soa}, "has no NS record"},
		{"nothing but SOA", []dns.RR{soa, soa}, "has no NS record"},
		{"CNAME and other data", []dns.RR{soa, ns, rr("x.edge.example. 60 CNAME y."), rr("x.edge.example. 60 A 192.0.2.1"), soa}, "has CNAME and other data"},
		{"class CH", []dns.RR{soa, ns, rr("x.edge.example. 60 CH TXT x"), soa}, "is of class CH"},
		{"several faults", []dns.RR{soa, ns, rr("x.a. 60 TXT x"), rr("x.b. 60 TXT x"), soa}, "and 1 more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &primary{addr: (&library{records: tt.records, size: 1}).serve(t).addr, timeout: 2 * time.Second}
			if tt.name == "no end" {
				p.timeout = 200 * time.Millisecond // the library keeps the connection
				tt.want = "transfer is not complete after 200ms"
			}
			z, err := fetchFrom(p, wired(t, "edge.example"), nil)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if (z == nil) != (err != nil) {
				t.Errorf("zone %v, error %v", z, err)
			}
		})
	}
}

// stream is a transfer of a zone as a client receives it, ID 0.
func stream(tb testing.TB, z *zones.Zone, key string, size int) ([]byte, *verifier) {
	tb.Helper()
	var v *verifier
	var signer *Signer
	if key != "" {
		k := keys(tb).named(key)
		request := newSigner(k, time.Now)
		request.prior = []byte("mac of request")
		v = answerTo(request)
		signer = &Signer{key: k, name: k.name, algorithm: k.algorithm, prior: request.prior, now: time.Now}
	}
	var b []byte
	list := rrs(z)
	list = append(list, list[0])
	for i := 0; i < len(list); i += size {
		m := new(dns.Msg)
		m.SetAxfr(z.String())
		m.Id, m.Response = 0, true
		m.Answer = list[i:min(i+size, len(list))]
		msg, err := m.Pack()
		if err != nil {
			tb.Fatal(err)
		}
		if signer != nil {
			msg = signer.Sign(msg)
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(msg)))
		b = append(b, msg...)
	}
	return b, v
}

// Up to 99 messages in a row may go unsigned (RFC 8945 section 5.3.1); the next MAC covers them, and the last message has one.
func TestReceiveUnsignedBetween(t *testing.T) {
	z := large(t, "large.example.", 1, 300)
	k := keys(t).named("key.example")
	for _, tt := range []struct {
		name   string
		signed func(i, last int) bool
		damage int // message in which one octet is changed
		want   string
	}{
		{"first and last", func(i, last int) bool { return i == 0 || i == last || i%100 == 0 }, -1, ""},
		{"each third", func(i, last int) bool { return i%3 == 0 || i == last }, -1, ""},
		{"each third, one changed", func(i, last int) bool { return i%3 == 0 || i == last }, 100, "BADSIG"},
		{"not the first", func(i, last int) bool { return i > 0 }, -1, "not signed"},
		{"not the last", func(i, last int) bool { return i != last }, -1, "not signed"},
		{"a hundred", func(i, last int) bool { return i == 0 || i > 100 }, -1, "not signed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plain, _ := stream(t, z, "", 1)
			var out []byte
			signer := &Signer{key: k, name: k.name, algorithm: k.algorithm, prior: []byte("request"), now: time.Now}
			v := &verifier{key: k, prior: signer.prior, now: time.Now}
			last := len(rrs(z))
			var before []byte // unsigned messages since the last MAC
			for i, r := 0, bytes.NewReader(plain); r.Len() > 0; i++ {
				msg, err := readFrame(r, make([]byte, wire.MaxMessage))
				if err != nil {
					t.Fatal(err)
				}
				if tt.signed(i, last) {
					// A MAC over all messages since is that of one message that begins with them, but for the count of records, which Sign puts into the header.
					h := k.mac()
					writeMAC(h, signer.prior)
					h.Write(before)
					h.Write(msg)
					now := uint64(time.Now().Unix())
					h.Write(variables(k.name, k.algorithm, now, fudge, 0, nil, signer.later))
					mac := h.Sum(nil)
					msg = signer.Sign(bytes.Clone(msg))
					at := len(msg) - 6 - len(mac)
					copy(msg[at:], mac)
					copy(msg[at-10:], appendTime(nil, now))
					signer.prior, before = mac, nil
				} else {
					before = append(before, msg...)
				}
				if i == tt.damage {
					msg[len(msg)-1] ^= 1
				}
				out = binary.BigEndian.AppendUint16(out, uint16(len(msg)))
				out = append(out, msg...)
			}
			got, err := newReceiver(z.Apex(), 0, v).receive(bytes.NewReader(out))
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if err == nil && text(got) != text(z) {
				t.Error("the zone is another one")
			}
		})
	}
}

// A stream that ends anywhere, or has one wrong octet anywhere, is not a zone if it was signed.
func TestReceiveDamage(t *testing.T) {
	z := small(t, 1)
	b, v := stream(t, z, "key.example", 4)
	receive := func(b []byte) (*zones.Zone, error) {
		again := *v
		return newReceiver(z.Apex(), 0, &again).receive(bytes.NewReader(b))
	}
	if _, err := receive(b); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if _, err := receive(b[:i]); err == nil {
			t.Errorf("cut to %d octets it is a zone", i)
		}
		bad := bytes.Clone(b)
		bad[i] ^= 1 << (i % 8)
		if got, err := receive(bad); err == nil && text(got) != text(z) {
			t.Errorf("with another octet %d it is another zone", i)
		}
	}
	r := newReceiver(z.Apex(), 0, nil)
	r.limit = len(b) / 2
	if _, err := r.receive(bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("more than %d octets", len(b)/2)) {
		t.Error(err)
	}
}

func TestFetchTimeout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := &primary{addr: netip.MustParseAddrPort(l.Addr().String()), timeout: 50 * time.Millisecond}
	if _, err := fetchFrom(p, wired(t, "edge.example"), nil); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not complete after 50ms") {
		t.Error(err)
	}
}

// Whatever comes: no panic, and only a sound zone, which goes out and comes in again as it is.
func FuzzReceive(f *testing.F) {
	b, _ := stream(f, small(f, 1), "", 5)
	f.Add(b)
	b, _ = stream(f, small(f, 1), "key.example", 100)
	f.Add(b)
	b, _ = stream(f, zone(f, "edge.example.", "@ 60 SOA a b 1 2 3 4 5\n@ 60 NS c\n"), "", 1)
	f.Add(b)
	apex := wired(f, "edge.example")
	o, _ := out(f, &config.Transfer{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	query, err := request("").Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if z, err := newReceiver(apex, 0, &verifier{key: keys(t).named("key.example"), now: time.Now}).receive(bytes.NewReader(b)); err == nil {
			t.Fatalf("a zone without a good signature: %s", text(z))
		}
		z, err := newReceiver(apex, 0, nil).receive(bytes.NewReader(b))
		if err != nil {
			return
		}
		if z == nil || z.SOA().Count != 1 {
			t.Fatal("no zone, no error")
		}
		run, _ := o.Transfer(query, z, netip.MustParseAddrPort("127.0.0.1:1"), nil, nil)
		var again []byte
		if err := run(func(msg []byte) error {
			again = append(binary.BigEndian.AppendUint16(again, uint16(len(msg))), msg...)
			return nil
		}); err != nil {
			return // too large for a message
		}
		back, err := newReceiver(apex, binary.BigEndian.Uint16(query), nil).receive(bytes.NewReader(again))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text(z), text(back)); diff != "" {
			t.Error(diff)
		}
	})
}
