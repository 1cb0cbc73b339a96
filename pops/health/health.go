// Package health checks the endpoints of a fleet and says which of them are down.
//
// A [Plan] is what is to be checked, made from the configuration. A [Monitor] checks every address of every endpoint once per interval, however many records use it, makes this node's votes of what
// it sees, exchanges votes with other nodes, and makes the verdicts that pops.NewView takes. The kinds of checks stand in registry.go.
//
// What it is not: it takes nothing out of the answers (pops.NewView applies verdicts), makes no statements (automation does, in server/app), and knows no network of nodes: votes are octets that
// somebody carries.
package health

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/pops"
)

// Config is what a Monitor is made of.
type Config struct {
	Node string           // this node's name, unique in the fleet; required
	PoP  string           // where it stands: it does not vote on that PoP; "": nowhere
	Plan *Plan            // what is checked; required
	Dir  string           // an existing folder for the last verdicts; "": they are not kept
	Now  func() time.Time // fleet time; nil: time.Now
	// Broadcast hands news of this node's votes to the other nodes: a state for their Merge. A later one of the same key takes the place of an earlier one. It must not block, and is called for
	// every change and as a sign of life once per interval. nil: there are no other nodes.
	Broadcast  func(key string, state []byte)
	Log        *slog.Logger          // nil: slog.Default
	Registerer prometheus.Registerer // nil: the metrics are counted but not shown
}

// Monitor checks and votes. All methods are safe for concurrent use.
type Monitor struct {
	config  Config
	node    string
	now     func() time.Time
	log     *slog.Logger
	metrics *metrics
	changed chan struct{}
	wake    chan struct{}
	saves   chan struct{}
	ready   chan struct{} // closed when there is something to serve

	running sync.WaitGroup // probes

	mu        sync.Mutex // of all that follows
	plan      *Plan
	jobs      map[string][]*job // by target, in the order of its addresses
	queue     queue             // those that wait
	busy      int               // probes under way
	reports   map[string]*Report
	verdicts  map[string]*verdict
	sick      map[string]bool // nodes that abstain
	restored  bool
	isReady   bool
	dirty     bool      // verdicts may differ
	stirred   bool      // what wavers has changed
	stirredAt time.Time // when that was last told
	evaluated time.Time
	beaten    time.Time
	kept      time.Time
	longest   time.Duration // timeout
	shortest  time.Duration // interval
}

