package filters

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/geo/geotest"
	"github.com/edgesteer/edgesteer/pops"
)

// nameHash is what shuffle_shard orders by under a name: frozen here in another spelling.
func nameHash(qname, label string) float64 {
	h := xxhash.Sum64String(qname) ^ pops.Hash("shard", netip.Addr{}, label)
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	h ^= h >> 31
	return float64(h>>11) / (1 << 53)
}

// world is a random fleet, view, location database and record, with a second record that the first may avoid, and the same as a twin.
type world struct {
	atlas *geo.Atlas
	view  *pops.View
	pool  *Pool
	chain *Chain
	cfgs  []Config
	twin  twin
}

const testName = "\x04wild\x07example\x03com\x00"

// newWorlds makes random worlds over one location database. Random filters multiply what the twin must follow, so pools are small.
func newWorlds(r *rand.Rand, n int) []*world {
	source := geotest.Table
	if r.IntN(3) > 0 { // places hardly differ: what clients get is a matter of draws
		source = plainTable
	}
	var worlds []*world
	var plans []geo.Plan
	plan := func(p geo.Plan) int { plans = append(plans, p); return len(plans) - 1 }
	for i := range n {
		worlds = append(worlds, newWorld(r, i%2 == 0, plan))
	}
	for {
		src := source(r)
		atlas, err := geo.BuildAtlas(src, plans, nil)
		if err != nil { // nothing in it that the plans go by
			source = geotest.Table
			continue
		}
		for _, w := range worlds {
			w.atlas, w.twin.src, w.twin.other.src = atlas, src, src
		}
		return worlds
	}
}

func newWorld(r *rand.Rand, static bool, plan func(geo.Plan) int) *world {
	w := &world{}
	fleet := testFleet(2+r.IntN(3), 2)
	w.view = testView(r, fleet)
	otherPool, otherCfgs := testPool(r, fleet), testChain(r, true, false)
	withholds, single := r.IntN(2) == 0, r.IntN(4) == 0 // CNAME records are avoided by CNAME records
	otherChain, problems := New(otherCfgs, Env{Pool: otherPool, Plan: plan, Fleet: fleet, Withholds: withholds, Single: single})
	mustBuild(problems, otherCfgs)
	w.pool, w.cfgs = testPool(r, fleet), testChain(r, static, true)
	if slices.ContainsFunc(otherCfgs, func(c Config) bool { return c.Name == "shuffle_shard" && c.Args["key"] == "qname" }) {
		w.cfgs = slices.DeleteFunc(w.cfgs, func(c Config) bool { return c.Name == "avoid_record" })
	}
	w.chain, problems = New(w.cfgs, Env{Pool: w.pool, Plan: plan, Fleet: fleet, Single: single, Record: func(string) (*Chain, *Pool, error) { return otherChain, otherPool, nil }})
	mustBuild(problems, w.cfgs)
	v6 := r.IntN(4) == 0
	other := twin{pool: otherPool, view: w.view, cfgs: otherCfgs, qname: testName, v6: v6, withholds: withholds, single: single}
	w.twin = twin{pool: w.pool, view: w.view, cfgs: w.cfgs, qname: testName, v6: v6, other: &other, single: single}
	return w
}

func (w *world) setView(v *pops.View) {
	w.view, w.twin.view, w.twin.other.view = v, v, v
}

// plainTable is a source with two locations.
func plainTable(r *rand.Rand) *geo.Table {
	t, err := geo.NewTable([]geo.Entry{
		{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Location: geotest.Location(r)},
		{Prefix: netip.MustParsePrefix("::/0"), Location: geotest.Location(r)},
		{Prefix: netip.MustParsePrefix("0.0.0.0/1"), Location: geotest.Location(r)},
	})
	if err != nil {
		panic(err)
	}
	return t
}

func mustBuild(problems []Problem, cfgs []Config) {
	for _, p := range problems {
		if !p.Warning {
			panic(fmt.Sprint(p, cfgs))
		}
	}
}

// run gives the answer to a client as the twin writes it, and the scope.
func (w *world) run(x *Exec, ecs netip.Prefix, sender netip.Addr) (string, uint8) {
	c := geo.NewClient(ecs.Addr(), uint8(max(0, ecs.Bits())), sender)
	x.Client, x.Atlas, x.View, x.QName, x.V6 = &c, w.atlas, w.view, []byte(testName), w.twin.v6
	x.Begin(w.pool)
	for i := range w.pool.Answers {
		if w.pool.Answers[i].Serves(x.V6) {
			x.Add(i)
		}
	}
	w.chain.Run(x)
	var s []string
	for _, c := range x.List {
		s = append(s, fmt.Sprint(c.Serve))
	}
	return "[" + strings.Join(s, " ") + "]", x.Bits()
}

