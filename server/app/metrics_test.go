package app

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/server/config"
)

//go:generate go test -run ^TestMetricsReference$ . -update

const metricsReference = "../../packaging/prometheus/METRICS.md"

// update is also set for the other generated files of this package's tests, should there be any.
func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the reference of metrics")
	flag.Parse()
	os.Exit(m.Run())
}

// full is a configuration in which everything is on that has metrics.
const full = `
[server]
node = "full"
listen = ["127.0.0.1:0"]
[server.tls]
listen = ["127.0.0.1:0"]
certificate = "tls.crt"
key = "tls.key"
[server.https]
listen = ["127.0.0.1:0"]
certificate = "tls.crt"
key = "tls.key"
[admin]
listen = ["unix:admin.sock", "127.0.0.1:0"]
[admin.tls]
certificate = "tls.crt"
key = "tls.key"
[dnstap]
socket = "tap.sock"
[cluster]
listen = "CLUSTER"
network = "local"
join_timeout = "0s"

[[feed]]
name = "weather"
[[pop]]
name = "home"
[[pop]]
name = "away"
[[service]]
name = "wss"
check = { kind = "tcp", port = 9 }
load = { metric = "connections", low_watermark = 1, high_watermark = 2, url = "http://127.0.0.1:9/load" }
[service.at.home]
addresses = ["127.0.0.1"]
capacity = 10
[service.at.away]
addresses = ["127.0.0.1"]
capacity = 10
meta = { priority = { feed = "weather" } }
[[zone]]
name = "example.com"
file = "zone"
[[zone]]
name = "secondary.example"
[[zone.primary]]
address = "127.0.0.1:9"
[[zone.record]]
name = "x"
type = "A"
filters = ["up"]
[[zone.record.answer]]
rdata = "192.0.2.1"
meta = { up = true }
`

