package server_test

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// chains are the filters of a record each, over one service at three PoPs.
var chains = map[string]string{
	"all":       `"up"`,
	"shuffled":  `"up", "shuffle"`,
	"one":       `"up", "shuffle", { filter = "select_first_n", N = 1 }`,
	"two":       `"up", "shuffle", { filter = "select_first_n", N = 2 }`,
	"late":      `"shuffle", "up", { filter = "select_first_n", N = 1 }`,
	"nearest":   `"up", "geotarget_country", { filter = "select_first_n", N = 1 }`,
	"near":      `"up", "geotarget_country", { filter = "select_first_n", N = 2 }`,
	"backup":    `"up", "geotarget_country", { filter = "select_first_n", N = 2 }, "shuffle", { filter = "select_first_n", N = 1 }`,
	"sticky":    `"up", "sticky", { filter = "select_first_n", N = 1 }`,
	"weighted":  `"up", "weighted_shuffle", { filter = "select_first_n", N = 1 }`,
	"weighted2": `"up", "weighted_shuffle", { filter = "select_first_n", N = 2 }`,
	"*.cells":   `"up", { filter = "shuffle_shard", size = 1, key = "qname" }`,
	"avoid":     `"up", { filter = "avoid_record", record = "nearest" }, "geotarget_country", { filter = "select_first_n", N = 1 }`,
}

// drains are what may be said, by name.
func drains(t testing.TB) map[string][]pops.Intent {
	said := func(kind pops.Kind, on, to string, share pops.Share) pops.Intent {
		i := pops.Intent{ID: on, Kind: kind, Class: pops.Person, Target: target(t, on), Share: share}
		if to != "" {
			i.To = target(t, to)
		}
		return i
	}
	return map[string][]pops.Intent{
		"nothing":      nil,
		"iad by 1 %":   {said(pops.Drain, "iad", "", 99)},
		"iad by 37 %":  {said(pops.Drain, "iad", "", 63)},
		"iad":          {said(pops.Drain, "iad", "", 0)},
		"fra/wss":      {said(pops.Drain, "fra/wss", "", 0)},
		"iad and fra":  {said(pops.Drain, "iad", "", 0), said(pops.Drain, "fra", "", 0)},
		"*/wss":        {said(pops.Drain, "*/wss", "", 0)},
		"iad to sin":   {said(pops.Shift, "iad/wss", "sin/wss", 0)},
		"half of that": {said(pops.Shift, "iad/wss", "sin/wss", 50)},
	}
}

// chained is the world with a record for each chain, and CNAME records whose answers are no endpoint's.
func chained() string {
	var b strings.Builder
	base, _, _ := strings.Cut(world, "[[zone.record]]")
	b.WriteString(base)
	for _, name := range slices.Sorted(maps.Keys(chains)) {
		fmt.Fprintf(&b, "[[zone.record]]\nname = %q\nservice = \"wss\"\nttl = 30\nfilters = [%s]\n", name, chains[name])
	}
	for name, filters := range map[string]string{"cdn": `"up", "weighted_shuffle"`, "cdn1": `"up", "weighted_shuffle", { filter = "select_first_n", N = 1 }`} {
		fmt.Fprintf(&b, "[[zone.record]]\nname = %q\ntype = \"CNAME\"\nttl = 30\nfilters = [%s]\n", name, filters)
		for weight, pop := range []string{"sin", "fra", "iad"} {
			fmt.Fprintf(&b, "[[zone.record.answer]]\nrdata = %q\npop = %q\nmeta = { weight = %d }\n", pop+".cdn.test.", pop, weight+1)
		}
	}
	return b.String()
}

func client(network string) geo.Client {
	p := netip.MustParsePrefix(network)
	return geo.NewClient(p.Addr(), uint8(p.Bits()), p.Addr())
}

// mixOf is who asks for one record: 64 networks near each PoP, one of them as often as 40 others.
func mixOf(name string) server.RecordMix {
	typ := wire.TypeA
	if strings.HasPrefix(name, "cdn") {
		typ = wire.TypeCNAME
	}
	m := server.RecordMix{Key: server.MixKey{Owner: owner(name + ".edge.example"), Type: typ}}
	add := func(network string, weight float64) {
		m.Clients = append(m.Clients, server.Weighted{Client: client(network), Weight: weight})
		m.Rate += weight
	}
	for i := range 64 {
		add(fmt.Sprintf("100.64.%d.0/24", i), 1)     // near sin
		add(fmt.Sprintf("100.64.%d.0/24", i+128), 1) // near fra
	}
	add("198.51.100.0/24", 40) // near iad
	m.Heavy = []server.Heavy{{Client: client("198.51.100.0/24"), Share: 40 / m.Rate}}
	return m
}

