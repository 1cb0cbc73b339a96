package filters

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/geo/geotest"
	"github.com/edgesteer/edgesteer/pops"
)

// spot is an answer of a test: an endpoint of the PoP of its name.
type spot struct {
	name    string
	country string // several with commas
	asn     uint32
	group   string
	state   func(*pops.State)
	answer  func(*Answer)
}

func share(s pops.Share) func(*pops.State) {
	return func(x *pops.State) { x.Share, x.Said = s, s }
}

func shed(p float64) func(*pops.State) {
	return func(x *pops.State) { x.HasLoad, x.Metric, x.Load, x.Shed = true, pops.Connections, 90, p }
}

// down is what a health verdict does.
func down(x *pops.State) { x.Share = 0 }

// shift sends the networks at and above a share to an endpoint.
func shift(from pops.Share, to pops.Unit) func(*pops.State) {
	return func(x *pops.State) { x.Share, x.Said, x.Shift, x.ShiftShare = from, from, to, from }
}

func both(fs ...func(*pops.State)) func(*pops.State) {
	return func(x *pops.State) {
		for _, f := range fs {
			f(x)
		}
	}
}

// testSource is a quarter of IPv4 in Germany and in Italy each, which have much the same neighbours, a quarter in Japan, one /8 in the US, and nothing else. Germany and Italy
// share a /24 in it, too.
func testSource() *geo.Table {
	at := func(prefix, country string, asn uint32) geo.Entry {
		c, err := geo.ParseCountry(country)
		if err != nil {
			panic(err)
		}
		return geo.Entry{Prefix: netip.MustParsePrefix(prefix), Location: geo.Location{Country: c, ASN: asn}}
	}
	t, err := geo.NewTable([]geo.Entry{at("0.0.0.0/2", "DE", 64500), at("64.0.0.0/2", "IT", 64500), at("128.0.0.0/2", "JP", 64501), at("192.0.0.0/8", "US", 64502),
		at("192.0.2.0/25", "DE", 64500), at("192.0.2.128/25", "IT", 64500), at("2001:db8::/32", "DE", 64500)})
	if err != nil {
		panic(err)
	}
	return t
}

// chainOf reads "up; select_first_n N=2".
func chainOf(text string) []Config {
	var cfgs []Config
	for step := range strings.SplitSeq(text, ";") {
		words := strings.Fields(step)
		if len(words) == 0 {
			continue
		}
		cfg := Config{Name: words[0], Args: map[string]any{}}
		for _, w := range words[1:] {
			k, v, _ := strings.Cut(w, "=")
			cfg.Args[k] = v
		}
		cfgs = append(cfgs, cfg)
	}
	return cfgs
}

// scene makes a world of spots over testSource. other is the chain of the record that avoid_record names; it has the same answers.
func scene(t testing.TB, spots []spot, chain, other string) *world {
	t.Helper()
	fleet := testFleet(len(spots), 2)
	w := &world{view: idleView(fleet), pool: &Pool{}, cfgs: chainOf(chain)}
	for i, s := range spots {
		fleet.PoPs[i].Name = s.name
		a := Answer{Label: s.name, Group: s.group, PoP: i, Unit: fleet.EndpointUnit(i), Has4: 3}
		for name := range strings.SplitSeq(s.country, ",") {
			if name == "" {
				continue
			}
			c, err := geo.ParseCountry(name)
			if err != nil {
				t.Fatal(err)
			}
			a.Place.Countries = append(a.Place.Countries, c)
		}
		if s.asn != 0 {
			a.Place.ASNs = []uint32{s.asn}
		}
		if s.state != nil {
			s.state(&w.view.States[a.Unit])
		}
		if s.answer != nil {
			s.answer(&a)
		}
		w.pool.Answers = append(w.pool.Answers, a)
	}
	sum(w.view)
	var plans []geo.Plan
	env := Env{Pool: w.pool, Fleet: fleet, Plan: func(p geo.Plan) int { plans = append(plans, p); return len(plans) - 1 }}
	otherCfgs := chainOf(other)
	otherChain, problems := New(otherCfgs, env)
	mustBuild(problems, otherCfgs)
	env.Record = func(string) (*Chain, *Pool, error) { return otherChain, w.pool, nil }
	w.chain, problems = New(w.cfgs, env)
	mustBuild(problems, w.cfgs)
	src := testSource()
	var err error
	if w.atlas, err = geo.BuildAtlas(src, plans, nil); err != nil {
		t.Fatal(err)
	}
	w.twin = twin{src: src, pool: w.pool, view: w.view, cfgs: w.cfgs, qname: testName,
		other: &twin{src: src, pool: w.pool, view: w.view, cfgs: otherCfgs, qname: testName}}
	return w
}