func (w *world) String() string {
	var b strings.Builder
	for _, s := range w.chain.Steps {
		fmt.Fprintf(&b, "  %s %s\n", s.Name, s.Args)
	}
	fmt.Fprintf(&b, "  single %v\n", w.chain.Single)
	for i, a := range w.pool.Answers {
		fmt.Fprintf(&b, "  answer %d: %s group %q pop %d unit %d has %d %d up %v weight %v priority %v cost %v load %v\n    place %+v\n", i, a.Label, a.Group, a.PoP, a.Unit, a.Has4, a.Has6, a.Up, a.Weight, a.Priority, a.Cost, a.Load[0], a.Place)
		if a.Unit >= 0 {
			fmt.Fprintf(&b, "    %+v\n", w.view.States[a.Unit])
		}
	}
	return b.String()
}

// testFleet is n PoPs with a service each; every endpoint has addresses of both families but some.
func testFleet(n, addresses int) *pops.Fleet {
	f := &pops.Fleet{Services: []pops.Service{{Name: "web", Metric: pops.Connections}}, Feeds: []string{"feed"}}
	for i := range n {
		f.PoPs = append(f.PoPs, pops.PoP{Name: fmt.Sprintf("pop%d", i)})
		e := pops.Endpoint{PoP: i, Low: pops.Value{Set: true, Const: 80}, High: pops.Value{Set: true, Const: 100}}
		for j := range addresses {
			e.Addresses = append(e.Addresses, netip.AddrFrom4([4]byte{192, 0, 2, byte(i*addresses + j)}))
		}
		f.Endpoints = append(f.Endpoints, e)
	}
	return f
}

// idle is the state of a unit about which nothing was said.
var idle = pops.State{Share: 100, Said: 100, Shift: pops.NoUnit, ShiftShare: 100}

func idleView(f *pops.Fleet) *pops.View {
	v := &pops.View{Fleet: f, Feeds: make([]float64, len(f.Feeds))}
	for i := range v.Feeds {
		v.Feeds[i] = math.NaN()
	}
	for range f.Units() {
		v.States = append(v.States, idle)
	}
	sum(v)
	return v
}

func testView(r *rand.Rand, f *pops.Fleet) *pops.View {
	v := idleView(f)
	if r.IntN(2) == 0 {
		v.Feeds[0] = float64(r.IntN(3))
	}
	if r.IntN(8) == 0 {
		return v
	}
	share := func() pops.Share { return []pops.Share{0, 30, 70, 99, 100, 100, 100}[r.IntN(7)] }
	calm := r.IntN(3) == 0 // little is wrong
	for u := range v.States {
		if calm && r.IntN(4) > 0 {
			continue
		}
		s := &v.States[u]
		s.Said = share()
		s.Share = s.Said
		if r.IntN(5) == 0 {
			s.Share = 0
		}
		if to := r.IntN(len(f.Endpoints)); u < len(f.Endpoints) && to != u && r.IntN(3) == 0 {
			s.Shift, s.ShiftShare = pops.Unit(to), max(s.Said, share())
		}
		if u < len(f.Endpoints) && r.IntN(2) == 0 {
			s.HasLoad, s.Metric, s.Load = true, pops.Connections, 90
			s.Shed = []float64{0, 0.3, 0.8, 1}[r.IntN(4)]
		}
		if u < len(f.Endpoints) && r.IntN(4) == 0 {
			s.Dead = uint64(r.IntN(4))
		}
	}
	sum(v)
	return v
}

// sum makes what a view says of all its units at once.
func sum(v *pops.View) {
	v.AllUp, v.NoShed = true, true
	for _, s := range v.States {
		v.AllUp = v.AllUp && s.Share == 100 && s.Dead == 0
		v.NoShed = v.NoShed && s.Shed == 0
	}
}

// testPool makes up to five answers: endpoints of the fleet, and explicit ones, with little metadata, so that much is alike.
func testPool(r *rand.Rand, f *pops.Fleet) *Pool {
	p := &Pool{}
	places := geotest.Plan(r, geo.SortCountry, 1)
	for i := range 1 + r.IntN(5) {
		places.Targets = geotest.Plan(r, geo.SortCountry, 1).Targets
		a := Answer{PoP: -1, Unit: pops.NoUnit, Place: places.Targets[0], Label: fmt.Sprintf("answer%d", i)}
		if i < len(f.PoPs) && r.IntN(4) > 0 {
			a.Label, a.PoP, a.Unit, a.Has4 = f.PoPs[i].Name, i, f.EndpointUnit(i), 3
			if r.IntN(2) == 0 {
				a.Has4, a.Has6 = 1, 2
			}
		} else if r.IntN(2) == 0 {
			a.PoP = r.IntN(len(f.PoPs))
			a.Unit = f.PoPUnit(a.PoP)
		}
		value := func(odds int, of ...float64) pops.Value {
			if r.IntN(odds) > 0 {
				return pops.Value{}
			}
			v := pops.Value{Set: true, Const: of[r.IntN(len(of))]}
			if r.IntN(4) == 0 {
				v.Feed = 1
			}
			return v
		}
		switch r.IntN(3) {
		case 0:
			a.Group = "g1"
		case 1:
			a.Group = "g2"
		}
		a.Up = value(2, 0, 1, 1)
		a.Weight, a.Priority, a.Cost = value(2, 0, 1, 5), value(2, 1, 2), value(2, 1, 2)
		if r.IntN(3) == 0 {
			a.Load[pops.LoadAvg] = Load{value(1, 1, 2, 3, 4), value(1, 1), value(1, 4)}
			a.Load[pops.LoadAvg].Low.Feed, a.Load[pops.LoadAvg].High.Feed = 0, 0
		}
		for range 2 { // most places are of one kind only
			switch r.IntN(8) {
			case 0:
				a.Place.Countries, a.Place.Subdivisions = nil, nil
			case 1:
				a.Place.Regions = nil
			case 2:
				a.Place.ASNs = nil
			case 3:
				a.Place.Prefixes = nil
			case 4:
				a.Place.Coords = false
			}
		}
		p.Answers = append(p.Answers, a)
	}
	return p
}

