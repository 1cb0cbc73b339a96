package filters

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
)

// Config is one filter as configured: NS1's name and keys. Values may be numbers, booleans or strings.
type Config struct {
	Name     string
	Args     map[string]any
	Disabled bool
}

// Env is what constructors may ask of whoever loads the record.
type Env struct {
	Pool *Pool
	// Plan registers a question over the pool's places and gives its number in the atlas of every snapshot that this chain will be part of.
	Plan func(geo.Plan) int
	// Record finds another steered record of the same zone, for avoid_record; it fails when there is none or when a loop would close. nil: there is no other.
	Record func(name string) (*Chain, *Pool, error)
	// Fleet tells what endpoints are measured by, for a warning about shed_load. nil: no such warning.
	Fleet *pops.Fleet
	// Withholds and Single become those of the Chain.
	Withholds, Single bool
}

// Problem is a mistake in a chain, or a warning about it.
type Problem struct {
	Step    int    // index of the filter, -1 for the chain as a whole
	Key     string // of the filter's configuration, "" for the filter
	Message string
	Hint    string
	Warning bool
}

// New builds a chain and reports everything that is wrong with it at once. The chain may be used only if no problem is an error; its Steps are those that are not disabled.
func New(cfgs []Config, env Env) (*Chain, []Problem) {
	b := &build{env: env, pool: env.Pool, fleet: env.Fleet, chain: &Chain{Static: true, Plan: -1, Withholds: env.Withholds, Single: env.Single}, step: -1, otherPlan: -1}
	for i, cfg := range cfgs {
		b.step = i
		b.add(cfg)
	}
	b.step = -1
	b.review()
	return b.chain, b.problems
}

// build is a chain under construction, and what constructors use to read their configuration and to complain.
type build struct {
	env   Env
	pool  *Pool
	fleet *pops.Fleet
	chain *Chain

	step     int // index of the configured filter
	entry    *Entry
	values   map[string]string // by key: as configured or by default, checked
	problems []Problem

	otherPlan int // Chain.Plan of a record that is avoided, -1 if none is

	cut     string // the first select_* so far
	hasUp   bool
	unknown bool // a filter has a name that is not known
	fences  []fenced
}

// fenced is a fence and which of the configured filters it is.
type fenced struct {
	step  int
	fence *fence
}

func (b *build) fail(key, message, hint string) {
	b.problems = append(b.problems, Problem{Step: b.step, Key: key, Message: message, Hint: hint})
}

func (b *build) warn(key, message, hint string) {
	b.problems = append(b.problems, Problem{Step: b.step, Key: key, Message: message, Hint: hint, Warning: true})
}

// add appends a configured filter to the chain, unless it is disabled.
func (b *build) add(cfg Config) {
	b.entry = find(cfg.Name)
	if b.entry == nil {
		names := make([]string, len(registry))
		hint := ""
		for i := range registry {
			names[i] = registry[i].Name
			if cfg.Name != "" && cfg.Name == registry[i].Also {
				hint = "here it is called " + quote(registry[i].Name)
			}
		}
		b.fail("", "unknown filter "+quote(cfg.Name), cmp.Or(hint, didYouMean(cfg.Name, names)))
		b.unknown = true
		return
	}
	b.hasUp = b.hasUp || b.entry.Name == "up" && !cfg.Disabled
	ok := b.read(cfg.Args)
	if cfg.Disabled || !ok {
		return
	}
	f := b.entry.build(b)
	if f == nil {
		return
	}
	if b.cut == "" && strings.HasPrefix(b.entry.Name, "select_") {
		b.cut = b.entry.Name
	}
	b.chain.Static = b.chain.Static && b.entry.Nature != Random
	if cut, ok := f.(*selectFirstN); ok && cut.n <= maxFirst && len(b.chain.Steps) > 0 {
		if sort, ok := b.chain.Steps[len(b.chain.Steps)-1].Filter.(*geotarget); ok {
			sort.keep = cut.n
		}
	}
	b.chain.Steps = append(b.chain.Steps, Step{Name: b.entry.Name, Args: b.describe(), Filter: f})
	if b.unread() {
		b.warn("", b.entry.Name+" cannot tell the answers apart: none has "+strings.Join(b.entry.Reads, " or "), "")
	}
}

// unread reports whether no answer has any of the metadata that the filter reads.
func (b *build) unread() bool {
	if len(b.entry.Reads) == 0 || len(b.pool.Answers) == 0 {
		return false
	}
	for i := range b.pool.Answers {
		for _, key := range b.entry.Reads {
			if carries(&b.pool.Answers[i], key) {
				return false
			}
		}
	}
	return true
}

// review looks at the chain as a whole.
func (b *build) review() {
	if b.chain.Plan < 0 {
		b.chain.Plan = b.otherPlan
	}
	if !b.hasUp && !b.unknown && len(b.pool.Answers) > 0 {
		b.warn("", "the chain has no `up`: drains, health and load take nothing out of this record", `put "up" first`)
	}
	b.reviewFences()
}

// maxLists bounds reviewFences.
const maxLists = 4096

