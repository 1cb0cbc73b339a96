package zonefile_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// conformCase is one question to the zones of testdata/conformance and what must come back. Records are written NAME TTL TYPE RDATA, sections are compared as sets;
// answer_of are those that may come, authority may be "soa ZONE" or "none".
type conformCase struct {
	ID            string
	Ref           string
	Why           string
	Q             string
	RCode         any      `toml:"rcode"` // one or a list
	Want          string   // flags; "-" before those that must be off
	Answer        []string // nil: anything
	AnswerHas     []string `toml:"answer_has"`
	AnswerNot     []string `toml:"answer_not"`
	AnswerOf      []string `toml:"answer_of"`
	Ordered       bool
	Authority     any
	AuthorityNot  []string `toml:"authority_not"`
	Additional    []string
	AdditionalHas []string `toml:"additional_has"`
	EDNS          string
	Need          []string
	Via           string
	Prop          string
	Arg           map[string]any
}

// TestConform plays the cases of testdata/cases: text of zones in, octets of answers out.
func TestConform(t *testing.T) {
	s, _ := load(t, conformance(t))
	files, err := filepath.Glob("testdata/cases/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		var list struct{ Case []conformCase }
		if md, err := toml.DecodeFile(file, &list); err != nil || len(md.Undecoded()) > 0 {
			t.Fatal(file, err, md.Undecoded())
		}
		for _, c := range list.Case {
			t.Run(c.ID, func(t *testing.T) { c.run(t, s) })
		}
	}
}

func (c *conformCase) run(t *testing.T, s *zones.Set) {
	m := ask(t, s, c.Q)
	codes, ok := c.RCode.([]any)
	if !ok {
		codes = []any{c.RCode}
	}
	if got := dns.RcodeToString[m.Rcode]; c.RCode != nil && !slices.Contains(codes, any(got)) {
		t.Errorf("rcode %s, want %v", got, c.RCode)
	}
	for flag := range strings.FieldsSeq(c.Want) {
		switch on := !strings.HasPrefix(flag, "-"); strings.TrimPrefix(flag, "-") {
		case "aa":
			if m.Authoritative != on {
				t.Errorf("aa is %v", m.Authoritative)
			}
		case "tc":
			if m.Truncated != on {
				t.Errorf("tc is %v", m.Truncated)
			}
		}
	}
	answer, authority, additional := lines(m.Answer), lines(m.Ns), lines(m.Extra)
	if c.Answer != nil {
		same(t, "answer", answer, c.Answer, c.Ordered)
	}
	contains(t, "answer", answer, c.AnswerHas, true)
	contains(t, "answer", answer, c.AnswerNot, false)
	for _, line := range answer {
		if c.AnswerOf != nil && !slices.Contains(parsed(t, c.AnswerOf), line) {
			t.Errorf("answer has %s", line)
		}
	}
	switch want := c.Authority.(type) {
	case []any:
		var list []string
		for _, v := range want {
			list = append(list, v.(string))
		}
		same(t, "authority", authority, list, false)
	case string:
		zone, soa := strings.CutPrefix(want, "soa ")
		if want == "none" && len(authority) > 0 || soa && (len(authority) != 1 || !strings.HasPrefix(authority[0], zone+" ") || !strings.Contains(authority[0], " SOA ")) {
			t.Errorf("authority %q, want %s", authority, want)
		}
	}
	contains(t, "authority", authority, c.AuthorityNot, false)
	if c.Additional != nil {
		same(t, "additional", additional, c.Additional, false)
	}
	contains(t, "additional", additional, c.AdditionalHas, true)
}

// lines are records as the cases write them, in lower case but for the type.
func lines(rrs []dns.RR) []string {
	out := []string{}
	for _, rr := range rrs {
		if rr.Header().Rrtype == dns.TypeOPT {
			continue
		}
		f := strings.SplitN(rr.String(), "\t", 5)
		out = append(out, strings.ToLower(f[0])+" "+f[1]+" "+f[3]+" "+strings.ToLower(f[4]))
	}
	return out
}