// startFull starts a server with everything that has metrics; host tells those of this process apart, from 200.
func startFull(t *testing.T, host int) *App {
	t.Helper()
	dir := t.TempDir()
	cluster := fmt.Sprintf("127.%d.%d.%d:7946", 200+os.Getpid()%50, os.Getpid()/50%250, host) // no other test's
	writeCertificate(t, dir)
	for name, text := range map[string]string{
		"edgesteer.toml": strings.ReplaceAll(full, "CLUSTER", cluster),
		"zone":           "@ 300 IN SOA ns hostmaster 1 7200 3600 1209600 60\n@ 300 IN NS ns\nns 300 IN A 192.0.2.53\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, problems := config.Load(filepath.Join(dir, "edgesteer.toml"))
	if config.Failed(problems) {
		t.Fatal(config.Problems(problems))
	}
	a, err := New(cfg, Options{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return a
}

// writeCertificate writes a self-signed certificate and its key.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// described is a metric as its package declares it.
type described struct{ name, help, labels string }

// describe lists what is registered, with or without series. A Desc tells its parts only as a text.
func describe(t *testing.T, registries ...*prometheus.Registry) (out []described) {
	t.Helper()
	form := regexp.MustCompile(`^Desc\{fqName: "(edgesteer_[^"]*)", help: ("(?:[^"\\]|\\.)*"), .*variableLabels: \{([^}]*)\}\}$`)
	ch := make(chan *prometheus.Desc)
	go func() {
		for _, r := range registries {
			r.Describe(ch)
		}
		close(ch)
	}()
	for d := range ch {
		m := form.FindStringSubmatch(d.String())
		if m == nil {
			if strings.Contains(d.String(), `"edgesteer_`) {
				t.Errorf("a description that this test cannot read: %s", d)
			}
			continue
		}
		help, err := strconv.Unquote(m[2])
		if err != nil {
			t.Errorf("%s: %v", d, err)
		}
		out = append(out, described{m[1], help, m[3]})
	}
	slices.SortFunc(out, func(a, b described) int { return cmp.Compare(a.name, b.name) })
	return slices.Compact(out) // a collector may describe itself by what it collects
}

// Names and helps are as Prometheus wants them, every metric has its series from the start or says when it is absent, and the reference is what the code says; -update writes it.
func TestMetricsReference(t *testing.T) {
	a := startFull(t, 200)
	if problems, err := testutil.GatherAndLint(a.control); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	families, err := a.control.Gather()
	if err != nil {
		t.Fatal(err)
	}
	present := map[string]*dto.MetricFamily{}
	for _, f := range families {
		present[f.GetName()] = f
	}
	var b strings.Builder
	b.WriteString(metricsIntro)
	for _, d := range describe(t, a.registry, a.control) {
		f := present[d.name]
		kind := "gauge"
		switch {
		case f != nil:
			kind = strings.ToLower(f.GetType().String())
		case !strings.Contains(d.help, "absent"):
			t.Errorf("%s has no series at the start, and does not say when it is absent", d.name)
		case strings.HasSuffix(d.name, "_total"):
			kind = "counter"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.name, kind, labelText(d.labels, f), d.help)
	}
	if f := flag.Lookup("update"); f.Value.String() == "true" {
		if err := os.WriteFile(metricsReference, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := os.ReadFile(metricsReference)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(b.String(), string(old)); diff != "" {
		t.Errorf("%s is not what the code says; run: go generate ./server/app\n(-code +file):\n%s", metricsReference, diff)
	}
}

const metricsIntro = `# Metrics

What a node shows at ` + "`GET /metrics`" + ` of its admin address, made from the code by ` + "`go generate ./server/app`" + `. Metrics of the Go runtime (` + "`go_*`" + `) and of the process
(` + "`process_*`" + `) come with them.

Every label has its values from this table or from the configuration (in italics), never from a query. All series are there from the start, with the value 0, unless the
description says when one is absent. Ratios are 0 to 1, times are seconds, timestamps Unix time.

| metric | type | labels | says |
|---|---|---|---|
`

// configured are the labels whose values come from the configuration, or from the build.
var configured = []string{"pop", "service", "zone", "feed", "record", "address", "database", "version", "goversion", "route"}

// labelText is the labels of a metric, with the values of closed sets.
func labelText(names string, f *dto.MetricFamily) string {
	if names == "" {
		return ""
	}
	var out []string
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		if slices.Contains(configured, name) {
			out = append(out, "_"+name+"_")
			continue
		}
		var values []string
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == name && !slices.Contains(values, l.GetValue()) {
					values = append(values, l.GetValue())
				}
			}
		}
		if values != nil {
			name += ": " + strings.Join(values, " ")
		}
		out = append(out, name)
	}
	return strings.Join(out, "; ")
}

// Reloads are counted by what came of them, and a failed one stands out until the next good one.
func TestReloadMetrics(t *testing.T) {
	a := startFull(t, 201)
	dir := a.present().cfg.Dir
	good, err := os.ReadFile(filepath.Join(dir, "edgesteer.toml"))
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string, labels ...string) float64 {
		t.Helper()
		families, err := a.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.Metric {
				if f.GetName() == name && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(m.String(), `"`+l+`"`) }) {
					return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
		t.Fatalf("no series %s %v", name, labels)
		return 0
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, tt := range []struct {
		name, file, text, result string
		good, problems           float64
	}{
		{"an unknown key", "edgesteer.toml", string(good) + "\n[nonsense]\n", reloadRefused, 0, 1},
		{"as it was", "edgesteer.toml", string(good), reloadDone, 1, 0},
		{"a broken zone", "zone", "@ 300 IN SOA what\n", reloadPartial, 0, 0},
	} {
		before := value("edgesteer_reloads_total", tt.result)
		write(tt.file, tt.text)
		a.Reload()
		if got := value("edgesteer_reloads_total", tt.result) - before; got != 1 {
			t.Errorf("%s: %v reloads are %s", tt.name, got, tt.result)
		}
		if got := value("edgesteer_reload_last_successful"); got != tt.good {
			t.Errorf("%s: last successful %v", tt.name, got)
		}
		if got := value("edgesteer_config_problems", "error"); got != tt.problems {
			t.Errorf("%s: %v problems", tt.name, got)
		}
		if got := value("edgesteer_reload_seconds"); got != float64(i+1) {
			t.Errorf("%s: %v reloads took time", tt.name, got)
		}
	}
	if got := value("edgesteer_zone_serial", "example.com."); got != 1 {
		t.Errorf("serial %v", got)
	}
}
