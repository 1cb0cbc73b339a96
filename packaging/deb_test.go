package packaging

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestDeb: the package is built, twice the same; dpkg reads it; what is unpacked is what is meant, with owners and modes, and runs.
func TestDeb(t *testing.T) {
	if testing.Short() {
		t.Skip("packs twice")
	}
	nfpm, dpkg := tool(t, "nfpm"), tool(t, "dpkg-deb")
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600")
	t.Setenv("TZ", "UTC")
	t.Setenv("ARCH", runtime.GOARCH)
	t.Setenv("VERSION", "1.2.3~rc.1")
	tree := t.TempDir() // what `make deb` finds
	copyTo(t, binary(t), filepath.Join(tree, "dist", runtime.GOARCH, "edgesteer"))
	for _, dir := range []string{"systemd", "example", "deb", "guide", "prometheus", "grafana"} {
		copyTo(t, dir, filepath.Join(tree, "packaging", dir))
	}
	copyTo(t, "../NOTICE", filepath.Join(tree, "NOTICE"))
	copyTo(t, "../CHANGELOG.md", filepath.Join(tree, "dist/CHANGELOG.md"))
	command(t, "..", "go", "run", "./packaging/man", "-out", filepath.Join(tree, "dist/man"))
	pages, err := filepath.Glob(filepath.Join(tree, "dist/man/*"))
	if err != nil {
		t.Fatal(err)
	}
	command(t, ".", "gzip", append([]string{"-9n", filepath.Join(tree, "dist/CHANGELOG.md")}, pages...)...)
	if err := os.Mkdir(filepath.Join(tree, "dist/completion"), 0o755); err != nil {
		t.Fatal(err)
	}
	for shell, file := range map[string]string{"bash": "edgesteer.bash", "fish": "edgesteer.fish", "zsh": "_edgesteer"} {
		out := command(t, ".", binary(t), "completion", shell)
		if err := os.WriteFile(filepath.Join(tree, "dist/completion", file), []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var first []byte
	deb := filepath.Join(tree, "edgesteer.deb")
	for range 2 {
		command(t, tree, nfpm, "package", "-f", "packaging/deb/nfpm.yaml", "-p", "deb", "-t", deb)
		data, err := os.ReadFile(deb)
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !bytes.Equal(first, data) {
			t.Error("two packages of the same files differ")
		}
		first = data
	}

	info := command(t, ".", dpkg, "-I", deb)
	for _, want := range []string{" Package: edgesteer\n", " Version: 1.2.3~rc.1\n", " Architecture: " + runtime.GOARCH + "\n", "conffiles", "postinst", "prerm", "postrm"} {
		if !strings.Contains(info, want) {
			t.Errorf("no %q in\n%s", want, info)
		}
	}
	if conffiles := command(t, ".", dpkg, "-I", deb, "conffiles"); strings.TrimSpace(conffiles) != "/etc/edgesteer/edgesteer.toml\n/etc/edgesteer/example.com.zone" {
		t.Errorf("conffiles %q", conffiles)
	}
	contents := command(t, ".", dpkg, "-c", deb)
	for _, want := range []string{
		`-rwxr-xr-x root/root .* \./usr/bin/edgesteer`, `-rw-r--r-- root/root .* \./usr/lib/systemd/system/edgesteer\.service`, `-rw-r--r-- root/root .* \./usr/lib/sysusers\.d/edgesteer\.conf`,
		`drwxr-x--- root/root .* \./etc/edgesteer/`, `-rw-r----- root/root .* \./etc/edgesteer/edgesteer\.toml`, `-rw-r--r-- root/root .* \./usr/share/man/man1/edgesteer-drain\.1\.gz`,
		`-rw-r--r-- root/root .* \./usr/share/man/man5/edgesteer\.toml\.5\.gz`, `\./usr/share/bash-completion/completions/edgesteer`, `\./usr/share/doc/edgesteer/copyright`,
		`\./usr/share/doc/edgesteer/changelog\.gz`, `\./usr/share/doc/edgesteer/guide/README\.md`, `\./usr/share/doc/edgesteer/prometheus/edgesteer\.rules\.yml`, `\./usr/share/doc/edgesteer/prometheus/RUNBOOK\.md`,
	} {
		if !regexp.MustCompile(`(?m)^.*` + want + `$`).MatchString(contents) {
			t.Errorf("no %s in\n%s", want, contents)
		}
	}
	for line := range strings.Lines(contents) {
		if !strings.Contains(line, " 2026-01-01 ") {
			t.Errorf("not of the commit's time: %s", line)
		}
	}

	root := t.TempDir()
	command(t, ".", dpkg, "-x", deb, root)
	if out := command(t, ".", root+"/usr/bin/edgesteer", "version"); !strings.HasPrefix(out, "edgesteer ") {
		t.Error(out)
	}
	if out, err := exec.Command(root+"/usr/bin/edgesteer", "check", "--config", root+"/etc/edgesteer/edgesteer.toml").CombinedOutput(); err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
	t.Run("install", func(t *testing.T) { install(t, deb) })
}

// install has dpkg install, upgrade, remove and purge the package, for good, in a copy of this system.
func install(t *testing.T, deb string) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("not root")
		}
		t.Skip("installing needs root")
	}
	out, err := exec.Command(tool(t, "unshare"), "--mount", "--pid", "--fork", "--kill-child", "testdata/install.sh", deb).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 77 && os.Getenv("CI") != "true" {
		t.Skipf("no overlay of this system:\n%s", out)
	}
	if err != nil || !strings.HasSuffix(string(out), "installed, used, removed\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
