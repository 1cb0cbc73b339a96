// Package zonefile makes zones of what operators write: RFC 1035 master files and the steered records of the configuration.
//
// [Fleet] turns PoPs and services into a pops.Fleet, [Load] turns zones into a zones.Set: records are parsed and packed (by miekg/dns), metadata is resolved, chains are built
// (by package filters) and everything is checked. All problems are reported at once, each with file, line and, where it helps, a hint.
//
// What it is not: it watches no files and publishes nothing (server/app does), knows nothing of the TOML syntax (server/config does) and is never on the path of a query.
package zonefile

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// Load builds all zones of a configuration. fleet was built of the same configuration; prev is the set that is served now, nil at the start.
//
// The set is nil if a problem is an error; nothing changes then. A zone file that cannot be used is an error at the start only: where prev has the zone, its static records are
// taken from there, and what is wrong with the file becomes warnings. Secondary zones (those with primaries) get their static records from prev, too; one that prev does not have yet
// is left out until it has been transferred.
func Load(cfg *config.Config, fleet *pops.Fleet, prev *zones.Set) (*zones.Set, []config.Problem) {
	return new(Loader).Load(cfg, fleet, prev)
}

// Loader loads again and again and builds only what has changed: a zone of prev that this Loader has made is taken over if its files hold the same, its steered records say the same, and
// so does what they are made of: PoPs, services and feeds. The zero Loader is ready. It is not for concurrent use.
type Loader struct {
	// Workers is how many zones are built at the same time; 0: one for each processor.
	Workers int

	known map[string]*origin // by apex
	basis basis              // of what is known
}

// origin is what a zone was made of.
type origin struct {
	zone     *zones.Zone
	files    []content        // none: the zone comes from elsewhere
	problems []config.Problem // warnings of the files
	records  []config.Record
	uses     []use
	notes    []note
}

// basis is what steered records are made of beside what they say themselves.
type basis struct {
	pops     []config.PoP
	services []config.Service // without their checks, which are none of a record's business
	feeds    []string         // chains know them by number
}

func basisOf(cfg *config.Config, fleet *pops.Fleet) basis {
	b := basis{cfg.PoPs, slices.Clone(cfg.Services), fleet.Feeds}
	for i := range b.services {
		b.services[i].Check = nil
	}
	return b
}

// Load is like the function of the package.
func (l *Loader) Load(cfg *config.Config, fleet *pops.Fleet, prev *zones.Set) (*zones.Set, []config.Problem) {
	r := newRun(cfg, fleet, prev)
	basis := basisOf(cfg, fleet)
	sound := l.known != nil && reflect.DeepEqual(basis, l.basis)
	if len(cfg.Zones) == 0 {
		r.report(config.Problem{File: cfg.File, Message: "there is no zone: every query is refused", Hint: "add [[zone]] with name and file", Warning: true})
	}
	jobs := make([]job, len(cfg.Zones))
	for i := range jobs {
		jobs[i] = r.job(i)
		jobs[i].knows(l.known[string(jobs[i].apex)], sound)
	}
	each(l.Workers, jobs, (*job).compare)
	for i := range jobs { // one after the other, for chains share the numbers of plans
		jobs[i].readRecords()
	}
	each(l.Workers, jobs, (*job).build)
	var made []*zones.Zone
	known := map[string]*origin{}
	for i := range jobs {
		j := &jobs[i]
		r.report(j.problems...)
		if j.zone != nil {
			made = append(made, j.zone)
		}
		if j.origin != nil {
			known[string(j.apex)] = j.origin
		}
	}
	set, problems := r.finish(func() *zones.Set { return zones.New(made, r.plans) })
	if set != nil {
		l.known, l.basis = known, basis
	}
	return set, problems
}

// Reload builds one zone anew, after its file has changed or, a secondary zone, prev has got new static records (zones.Set.With); the others are shared with prev. cfg and fleet
// are those that prev was made of.
func Reload(cfg *config.Config, fleet *pops.Fleet, prev *zones.Set, apex []byte) (*zones.Set, []config.Problem) {
	r := newRun(cfg, fleet, prev)
	i := slices.IndexFunc(cfg.Zones, func(z config.Zone) bool {
		name, err := wire.ParseName(z.Name)
		return err == nil && wire.EqualFold(name, apex)
	})
	if i < 0 {
		var known []string
		for _, z := range cfg.Zones {
			known = append(known, z.Name)
		}
		name := strings.TrimSuffix(wire.NameString(apex), ".")
		return nil, []config.Problem{{File: cfg.File, Message: "there is no zone " + name, Hint: config.DidYouMean(name, known)}}
	}
	j := r.job(i)
	j.readRecords()
	j.build(new(scratch))
	r.report(j.problems...)
	return r.finish(func() *zones.Set {
		if j.zone == nil {
			return prev
		}
		return prev.With(r.plans, j.zone)
	})
}

