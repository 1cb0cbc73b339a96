package geo

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A dense table finds what the sorted list of spans says: at the edges of each span and anywhere, however spans lie to the borders of a /16, with neighbours alike or not.
func TestDense(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		leaves := []uint32{3, 300, 1<<15 - 1, 1 << 15, 1 << 20}[seed%5]
		at := []uint32{0}
		for range 1 + r.IntN(5000) {
			a := r.Uint32()
			switch r.IntN(4) {
			case 0:
				a &^= 0xffff
			case 1:
				a = a&0x3ffff | 0x0a000000 // close together
			case 2:
				a |= 0xffff
			}
			at = append(at, a)
		}
		slices.Sort(at)
		at = slices.Compact(at)
		var spans []start[uint32]
		for _, a := range at {
			spans = append(spans, start[uint32]{a, r.Uint32N(leaves)})
		}
		spans[len(spans)/2].leaf = leaves - 1
		narrow, wide := newDense[uint16](spans), newDense[uint32](spans)
		if fits := leaves <= 1<<15; (narrow != nil) != fits || wide == nil {
			t.Fatalf("seed %d, %d leaves: narrow %v, wide %v", seed, leaves, narrow != nil, wide != nil)
		}
		check := func(a uint32) {
			t.Helper()
			i, found := slices.BinarySearchFunc(spans, a, func(s start[uint32], a uint32) int { return int(int64(s.at) - int64(a)) })
			if !found {
				i--
			}
			want := spans[i].leaf
			if got := wide.find(a); got != want {
				t.Fatalf("seed %d, %#x: leaf %d, want %d", seed, a, got, want)
			}
			if narrow != nil && narrow.find(a) != want {
				t.Fatalf("seed %d, %#x: narrow leaf %d, want %d", seed, a, narrow.find(a), want)
			}
		}
		for _, a := range at {
			for _, d := range []uint32{0, 1, 1<<32 - 1} {
				check(a + d)
			}
		}
		for range 10_000 {
			check(r.Uint32())
		}
	}
}

// More blocks than a narrow table has numbers for need a wide one.
func TestDenseBlocks(t *testing.T) {
	var spans []start[uint32]
	for i := range uint32(1 << 16) {
		spans = append(spans, start[uint32]{i << 16, 1}, start[uint32]{i<<16 | 0x8000, 2})
	}
	if newDense[uint16](spans) != nil {
		t.Error("65536 blocks in a narrow table")
	}
	if d := newDense[uint32](spans); d.find(0xffff7fff) != 1 || d.find(0xffff8000) != 2 {
		t.Error("the last block")
	}
	if newDense[uint16](spans[:2<<15-2]) == nil {
		t.Error("32767 blocks fit")
	}
}
