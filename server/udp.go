package server

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// A UDP address is served by workers. Each runs one udpLoop, which reads datagrams, has its udpWorker answer them one by one and sends the answers. There are two loops:
// batchLoop (Linux: many datagrams per system call, one socket and one thread per worker) and packetLoop (everywhere, through package net, one datagram at a time).
// They differ in how bytes come and go and in nothing else; the tests run both.

// udpSlot is the room for one datagram, in octets: 4096 and a line. The answer is written over the query, so it is the room for the answer too. It is not a multiple of
// 4096, for then the first octets of all slots would fall into the same few lines of the cache.
const udpSlot = 4096 + 64

// udpDrainLimit is the longest that a stopped worker goes on answering what is queued. It takes a few ms, unless something else has the processor.
const udpDrainLimit = 2 * time.Second

// udpLoop moves datagrams for one worker.
type udpLoop interface {
	// run answers until stop was called, then what is still queued, and closes the socket.
	run(w *udpWorker)
	// stop makes run return soon. given says that another process reads the very socket: what is queued in it is left there. It may be called from any goroutine, also when run
	// never was; then the loop must be closed by release.
	stop(given bool)
	// release closes a socket whose run was never called.
	release()
	// local is the address that it listens on, with the port that the kernel chose.
	local() netip.AddrPort
	// control calls f with the descriptor, unless it is closed.
	control(f func(fd uintptr)) error
	// kernelDrops counts datagrams that the kernel dropped because nobody read them in time.
	kernelDrops() uint64
	// room is the receive buffer that the kernel granted, in octets; 0: unknown.
	room() int
}

// udpWorker answers the datagrams of one loop. It is used by that loop's goroutine only, and padded for the same reason as udpCounters.
type udpWorker struct {
	_ [64]byte
	answerer
	trusted proxies
	count   *udpCounters
	peer    Peer
	_       [64]byte
}

// answer gives the answer to the datagram slot[:n], nil for silence. It lies in the memory of slot.
func (w *udpWorker) answer(slot []byte, n int, from netip.AddrPort) []byte {
	w.peer.Addr = from
	if from.Port() == 0 {
		return nil // nobody can be answered there
	}
	msg := slot[:n]
	if w.trusted.has(from.Addr()) {
		client, size, why := parseProxy(msg)
		if why != proxyFine {
			w.count.proxy[why].Add(1)
			return nil
		}
		if client.IsValid() {
			w.peer.Addr = client
		}
		slot, msg = slot[size:], msg[size:]
	} else if signed(msg) {
		w.count.proxy[proxyUntrusted].Add(1)
		return nil
	}
	return w.Handle(msg, slot[:0], &w.peer)
}

// udpCounters are written by one worker, once per batch, and read by whoever scrapes. The padding keeps the counters of two workers out of one line of the cache.
type udpCounters struct {
	_          [64]byte
	received   atomic.Uint64
	answered   atomic.Uint64
	batches    atomic.Uint64
	sendErrors atomic.Uint64
	readErrors atomic.Uint64
	proxy      [proxyReasons]atomic.Uint64
	_          [64]byte
}

// batch counts one batch of n datagrams, k of which were answered and sent.
func (c *udpCounters) batch(n, k, failed int) {
	c.received.Add(uint64(n))
	c.answered.Add(uint64(k))
	c.batches.Add(1)
	if failed > 0 {
		c.sendErrors.Add(uint64(failed))
	}
}
