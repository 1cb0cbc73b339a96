package dnstap

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// Frame Streams (https://github.com/farsightsec/fstrm): every frame has its length before it, four octets in network order. Length 0 says that a control frame follows, with a length of its own. The
// writer says READY and the content type, the reader ACCEPT; then START, the data frames, STOP, and the reader's FINISH.
const (
	controlAccept uint32 = 1
	controlStart  uint32 = 2
	controlStop   uint32 = 3
	controlReady  uint32 = 4
	controlFinish uint32 = 5

	fieldContentType uint32 = 1

	contentType = "protobuf:dnstap.Dnstap"
	maxControl  = 512 // octets of a control frame
)

const (
	pause      = 50 * time.Millisecond // between two looks at the taps
	patience   = 5 * time.Second       // for the reader to take in or to say something
	retryFirst = 100 * time.Millisecond
	retryLast  = 5 * time.Second
)

// Run connects to the reader and carries messages to it, again and again, until ctx ends; then it sends what there is and says goodbye.
func (o *Output) Run(ctx context.Context) {
	wait, told := retryFirst, false
	for ctx.Err() == nil {
		conn, err := o.connect(ctx)
		if err == nil {
			o.cfg.Log.Info("dnstap reader connected", "socket", o.cfg.Socket)
			wait, told = retryFirst, false
			err = o.carry(ctx, conn)
			_ = conn.Close()
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		if !told {
			told = true
			o.cfg.Log.Warn("dnstap reader is not there: messages are dropped", "socket", o.cfg.Socket, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, retryLast)
	}
}

// connect opens the socket and shakes hands.
func (o *Output) connect(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: patience}
	conn, err := d.DialContext(ctx, "unix", o.cfg.Socket)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := shake(conn); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("frame streams: %w", err)
	}
	return conn, nil
}

func shake(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := conn.Write(control(controlReady)); err != nil {
		return err
	}
	kind, types, err := readControl(conn)
	switch {
	case err != nil:
		return err
	case kind != controlAccept:
		return fmt.Errorf("the reader answers with control frame %d, not ACCEPT", kind)
	case len(types) > 0 && !slices.Contains(types, contentType):
		return fmt.Errorf("the reader takes %q, not %s", types, contentType)
	}
	_, err = conn.Write(control(controlStart))
	return err
}

// control is a control frame.
func control(kind uint32) []byte {
	body := binary.BigEndian.AppendUint32(nil, kind)
	if kind == controlReady || kind == controlStart {
		body = binary.BigEndian.AppendUint32(body, fieldContentType)
		body = binary.BigEndian.AppendUint32(body, uint32(len(contentType)))
		body = append(body, contentType...)
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(len(body)))
	return append(b, body...)
}

var errFrame = errors.New("not a control frame")

// readControl reads a control frame: its kind and the content types in it.
func readControl(r io.Reader) (kind uint32, types []string, err error) {
	var head [12]byte // escape, length, kind
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[4:])
	if binary.BigEndian.Uint32(head[:]) != 0 || size < 4 || size > maxControl {
		return 0, nil, errFrame
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	for len(body) > 0 {
		if len(body) < 8 {
			return 0, nil, errFrame
		}
		field, n := binary.BigEndian.Uint32(body), binary.BigEndian.Uint32(body[4:])
		if body = body[8:]; uint64(n) > uint64(len(body)) {
			return 0, nil, errFrame
		}
		if field == fieldContentType {
			types = append(types, string(body[:n]))
		}
		body = body[n:]
	}
	return binary.BigEndian.Uint32(head[8:]), types, nil
}

// carry writes what comes until the connection breaks or ctx ends; then it says goodbye, and there is no error.
func (o *Output) carry(ctx context.Context, conn net.Conn) error {
	o.connects.Add(1)
	o.connected.Store(true)
	defer o.connected.Store(false)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		end := ctx.Err() != nil
		if err := o.drain(conn); err != nil {
			return err
		}
		if end {
			return goodbye(conn)
		}
		select {
		case <-ctx.Done():
		case <-o.wake:
		case <-tick.C:
		}
	}
}

func goodbye(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := conn.Write(control(controlStop)); err != nil {
		return err
	}
	_, _, err := readControl(conn) // FINISH
	return err
}

// drain writes what the taps show.
func (o *Output) drain(conn net.Conn) error {
	o.mu.Lock()
	taps := slices.Clone(o.taps)
	o.mu.Unlock()
	for _, t := range taps {
		from, to := t.taken.Load(), t.shown.Load()
		if from == to {
			continue
		}
		n := t.frames(from, to)
		err := conn.SetDeadline(time.Now().Add(patience))
		if err == nil {
			chunks := t.chunks(from, to)
			_, err = chunks.WriteTo(conn)
		}
		t.taken.Store(to)
		if err != nil {
			o.dropped.Add(n) // perhaps not all of them: nobody knows what the reader has read
			return err
		}
		o.sent.Add(n)
	}
	return nil
}

// chunks are the octets of the ring from one position to another.
func (t *Tap) chunks(from, to uint64) net.Buffers {
	size := uint64(len(t.ring))
	a, n := from%size, to-from
	if a+n <= size {
		return net.Buffers{t.ring[a : a+n]}
	}
	return net.Buffers{t.ring[a:], t.ring[:a+n-size]}
}

// frames counts the frames between two positions.
func (t *Tap) frames(from, to uint64) (n uint64) {
	size := uint64(len(t.ring))
	for from < to {
		length := uint64(0)
		for i := range uint64(4) {
			length = length<<8 | uint64(t.ring[(from+i)%size])
		}
		from += 4 + length
		n++
	}
	return n
}
