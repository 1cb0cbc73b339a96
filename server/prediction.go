package server

import "github.com/edgesteer/edgesteer/geo"

// Prediction is what a change of the PoP view would do: the answers that the live query mix would get, before and after, from the chains themselves. An answer that names n endpoints counts 1/n for
// each. Where chance decides, shares are those that it gives on average.
//
// Of one network, for one record, an answer that is given before and after goes to itself first, as much of it as there is in both; only what is left over has moved, and is spread over what is given
// more often than before. So a network whose answers stay as they are moves nothing.
type Prediction struct {
	// Assumed says that no queries of an affected record were seen lately: shares are those of randomly chosen networks that ask for the affected records, each as often, instead of those of all
	// steered answers.
	Assumed bool
	Rate    float64 // steered queries behind the figures, those of the last minutes
	// Before and After are the share of all steered answers that each PoP gives, 0..1, by index into Fleet.PoPs.
	Before, After []float64
	// Moved is the share of all steered answers, 0..1, that another endpoint gives after than before.
	Moved float64
	// Moves[a][b] is the share of all steered answers that endpoint a gave before and endpoint b gives after. NoEndpoint is what is not an endpoint of a service: answers of other kinds, and none at
	// all. A row holds all that its endpoint gave; a missing one has no traffic.
	Moves map[int]map[int]float64
	// Heavy are single networks that hold more than 1 % of the target's traffic and would move, heaviest first. Known are those with more than 1 % of a record's queries.
	Heavy []HeavyMove
	// Last are the steered records that would be left without any available answer, and had one.
	Last []string
}

// NoEndpoint stands in Prediction.Moves for all that is not an endpoint of a service.
const NoEndpoint = -1

// HeavyMove is a heavy network whose answers for a record would change.
type HeavyMove struct {
	Record   string
	Client   geo.Client
	Share    float64 // of the target's traffic, 0..1: what it moves. The target is what gets another share
	From, To string  // the answers that lose and gain most, as people call them; "" for none
}

// Gains tells whether an endpoint would give answers that something else, or nothing, gave before.
func (p *Prediction) Gains(endpoint int) bool {
	for from, row := range p.Moves {
		if from != endpoint && row[endpoint] > 0 {
			return true
		}
	}
	return false
}

// Load predicts the load of an endpoint from the loads now: what it has, and its part of what others lose to it (steering.md section 7). loads gives the load of an endpoint
// now. known is false when a load that counts is not known, as that of answers which are no endpoint's never is.
func (p *Prediction) Load(endpoint int, loads func(endpoint int) (float64, bool)) (load float64, known bool) {
	load, known = loads(endpoint)
	if !known {
		return 0, false
	}
	own := load
	for from, row := range p.Moves {
		sum := 0.0
		for _, w := range row {
			sum += w
		}
		switch {
		case sum == 0:
		case from == endpoint:
			load -= own * (1 - row[endpoint]/sum)
		case row[endpoint] == 0:
		case from == NoEndpoint:
			return 0, false
		default:
			other, ok := loads(from)
			if !ok {
				return 0, false
			}
			load += other * row[endpoint] / sum
		}
	}
	return load, true
}
