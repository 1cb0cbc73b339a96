package admin

import (
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

// status is GET /v1/status.
func (s *Server) status(c *call) (*api.Status, error) {
	q, err := c.query()
	if err != nil {
		return nil, err
	}
	var answers Answers
	if q.Get("answers") != "false" {
		answers = s.cfg.Answers()
	}
	snapshot := s.cfg.Publisher.Snapshot()
	if snapshot == nil {
		return nil, notServing()
	}
	missing := s.cfg.NotReady()
	out := &api.Status{
		Schema:     api.Schema,
		Node:       s.cfg.Node,
		Ready:      len(missing) == 0,
		NotReady:   missing,
		Time:       s.cfg.Ledger.Now(),
		Snapshot:   snapshot.Version,
		PoPs:       s.allPoPs(snapshot.View, answers.PoPs),
		Statements: s.said(false),
	}
	if answers.PoPs != nil {
		out.Queries = &answers.Queries
	}
	out.Ledger = api.Ledger{Version: versionOf(s.cfg.Ledger.Statements()), Durable: true}
	for _, st := range out.Statements {
		switch st.State {
		case api.StateActive:
			out.Ledger.Active++
		case api.StateScheduled:
			out.Ledger.Scheduled++
		}
	}
	for _, p := range s.cfg.Ledger.Problems() {
		if p.Kind == drain.DiskFailing {
			out.Ledger.Durable, out.Ledger.Error = false, p.Detail
		}
	}
	out.Warnings = s.warnings(snapshot.View)
	return out, nil
}

// warnings are what a person should look at.
func (s *Server) warnings(view *pops.View) (out []string) {
	for _, p := range s.cfg.Ledger.Problems() {
		out = append(out, string(p.Kind)+": "+p.Detail)
	}
	for _, i := range view.Lost {
		out = append(out, "statement "+i.ID+" does nothing: "+i.Target.String()+" does not exist any more")
	}
	for _, i := range view.Panic {
		out = append(out, "health has removed so much of "+view.Fleet.Services[i].Name+" that further down verdicts are not applied")
	}
	return append(out, s.cfg.Warnings()...)
}
