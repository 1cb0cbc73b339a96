package admin

import (
	"net"
	"syscall"
)

// peerOf asks the system who is at the other end of a unix socket (SO_PEERCRED).
func peerOf(c *net.UnixConn) peer {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}
	}
	var cred *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil || failed != nil {
		return peer{}
	}
	return peer{uid: cred.Uid, known: true}
}
