package filters

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/geo/geotest"
	"github.com/edgesteer/edgesteer/pops"
)

// twin is the slow, obvious other way to run a chain: it reads the location database for each question, knows nothing of scopes, bits or blocks, and follows every outcome that
// chance could have, so that it gives the set of all answers that a client might get. It follows steering.md sections 3 and 4 line by line.
type twin struct {
	src   geo.Source
	pool  *Pool
	view  *pops.View
	cfgs  []Config
	qname string
	v6    bool
	other *twin // the record that avoid_record names

	withholds bool // Chain.Withholds
	single    bool // Chain.Single
	rung      int  // the highest that `up` had to climb to

	ecs    netip.Prefix
	sender netip.Addr

	client  geo.Client
	network netip.Addr
	start   []int
	asked   map[geo.Kind]geotest.Answer
}

// standing is a candidate: whose place it has, and who serves it.
type standing struct{ answer, serve int }

// for_ is the twin as one client sees it.
func (t twin) for_(ecs netip.Prefix, sender netip.Addr) *twin {
	t.ecs, t.sender = ecs, sender
	source := uint8(0)
	if ecs.IsValid() {
		source = uint8(ecs.Bits())
	}
	t.client = geo.NewClient(ecs.Addr(), source, sender)
	long := 56
	if t.client.Addr.Is4() {
		long = 24
	}
	p, err := t.client.Addr.Prefix(min(long, int(t.client.Bits)))
	if err != nil {
		panic(err)
	}
	t.network = p.Addr()
	t.start, t.asked = nil, map[geo.Kind]geotest.Answer{}
	for i, a := range t.pool.Answers {
		if a.Has4 == 0 && a.Has6 == 0 || t.has(a) != 0 {
			t.start = append(t.start, i)
		}
	}
	if t.other != nil {
		t.other = t.other.for_(ecs, sender)
	}
	return &t
}

func (t *twin) has(a Answer) uint64 {
	if t.v6 {
		return a.Has6
	}
	return a.Has4
}