// owner is a name in wire form.
func owner(name string) string {
	b := make([]byte, 255)
	n, err := dns.PackDomainName(dns.Fqdn(name), b, 0, nil, false)
	if err != nil {
		panic(err)
	}
	return string(b[:n])
}

// variation is how much of a whole two distributions over PoPs differ by (total variation distance), with what is given to nobody.
func variation(a, b []float64) (d float64) {
	nothing := 0.0
	for i := range a {
		d += math.Abs(a[i]-b[i]) / 2
		nothing += b[i] - a[i]
	}
	return d + math.Abs(nothing)/2
}

// What a prediction promises, for every chain and every pair of states before and after.
func TestPredictionInvariants(t *testing.T) {
	p := publisher(t, chained(), zoneText, pops.Input{})
	s := p.Snapshot()
	f := s.View.Fleet
	said := drains(t)
	names := slices.Sorted(maps.Keys(said))
	views := make([]*pops.View, len(names))
	for i, name := range names {
		views[i] = pops.NewView(f, pops.Input{Intents: said[name]})
	}
	for _, name := range append(slices.Sorted(maps.Keys(chains)), "cdn", "cdn1") {
		mix := mixOf(name)
		if s.Zones.Find([]byte(mix.Key.Owner), mix.Key.Type).Record == nil {
			t.Fatalf("there is no record %s", name)
		}
		one := server.RecordMix{Key: mix.Key, Rate: 1, Clients: []server.Weighted{{Client: mix.Clients[0].Client, Weight: 1}}}
		for i, before := range views {
			if names[i] != "nothing" && names[i] != "iad by 37 %" && name != "nearest" {
				continue
			}
			all := server.Predict(s, []server.RecordMix{mix}, before, views...)
			alone := server.Predict(s, []server.RecordMix{one}, before, views...)
			for j := range views {
				t.Run(fmt.Sprintf("%s/%s/%s", name, names[i], names[j]), func(t *testing.T) {
					got := all[j]
					invariants(t, f, got)
					if i == j && (got.Moved != 0 || !slices.Equal(got.Before, got.After) || len(got.Heavy) > 0) {
						t.Errorf("nothing changes, and %v moves, %v becomes %v, heavy %v", got.Moved, got.Before, got.After, got.Heavy)
					}
					// What moves of one network is by how much its answers differ.
					invariants(t, f, alone[j])
					if want := variation(alone[j].Before, alone[j].After); math.Abs(alone[j].Moved-want) > 1e-6 {
						t.Errorf("%v moves of one network, its answers differ by %v: %v, then %v", alone[j].Moved, want, alone[j].Before, alone[j].After)
					}
				})
			}
		}
	}
}

// invariants checks what holds of every prediction.
func invariants(t *testing.T, f *pops.Fleet, p *server.Prediction) {
	t.Helper()
	const tiny = 1e-9
	if d := variation(p.Before, p.After); p.Moved < d-tiny {
		t.Errorf("%v moves, less than the %v by which the answers of PoPs differ", p.Moved, d)
	}
	gave, gives := make([]float64, len(f.PoPs)), make([]float64, len(f.PoPs))
	all, endpoints, crossed := 0.0, 0.0, 0.0
	for from, row := range p.Moves {
		for to, w := range row {
			all += w
			if from != server.NoEndpoint {
				gave[f.Endpoints[from].PoP] += w
			}
			if to != server.NoEndpoint {
				gives[f.Endpoints[to].PoP] += w
			}
			if from != server.NoEndpoint && to != server.NoEndpoint {
				endpoints += w
			}
			if from != to {
				crossed += w
			}
		}
	}
	if math.Abs(all-1) > tiny {
		t.Errorf("the answers add up to %v", all)
	}
	if crossed > p.Moved+tiny {
		t.Errorf("%v goes from one endpoint to another, %v of all moves", crossed, p.Moved)
	}
	if endpoints < 1-tiny { // some answers are no endpoint's
		return
	}
	// Before less what goes, and what comes, is After; and no load gets lost.
	for i := range f.PoPs {
		if math.Abs(gave[i]-p.Before[i]) > tiny || math.Abs(gives[i]-p.After[i]) > tiny {
			t.Errorf("%s: moves say %v and %v, answers %v and %v", f.PoPs[i].Name, gave[i], gives[i], p.Before[i], p.After[i])
		}
	}
	if math.Abs(crossed-p.Moved) > tiny {
		t.Errorf("%v goes from one endpoint to another, but %v moves", crossed, p.Moved)
	}
	loads := func(e int) (float64, bool) { return []float64{90, 10, 20, 1, 2, 3}[e], true }
	before, after := 0.0, 0.0
	for e := range f.Endpoints {
		now, _ := loads(e)
		then, ok := p.Load(e, loads)
		if !ok || then < -tiny {
			t.Errorf("load of endpoint %d: %v %v", e, then, ok)
		}
		before, after = before+now, after+then
	}
	if math.Abs(before-after) > 1e-6 {
		t.Errorf("loads add up to %v, then to %v", before, after)
	}
}