// parsed brings the records of a case into the form of lines.
func parsed(t *testing.T, list []string) []string {
	var rrs []dns.RR
	for _, text := range list {
		f := strings.SplitN(text, " ", 4)
		rr, err := dns.NewRR(f[0] + " " + f[1] + " IN " + f[2] + " " + f[3])
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1<<16) // there and back: the order of SVCB parameters
		n, err := dns.PackRR(rr, buf, 0, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		rr, _, err = dns.UnpackRR(buf[:n], 0)
		if err != nil {
			t.Fatal(err)
		}
		rrs = append(rrs, rr)
	}
	return lines(rrs)
}

func same(t *testing.T, what string, got, list []string, ordered bool) {
	t.Helper()
	want := parsed(t, list)
	if !ordered {
		got = slices.Sorted(slices.Values(got))
		slices.Sort(want)
	}
	if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// contains looks for whole records, or NAME TYPE, or TYPE.
func contains(t *testing.T, what string, got, list []string, want bool) {
	t.Helper()
	for _, text := range list {
		f := strings.Fields(text)
		has := slices.ContainsFunc(got, func(line string) bool {
			g := strings.Fields(line)
			switch len(f) {
			case 1:
				return g[2] == f[0]
			case 2:
				return g[0] == f[0] && g[2] == f[1]
			}
			return line == parsed(t, []string{text})[0]
		})
		if has != want {
			t.Errorf("%s %q: has %q is %v", what, got, text, has)
		}
	}
}

// ask sends a question, "NAME TYPE", through a Set and a Builder.
func ask(t *testing.T, s *zones.Set, question string) *dns.Msg {
	t.Helper()
	i := strings.LastIndexByte(question, ' ')
	typ, ok := dns.StringToType[question[i+1:]]
	if !ok {
		rr, err := dns.NewRR(". 0 IN " + question[i+1:] + ` \# 0`)
		if err != nil {
			t.Fatal(err)
		}
		typ = rr.Header().Rrtype
	}
	m := new(dns.Msg)
	m.SetQuestion(question[:i], typ)
	msg, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var q wire.Query
	if status := q.Parse(msg); status != wire.OK {
		t.Fatalf("status %v", status)
	}
	var b wire.Builder
	b.Begin(&q, make([]byte, 0, wire.MaxMessage), wire.MaxMessage)
	answer(&b, s, &q)
	out := b.Finish()
	got := new(dns.Msg)
	if err := got.Unpack(out); err != nil {
		t.Fatal(err)
	}
	if string(out[wire.HeaderSize:len(msg)]) != string(msg[wire.HeaderSize:]) {
		t.Errorf("question %v came back as %v", m.Question[0], got.Question[0])
	}
	return got
}

// answer is the straight line of a server that has static records only.
func answer(b *wire.Builder, s *zones.Set, q *wire.Query) {
	name, r := q.Name, s.Lookup(q)
	seen := map[string]bool{string(name): true}
	for link := range 9 {
		own := link == 0
		if own {
			b.SetAA(r.Kind != zones.Refused && r.Kind != zones.Referral)
		}
		switch r.Kind {
		case zones.Refused:
			if own {
				b.SetRCode(wire.RCodeRefused)
			}
			return
		case zones.Referral:
			if own && !r.AppendReferral(b) {
				b.Truncate()
			}
			return
		case zones.NXDomain, zones.NoData:
			if r.Kind == zones.NXDomain {
				b.SetRCode(wire.RCodeNXDomain)
			}
			r.Zone.AppendNegative(b, 1<<31-1)
			return
		case zones.Rename:
			target, ok := r.Rename(nil, name)
			if !ok {
				b.SetRCode(wire.RCodeYXDomain)
				r.RRset.Append(b, wire.Answer, r.Owner(), false)
				return
			}
			r.AppendRename(b, name, target, false)
			name = target
		default:
			if !r.RRset.Append(b, wire.Answer, name, own) {
				b.Truncate()
				return
			}
			if r.Kind == zones.Answer {
				r.Zone.AppendAdditional(b, r.RRset, name)
				return
			}
			name = r.RRset.Target()
		}
		if seen[string(name)] {
			b.SetRCode(wire.RCodeServFail)
			return
		}
		seen[string(name)] = true
		r = r.Zone.Find(name, q.Type)
	}
}