// possible gives all lists that the client might get, as text, sorted.
func (t *twin) possible() []string {
	var first []standing
	for _, i := range t.start {
		first = append(first, standing{i, i})
	}
	worlds := [][]standing{first}
	for _, cfg := range t.cfgs {
		var next [][]standing
		for _, w := range worlds {
			next = append(next, t.step(cfg, w)...)
		}
		worlds = unique(next)
	}
	var out []string
	for _, w := range worlds {
		if t.single {
			w = cut(w, 1)
		}
		out = append(out, served(apart(w)))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func served(list []standing) string {
	var s []string
	for _, c := range list {
		s = append(s, strconv.Itoa(c.serve))
	}
	return "[" + strings.Join(s, " ") + "]"
}

func unique(worlds [][]standing) [][]standing {
	seen := map[string]bool{}
	var out [][]standing
	for _, w := range worlds {
		var key []byte
		for _, c := range w {
			key = append(key, byte(c.answer), byte(c.serve))
		}
		if !seen[string(key)] {
			seen[string(key)] = true
			out = append(out, w)
		}
	}
	return out
}

// apart drops later candidates that are served as an earlier one is.
func apart(list []standing) (out []standing) {
	for _, c := range list {
		if !slices.ContainsFunc(out, func(d standing) bool { return d.serve == c.serve }) {
			out = append(out, c)
		}
	}
	return out
}

// cut keeps the first n with different endpoints.
func cut(list []standing, n int) []standing {
	if len(list) <= n {
		return list
	}
	list = apart(list)
	return list[:min(n, len(list))]
}

func (t *twin) step(cfg Config, list []standing) [][]standing {
	arg := func(key, def string) string {
		if v, ok := cfg.Args[key]; ok {
			return fmt.Sprint(v)
		}
		return def
	}
	yes := func(key string, def bool) bool {
		v := arg(key, fmt.Sprint(def))
		return v == "true" || v == "1"
	}
	number := func(key, def string) (n int) {
		fmt.Sscan(arg(key, def), &n)
		return n
	}
	if len(list) == 0 {
		return [][]standing{list}
	}
	one := func(l []standing) [][]standing { return [][]standing{l} }
	switch cfg.Name {
	case "up":
		return one(t.up(list))
	case "shed_load":
		m := map[string]pops.Metric{"loadavg": 0, "connections": 1, "requests": 2}[arg("metric", "loadavg")]
		return one(t.shed(list, m))
	case "geotarget_country":
		return one(t.places(list, geo.SortCountry))
	case "geotarget_regional":
		return one(t.places(list, geo.SortRegion))
	case "geotarget_latlong":
		return one(t.places(list, geo.SortDistance))
	case "geofence_country":
		return one(t.fence(list, geo.MatchCountry, yes("remove_no_location", true)))
	case "geofence_regional":
		return one(t.fence(list, geo.MatchRegion, yes("remove_no_georegion", true)))
	case "netfence_asn":
		return one(t.fence(list, geo.MatchASN, yes("remove_no_asn", true)))
	case "netfence_prefix":
		return one(t.fence(list, geo.MatchPrefix, yes("remove_no_ip_prefixes", true)))
	case "select_first_n":
		return one(cut(list, number("N", "1")))
	case "select_first_region":
		var out []standing
		for _, c := range list {
			if t.pool.Answers[c.answer].Group == t.pool.Answers[list[0].answer].Group {
				out = append(out, c)
			}
		}
		return one(out)
	case "shuffle":
		return permutations(list)
	case "weighted_shuffle":
		if heavy := t.heavy(list); len(heavy) > 0 {
			return permutations(heavy)
		}
		return one(list)
	case "sticky":
		return one(sorted(list, func(c standing) float64 {
			return t.hashed("sticky", yes("sticky_by_network", false), t.pool.Answers[c.answer].Label)
		}))
	case "weighted_sticky":
		heavy := t.heavy(list)
		if len(heavy) == 0 {
			return one(list)
		}
		return one(sorted(heavy, func(c standing) float64 {
			u := 1 - t.hashed("weighted_sticky", yes("sticky_by_network", false), t.pool.Answers[c.answer].Label)
			return -math.Log(u) / t.weight(c)
		}))
	case "sticky_region":
		return one(sorted(list, func(c standing) float64 {
			return t.hashed("sticky_region", yes("sticky_by_network", false), t.pool.Answers[c.answer].Group)
		}))
	case "priority", "cost":
		key := func(c standing) float64 {
			v := t.pool.Answers[c.answer].Priority
			if cfg.Name == "cost" {
				v = t.pool.Answers[c.answer].Cost
			}
			if f, ok := t.view.Number(v); ok {
				return f
			}
			return math.Inf(1)
		}
		out := sorted(list, key)
		if yes("eliminate", false) {
			for len(out) > 0 && key(out[len(out)-1]) != key(out[0]) {
				out = out[:len(out)-1]
			}
		}
		return one(out)
	case "shuffle_shard":
		out := sorted(list, func(c standing) float64 {
			label := t.pool.Answers[c.answer].Label
			if arg("key", "client") == "client" {
				return pops.Unit01(pops.Hash("shard", t.network, label))
			}
			return nameHash(t.qname, label)
		})
		return one(cut(out, number("size", "")))
	case "avoid_record":
		return one(t.avoid(list))
	}
	panic(cfg.Name)
}

// bucket is the draw of steering.md section 4.
func (t *twin) bucket(pop int) float64 {
	return pops.Bucket("up", t.network, t.view.Fleet.PoPs[pop].Name)
}

func (t *twin) up(list []standing) []standing {
	for rung := 1; rung <= 4; rung++ {
		var out []standing
		for _, c := range list {
			if s := t.available(c.answer, rung); s >= 0 {
				out = append(out, standing{c.answer, s})
			}
		}
		if len(out) > 0 {
			t.rung = max(t.rung, rung)
			return out
		}
	}
	panic("nobody on rung 4")
}

// available gives who serves an answer on a rung, -1 if nobody.
func (t *twin) available(answer, rung int) int {
	if t.itself(answer, rung) {
		return answer
	}
	a := t.pool.Answers[answer]
	if a.Unit < 0 {
		return -1
	}
	s := t.view.States[a.Unit]
	if s.Shift < 0 || t.bucket(a.PoP) < float64(s.ShiftShare) {
		return -1
	}
	for _, j := range t.start {
		if t.pool.Answers[j].Unit == s.Shift && t.itself(j, rung) {
			return j
		}
	}
	return -1
}

// itself reports whether an answer is available on a rung, shifts left aside.
func (t *twin) itself(answer, rung int) bool {
	a := t.pool.Answers[answer]
	on, known := t.view.Number(a.Up)
	healthy := known && on != 0 || !known && a.Unit >= 0
	share, said := pops.Share(100), pops.Share(100)
	if a.Unit >= 0 {
		s := t.view.States[a.Unit]
		share, said = s.Share, s.Said
		if has := t.has(a); has != 0 && has&^s.Dead == 0 {
			healthy = false
		}
	}
	switch rung {
	case 1:
		return healthy && (share >= 100 || a.PoP >= 0 && t.bucket(a.PoP) < float64(share))
	case 2:
		return healthy && share > 0
	case 3:
		return said > 0
	}
	return true
}

func (t *twin) shed(list []standing, m pops.Metric) []standing {
	var out []standing
	for _, c := range list {
		a := t.pool.Answers[c.serve]
		p := 0.0
		if own := a.Load[m]; own.Load.Set {
			load, ok1 := t.view.Number(own.Load)
			low, ok2 := t.view.Number(own.Low)
			high, ok3 := t.view.Number(own.High)
			switch {
			case !ok1 || !ok2 || !ok3 || low >= high || load <= low:
			case load >= high:
				p = 1
			default:
				p = (load - low) / (high - low)
			}
		} else if a.Unit >= 0 {
			if s := t.view.States[a.Unit]; s.HasLoad && s.Metric == m {
				p = s.Shed
			}
		}
		if pops.Unit01(pops.Hash("shed", t.network, a.Label)) >= p {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return list
	}
	return out
}

func (t *twin) places(list []standing, kind geo.Kind) []standing {
	groups := t.ask(kind).Groups
	if groups == nil {
		return list
	}
	return sorted(list, func(c standing) float64 {
		return float64(slices.IndexFunc(groups, func(g []int) bool { return slices.Contains(g, c.answer) }))
	})
}

func (t *twin) ask(kind geo.Kind) geotest.Answer {
	if a, ok := t.asked[kind]; ok {
		return a
	}
	p := geo.Plan{Kind: kind}
	for _, a := range t.pool.Answers {
		p.Targets = append(p.Targets, a.Place)
	}
	a := geotest.Evaluate(t.src, p, t.ecs, t.sender)
	t.asked[kind] = a
	return a
}

func (t *twin) fence(list []standing, kind geo.Kind, strict bool) []standing {
	match := t.ask(kind).Match
	var hits, untagged, soft []standing
	for _, c := range list {
		p := t.pool.Answers[c.answer].Place
		tags := map[geo.Kind]int{geo.MatchCountry: len(p.Countries) + len(p.Subdivisions), geo.MatchRegion: len(p.Regions), geo.MatchASN: len(p.ASNs), geo.MatchPrefix: len(p.Prefixes)}[kind]
		switch {
		case slices.Contains(match, c.answer):
			hits, soft = append(hits, c), append(soft, c)
		case tags == 0:
			untagged, soft = append(untagged, c), append(soft, c)
		}
	}
	switch {
	case len(hits) == 0:
		return untagged
	case strict:
		return hits
	default:
		return soft
	}
}

func (t *twin) weight(c standing) float64 {
	if w, ok := t.view.Number(t.pool.Answers[c.answer].Weight); ok {
		return w
	}
	return 1
}

func (t *twin) heavy(list []standing) (out []standing) {
	for _, c := range list {
		if t.weight(c) > 0 {
			out = append(out, c)
		}
	}
	return out
}

func (t *twin) hashed(filter string, network bool, id string) float64 {
	a := t.client.Addr
	if network {
		a = t.network
	}
	return pops.Unit01(pops.Hash(filter, a, id))
}

func (t *twin) avoid(list []standing) []standing {
	t.other.rung = 0
	worlds := t.other.possible()
	if len(worlds) != 1 {
		panic("avoid_record of a record that is not static")
	}
	if t.other.withholds && t.other.rung > 2 {
		return list
	}
	var given []Answer
	for i := range t.other.pool.Answers {
		for s := range strings.FieldsSeq(strings.Trim(worlds[0], "[]")) {
			if s == fmt.Sprint(i) {
				given = append(given, t.other.pool.Answers[i])
			}
		}
	}
	var out []standing
	for _, c := range list {
		a := t.pool.Answers[c.serve]
		if !slices.ContainsFunc(given, func(b Answer) bool {
			if a.PoP >= 0 && b.PoP >= 0 {
				return a.PoP == b.PoP
			}
			return a.Label == b.Label
		}) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return list
	}
	return out
}

func sorted(list []standing, key func(standing) float64) []standing {
	list = slices.Clone(list)
	sort.SliceStable(list, func(i, j int) bool { return key(list[i]) < key(list[j]) })
	return list
}

func permutations(list []standing) [][]standing {
	if len(list) < 2 {
		return [][]standing{slices.Clone(list)}
	}
	var out [][]standing
	for i := range list {
		for _, p := range permutations(slices.Delete(slices.Clone(list), i, i+1)) {
			out = append(out, append([]standing{list[i]}, p...))
		}
	}
	return out
}
