package server

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/edgesteer/edgesteer/filters"
	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/zones"
)

// Predict runs the chains of all records over the mix, with one view and with each of the others. All views must be of the snapshot's fleet.
func Predict(s *Snapshot, mix []RecordMix, before *pops.View, after ...*pops.View) []*Prediction {
	r := newPredictor(s, before, after)
	affected := 0.0
	for i := range mix {
		if rec := r.find(&mix[i]); rec != nil && r.changes(rec) {
			affected += mix[i].Rate
		}
	}
	changed := r.last()
	switch {
	case affected > 0 || len(changed) == 0:
		r.all(mix)
	default:
		clients := assumed(max(1, assumedRuns/len(changed)))
		r.plan(float64(len(changed)*len(clients)), len(changed)*len(clients))
		for _, rec := range changed {
			r.record(rec, clients)
		}
	}
	r.finish()
	for _, p := range r.predictions {
		p.Assumed = affected == 0 && len(changed) > 0
	}
	r.heavies(mix)
	return r.predictions
}

// Shares gives the share of all steered answers that each PoP gives now, 0..1, by index into Fleet.PoPs, and the queries behind it.
func Shares(s *Snapshot, mix []RecordMix) (shares []float64, rate float64) {
	r := newPredictor(s, s.View, nil)
	r.all(mix)
	r.finish()
	return r.shares(r.given), r.rate
}

// assumedRuns bounds how many chains are run for networks that are only assumed.
const assumedRuns = 20_000

// predictor adds up the answers of clients, for one view and several that may follow.
type predictor struct {
	runs
	predictions []*Prediction // of what follows
	before      *pops.View
	after       []*pops.View
	other       []bool // by unit: its state is another one in some view
	target      []bool // by unit: what it gets is

	rate, total float64
	given       []float64   // by unit: what it gives, in queries
	gives       [][]float64 // the same, after
	was, is     mixture     // of one client
	lost, more  []part      // the same
}

// part is what a place in a mixture loses or gains.
type part struct {
	slot   int
	amount float64
}

func newPredictor(s *Snapshot, before *pops.View, after []*pops.View) *predictor {
	f := before.Fleet
	r := &predictor{runs: runs{snapshot: s, fleet: f}, before: before, after: after, other: make([]bool, f.Units()), target: make([]bool, f.Units()), given: make([]float64, f.Units())}
	r.x.Atlas = s.Atlas
	for _, v := range after {
		r.predictions = append(r.predictions, &Prediction{Moves: map[int]map[int]float64{}})
		r.gives = append(r.gives, make([]float64, f.Units()))
		for u := range r.other {
			a, b := &before.States[u], &v.States[u]
			r.other[u] = r.other[u] || *a != *b
			r.target[u] = r.target[u] || a.Share != b.Share || a.Said != b.Said || a.Shift != b.Shift || a.ShiftShare != b.ShiftShare
		}
	}
	return r
}

// find is the record that a mix is of, nil if there is none any more.
func (r *predictor) find(m *RecordMix) *zones.Record {
	return r.snapshot.Zones.Find([]byte(m.Key.Owner), m.Key.Type).Record
}

// changes tells whether the views differ for any answer of a record.
func (r *predictor) changes(rec *zones.Record) bool {
	for i := range rec.Pool.Answers {
		if u := rec.Pool.Answers[i].Unit; u >= 0 && r.other[u] {
			return true
		}
	}
	return false
}

// last gives the records for which the views differ, and notes those that are left without answers.
func (r *predictor) last() (changed []*zones.Record) {
	for zone := range r.snapshot.Zones.Zones() {
		for _, rec := range zone.Records() {
			if !r.changes(rec) {
				continue
			}
			changed = append(changed, rec)
			if !r.left(rec, r.before) {
				continue
			}
			for i, v := range r.after {
				if !r.left(rec, v) {
					r.predictions[i].Last = append(r.predictions[i].Last, rec.String())
				}
			}
		}
	}
	return changed
}

// left tells whether some answer of a record is available to anybody, without a last resort (steering.md section 4). A shift adds nothing: where it leads is an answer of the record itself.
func (r *predictor) left(rec *zones.Record, v *pops.View) bool {
	x := &r.x
	x.Begin(rec.Pool)
	rec.Candidates(x)
	return slices.ContainsFunc(x.List, func(c filters.Candidate) bool { return rec.Pool.Answers[c.Answer].Available(v, x.V6) })
}

