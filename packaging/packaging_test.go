// Package packaging holds what ships the binary, and has no code but tests of it.
package packaging

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/edgesteer/edgesteer/cmd/edgesteer/cli"
)

// built is the binary that tests share.
type built struct {
	once sync.Once
	dir  string
	err  error
}

func (b *built) build() {
	if b.dir, b.err = os.MkdirTemp("", "edgesteer-packaging-"); b.err != nil {
		return
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w -buildid=", "-o", filepath.Join(b.dir, "edgesteer"), "../cmd/edgesteer")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.err = fmt.Errorf("go build: %w\n%s", err, out)
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.dir != "" {
		os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

var shared built

// binary is the path of a static binary, as releases have it.
func binary(t *testing.T) string {
	t.Helper()
	shared.once.Do(shared.build)
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return filepath.Join(shared.dir, "edgesteer")
}

// tool is the path of a program; without it the test is skipped, but never in CI.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil { // Go's own programs need not be in the path
		out, _ := exec.Command("go", "env", "GOPATH").Output()
		path = filepath.Join(strings.TrimSpace(string(out)), "bin", name)
		_, err = os.Stat(path)
	}
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is missing", name)
	default:
		t.Skipf("%s is missing", name)
	}
	return path
}

// command runs a program in a folder and gives what it wrote.
func command(t *testing.T, dir string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// copyTo copies a file or a folder.
func copyTo(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, []byte(read(t, from)), info.Mode().Perm())); err != nil {
		t.Fatal(err)
	}
}

// parses reports a command line that edgesteer does not take; the first argument is the program.
func parses(t *testing.T, where string, args []string) {
	t.Helper()
	if len(args) < 2 || filepath.Base(args[0]) != "edgesteer" {
		t.Errorf("%s: %q runs no command of edgesteer", where, args)
		return
	}
	c, rest, err := cli.Command().Find(args[1:])
	if err != nil || !c.HasParent() {
		t.Errorf("%s: %q is no command: %v", where, args, err)
		return
	}
	if err := c.ParseFlags(rest); err != nil {
		t.Errorf("%s: %q: %v", where, args, err)
		return
	}
	if err := c.ValidateArgs(c.Flags().Args()); err != nil {
		t.Errorf("%s: %q: %v", where, args, err)
	}
}

// TestExample: the configuration that is installed is one that check has nothing against.
func TestExample(t *testing.T) {
	var out, errs strings.Builder
	if code := cli.Main([]string{"check", "--config", "example/edgesteer.toml"}, strings.NewReader(""), &out, &errs); code != 0 || out.Len() > 0 {
		t.Errorf("exit code %d\n%s%s", code, &out, &errs)
	}
}

// TestScripts: the shells of the scripts take them.
func TestScripts(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text := read(t, path)
		first, _, _ := strings.Cut(text, "\n")
		shell, ok := strings.CutPrefix(first, "#!")
		if !ok {
			return nil
		}
		command(t, ".", shell, "-n", path)
		if info, err := d.Info(); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s cannot be run: %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestVersion: versions sort as their sources came, and those of tags are the tags.
func TestVersion(t *testing.T) {
	dpkg := tool(t, "dpkg")
	dir := t.TempDir()
	copyTo(t, "version.sh", filepath.Join(dir, "packaging/version.sh"))
	git := func(args ...string) {
		t.Helper()
		command(t, dir, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)...)
	}
	t.Setenv("GIT_COMMITTER_DATE", "2026-11-30T12:00:00Z")
	git("init", "-q")
	var versions []string
	for _, tag := range []string{"", "v1.2.0-rc.1", "v1.2.0", "", "v1.10.0"} {
		git("commit", "-q", "--allow-empty", "-m", "x")
		if tag != "" {
			git("tag", tag)
		}
		versions = append(versions, strings.TrimSpace(command(t, dir, "packaging/version.sh")))
	}
	for i, prefix := range []string{"0.0.0~20261130.g", "1.2.0~rc.1", "1.2.0", "1.2.0+1.g", "1.10.0"} {
		if !strings.HasPrefix(versions[i], prefix) {
			t.Errorf("version %q, want %s...", versions[i], prefix)
		}
	}
	for i := range versions[1:] {
		command(t, dir, dpkg, "--compare-versions", versions[i], "lt", versions[i+1])
	}
}

// TestReproducible: two builds of a commit in folders of different names are the same to the octet.
func TestReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("builds twice")
	}
	if _, err := os.Stat("../.git"); err != nil {
		t.Skip("no repository: ", err)
	}
	if runtime.GOOS != "linux" {
		t.Skip("releases are built on Linux")
	}
	t.Setenv("SHARED_CACHE", "1")
	if out := command(t, ".", "./reproducible.sh"); !strings.HasSuffix(out, "the same\n") {
		t.Error(out)
	}
}
