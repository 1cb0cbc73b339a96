package zones_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/filters"
	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// steered is a record with a pool of endpoints of one PoP each. An answer is its addresses, or rdata of another type, by index in Endpoint.Addresses.
func steered(t testing.TB, owner string, typ uint16, answers ...[]string) *zones.Record {
	t.Helper()
	c := config(t, owner, typ, answers...)
	r, err := zones.NewRecord(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func config(t testing.TB, owner string, typ uint16, answers ...[]string) zones.RecordConfig {
	t.Helper()
	pool := &filters.Pool{}
	c := zones.RecordConfig{Name: name(t, owner), Type: typ, TTL: 30, TTLMin: 5, Chain: &filters.Chain{}, Pool: pool}
	for i, texts := range answers {
		pool.Answers = append(pool.Answers, filters.Answer{Label: fmt.Sprint(i), PoP: i, Unit: pops.Unit(i)})
		var rdata []zones.RData
		for j, text := range texts {
			if text == "" {
				continue
			}
			rr, err := dns.NewRR(fmt.Sprintf("%s 30 IN %s %s", owner, dns.TypeToString[typ], text))
			if err != nil {
				t.Fatal(err)
			}
			_, octets := pack(t, rr)
			rdata = append(rdata, zones.RData{Octets: octets, Address: j})
		}
		c.Answers = append(c.Answers, rdata)
	}
	return c
}

// run makes an Exec as a chain leaves it: these answers, on this rung; dead is by unit.
func run(r *zones.Record, rung uint8, dead map[int]uint64, serve ...int) *filters.Exec {
	view := &pops.View{States: make([]pops.State, len(r.Pool.Answers)), Fleet: &pops.Fleet{}}
	for i := range view.States {
		view.States[i] = pops.State{Share: 100, Said: 100, Dead: dead[i], Shift: pops.NoUnit}
	}
	client := geo.NewClient(netip.MustParseAddr("192.0.2.1"), 24, netip.MustParseAddr("192.0.2.1"))
	x := &filters.Exec{Client: &client, View: view}
	x.Begin(r.Pool)
	for _, i := range serve {
		x.Add(i)
	}
	x.Rung = rung
	return x
}

func TestRecordAppend(t *testing.T) {
	four := [][]string{{"192.0.2.1", "192.0.2.2"}, {"198.51.100.1"}, {"", "192.0.2.2", "203.0.113.1"}}
	for _, tt := range []struct {
		name    string
		typ     uint16
		answers [][]string
		rung    uint8
		dead    map[int]uint64
		list    []int
		want    []string
	}{
		{"one", dns.TypeA, four, 1, nil, []int{1}, []string{"198.51.100.1"}},
		{"order of the list", dns.TypeA, four, 1, nil, []int{1, 0}, []string{"198.51.100.1", "192.0.2.1", "192.0.2.2"}},
		{"each address once", dns.TypeA, four, 1, nil, []int{2, 0}, []string{"192.0.2.2", "203.0.113.1", "192.0.2.1"}},
		{"nothing chosen", dns.TypeA, four, 1, nil, nil, nil},
		{"dead address", dns.TypeA, four, 1, map[int]uint64{0: 1}, []int{0}, []string{"192.0.2.2"}},
		{"dead address on rung 2", dns.TypeA, four, 2, map[int]uint64{0: 2}, []int{0}, []string{"192.0.2.1"}},
		{"health ignored on rung 3", dns.TypeA, four, 3, map[int]uint64{0: 1}, []int{0}, []string{"192.0.2.1", "192.0.2.2"}},
		{"on rung 4", dns.TypeA, four, 4, map[int]uint64{0: 3}, []int{0}, []string{"192.0.2.1", "192.0.2.2"}},
		{"without up", dns.TypeA, four, 0, map[int]uint64{0: 1}, []int{0}, []string{"192.0.2.1", "192.0.2.2"}},
		{"all dead: none is left out", dns.TypeA, four, 1, map[int]uint64{0: 3}, []int{0}, []string{"192.0.2.1", "192.0.2.2"}},
		{"one of two all dead", dns.TypeA, four, 1, map[int]uint64{0: 3}, []int{0, 1}, []string{"198.51.100.1"}},
		{"dead of the other family", dns.TypeA, [][]string{{"", "192.0.2.1"}}, 1, map[int]uint64{0: 1}, []int{0}, []string{"192.0.2.1"}},
		{"one CNAME", dns.TypeCNAME, [][]string{{"A.example."}, {"b.example."}}, 1, nil, []int{1, 0}, []string{"b.example."}},
		{"lower case", dns.TypeCNAME, [][]string{{"A.example."}}, 1, nil, []int{0}, []string{"a.example."}},
		{"several records", dns.TypeTXT, [][]string{{"a", "b"}, {"b", "c"}}, 1, nil, []int{0, 1}, []string{`"a"`, `"b"`, `"c"`}},
		{"MX", dns.TypeMX, [][]string{{"10 a.example."}, {"20 b.example."}}, 1, nil, []int{0, 1}, []string{"10 a.example.", "20 b.example."}},
	} {
		for _, own := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%v", tt.name, own), func(t *testing.T) {
				r := steered(t, "*.steer.example.", tt.typ, tt.answers...)
				rep := begin(t, "x.Steer.example.", tt.typ, 1232)
				n, whole := r.Append(&rep.b, rep.q.Name, own, 7, run(r, tt.rung, tt.dead, tt.list...))
				if n != len(tt.want) || !whole {
					t.Errorf("%d records, whole %v", n, whole)
				}
				var lines []string
				for _, rdata := range tt.want {
					lines = append(lines, fmt.Sprintf("0 x.Steer.example. 7 %s %s", dns.TypeToString[tt.typ], rdata))
				}
				want(t, rep.records(t), lines...)
			})
		}
	}
}

