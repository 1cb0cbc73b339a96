package app

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/server/api"
)

// Assumptions are a state in which a question is answered instead of that of now: everything is up, nothing was said and no load is known but for what they say. Targets are
// POP, POP/SERVICE or */SERVICE.
type Assumptions struct {
	Down       []string           // health says that they are
	Share      map[string]float64 // percent that a target gets, 0..100; 0 is down
	Load       map[string]float64 // in the unit of the service's metric
	Statements []api.Statement    // drains, shifts and pins: Kind, Class ("" is a person), Target, To and By count
}

// Suppose answers a question as Explain does, in a state that is assumed.
func (a *App) Suppose(q api.ExplainQuery, assumed Assumptions) (*api.Explanation, error) {
	snap := a.publisher.Snapshot()
	view, warnings, err := assume(snap.View, assumed)
	if err != nil {
		return nil, err
	}
	e, err := explain(q, &server.Snapshot{Version: snap.Version, Zones: snap.Zones, Atlas: snap.Atlas, View: view})
	if err == nil {
		e.Warnings = append(e.Warnings, warnings...)
	}
	return e, err
}

// assume is the view in which everything is up but for what the assumptions say. The error may be a *drain.Refusal: a server would not come into such a state.
func assume(now *pops.View, assumed Assumptions) (view *pops.View, warnings []string, err error) {
	f := now.Fleet
	if err := allowed(f, assumed.Statements); err != nil {
		return nil, nil, err
	}
	in := pops.Input{Now: now.At, Panic: 100, Verdicts: make([]pops.Verdict, len(f.Endpoints)), Loads: make([]pops.Load, len(f.Endpoints))}
	each := func(text string, do func(endpoint int)) (n int, err error) {
		target, err := f.ParseTarget(text)
		for _, u := range f.Match(target) {
			if e, ok := f.Endpoint(u); ok && err == nil {
				do(e)
				n++
			}
		}
		return n, err
	}
	said := slices.Clip(assumed.Statements)
	down := slices.Clip(assumed.Down)
	for text, percent := range assumed.Share {
		if percent > 0 {
			said = append(said, api.Statement{Kind: api.KindDrain, Target: text, By: 100 - percent})
		} else {
			down = append(down, text)
		}
	}
	for _, text := range down {
		switch n, err := each(text, func(e int) { in.Verdicts[e].Down = true }); {
		case err != nil:
			return nil, nil, err
		case n == 0: // a PoP that is only known from explicit answers: there is nothing to check
			said = append(said, api.Statement{Kind: api.KindDrain, Target: text, By: 100})
		}
	}
	for _, text := range slices.Sorted(maps.Keys(assumed.Load)) {
		marked := false
		n, err := each(text, func(e int) {
			in.Loads[e] = pops.Load{Value: assumed.Load[text], Fresh: now.At.Add(time.Hour)}
			marked = marked || f.Endpoints[e].Low.Set && f.Endpoints[e].High.Set
		})
		switch {
		case err != nil:
			return nil, nil, err
		case n == 0:
			warnings = append(warnings, fmt.Sprintf("the load of %s changes nothing: it has no endpoint", text))
		case !marked:
			warnings = append(warnings, fmt.Sprintf("the load of %s changes nothing: it has no low_watermark and high_watermark", text))
		}
	}
	for i := range said {
		intent, err := intent(f, &said[i])
		if err != nil {
			return nil, nil, err
		}
		in.Intents = append(in.Intents, intent)
	}
	return pops.NewView(f, in), warnings, nil
}

// allowed refuses statements that a server would.
func allowed(f *pops.Fleet, list []api.Statement) error {
	requests := make([]drain.Request, len(list))
	for i := range list {
		meant, err := intent(f, &list[i])
		if err != nil {
			return err
		}
		requests[i] = drain.Request{Kind: meant.Kind, Target: meant.Target, To: meant.To, By: list[i].By}
	}
	return drain.CheckTogether(f, requests)
}

// intent is what an assumed statement means.
func intent(f *pops.Fleet, st *api.Statement) (i pops.Intent, err error) {
	i = pops.Intent{ID: fmt.Sprintf("assumed %s of %s", st.Kind, st.Target), Class: pops.Person, Share: pops.Share(100 - st.By), Author: "assumed", Note: "assumed"}
	if err = i.Kind.UnmarshalText([]byte(st.Kind)); err != nil {
		return i, err
	}
	if st.Class != "" {
		if err = i.Class.UnmarshalText([]byte(st.Class)); err != nil {
			return i, err
		}
	}
	if i.Target, err = f.ParseTarget(st.Target); err != nil || i.Kind != pops.Shift {
		return i, err
	}
	if i.To, err = f.ParseTarget(st.To); err == nil && i.To.Service == "" {
		i.To.Service = i.Target.Service
	}
	return i, err
}