// The figures that an operator would work out by hand.
func TestPredictionFigures(t *testing.T) {
	s := publisher(t, chained(), zoneText, pops.Input{}).Snapshot()
	for _, tt := range []struct {
		record, said  string
		moved, within float64
		loads         []float64 // of iad, fra, sin, now 10, 90, 10
	}{
		{"all", "iad by 1 %", 0, 0.01, []float64{10, 90, 10}}, // of one network of a hundred a third goes
		{"all", "iad", 1. / 3, 1e-9, []float64{0, 95, 15}},
		{"shuffled", "iad", 1. / 3, 1e-9, []float64{0, 95, 15}},
		{"one", "iad", 1. / 3, 0.015, []float64{0, 95, 15}},
		{"late", "iad", 1. / 3, 0.015, []float64{0, 95, 15}},
		{"two", "iad", 1. / 3, 0.015, []float64{0, 95, 15}},
		{"*.cells", "iad", 1. / 3, 0.015, []float64{0, 95, 15}},
		{"all", "*/wss", 0, 1e-9, []float64{10, 90, 10}}, // the last resort gives them all
		{"one", "*/wss", 0, 1e-9, []float64{10, 90, 10}},
		{"all", "iad to sin", 1. / 3, 1e-9, []float64{0, 95, 15}}, // two of one endpoint are one: fra has a half, and sin
		{"one", "iad to sin", 1. / 3, 0.015, []float64{0, 90, 20}},
		{"cdn", "iad", 1. / 2, 0.015, nil}, // weights 3, 2 and 1
		{"cdn1", "iad", 1. / 2, 0.015, nil},
	} {
		t.Run(tt.record+"/"+tt.said, func(t *testing.T) {
			got := server.Predict(s, []server.RecordMix{mixOf(tt.record)}, s.View, pops.NewView(s.View.Fleet, pops.Input{Intents: drains(t)[tt.said]}))[0]
			if math.Abs(got.Moved-tt.moved) > tt.within {
				t.Errorf("%v moves, want %v", got.Moved, tt.moved)
			}
			for e, want := range tt.loads {
				load, ok := got.Load(e, func(e int) (float64, bool) { return []float64{10, 90, 10}[e], true })
				if !ok || math.Abs(load-want) > 100*tt.within+1e-6 {
					t.Errorf("load of endpoint %d %v %v, want %v", e, load, ok, want)
				}
			}
		})
	}
}

