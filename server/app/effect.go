package app

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/server/api"
)

// effect is the guard rails of the ledger (steering.md section 7): it asks the chains themselves, over the live query mix.
type effect struct {
	publisher *server.Publisher
	mix       *server.Mix
	asked     func(limit int) []server.RecordMix // at all nodes
}

// previewRuns bounds how many runs of chains a preview takes (some ten million a second), so that an order is confirmed at once however many records there are.
const previewRuns = 400_000

// Effect compares the view before with those that a statement leads to, the final one last. It reports the worst of them.
func (e *effect) Effect(before *pops.View, after ...*pops.View) (drain.Report, error) {
	snap := e.publisher.Snapshot()
	if snap == nil || snap.View.Fleet != before.Fleet || len(after) == 0 {
		return drain.Report{Warnings: []string{"the configuration was reloaded in between: there is no prediction"}}, nil
	}
	final := after[len(after)-1]
	steps := server.Predict(snap, e.asked(previewRuns/(1+len(after))), before, after...)
	last := steps[len(steps)-1]
	out := &api.Effect{Moved: 100 * last.Moved}
	if !last.Assumed {
		out.Queries = e.mix.PerSecond(last.Rate)
	}
	out.PoPs = popEffects(last, before, final)
	report := drain.Report{Detail: out}
	unknown := e.loads(&report, out, steps, before)
	report.Broken = append(report.Broken, half(before, final)...)
	for _, record := range last.Last {
		report.Broken = append(report.Broken, drain.Broken{Guard: string(api.GuardLast), Detail: "no available endpoint is left for " + record})
	}
	out.Heavy = heavy(last)
	if last.Assumed {
		report.Warnings = append(report.Warnings, "nobody has asked for these records lately: shares of answers are those of networks chosen at random")
	}
	if len(unknown) > 0 {
		report.Warnings = append(report.Warnings, "load after the change is unknown (no fresh load, or no capacity): "+strings.Join(unknown, ", "))
	}
	return report, nil
}

func popEffects(p *server.Prediction, before, after *pops.View) (out []api.PoPEffect) {
	for i := range before.Fleet.PoPs {
		share := func(v *pops.View) float64 { return float64(lowest(v, i)) }
		e := api.PoPEffect{PoP: before.Fleet.PoPs[i].Name, ShareBefore: share(before), ShareAfter: share(after)}
		from, to := 100*p.Before[i], 100*p.After[i]
		if e.ShareBefore == e.ShareAfter && math.Abs(from-to) < 0.005 {
			continue
		}
		e.AnswersBefore, e.AnswersAfter = &from, &to
		out = append(out, e)
	}
	return out
}

// lowest is the lowest share of anything at a PoP.
func lowest(v *pops.View, pop int) pops.Share {
	share := v.States[v.Fleet.PoPUnit(pop)].Share
	for e := range v.Fleet.Endpoints {
		if v.Fleet.Endpoints[e].PoP == pop {
			share = min(share, v.States[e].Share)
		}
	}
	return share
}

// loads predicts the load of every endpoint whose load changes, at each step, and reports those that would be above their capacity. It gives the endpoints of which that is not
// known.
func (e *effect) loads(report *drain.Report, out *api.Effect, steps []*server.Prediction, before *pops.View) (unknown []string) {
	f := before.Fleet
	now := func(i int) (float64, bool) { return before.States[i].Load, before.States[i].HasLoad }
	last := steps[len(steps)-1]
	for _, i := range touched(last) {
		ep := &f.Endpoints[i]
		l := api.LoadEffect{PoP: f.PoPs[ep.PoP].Name, Service: f.Services[ep.Service].Name, Metric: f.Services[ep.Service].Metric.String()}
		if load, ok := now(i); ok {
			l.Before = &load
		}
		alike := func(from int) (float64, bool) { // loads in different units do not add up
			load, ok := now(from)
			return load, ok && f.Services[f.Endpoints[from].Service].Metric == f.Services[ep.Service].Metric
		}
		if load, ok := last.Load(i, alike); ok {
			l.After = &load
		}
		if peak, ok := peakOf(steps, i, alike); ok {
			l.Peak = &peak
		}
		if ep.Capacity > 0 {
			l.Capacity = &ep.Capacity
		}
		switch gains := last.Gains(i); {
		case !gains:
		case l.Peak == nil || l.Capacity == nil:
			unknown = append(unknown, l.PoP+"/"+l.Service)
		case *l.Peak > *l.Capacity:
			l.Over = true
			report.Broken = append(report.Broken, drain.Broken{Guard: string(api.GuardCapacity),
				Detail: fmt.Sprintf("%s/%s would have %s %.0f, its capacity is %.0f", l.PoP, l.Service, l.Metric, *l.Peak, *l.Capacity)})
		}
		out.Loads = append(out.Loads, l)
	}
	return unknown
}

func peakOf(steps []*server.Prediction, endpoint int, now func(int) (float64, bool)) (peak float64, known bool) {
	for _, p := range steps {
		load, ok := p.Load(endpoint, now)
		if !ok {
			return 0, false
		}
		peak = max(peak, load)
	}
	return peak, true
}

// touched are the endpoints that lose or gain answers, rising.
func touched(p *server.Prediction) []int {
	set := map[int]bool{}
	for from, row := range p.Moves {
		for to, w := range row {
			if to != from && w > 0 {
				set[from], set[to] = true, true
			}
		}
	}
	delete(set, server.NoEndpoint)
	return slices.Sorted(maps.Keys(set))
}

// half reports the services of which more than half of the endpoints would be gone, as the sum of what leaves, and more than now. Sums are in percent of an endpoint: those of whole percents are exact.
func half(before, after *pops.View) (out []drain.Broken) {
	const rounding = 1e-6
	f := after.Fleet
	for s := range f.Services {
		var gone, was, n float64
		for e := range f.Endpoints {
			if f.Endpoints[e].Service == s {
				n++
				gone += 100 - float64(after.States[e].Share)
				was += 100 - float64(before.States[e].Share)
			}
		}
		if gone > 50*n+rounding && gone > was+rounding {
			out = append(out, drain.Broken{Guard: string(api.GuardHalf), Detail: fmt.Sprintf("%.4g of the %g endpoints of %s would be gone", gone/100, n, f.Services[s].Name)})
		}
	}
	return out
}

func heavy(p *server.Prediction) (out []api.HeavyNetwork) {
	for _, h := range p.Heavy {
		n := api.HeavyNetwork{Network: h.Client.Network().String(), Record: h.Record, Percent: 100 * h.Share, From: h.From, To: h.To}
		if prefix, err := h.Client.Addr.Prefix(int(min(h.Client.Bits, h.Client.DrawBits()))); err == nil {
			n.Network = prefix.String()
		}
		out = append(out, n)
	}
	return out
}
