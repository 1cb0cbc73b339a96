package load

import (
	"cmp"
	"strings"
	"time"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server/config"
)

// Plan is which loads and feeds there are, how old they may be, and where loads are fetched. It is immutable.
type Plan struct {
	loads   map[string]time.Duration // by endpoint: how old a load may be
	feeds   map[string]time.Duration // by name
	bound   map[string]bool          // feeds of metadata that is compiled
	sources []source

	prometheus, token string        // URL, "" if there is none; file of the bearer token
	timeout           time.Duration // of a query
}

// defaultAge is how old a load may be of a service without [service.load], or a feed without [[feed]]: that of the configuration's defaults.
const defaultAge = time.Minute

// NewPlan makes the plan of a configuration, as it is before Bind, and of the fleet that was made from it. Both have been checked.
func NewPlan(cfg *config.Config, f *pops.Fleet) *Plan {
	p := &Plan{
		loads: map[string]time.Duration{}, feeds: map[string]time.Duration{}, bound: map[string]bool{},
		prometheus: cfg.Prometheus.URL, token: cfg.Path(cfg.Prometheus.TokenFile), timeout: cmp.Or(cfg.Prometheus.Timeout, requestTime),
	}
	for e := range f.Endpoints {
		age := defaultAge
		if l := cfg.Services[f.Endpoints[e].Service].Load; l != nil {
			age = cmp.Or(l.MaxAge, defaultAge)
		}
		p.loads[f.UnitTarget(f.EndpointUnit(e)).String()] = age
	}
	for _, name := range f.Feeds {
		p.feeds[name] = defaultAge
	}
	for name := range cfg.Bindings() {
		p.feeds[name], p.bound[name] = defaultAge, true
	}
	for _, feed := range cfg.Feeds {
		if _, ok := p.feeds[feed.Name]; ok {
			p.feeds[feed.Name] = cmp.Or(feed.MaxAge, defaultAge)
		}
	}
	for i := range cfg.Services {
		l := cfg.Services[i].Load
		if l == nil || l.URL == "" && l.Query == "" {
			continue
		}
		s := source{service: cfg.Services[i].Name, url: l.URL, query: l.Query, interval: cmp.Or(l.Interval, 10*time.Second), timeout: requestTime}
		if l.Query != "" {
			s.prometheus, s.token, s.timeout = p.prometheus, p.token, p.timeout
		}
		p.sources = append(p.sources, s)
	}
	return p
}

func (p *Plan) endpoint(name string) bool { _, ok := p.loads[name]; return ok }

func (p *Plan) loadAge(name string) time.Duration { return p.loads[name] }

func (p *Plan) feedAge(name string) time.Duration { return p.feeds[name] }

// knows says whether a sample's key means anything here.
func (p *Plan) knows(key string) bool {
	if name, ok := strings.CutPrefix(key, loadKey); ok {
		return p.endpoint(name)
	}
	name, ok := strings.CutPrefix(key, feedKey)
	if !ok {
		return false
	}
	_, ok = p.feeds[name]
	return ok
}
