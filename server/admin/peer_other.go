//go:build !linux

package admin

import "net"

// peerOf does not know on this system; whoever could open the socket is "local".
func peerOf(*net.UnixConn) peer { return peer{} }