// New makes a Monitor and reads what it last believed. Run starts the checks.
func New(c Config) (*Monitor, error) {
	if c.Node == "" || c.Plan == nil {
		return nil, errors.New("health checks need a node name and a plan")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	m := &Monitor{
		config: c, node: c.Node, now: c.Now, log: c.Log,
		metrics:  newMetrics(c.Registerer),
		changed:  make(chan struct{}, 1),
		wake:     make(chan struct{}, 1),
		saves:    make(chan struct{}, 1),
		ready:    make(chan struct{}),
		jobs:     map[string][]*job{},
		verdicts: map[string]*verdict{},
	}
	now := c.Now()
	m.reports = map[string]*Report{c.Node: {Node: c.Node, PoP: c.PoP, Epoch: now, At: now, Votes: map[string]Vote{}, heard: now}}
	last := m.load(now)
	if last != nil {
		for node, v := range last.Voters {
			if node != c.Node {
				m.reports[node] = &Report{Node: node, PoP: v.PoP, At: notAhead(v.At, now)}
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.follow(c.Plan, last)
	m.evaluate(now)
	m.register(c.Registerer)
	return m, nil
}

// Reload makes another plan the one to follow. What is known of addresses that are in both is kept.
func (m *Monitor) Reload(p *Plan) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p == m.plan {
		return
	}
	now := m.now()
	m.follow(p, nil)
	m.withdraw(now)
	for name := range m.verdicts {
		if _, ok := p.byName[name]; !ok {
			delete(m.verdicts, name)
		}
	}
	m.evaluate(now)
	m.nudge()
}

// withdraw takes back the votes of this node on what is not checked any more, which begins another epoch of its report.
func (m *Monitor) withdraw(now time.Time) {
	own := m.reports[m.node]
	before := len(own.Votes)
	maps.DeleteFunc(own.Votes, func(name string, _ Vote) bool { _, ok := m.plan.byName[name]; return !ok })
	if len(own.Votes) == before {
		return
	}
	own.Epoch = own.Epoch.Add(1)
	if now.After(own.Epoch) {
		own.Epoch = now
	}
	m.send(own.Votes)
}

// follow makes the jobs of a plan. last is what was believed before this process began, nil if that is not known.
func (m *Monitor) follow(p *Plan, last *memory) {
	old := m.jobs
	m.plan, m.jobs, m.queue = p, make(map[string][]*job, len(p.targets)), nil
	m.longest, m.shortest = 0, time.Minute
	now := time.Now()
	for i := range p.targets {
		t := &p.targets[i]
		m.longest, m.shortest = max(m.longest, t.timeout), min(m.shortest, t.interval)
		for _, a := range t.addresses {
			j := &job{target: t, address: a, phase: phase(m.node, t.name, a, t.interval)}
			if k := slices.IndexFunc(old[t.name], func(o *job) bool { return o.address == a }); k >= 0 {
				j.tally = old[t.name][k].tally
			} else {
				j.tally = last.tally(t.name, a)
			}
			j.next = j.first(now)
			m.jobs[t.name] = append(m.jobs[t.name], j)
			m.queue.push(j)
		}
		if last != nil {
			if v, ok := last.Verdicts[t.name]; ok {
				m.verdicts[t.name] = &v
			}
		}
		m.vote(t)
	}
	for _, jobs := range old {
		for _, j := range jobs {
			j.gone = true
		}
	}
}

// maxProbes is how many probes there are at the same time.
const maxProbes = 8192

// vote makes this node's vote on a target of what it has seen of the addresses. It holds mu.
func (m *Monitor) vote(t *target) {
	jobs := m.jobs[t.name]
	tallies := make([]*tally, len(jobs))
	for i, j := range jobs {
		tallies[i] = &j.tally
	}
	mood := count(tallies, t.minUp)
	if mood == unknown {
		return
	}
	now := m.now()
	own := m.reports[m.node]
	v := Vote{Down: mood == down, Since: now, Set: now}
	for _, j := range jobs {
		if j.tally.mood != down {
			continue
		}
		v.Dead = append(v.Dead, j.address)
		v.Error = j.tally.failed
		if len(jobs) > 1 {
			v.Error = j.address.String() + ": " + j.tally.failed
		}
	}
	slices.SortFunc(v.Dead, netip.Addr.Compare)
	before, ok := own.Votes[t.name]
	if ok && before.same(&v) {
		return
	}
	if ok && before.Down == v.Down {
		v.Since = before.Since
	}
	if ok && !v.Set.After(before.Set) {
		v.Set = before.Set.Add(1)
	}
	own.Votes[t.name] = v
	m.send(map[string]Vote{t.name: v})
	m.dirty = true
}

// First waits until there is something to serve: the verdicts of before this process began, if they are young, or those of other nodes, or a whole round of checks. It waits no longer than the longest
// timeout and a second, and needs Run to run.
func (m *Monitor) First(ctx context.Context) {
	m.mu.Lock()
	longest := m.longest
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, longest+time.Second)
	defer cancel()
	select {
	case <-m.ready:
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.evaluate(m.now())
}

// checkReady closes ready when there is something to serve. It holds mu.
func (m *Monitor) checkReady() {
	if m.isReady {
		return
	}
	if !m.restored {
		for i := range m.plan.targets {
			name := m.plan.targets[i].name
			if v := m.verdicts[name]; v != nil && v.Known {
				continue
			}
			if slices.ContainsFunc(m.jobs[name], func(j *job) bool { return j.tally.last.IsZero() }) {
				return
			}
		}
	}
	m.isReady = true
	close(m.ready)
}

// Changed receives when Verdicts have changed; at most once a second when only Wavers have. There is one channel: one may read it.
func (m *Monitor) Changed() <-chan struct{} { return m.changed }

// Verdicts are those on the endpoints of a fleet, the plan's or another. An endpoint that is not checked, or of which nothing is known, has the zero Verdict.
func (m *Monitor) Verdicts(f *pops.Fleet) []pops.Verdict {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]pops.Verdict, len(f.Endpoints))
	for e := range f.Endpoints {
		name := ""
		switch {
		case f != m.plan.fleet:
			name = f.UnitTarget(f.EndpointUnit(e)).String()
		case m.plan.at[e] >= 0:
			name = m.plan.targets[m.plan.at[e]].name
		}
		if v := m.verdicts[name]; v != nil {
			out[e] = v.of(f.Endpoints[e].Addresses)
			out[e].Wavers = !v.gray.IsZero() || wavers(m.jobs[name])
		}
	}
	return out
}

// of is a verdict in the terms of pops.
func (v *verdict) of(addresses []netip.Addr) pops.Verdict {
	p := pops.Verdict{Down: v.Down, Since: v.Since, Note: v.Error}
	for i, a := range addresses {
		if slices.Contains(v.Dead, a) {
			p.Dead |= 1 << i
		}
	}
	if all := uint64(1)<<len(addresses) - 1; !p.Down && p.Dead == all {
		p.Dead = 0 // the nodes agree that it is up, and not where
	}
	return p
}

// tellChanged lets whoever reads Changed know.
func (m *Monitor) tellChanged() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// nudge lets Run look at once.
func (m *Monitor) nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// compareJobs orders jobs by when they are due.
func compareJobs(a, b *job) int {
	return cmp.Or(a.next.Compare(b.next), cmp.Compare(a.target.name, b.target.name), a.address.Compare(b.address))
}
