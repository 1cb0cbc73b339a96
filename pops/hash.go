package pops

import (
	"net/netip"

	"github.com/cespare/xxhash/v2"
)

// The tags of the draws, one for each use, so that a network that has one bad draw is not the one that has them all.
const (
	TagUp     = "up"     // with the PoP's name: who leaves a PoP by a drain
	TagShed   = "shed"   // with the answer's label: whom shed_load takes away
	TagSticky = "sticky" // with the answer's label: the orders of sticky filters
	TagShard  = "shard"  // with the answer's label: the answers of a shuffle shard
)

// hashed is the longest input of Hash that is put together on the stack.
const hashed = 192

// Hash is the number that all stable draws come from: XXH64 with seed 0 over the tag, a zero octet, an octet for the address family (1 IPv4, 2 IPv6, 0 no address, as in
// RFC 7871), the address in network order (4 or 16 octets), a zero octet and the id. A mapped IPv4 address counts as IPv4; a zone is left out. It is the same on every node
// and in every version: testdata/hash.txt freezes it. It does not allocate.
func Hash(tag string, network netip.Addr, id string) uint64 {
	if n := len(tag) + len(id) + 19; n > hashed {
		return hashLong(tag, network, id)
	}
	var space [hashed]byte
	b := appendKey(append(space[:0], tag...), network)
	return xxhash.Sum64(append(b, id...))
}

func hashLong(tag string, network netip.Addr, id string) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(tag) // never fails
	var space [19]byte
	_, _ = d.Write(appendKey(space[:0], network))
	_, _ = d.WriteString(id)
	return d.Sum64()
}

// appendKey appends what stands between tag and id: at most 19 octets.
func appendKey(b []byte, network netip.Addr) []byte {
	switch network = network.Unmap(); {
	case network.Is4():
		a := network.As4()
		b = append(append(b, 0, 1), a[:]...)
	case network.Is6():
		a := network.As16()
		b = append(append(b, 0, 2), a[:]...)
	default:
		b = append(b, 0, 0)
	}
	return append(b, 0)
}

// Unit01 maps a hash to [0,1): its upper 53 bits, so that every value is exact.
func Unit01(hash uint64) float64 { return float64(hash>>11) / (1 << 53) }

// Bucket is the place of a network in a draw, in [0,100): under TagUp the network is in use at the PoP id when its bucket is below the share.
func Bucket(tag string, network netip.Addr, id string) float64 {
	return Unit01(Hash(tag, network, id)) * 100
}
