//go:build linux

package packaging

import (
	"bytes"
	"debug/elf"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestStatic: the binary needs no loader and no library.
func TestStatic(t *testing.T) {
	f, err := elf.Open(binary(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary has a program header %v", p.Type)
		}
	}
}

// TestEmptyRoot: the binary serves in a root file system like that of the image, with nothing else in it and without root's rights, and the image's health check sees it.
func TestEmptyRoot(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("not root")
		}
		t.Skip("chroot needs root")
	}
	const user = 65532
	root, err := os.MkdirTemp("", "r") // a short path, for the socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	copyTo(t, binary(t), root+"/usr/bin/edgesteer")
	for _, file := range []string{"edgesteer.toml", "example.com.zone"} {
		copyTo(t, "example/"+file, filepath.Join(root, "etc/edgesteer", file))
	}
	for _, dir := range []string{"/var/lib/edgesteer", "/run/edgesteer"} {
		if err := os.MkdirAll(root+dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(root+dir, user, user); err != nil {
			t.Fatal(err)
		}
	}
	inside := func(args ...string) *exec.Cmd {
		cmd := exec.Command("/usr/bin/edgesteer", args...)
		cmd.Dir = "/"
		cmd.Env = []string{"PATH=/usr/bin", "EDGESTEER_CONFIG=/etc/edgesteer/edgesteer.toml"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: user}, Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	var log bytes.Buffer
	serve := inside("serve", "--listen", "127.0.0.1:0", "--admin", "unix:/run/edgesteer/admin.sock")
	serve.Stderr = &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve.Wait() }()
	stop := func() error {
		_ = serve.Process.Signal(syscall.SIGTERM) // it may have ended
		return <-ended
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 1200 {
		c, err := net.Dial("unix", root+"/run/edgesteer/admin.sock")
		if err == nil {
			c.Close()
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("serve: %v\n%s", err, &log)
		case <-tick.C:
		}
	}
	probe := healthCheck(t)
	if out, err := inside(probe[1:]...).CombinedOutput(); err != nil || !strings.Contains(string(out), "us-east-1") {
		t.Errorf("health check: %v\n%s", err, out)
	}
	if out, err := inside("zone", "reload", "--server", "unix:/run/edgesteer/admin.sock").CombinedOutput(); err != nil {
		t.Errorf("reload: %v\n%s", err, out)
	}
	if err := stop(); err != nil {
		t.Errorf("serve: %v\n%s", err, &log)
	}
	if err := inside(probe[1:]...).Run(); err == nil {
		t.Error("the health check is content without a server")
	}
}
