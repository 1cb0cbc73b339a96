package app

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/edgesteer/edgesteer/filters"
	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/geo/mmdb"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/health"
	loads "github.com/edgesteer/edgesteer/pops/load"
	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/transfer"
	"github.com/edgesteer/edgesteer/zones/wire"
	"github.com/edgesteer/edgesteer/zones/zonefile"
)

// parts is what a configuration says, loaded: everything of a snapshot but the PoP view.
type parts struct {
	cfg   *config.Config
	fleet *pops.Fleet
	zones *zones.Set
	made  *zonefile.Loader // of the zones; it knows which files have not changed
	atlas *geo.Atlas
	keys  *transfer.Keys

	checks *health.Plan
	loads  *loads.Plan
	own    []pops.OwnLoad // of answers, as far as feeds say something of them

	databases []geo.Database
	said      map[string]any // by feed: what has been compiled into zones and maps
}

// Check loads everything that serve would load and reports all that it would refuse or warn of, beyond what config.Load has found.
func Check(cfg *config.Config, _ *slog.Logger) []config.Problem {
	_, problems := load(cfg, nil, nil)
	if cfg.Cluster != nil {
		_, bad := clusterKeys(cfg) // apart from load: who only asks a configuration needs no keys
		problems = append(problems, bad...)
	}
	return problems
}

// load turns a configuration into what is served. prev is what is served now, nil at the start; what has not changed is taken over from it. The result is nil if something
// is wrong that must not be served. said is what feeds say of metadata that is compiled.
func load(cfg *config.Config, prev *parts, said map[string]any) (*parts, []config.Problem) {
	p := &parts{cfg: cfg, said: said}
	bound := cfg.Bind(said)
	var old parts
	if prev != nil {
		old = *prev
	}
	fleet, problems := zonefile.Fleet(bound)
	if fleet == nil {
		return nil, problems
	}
	p.fleet, p.made = fleet, old.made
	if p.made == nil {
		p.made = new(zonefile.Loader)
	} else {
		p.made.Workers = 1 // see App.beside
	}
	set, more := p.made.Load(bound, fleet, old.zones)
	problems = append(problems, more...)
	p.keys, more = transfer.NewKeys(cfg)
	problems = append(problems, more...)
	p.loads = loads.NewPlan(cfg, fleet)
	p.checks, more = health.NewPlan(cfg, fleet)
	problems = append(problems, more...)
	if set != nil {
		problems = append(problems, transfer.Check(cfg, set)...)
	}
	if prev == nil { // later the old certificate stays in use, and nothing else is held back
		problems = append(problems, checkCertificates(cfg)...)
		problems = append(problems, checkToken(cfg)...)
	}
	source, err := openDatabases(cfg, old.atlas)
	if err != nil {
		problems = append(problems, databaseProblem(cfg, err)...) // an error: nothing is served
	}
	if set == nil || config.Failed(problems) {
		return nil, problems
	}
	p.zones, p.databases, p.own = set, source.Databases(), ownLoads(set)
	p.atlas, err = geo.BuildAtlas(source, set.Plans(), old.atlas)
	if err != nil {
		return nil, append(problems, planProblems(cfg, set, err)...)
	}
	return p, append(problems, unmatched(cfg, set, p.atlas)...)
}

// ownLoads are the loads of answers that have their own, each once.
func ownLoads(set *zones.Set) (out []pops.OwnLoad) {
	pools, seen := map[*filters.Pool]bool{}, map[string]bool{}
	for z := range set.Zones() {
		for _, r := range z.Records() {
			if pools[r.Pool] {
				continue
			}
			pools[r.Pool] = true
			for i := range r.Pool.Answers {
				for _, l := range r.Pool.Answers[i].Load {
					own := pops.OwnLoad(l)
					if key := fmt.Sprint(own); l.Load.Set && own.Moves() && !seen[key] {
						seen[key] = true
						out = append(out, own)
					}
				}
			}
		}
	}
	return out
}

// openDatabases opens the location databases, or keeps those of an atlas (nil: none) if they are the same still: then its maps stay good.
func openDatabases(cfg *config.Config, prev *geo.Atlas) (geo.Source, error) {
	paths := make([]string, len(cfg.Geo.Databases))
	for i, path := range cfg.Geo.Databases {
		paths[i] = cfg.Path(path)
	}
	if prev != nil {
		if s, ok := prev.Source().(*mmdb.Source); ok && s.Holds(paths) {
			return s, nil
		}
	}
	if len(paths) == 0 {
		return mmdb.Embedded()
	}
	return mmdb.Open(paths)
}

// databaseProblem names the line of each location database that cannot be used.
func databaseProblem(cfg *config.Config, err error) (out []config.Problem) {
	for _, e := range unjoin(err) {
		path := []any{"geo", "databases"}
		for i, name := range cfg.Geo.Databases {
			if strings.Contains(e.Error(), cfg.Path(name)) {
				path = append(path, i)
				break
			}
		}
		out = append(out, cfg.Problem(e.Error(), hintOf(e), path...))
	}
	return out
}

