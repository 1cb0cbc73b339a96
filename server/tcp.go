package server

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// DNS over TCP (RFC 7766) and, with TLS below it, DoT (RFC 7858). A connection has a goroutine, which waits in a read. When octets come it borrows a handler for as long
// as it takes to answer the whole messages among them (microseconds: nothing in there waits), and writes all the answers at once. So the number of handlers does
// not depend on the number of connections, and a slow client holds up its own connection and nothing else.
//
// A zone transfer runs beside, on a goroutine of its own and when its handler has gone on to other queries; its messages go between the answers to what was asked after it (RFC 7766 section 6.2.1.1).

const (
	streamBuffer  = 2048      // octets that a connection reads at first; it grows with its messages
	streamKeep    = 16384     // octets of buffer that a connection may keep when it is idle
	streamFlush   = 64 << 10  // octets of answers after which they are written, more messages at hand or not
	streamMessage = 1<<16 - 1 // the longest message
	streamFrame   = 2 + 1<<16 // a buffer in which one always fits, with its length
	stopGrace     = 200 * time.Millisecond
)

// nextFrame gives the first message of b (RFC 1035 section 4.2.2: two octets of length before it) and the octets that it takes; 0 while it is not whole.
func nextFrame(b []byte) (msg []byte, size int) {
	if len(b) < 2 {
		return nil, 0
	}
	size = 2 + int(binary.BigEndian.Uint16(b))
	if len(b) < size {
		return nil, 0
	}
	return b[2:size], size
}

// appendFrame appends msg with its length.
func appendFrame(b, msg []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(msg)))
	return append(b, msg...)
}

// streamWorker is a handler with the buffer that it answers into.
type streamWorker struct {
	answerer
	buf []byte
}

// answer gives the answer to msg, nil for silence.
func (w *streamWorker) answer(msg []byte, p *Peer) []byte { return w.Handle(msg, w.buf[:0], p) }

// workers are the handlers of all stream transports. Who takes one gives it back soon and never waits meanwhile.
type workers chan *streamWorker

func newWorkers(n int, f func() answerer) workers {
	w := make(workers, n)
	for range n {
		w <- &streamWorker{answerer: f(), buf: make([]byte, streamMessage)}
	}
	return w
}

func (w workers) take() *streamWorker {
	s := <-w
	s.Refresh()
	return s
}

func (w workers) give(s *streamWorker) {
	s.Done()
	w <- s
}

// refresh has every idle handler take the newest snapshot, so that old ones can go.
func (w workers) refresh() {
	for range cap(w) {
		select {
		case s := <-w:
			s.Refresh()
			w <- s
		default:
			return
		}
	}
}

// streams is what connections of TCP and DoT share.
type streams struct {
	listeners *Listeners
	cfg       *ListenConfig
	conns     *conns
	workers   workers
	transfers chan struct{} // a place for each
	count     *streamCounters
	stop      *stopper
}

// session is one connection of TCP or DoT at work.
type session struct {
	*streams
	c    *conn
	rw   net.Conn    // c.raw, or TLS over it
	more func() bool // says that a read would not wait; nil: unknown
	peer Peer

	in   []byte
	r, w int // in[r:w] has been read and not yet answered

	first   bool      // no message so far
	partial bool      // the deadline is that of a message that has begun
	armed   time.Time // when the deadline of an idle connection was set

	out     []byte
	writing sync.Mutex     // the session and its transfers
	beside  sync.WaitGroup // transfers
	running atomic.Int32
}

// serve answers on a connection until it ends, and gives the reason.
func (s *session) serve() closeReason {
	why := s.read()
	s.beside.Wait()
	return why
}

func (s *session) read() closeReason {
	for {
		if err := s.fill(); err != nil {
			if s.waitsForTransfer(err) {
				continue
			}
			return s.why(err)
		}
		if s.first && s.w-s.r >= len(proxySignature) && signed(s.in[s.r:s.w]) {
			s.count.proxy[proxyUntrusted].Add(1)
			return closedProxy
		}
		for whole := true; whole; {
			var n int
			var err error
			if n, whole, err = s.answer(); err != nil {
				return s.writeReason(err)
			}
			if n > 0 {
				s.conns.touch(s.c)
				s.first, s.partial = false, false
			}
		}
	}
}

// fill reads what is there, at least one octet, and waits for it as long as the state of the connection allows.
func (s *session) fill() error {
	if s.r > 0 {
		s.w = copy(s.in, s.in[s.r:s.w])
		s.r = 0
	}
	if s.w == 0 && len(s.in) > streamKeep {
		s.in = make([]byte, streamBuffer)
	}
	if s.w == len(s.in) {
		s.in = append(s.in, make([]byte, min(len(s.in), streamFrame-len(s.in)))...)
	}
	s.arm()
	had := s.w
	n, err := s.rw.Read(s.in[s.w:])
	s.w += n
	for n > 0 && err == nil && s.more != nil && s.w < len(s.in) && s.more() {
		n, err = s.rw.Read(s.in[s.w:])
		s.w += n
	}
	if s.w == len(s.in) && len(s.in) < streamKeep { // a busy one: longer reads from now on
		s.in = append(s.in, make([]byte, len(s.in))...)
	}
	if s.w > had {
		return nil // an error comes again
	}
	return err
}

