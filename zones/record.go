package zones

import (
	"fmt"

	"github.com/edgesteer/edgesteer/filters"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// AllDown is what a record answers to a client to whom nothing is available.
type AllDown uint8

// The policies.
const (
	Serve        AllDown = iota // the last resort: the ladder of steering.md section 4
	GiveNoData                  // NODATA
	GiveServFail                // SERVFAIL
)

// MaxRData is how many different rdata one steered record can hold: more addresses fit into no message.
const MaxRData = 4096

// RecordConfig is what a steered record is made of.
type RecordConfig struct {
	Name    []byte  // the owner, in wire form; a wildcard's is that of the wildcard
	Type    uint16  // of all answers
	TTL     uint32  // seconds, up to 2147483647
	TTLMin  uint32  // seconds, while something is about to change; not above TTL
	AllDown AllDown // zero: Serve
	// Sender makes the record look at the sender's address and never at the client subnet option.
	Sender bool
	Chain  *filters.Chain
	Pool   *filters.Pool // shared by the records of a name
	Plans  []int         // the numbers of all plans that Chain was given
	// Answers are the records of each of the pool's answers, in the pool's order. One without any is no candidate for this type.
	Answers [][]RData
}

// RData is one record of an answer.
type RData struct {
	Octets []byte // uncompressed
	// Address is the bit of the endpoint's address in pops.State.Dead (its index in Endpoint.Addresses), -1 if it is none.
	Address int
}

// Record is a steered rrset: answers, of which its chain chooses for each client. It is immutable. A service's A and AAAA are two Records that share Chain and Pool.
type Record struct {
	Name    []byte // wire form, lower case
	Type    uint16
	TTL     uint32
	TTLMin  uint32
	AllDown AllDown
	Sender  bool // the client subnet option does not count
	Chain   *filters.Chain
	Pool    *filters.Pool
	Plans   []int

	text       string
	candidates []filters.Candidate // answers with data of this type
	first      []uint32            // by answer, and the end: its entries
	entries    []entry             // records of the answers
	data       []byte              // packed records, one for each different rdata
	distinct   int                 // how many these are
}

// entry is one record of one answer. Equal rdata have one id, and lie in data once.
type entry struct {
	off     uint32
	len     uint16
	id      uint16
	address int8
}

// NewRecord packs the answers of a steered record.
func NewRecord(c RecordConfig) (*Record, error) {
	r := &Record{
		Name: wire.ToLower(nil, c.Name), Type: c.Type, TTL: c.TTL, TTLMin: min(c.TTL, c.TTLMin), AllDown: c.AllDown, Sender: c.Sender,
		Chain: c.Chain, Pool: c.Pool, Plans: c.Plans, text: wire.NameString(c.Name) + " " + TypeString(c.Type),
	}
	switch {
	case !dataType(c.Type):
		return nil, fmt.Errorf("type %s cannot be steered", TypeString(c.Type))
	case len(c.Answers) != len(c.Pool.Answers) || len(c.Answers) > 1<<16-1:
		return nil, fmt.Errorf("%d answers for a pool of %d", len(c.Answers), len(c.Pool.Answers))
	}
	known := map[string]entry{}
	var answers []uint16
	for i, rdata := range c.Answers {
		r.first = append(r.first, uint32(len(r.entries)))
		if len(rdata) > 0 {
			answers = append(answers, uint16(i))
		}
		for _, d := range rdata {
			if !soundRData(c.Type, d.Octets) || len(d.Octets) > wire.MaxMessage {
				return nil, fmt.Errorf("record data of answer %d is not that of type %s", i+1, TypeString(c.Type))
			}
			e, ok := known[string(d.Octets)]
			if !ok {
				e = entry{off: uint32(len(r.data)), len: uint16(fixed + len(d.Octets)), id: uint16(len(known))}
				r.data = pack(r.data, c.Type, c.TTL, d.Octets)
				if target := targetOf(c.Type, r.data[int(e.off)+fixed:]); target != nil {
					wire.ToLower(target[:0], target)
				}
				known[string(d.Octets)] = e
			}
			e.address = int8(d.Address)
			r.entries = append(r.entries, e)
		}
	}
	r.first = append(r.first, uint32(len(r.entries)))
	r.candidates = filters.Candidates(answers)
	r.distinct = len(known)
	if len(known) > MaxRData {
		return nil, fmt.Errorf("%d different addresses or records, %d is the most", len(known), MaxRData)
	}
	return r, nil
}

// As is the same record at another name. The two share all that they hold.
func (r *Record) As(name []byte) *Record {
	c := *r
	c.Name = wire.ToLower(nil, name)
	c.text = wire.NameString(c.Name) + " " + TypeString(c.Type)
	return &c
}

// String is the record's name and type for people and metrics.
func (r *Record) String() string { return r.text }

// Candidates makes the answers that have data of the record's type the candidates of a run. x.Begin(r.Pool) has been called.
func (r *Record) Candidates(x *filters.Exec) {
	x.V6 = r.Type == wire.TypeAAAA
	x.Start(r.candidates)
}

// Withheld is the policy that forbids to serve what the chain chose, because it had to ignore health or go past the statements for it; Serve if nothing forbids it.
func (r *Record) Withheld(x *filters.Exec) AllDown {
	if x.Rung < pops.RungSaid {
		return Serve
	}
	return r.AllDown
}

// Append writes the answers that the chain chose, in their order, each different record once: those of x.List, of a CNAME record only the first. Addresses that failed their
// checks are left out as long as x.Rung says so and others remain. own says that owner is the name of the question. n is how many records it was; 0 if nothing is left to give
// (NODATA), or if not all fitted: then whole is false and nothing is written.
func (r *Record) Append(b *wire.Builder, owner []byte, own bool, ttl uint32, x *filters.Exec) (n int, whole bool) {
	n, whole = r.append(b, owner, own, ttl, x, !x.View.AllUp && x.Rung != 0 && x.Rung < pops.RungSaid)
	if n == 0 && whole && len(x.List) > 0 {
		n, whole = r.append(b, owner, own, ttl, x, false)
	}
	return n, whole
}

func (r *Record) append(b *wire.Builder, owner []byte, own bool, ttl uint32, x *filters.Exec, alive bool) (n int, whole bool) {
	if len(x.List) == 1 && !alive && own && ttl == r.TTL && !compressible(r.Type) { // the commonest answer by far
		serve := x.List[0].Serve
		if list := r.entries[r.first[serve]:r.first[serve+1]]; len(list) == 1 {
			if !b.AppendPacked(wire.Answer, 1, r.data[list[0].off:list[0].off+uint32(list[0].len)]) {
				return 0, false
			}
			return 1, true
		}
	}
	if r.distinct <= 64 { // nearly always: there is no need to clear more
		var seen [1]uint64
		return r.write(b, owner, own, ttl, x, alive, seen[:])
	}
	var seen [MaxRData / 64]uint64
	return r.write(b, owner, own, ttl, x, alive, seen[:])
}

// write is append; seen has a bit for each different rdata.
func (r *Record) write(b *wire.Builder, owner []byte, own bool, ttl uint32, x *filters.Exec, alive bool, seen []uint64) (n int, whole bool) {
	mark := b.Mark()
	packed := own && ttl == r.TTL && !compressible(r.Type)
	for i := range x.List {
		serve := x.List[i].Serve
		var dead uint64
		if alive {
			dead = x.View.Dead(r.Pool.Answers[serve].Unit, int(x.Rung))
		}
		for _, e := range r.entries[r.first[serve]:r.first[serve+1]] {
			if e.address >= 0 && dead>>uint(e.address)&1 != 0 {
				continue
			}
			word, bit := e.id/64, uint64(1)<<(e.id%64)
			if seen[word]&bit != 0 {
				continue
			}
			seen[word] |= bit
			rr := r.data[e.off : e.off+uint32(e.len)]
			if packed && b.AppendPacked(wire.Answer, 1, rr) || !packed && b.Append(wire.Answer, owner, r.Type, wire.ClassIN, ttl, rr[fixed:]) {
				n++
				continue
			}
			b.Rollback(mark)
			return 0, false
		}
		if r.Type == wire.TypeCNAME && n > 0 {
			break
		}
	}
	return n, true
}

// Target is the name, in lower case, of the CNAME that Append writes for x: what to look up next. nil if there is none.
func (r *Record) Target(x *filters.Exec) []byte {
	for i := range x.List {
		serve := x.List[i].Serve
		if e := r.entries[r.first[serve]:r.first[serve+1]]; len(e) > 0 {
			return r.data[e[0].off+fixed : e[0].off+uint32(e[0].len)]
		}
	}
	return nil
}

// targets are the names that a CNAME record can give.
func (r *Record) targets() (names [][]byte) {
	for rest := r.data; len(rest) > 0; {
		var rdata []byte
		rdata, rest = next(rest)
		names = append(names, rdata)
	}
	return names
}
