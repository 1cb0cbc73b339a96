package filters

import (
	"math/rand/v2"
	"net/netip"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
)

// Exec is what one run of a chain works on: the question, and scratch space that is reused from query to query. One Exec belongs to one worker.
//
// Before a run set the first group of fields, call Begin, and Start or Add. After it List, Bits, Rung and Ignored are the result; List is valid until the next Begin.
type Exec struct {
	Client *geo.Client
	Atlas  *geo.Atlas
	View   *pops.View
	Pool   *Pool
	QName  []byte     // wire form, lower case
	V6     bool       // the asked type is AAAA: which dead addresses count
	Rand   *rand.Rand // of the worker; nil will do for a chain that is Static
	Luck   uint64     // 0: filters draw from Rand. Else what they draw follows from it alone, as luck.go says; Rand is not needed
	Trace  *Trace     // nil unless someone wants to see why

	List []Candidate

	Rung    uint8 // rung of the last-resort ladder that `up` had to climb to, 1 if none; 0 if the chain has no up. Above 2 nobody was up (a record's all_down)
	Ignored bool  // shed_load would have removed all and removed none

	BySender bool // the client's own prefix has no location: the sender's address placed it

	bits    uint8      // bits of Client.Addr relied on so far
	orders  []order    // orders that List stands in, the oldest first
	network netip.Addr // key of the draws, once it was needed

	drew     bool   // the bits of the stable draws are in
	unsure   bool   // by other draws other candidates would have come this far
	shadowed bool   // this is the second walk: what a draw can keep is kept
	chance   bool   // a cut went through a block: by chance, other candidates could be in List
	shifted  bool   // some candidate is served by another endpoint, so two may have the same
	draws    uint64 // filters that have drawn so far; counted for Luck only

	start []Candidate // List as it was at the start of the run; not to be written to, for it may be shared
	added []Candidate // space for it, if it is not
	spare []Candidate // space for the second walk
	next  []Candidate // space for the list that a filter makes
	keys  []keyed
	slots []uint16 // by answer, all 0 between filters
	run   []uint16 // slots that tie
	full  []uint16 // an order that is longer than a leaf stores
	tied  []bool
	sub   *Exec // for avoid_record
}

// Begin empties the Exec for a new run over pool.
func (x *Exec) Begin(pool *Pool) {
	x.Pool = pool
	x.List, x.start, x.orders = x.List[:0], nil, x.orders[:0]
	x.Rung, x.Ignored, x.BySender, x.bits, x.network = 0, false, false, 0, netip.Addr{}
	x.drew, x.unsure, x.shadowed, x.chance, x.shifted, x.draws = false, false, false, false, false, 0
}

// Candidates are the answers with these numbers, for Start.
func Candidates(answers []uint16) []Candidate {
	list := make([]Candidate, len(answers))
	for i, a := range answers {
		list[i] = Candidate{Answer: a, Serve: a, block: uint16(i)}
	}
	return list
}

// Start makes answers the candidates of the run, all at once: those of Candidates, which it keeps until the next Begin.
func (x *Exec) Start(list []Candidate) {
	x.start = list
	x.List = append(x.List[:0], list...)
}

// Add makes an answer a candidate, for a run without Start. All candidates are added before Run, each once.
func (x *Exec) Add(answer int) {
	x.List = append(x.List, Candidate{Answer: uint16(answer), Serve: uint16(answer), block: uint16(len(x.List))})
}

// Bits is the scope: how many bits of the client's address, as it stood in the client subnet option, the result depended on.
func (x *Exec) Bits() uint8 { return x.Client.Scope(x.bits) }

// Rely records that a decision depended on the first bits of the client's address, as Client.Addr has it.
func (x *Exec) Rely(bits uint8) {
	x.bits = max(x.bits, bits)
}

// relyDraw records that the outcome of stable draws decided.
func (x *Exec) relyDraw() {
	x.drew = true
	x.Rely(x.Client.DrawBits())
}

// net is the client's network, the key of its draws.
func (x *Exec) net() netip.Addr {
	if !x.network.IsValid() {
		x.network = x.Client.Network()
	}
	return x.network
}

// answer is the pool's answer whose place and metadata count for a candidate.
func (x *Exec) answer(c Candidate) *Answer { return &x.Pool.Answers[c.Answer] }

// Cut keeps the first n candidates, at least 1, no two of one endpoint. It charges for what could be among them by chance, by a draw and by an order.
func (x *Exec) Cut(n int) {
	if n >= len(x.List) {
		return
	}
	seen := x.seen(n)
	x.consume(seen, true)
	if seen < len(x.List) && x.List[seen].block == x.List[seen-1].block {
		x.chance = true
	}
	x.List = x.distinct(x.List[:seen])
}

// noBlock is the number of no block: there are fewer candidates.
const noBlock = 1<<16 - 1

// seen is how many candidates one must look at to find the first n that have different endpoints.
func (x *Exec) seen(n int) int {
	if !x.shifted {
		return n
	}
	for i := range x.List {
		if sibling(x.List[:i], x.List[i]) >= 0 {
			continue
		}
		if n--; n == 0 {
			return i + 1
		}
	}
	return len(x.List)
}

// distinct drops what has the endpoint of an earlier candidate, in place. Of two in one block it is chance which one stays.
func (x *Exec) distinct(list []Candidate) []Candidate {
	if !x.shifted {
		return list
	}
	kept := list[:0]
	for _, c := range list {
		i := sibling(kept, c)
		if i < 0 {
			kept = append(kept, c)
			continue
		}
		x.chance = x.chance || kept[i].block == c.block
		if x.Trace != nil {
			x.Trace.note(int(c.Answer), "%s is in the list already, in the place of %s", x.Pool.Answers[c.Serve].Label, x.answer(kept[i]).Label)
		}
	}
	return kept
}

// sibling is the index of the candidate of list that is served as c is, or -1.
func sibling(list []Candidate, c Candidate) int {
	for i := range list {
		if list[i].Serve == c.Serve {
			return i
		}
	}
	return -1
}

// byChance says that by chance List could become another one than it does, of any of its candidates: their draws and orders are charged in full.
func (x *Exec) byChance() {
	x.consume(len(x.List), false)
	for i := range x.orders {
		x.relyOrder(&x.orders[i], whole)
	}
	x.chance = true
}

// consume charges what the choice of the first n candidates depended on: the draws that let them in and, if it matters, the order they stand in. When n goes through a block
// of random order all of the block could have been chosen.
func (x *Exec) consume(n int, ordered bool) {
	if n == 0 {
		return
	}
	for n < len(x.List) && x.List[n].block == x.List[n-1].block {
		n++
	}
	for i := range x.List[:n] {
		if x.List[i].flags&drawn != 0 {
			x.relyDraw()
			break
		}
	}
	if ordered {
		x.relyOrders(x.List[:n])
	}
}

// certain reports whether some candidate of list is there whatever was drawn.
func certain(list []Candidate) bool {
	for i := range list {
		if list[i].flags&drawn == 0 {
			return true
		}
	}
	return false
}
