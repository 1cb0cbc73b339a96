package filters

import (
	"math"

	"github.com/edgesteer/edgesteer/pops"
)

// Who predicts what a change does runs a chain twice, before and after, and wants to see the change and no luck. Two runs that draw from a Rand, one number after the other, put
// lists of different length into unrelated orders: most of what differs would be luck. By Exec.Luck each answer draws a number of its own instead, and the lowest comes first. So
// the others keep their order when one of them goes, and over all Lucks every order is as likely as by Rand.

// exponential draws a number for a candidate: exponentially distributed with mean 1.
func (x *Exec) exponential(c Candidate) float64 {
	if x.Luck == 0 {
		return x.Rand.ExpFloat64()
	}
	return -math.Log(1 - pops.Unit01(mix(mix(x.Luck+x.draws)^uint64(c.Answer)+1)))
}

// shuffleByLuck puts List into a random order that follows from Luck.
func (x *Exec) shuffleByLuck() {
	x.draws++
	x.keys = x.keys[:0]
	for _, c := range x.List {
		x.keys = append(x.keys, keyed{key: x.exponential(c), cand: c})
	}
	x.sortByKeys()
}