// What is predicted is what a handler then answers.
func TestPredictionHolds(t *testing.T) {
	const queries = 10_000 // the standard deviation of an answer's share is at most 0.005
	all := drains(t)
	base := publisher(t, chained(), zoneText, pops.Input{}).Snapshot()
	for _, said := range []string{"nothing", "iad by 37 %", "iad", "half of that"} {
		after := pops.NewView(base.View.Fleet, pops.Input{Intents: all[said]})
		p := publisher(t, chained(), zoneText, pops.Input{Intents: all[said]})
		handlers := server.NewHandlers(server.HandlerConfig{Publisher: p})
		for _, name := range []string{"all", "one", "two", "backup", "weighted", "*.cells", "avoid", "cdn", "cdn1"} {
			t.Run(name+"/"+said, func(t *testing.T) {
				mix := mixOf(name)
				got := server.Predict(base, []server.RecordMix{mix}, base.View, after)[0]
				shares, _ := server.Shares(p.Snapshot(), []server.RecordMix{mix})
				was := make([]float64, len(shares))
				for _, u := range handlers.UnitAnswers(after.Fleet) {
					if u.Unit >= 0 {
						was[after.Fleet.PoPOf(u.Unit)] -= u.Answers
					}
				}
				h := handlers.New()
				buf, peer := make([]byte, 0, 4096), server.Peer{Addr: netip.MustParseAddrPort("203.0.113.9:5"), Transport: server.UDP}
				for i := range queries { // each client in proportion to its weight: all have 1, but for the last
					c := &mix.Clients[len(mix.Clients)-1].Client
					if n := i * int(mix.Rate) / queries; n < len(mix.Clients)-1 {
						c = &mix.Clients[n].Client
					}
					q := query(strings.Replace(name, "*", fmt.Sprintf("tenant%d", i), 1)+".edge.example", mix.Key.Type, netip.PrefixFrom(c.Addr, 24).String())
					msg, err := q.Pack()
					if err != nil {
						t.Fatal(err)
					}
					h.Handle(msg, buf, &peer)
					h.Done()
				}
				for _, u := range handlers.UnitAnswers(after.Fleet) {
					if u.Unit >= 0 {
						was[after.Fleet.PoPOf(u.Unit)] += u.Answers
					}
				}
				for pop := range was {
					answers := was[pop] / queries
					if math.Abs(answers-got.After[pop]) > 0.035 && !got.Assumed || math.Abs(answers-shares[pop]) > 0.035 {
						t.Errorf("%s gives %.3f of the answers, predicted %.3f, then shown %.3f", after.Fleet.PoPs[pop].Name, answers, got.After[pop], shares[pop])
					}
				}
			})
		}
	}
}

// A heavy network is named with the record that it asks for, and what it moves is a share of what all records send to the target: the shares never add up to more than all of it.
func TestHeavyNetworks(t *testing.T) {
	s := publisher(t, chained(), zoneText, pops.Input{}).Snapshot()
	var mix []server.RecordMix
	for _, name := range []string{"all", "backup", "nearest", "one"} {
		mix = append(mix, mixOf(name))
	}
	full := pops.NewView(s.View.Fleet, pops.Input{Intents: drains(t)["iad"]})
	for way, p := range map[string]*server.Prediction{"drain": server.Predict(s, mix, s.View, full)[0], "restore": server.Predict(s, mix, full, s.View)[0]} {
		// iad has a third of all and one, half of the heavy one's and of some others' backup, and all that the heavy one asks of nearest.
		if len(p.Heavy) != 4 {
			t.Fatalf("%s: heavy networks %+v", way, p.Heavy)
		}
		iad, sum := p.Before[0]+p.After[0], 0.0 // one of them is 0
		for i, h := range p.Heavy {
			sum += h.Share
			if h.Client.Addr.String() != "198.51.100.0" || i > 0 && h.Share > p.Heavy[i-1].Share {
				t.Errorf("%s: heavy networks %+v", way, p.Heavy)
			}
			want := map[string]float64{"all": 1. / 3, "backup": 1. / 2, "nearest": 1, "one": 1. / 3}[strings.TrimSuffix(h.Record, ".edge.example. A")] * 40 / 168 / 4 / iad
			if math.Abs(h.Share-want) > 0.01 {
				t.Errorf("%s: %s has %.3f of what iad gets, want %.3f", way, h.Record, h.Share, want)
			}
			if (way == "drain") != (h.From == "iad") || (way == "restore") != (h.To == "iad") {
				t.Errorf("%s: from %q to %q", way, h.From, h.To)
			}
		}
		if sum > 1 {
			t.Errorf("%s: heavy networks have %v of the target's traffic", way, sum)
		}
	}
}

