package app

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server/config"
)

// TestOwnLoads: the loads that answers bind to feeds reach the view, each once, so that they fall slowly.
func TestOwnLoads(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"example.com.zone": "$ORIGIN example.com.\n@ 60 SOA ns1 hostmaster 1 7200 900 1209600 60\n@ 60 NS ns1\nns1 60 A 192.0.2.53\n",
		"edgesteer.toml": `
[server]
node = "dns-a"
[[zone]]
name = "example.com"
file = "example.com.zone"
[[zone.record]]
name = "a"
type = "A"
filters = ["shed_load"]
answer = [
  { rdata = "192.0.2.1", meta = { loadavg = { feed = "lb" }, low_watermark = 1, high_watermark = 2 } },
  { rdata = "192.0.2.2", meta = { loadavg = { feed = "lb" }, low_watermark = 1, high_watermark = 2 } },
  { rdata = "192.0.2.3", meta = { loadavg = 1, low_watermark = 1, high_watermark = 2 } },
]
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, problems := config.Load(filepath.Join(dir, "edgesteer.toml"))
	if config.Failed(problems) {
		t.Fatal(config.Problems(problems))
	}
	p, problems := load(cfg, nil, nil)
	if p == nil {
		t.Fatal(config.Problems(problems))
	}
	a := &App{parts: p}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	in := a.input(p, now)
	if len(in.Own) != 1 {
		t.Fatalf("%v, want one load", in.Own)
	}
	in.Feeds = []float64{2}
	full := pops.NewView(p.fleet, in)
	in = a.input(p, now.Add(time.Minute))
	in.Feeds, in.Previous = []float64{0}, full
	if got := pops.NewView(p.fleet, in).OwnShed(&in.Own[0]); got < 0.899 || got > 0.901 {
		t.Errorf("after a minute %v, want 0.9", got)
	}
}