func TestRecordAppendTTL(t *testing.T) {
	r := steered(t, "s.example.", dns.TypeA, []string{"192.0.2.1"})
	for _, ttl := range []uint32{30, 5, 0} {
		for _, own := range []bool{true, false} {
			rep := begin(t, "s.example.", dns.TypeA, 512)
			r.Append(&rep.b, rep.q.Name, own, ttl, run(r, 1, nil, 0))
			want(t, rep.records(t), fmt.Sprintf("0 s.example. %d A 192.0.2.1", ttl))
		}
	}
}

// What does not fit whole is not there at all.
func TestRecordAppendWhole(t *testing.T) {
	var answers [][]string
	var list []int
	for i := range 100 {
		answers = append(answers, []string{fmt.Sprintf("192.0.2.%d", i)})
		list = append(list, i)
	}
	r := steered(t, "s.example.", dns.TypeA, answers...)
	fits := 0
	for limit := 512; limit < 2000; limit++ {
		rep := begin(t, "s.example.", dns.TypeA, limit)
		n, whole := r.Append(&rep.b, rep.q.Name, true, 30, run(r, 1, nil, list...))
		got := rep.records(t)
		if whole != (n == 100) || !whole && (n != 0 || got != "") || whole && strings.Count(got, "\n") != 99 {
			t.Fatalf("limit %d: %d records, whole %v", limit, n, whole)
		}
		if whole {
			fits++
		}
	}
	if fits == 0 {
		t.Error("never fits")
	}
}

func TestRecordCandidates(t *testing.T) {
	answers := [][]string{{"192.0.2.1"}, {}, {"192.0.2.3"}}
	for typ, v6 := range map[uint16]bool{dns.TypeA: false, dns.TypeAAAA: true} {
		c := config(t, "s.example.", dns.TypeA, answers...)
		c.Type = typ
		if v6 {
			for i := range c.Answers {
				for j := range c.Answers[i] {
					c.Answers[i][j].Octets = make([]byte, 16)
				}
			}
		}
		r, err := zones.NewRecord(c)
		if err != nil {
			t.Fatal(err)
		}
		x := run(r, 0, nil)
		r.Candidates(x)
		var got []int
		for _, c := range x.List {
			got = append(got, int(c.Answer))
		}
		if !slices.Equal(got, []int{0, 2}) || x.V6 != v6 {
			t.Errorf("%v, v6 %v", got, x.V6)
		}
	}
}

func TestRecordTarget(t *testing.T) {
	r := steered(t, "s.example.", dns.TypeCNAME, []string{"A.example."}, []string{"b.example."})
	for want, list := range map[string][]int{"a.example.": {0, 1}, "b.example.": {1, 0}, "": nil} {
		got := r.Target(run(r, 1, nil, list...))
		if want == "" && got != nil || want != "" && wire.NameString(got) != want {
			t.Errorf("got %v, want %q", got, want)
		}
	}
}

func TestRecordWithheld(t *testing.T) {
	for rung := range uint8(5) {
		for _, policy := range []zones.AllDown{zones.Serve, zones.GiveNoData, zones.GiveServFail} {
			c := config(t, "s.example.", dns.TypeA, []string{"192.0.2.1"})
			c.AllDown = policy
			r, err := zones.NewRecord(c)
			if err != nil {
				t.Fatal(err)
			}
			want := zones.Serve
			if rung >= 3 {
				want = policy
			}
			if got := r.Withheld(run(r, rung, nil, 0)); got != want {
				t.Errorf("rung %d, policy %d: got %d", rung, policy, got)
			}
		}
	}
}

