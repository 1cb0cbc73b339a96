package health

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"unicode"
)

// maxText is how many characters of an error are kept.
const maxText = 120

// reasons are the errors of the system that have words of ours.
func reasons() []struct {
	err  error
	text string
} {
	return []struct {
		err  error
		text string
	}{
		{context.DeadlineExceeded, "timeout"},
		{os.ErrDeadlineExceeded, "timeout"},
		{syscall.ETIMEDOUT, "timeout"},
		{syscall.ECONNREFUSED, "connection refused"},
		{syscall.ECONNRESET, "connection reset"},
		{syscall.EPIPE, "connection closed"},
		{io.EOF, "connection closed"},
		{io.ErrUnexpectedEOF, "connection closed"},
		{net.ErrClosed, "connection closed"},
		{syscall.EHOSTUNREACH, "host unreachable"},
		{syscall.ENETUNREACH, "network unreachable"},
	}
}

// short makes an error of a probe evidence: few words, the same for the same fault whatever ports and times were in it.
func short(err error) error {
	if err == nil {
		return nil
	}
	var warning *Warning
	var local *localError
	var timeout net.Error
	var invalid x509.CertificateInvalidError
	var alert tls.AlertError
	switch {
	case errors.As(err, &warning):
		return warning
	case errors.As(err, &local):
		return local
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return &localError{"this node does not have the source address"}
	case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS):
		return &localError{"this node has too many open files"}
	}
	for _, r := range reasons() {
		if errors.Is(err, r.err) {
			return errors.New(r.text)
		}
	}
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("timeout")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return errors.New("certificate has expired or is not valid yet")
	case is[x509.UnknownAuthorityError](err):
		return errors.New("certificate is of an unknown authority")
	case is[x509.HostnameError](err):
		return errors.New("certificate is for another name")
	case is[*tls.CertificateVerificationError](err):
		return errors.New("certificate is not valid")
	case errors.As(err, &alert):
		return errors.New("TLS alert: " + strings.TrimPrefix(alert.Error(), "tls: "))
	}
	return errors.New(cut(err.Error()))
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// cut makes a text one short line.
func cut(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if r := []rune(s); len(r) > maxText {
		s = string(r[:maxText-1]) + "…"
	}
	return s
}

// unrouted says whether an error comes from this machine's routing table: connecting a datagram socket sends nothing, and fails for want of a route only.
func unrouted(err error, a netip.Addr) bool {
	if !errors.Is(err, syscall.ENETUNREACH) && !errors.Is(err, syscall.EAFNOSUPPORT) {
		return false
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 9)))
	if err != nil {
		return true
	}
	_ = conn.Close() // nothing was sent
	return false
}