// testChain makes a random chain out of all filters of the registry.
func testChain(r *rand.Rand, static, avoid bool) []Config {
	var cfgs []Config
	shuffles, cut := 0, false
	for range r.IntN(8) {
		e := registry[r.IntN(len(registry))]
		switch {
		case r.IntN(3) == 0:
			e = *find([]string{"up", "shed_load", "geotarget_country", "select_first_n"}[r.IntN(4)])
		case e.Nature == Random && (static || shuffles == 2):
			continue
		case e.Name == "avoid_record" && (!avoid || cut):
			continue
		}
		if e.Nature == Random {
			shuffles++
		}
		cut = cut || strings.HasPrefix(e.Name, "select_")
		cfg := Config{Name: e.Name, Args: map[string]any{}}
		for _, k := range e.Keys {
			switch {
			case k.Default != "" && r.IntN(3) == 0:
			case k.Kind == Number:
				cfg.Args[k.Name] = 1 + r.IntN(3)
			case k.Kind == Bool:
				cfg.Args[k.Name] = r.IntN(2) == 0
			case k.Kind == Choice:
				cfg.Args[k.Name] = k.OneOf[r.IntN(len(k.OneOf))]
			default:
				cfg.Args[k.Name] = "other"
			}
		}
		if e.Name == "shed_load" && r.IntN(2) == 0 {
			cfg.Args["metric"] = "connections"
		}
		cfgs = append(cfgs, cfg)
	}
	return cfgs
}

// client makes a random client subnet and sender.
func testClient(r *rand.Rand) (netip.Prefix, netip.Addr) {
	ecs := geotest.Prefix(r)
	if r.IntN(2) == 0 { // as resolvers send it
		n := 24
		if ecs.Addr().Is6() {
			n = 56
		}
		ecs = netip.PrefixFrom(ecs.Addr(), n).Masked()
	}
	return ecs, geotest.Addr(r)
}

// checkWorld holds a world's chain against the twin for some clients, and each scope against others inside it.
func checkWorld(t *testing.T, r *rand.Rand, w *world, clients, others int) {
	t.Helper()
	x := &Exec{Rand: rand.New(rand.NewPCG(r.Uint64(), 1))}
	for range clients {
		ecs, sender := testClient(r)
		want := w.twin.for_(ecs, sender).possible()
		runs := 1
		if !w.chain.Static {
			runs = 6
		}
		for range runs {
			got, bits := w.run(x, ecs, sender)
			if !slices.Contains(want, got) {
				t.Fatalf("client %v, sender %v: got %s, possible are %v\n%v", ecs, sender, got, want, w)
			}
			if !ecs.IsValid() || ecs.Bits() == 0 {
				continue
			}
			if int(bits) > ecs.Addr().BitLen() {
				t.Fatalf("client %v: scope %d", ecs, bits)
			}
			scope := netip.PrefixFrom(ecs.Addr(), int(bits)).Masked()
			for range others {
				near := geotest.Within(r, scope)
				if near.Bits() == 0 || kind(near) != kind(ecs) { // a prefix too short to hold an IPv4 address always surrounds some that do
					continue
				}
				if also := w.twin.for_(near, sender).possible(); !slices.Equal(also, want) {
					t.Fatalf("client %v, sender %v: scope %v with %v, but %v inside it gets %v\n%v", ecs, sender, scope, want, near, also, w)
				}
			}
		}
	}
}

// kind is how many bits stand in front of an embedded IPv4 address.
func kind(p netip.Prefix) uint8 {
	c := geo.NewClient(p.Addr(), uint8(p.Bits()), netip.IPv4Unspecified())
	return c.Offset
}

// TestHonesty: answers are among those that the twin says are possible, and no network inside a scope has another set of possible answers (steering.md section 2).
// With EDGESTEER_WORLDS=8000 it does that for 1,000,000 clients of random chains and views.
func TestHonesty(t *testing.T) {
	batches := 60
	if testing.Short() {
		batches = 10
	}
	if n, err := strconv.Atoi(os.Getenv("EDGESTEER_WORLDS")); err == nil {
		batches = n
	}
	for seed := range batches {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		for _, w := range newWorlds(r, 8) {
			for range 4 {
				w.setView(testView(r, w.view.Fleet))
				checkWorld(t, r, w, 4, 6)
			}
		}
	}
}
