//go:build unix

package cli

import "syscall"

// handOver is the signal that starts a process to take over from this one.
const handOver = syscall.SIGUSR2
