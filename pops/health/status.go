package health

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Status is what is known of one endpoint that is checked.
type Status struct {
	Target   string // POP/SERVICE
	Kind     string // of the check
	Interval time.Duration

	Known   bool      // there is a verdict
	Down    bool      // the verdict
	Since   time.Time // of the verdict; fleet time
	Gray    time.Time // since when the nodes disagree so much that the verdict stays; zero: they do not
	Doubt   time.Time // when no verdict last followed from the votes: the nodes disagreed, or too few had one; zero: never in this process
	Quorum  bool      // more than half of the voters have a fresh vote; else the verdict stays
	Voters  int       // nodes that may vote
	Fresh   int       // votes that count
	Against int       // of them, those that say down

	Votes     []NodeVote      // by node
	Addresses []AddressStatus // what this node has seen, in configured order
}

// NodeVote is the vote of one node.
type NodeVote struct {
	Node     string
	PoP      string
	Vote     Vote
	Fresh    bool
	Abstains bool // it fails more than half of all its targets while others do not
	Dissents bool // it counts, and is not the verdict
	Stands   bool // in the PoP in question: it has no vote
}

// AddressStatus is what this node has seen of one address.
type AddressStatus struct {
	Address netip.Addr
	State   string    // up, down, unknown
	Since   time.Time // of State; fleet time
	Last    time.Time // end of the last probe; fleet time; zero: there was none in this process
	Next    time.Time // of the next probe
	Took    time.Duration
	Fault   string // of the last probe, "": it was good
	Failed  string // the last fault there was
	Warning string // of the last probe
	Run     int    // probes in a row like the last one
	Checks  uint64 // in this process
	Faults  uint64 // of them
}

// Status describes every target, as configured.
func (m *Monitor) Status() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status(func(*verdict) bool { return true })
}

// Doubts describes the targets about which the nodes disagree so much that the verdict stays, and names the nodes that abstain.
func (m *Monitor) Doubts() (gray []Status, abstaining []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gray = m.status(func(v *verdict) bool { return v != nil && !v.gray.IsZero() })
	return gray, slices.Sorted(maps.Keys(m.sick))
}

// status describes the targets whose verdicts, nil if there is none, are wanted. It holds mu.
func (m *Monitor) status(wanted func(*verdict) bool) []Status {
	now := m.now()
	shift := time.Until(now) // from this machine's clock to fleet time
	nodes := slices.Sorted(maps.Keys(m.reports))
	var out []Status
	for i := range m.plan.targets {
		t := &m.plan.targets[i]
		if !wanted(m.verdicts[t.name]) {
			continue
		}
		s := Status{Target: t.name, Kind: t.kind, Interval: t.interval}
		if v := m.verdicts[t.name]; v != nil {
			s.Known, s.Down, s.Since, s.Gray, s.Doubt = v.Known, v.Down, v.Since, v.gray, v.doubt
			s.Quorum, s.Voters, s.Fresh, s.Against = v.outcome.quorum, v.outcome.Voters, v.outcome.Fresh, v.outcome.Down
		}
		for _, n := range nodes {
			r := m.reports[n]
			vote, ok := r.Votes[t.name]
			if !ok {
				continue
			}
			nv := NodeVote{Node: n, PoP: r.PoP, Vote: vote, Fresh: r.age(now) <= freshFor*t.interval, Abstains: m.sick[n], Stands: r.PoP != "" && r.PoP == t.pop}
			nv.Dissents = nv.Fresh && !nv.Abstains && !nv.Stands && s.Known && vote.Down != s.Down
			s.Votes = append(s.Votes, nv)
		}
		for _, j := range m.jobs[t.name] {
			a := AddressStatus{
				Address: j.address, State: j.tally.mood.String(), Since: j.tally.since,
				Last: j.tally.last, Next: j.next.Add(shift).Round(0), Took: j.tally.took,
				Fault: j.tally.fault, Failed: j.tally.failed, Warning: j.tally.warning,
				Run: j.tally.run, Checks: j.tally.checks, Faults: j.tally.faults,
			}
			s.Addresses = append(s.Addresses, a)
		}
		out = append(out, s)
	}
	return out
}

// Result is what came of one probe that somebody asked for.
type Result struct {
	Address netip.Addr
	Fault   string // "": it was good
	Warning string
	Local   bool // the fault says nothing of the address: this node could not even try
	Took    time.Duration
}

// Timeout is how long ProbeNow of a target takes at most; false if it is not checked.
func (m *Monitor) Timeout(name string) (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, ok := m.plan.byName[name]
	if !ok {
		return 0, false
	}
	return m.plan.targets[i].timeout, true
}

// ProbeNow checks all addresses of a target at once and tells what came of it. It is not counted: looking often must not make anything go down or up.
func (m *Monitor) ProbeNow(ctx context.Context, name string) ([]Result, error) {
	m.mu.Lock()
	i, ok := m.plan.byName[name]
	p := m.plan
	m.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("%s is not checked", name)
	}
	t := &p.targets[i]
	out := make([]Result, len(t.addresses))
	var wg sync.WaitGroup
	for i, a := range t.addresses {
		wg.Go(func() {
			start := time.Now()
			r := Result{Address: a}
			warning, err := try(ctx, t, a)
			r.Warning, r.Took = warning, time.Since(start)
			if err != nil {
				r.Fault = err.Error()
				r.Local = is[*localError](err)
			}
			out[i] = r
		})
	}
	wg.Wait()
	return out, nil
}
