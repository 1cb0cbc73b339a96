package mmdb_test

import (
	"flag"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/geo/mmdb"
)

// database measures another database than the built-in one: go test ./geo/mmdb -run Measure -v -database GeoLite2-City.mmdb
var database = flag.String("database", "", "database file for TestMeasure and the benchmarks")

// pops are twelve PoPs on six continents.
var pops = []struct {
	name     string
	country  string
	lat, lon float64
}{
	{"iad", "US", 38.9, -77.4}, {"sjc", "US", 37.4, -121.9}, {"gru", "BR", -23.4, -46.5}, {"lhr", "GB", 51.5, -0.5},
	{"fra", "DE", 50.0, 8.6}, {"cdg", "FR", 49.0, 2.5}, {"dxb", "AE", 25.3, 55.4}, {"bom", "IN", 19.1, 72.9},
	{"sin", "SG", 1.4, 104.0}, {"nrt", "JP", 35.8, 140.4}, {"syd", "AU", -33.9, 151.2}, {"jnb", "ZA", -26.1, 28.2},
}

// rules says which of the twelve PoPs serves which country, and which serves the rest of each part of the world: the country rules of a classic geo map.
var rules = map[string]string{
	"iad": "US CO", "sjc": "CA MX", "gru": "BR SOUTH-AMERICA", "lhr": "GB IE", "fra": "IT DE EUROPE", "cdg": "FR ES PT MA DZ", "dxb": "TR SA AE IL IR EG", "bom": "IN PK BD LK",
	"sin": "ASIAPAC", "nrt": "JP KR CN TW", "syd": "AU NZ FJ PG NC VU SB WS TO PF GU FM KI MH PW NR TV WF CK NU TK AS MP NF", "jnb": "ZA AFRICA",
}

// rulePlan lists each country at the PoP that its rule names; what has none goes to the PoP of its part of the world, else to iad.
func rulePlan(tb testing.TB) geo.Plan {
	tb.Helper()
	p := geo.Plan{Kind: geo.SortCountry}
	owner := map[geo.Country]int{}
	rest := map[geo.Region]int{}
	for i, pop := range pops {
		p.Targets = append(p.Targets, geo.Target{Lat: pop.lat, Lon: pop.lon, Coords: true})
		for w := range strings.FieldsSeq(rules[pop.name]) {
			if r, err := geo.ParseRegion(w); err == nil {
				rest[r] = i
			} else if c, err := geo.ParseCountry(w); err == nil {
				owner[c] = i
			} else {
				tb.Fatal(err)
			}
		}
	}
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			c, err := geo.ParseCountry(string([]rune{a, b}))
			if err != nil {
				continue
			}
			i, ok := owner[c]
			if !ok {
				i = rest[geo.RegionOf(c, 0)]
			}
			p.Targets[i].Countries = append(p.Targets[i].Countries, c)
		}
	}
	return p
}

// popPlan asks for the order of n PoPs; those beyond the twelve are scattered at random.
func popPlan(tb testing.TB, n int) geo.Plan {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	p := geo.Plan{Kind: geo.SortCountry}
	for i := range n {
		t := geo.Target{Coords: true}
		if i < len(pops) {
			c, err := geo.ParseCountry(pops[i].country)
			if err != nil {
				tb.Fatal(err)
			}
			t.Countries, t.Lat, t.Lon = []geo.Country{c}, pops[i].lat, pops[i].lon
		} else {
			t.Lat, t.Lon = r.Float64()*100-40, r.Float64()*360-180
		}
		p.Targets = append(p.Targets, t)
	}
	return p
}

func source(tb testing.TB) geo.Source {
	tb.Helper()
	var s *mmdb.Source
	var err error
	if *database == "" {
		s, err = mmdb.Embedded()
	} else {
		s, err = mmdb.Open([]string{*database})
	}
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMeasure prints what opening and compiling cost, and the mean scopes.
func TestMeasure(t *testing.T) {
	h0, t0 := heap(), time.Now()
	src := source(t)
	opened := time.Since(t0)
	h1 := heap()
	t.Logf("open: %v, %.1f MB", opened.Round(time.Millisecond), float64(h1-h0)/1e6)
	for _, c := range []struct {
		name string
		plan geo.Plan
	}{{"12 PoPs by country rules", rulePlan(t)}, {"12 PoPs by distance", popPlan(t, 12)}, {"200 PoPs by distance", popPlan(t, 200)}} {
		h1, t1 := heap(), time.Now()
		m, err := geo.Compile(src, c.plan)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(t1)
		h2 := heap()
		// All /24s there are, and the unicast ones that somebody may ask from.
		var all, unicast [len(geo.Depths)]float64
		const step = 61
		var n, nu float64
		for v := uint32(0); v < 1<<24; v += step {
			ask := geo.NewClient(netip.AddrFrom4([4]byte{byte(v >> 16), byte(v >> 8), byte(v)}), 24, netip.Addr{})
			l := m.Lookup(&ask)
			public := v>>16 >= 1 && v>>16 < 224 && v>>16 != 10 && v>>16 != 127
			n++
			if public {
				nu++
			}
			for d, b := range l.Bits {
				all[d] += float64(b)
				if public {
					unicast[d] += float64(b)
				}
			}
		}
		for d := range all {
			all[d] /= n
			unicast[d] /= nu
		}
		t.Logf("%s: %v, %.1f MB, %d classes, %d prefixes; mean scope at depths %v: unicast %.2f, all %.2f", c.name, took.Round(time.Millisecond), float64(h2-h1)/1e6, m.Classes(), m.Prefixes(), geo.Depths, unicast, all)
		if *database == "" && all[0] > 13 {
			t.Errorf("mean scope of the first place is %.2f: neighbours are not joined", all[0])
		}
		runtime.KeepAlive(m)
	}
	runtime.KeepAlive(src)
}

func BenchmarkCompile(b *testing.B) {
	src, p := source(b), popPlan(b, 12)
	for b.Loop() {
		if _, err := geo.Compile(src, p); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLookup asks for random networks, each time another one: what is found is not in any cache. The 12 PoPs go by country rules.
func BenchmarkLookup(b *testing.B) {
	m, err := geo.Compile(source(b), rulePlan(b))
	if err != nil {
		b.Fatal(err)
	}
	sender := netip.AddrFrom4([4]byte{1, 1, 1, 1})
	v4 := func(v uint64) geo.Client {
		return geo.NewClient(netip.AddrFrom4([4]byte{byte(1 + v>>24%223), byte(v >> 16), byte(v >> 8)}), 24, sender)
	}
	v6 := func(v uint64) geo.Client {
		return geo.NewClient(netip.AddrFrom16([16]byte{0x2a, byte(v >> 24 & 0xf), byte(v >> 16), byte(v >> 8), byte(v)}), 48, sender)
	}
	for _, c := range []struct {
		name   string
		client func(uint64) geo.Client
		depth  int
	}{{"client", v4, 0}, {"v4/first", v4, 1}, {"v4/first4", v4, 4}, {"v4/all", v4, 1 << 16}, {"v6/first", v6, 1}, {"v6/all", v6, 1 << 16}} {
		b.Run(c.name, func(b *testing.B) {
			r := rand.NewPCG(5, 6)
			b.ReportAllocs()
			var n int
			for b.Loop() {
				client := c.client(r.Uint64())
				if c.depth == 0 {
					n += int(client.Bits)
					continue
				}
				var l geo.Leaf
				m.LookupTo(&client, c.depth, &l)
				n += int(l.Bits[0])
			}
			_ = n
		})
	}
}
