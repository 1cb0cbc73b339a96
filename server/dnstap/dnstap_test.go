package dnstap

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/encoding/protowire"
)

// fields reads a protobuf message: numbers and octets by field.
func fields(t *testing.T, b []byte) (numbers map[int]uint64, octets map[int][]byte) {
	t.Helper()
	numbers, octets = map[int]uint64{}, map[int][]byte{}
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatalf("tag: %v", protowire.ParseError(n))
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			numbers[int(field)], n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			numbers[int(field)] = uint64(v)
		case protowire.BytesType:
			octets[int(field)], n = protowire.ConsumeBytes(b)
		default:
			t.Fatalf("field %d of type %d", field, kind)
		}
		if n < 0 {
			t.Fatalf("field %d: %v", field, protowire.ParseError(n))
		}
		b = b[n:]
	}
	return numbers, octets
}

// reader accepts writers and gives the frames that come.
type reader struct {
	l      net.Listener
	frames chan []byte
	ends   chan error // of connections: nil after STOP
	conns  chan net.Conn
}

func listen(t *testing.T, path string) *reader {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{l: l, frames: make(chan []byte, 1<<16), ends: make(chan error, 16), conns: make(chan net.Conn, 16)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.conns <- c
			r.ends <- r.read(c)
			c.Close()
		}
	}()
	return r
}

func (r *reader) read(c net.Conn) error {
	if kind, types, err := readControl(c); err != nil || kind != controlReady || len(types) != 1 || types[0] != contentType {
		return errors.Join(err, errors.New("not READY"))
	}
	accept := control(controlReady)
	binary.BigEndian.PutUint32(accept[8:], controlAccept)
	if _, err := c.Write(accept); err != nil {
		return err
	}
	if kind, _, err := readControl(c); err != nil || kind != controlStart {
		return errors.Join(err, errors.New("not START"))
	}
	for {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(size[:])
		if n == 0 {
			kind, _, err := readControl(io.MultiReader(bytes.NewReader(size[:]), c))
			if err != nil || kind != controlStop {
				return errors.Join(err, errors.New("not STOP"))
			}
			_, err = c.Write(control(controlFinish))
			return err
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(c, frame); err != nil {
			return err
		}
		r.frames <- frame
	}
}

func (r *reader) next(t *testing.T) []byte {
	t.Helper()
	select {
	case f := <-r.frames:
		return f
	case <-time.After(2 * time.Minute):
		t.Fatal("no frame in two minutes")
		return nil
	}
}

// run runs an output until the function that it gives is called, which waits for its end.
func run(o *Output) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		o.Run(ctx)
		close(done)
	}()
	return func() {
		cancel()
		<-done
	}
}

var client = netip.MustParseAddrPort("192.0.2.1:4242")

func TestMessages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tap")
	r := listen(t, path)
	o := New(Config{Socket: path, Identity: "ns1", Version: "1.2.3", Queries: true, Responses: true})
	tap := o.Tap()
	before := time.Now()
	tap.Query([]byte("question"), client, UDP)
	tap.Response([]byte("answer"))
	tap.Query([]byte("six"), netip.MustParseAddrPort("[2001:db8::1]:53"), DoH)
	tap.Flush()
	stop := run(o)
	for _, want := range []struct {
		kind, family, protocol, port uint64
		addr, query, response        string
	}{
		{1, 1, 1, 4242, "192.0.2.1", "question", ""},
		{2, 1, 1, 4242, "192.0.2.1", "", "answer"},
		{1, 2, 4, 53, "2001:db8::1", "six", ""},
	} {
		numbers, octets := fields(t, r.next(t))
		if numbers[15] != 1 || string(octets[1]) != "ns1" || string(octets[2]) != "1.2.3" {
			t.Errorf("around the message: %v %v", numbers, octets)
		}
		n, b := fields(t, octets[14])
		addr, _ := netip.AddrFromSlice(b[4])
		if n[1] != want.kind || n[2] != want.family || n[3] != want.protocol || n[6] != want.port || addr.String() != want.addr || string(b[10]) != want.query || string(b[14]) != want.response {
			t.Errorf("%v %v, want %v", n, b, want)
		}
		asked := time.Unix(int64(n[8]), int64(n[9]))
		if asked.Before(before.Truncate(time.Microsecond)) || asked.After(time.Now()) {
			t.Errorf("asked at %s, not after %s", asked, before)
		}
		if _, has := n[12]; has != (want.kind == 2) || has && time.Unix(int64(n[12]), int64(n[13])).Before(asked) {
			t.Errorf("time of the answer %v", n)
		}
	}
	stop()
	if err := <-r.ends; err != nil {
		t.Errorf("the end: %v", err)
	}
}