// hintOf is what an error itself advises.
func hintOf(err error) string {
	if h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return h.Hint()
	}
	return ""
}

// checkCertificates loads what TLS, HTTPS and the admin API are to show, so that a missing or odd file is known before the server needs it.
func checkCertificates(cfg *config.Config) (out []config.Problem) {
	check := func(certificate, key string, path ...any) {
		if _, err := tls.LoadX509KeyPair(cfg.Path(certificate), cfg.Path(key)); err != nil {
			out = append(out, cfg.Problem(err.Error(), "certificate and key are PEM files that belong together", path...))
		}
	}
	if t := cfg.Server.TLS; t != nil {
		check(t.Certificate, t.Key, "server", "tls", "certificate")
	}
	if t := cfg.Server.HTTPS; t != nil {
		check(t.Certificate, t.Key, "server", "https", "certificate")
	}
	if t := cfg.Admin.TLS; t != nil {
		check(t.Certificate, t.Key, "admin", "tls", "certificate")
		if t.ClientCA != "" {
			pem, err := os.ReadFile(cfg.Path(t.ClientCA))
			if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
				err = fmt.Errorf("no certificate in %s", cfg.Path(t.ClientCA))
			}
			if err != nil {
				out = append(out, cfg.Problem(err.Error(), "a PEM file of the certificates that sign those of clients", "admin", "tls", "client_ca"))
			}
		}
	}
	return out
}

// checkToken warns of a token for Prometheus that cannot be read: it is read again for each query, so it need not be there yet.
func checkToken(cfg *config.Config) []config.Problem {
	path := cfg.Prometheus.TokenFile
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(cfg.Path(path))
	if err == nil && len(bytes.TrimSpace(text)) == 0 {
		err = fmt.Errorf("no token in %s", cfg.Path(path))
	}
	if err == nil {
		return nil
	}
	p := cfg.Problem(err.Error(), "until it can be read every query of Prometheus fails", "prometheus", "token_file")
	p.Warning = true
	return []config.Problem{p}
}

// planProblems says which record no database can steer, and what is lacking.
func planProblems(cfg *config.Config, set *zones.Set, err error) (out []config.Problem) {
	for _, e := range unjoin(err) {
		var plan *geo.PlanError
		if !errors.As(e, &plan) {
			out = append(out, databaseProblem(cfg, e)...)
			continue
		}
		for _, r := range recordsOf(set, plan.Plan) {
			out = append(out, cfg.Problem(fmt.Sprintf("%s: %v", r, plan.Err), hintOf(plan.Err), recordPath(cfg, r)...))
		}
	}
	return out
}

func unjoin(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

func recordsOf(set *zones.Set, plan int) (out []*zones.Record) {
	for z := range set.Zones() {
		for _, r := range z.Records() {
			for _, n := range r.Plans {
				if n == plan {
					out = append(out, r)
				}
			}
		}
	}
	return out
}

// recordPath is where a steered record stands in the configuration.
func recordPath(cfg *config.Config, r *zones.Record) []any {
	for i := range cfg.Zones {
		for j := range cfg.Zones[i].Records {
			c := &cfg.Zones[i].Records[j]
			if typ, _ := zonefile.TypeNumber(c.Type); c.Type != "" && typ != r.Type {
				continue
			}
			owner := c.Name
			switch zone := strings.TrimSuffix(cfg.Zones[i].Name, "."); {
			case owner == "@":
				owner = zone
			case !strings.HasSuffix(owner, "."):
				owner += "." + zone
			}
			if name, err := wire.ParseName(owner); err == nil && bytes.Equal(wire.ToLower(nil, name), r.Name) {
				return []any{"zone", i, "record", j}
			}
		}
	}
	return []any{"geo", "databases"}
}

// unmatched warns of rules that no network of the database matches: an answer that is fenced to a place can never be given there.
func unmatched(cfg *config.Config, set *zones.Set, atlas *geo.Atlas) (out []config.Problem) {
	warned := map[string]bool{}
	for n := range atlas.Len() {
		if set.Plans()[n].Targets == nil {
			continue
		}
		for _, target := range atlas.Map(n).Unmatched() {
			for _, r := range recordsOf(set, n) {
				p := cfg.Problem(fmt.Sprintf("%s: no network of the location database matches the fence of answer %s", r, r.Pool.Answers[target].Label),
					"check its country, subdivision, georegion or asn, or use a database that has them", recordPath(cfg, r)...)
				p.Warning = true
				if key := p.String(); !warned[key] {
					warned[key] = true
					out = append(out, p)
				}
			}
		}
	}
	return out
}
