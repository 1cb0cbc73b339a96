package filters

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
)

// built is New for a pool of two endpoints, with what a loader offers.
func built(cfgs []Config, change func(*Env)) (*Chain, []string) {
	fleet := testFleet(2, 1)
	env := Env{Fleet: fleet, Pool: &Pool{}, Plan: func(geo.Plan) int { return 7 }}
	for i := range fleet.PoPs {
		a := Answer{Label: fleet.PoPs[i].Name, PoP: i, Unit: pops.Unit(i), Has4: 1, Weight: num(1), Priority: num(1), Cost: num(1)}
		a.Place = geo.Target{Countries: []geo.Country{1}, Regions: []geo.Region{geo.Europe}, Coords: true}
		if i == 0 {
			a.Place.ASNs = []uint32{1}
		}
		env.Pool.Answers = append(env.Pool.Answers, a)
	}
	if change != nil {
		change(&env)
	}
	c, problems := New(cfgs, env)
	var out []string
	for _, p := range problems {
		kind := "error"
		if p.Warning {
			kind = "warning"
		}
		s := fmt.Sprintf("%s %d", kind, p.Step)
		if p.Key != "" {
			s += " " + p.Key
		}
		s += ": " + p.Message
		if p.Hint != "" {
			s += " (" + p.Hint + ")"
		}
		out = append(out, s)
	}
	return c, out
}