// Whatever the sizes, and wherever the ring ends, frames arrive whole and in order.
func TestRing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tap")
	r := listen(t, path)
	o := New(Config{Socket: path, Queries: true, Buffer: MinBuffer})
	tap := o.Tap()
	stop := run(o)
	defer stop()
	const batch = 300 // more than half of the ring, so that the reader is woken
	for i := range 10 {
		var sent [][]byte
		for k := range batch {
			msg := bytes.Repeat([]byte{byte(i), byte(k)}, 1+(i+k)*37%450)
			sent = append(sent, msg)
			tap.Query(msg, client, TCP)
		}
		tap.Flush()
		for k, msg := range sent {
			_, octets := fields(t, r.next(t))
			if _, b := fields(t, octets[14]); !bytes.Equal(b[10], msg) {
				t.Fatalf("batch %d, message %d: %d octets, want %d", i, k, len(b[10]), len(msg))
			}
		}
		for tap.taken.Load() < tap.shown.Load() { // the reader has the octets a moment before their room is free
			runtime.Gosched()
		}
	}
	if tap.at < 3*MinBuffer {
		t.Errorf("only %d octets went through", tap.at)
	}
}

// Without a reader nothing waits: what fits is kept, the rest is dropped and counted, and the reader that comes gets what was kept.
func TestDrops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tap")
	o := New(Config{Socket: path, Queries: true, Responses: true})
	registry := prometheus.NewRegistry()
	if err := o.Register(registry); err != nil {
		t.Fatal(err)
	}
	tap := o.Tap()
	stop := run(o)
	msg := make([]byte, 500)
	const n = 10_000
	for range n / 2 {
		tap.Query(msg, client, UDP)
		tap.Response(msg)
	}
	tap.Flush()
	r := listen(t, path)
	kept := n - int(tap.dropped.Load())
	if kept < 1000 || kept > 3000 { // 1 MiB of some 550 octets each
		t.Errorf("%d of %d messages are kept", kept, n)
	}
	for range kept {
		r.next(t)
	}
	stop()
	if err := <-r.ends; err != nil {
		t.Error(err)
	}
	if sent, dropped := o.sent.Load(), tap.dropped.Load(); int(sent) != kept || sent+dropped != n || o.connects.Load() != 1 {
		t.Errorf("%d sent, %d dropped, %d connections", sent, dropped, o.connects.Load())
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// A reader that goes away and comes back gets what is new, in whole frames.
func TestReconnect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tap")
	first := listen(t, path)
	o := New(Config{Socket: path, Queries: true})
	tap := o.Tap()
	stop := run(o)
	defer stop()
	tap.Query([]byte("one"), client, UDP)
	tap.Flush()
	if f := first.next(t); !bytes.Contains(f, []byte("one")) {
		t.Errorf("%q", f)
	}
	first.l.Close()
	(<-first.conns).Close()
	second := listen(t, path)
	// The writer notices when it writes; what it wrote to the broken connection is lost.
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for {
		tap.Query([]byte("two"), client, UDP)
		tap.Flush()
		select {
		case f := <-second.frames:
			if _, octets := fields(t, f); !bytes.Contains(octets[14], []byte("two")) {
				t.Errorf("%q", f)
			}
			if o.connects.Load() != 2 || !o.connected.Load() {
				t.Errorf("%d connections", o.connects.Load())
			}
			return
		case <-tick.C:
		case <-deadline:
			t.Fatal("no message in 30 s")
		}
	}
}

// A socket of something else is no reader.
func TestNoReader(t *testing.T) {
	for name, answer := range map[string][]byte{
		"something else": []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"another frame":  control(controlFinish),
		"another type":   append(append([]byte{0, 0, 0, 0, 0, 0, 0, 13, 0, 0, 0, 1, 0, 0, 0, 1}, 0, 0, 0, 1), 'x'),
	} {
		a, b := net.Pipe()
		go func() {
			readControl(b)
			b.Write(answer)
			b.Close()
		}()
		if err := shake(a); err == nil {
			t.Errorf("%s is taken for a reader", name)
		}
		a.Close()
	}
}

func TestSample(t *testing.T) {
	o := New(Config{Socket: "none", Queries: true, Responses: true, Sample: 10})
	tap := o.Tap()
	for range 100 {
		tap.Query([]byte("q"), client, UDP)
		tap.Response([]byte("a"))
	}
	if n := tap.frames(0, tap.at); n != 20 {
		t.Errorf("%d messages of 100 queries and answers, one in ten", n)
	}
}

func TestAllocs(t *testing.T) {
	o := New(Config{Socket: "none", Identity: "ns1", Queries: true, Responses: true})
	tap := o.Tap()
	msg := make([]byte, 200)
	if n := testing.AllocsPerRun(1000, func() {
		tap.Query(msg, client, UDP)
		tap.Response(msg)
		tap.Flush()
		tap.taken.Store(tap.at)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkTap is what a query and its answer cost when all are told of, and when one in 100 is.
func BenchmarkTap(b *testing.B) {
	for name, sample := range map[string]int{"all": 1, "one in 100": 100} {
		b.Run(name, func(b *testing.B) {
			tap := New(Config{Socket: "none", Queries: true, Responses: true, Sample: sample}).Tap()
			query, response := make([]byte, 60), make([]byte, 120)
			b.ReportAllocs()
			for b.Loop() {
				tap.Query(query, client, UDP)
				tap.Response(response)
				tap.taken.Store(tap.at)
			}
		})
	}
}
