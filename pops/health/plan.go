package health

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server/config"
)

// Plan is what is to be checked: every endpoint of a fleet whose service has a check. It is immutable.
type Plan struct {
	fleet   *pops.Fleet
	targets []target
	byName  map[string]int // indexes into targets
	at      []int          // by endpoint of the fleet: index into targets, -1 if it is not checked
	agree   float64        // part of the fresh votes that make a verdict
}

// target is an endpoint that is checked.
type target struct {
	name              string // POP/SERVICE
	pop               string
	kind              string
	check             Check
	interval, timeout time.Duration
	fall, rise        int
	minUp             int // addresses that must be up
	addresses         []netip.Addr
}

// fieldError is what is wrong with one key of a check.
type fieldError struct{ field, message, hint string }

// entryError is what is wrong with one entry of a key that is a table.
type entryError struct {
	fieldError
	entry string
}

func (e *fieldError) Error() string { return e.field + ": " + e.message }

// NewPlan makes the plan of a configuration and of the fleet that was made from it. The problems are those of the checks' meaning, as server/config leaves them to this package; the plan may
// be used only if none is an error.
func NewPlan(cfg *config.Config, f *pops.Fleet) (*Plan, []config.Problem) {
	p := &Plan{fleet: f, byName: map[string]int{}, agree: cmp.Or(float64(cfg.Automation.Agree), 75) / 100}
	var problems []config.Problem
	checks := make([]Check, len(cfg.Services))
	for i := range cfg.Services {
		if c := cfg.Services[i].Check; c != nil {
			made, err := newCheck(c)
			if err != nil {
				problems = append(problems, problem(cfg, i, err))
			}
			problems = append(problems, unread(cfg, i)...)
			checks[i] = made
		}
	}
	for e := range f.Endpoints {
		p.at = append(p.at, -1)
		endpoint := &f.Endpoints[e]
		service := &cfg.Services[endpoint.Service]
		if checks[endpoint.Service] == nil {
			continue
		}
		pop := f.PoPs[endpoint.PoP].Name
		if len(endpoint.Addresses) == 0 {
			warning := cfg.Problem(fmt.Sprintf("%s/%s has a name and no addresses: it is not checked, and counts as up", pop, service.Name), "", "service", endpoint.Service, "at", pop)
			warning.Warning = true
			problems = append(problems, warning)
			continue
		}
		c := service.Check
		t := target{
			name: f.UnitTarget(f.EndpointUnit(e)).String(), pop: pop,
			kind: c.Kind, check: checks[endpoint.Service],
			interval: c.Interval, timeout: c.Timeout, fall: c.Fall, rise: c.Rise,
			minUp: min(max(1, service.At[pop].MinUp), len(endpoint.Addresses)), addresses: endpoint.Addresses,
		}
		p.at[e] = len(p.targets)
		p.byName[t.name] = len(p.targets)
		p.targets = append(p.targets, t)
	}
	return p, problems
}

func newCheck(c *config.Check) (Check, error) {
	table := kinds()
	i := slices.IndexFunc(table, func(k kind) bool { return k.name == c.Kind })
	if i < 0 {
		names := make([]string, len(table))
		for i := range table {
			names[i] = table[i].name
		}
		return nil, &fieldError{"kind", fmt.Sprintf("unknown kind %q: one of %s", c.Kind, strings.Join(names, ", ")), config.DidYouMean(c.Kind, names)}
	}
	k := &table[i]
	secure := c.TLS || c.Kind == "https"
	port := c.Port
	if port == 0 {
		port = int(k.port)
		if secure {
			port = int(k.tls)
		}
	}
	if port == 0 && !k.bare {
		return nil, &fieldError{"port", "a " + c.Kind + " check needs a port", ""}
	}
	d, err := newDialer(c, uint16(port), secure && !k.bare, k.alpn...)
	if err != nil {
		return nil, &fieldError{"source", err.Error(), ""}
	}
	return k.make(c, d)
}

// unread reports the keys of a check that its kind does not read: who wrote them believes in something that does not happen.
func unread(cfg *config.Config, service int) (out []config.Problem) {
	table, name := kinds(), cfg.Services[service].Check.Kind
	i := slices.IndexFunc(table, func(k kind) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	readers := map[string][]string{} // kinds by key
	for _, k := range table {
		for _, key := range k.keys {
			readers[key] = append(readers[key], k.name)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(readers)) {
		path := []any{"service", service, "check", key}
		if !slices.Contains(table[i].keys, key) && cfg.Given(path...) {
			out = append(out, cfg.Problem(fmt.Sprintf("%s checks do not read %s", name, key), "leave it out; it is read by "+strings.Join(readers[key], ", "), path...))
		}
	}
	return out
}

func problem(cfg *config.Config, service int, err error) config.Problem {
	if e, ok := errors.AsType[*entryError](err); ok {
		return cfg.Problem(e.message, e.hint, "service", service, "check", e.field, e.entry)
	}
	if f, ok := errors.AsType[*fieldError](err); ok {
		return cfg.Problem(f.message, f.hint, "service", service, "check", f.field)
	}
	return cfg.Problem(err.Error(), "", "service", service, "check")
}