// TestNewProblems: all problems at once, each with its filter, its key and a hint (steering.md section 5).
func TestNewProblems(t *testing.T) {
	record := func(c *Chain, err error) func(*Env) {
		return func(e *Env) { e.Record = func(string) (*Chain, *Pool, error) { return c, e.Pool, err } }
	}
	answer := func(f func(*Answer)) func(*Env) { return func(e *Env) { f(&e.Pool.Answers[0]) } }
	known := "known: up, shed_load, geotarget_country, geotarget_regional, geotarget_latlong, geofence_country, geofence_regional, netfence_asn, netfence_prefix, select_first_n, " +
		"select_first_region, shuffle, weighted_shuffle, sticky, weighted_sticky, sticky_region, priority, cost, shuffle_shard, avoid_record"
	tests := []struct {
		name   string
		chain  string
		change func(*Env)
		want   []string
	}{
		{"nothing wrong", "up; geotarget_country; select_first_n", nil, nil},
		{"unknown filter", "up; geo_target_country", nil, []string{`error 1: unknown filter "geo_target_country" (did you mean "geotarget_country"?)`}},
		{"NS1's word on its page", "up; select_first_group", nil, []string{`error 1: unknown filter "select_first_group" (here it is called "select_first_region")`}},
		{"nothing like it", "up; pulsar", nil, []string{`error 1: unknown filter "pulsar" (` + known + `)`}},
		{"unknown key", "up; select_first_n n=1", nil, []string{`error 1 n: select_first_n: unknown key "n" (did you mean "N"?)`}},
		{"a key where there is none", "up now=1", nil, []string{`error 0 now: up: unknown key "now" (up has no keys)`}},
		{"N below its range", "up; select_first_n N=0", nil, []string{`error 1 N: select_first_n: N must be 1 to 65536, not 0`}},
		{"N is no number", "up; select_first_n N=all", nil, []string{`error 1 N: select_first_n: N must be a whole number, not "all"`}},
		{"a flag that is none", "up; priority eliminate=maybe", nil, []string{`error 1 eliminate: priority: eliminate must be true or false, not "maybe"`}},
		{"a metric that is none", "up; shed_load metric=cpu", nil, []string{`error 1 metric: shed_load: metric must be one of loadavg, connections, requests, not "cpu"`}},
		{"a required key", "up; shuffle_shard", nil, []string{`error 1 size: shuffle_shard needs size`}},
		{"all at once", "upp; shuffle_shard size=-1 key=name seize=1", nil, []string{
			`error 0: unknown filter "upp" (did you mean "up"?)`,
			`error 1 size: shuffle_shard: size must be 1 to 65536, not -1`,
			`error 1 key: shuffle_shard: key must be one of client, qname, not "name"`,
			`error 1 seize: shuffle_shard: unknown key "seize" (did you mean "size"?)`,
		}},
		{"no up", "geotarget_country", nil, []string{"warning -1: the chain has no `up`: drains, health and load take nothing out of this record (put \"up\" first)"}},
		{"an answer that says it is down", "up", answer(func(a *Answer) { a.Up = no }),
			[]string{"warning 0: answer \"pop0\" can never be up: its metadata says up = false (bind `up` to a feed, or remove the answer)"}},
		{"an answer that a feed can lift", "up", answer(func(a *Answer) { a.Up = fed(0) }), nil},
		{"an answer without up and PoP", "up", answer(func(a *Answer) { a.PoP, a.Unit = -1, pops.NoUnit }),
			[]string{"warning 0: answer \"pop0\" can never be up: it has neither `up` nor a PoP, which counts as down (set meta = { up = true } or tie it to a PoP with pop = ...)"}},
		{"watermarks", "up; shed_load", answer(func(a *Answer) { a.Load[pops.LoadAvg] = Load{num(1), num(2), num(2)} }),
			[]string{`error 1: answer "pop0": low_watermark must be below high_watermark`}},
		{"watermarks of another metric", "up; shed_load metric=connections", answer(func(a *Answer) { a.Load[pops.LoadAvg] = Load{num(1), num(2), num(2)} }), nil},
		{"a metric that nothing is measured by", "up; shed_load", nil,
			[]string{`warning 1 metric: no answer has a loadavg load with both watermarks: shed_load never removes any (the load here is in connections: set metric = "connections")`}},
		{"nothing is measured at all", "up; shed_load metric=requests", func(e *Env) { e.Fleet.Endpoints[0].Low, e.Fleet.Endpoints[1].Low = none, none },
			[]string{`warning 1 metric: no answer has a requests load with both watermarks: shed_load never removes any (give the service a load, or the answers requests, low_watermark and high_watermark)`}},
		{"a fence that can leave nothing", "up; geofence_country", nil,
			[]string{"warning 1: clients that match no answer get none: resolvers may keep that for everybody (RFC 7871 section 7.4) (give one answer no such metadata)"}},
		{"a fence with a way out", "up; netfence_asn", nil, nil},
		{"two fences with no way out", "up; netfence_asn; geofence_regional", answer(func(a *Answer) { a.Place.Regions = nil }),
			[]string{"warning 2: clients that match no answer get none: resolvers may keep that for everybody (RFC 7871 section 7.4) (give one answer no such metadata)"}},
		{"rules that can never match", "up; netfence_prefix; weighted_shuffle", func(e *Env) { e.Pool.Answers[0].Weight, e.Pool.Answers[1].Weight = none, none },
			[]string{`warning 1: netfence_prefix cannot tell the answers apart: none has ip_prefixes`, `warning 2: weighted_shuffle cannot tell the answers apart: none has weight`}},
		{"avoid_record", "up; avoid_record record=other", record(&Chain{Static: true}, nil), nil},
		{"avoid_record of nothing", "up; avoid_record", nil, []string{`error 1 record: avoid_record needs record`}},
		{"avoid_record of what does not exist", "up; avoid_record record=other", record(nil, errors.New("a loop: a, b, a")), []string{`error 1 record: a loop: a, b, a`}},
		{"avoid_record without other records", "up; avoid_record record=other", nil, []string{`error 1 record: unknown record "other"`}},
		{"avoid_record of what shuffles", "up; avoid_record record=other", record(&Chain{}, nil),
			[]string{`error 1 record: record "other" shuffles its answers: what it gives cannot be known (avoid a record whose chain is the same for a client at all times)`}},
		{"avoid_record of what goes by name", "up; avoid_record record=other", record(&Chain{Static: true, ByName: true}, nil),
			[]string{`error 1 record: record "other" goes by the name that was asked for, which is another one here (use shuffle_shard with key = "client" there)`}},
		{"avoid_record after a cut", "up; select_first_n; avoid_record record=other", record(&Chain{Static: true}, nil),
			[]string{`error 2: avoid_record must stand before select_first_n: behind it nothing may be left to choose from (move it up)`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, got := built(chainOf(tt.chain), tt.change)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNewValues: numbers, booleans and strings are all taken.
func TestNewValues(t *testing.T) {
	for _, v := range []any{2, int64(2), uint8(2), 2.0, "2", " 2 "} {
		c, problems := built([]Config{{Name: "up"}, {Name: "select_first_n", Args: map[string]any{"N": v}}}, nil)
		if problems != nil || c.Steps[1].Args != "N=2" || c.Steps[1].Filter.(*selectFirstN).n != 2 {
			t.Errorf("N = %T %v: %+v, %v", v, v, c.Steps, problems)
		}
	}
	for _, v := range []any{true, "true", "1", 1, int64(1), 1.0, "True"} {
		c, problems := built([]Config{{Name: "up"}, {Name: "priority", Args: map[string]any{"eliminate": v}}}, nil)
		if problems != nil || !c.Steps[1].Filter.(*tiers).eliminate {
			t.Errorf("eliminate = %T %v: %+v, %v", v, v, c.Steps, problems)
		}
	}
	for _, v := range []any{1.5, true, "", nil, []any{1}, map[string]any{}} {
		if _, problems := built([]Config{{Name: "up"}, {Name: "select_first_n", Args: map[string]any{"N": v}}}, nil); len(problems) != 1 {
			t.Errorf("N = %T %v: %v", v, v, problems)
		}
	}
	for _, v := range []any{1, true, ""} {
		if _, problems := built([]Config{{Name: "up"}, {Name: "avoid_record", Args: map[string]any{"record": v}}}, nil); len(problems) != 1 {
			t.Errorf("record = %T %v: %v", v, v, problems)
		}
	}
}

// TestNewChain: disabled filters are skipped but checked; Static and Plan.
func TestNewChain(t *testing.T) {
	cfgs := chainOf("up; shuffle; geotarget_country; netfence_asn; select_first_n")
	cfgs[1].Disabled = true
	c, problems := built(cfgs, nil)
	if problems != nil || len(c.Steps) != 4 || !c.Static || c.Plan != 7 {
		t.Errorf("got %+v, %v", c, problems)
	}
	if c, _ := built(chainOf("up; shuffle"), nil); c.Static || c.Plan != -1 {
		t.Errorf("a chain that shuffles and asks for no place: %+v", c)
	}
	avoid := func(e *Env) {
		e.Record = func(string) (*Chain, *Pool, error) { return &Chain{Static: true, Plan: 3}, e.Pool, nil }
	}
	if c, _ := built(chainOf("up; avoid_record record=other"), avoid); c.Plan != 3 {
		t.Errorf("the plan of the record that is avoided: %d", c.Plan)
	}
	if c, _ := built(chainOf("up; avoid_record record=other; geotarget_country"), avoid); c.Plan != 7 {
		t.Errorf("its own plan comes first: %d", c.Plan)
	}
	if _, problems := built([]Config{{Name: "upp", Disabled: true}}, nil); len(problems) != 1 {
		t.Errorf("a disabled filter is checked, too: %v", problems)
	}
	if c, problems := New(nil, Env{Pool: &Pool{}}); len(c.Steps) != 0 || problems != nil {
		t.Errorf("an empty chain over nothing: %+v, %v", c, problems)
	}
}

// TestRegistry: the table is whole, and natures and places are those of the filters.
func TestRegistry(t *testing.T) {
	var names []string
	for _, e := range Registry() {
		names = append(names, e.Name)
		if e.Doc == "" || e.build == nil {
			t.Errorf("%s: no documentation or no constructor", e.Name)
		}
		for _, k := range e.Keys {
			if k.Default == "" {
				continue
			}
			if got, err := k.read(k.Default); err != nil || got != k.Default {
				t.Errorf("%s: default of %s reads as %q, %v", e.Name, k.Name, got, err)
			}
		}
		places := strings.HasPrefix(e.Name, "geo") || strings.HasPrefix(e.Name, "netfence")
		if e.Places != places {
			t.Errorf("%s: places %v", e.Name, e.Places)
		}
	}
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	if len(slices.Compact(sorted)) != len(names) {
		t.Errorf("a name stands twice: %v", names)
	}
}
