//go:build !linux

package server

import (
	"net/netip"
	"os"
	"syscall"
)

// openUDP opens the socket of one address. Sockets are inherited on Linux only.
func openUDP(addr netip.AddrPort, c *ListenConfig, _ []*os.File) ([]udpLoop, error) {
	return openPacket(addr, c)
}

// reusePort does nothing: what sharing a port means differs from system to system, so that handing over to a new process is for Linux.
func reusePort(_, _ string, _ syscall.RawConn) error { return nil }
