package app

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/edgesteer/edgesteer/pops/health"
	"github.com/edgesteer/edgesteer/server/api"
)

// newHealth makes what checks, with the last verdicts. Nothing is checked yet.
func (a *App) newHealth() (err error) {
	cfg := a.parts.cfg
	a.health, err = health.New(health.Config{
		Node: cfg.Server.Node, PoP: cfg.Server.PoP,
		Plan:       a.parts.checks,
		Dir:        cfg.Path(cfg.Server.State),
		Now:        a.now,
		Broadcast:  a.broadcast(healthState),
		Log:        a.log,
		Registerer: a.control,
	})
	return err
}

// startHealth starts the checks, and returns when there are verdicts to serve: the last ones, those of other nodes, or those of a first round.
func (a *App) startHealth(ctx context.Context) error {
	a.background(state, a.health.Run)
	a.health.First(ctx)
	return a.obey()
}

// healthList is what is known of every endpoint that is checked.
func (a *App) healthList() []api.EndpointHealth {
	list := a.health.Status()
	out := make([]api.EndpointHealth, 0, len(list))
	for i := range list {
		out = append(out, endpointHealth(&list[i]))
	}
	return out
}

func endpointHealth(s *health.Status) api.EndpointHealth {
	e := api.EndpointHealth{
		Target: s.Target, Kind: s.Kind, Interval: api.Duration(s.Interval),
		Verdict: verdictName(s), Since: s.Since,
		Gray: !s.Gray.IsZero(), GraySince: s.Gray, Quorum: s.Quorum,
		Voters: s.Voters, Fresh: s.Fresh, Against: s.Against,
		Votes: []api.Vote{}, Addresses: []api.AddressHealth{},
	}
	for _, v := range s.Votes {
		vote := api.Vote{
			Node: v.Node, PoP: v.PoP, Down: v.Vote.Down, Since: v.Vote.Since, Error: v.Vote.Error,
			Fresh: v.Fresh, Counts: v.Fresh && !v.Abstains && !v.Stands, Dissents: v.Dissents,
		}
		switch {
		case v.Stands:
			vote.Why = "it stands in this PoP"
		case !v.Fresh:
			vote.Why = "it has not been heard of for three intervals"
		case v.Abstains:
			vote.Why = "it fails more than half of all its targets while others do not"
		}
		for _, d := range v.Vote.Dead {
			vote.Dead = append(vote.Dead, d.String())
		}
		e.Votes = append(e.Votes, vote)
	}
	for _, s := range s.Addresses {
		e.Addresses = append(e.Addresses, api.AddressHealth{
			Address: s.Address.String(), State: api.HealthState(s.State), Since: s.Since,
			Last: s.Last, Next: s.Next, Took: api.Duration(s.Took),
			Error: s.Fault, LastError: s.Failed, Warning: s.Warning,
			InARow: s.Run, Checks: s.Checks, Faults: s.Faults,
		})
	}
	return e
}

func verdictName(s *health.Status) api.HealthState {
	switch {
	case !s.Known:
		return api.HealthUnknown
	case s.Down:
		return api.HealthDown
	}
	return api.HealthUp
}

// warnings are what a person should look at: answers from the lower rungs of the ladder, endpoints about which the nodes disagree, nodes that abstain, what automation may not drain.
func (a *App) warnings() (out []string) {
	out = a.ladder.warnings(a.now())
	gray, abstaining := a.health.Doubts()
	for i := range gray {
		s := &gray[i]
		out = append(out, fmt.Sprintf("%s is gray: %d of %d votes say that it is down, and it stays %s; see edgesteer health show %s", s.Target, s.Against, s.Fresh, verdictName(s), s.Target))
	}
	for _, node := range abstaining {
		out = append(out, node+" fails more than half of its checks while others do not: it has no vote")
	}
	if held := a.held.Load(); held != nil {
		for _, target := range slices.Sorted(maps.Keys(*held)) {
			out = append(out, "automation may not drain "+target+": "+(*held)[target])
		}
	}
	return out
}
