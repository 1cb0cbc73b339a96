package server

import (
	"sync/atomic"

	"github.com/edgesteer/edgesteer/filters"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/zones"
)

// oneAnswer is what an answer counts: one that names n endpoints counts oneAnswer/n for each of them, and what is left over for the first. All small n divide it.
const oneAnswer = 840

// rungs are those of the last-resort ladder, and 0 for a chain without up.
const rungs = 5

// unitStats are how many answers of one handler named each unit of a fleet, by the rung of the ladder. The handler makes a new one when it first sees another fleet, with the totals of the
// units that are in both; so names come and go with the configuration and never with a query. The cells of answers that are tied to no PoP come first, then those of unit 0.
type unitStats struct {
	fleet   *pops.Fleet
	delta   []uint32
	touched []int32         // first the cells whose delta is not 0
	changed int             // so many
	total   []atomic.Uint64 // read by whoever scrapes
	gone    [rungs]uint64   // by rung, those of units that have left the configuration; not changed once the workers have it
}

func newUnitStats(f *pops.Fleet, old *unitStats) *unitStats {
	n := (f.Units() + 1) * rungs
	s := &unitStats{fleet: f, delta: make([]uint32, n), touched: make([]int32, n), total: make([]atomic.Uint64, n)}
	if old == nil {
		return s
	}
	s.gone = old.gone
	units := byTarget(f)
	for i := range old.total {
		to, ok := units[old.fleet.UnitTarget(pops.Unit(i/rungs-1))]
		if !ok {
			s.gone[i%rungs] += old.total[i].Load()
			continue
		}
		s.total[(int(to)+1)*rungs+i%rungs].Store(old.total[i].Load())
	}
	return s
}

// byTarget are the units of a fleet, NoUnit too, by what people call them.
func byTarget(f *pops.Fleet) map[pops.Target]pops.Unit {
	out := make(map[pops.Target]pops.Unit, f.Units()+1)
	for u := pops.NoUnit; int(u) < f.Units(); u++ {
		out[f.UnitTarget(u)] = u
	}
	return out
}

// share counts an answer that has several candidates.
func (s *unitStats) share(rec *zones.Record, x *filters.Exec) {
	part, more := oneAnswer/uint32(len(x.List)), oneAnswer%uint32(len(x.List))
	for i := range x.List {
		s.add(rec.Pool.Answers[x.List[i].Serve].Unit, x.Rung, part+more)
		more = 0
	}
}

// add counts n of oneAnswer for a unit.
func (s *unitStats) add(u pops.Unit, rung uint8, n uint32) {
	cell := (int(u)+1)*rungs + int(rung)
	if s.delta[cell] == 0 {
		s.touched[s.changed] = int32(cell)
		s.changed++
	}
	s.delta[cell] += n
}

func (s *unitStats) flush() {
	for _, cell := range s.touched[:s.changed] {
		s.total[cell].Add(uint64(s.delta[cell]))
		s.delta[cell] = 0
	}
	s.changed = 0
}

// rungAnswers counts the answers of all handlers that named somebody, by rung. It holds mu.
func (hs *Handlers) rungAnswers() (sum [rungs]uint64) {
	for _, s := range hs.all {
		u := s.units.Load()
		for i := range u.total {
			sum[i%rungs] += u.total[i].Load()
		}
		for rung, n := range u.gone {
			sum[rung] += n
		}
	}
	for i := range sum {
		sum[i] /= oneAnswer
	}
	return sum
}

// UnitAnswers is how many steered answers named a unit since the start.
type UnitAnswers struct {
	Unit    pops.Unit // NoUnit: those that are tied to no PoP
	Answers float64   // one that names n endpoints counts 1/n for each
}

// UnitAnswers counts the answers of all handlers for each unit of a fleet, NoUnit first. Those of units that have left the configuration are forgotten.
func (hs *Handlers) UnitAnswers(f *pops.Fleet) []UnitAnswers {
	sum := make([]uint64, f.Units()+1)
	units := byTarget(f)
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, s := range hs.all {
		u := s.units.Load()
		if u.fleet == f {
			for i := range u.total {
				sum[i/rungs] += u.total[i].Load()
			}
			continue
		}
		for i := range u.total {
			if to, ok := units[u.fleet.UnitTarget(pops.Unit(i/rungs-1))]; ok {
				sum[to+1] += u.total[i].Load()
			}
		}
	}
	out := make([]UnitAnswers, len(sum))
	for i := range sum {
		out[i] = UnitAnswers{pops.Unit(i - 1), float64(sum[i]) / oneAnswer}
	}
	return out
}
