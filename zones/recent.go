package zones

import "github.com/edgesteer/edgesteer/zones/wire"

const (
	recentBits  = 6
	recentWords = 6 // of eight octets, of the longest name that is remembered
)

// Recent remembers for one worker what the names were that it was asked for lately: a few names get most of the queries, and to compare one name is less than to hash it twice and walk two tables. It
// forgets everything when the set changes. Names that do not exist, of no zone, or made from a wildcard are not remembered: who invents names cannot push out those that exist.
// The zero Recent is ready. It is not safe for concurrent use.
type Recent struct {
	set   *Set
	slots [1 << recentBits]recent
	other Result // of what is not remembered
}

type recent struct {
	result Result
	typ    uint16
	len    uint8 // of the name, 0: empty
	name   [recentWords]uint64
}

// Lookup is s.Lookup(q). What it returns must not be changed and is valid until the next call.
func (c *Recent) Lookup(s *Set, q *wire.Query) *Result {
	if c.set != s {
		*c = Recent{set: s}
	}
	n, words := len(q.Name), (len(q.Name)+7)/8
	if words == 0 || words > recentWords || q.Class != wire.ClassIN {
		c.other = s.Lookup(q)
		return &c.other
	}
	const prime = 0x9e3779b97f4a7c15
	key := (uint64(q.Type)<<48 ^ q.NameWord(0) ^ q.NameWord(words/2)<<1) * prime
	slot := &c.slots[key>>(64-recentBits)]
	if slot.typ == q.Type && int(slot.len) == n && slot.named(q, words) {
		return &slot.result
	}
	slot.result = s.Lookup(q)
	slot.typ, slot.len = q.Type, 0
	if k := slot.result.Kind; k != NXDomain && k != Refused && !slot.result.Wild {
		slot.len = uint8(n)
		for i := range words {
			slot.name[i] = q.NameWord(i)
		}
	}
	return &slot.result
}

func (r *recent) named(q *wire.Query, words int) bool {
	for i, w := range r.name[:words] {
		if w != q.NameWord(i) {
			return false
		}
	}
	return true
}