// reviewFences warns of the first fence that can leave a client with nothing. It follows, from fence to fence, the shortest lists that can be left: those of one matching answer
// (with the untagged ones that stay), and those of the untagged answers alone.
func (b *build) reviewFences() {
	all := make([]uint16, len(b.pool.Answers))
	for i := range all {
		all[i] = uint16(i)
	}
	lists := [][]uint16{all}
	if len(all) == 0 {
		return
	}
	for _, f := range b.fences {
		seen := map[string]bool{}
		var left [][]uint16
		for _, list := range lists {
			var untagged []uint16
			for _, a := range list {
				if !f.fence.tagged[a] {
					untagged = append(untagged, a)
				}
			}
			if len(untagged) == 0 {
				b.step = f.step
				b.warn("", "clients that match no answer get none: resolvers may keep that for everybody (RFC 7871 section 7.4)", "give one answer no such metadata")
				b.step = -1
				return
			}
			next := [][]uint16{untagged}
			for _, a := range list {
				switch {
				case !f.fence.tagged[a]:
				case f.fence.strict:
					next = append(next, []uint16{a})
				default:
					next = append(next, append([]uint16{a}, untagged...))
				}
			}
			for _, n := range next {
				slices.Sort(n)
				if key := fmt.Sprint(n); !seen[key] && len(left) < maxLists {
					seen[key] = true
					left = append(left, n)
				}
			}
		}
		lists = left
	}
}

// plan registers a question over the places of the pool's answers.
func (b *build) plan(kind geo.Kind) int {
	p := geo.Plan{Kind: kind, Targets: make([]geo.Target, len(b.pool.Answers))}
	for i := range p.Targets {
		p.Targets[i] = b.pool.Answers[i].Place
	}
	n := b.env.Plan(p)
	if b.chain.Plan < 0 {
		b.chain.Plan = n
	}
	return n
}

// measures reports whether a unit is an endpoint whose load is in a metric and has both watermarks.
func (b *build) measures(u pops.Unit, m pops.Metric) bool {
	if b.fleet == nil {
		return false
	}
	i, ok := b.fleet.Endpoint(u)
	if !ok {
		return false
	}
	e := &b.fleet.Endpoints[i]
	return b.fleet.Services[e.Service].Metric == m && e.Low.Set && e.High.Set
}

// otherMetric hints at a metric that some answer's load is in.
func (b *build) otherMetric() string {
	for m := range pops.Metric(pops.Metrics) {
		for i := range b.pool.Answers {
			a := &b.pool.Answers[i]
			if a.Load[m].Load.Set || b.measures(a.Unit, m) {
				return "the load here is in " + m.String() + ": set metric = " + quote(m.String())
			}
		}
	}
	return "give the service a load, or the answers " + b.values["metric"] + ", low_watermark and high_watermark"
}

// read checks the keys of a filter's configuration and fills in the defaults.
func (b *build) read(args map[string]any) bool {
	ok := true
	b.values = map[string]string{}
	names := make([]string, len(b.entry.Keys))
	for i, k := range b.entry.Keys {
		names[i] = k.Name
		given, has := args[k.Name]
		switch {
		case has:
			text, err := k.read(given)
			if err != nil {
				b.fail(k.Name, b.entry.Name+": "+k.Name+" "+err.Error(), "")
				ok = false
			}
			b.values[k.Name] = text
		case k.Default == "":
			b.fail(k.Name, b.entry.Name+" needs "+k.Name, "")
			ok = false
		default:
			b.values[k.Name] = k.Default
		}
	}
	given := make([]string, 0, len(args))
	for name := range args {
		given = append(given, name)
	}
	slices.Sort(given)
	for _, name := range given {
		if !slices.Contains(names, name) {
			hint := didYouMean(name, names)
			if len(names) == 0 {
				hint = b.entry.Name + " has no keys"
			}
			b.fail(name, b.entry.Name+": unknown key "+quote(name), hint)
			ok = false
		}
	}
	return ok
}

// read turns a configured value into its usual text.
func (k *Key) read(v any) (string, error) {
	text := fmt.Sprint(v)
	if f, ok := v.(float64); ok {
		text = strconv.FormatFloat(f, 'f', -1, 64)
	}
	text = strings.TrimSpace(text)
	switch k.Kind {
	case Number:
		n, err := strconv.Atoi(text)
		switch _, truth := v.(bool); {
		case err != nil || truth:
			return "", fmt.Errorf("must be a whole number, not %s", quote(text))
		case n < k.Min || n > 1<<16:
			return "", fmt.Errorf("must be %d to %d, not %d", k.Min, 1<<16, n)
		}
		return strconv.Itoa(n), nil
	case Bool:
		on, err := strconv.ParseBool(text)
		if err != nil {
			return "", fmt.Errorf("must be true or false, not %s", quote(text))
		}
		return strconv.FormatBool(on), nil
	case Choice:
		if !slices.Contains(k.OneOf, text) {
			return "", fmt.Errorf("must be one of %s, not %s", strings.Join(k.OneOf, ", "), quote(text))
		}
		return text, nil
	}
	s, ok := v.(string)
	if !ok || text == "" {
		return "", fmt.Errorf("must be a name, not %s", quote(text))
	}
	return s, nil
}

func (b *build) text(key string) string   { return b.values[key] }
func (b *build) choice(key string) string { return b.values[key] }
func (b *build) boolean(key string) bool  { return b.values[key] == "true" }

func (b *build) number(key string) int {
	n, _ := strconv.Atoi(b.values[key]) // read has checked it
	return n
}

func (b *build) metric(key string) pops.Metric {
	for m := range pops.Metric(pops.Metrics) {
		if m.String() == b.values[key] {
			return m
		}
	}
	return pops.LoadAvg
}

// describe gives the configuration of the filter for people.
func (b *build) describe() string {
	var s []string
	for _, k := range b.entry.Keys {
		s = append(s, k.Name+"="+b.values[k.Name])
	}
	return strings.Join(s, " ")
}

var noAddr netip.Addr

func quote(s string) string { return strconv.Quote(s) }

// didYouMean hints at the nearest of the names that exist, if one is near.
func didYouMean(name string, names []string) string {
	near := pops.Similar(name, names)
	if near == nil {
		return "known: " + strings.Join(names, ", ")
	}
	return "did you mean " + quote(near[0]) + "?"
}
