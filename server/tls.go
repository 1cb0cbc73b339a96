package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// certificate is the key pair of TLS listeners, from two PEM files, and can be replaced while they serve.
type certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate] // its single writer is load
}

// load reads the files. When they cannot be used the pair before stays. An expired certificate is refused, unless there is none before: a server must be able to start
// with it, since plain DNS needs none.
func (c *certificate) load(now time.Time) error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		if _, ok := errors.AsType[*os.PathError](err); ok {
			return fmt.Errorf("certificate: %w", err)
		}
		return fmt.Errorf("certificate %s with key %s: %w", c.certFile, c.keyFile, err)
	}
	if c.current.Load() != nil && now.After(pair.Leaf.NotAfter) {
		return fmt.Errorf("certificate %s: expired on %s", c.certFile, pair.Leaf.NotAfter.Format(time.RFC3339))
	}
	c.current.Store(&pair)
	return nil
}

// notAfter is when the certificate expires.
func (c *certificate) notAfter() time.Time { return c.current.Load().Leaf.NotAfter }

// config is for one transport, named by its ALPN identifiers. A client that offers none is served; one that offers only others is not (RFC 7301 section 3.2).
// Sessions can be resumed by ticket; their keys change daily and live in this process.
func (c *certificate) config(alpn ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: alpn,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
		// Answers are written whole and of no use in part.
		DynamicRecordSizingDisabled: true,
	}
}

const (
	tlsHeader      = 5  // octets of a record's header, RFC 8446 section 5.1
	tlsData        = 23 // application_data
	tlsLeastRecord = 2 + 12 + 5 + 17
)

// recordConn hands TLS its records one by one from longer reads, so that the session knows whether another query is at hand before it writes. Without it each query of a
// pipeline would cost a write.
type recordConn struct {
	net.Conn
	buf  []byte
	r, w int
	left int  // octets of the present record not handed out
	any  bool // something was read

	forged func() // called when the client sends a PROXY header
}

var errForged = errors.New("PROXY header from a sender that is not trusted")

func newRecordConn(c net.Conn, forged func()) *recordConn {
	return &recordConn{Conn: c, buf: make([]byte, streamBuffer), forged: forged}
}

// Read gives octets of one record only. It reads as crypto/tls does: the header first, then what it names.
func (c *recordConn) Read(p []byte) (int, error) {
	need := 1
	if c.left == 0 {
		need = tlsHeader
	}
	if c.w-c.r < need {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	}
	for c.w-c.r < need {
		n, err := c.Conn.Read(c.buf[c.w:])
		c.w += n
		if !c.any && signed(c.buf[:c.w]) {
			c.forged()
			return 0, errForged
		}
		c.any = c.any || n > 0
		if err != nil && c.w-c.r < need {
			if c.w > c.r && c.left == 0 { // less than a header: let TLS see it
				break
			}
			return 0, err
		}
	}
	if c.left == 0 {
		if c.w-c.r < tlsHeader {
			n := copy(p, c.buf[c.r:c.w])
			c.r += n
			return n, nil
		}
		c.left = tlsHeader + c.length()
	}
	n := copy(p, c.buf[c.r:min(c.w, c.r+c.left)])
	c.r += n
	c.left -= n
	return n, nil
}

// length is the length that the header at r names.
func (c *recordConn) length() int { return int(c.buf[c.r+3])<<8 | int(c.buf[c.r+4]) }

// ready says that TLS can read a whole record of data without waiting. A record too short for a query does not count: it may be a message of TLS itself, after
// which TLS would wait for the next.
func (c *recordConn) ready() bool {
	if c.left > 0 {
		return false
	}
	if c.w-c.r < tlsHeader || c.buf[c.r] != tlsData {
		return false
	}
	n := c.length()
	return n >= tlsLeastRecord && c.w-c.r >= tlsHeader+n
}
