package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"
)

// A start that fails is told what helps, and nothing twice.
func TestStartError(t *testing.T) {
	bind := func(network string, a net.Addr, err error) error {
		return &net.OpError{Op: "listen", Net: network, Addr: a, Err: os.NewSyscallError("bind", err)}
	}
	tcp, socket := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, &net.UnixAddr{Name: "/run/edgesteer/admin.sock.new", Net: "unix"}
	const mine = " shows whose it is; the user that runs this must be able to write there"
	for _, test := range []struct {
		err  error
		hint string
	}{
		{fmt.Errorf("%w (hint: ss -lnup 'sport = :53')", bind("udp4", tcp, syscall.EADDRINUSE)), "--listen gives another"},
		{fmt.Errorf("%w (hint: it takes a capability)", bind("udp4", tcp, syscall.EACCES)), "edgesteer serve --listen 127.0.0.1:5300"},
		{fmt.Errorf("admin: %w", bind("tcp", tcp, syscall.EADDRINUSE)), "ss -lntup shows who has it; --listen gives another"},
		{fmt.Errorf("admin: %w", bind("tcp", tcp, syscall.EACCES)), "edgesteer serve --listen 127.0.0.1:5300; ports below 1024 need CAP_NET_BIND_SERVICE"},
		{fmt.Errorf("admin: %w", bind("unix", socket, syscall.EACCES)), "ls -ld /run/edgesteer" + mine},
		{fmt.Errorf("making the state folder: %w", &fs.PathError{Op: "mkdir", Path: "/var/lib/edgesteer", Err: syscall.EACCES}), "ls -ld /var/lib" + mine},
		{errors.New("the state folder is held by another process"), "edgesteer serve --take-over takes over from it"},
		{errors.New("no such file"), ""},
	} {
		got := ""
		if f, ok := errors.AsType[*failure](startError(test.err)); ok {
			got = f.hint
		}
		if got != test.hint {
			t.Errorf("%v: hint %q, want %q", test.err, got, test.hint)
		}
	}
}
