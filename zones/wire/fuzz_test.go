package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// Why a message is FORMERR, by the slow twin of Parse. The library is laxer in those of lax: it may unpack such a message.
const (
	whyQuestions  = "not exactly one question"           // RFC 9619
	whyQuestion   = "question name cut or too long"      // lax: no octet at all after the header
	whyCompressed = "compressed question name"           // lax: pointers into the header
	whyFixed      = "question cut after its name"        // lax: it leaves out what is not there
	whyOwner      = "owner cut or too long"              //
	whyPointer    = "pointer that does not lead back"    // lax: pointers forwards
	whyCut        = "record cut"                         // lax: counts greater than what is there
	whyTrailing   = "octets after the last record"       // lax: ignored
	whyOPT        = "OPT misplaced, repeated, of a name" // lax: a record like others
	whyOptions    = "option cut"                         //
	whyECS        = "client subnet"                      // lax: octets, bits past the source, scope, two options
	whyCookie     = "cookie length"                      // lax: any
	whyTSIG       = "TSIG misplaced or damaged"          // lax: a record like others
)

var lax = []string{whyQuestions, whyQuestion, whyCompressed, whyFixed, whyPointer, whyCut, whyTrailing, whyOPT, whyECS, whyCookie, whyTSIG}

// twinRecord is a record as the twin sees it.
type twinRecord struct {
	section    int // 0 answer, 1 authority, 2 additional
	owner      string
	plainOwner bool // without pointers
	off        int
	typ, class uint16
	ttl        uint32
	rdata      []byte
	last       bool
}

// twin says why a message with a header is FORMERR, "" if it is not, in the most obvious way: names are read by the
// library, one rule after the other is looked at. It also returns the records.
func twin(msg []byte) (why string, records []twinRecord) {
	count := func(i int) int { return int(binary.BigEndian.Uint16(msg[4+2*i:])) }
	if count(0) > 1 {
		return whyQuestions, nil
	}
	off := HeaderSize
	if count(0) == 1 {
		_, end, err := dns.UnpackDomainName(msg, off)
		if err != nil {
			return whyQuestion, nil
		}
		if end-off != wireLen(msg[off:end]) {
			return whyCompressed, nil
		}
		if off = end + 4; off > len(msg) {
			return whyFixed, nil
		}
	}
	for section := range 3 {
		for i := range count(1 + section) {
			if off >= len(msg) {
				return whyCut, nil
			}
			owner, end, err := dns.UnpackDomainName(msg, off)
			if err != nil {
				return whyOwner, nil
			}
			if !backwards(msg, off) {
				return whyPointer, nil
			}
			r := twinRecord{section: section, owner: owner, off: off, plainOwner: end-off == wireLen(msg[off:end])}
			if end+10 > len(msg) {
				return whyCut, nil
			}
			r.typ, r.class = binary.BigEndian.Uint16(msg[end:]), binary.BigEndian.Uint16(msg[end+2:])
			r.ttl = binary.BigEndian.Uint32(msg[end+4:])
			off = end + 10 + int(binary.BigEndian.Uint16(msg[end+8:]))
			if off > len(msg) {
				return whyCut, nil
			}
			r.rdata = msg[end+10 : off]
			r.last = section == 2 && i == count(3)-1
			records = append(records, r)
		}
	}
	if off != len(msg) {
		return whyTrailing, nil
	}
	opts := 0
	for _, r := range records {
		switch r.typ {
		case TypeOPT:
			opts++
			if r.section != 2 || r.owner != "." || !r.plainOwner || opts > 1 {
				return whyOPT, nil
			}
			if r.ttl>>16&0xff == 0 {
				if why := twinOptions(r.rdata); why != "" {
					return why, nil
				}
			}
		case TypeTSIG:
			if !r.last || r.class != ClassANY || r.ttl != 0 {
				return whyTSIG, nil
			}
			// algorithm, time 6, fudge 2, MAC, ID 2, error 2, other
			n := wireLen(r.rdata)
			d := r.rdata
			if n < 0 || len(d) < n+10 {
				return whyTSIG, nil
			}
			mac := int(binary.BigEndian.Uint16(d[n+8:]))
			if len(d) < n+10+mac+6 {
				return whyTSIG, nil
			}
			if other := int(binary.BigEndian.Uint16(d[n+10+mac+4:])); len(d) != n+10+mac+6+other {
				return whyTSIG, nil
			}
		}
	}
	if count(0) == 0 {
		return whyQuestions, records
	}
	return "", records
}

