// Package dnstap writes what was asked and answered to a reader on this machine: dnstap messages (https://dnstap.info, dnstap.proto) in Frame Streams over a unix socket.
//
// An [Output] belongs to the server, a [Tap] to one worker. The worker encodes a message into the memory of its tap, without a lock or an allocation; the Output's goroutine carries it to the
// reader. Whatever the reader does, no query waits: what finds the memory full is dropped and counted.
//
// What it is not: no library is used for these few octets, since those that there are allocate for each message. It reads nothing, and it knows nothing of DNS but octets.
package dnstap

import (
	"cmp"
	"encoding/binary"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Config is what an Output is made of.
type Config struct {
	Socket    string       // path of the reader's unix socket; required
	Identity  string       // who answered, in every message; "": not told
	Version   string       // of the program, likewise
	Sample    int          // one query in so many is told of, with its answer; 0: 1
	Queries   bool         // tell of queries (AUTH_QUERY)
	Responses bool         // tell of answers (AUTH_RESPONSE)
	Buffer    int          // octets that each worker keeps for the reader, at least MinBuffer; 0: 1 MiB
	Log       *slog.Logger // nil: nothing is logged
}

// MinBuffer is the least memory of a worker: several messages of the greatest length.
const MinBuffer = 256 << 10

// Protocol is how a message came: dnstap.proto's SocketProtocol.
type Protocol uint8

// The protocols.
const (
	UDP Protocol = 1 + iota
	TCP
	DoT
	DoH
)

// Output carries what taps have taken in to the reader. Its single reader of the taps is Run.
type Output struct {
	cfg    Config
	prefix []byte        // of every frame's content: identity, version, type
	wake   chan struct{} // a tap is half full

	sent, dropped atomic.Uint64 // messages; dropped: those that were taken in and did not arrive
	connects      atomic.Uint64
	connected     atomic.Bool

	mu   sync.Mutex
	taps []*Tap
}

// New makes an Output. Nothing is written before Run.
func New(c Config) *Output {
	c.Sample, c.Buffer = cmp.Or(c.Sample, 1), max(cmp.Or(c.Buffer, 1<<20), MinBuffer)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	o := &Output{cfg: c, wake: make(chan struct{}, 1)}
	for field, s := range []string{1: c.Identity, 2: c.Version} {
		if s != "" {
			o.prefix = appendBytes(o.prefix, field, len(s))
			o.prefix = append(o.prefix, s...)
		}
	}
	o.prefix = appendNumber(o.prefix, 15, 1) // type: MESSAGE
	return o
}

// Tap makes the tap of one more worker.
func (o *Output) Tap() *Tap {
	t := &Tap{out: o, ring: make([]byte, o.cfg.Buffer), fields: make([]byte, 0, 128), head: make([]byte, 0, len(o.prefix)+32)}
	o.mu.Lock()
	o.taps = append(o.taps, t)
	o.mu.Unlock()
	return t
}

// Tap takes in the messages of one worker, and is used by no other. Query, Response and Flush do not wait, lock or allocate; what they are given is copied.
type Tap struct {
	out  *Output
	ring []byte

	// The worker's.
	on       bool // the message being answered is told of
	unseen   int  // messages until the next that is
	at       uint64
	full     uint64 // what at may not pass: the reader's position as the worker saw it last, plus the size
	lost     uint64
	from     netip.AddrPort
	protocol Protocol
	asked    time.Time
	fields   []byte
	head     []byte

	_       [64]byte
	shown   atomic.Uint64 // octets before this one are whole frames
	dropped atomic.Uint64 // messages that found the ring full
	_       [64]byte
	taken   atomic.Uint64 // octets before this one may be written over
	_       [64]byte
}

// Query takes in a message that came.
func (t *Tap) Query(msg []byte, from netip.AddrPort, p Protocol) {
	if t.unseen--; t.unseen > 0 {
		t.on = false
		return
	}
	t.unseen, t.on = t.out.cfg.Sample, true
	t.from, t.protocol, t.asked = from, p, time.Now()
	if t.out.cfg.Queries {
		t.describe(authQuery)
		t.put(fieldQueryMessage, msg)
	}
}

// Response takes in the answer to the last Query.
func (t *Tap) Response(msg []byte) {
	if !t.on || !t.out.cfg.Responses {
		return
	}
	now := time.Now()
	t.describe(authResponse)
	t.fields = appendNumber(t.fields, fieldResponseSeconds, uint64(now.Unix()))
	t.fields = appendFixed32(t.fields, fieldResponseNanos, uint32(now.Nanosecond()))
	t.put(fieldResponseMessage, msg)
}

// Flush shows the reader what was taken in. A worker calls it after each batch of messages.
func (t *Tap) Flush() {
	if t.lost > 0 {
		t.dropped.Add(t.lost)
		t.lost = 0
	}
	if t.shown.Load() == t.at {
		return
	}
	t.shown.Store(t.at)
	taken := t.taken.Load()
	t.full = taken + uint64(len(t.ring))
	if t.at-taken > uint64(len(t.ring))/2 {
		select {
		case t.out.wake <- struct{}{}:
		default:
		}
	}
}

// Fields and values of dnstap.proto's Message.
const (
	fieldType            = 1
	fieldFamily          = 2
	fieldProtocol        = 3
	fieldQueryAddress    = 4
	fieldQueryPort       = 6
	fieldQuerySeconds    = 8
	fieldQueryNanos      = 9
	fieldQueryMessage    = 10
	fieldResponseSeconds = 12
	fieldResponseNanos   = 13
	fieldResponseMessage = 14

	authQuery    = 1
	authResponse = 2
)

// describe begins the fields of a Message.
func (t *Tap) describe(kind uint64) {
	b := appendNumber(t.fields[:0], fieldType, kind)
	addr := t.from.Addr()
	if addr.Is4() {
		a := addr.As4()
		b = appendNumber(b, fieldFamily, 1)
		b = append(appendBytes(b, fieldQueryAddress, len(a)), a[:]...)
	} else {
		a := addr.As16()
		b = appendNumber(b, fieldFamily, 2)
		b = append(appendBytes(b, fieldQueryAddress, len(a)), a[:]...)
	}
	b = appendNumber(b, fieldProtocol, uint64(t.protocol))
	b = appendNumber(b, fieldQueryPort, uint64(t.from.Port()))
	b = appendNumber(b, fieldQuerySeconds, uint64(t.asked.Unix()))
	t.fields = appendFixed32(b, fieldQueryNanos, uint32(t.asked.Nanosecond()))
}

// put ends the Message with its last field, and puts it into the ring as a frame: its length, the fields of Dnstap, and the Message among them.
func (t *Tap) put(field int, msg []byte) {
	t.fields = appendBytes(t.fields, field, len(msg))
	head := append(append(t.head[:0], 0, 0, 0, 0), t.out.prefix...)
	head = appendBytes(head, 14, len(t.fields)+len(msg))
	size := len(head) + len(t.fields) + len(msg)
	binary.BigEndian.PutUint32(head, uint32(size-4))
	if t.at+uint64(size) > t.full {
		if t.full = t.taken.Load() + uint64(len(t.ring)); t.at+uint64(size) > t.full {
			t.lost++
			return
		}
	}
	t.write(head)
	t.write(t.fields)
	t.write(msg)
}

func (t *Tap) write(b []byte) {
	n := copy(t.ring[t.at%uint64(len(t.ring)):], b)
	copy(t.ring, b[n:])
	t.at += uint64(len(b))
}

// appendNumber appends a field of the type varint.
func appendNumber(b []byte, field int, v uint64) []byte {
	return binary.AppendUvarint(append(b, byte(field<<3)), v)
}

// appendFixed32 appends a field of the type fixed32.
func appendFixed32(b []byte, field int, v uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(b, byte(field<<3|5)), v)
}

// appendBytes appends the beginning of a field of the type bytes; n octets are to follow.
func appendBytes(b []byte, field, n int) []byte {
	return binary.AppendUvarint(append(b, byte(field<<3|2)), uint64(n))
}
