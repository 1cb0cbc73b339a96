//go:build unix

package health

import (
	"os/exec"
	"syscall"
)

// group puts a program in a process group of its own, which is killed as a whole.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