// twinOptions reads the options of version 0.
func twinOptions(d []byte) string {
	subnets, cookies := 0, 0
	for len(d) > 0 {
		if len(d) < 4 || len(d) < 4+int(binary.BigEndian.Uint16(d[2:])) {
			return whyOptions
		}
		code, data := binary.BigEndian.Uint16(d), d[4:4+int(binary.BigEndian.Uint16(d[2:]))]
		d = d[4+len(data):]
		switch code {
		case OptionECS:
			subnets++
			if subnets > 1 || !twinECS(data) {
				return whyECS
			}
		case OptionCookie:
			cookies++
			if n := len(data); cookies == 1 && n != 8 && (n < 16 || n > 40) {
				return whyCookie
			}
		}
	}
	return ""
}

// twinECS: the address must be the whole address masked to the source length, cut to its octets.
func twinECS(d []byte) bool {
	if len(d) < 4 || d[3] != 0 {
		return false
	}
	bits, full := int(d[2]), map[uint16]int{0: 0, 1: 4, 2: 16}
	octets, ok := full[binary.BigEndian.Uint16(d)]
	if !ok || bits > 8*octets {
		return false
	}
	if octets == 0 {
		return len(d) == 4
	}
	whole := make([]byte, octets)
	if copy(whole, d[4:]) != len(d)-4 {
		return false
	}
	addr, _ := netip.AddrFromSlice(whole)
	masked, err := addr.Prefix(bits)
	return err == nil && masked.Addr() == addr && len(d)-4 == (bits+7)/8
}

// wireLen is the length of the uncompressed name at the start of b, -1 if there is none.
func wireLen(b []byte) int {
	n := 0
	for n < len(b) && n < 255 {
		switch {
		case b[n] == 0:
			return n + 1
		case b[n] > 63:
			return -1
		}
		n += 1 + int(b[n])
	}
	return -1
}

// backwards reports whether each pointer of a name that the library can read leads to before what led to it.
func backwards(msg []byte, off int) bool {
	start := off
	for msg[off] != 0 {
		if msg[off] < 0xc0 {
			off += 1 + int(msg[off])
			continue
		}
		to := int(binary.BigEndian.Uint16(msg[off:]) & 0x3fff)
		if to >= start || to < HeaderSize {
			return false
		}
		start, off = to, to
	}
	return true
}

// FuzzParse holds Parse against its slow twin (the status) and against the library (the facts).
func FuzzParse(f *testing.F) {
	for _, msg := range parseSeeds(f) {
		f.Add(msg)
	}
	q := new(Query)
	f.Fuzz(func(t *testing.T, msg []byte) {
		if len(msg) <= MaxMessage {
			checkParse(t, q, msg)
		}
	})
}

func parseSeeds(tb testing.TB) [][]byte {
	var seeds [][]byte
	for _, tt := range statusTests {
		seeds = append(seeds, raw(tb, tt.msg))
	}
	return append(seeds, raw(tb, benchQuery),
		raw(tb, withOPT+" o:0008000a0002300020010db80001000a00100102030405060708010203040506070800030000000c0001ff"))
}

// TestParseDamaged is a short FuzzParse that needs no fuzzing: messages of every kind with seeded damage.
func TestParseDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	seeds := parseSeeds(t)
	q := new(Query)
	statuses := map[Status]int{}
	for range 30000 {
		msg := slices.Clone(seeds[rng.IntN(len(seeds))])
		for range rng.IntN(3) {
			if len(msg) < HeaderSize {
				break
			}
			switch rng.IntN(6) {
			case 0:
				msg[rng.IntN(len(msg))] ^= 1 << rng.IntN(8)
			case 1:
				msg = msg[:rng.IntN(len(msg))]
			case 2:
				msg = append(msg, make([]byte, rng.IntN(20))...)
			case 3:
				msg[5+2*rng.IntN(4)] = byte(rng.IntN(4))
			case 4:
				i := rng.IntN(len(msg) - 1)
				binary.BigEndian.PutUint16(msg[i:], 0xc000|uint16(rng.IntN(len(msg))))
			case 5:
				i := rng.IntN(len(msg))
				msg = slices.Insert(msg, i, byte(rng.IntN(64)))
			}
		}
		statuses[checkParse(t, q, msg)]++
	}
	for s := range BadVers + 1 {
		if statuses[s] < 100 {
			t.Errorf("status %d came %d times only", s, statuses[s])
		}
	}
}