// Figures are shares of all steered answers, those of records that a change does not touch too, as they are shown before it is made; and what an endpoint gives there does not move.
func TestPredictionCountsAllRecords(t *testing.T) {
	s := publisher(t, chained(), zoneText, pops.Input{}).Snapshot()
	mix := []server.RecordMix{mixOf("nearest"), mixOf("cdn1")} // a drain of an endpoint does not touch the second
	got := server.Predict(s, mix, s.View, pops.NewView(s.View.Fleet, pops.Input{Intents: drains(t)["fra/wss"]}))[0]
	shown, rate := server.Shares(s, mix)
	if got.Assumed || got.Rate != rate || !slices.Equal(got.Before, shown) {
		t.Errorf("before %v of %v, shown %v of %v", got.Before, got.Rate, shown, rate)
	}
	if want := 64. / 168 / 2; math.Abs(got.Moved-want) > 1e-9 || math.Abs(got.Before[1]-got.After[1]-want) > 1e-9 {
		t.Errorf("%v moves, fra %v then %v, want %v", got.Moved, got.Before[1], got.After[1], want)
	}
}

// When nobody has asked for what a change touches, networks are assumed, and what moves agrees with the shares of PoPs all the same.
func TestAssumedPrediction(t *testing.T) {
	s := publisher(t, chained(), zoneText, pops.Input{}).Snapshot()
	tenth := pops.NewView(s.View.Fleet, pops.Input{Intents: []pops.Intent{{ID: "a", Kind: pops.Drain, Class: pops.Person, Target: target(t, "fra"), Share: 90}}})
	for name, mix := range map[string][]server.RecordMix{"nobody": nil, "cdn1": {mixOf("cdn1")}, "cdn": {mixOf("cdn")}} {
		got := server.Predict(s, mix, s.View, tenth)[0]
		gone := got.Before[1] - got.After[1]
		if got.Assumed != (mix == nil) || gone < 0.01 || got.Moved < gone-1e-9 || got.Moved > gone+0.002 { // of those that avoid what is drained some go to and fro among the others
			t.Errorf("%s: fra gives %v, then %v of the answers, and %v moves (assumed: %v)", name, got.Before[1], got.After[1], got.Moved, got.Assumed)
		}
	}
}

// A record is left without an answer when nothing of its own family is available to anybody: what is shifted to a PoP that goes goes with it.
func TestPredictionLast(t *testing.T) {
	s := publisher(t, chained(), zoneText, pops.Input{}).Snapshot()
	f := s.View.Fleet
	drain := func(on string, share pops.Share) pops.Intent {
		return pops.Intent{ID: on, Kind: pops.Drain, Class: pops.Person, Target: target(t, on), Share: share}
	}
	shift := pops.Intent{ID: "shift", Kind: pops.Shift, Class: pops.Person, Target: target(t, "iad/wss"), To: target(t, "sin/wss")}
	for _, tt := range []struct {
		name          string
		before, after []pops.Intent
		verdicts      []pops.Verdict
		want          []string
	}{
		{"one of three", nil, []pops.Intent{drain("iad", 0)}, nil, nil},
		{"fra has no IPv6", nil, []pops.Intent{drain("iad", 0), drain("sin", 0)}, nil, []string{"AAAA"}},
		{"all", nil, []pops.Intent{drain("*/wss", 0)}, nil, []string{"A", "AAAA"}},
		{"a percent is somebody", nil, []pops.Intent{drain("*/wss", 1)}, nil, nil},
		{"it was so before", []pops.Intent{drain("*/wss", 0)}, []pops.Intent{drain("*/wss", 0), drain("iad", 0)}, nil, nil},
		{"the rest is down", nil, []pops.Intent{drain("iad", 0)}, []pops.Verdict{{}, {Down: true}, {Down: true}}, []string{"A", "AAAA"}},
		{"the rest has no address", nil, []pops.Intent{drain("iad", 0)}, []pops.Verdict{{}, {}, {Dead: 2}}, []string{"AAAA"}},
		{"where all are shifted to", []pops.Intent{shift, drain("fra", 0)}, []pops.Intent{shift, drain("fra", 0), drain("sin", 0)}, nil, []string{"A", "AAAA"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			view := func(said []pops.Intent) *pops.View {
				return pops.NewView(f, pops.Input{Intents: said, Verdicts: tt.verdicts, Panic: 100})
			}
			var got []string
			for _, record := range server.Predict(s, nil, view(tt.before), view(tt.after))[0].Last {
				if typ, ok := strings.CutPrefix(record, "all.edge.example. "); ok {
					got = append(got, typ)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("without answers: %v, want %v", got, tt.want)
			}
		})
	}
}
