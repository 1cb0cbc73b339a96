package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const rulesDir = "../packaging/prometheus"

func text(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// metricNames are the metrics of the reference, which server/app's test holds to the code.
func metricNames(t testing.TB) (names []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?m)^\\| `(edgesteer_[a-z0-9_]+)` \\| (\\w+)").FindAllStringSubmatch(text(t, filepath.Join(rulesDir, "METRICS.md")), -1) {
		names = append(names, m[1])
		if m[2] == "histogram" {
			names = append(names, m[1]+"_bucket", m[1]+"_sum", m[1]+"_count")
		}
	}
	if len(names) == 0 {
		t.Fatal("METRICS.md has no metrics")
	}
	return names
}

// unknownMetrics gives the names in an expression that are neither metrics nor recorded.
func unknownMetrics(expr string, known []string) (out []string) {
	for _, name := range regexp.MustCompile(`[a-z_]*:?edgesteer_[a-z0-9_:]*`).FindAllString(expr, -1) {
		if !slices.Contains(known, name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// recorded are the names of the recording rules.
func recorded(t testing.TB) (names []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^ +- record: (\S+)$`).FindAllStringSubmatch(text(t, filepath.Join(rulesDir, "edgesteer.rules.yml")), -1) {
		names = append(names, m[1])
	}
	return names
}

// The rules are sound, know only metrics that there are, and each alert says what to do, where the runbook has it, and is tested.
func TestAlertsComplete(t *testing.T) {
	known := append(metricNames(t), recorded(t)...)
	runbook, tests := text(t, filepath.Join(rulesDir, "RUNBOOK.md")), text(t, filepath.Join(rulesDir, "edgesteer.tests.yml"))+text(t, filepath.Join(rulesDir, "edgesteer.days.tests.yml"))
	for _, file := range []string{"edgesteer.rules.yml", "edgesteer.alerts.yml"} {
		var exprs strings.Builder // without comments and texts
		for line := range strings.Lines(text(t, filepath.Join(rulesDir, file))) {
			if field := strings.TrimSpace(line); !strings.HasPrefix(field, "#") && !strings.HasPrefix(field, "- ") && !strings.HasPrefix(field, "runbook_url:") && !strings.HasPrefix(field, "description:") {
				exprs.WriteString(strings.ReplaceAll(line, `edgesteer_(tls|admin)_certificate`, `edgesteer_tls_certificate`))
			}
		}
		for _, name := range unknownMetrics(exprs.String(), known) {
			t.Errorf("%s: there is no metric %s", file, name)
		}
	}
	alerts := strings.Split(text(t, filepath.Join(rulesDir, "edgesteer.alerts.yml")), "\n      - alert: ")[1:]
	if len(alerts) < 30 {
		t.Errorf("%d alerts", len(alerts))
	}
	for _, a := range alerts {
		name, body, _ := strings.Cut(a, "\n")
		for _, want := range []string{"summary: \"", "description: \"", "/RUNBOOK.md#" + strings.ToLower(name) + "\n", "labels: {severity: "} {
			if !strings.Contains(body+"\n", want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
		if !strings.Contains(runbook, "\n## "+name+"\n") {
			t.Errorf("%s has no place in the runbook", name)
		}
		if strings.Count(tests, "alertname: "+name+",") != 1 || strings.Count(tests, "alertname: "+name+"\n") != 1 {
			t.Errorf("%s wants a test that it is quiet and one that it fires", name)
		}
	}
	if n := strings.Count(runbook, "\n## "); n != len(alerts) {
		t.Errorf("%d places in the runbook for %d alerts", n, len(alerts))
	}
}

func TestPromtool(t *testing.T) {
	promtool := need(t, "promtool")
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command(promtool, args...)
		cmd.Dir = rulesDir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run("check", "rules", "edgesteer.rules.yml", "edgesteer.alerts.yml")
	run("check", "config", "--syntax-only", "prometheus.yml")
	if testing.Short() {
		return // the rest takes ten seconds of CPU
	}
	run("test", "rules", "edgesteer.tests.yml", "edgesteer.days.tests.yml")
}