func TestNewRecordErrors(t *testing.T) {
	for want, change := range map[string]func(*zones.RecordConfig){
		"record data of answer 1 is not that of type AAAA": func(c *zones.RecordConfig) { c.Type = dns.TypeAAAA },
		"type TYPE41 cannot be steered":                    func(c *zones.RecordConfig) { c.Type = dns.TypeOPT },
		"0 answers for a pool of 1":                        func(c *zones.RecordConfig) { c.Answers = nil },
		"4097 different addresses or records, 4096 is the most": func(c *zones.RecordConfig) {
			for i := range zones.MaxRData + 1 {
				c.Answers[0] = append(c.Answers[0], zones.RData{Octets: []byte{10, 0, byte(i >> 8), byte(i)}, Address: -1})
			}
			c.Answers[0] = c.Answers[0][1:]
		},
	} {
		c := config(t, "s.example.", dns.TypeA, []string{"192.0.2.1"})
		change(&c)
		if _, err := zones.NewRecord(c); err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Steered records are found like static ones: by wildcards, as aliases, by ANY.
func TestFindSteered(t *testing.T) {
	b := collect(t, "edge.example.", parse(t, "edge.example.", head+"s TXT static\nalias CNAME s\n"))
	b.AddRecord(steered(t, "S.edge.example.", dns.TypeA, []string{"192.0.2.1"}))
	b.AddRecord(steered(t, "*.w.edge.example.", dns.TypeA, []string{"192.0.2.1"}))
	b.AddRecord(steered(t, "c.edge.example.", dns.TypeCNAME, []string{"s.edge.example."}))
	z, faults := b.Build()
	if z == nil {
		t.Fatal(faults)
	}
	for q, want := range map[string]string{
		"s A":        "answer s.edge.example. A",
		"s TXT":      "answer static",
		"s AAAA":     "nodata static",
		"x.y.w A":    "answer *.w.edge.example. A",
		"x.y.w AAAA": "nodata static",
		"c A":        "alias c.edge.example. CNAME",
		"c CNAME":    "answer c.edge.example. CNAME",
		"c ANY":      "answer c.edge.example. CNAME",
		"s ANY":      "answer s.edge.example. A",
		"alias A":    "alias static",
	} {
		owner, typ, _ := strings.Cut(q, " ")
		r := z.Find(name(t, owner+".edge.example."), dns.StringToType[typ])
		got := r.Kind.String() + " static"
		if r.Record != nil {
			got = r.Kind.String() + " " + r.Record.String()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", q, got, want)
		}
	}
	if z.Record(name(t, "s.edge.example."), dns.TypeA) == nil || z.Record(name(t, "s.edge.example."), dns.TypeTXT) != nil || len(z.Records()) != 3 {
		t.Error("Record and Records disagree")
	}
}

func TestPlanTable(t *testing.T) {
	plan := func(country geo.Country) geo.Plan {
		return geo.Plan{Kind: geo.SortCountry, Targets: []geo.Target{{Countries: []geo.Country{country}}}}
	}
	zone := func(origin string, table *zones.PlanTable, countries ...geo.Country) *zones.Zone {
		b := collect(t, origin, parse(t, origin, head))
		for i, c := range countries {
			cfg := config(t, fmt.Sprintf("s%d.%s", i, origin), dns.TypeA, []string{"192.0.2.1"})
			cfg.Plans = []int{table.Number(plan(c))}
			r, err := zones.NewRecord(cfg)
			if err != nil {
				t.Fatal(err)
			}
			b.AddRecord(r)
		}
		z, faults := b.Build()
		if z == nil {
			t.Fatal(faults)
		}
		return z
	}
	countries := func(s *zones.Set) (list []geo.Country) {
		for _, p := range s.Plans() {
			if p.Targets == nil {
				list = append(list, 0)
			} else {
				list = append(list, p.Targets[0].Countries[0])
			}
		}
		return list
	}
	table := zones.NewPlanTable(nil)
	s := zones.New([]*zones.Zone{zone("a.", table, 1, 2, 1), zone("b.", table, 3, 2)}, table)
	if diff := cmp.Diff([]geo.Country{1, 2, 3}, countries(s)); diff != "" {
		t.Error(diff)
	}
	// a no longer asks 1: its number is free, not yet in the same step
	table = zones.NewPlanTable(s)
	s2 := s.With(table, zone("a.", table, 4))
	if diff := cmp.Diff([]geo.Country{0, 2, 3, 4}, countries(s2)); diff != "" {
		t.Error(diff)
	}
	table = zones.NewPlanTable(s2)
	s3 := s2.With(table, zone("a.", table, 5, 3))
	if diff := cmp.Diff([]geo.Country{5, 2, 3}, countries(s3)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]geo.Country{1, 2, 3}, countries(s)); diff != "" {
		t.Error("the first set has changed: " + diff)
	}
}