// checkParse fails if Parse is wrong about a message, and returns its status.
func checkParse(t *testing.T, q *Query, msg []byte) Status {
	t.Helper()
	sent := slices.Clone(msg)
	status := q.Parse(msg)
	if !bytes.Equal(sent, msg) {
		t.Fatal("the message was changed")
	}
	if len(msg) < HeaderSize || msg[2]&0x80 != 0 {
		if status != Drop {
			t.Fatalf("status %d, want Drop", status)
		}
		return status
	}
	why, records := twin(msg)
	want := OK
	switch op := msg[2] >> 3 & 15; {
	case op != OpQuery && op != OpNotify:
		want = NotImp
	case why != "":
		want = FormErr
	}
	var version uint8
	for _, r := range records {
		if r.typ == TypeOPT {
			version = uint8(r.ttl >> 16)
		}
	}
	if version != 0 && (want == OK || why == whyQuestions && want == FormErr) {
		want = BadVers
	}
	if status != want {
		t.Fatalf("status %d, want %d (%s): %x", status, want, why, msg)
	}
	whole := new(dns.Msg)
	err := whole.Unpack(msg)
	if err == nil && why != "" && !slices.Contains(lax, why) {
		t.Fatalf("FORMERR (%s), but the library unpacks %x", why, msg)
	}
	if status != OK {
		return status
	}
	sameFacts(t, q, essence(t, msg, records))
	if err == nil && len(records) <= 1 {
		sameFacts(t, q, whole)
	}
	return status
}

// essence unpacks the part of an accepted message that Parse takes facts from: header, question and, of the OPT record,
// client subnet and cookie. Other records and options, which Parse passes over, may hold what the library refuses.
func essence(t *testing.T, msg []byte, records []twinRecord) *dns.Msg {
	q := HeaderSize + wireLen(msg[HeaderSize:]) + 4
	b := slices.Clone(msg[:q])
	clear(b[6:12])
	for _, r := range records {
		if r.typ != TypeOPT {
			continue
		}
		b[11] = 1
		b = append(b, msg[r.off:r.off+9]...)
		var options []byte
		for d := r.rdata; len(d) > 0; {
			n := 4 + int(binary.BigEndian.Uint16(d[2:]))
			if code := binary.BigEndian.Uint16(d); code == OptionECS || code == OptionCookie {
				options = append(options, d[:n]...)
			}
			d = d[n:]
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(options)))
		b = append(b, options...)
	}
	m := new(dns.Msg)
	if err := m.Unpack(b); err != nil {
		t.Fatalf("accepted, but the library says %v: %x", err, b)
	}
	return m
}

// sameFacts compares what Parse read with what the library did.
func sameFacts(t *testing.T, q *Query, m *dns.Msg) {
	t.Helper()
	if q.ID != m.Id || int(q.Opcode) != m.Opcode || q.RD != m.RecursionDesired || q.CD != m.CheckingDisabled || q.AD != m.AuthenticatedData {
		t.Fatalf("header: %d %d %v %v %v, the library has %v", q.ID, q.Opcode, q.RD, q.CD, q.AD, m.MsgHdr)
	}
	buf := make([]byte, MaxName+1)
	end, err := dns.PackDomainName(m.Question[0].Name, buf, 0, nil, false)
	if err != nil || !bytes.Equal(buf[:end], q.RawName) || q.Type != m.Question[0].Qtype || q.Class != m.Question[0].Qclass {
		t.Fatalf("question: %x %d %d, the library has %v", q.RawName, q.Type, q.Class, m.Question[0])
	}
	if !bytes.Equal(q.Name, ToLower(nil, q.RawName)) || q.Labels != dns.CountLabel(m.Question[0].Name) {
		t.Fatalf("name: %x of %d labels for %x", q.Name, q.Labels, q.RawName)
	}
	for i := range q.Labels + 1 {
		if CountLabels(q.Suffix(i)) != q.Labels-i {
			t.Fatalf("suffix %d of %x is %x", i, q.Name, q.Suffix(i))
		}
	}
	opt := m.IsEdns0()
	if q.HasOPT != (opt != nil) {
		t.Fatalf("HasOPT %v, the library has %v", q.HasOPT, opt)
	}
	var ecs *dns.EDNS0_SUBNET
	var cookie *dns.EDNS0_COOKIE
	if opt != nil {
		if q.UDPSize != opt.UDPSize() || q.Version != opt.Version() || q.DO != opt.Do() {
			t.Fatalf("OPT: %d %d %v, the library has %v", q.UDPSize, q.Version, q.DO, opt)
		}
		for _, o := range opt.Option {
			switch o := o.(type) {
			case *dns.EDNS0_SUBNET:
				ecs = o
			case *dns.EDNS0_COOKIE:
				if cookie == nil {
					cookie = o
				}
			}
		}
	}
	if q.HasECS != (ecs != nil) {
		t.Fatalf("HasECS %v, the library has %v", q.HasECS, ecs)
	}
	if ecs != nil {
		addr, _ := netip.AddrFromSlice(ecs.Address)
		switch ecs.Family {
		case 0:
			addr = netip.Addr{}
		case 1:
			addr = addr.Unmap()
		}
		if q.ECS != (ECS{ecs.Family, ecs.SourceNetmask, addr}) || ecs.SourceScope != 0 {
			t.Fatalf("client subnet %v, the library has %v", q.ECS, ecs)
		}
	}
	if (q.Cookie == nil) != (cookie == nil) || cookie != nil && hex.EncodeToString(q.Cookie) != cookie.Cookie {
		t.Fatalf("cookie %x, the library has %v", q.Cookie, cookie)
	}
}

