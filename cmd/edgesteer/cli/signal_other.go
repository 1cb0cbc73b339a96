//go:build !unix

package cli

import "syscall"

// handOver is a signal that never comes: processes hand over on Linux only.
const handOver = syscall.Signal(-1)
