package server

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/edgesteer/edgesteer/filters"
	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/zones"
)

// How often a chain is run in which chance decides, or the name that was asked for and that nobody has kept. Clients that ask much are run more often, so that all runs weigh about the same.
const (
	chanceRuns = 32_000 // of all clients together, for a pool of few answers
	mostRuns   = 8192   // of one client
	fewestRuns = 4      // of one client, unless there are many
	manyRuns   = 20_000 // what all clients may take of the fewest
	fewAnswers = 16     // runs over more of them take longer
)

// runs runs chains for clients.
type runs struct {
	snapshot  *Snapshot
	fleet     *pops.Fleet
	x         filters.Exec
	name      []byte
	perWeight float64 // runs for a client that asks once
	fewest    int
}

// plan shares out the runs over clients of a total weight.
func (r *runs) plan(weight float64, clients int) {
	r.perWeight, r.fewest = 0, fewestRuns
	if weight > 0 {
		r.perWeight, r.fewest = chanceRuns/weight, max(1, min(fewestRuns, manyRuns/max(1, clients)))
	}
}

// times is how often a record's chain is run for a client.
func (r *runs) times(rec *zones.Record, weight float64) int {
	if rec.Chain.Static && !manyNames(rec) {
		return 1
	}
	cost := float64(max(fewAnswers, len(rec.Pool.Answers))) / fewAnswers
	return int(min(mostRuns, max(float64(r.fewest), weight*r.perWeight/cost)))
}

// manyNames tells whether the answers of a record go by the name that was asked for, and that can be any below a wildcard.
func manyNames(rec *zones.Record) bool {
	return rec.Chain.ByName && len(rec.Name) > 2 && rec.Name[0] == 1 && rec.Name[1] == '*'
}

// run finds the mixture of answers that a client gets. Every view gives it the same luck, and the same names.
func (r *runs) run(m *mixture, rec *zones.Record, c *geo.Client, v *pops.View, times int) {
	m.reset()
	x, names := &r.x, manyNames(rec)
	x.Client, x.View, x.QName = c, v, rec.Name
	seed := uint64(0)
	if times > 1 || !rec.Chain.Static {
		seed = pops.Hash("prediction", c.Network(), rec.String())
	}
	for n := range times {
		x.Luck = (seed + uint64(n)*0x9e3779b97f4a7c15) | 1
		if names {
			r.name = append(r.name[:0], 16)
			r.name = hex.AppendEncode(r.name, binary.BigEndian.AppendUint64(nil, x.Luck))
			r.name = append(r.name, rec.Name[2:]...)
			x.QName = r.name
		}
		x.Begin(rec.Pool)
		rec.Candidates(x)
		rec.Chain.Run(x)
		list := x.List
		if rec.Withheld(x) != zones.Serve {
			list = nil
		}
		if len(list) == 0 {
			m.add(0, 1/float64(times))
		}
		for i := range list {
			m.add(r.slot(rec, int(list[i].Serve)), 1/float64(times*len(list)))
		}
	}
}

// mixture is what a client gets of one record: the shares of its answers, 0..1, that add up to 1. Slot 0 is no answer at all, then come the units, then a record's answers that are
// tied to no PoP.
type mixture struct {
	share []float64 // by slot
	slots []int     // those whose share is not 0
}

const unitSlots = 1 // the slot of unit 0

// slot is where an answer counts.
func (r *runs) slot(rec *zones.Record, answer int) int {
	if u := rec.Pool.Answers[answer].Unit; u >= 0 {
		return unitSlots + int(u)
	}
	return unitSlots + r.fleet.Units() + answer
}

// endpoint is the endpoint that a slot stands for, or NoEndpoint.
func (r *runs) endpoint(slot int) int {
	if e, ok := r.fleet.Endpoint(pops.Unit(slot - unitSlots)); ok {
		return e
	}
	return NoEndpoint
}

func (m *mixture) reset() {
	for _, s := range m.slots {
		m.share[s] = 0
	}
	m.slots = m.slots[:0]
}

func (m *mixture) add(slot int, share float64) {
	if slot >= len(m.share) {
		m.share = append(m.share, make([]float64, slot+1-len(m.share))...)
	}
	if m.share[slot] == 0 {
		m.slots = append(m.slots, slot)
	}
	m.share[slot] += share
}

// of is the share of a slot.
func (m *mixture) of(slot int) float64 {
	if slot >= len(m.share) {
		return 0
	}
	return m.share[slot]
}

// addTo adds what units get.
func (m *mixture) addTo(units []float64, weight float64) {
	for _, s := range m.slots {
		if u := s - unitSlots; u >= 0 && u < len(units) {
			units[u] += weight * m.share[s]
		}
	}
}
