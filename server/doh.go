package server

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DNS over HTTPS (RFC 8484). This file alone sees net/http.

const (
	dnsMessage    = "application/dns-message"
	dohHeader     = 16 << 10 // octets of a request's header; a GET carries its query there
	dohLeast      = 12       // octets of a header: less is no DNS message
	dohQueryParam = "dns"
	dohGrace      = time.Second
)

// dohStatuses are the statuses that are sent. The set is closed: it labels a metric.
var dohStatuses = [...]int{http.StatusOK, http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}

func dohStatusIndex(status int) int {
	for i, s := range dohStatuses {
		if s == status {
			return i
		}
	}
	return 1
}

// doh serves one HTTPS address.
type doh struct {
	*streams
	http *http.Server
	in   *inlet
	path string
}

type dohConnKey struct{}

func newDoH(s *streams, certs *certificate, log *slog.Logger) *doh {
	d := &doh{streams: s, path: s.cfg.HTTPSPath}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	d.http = &http.Server{
		Handler:           d,
		TLSConfig:         certs.config("h2", "http/1.1"),
		Protocols:         &protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: s.cfg.HTTPSStreams, WriteByteTimeout: s.cfg.WriteTimeout},
		ReadHeaderTimeout: s.cfg.FirstTimeout, // and of the handshake
		ReadTimeout:       s.cfg.FirstTimeout + s.cfg.MessageTimeout,
		WriteTimeout:      s.cfg.FirstTimeout + s.cfg.MessageTimeout + s.cfg.WriteTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    dohHeader,
		ErrorLog:          slog.NewLogLogger(&dohLog{Handler: log.Handler(), count: s.count}, slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if t, ok := c.(interface{ NetConn() net.Conn }); ok { // *tls.Conn
				c = t.NetConn()
			}
			if h, ok := c.(*inletConn); ok {
				return context.WithValue(ctx, dohConnKey{}, h.c)
			}
			return ctx
		},
	}
	return d
}

// serve answers the connections that the inlet gives, until shutdown.
func (d *doh) serve() error {
	err := d.http.ServeTLS(d.in, "", "")
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (d *doh) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := d.respond(w, r)
	d.count.statuses[dohStatusIndex(status)].Add(1)
	if status != http.StatusOK {
		http.Error(w, http.StatusText(status), status)
	}
}

// respond answers a request, or gives the status that says why not.
func (d *doh) respond(w http.ResponseWriter, r *http.Request) int {
	c, ok := r.Context().Value(dohConnKey{}).(*conn)
	if !ok {
		return http.StatusBadRequest
	}
	if r.URL.Path != d.path {
		return http.StatusNotFound
	}
	msg, status := query(w, r)
	if status != http.StatusOK {
		return status
	}
	d.conns.touch(c)
	p := Peer{Addr: c.addr, Transport: DoH}
	worker := d.workers.take()
	var answer []byte
	if a := worker.answer(msg, &p); len(a) > 0 {
		answer = append(answer, a...)
	}
	transfer := worker.Transfer()
	d.workers.give(worker)
	d.count.queries.Add(1)
	if answer == nil || transfer != nil { // no query, or one that takes more than one message (RFC 8484 section 6)
		return http.StatusBadRequest
	}
	d.count.answers.Add(1)
	h := w.Header()
	h.Set("Content-Type", dnsMessage)
	h.Set("Content-Length", strconv.Itoa(len(answer)))
	// Private: where a record is steered, the answer is for this client, and a cache that many share must not give it to others.
	h.Set("Cache-Control", "private, max-age="+strconv.FormatUint(uint64(freshness(answer)), 10))
	_, _ = w.Write(answer) // an error is the client's, who has gone
	return http.StatusOK
}