// FuzzBuild writes responses of random records and reads them with the library: the same records in the same sections,
// names in whatever case, never over the limit, TC only when it was asked for, and no longer than the library's own.
func FuzzBuild(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, uint16(512+100*seed), true)
		f.Add(seed, uint16(65535), false)
	}
	b, buf := new(Builder), newBuffer()
	f.Fuzz(func(t *testing.T, seed uint64, limit uint16, edns bool) {
		checkBuild(t, b, buf, seed, max(int(limit), MinLimit), edns)
	})
}

// TestBuildRandom is a short FuzzBuild that needs no fuzzing.
func TestBuildRandom(t *testing.T) {
	b, buf := new(Builder), newBuffer()
	for seed := range uint64(500) {
		checkBuild(t, b, buf, seed, MinLimit+int(seed)*4, seed%3 != 0)
	}
}

// checkBuild fails if the response of that seed is wrong.
func checkBuild(t *testing.T, b *Builder, buf []byte, seed uint64, limit int, edns bool) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	names := relatedNames(rng)
	pick := func() []byte { return names[rng.IntN(len(names))] }

	text := "1234 0100 0001 0000 0000 0000"
	if edns {
		text = "1234 0100 0001 0000 0000 0001"
	}
	msg := append(append(raw(t, text), pick()...), 0, 1, 0, 1)
	if edns {
		msg = append(msg, raw(t, []string{"o:", "o:0008000700011800c00002", "o:00030000000a00080102030405060708"}[rng.IntN(3)])...)
	}
	q := new(Query)
	if s := q.Parse(msg); s != OK {
		t.Fatalf("status %d", s)
	}
	b.OPT = OPT{}
	if edns {
		b.OPT = OPT{NSID: []byte("dns-a"), Scope: uint8(rng.IntN(33)), Cookie: q.Cookie, HasEDE: rng.IntN(2) == 0, EDEText: "text", Pad: rng.IntN(2) * 128}
	}
	b.Begin(q, buf, limit)
	reserved := b.optReserve()

	var want [3][]dns.RR
	mark, marked := b.Mark(), want
	modern, cut := false, false
	sec := Answer
	for range rng.IntN(80) {
		if rng.IntN(10) == 0 && sec < Additional {
			sec++
		}
		switch rng.IntN(12) {
		case 0:
			mark = b.Mark()
			for i := range want {
				marked[i] = slices.Clone(want[i])
			}
		case 1:
			b.Rollback(mark)
			for i := range want {
				want[i] = slices.Clone(marked[i])
			}
		default:
			x, old := randomRR(rng, pick)
			r := packed(t, x)
			before := b.Len()
			switch ok := r.appendTo(b, sec); {
			case ok:
				want[sec] = append(want[sec], x)
				modern = modern || !old
			case before+r.size() <= limit-reserved:
				t.Fatalf("%v does not fit: %d octets written, %d needed at most, limit %d", x, before, r.size(), limit)
			default:
				cut = true
			}
		}
	}
	if cut {
		b.Truncate()
	}
	rcode := []uint16{RCodeNoError, RCodeNXDomain, RCodeBadCookie}[rng.IntN(3)]
	b.SetRCode(rcode)
	b.SetAA(true)
	got := b.Finish()
	if len(got) > limit {
		t.Fatalf("%d octets, limit %d", len(got), limit)
	}
	m := unpacked(t, got)
	if m.Truncated != cut || !m.Authoritative || !m.Response || m.Id != 0x1234 || !m.RecursionDesired {
		t.Fatalf("header %v", m.MsgHdr)
	}
	if rcode > 15 && !edns {
		rcode = RCodeServFail
	}
	if m.Rcode != int(rcode) {
		t.Fatalf("rcode %d, want %d", m.Rcode, rcode)
	}
	opt := m.IsEdns0()
	if (opt != nil) != edns {
		t.Fatalf("OPT %v", opt)
	}
	extra := m.Extra
	if edns {
		if extra[len(extra)-1] != dns.RR(opt) {
			t.Fatal("OPT is not the last record")
		}
		extra = extra[:len(extra)-1]
	}
	for i, have := range [][]dns.RR{m.Answer, m.Ns, extra} {
		if len(have) != len(want[i]) {
			t.Fatalf("section %d: %d records, want %d", i, len(have), len(want[i]))
		}
		for k := range have {
			if h, w := have[k].String(), want[i][k].String(); !strings.EqualFold(h, w) {
				t.Fatalf("section %d: %s\nwant %s", i, h, w)
			}
		}
	}
	// The library takes any name it has met as the target of a pointer, we only those where compression is allowed.
	if m.Compress = true; !modern && !cut {
		if again, err := m.Pack(); err != nil || len(got) > len(again) {
			t.Fatalf("%d octets, the library makes it %d (%v)", len(got), len(again), err)
		}
	}
}

