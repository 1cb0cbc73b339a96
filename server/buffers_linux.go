package server

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// buffers is memory for datagrams outside Go's heap, in huge pages where the kernel gives them (madvise(2), MADV_HUGEPAGE): it is touched for every query, by us and by the kernel on our behalf, and in pages
// of 4 KiB each datagram lies in one of its own. Several loops share it, so that many workers do not take a huge page each; the last one gives it back.
type buffers struct {
	mapped []byte
	free   []byte // what no loop has taken
	users  atomic.Int32
}

const hugePage = 2 << 20

// newBuffers maps n octets. Its maker is its first user.
func newBuffers(n int) (*buffers, error) {
	n = (n + hugePage - 1) &^ (hugePage - 1)
	mapped, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("%d octets of memory for datagrams: %w", n, err)
	}
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(mapped))) & (hugePage - 1))
	b := &buffers{mapped: mapped, free: mapped[off : off+n]}
	_ = unix.Madvise(b.free, unix.MADV_HUGEPAGE) // a kernel without them serves with small ones
	b.users.Store(1)
	return b, nil
}

// use makes one more user.
func (b *buffers) use() *buffers {
	b.users.Add(1)
	return b
}

// take gives a user n octets, from the begin of a cache line on.
func (b *buffers) take(n int) []byte {
	p := b.free[:n:n]
	b.free = b.free[min(len(b.free), lines(n)):]
	return p
}

// lines is n rounded up to whole cache lines.
func lines(n int) int { return (n + 63) &^ 63 }

// release is called once by each user, which must not touch its memory afterwards.
func (b *buffers) release() {
	if b.users.Add(-1) == 0 {
		_ = unix.Munmap(b.mapped)
		b.mapped, b.free = nil, nil
	}
}