// scratch is what a worker needs for one zone after the other.
type scratch struct {
	text [1 << 16]byte
	rr   [maxRR]byte
}

// each does the same with all jobs, workers at once.
func each(workers int, jobs []job, do func(*job, *scratch)) {
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(len(jobs), workers) {
		wg.Go(func() {
			s := new(scratch)
			for i := next.Add(1) - 1; i < int64(len(jobs)); i = next.Add(1) - 1 {
				do(&jobs[i], s)
			}
		})
	}
	wg.Wait()
}

// run is one run of Load or Reload.
type run struct {
	cfg      *config.Config
	fleet    *pops.Fleet
	levels   fleetLevels
	prev     *zones.Set
	plans    *zones.PlanTable
	alike    map[string]*share // by key
	said     map[*share]bool   // whose warnings have been
	buf      []byte            // for packing, maxRR
	problems []config.Problem
}

func newRun(cfg *config.Config, fleet *pops.Fleet, prev *zones.Set) *run {
	if prev == nil {
		prev = &zones.Set{}
	}
	levels := readFleet(&metaReader{cfg: cfg, feeds: fleet.Feeds}, cfg) // Fleet has reported what is wrong there
	return &run{cfg: cfg, fleet: fleet, levels: levels, prev: prev, plans: zones.NewPlanTable(prev), alike: map[string]*share{}, said: map[*share]bool{}}
}

func (r *run) finish(set func() *zones.Set) (*zones.Set, []config.Problem) {
	if config.Failed(r.problems) {
		return nil, r.problems
	}
	return set(), r.problems
}

func (r *run) report(problems ...config.Problem) { r.problems = append(r.problems, problems...) }

// job is the building of one zone. Only readRecords touches what jobs have in common.
type job struct {
	run   *run
	n     int // of the zone in the configuration
	apex  []byte
	old   *zones.Zone // that is served now, or nil
	known *origin     // of old, or nil
	same  bool        // its files hold what they held
	alike bool        // its steered records are what they were

	records []steered
	uses    []use
	notes   []note

	zone     *zones.Zone // nil if it cannot be served (yet)
	problems []config.Problem
	origin   *origin
}

func (r *run) job(n int) job {
	j := job{run: r, n: n}
	apex, err := wire.ParseName(r.cfg.Zones[n].Name)
	if err != nil {
		j.report(r.cfg.Problem(err.Error(), "", "zone", n, "name"))
		return j
	}
	if hint := foreign(r.cfg.Zones[n].Name); hint != "" {
		p := r.cfg.Problem(fmt.Sprintf("name %q is not ASCII: nobody asks for it so", r.cfg.Zones[n].Name), hint, "zone", n, "name")
		p.Warning = true
		j.report(p)
	}
	j.apex = wire.ToLower(nil, apex)
	j.old = r.prev.Zone(j.apex)
	return j
}

func (j *job) report(problems ...config.Problem) { j.problems = append(j.problems, problems...) }

// path is the zone's file.
func (j *job) path() string { return j.run.cfg.Path(j.run.cfg.Zones[j.n].File) }

// knows takes what is known of the zone, if it is of the zone that is served. sound says that the basis of its records has not changed.
func (j *job) knows(o *origin, sound bool) {
	if o == nil || o.zone != j.old {
		return
	}
	j.known = o
	if !sound {
		return
	}
	records := j.run.cfg.Zones[j.n].Records
	j.alike = len(o.records) == 0 && len(records) == 0 || reflect.DeepEqual(o.records, records)
	for _, u := range o.uses { // also those of other zones can be of these shares: what they ask of places keeps its number while it is in prev
		j.run.alike[u.key] = u.share
	}
}

// compare finds out whether the files of the zone are what they were.
func (j *job) compare(s *scratch) {
	if j.known == nil {
		return
	}
	if j.run.cfg.Zones[j.n].File == "" {
		j.same = true // its static records are those of old
		return
	}
	files := j.known.files
	j.same = len(files) > 0 && files[0].path == j.path() && !slices.ContainsFunc(files, func(c content) bool { return !c.lasts(s.text[:]) })
}

// lasts reports whether the zone as it is served now is what building it would give.
func (j *job) lasts() bool { return j.same && j.alike }

// readRecords builds the steered records, or says again what there is to say of them.
func (j *job) readRecords() {
	if j.apex == nil {
		return
	}
	if j.lasts() {
		for _, u := range j.known.uses {
			j.report(problemsOf(j.run.warnings(u.share, j.n, u.record))...)
		}
		for _, n := range j.known.notes {
			j.report(warning(j.run.cfg, n.message, n.hint, append([]any{"zone", j.n}, n.path...)).Problem)
		}
		return
	}
	var problems []placed
	j.records, j.uses, problems = j.run.records(j.n, j.apex)
	j.say(problems)
}

