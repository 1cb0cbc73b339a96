package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/cmd/edgesteer/cli"
)

func make1(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	if err := run(dir, "../../server/config/README.md"); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(dir + "/*")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = string(data)
	}
	return out
}

// TestPages: there is a page for every command, with each of its flags, and one for the configuration; twice the same; and man has nothing to say against them.
func TestPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600")
	got := make1(t)
	if diff := cmp.Diff(got, make1(t)); diff != "" {
		t.Errorf("pages differ from one run to the next:\n%s", diff)
	}
	want := []string{"edgesteer.toml.5"}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		file := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		want = append(want, file)
		for flag := range strings.SplitSeq(c.LocalFlags().FlagUsages(), "\n") {
			if _, name, ok := strings.Cut(flag, "--"); ok && !strings.HasPrefix(name, "help") {
				name, _, _ = strings.Cut(name, " ")
				name, _, _ = strings.Cut(name, "[")
				if !strings.Contains(strings.ReplaceAll(got[file], `\-`, "-"), "--"+name) {
					t.Errorf("%s says nothing of --%s", file, name)
				}
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(cli.Command())
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	for _, key := range []string{"key_file", "low_watermark", "use_client_subnet", "0.0.0.0:53, [::]:53"} {
		if !strings.Contains(strings.ReplaceAll(got["edgesteer.toml.5"], `\`, ""), key) {
			t.Errorf("edgesteer.toml(5) says nothing of %s", key)
		}
	}
	man, err := exec.LookPath("man")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal("man-db is missing: ", err)
	} else if err != nil {
		t.Skip("man-db is missing: the pages are not formatted")
	}
	dir := t.TempDir()
	args := []string{"--warnings", "--troff-device=utf8", "--ditroff", "--local-file"}
	for name, text := range got {
		args = append(args, filepath.Join(dir, name))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(man, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANROFFSEQ=t")
	var warnings strings.Builder
	cmd.Stderr = &warnings
	if err := cmd.Run(); err != nil || warnings.Len() > 0 {
		t.Errorf("man: %v\n%s", err, &warnings)
	}
}