// relatedNames are names that share endings, in mixed case.
func relatedNames(rng *rand.Rand) [][]byte {
	names := [][]byte{{0}}
	for range 12 {
		parent := names[rng.IntN(len(names))]
		l := 1 + rng.IntN(3)
		if rng.IntN(8) == 0 {
			l = MaxLabel
		}
		if len(parent)+1+l > MaxName {
			continue
		}
		n := []byte{byte(l)}
		for range l {
			n = append(n, "abAB\x00.\xc1\xe1"[rng.IntN(8)])
		}
		names = append(names, append(n, parent...))
	}
	return names
}

// randomRR is a record; old means that all its names may be compressed.
func randomRR(rng *rand.Rand, pick func() []byte) (x dns.RR, old bool) {
	name := func() string { return NameString(pick()) }
	h := dns.RR_Header{Name: name(), Class: dns.ClassINET, Ttl: rng.Uint32() >> 1}
	set := func(typ uint16) dns.RR_Header { h.Rrtype = typ; return h }
	switch rng.IntN(12) {
	case 0:
		return &dns.NS{Hdr: set(TypeNS), Ns: name()}, true
	case 1:
		return &dns.CNAME{Hdr: set(TypeCNAME), Target: name()}, true
	case 2:
		return &dns.SOA{Hdr: set(TypeSOA), Ns: name(), Mbox: name(), Serial: rng.Uint32()}, true
	case 3:
		return &dns.MX{Hdr: set(TypeMX), Preference: uint16(rng.IntN(100)), Mx: name()}, true
	case 4:
		return &dns.PTR{Hdr: set(TypePTR), Ptr: name()}, true
	case 5:
		return &dns.MINFO{Hdr: set(TypeMINFO), Rmail: name(), Email: name()}, true
	case 6:
		return &dns.SRV{Hdr: set(TypeSRV), Port: 53, Target: name()}, false
	case 7:
		return &dns.DNAME{Hdr: set(TypeDNAME), Target: name()}, false
	case 8:
		return &dns.RP{Hdr: set(dns.TypeRP), Mbox: name(), Txt: name()}, false
	case 9:
		return &dns.SVCB{Hdr: set(TypeSVCB), Priority: 1, Target: name()}, false
	case 10:
		return &dns.TXT{Hdr: set(TypeTXT), Txt: []string{strings.Repeat("t", rng.IntN(200))}}, true
	}
	return &dns.A{Hdr: set(TypeA), A: []byte{192, 0, 2, byte(rng.IntN(256))}}, true
}
