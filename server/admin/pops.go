package admin

import (
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server/api"
)

// pops is GET /v1/pops.
func (s *Server) pops(*call) (*api.PoPs, error) {
	view, err := s.view()
	if err != nil {
		return nil, err
	}
	return &api.PoPs{Schema: api.Schema, PoPs: s.allPoPs(view, s.cfg.Answers().PoPs)}, nil
}

// pop is GET /v1/pops/{pop}.
func (s *Server) pop(c *call) (*api.PoPDetail, error) {
	view, err := s.view()
	if err != nil {
		return nil, err
	}
	name := c.r.PathValue("pop")
	i := view.Fleet.FindPoP(name)
	if i < 0 {
		return nil, unknownTarget("pop", view.Fleet.Check(pops.Target{PoP: name}))
	}
	d := &api.PoPDetail{Schema: api.Schema, PoP: s.allPoPs(view, s.cfg.Answers().PoPs)[i], Statements: []api.Statement{}}
	here := pops.Target{PoP: name}
	for _, st := range s.said(false) {
		if touches(st.Target, here) || touches(st.To, here) {
			d.Statements = append(d.Statements, st)
		}
	}
	return d, nil
}

func touches(text string, here pops.Target) bool {
	t, err := pops.ParseTarget(text)
	return err == nil && t.Touches(here)
}

// view is what is served now.
func (s *Server) view() (*pops.View, error) {
	snapshot := s.cfg.Publisher.Snapshot()
	if snapshot == nil {
		return nil, notServing()
	}
	return snapshot.View, nil
}

func notServing() *api.Problem {
	return unavailable("nothing is served yet", "wait until the server has started")
}

// allPoPs describes the PoPs of a view, in its order. answers are their shares of all answers, nil if they are not asked for or not known.
func (s *Server) allPoPs(v *pops.View, answers map[string]float64) []api.PoP {
	f := v.Fleet
	places := s.cfg.Places()
	out := make([]api.PoP, len(f.PoPs))
	for i := range f.PoPs {
		p := &out[i]
		*p = places[f.PoPs[i].Name]
		p.Name = f.PoPs[i].Name
		u := f.PoPUnit(i)
		p.Share, p.Why = float64(v.States[u].Share), s.why(v, u)
		p.Endpoints = []api.Endpoint{}
		if a, ok := answers[p.Name]; ok {
			p.Answers = &a
		}
	}
	for i := range f.Endpoints {
		p := &out[f.Endpoints[i].PoP]
		p.Endpoints = append(p.Endpoints, s.endpoint(v, i))
	}
	return out
}

func (s *Server) endpoint(v *pops.View, i int) api.Endpoint {
	u := v.Fleet.EndpointUnit(i)
	e, state := &v.Fleet.Endpoints[i], &v.States[u]
	service := &v.Fleet.Services[e.Service]
	out := api.Endpoint{
		Service: service.Name,
		CNAME:   e.CNAME,
		Share:   float64(state.Share),
		Why:     s.why(v, u),
		Shed:    100 * state.Shed,
	}
	for j, a := range e.Addresses {
		out.Addresses = append(out.Addresses, api.Address{Address: a.String(), Down: state.Dead>>j&1 != 0})
	}
	if state.Shift >= 0 {
		out.ShiftTo = v.Fleet.PoPs[v.Fleet.PoPOf(state.Shift)].Name
	}
	if e.Capacity > 0 {
		out.Capacity = &e.Capacity
	}
	low, hasLow := v.Number(e.Low)
	high, hasHigh := v.Number(e.High)
	if !state.HasLoad && state.LoadAt.IsZero() && !hasLow && !hasHigh {
		return out
	}
	out.Load = &api.Load{Metric: service.Metric.String(), Time: state.LoadAt, Stale: !state.HasLoad}
	if state.HasLoad || !state.LoadAt.IsZero() {
		out.Load.Value = &state.Load
	}
	if hasLow {
		out.Load.Low = &low
	}
	if hasHigh {
		out.Load.High = &high
	}
	return out
}

// why is what bears on a unit's share.
func (s *Server) why(v *pops.View, u pops.Unit) []api.Reason {
	var out []api.Reason
	for _, r := range v.Reasons(u) {
		a := api.Reason{
			Kind:    api.KindHealth,
			Text:    r.Note,
			Share:   float64(r.Share),
			Decides: r.Decides,
			Applied: r.Applied,
			Why:     r.Why,
		}
		if r.Kind != 0 {
			a.Kind, a.Class, a.Statement, a.Author = api.Kind(r.Kind.String()), api.Class(r.Class.String()), r.ID, r.Author
			if e, ok := s.cfg.Ledger.Statement(r.ID); ok {
				a.End = moment(e.Expires)
			}
		}
		if r.To >= 0 {
			a.ShiftTo = v.Fleet.PoPs[v.Fleet.PoPOf(r.To)].Name
		}
		out = append(out, a)
	}
	return out
}