// names writes what a world gives a client as the labels of who serves it.
func (w *world) names(x *Exec, ecs netip.Prefix) (string, uint8) {
	_, bits := w.run(x, ecs, netip.MustParseAddr("223.255.0.1"))
	var s []string
	for _, c := range x.List {
		s = append(s, w.pool.Answers[c.Serve].Label)
	}
	return strings.Join(s, " "), bits
}

func weight(w float64) func(*Answer) {
	return func(a *Answer) { a.Weight = pops.Value{Set: true, Const: w} }
}

func ranked(priority, cost float64) func(*Answer) {
	return func(a *Answer) {
		a.Priority, a.Cost = pops.Value{Set: true, Const: priority}, pops.Value{Set: true, Const: cost}
	}
}

func costs(cost float64) func(*Answer) {
	return func(a *Answer) { a.Cost = pops.Value{Set: true, Const: cost} }
}

// TestScope: which answers German clients get, and with which scopes (steering.md section 2, Scope). Every scene is also held against the twin.
func TestScope(t *testing.T) {
	const wide, two, draw = "/1", "/2", "/24" // Germany and Italy; Germany alone; the network
	tests := []struct {
		name  string
		chain string
		other string
		spots []spot
		want  []string // "answers scope" of all German clients, sorted
	}{
		{"nothing drained: as deep as the order is looked at", "up; geotarget_country; select_first_n", "",
			[]spot{{name: "de", country: "DE"}, {name: "jp", country: "JP"}}, []string{"de " + wide}},
		{"two places deep Germany and Italy differ", "up; geotarget_country; select_first_n N=2", "",
			[]spot{{name: "near", country: "DE,IT"}, {name: "no", country: "NO"}, {name: "gr", country: "GR"}}, []string{"near no " + two}},
		{"one place deep they do not", "up; geotarget_country; select_first_n", "",
			[]spot{{name: "near", country: "DE,IT"}, {name: "no", country: "NO"}, {name: "gr", country: "GR"}}, []string{"near " + wide}},
		{"a place that was removed counts", "up; geotarget_country; select_first_n", "",
			[]spot{{name: "near", country: "DE,IT", state: share(0)}, {name: "no", country: "NO"}, {name: "gr", country: "GR"}}, []string{"no " + two}},
		{"no look at places, no scope", "up; select_first_n", "", []spot{{name: "a"}, {name: "b"}}, []string{"a /0"}},
		{"draining Tokyo by 1 % leaves Germany alone", "up; geotarget_country; select_first_n", "",
			[]spot{{name: "de", country: "DE"}, {name: "jp", country: "JP", state: share(99)}}, []string{"de " + wide}},
		{"a draw counts for those who have it and those who lost it", "up; geotarget_country; select_first_n", "",
			[]spot{{name: "de", country: "DE", state: share(63)}, {name: "jp", country: "JP"}}, []string{"de " + draw, "jp " + draw}},
		{"a full drain is no draw", "up; geotarget_country; select_first_n", "",
			[]spot{{name: "de", country: "DE", state: share(0)}, {name: "jp", country: "JP"}, {name: "us", country: "US"}}, []string{"us " + wide}},
		{"one answer left needs no order", "up; geotarget_country; select_first_n", "",
			[]spot{{name: "de", country: "DE", state: share(0)}, {name: "jp", country: "JP"}}, []string{"jp /0"}},
		{"shedding between the marks is a draw", "up; shed_load metric=connections; geotarget_country; select_first_n", "",
			[]spot{{name: "de", country: "DE", state: shed(0.5)}, {name: "jp", country: "JP"}}, []string{"de " + draw, "jp " + draw}},
		{"shedding above the high mark is none", "up; shed_load metric=connections; geotarget_country; select_first_n", "",
			[]spot{{name: "de", country: "DE", state: shed(1)}, {name: "jp", country: "JP"}, {name: "us", country: "US"}}, []string{"us " + wide}},
		{"shed ignored for some", "shed_load metric=connections; netfence_asn", "",
			[]spot{{name: "a", asn: 64999, state: shed(0.5)}, {name: "b", state: shed(1)}}, []string{" " + draw, "b " + draw}},
		{"a drawn answer that drove others out of a fence and then had to leave the next", "up; geofence_country; netfence_asn", "",
			[]spot{{name: "a", country: "DE", asn: 64999, state: share(50)}, {name: "b"}}, []string{" " + draw, "b " + draw}},
		{"the only weight above 0 is drawn", "up; weighted_sticky sticky_by_network=1; netfence_asn", "",
			[]spot{{name: "a", asn: 64999, state: share(50), answer: weight(1)}, {name: "b", answer: weight(0)}}, []string{" " + draw, "b " + draw}},
		{"the best tier is drawn", "up; priority eliminate=true; netfence_asn", "",
			[]spot{{name: "a", asn: 64999, state: share(50), answer: ranked(1, 1)}, {name: "b", answer: ranked(2, 1)}}, []string{" " + draw, "b " + draw}},
		{"the group of a drawn answer", "up; select_first_region; netfence_asn", "",
			[]spot{{name: "a", asn: 64999, group: "g", state: share(50)}, {name: "b"}}, []string{" " + draw, "b " + draw}},
		{"a drawn answer that is cut off by others does not count", "up; geotarget_country; select_first_n; shuffle", "",
			[]spot{{name: "de", country: "DE"}, {name: "jp", country: "JP", state: share(50)}}, []string{"de " + wide}},
		{"an answer that lost and would have been within the cut", "up; geotarget_country; select_first_n N=2; sticky_region sticky_by_network=1; geofence_country", "",
			[]spot{{name: "de", country: "DE"}, {name: "us", country: "US", state: share(50)}, {name: "jp", country: "JP"}}, []string{"de " + draw}},
		{"rungs: all are drawn", "up; geotarget_country; select_first_n", "",
			[]spot{{name: "de", country: "DE", state: share(10)}, {name: "jp", country: "JP", state: share(10)}}, []string{"de " + draw, "jp " + draw}},
		{"rungs: health took all", "up; geotarget_country; select_first_n", "",
			[]spot{{name: "de", country: "DE", state: down}, {name: "jp", country: "JP", state: down}, {name: "us", country: "US", state: share(0)}}, []string{"de " + wide}},
		{"rungs: a draw of another filter decides on which one", "shed_load metric=connections; up; netfence_asn", "",
			[]spot{{name: "a", state: both(share(0), down)}, {name: "b", asn: 64999, state: both(down, shed(0.5))}}, []string{" " + draw, "a " + draw}},
		{"a shift: who leaves is a draw", "up; geotarget_country; select_first_n", "",
			[]spot{{name: "de", country: "DE", state: shift(40, 1)}, {name: "jp", country: "JP"}, {name: "us", country: "US"}}, []string{"de " + draw, "jp " + draw}},
		{"a shift of all is none", "up; geotarget_country; select_first_n N=2", "",
			[]spot{{name: "de", country: "DE", state: shift(0, 1)}, {name: "jp", country: "JP"}, {name: "us", country: "US"}}, []string{"jp us " + wide}},
		{"a shift of all to one that is drained by half", "up; geotarget_country; select_first_n", "",
			[]spot{{name: "de", country: "DE", state: shift(0, 1)}, {name: "jp", country: "JP", state: share(50)}, {name: "us", country: "US"}},
			[]string{"jp " + draw, "us " + draw}},
		{"a shift of all to one that is gone is a drain", "up; geotarget_country; select_first_n", "",
			[]spot{{name: "de", country: "DE", state: shift(0, 1)}, {name: "jp", country: "JP", state: share(0)}, {name: "us", country: "US"}, {name: "br", country: "BR"}}, []string{"us " + wide}},
		{"a shifted candidate is another one to shed_load", "up; shed_load metric=connections; geotarget_country; select_first_n", "",
			[]spot{{name: "de", country: "DE", state: both(shed(1), shift(40, 1))}, {name: "jp", country: "JP"}, {name: "us", country: "US"}}, []string{"jp " + draw, "us " + draw}},
		{"a shifted candidate is another one to avoid_record", "up; avoid_record record=other; geotarget_country; select_first_n", "priority; select_first_n",
			[]spot{{name: "de", country: "DE", state: shift(40, 1), answer: ranked(1, 1)}, {name: "jp", country: "JP"}, {name: "us", country: "US"}},
			[]string{"jp " + draw, "us " + draw}},
		{"what another record gives, and nothing else is left for some", "up; avoid_record record=other; netfence_asn", "priority; select_first_n",
			[]spot{{name: "a", asn: 64999, state: share(50)}, {name: "b", answer: ranked(1, 1)}}, []string{" " + draw, "b " + draw}},
		{"the bits of the named chain count", "avoid_record record=other", "geotarget_country; select_first_n",
			[]spot{{name: "de", country: "DE"}, {name: "jp", country: "JP"}}, []string{"jp " + wide}},
		{"the draws of the named chain count", "avoid_record record=other", "up; geotarget_country; select_first_n",
			[]spot{{name: "de", country: "DE", state: share(50)}, {name: "jp", country: "JP"}}, []string{"de " + draw, "jp " + draw}},
		{"a cut by chance before up", "shuffle; select_first_n N=2; up", "",
			[]spot{{name: "a"}, {name: "b", state: share(0)}, {name: "c", state: share(50)}},
			[]string{"a " + draw, "a c " + draw, "c " + draw, "c a " + draw}},
		{"a cut by chance before shed_load", "shuffle; select_first_n N=2; shed_load metric=connections", "",
			[]spot{{name: "a"}, {name: "b", state: shed(1)}, {name: "c", state: shed(0.5)}},
			[]string{"a " + draw, "a c " + draw, "b c " + draw, "c " + draw, "c a " + draw, "c b " + draw}},
		{"a cut by chance before an order by place", "shuffle; select_first_n N=1; geotarget_country", "",
			[]spot{{name: "de", country: "DE"}, {name: "jp", country: "JP"}}, []string{"de " + wide, "jp " + wide}},
		{"a group by chance: draws in the other groups", "up; shuffle; priority; select_first_region; cost; select_first_n", "",
			[]spot{{name: "a", group: "1", answer: ranked(1, 1)}, {name: "b", group: "2", answer: ranked(1, 2)}, {name: "c", group: "2", state: share(50), answer: ranked(2, 1)}},
			[]string{"a " + draw, "b " + draw, "c " + draw}},
		{"a group by chance: places in the other groups", "shuffle; geotarget_country; select_first_region; cost; select_first_n", "",
			[]spot{{name: "a", country: "DE,IT", group: "1", answer: costs(2)}, {name: "b", country: "DE,IT", group: "2", answer: costs(2)},
				{name: "no", country: "NO", group: "2", answer: costs(1)}, {name: "gr", country: "GR", group: "2", answer: costs(1)}},
			[]string{"a " + two, "no " + two}},
		{"of two with one endpoint chance takes one", "up; shuffle; select_first_n N=2; geotarget_country; select_first_n", "",
			[]spot{{name: "near", country: "DE,IT", state: shift(0, 1)}, {name: "no", country: "NO"}, {name: "gr", country: "GR"}}, []string{"no " + two}},
		{"an answer that chance passed over has a draw", "up; shuffle; select_first_n", "",
			[]spot{{name: "a"}, {name: "b", state: share(50)}}, []string{"a " + draw, "b " + draw}},
		{"the same among those that tie", "up; shuffle; geotarget_country; select_first_n", "",
			[]spot{{name: "a", country: "DE"}, {name: "b", country: "DE", state: share(50)}, {name: "jp", country: "JP"}}, []string{"a " + draw, "b " + draw}},
		{"random filters rely on nothing", "shuffle; select_first_n", "", []spot{{name: "a"}, {name: "b"}}, []string{"a /0", "b /0"}},
		{"the nearest by chance where they tie", "shuffle; geotarget_country; select_first_n", "",
			[]spot{{name: "a", country: "DE"}, {name: "b", country: "DE"}, {name: "jp", country: "JP"}}, []string{"a " + wide, "b " + wide}},
		{"ties are decided by an earlier order", "sticky sticky_by_network=1; geotarget_country; select_first_n", "",
			[]spot{{name: "a", country: "DE"}, {name: "b", country: "DE"}, {name: "jp", country: "JP"}}, []string{"a " + draw, "b " + draw}},
		{"an earlier order that decides nothing does not count", "sticky sticky_by_network=1; geotarget_country; select_first_n", "",
			[]spot{{name: "de", country: "DE"}, {name: "jp", country: "JP"}}, []string{"de " + wide}},
		{"sticky by network", "sticky sticky_by_network=1; select_first_n", "", []spot{{name: "a"}, {name: "b"}}, []string{"a " + draw, "b " + draw}},
		{"sticky: the whole address", "sticky; select_first_n", "", []spot{{name: "a"}, {name: "b"}}, []string{"a /32", "b /32"}},
		{"one of one needs no order", "sticky; select_first_n", "", []spot{{name: "a"}}, []string{"a /0"}},
		{"sticky: nobody with a weight is left by chance", "shuffle; select_first_region; weighted_sticky", "",
			[]spot{{name: "a", group: "x"}, {name: "b", group: "x"}, {name: "c", group: "y", answer: weight(0)}}, []string{"a b /32", "b a /32", "c /32"}},
		{"shards by client", "shuffle_shard size=1", "", []spot{{name: "a"}, {name: "b"}}, []string{"a " + draw, "b " + draw}},
		{"shards by name", "shuffle_shard size=2 key=qname", "", []spot{{name: "a"}, {name: "b"}, {name: "c"}}, []string{"c a /0"}},
		{"shards by name: one whole shard, and a drain in another", "up; shuffle_shard size=1 key=qname", "",
			[]spot{{name: "a"}, {name: "b", state: share(50)}, {name: "c"}}, []string{"c /0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := scene(t, tt.spots, tt.chain, tt.other)
			r := rand.New(rand.NewPCG(1, 2))
			x := &Exec{Rand: r}
			seen := map[string]bool{}
			for range 300 {
				near := netip.PrefixFrom(geotest.Within(r, netip.MustParsePrefix("0.0.0.0/2")).Addr(), 24).Masked()
				got, bits := w.names(x, near)
				seen[fmt.Sprintf("%s /%d", got, bits)] = true
			}
			var got []string
			for s := range seen {
				got = append(got, s)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answers and scopes (-want +got):\n%s", diff)
			}
			checkWorld(t, r, w, 30, 20)
		})
	}
}

// TestScopeWithinGroups: sticky_region leaves the order within a group alone, which counts, too.
func TestScopeWithinGroups(t *testing.T) {
	w := scene(t, []spot{{name: "no", country: "NO", group: "g"}, {name: "gr", country: "GR", group: "g"}}, "geotarget_country; sticky_region sticky_by_network=1; select_first_n", "")
	x := &Exec{}
	for client, want := range map[string]string{"192.0.2.0/25": "no", "192.0.2.128/25": "gr"} {
		if got, bits := w.names(x, netip.MustParsePrefix(client)); got != want || bits != 25 {
			t.Errorf("client %s: got %s with scope %d, want %s with 25", client, got, bits, want)
		}
	}
}