// query reads the message of a request (RFC 8484 section 4.1).
func query(w http.ResponseWriter, r *http.Request) (msg []byte, status int) {
	switch r.Method {
	case http.MethodGet:
		text := r.URL.Query().Get(dohQueryParam)
		if text == "" {
			return nil, http.StatusBadRequest
		}
		msg, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || len(msg) < dohLeast {
			return nil, http.StatusBadRequest
		}
		if len(msg) > streamMessage {
			return nil, http.StatusRequestEntityTooLarge
		}
		return msg, http.StatusOK
	case http.MethodPost:
		if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); !strings.EqualFold(strings.TrimSpace(kind), dnsMessage) {
			return nil, http.StatusUnsupportedMediaType
		}
		if r.ContentLength > streamMessage {
			return nil, http.StatusRequestEntityTooLarge
		}
		msg, err := io.ReadAll(http.MaxBytesReader(w, r.Body, streamMessage))
		var long *http.MaxBytesError
		switch {
		case errors.As(err, &long):
			return nil, http.StatusRequestEntityTooLarge
		case err != nil || len(msg) < dohLeast:
			return nil, http.StatusBadRequest
		}
		return msg, http.StatusOK
	}
	w.Header().Set("Allow", "GET, POST")
	return nil, http.StatusMethodNotAllowed
}

// freshness is how long HTTP may keep an answer, in seconds (RFC 8484 section 5.1): the least TTL of its answer section; of the authority section when that is empty, as
// in a negative answer, whose SOA record carries the negative TTL; 0 for an error.
func freshness(msg []byte) uint32 {
	if len(msg) < dohLeast {
		return 0
	}
	if rcode := msg[3] & 15; rcode != 0 && rcode != 3 || msg[2]&2 != 0 {
		return 0
	}
	questions, answers, authorities := binary.BigEndian.Uint16(msg[4:]), binary.BigEndian.Uint16(msg[6:]), binary.BigEndian.Uint16(msg[8:])
	off := dohLeast
	for range questions {
		if off = skipOwner(msg, off) + 4; off > len(msg) {
			return 0
		}
	}
	n := answers
	if n == 0 {
		n = authorities
	}
	if n == 0 {
		return 0
	}
	least := ^uint32(0)
	for range n {
		off = skipOwner(msg, off)
		if off+10 > len(msg) {
			return 0
		}
		least = min(least, binary.BigEndian.Uint32(msg[off+4:]))
		off += 10 + int(binary.BigEndian.Uint16(msg[off+8:]))
	}
	if least > 1<<31-1 { // RFC 2181 section 8
		return 0
	}
	return least
}

// skipOwner gives the offset after the name at off, more than len(msg) when there is none.
func skipOwner(msg []byte, off int) int {
	for off < len(msg) {
		switch n := int(msg[off]); {
		case n == 0:
			return off + 1
		case n >= 0xc0:
			return off + 2
		default:
			off += 1 + n
		}
	}
	return len(msg) + 1
}

// dohLog takes what net/http logs. What a client can bring about is counted, the rest is of interest when somebody looks for it.
type dohLog struct {
	slog.Handler
	count *streamCounters
}

// Enabled is always true: handshake errors are counted whatever is logged.
func (l *dohLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l *dohLog) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "TLS handshake error") {
		l.count.handshakeErrors.Add(1)
		return nil
	}
	if !l.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	r.AddAttrs(slog.String("message", strings.TrimSpace(r.Message)))
	r.Message = "https server"
	return l.Handler.Handle(ctx, r)
}

// shutdown lets requests at work end, which takes them no time, then the connections, some of which have not begun to speak HTTP.
func (d *doh) shutdown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, dohGrace)
	defer cancel()
	if d.http.Shutdown(ctx) != nil {
		_ = d.http.Close()
	}
}

// inlet gives net/http the connections that an acceptor has let in: counted, and with the PROXY header read.
type inlet struct {
	addr  net.Addr
	ready chan net.Conn
	done  chan struct{}
	close sync.Once
}

func newInlet(addr net.Addr) *inlet {
	return &inlet{addr: addr, ready: make(chan net.Conn), done: make(chan struct{})}
}

func (i *inlet) Accept() (net.Conn, error) {
	select {
	case c := <-i.ready:
		return c, nil
	case <-i.done:
		return nil, net.ErrClosed
	}
}

func (i *inlet) Close() error {
	i.close.Do(func() { close(i.done) })
	return nil
}

func (i *inlet) Addr() net.Addr { return i.addr }

// put hands a connection over.
func (i *inlet) put(c net.Conn) error {
	select {
	case i.ready <- c:
		return nil
	case <-i.done:
		return net.ErrClosed
	}
}

// inletConn is a connection of net/http.
type inletConn struct {
	net.Conn
	c     *conn
	ended func() // called once, at the first Close
	once  sync.Once
}

func (c *inletConn) Close() error {
	c.once.Do(c.ended)
	return c.Conn.Close()
}