// arm sets the deadline of the next read. While a message has begun it stays where it is: who sends an octet now and then wins no time. An idle connection
// gets IdleTimeout and up to a sixteenth more, so that a busy one need not set it for each read.
func (s *session) arm() {
	switch {
	case s.first: // set when it was accepted
	case s.w > 0:
		if !s.partial {
			s.partial = true
			s.deadline(time.Now().Add(s.cfg.MessageTimeout))
			s.armed = time.Time{}
		}
	default:
		now := time.Now()
		if slack := s.cfg.IdleTimeout / 16; now.Sub(s.armed) > slack {
			s.deadline(now.Add(s.cfg.IdleTimeout + slack))
			s.armed = now
		}
	}
}

func (s *session) deadline(t time.Time) {
	_ = s.c.raw.SetReadDeadline(t)
	if end, ok := s.stop.when(); ok && end.Before(t) { // the server stops: it may have set its own just before
		_ = s.c.raw.SetReadDeadline(end)
	}
}

// answer answers the whole messages at hand, as many as fit one write, and writes the answers. It gives the number of messages, and whether there may be more.
func (s *session) answer() (n int, more bool, err error) {
	if _, size := nextFrame(s.in[s.r:s.w]); size == 0 {
		return 0, false, nil
	}
	if s.peer.IdleTimeout != 0 && s.stop.stopping() {
		s.peer.IdleTimeout = 0
	}
	var transfer Transfer
	out, answered := s.out[:0], 0
	w := s.workers.take()
	for transfer == nil && len(out) < streamFlush {
		msg, size := nextFrame(s.in[s.r:s.w])
		if size == 0 {
			break
		}
		s.r += size
		n++
		if a := w.answer(msg, &s.peer); len(a) > 0 {
			out = appendFrame(out, a)
			answered++
		}
		transfer = w.Transfer()
	}
	s.workers.give(w)
	s.count.queries.Add(uint64(n))
	s.count.answers.Add(uint64(answered))
	if s.out = out; cap(out) > streamKeep {
		s.out = nil
	}
	if len(out) > 0 {
		err = s.write(out)
	}
	if err == nil && transfer != nil {
		err = s.transfer(transfer)
	}
	return n, true, err
}

func (s *session) write(b []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = s.c.raw.SetWriteDeadline(time.Now().Add(s.cfg.WriteTimeout))
	_, err := s.rw.Write(b)
	return err
}

var errTransfer = errors.New("no place for a zone transfer")

// transfer starts a zone transfer, when a place is free.
func (s *session) transfer(t Transfer) error {
	s.beside.Wait() // one at a time
	timeout := time.NewTimer(s.cfg.WriteTimeout)
	defer timeout.Stop()
	select {
	case s.transfers <- struct{}{}:
	case <-timeout.C:
		return errTransfer
	case <-s.stop.begun:
		return errTransfer
	}
	s.running.Add(1)
	s.beside.Go(func() {
		defer func() { <-s.transfers; s.running.Add(-1) }()
		s.count.transfers.Add(1)
		var buf []byte
		err := t(func(msg []byte) error {
			if len(msg) > streamMessage {
				return errors.New("message of a transfer exceeds 65535 octets")
			}
			buf = appendFrame(buf[:0], msg)
			err := s.write(buf)
			s.conns.touch(s.c)
			return err
		})
		if err != nil {
			s.count.transferErrors.Add(1)
			s.c.close(closedTransfer) // the client must not take a part for the whole
		}
	})
	return nil
}

// waitsForTransfer says that a read ended only because nothing was asked while a transfer runs.
func (s *session) waitsForTransfer(err error) bool {
	if s.running.Load() == 0 || s.partial || !errors.Is(err, os.ErrDeadlineExceeded) || s.stop.stopping() {
		return false
	}
	s.armed = time.Time{}
	return true
}

// why gives the reason for the error of a read.
func (s *session) why(err error) closeReason {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		switch {
		case s.stop.stopping() && s.listeners.give != nil && s.c.transport == TCP:
			return closedGiven
		case s.stop.stopping():
			return closedStop
		case s.first:
			return closedFirst
		case s.partial:
			return closedSlow
		}
		return closedIdle
	case errors.Is(err, io.EOF):
		return closedClient
	}
	return closedError
}

func (s *session) writeReason(err error) closeReason {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return closedReader
	case errors.Is(err, errTransfer):
		return closedTransfer
	}
	return closedError
}