// all adds the answers of all records. Those that no view touches count, too: shares are of all answers, and an endpoint's load comes from all records that give it.
func (r *predictor) all(mix []RecordMix) {
	weight, clients := 0.0, 0
	for i := range mix {
		weight += mix[i].Rate
		clients += len(mix[i].Clients)
	}
	r.plan(weight, clients)
	for i := range mix {
		if rec := r.find(&mix[i]); rec != nil {
			r.rate += mix[i].Rate
			r.record(rec, mix[i].Clients)
		}
	}
}

// record adds the answers of one record.
func (r *predictor) record(rec *zones.Record, clients []Weighted) {
	same := !rec.Chain.Avoids && !r.changes(rec)
	for i := range clients {
		c := &clients[i]
		times := r.times(rec, c.Weight)
		r.run(&r.was, rec, &c.Client, r.before, times)
		r.total += c.Weight
		r.was.addTo(r.given, c.Weight)
		for k, v := range r.after {
			if same {
				r.was.addTo(r.gives[k], c.Weight)
				r.predictions[k].stay(&r.runs, &r.was, c.Weight)
				continue
			}
			r.run(&r.is, rec, &c.Client, v, times)
			r.is.addTo(r.gives[k], c.Weight)
			r.move(r.predictions[k], c.Weight)
		}
	}
}

// rounding is a share of a client's answers that is none.
const rounding = 1e-9

// compare finds what the last client's answers lose and gain. The two sums are the same, since nothing is an answer, too.
func (r *predictor) compare() (moved float64) {
	r.lost, r.more = r.lost[:0], r.more[:0]
	for _, s := range r.was.slots {
		if d := r.was.share[s] - r.is.of(s); d > rounding {
			r.lost = append(r.lost, part{s, d})
			moved += d
		}
	}
	for _, s := range r.is.slots {
		if d := r.is.share[s] - r.was.of(s); d > rounding {
			r.more = append(r.more, part{s, d})
		}
	}
	return moved
}

// move adds the way of the last client's answers from before to after.
func (r *predictor) move(p *Prediction, weight float64) {
	moved := r.compare()
	if moved == 0 {
		p.stay(&r.runs, &r.was, weight)
		return
	}
	p.Moved += weight * moved
	for _, s := range r.was.slots {
		if both := min(r.was.share[s], r.is.of(s)); both > 0 {
			e := r.endpoint(s)
			p.add(e, e, weight*both)
		}
	}
	for _, l := range r.lost {
		for _, m := range r.more {
			p.add(r.endpoint(l.slot), r.endpoint(m.slot), weight*l.amount*m.amount/moved)
		}
	}
}

// stay adds answers that nothing happens to.
func (p *Prediction) stay(r *runs, m *mixture, weight float64) {
	for _, s := range m.slots {
		e := r.endpoint(s)
		p.add(e, e, weight*m.share[s])
	}
}

func (p *Prediction) add(from, to int, weight float64) {
	row := p.Moves[from]
	if row == nil {
		row = map[int]float64{}
		p.Moves[from] = row
	}
	row[to] += weight
}

// finish turns queries into shares.
func (r *predictor) finish() {
	per := 0.0
	if r.total > 0 {
		per = 1 / r.total
	}
	for k, p := range r.predictions {
		p.Rate, p.Before, p.After = r.rate, r.shares(r.given), r.shares(r.gives[k])
		p.Moved *= per
		for _, row := range p.Moves {
			for b := range row {
				row[b] *= per
			}
		}
	}
}

// shares are what PoPs have of all answers.
func (r *predictor) shares(units []float64) []float64 {
	out := make([]float64, len(r.fleet.PoPs))
	for u, n := range units {
		if r.total > 0 {
			out[r.fleet.PoPOf(pops.Unit(u))] += n / r.total
		}
	}
	return out
}

// assumed are clients to stand in for a mix when nobody has asked yet: up to 2048 networks spread evenly over the IPv4 unicast space.
func assumed(n int) []Weighted {
	n = min(n, 2048)
	rnd := rand.New(rand.NewPCG(7, 7))
	out := make([]Weighted, 0, n)
	for len(out) < n {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], rnd.Uint32()&^0xff)
		if a[0] == 0 || a[0] == 10 || a[0] == 127 || a[0] >= 224 {
			continue
		}
		addr := netip.AddrFrom4(a)
		out = append(out, Weighted{geo.NewClient(addr, 24, addr), 1})
	}
	return out
}
