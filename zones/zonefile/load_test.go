package zonefile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
	"github.com/edgesteer/edgesteer/zones/zonefile"
)

// conformance is a configuration that serves the static zones of testdata/conformance.
func conformance(t testing.TB) *config.Config {
	t.Helper()
	files, err := filepath.Glob("testdata/conformance/*.zone")
	if err != nil || len(files) == 0 {
		t.Fatal("no zones", err)
	}
	var text strings.Builder
	text.WriteString("[server]\nnode = \"a\"\nlisten = [\"127.0.0.1:5300\"]\n")
	for _, f := range files {
		fmt.Fprintf(&text, "[[zone]]\nname = %q\nfile = %q\n", strings.TrimSuffix(filepath.Base(f), ".zone"), f)
	}
	return parse(t, text.String())
}

// parse reads a configuration; relative paths start in this folder.
func parse(t testing.TB, text string) *config.Config {
	t.Helper()
	cfg, problems := config.Parse("edgesteer.toml", []byte(text))
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	return cfg
}

// load is Load of a configuration without problems.
func load(t testing.TB, cfg *config.Config) (*zones.Set, []config.Problem) {
	t.Helper()
	fleet, problems := zonefile.Fleet(cfg)
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	s, problems := zonefile.Load(cfg, fleet, nil)
	if s == nil || config.Failed(problems) {
		t.Fatal(problems)
	}
	return s, problems
}

func TestLoadConformance(t *testing.T) {
	s, problems := load(t, conformance(t))
	for _, p := range problems {
		t.Log(p)
	}
	if s.Len() != 10 {
		t.Errorf("%d zones, want 10", s.Len())
	}
}

func TestLoadExample(t *testing.T) {
	data, err := os.ReadFile("testdata/example/edgesteer.toml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, problems := config.Parse("testdata/example/edgesteer.toml", data)
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	s, problems := load(t, cfg)
	for _, p := range problems {
		t.Log(p)
	}
	if s.Len() != 1 {
		t.Errorf("%d zones, want 1", s.Len())
	}
}

func wireName(t testing.TB, text string) []byte {
	t.Helper()
	n, err := wire.ParseName(text)
	if err != nil {
		t.Fatal(err)
	}
	return wire.ToLower(nil, n)
}
