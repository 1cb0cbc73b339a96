package health

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// ballot is the vote of one voter on one question.
type ballot struct {
	node  string
	fresh bool // it has been heard within three intervals, has a vote, and does not abstain
	down  bool
}

// outcome is what the ballots come to.
type outcome struct {
	Voters int // nodes that may vote
	Fresh  int // votes that count
	Down   int // of them
	quorum bool
	clear  bool // the verdict follows from the votes
	down   bool // if clear: the verdict
}

// decide counts ballots (steering.md section 6). Without fresh votes from more than half of the voters nothing follows: absence of a report is not a vote. Down follows from at least agree of the
// fresh votes, up likewise; in between is gray.
func decide(ballots []ballot, agree float64) outcome {
	o := outcome{Voters: len(ballots)}
	for _, b := range ballots {
		if b.fresh {
			o.Fresh++
			if b.down {
				o.Down++
			}
		}
	}
	if o.quorum = 2*o.Fresh > o.Voters; !o.quorum {
		return o
	}
	enough := agree*float64(o.Fresh) - 1e-9
	switch {
	case float64(o.Down) >= enough:
		o.clear, o.down = true, true
	case float64(o.Fresh-o.Down) >= enough:
		o.clear = true
	}
	return o
}

// dissenters are the nodes whose vote is not the verdict.
func dissenters(ballots []ballot, down bool) (out []string) {
	for _, b := range ballots {
		if b.fresh && b.down != down {
			out = append(out, b.node)
		}
	}
	return out
}

// verdict is what the fleet believes of an endpoint. It is kept when the votes do not suffice for another.
type verdict struct {
	Known bool         `json:"known"`
	Down  bool         `json:"down,omitempty"`
	Since time.Time    `json:"since"`
	Dead  []netip.Addr `json:"dead,omitempty"`  // sorted
	Error string       `json:"error,omitempty"` // what a voter saw that says down

	outcome outcome
	gray    time.Time // since when the votes disagree; zero: they do not
	doubt   time.Time // when no verdict last followed from the votes; zero: never in this process
	dissent []string
	abstain []string
}

// apply takes in the ballots on an endpoint, and on each of its addresses. It says whether the verdict or the dead addresses have changed.
func (v *verdict) apply(ballots []ballot, addresses map[netip.Addr][]ballot, agree float64, now time.Time) (turned, changed bool) {
	o := decide(ballots, agree)
	v.outcome = o
	gray := o.quorum && !o.clear
	if !o.clear {
		v.doubt = now
	}
	switch {
	case !gray:
		v.gray = time.Time{}
	case v.gray.IsZero():
		v.gray = now
	}
	if o.clear && (!v.Known || v.Down != o.down) {
		turned = v.Down != o.down
		v.Known, v.Down, v.Since = true, o.down, now
	}
	v.dissent = dissenters(ballots, v.Down)
	dead := slices.DeleteFunc(slices.Clone(v.Dead), func(a netip.Addr) bool { return addresses[a] == nil })
	for a, b := range addresses {
		d := decide(b, agree)
		i := slices.Index(dead, a)
		switch {
		case !d.clear:
		case d.down && i < 0:
			dead = append(dead, a)
		case !d.down && i >= 0:
			dead = slices.Delete(dead, i, i+1)
		}
	}
	slices.SortFunc(dead, netip.Addr.Compare)
	changed = turned || !slices.Equal(dead, v.Dead)
	v.Dead = dead
	return turned, changed
}

// sick are the nodes that at once fail more than half of all that they check while most of the others do not: it is they that are ill.
func sick(reports map[string]*Report, fresh func(*Report, string) bool) map[string]bool {
	failing := map[string]bool{}
	for node, r := range reports {
		all, down := 0, 0
		for name, v := range r.Votes {
			if fresh(r, name) {
				all++
				if v.Down {
					down++
				}
			}
		}
		if all > 0 {
			failing[node] = 2*down > all
		}
	}
	well := 0
	for _, f := range failing {
		if !f {
			well++
		}
	}
	out := map[string]bool{}
	for node, f := range failing {
		if f && 2*well > len(failing)-1 {
			out[node] = true
		}
	}
	return out
}

// evaluate makes the verdicts of all targets anew. It holds mu.
func (m *Monitor) evaluate(now time.Time) {
	m.dirty, m.evaluated = false, now
	for node, r := range m.reports {
		if node != m.node && now.Sub(r.At) > forget {
			delete(m.reports, node)
		}
	}
	p := m.plan
	fresh := func(r *Report, name string) bool {
		i, ok := p.byName[name]
		return ok && r.age(now) <= freshFor*p.targets[i].interval
	}
	m.sick = sick(m.reports, fresh)
	nodes := make([]*Report, 0, len(m.reports))
	for _, r := range m.reports {
		nodes = append(nodes, r)
	}
	slices.SortFunc(nodes, func(a, b *Report) int { return cmp.Compare(a.Node, b.Node) })
	news := false
	for i := range p.targets {
		t := &p.targets[i]
		v := m.verdicts[t.name]
		if v == nil {
			v = &verdict{}
			m.verdicts[t.name] = v
		}
		was := *v
		var ballots []ballot
		addresses := make(map[netip.Addr][]ballot, len(t.addresses))
		v.abstain = nil
		seen := ""
		for _, r := range nodes {
			if r.PoP != "" && r.PoP == t.pop {
				continue
			}
			vote, ok := r.Votes[t.name]
			b := ballot{node: r.Node, fresh: ok && fresh(r, t.name), down: vote.Down}
			if b.fresh && m.sick[r.Node] {
				v.abstain = append(v.abstain, r.Node)
				b.fresh = false
			}
			if b.fresh && seen == "" {
				seen = vote.Error
			}
			ballots = append(ballots, b)
			for _, a := range t.addresses {
				b.down = slices.Contains(vote.Dead, a)
				addresses[a] = append(addresses[a], b)
			}
		}
		if v.outcome.quorum || seen != "" { // else what was seen last is all that is known
			v.Error = seen
		}
		turned, changed := v.apply(ballots, addresses, p.agree, now)
		news = news || changed
		m.tell(t, &was, v, turned)
	}
	m.measure()
	if news {
		m.save()
		m.tellChanged()
	}
	m.checkReady()
}

// freshFor is for how many intervals a vote is fresh.
const freshFor = 3

// tell logs what has changed about a target.
func (m *Monitor) tell(t *target, was, is *verdict, turned bool) {
	o := &is.outcome
	switch {
	case turned && is.Down:
		m.log.Warn("endpoint is down", "target", t.name, "votes", o.Fresh, "down", o.Down, "error", is.Error)
	case turned:
		m.log.Info("endpoint is up", "target", t.name, "votes", o.Fresh, "down", o.Down)
	case was.gray.IsZero() && !is.gray.IsZero():
		m.log.Warn("endpoint is gray: the nodes disagree, and the verdict stays", "target", t.name, "votes", o.Fresh, "down", o.Down, "error", is.Error)
	}
	if turned {
		m.metrics.turned.WithLabelValues(direction(is.Down)).Inc()
	}
}

func direction(isDown bool) string {
	if isDown {
		return down.String()
	}
	return up.String()
}