// say reports problems of steered records and notes them, but for those of shares.
func (j *job) say(problems []placed) {
	j.report(problemsOf(problems)...)
	for _, p := range problems {
		if !p.shared {
			j.notes = append(j.notes, noteOf(p))
		}
	}
}

func (j *job) build(s *scratch) {
	switch {
	case j.apex == nil:
	case j.lasts():
		j.zone, j.origin = j.old, j.known
		j.report(j.known.problems...)
	case j.same:
		j.remember(j.keep(), j.known.files, j.known.problems)
		j.report(j.known.problems...)
	case j.run.cfg.Zones[j.n].File != "":
		j.read(s)
	case j.old != nil:
		j.remember(j.keep(), nil, nil)
	}
}

// remember notes what the zone was made of.
func (j *job) remember(z *zones.Zone, files []content, problems []config.Problem) {
	j.zone = z
	if z != nil {
		j.origin = &origin{zone: z, files: files, problems: problems, records: j.run.cfg.Zones[j.n].Records, uses: j.uses, notes: j.notes}
	}
}

// read builds the zone of its file, or if that cannot be used of the old records.
func (j *job) read(s *scratch) {
	z, files, problems, others := j.fromFile(s)
	if !config.Failed(problems) {
		j.report(problems...)
		j.say(others)
		j.remember(z, files, problems)
		j.checkSerial()
		return
	}
	if j.old == nil {
		j.report(problems...)
		j.say(others)
		return
	}
	for _, p := range append(problems, j.run.cfg.Problem("zone "+j.old.String()+" keeps its old version", "mend the file and reload", "zone", j.n, "file")) {
		p.Warning, p.Kept = true, true
		j.report(p)
	}
	if j.alike {
		j.zone, j.origin = j.old, j.known
		return
	}
	j.zone = j.keep()
}

// checkSerial warns of a zone that is offered for transfer and has other records than before, but no higher serial: its secondaries would keep what they have (RFC 1982, RFC 5936 section 2).
func (j *job) checkSerial() {
	if j.old == nil || j.run.cfg.Zones[j.n].Transfer == nil || int32(j.zone.Serial()-j.old.Serial()) > 0 || j.zone.Same(j.old) {
		return
	}
	p := j.run.cfg.Problem(fmt.Sprintf("zone %s has changed, and its serial has not grown (%d, before %d): secondaries keep the old zone", j.old, j.zone.Serial(), j.old.Serial()),
		"raise the serial of the SOA record", "zone", j.n, "file")
	p.Warning = true
	j.report(p)
}

// fromFile builds a zone of its file. The problems are those of the file, and those of the steered records beside it.
func (j *job) fromFile(s *scratch) (z *zones.Zone, files []content, problems []config.Problem, others []placed) {
	path := j.path()
	text, err := readFile(path)
	if err != nil {
		hint := ""
		if errors.Is(err, fs.ErrNotExist) {
			hint = "relative paths start at the configuration's folder"
		}
		p := j.run.cfg.Problem("reading zone: "+err.Error(), hint, "zone", j.n, "file")
		return nil, nil, []config.Problem{p}, nil
	}
	b := zones.NewBuilder(j.apex)
	places, files, problems := read(path, text, wire.NameString(j.apex), b, s.rr[:])
	syntax := config.Failed(problems)
	z, own, others := j.assemble(b, func(row int) place {
		if row < 0 {
			return place{path, 1}
		}
		return places[row]
	})
	for _, p := range own {
		if !syntax || !p.Warning { // what is missing may be where the syntax was wrong
			problems = append(problems, p)
		}
	}
	return z, files, problems, others
}

// keep is the zone with the static records of the old one.
func (j *job) keep() *zones.Zone {
	b := zones.NewBuilder(j.old.Apex())
	b.AddZone(j.old)
	z, _, others := j.assemble(b, func(int) place { return place{} })
	j.say(others)
	return z
}

// assemble adds the steered records to what the builder has, and makes the zone. The problems are those of the static records, placed by at, and those of the steered ones.
func (j *job) assemble(b *zones.Builder, at func(row int) place) (z *zones.Zone, own []config.Problem, others []placed) {
	static := b.Rows()
	for _, r := range j.records {
		b.AddRecord(r.record)
	}
	z, faults := b.Build()
	for _, f := range faults {
		if f.Row >= static {
			path := j.records[f.Row-static].at
			p := placed{Problem: j.run.cfg.Problem(f.Message, f.Hint, path...), path: path}
			p.Warning = f.Warning
			others = append(others, p)
			continue
		}
		p := at(f.Row)
		own = append(own, config.Problem{File: p.file, Line: p.line, Message: f.Message, Hint: f.Hint, Warning: f.Warning})
	}
	return z, own, others
}

// steered is a steered record and its path in the configuration.
type steered struct {
	record *zones.Record
	at     []any
}
