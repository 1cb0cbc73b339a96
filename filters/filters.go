// Package filters is the steering itself: a chain of filters, in the manner of NS1, that turns the answers of a record into those that one client gets.
//
// A [Chain] is built once, when a zone is loaded, by [New] from the configured list of filters and the [Pool] of answers it works on. At query time [Chain.Run] walks it
// over the index list of an [Exec], a worker's scratch space, without allocating, locking or logging. explain, simulation and tests run the same code with a [Trace] in the
// Exec.
//
// The client subnet scope is derived here and nowhere else: each filter tells the Exec how many bits of the client its decision depended on ([Exec.Rely]); orders by place are
// charged only as deep as something looked at them ([Exec.Cut]), and draws only where they can change the answer (the comment at [Chain.Run] says how that is known).
//
// What it is not: it knows no wire format, reads no database (geo.Map has compiled that) and decides no state (pops.View has).
package filters

import (
	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
)

// Filter is one step of a chain. It edits x.List and reports what it relied on. It is immutable after construction and used by all workers at once.
type Filter interface {
	Run(x *Exec)
}

// Answer is one answer of a pool with its metadata resolved (answer, then group, then record, then what endpoint, service and PoP give).
type Answer struct {
	Label string     // what people call it: the PoP's name, or the rdata of an explicit answer
	Group string     // "" for none
	PoP   int        // index into Fleet.PoPs, -1 if it is tied to none
	Unit  pops.Unit  // what drains and health act on; pops.NoUnit for none
	Place geo.Target // where it is and whom it is for
	Note  string

	// Has4 and Has6 are the addresses of each family: bit i is Endpoint.Addresses[i]. Both 0 for an explicit answer and for an endpoint with a CNAME.
	Has4, Has6 uint64

	Up       pops.Value // meta up: 0 or 1
	Load     [pops.Metrics]Load
	Weight   pops.Value
	Priority pops.Value
	Cost     pops.Value
}

// Load is what shed_load reads of one metric when the answer has its own; a unit's load comes from the View.
type Load struct {
	Load, Low, High pops.Value
}

// Serves reports whether the answer is a candidate for an address query of one family: it has an address of it, or it is no matter of addresses.
func (a *Answer) Serves(v6 bool) bool {
	return a.Has4|a.Has6 == 0 || a.family(v6) != 0
}

// Available reports whether the answer is available to some network of one family without a last resort: up, with an address that has not failed its checks, and a share above 0.
func (a *Answer) Available(v *pops.View, v6 bool) bool {
	on, known := v.Number(a.Up)
	has := a.family(v6)
	switch {
	case known && on == 0, !known && a.Unit < 0:
		return false
	case has != 0 && has&^v.Dead(a.Unit, pops.RungShare) == 0:
		return false
	}
	in, _ := v.Available(a.Unit, noAddr, pops.RungShare)
	return in
}

func (a *Answer) family(v6 bool) uint64 {
	if v6 {
		return a.Has6
	}
	return a.Has4
}

// Pool is the answers of one record, in configured order. It is immutable and shared by the record's types. Fewer than 65536 answers.
type Pool struct {
	Answers []Answer
}

// Candidate is an answer that is still in the running.
type Candidate struct {
	Answer uint16 // whose place and metadata count: index into Pool.Answers
	Serve  uint16 // whose addresses are given: Answer itself, or where a shift sent it
	block  uint16 // candidates of one block stand next to each other and in random order
	flags  uint8
}

const (
	drawn uint8 = 1 << iota // a stable draw decided that it is here, or by whom it is served
	moves                   // by another draw it would be served by another endpoint
)
