package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestReport: medians and ranges of valid runs, pairs with gdnsd round by round, TCP.
func TestReport(t *testing.T) {
	var lines strings.Builder
	row := func(row string, round int, cpu, before, after float64) {
		fmt.Fprintf(&lines, `{"row": %q, "group": "geo", "round": %d, "max": {"qps": 400000, "cpu_us": %g, "user_us": 0.3, "rss_kb": 2048, "lost": 1}, "half": {"p50": 20, "p99": 150, "lost": 2},`+
			` "at20k": {"p50": 18, "p99": 90, "cpu_us": 8}, "cal": %g, "cal01": [%g, %g]}`+"\n", row, round, cpu, (before+after)/2, before, after)
	}
	row("ours-geo", 0, 2.1, 2, 2)
	row("gdnsd-geo", 0, 2.4, 2, 2)
	row("ours-geo", 1, 2.5, 2, 2)
	row("gdnsd-geo", 1, 2.2, 2, 2)
	row("ours-geo", 2, 2.3, 2, 2)
	row("gdnsd-geo", 2, 9, 2, 3) // the machine changed its speed
	lines.WriteString(`{"row": "knot-geo", "group": "tcp", "round": 0, "qps": 58000, "cpu_us": 14.6, "lost": 0}` + "\n")
	runs, err := read(strings.NewReader(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	got := report(runs, "Version x.")
	for _, want := range []string{
		"# Side by side", "Version x.\n", "1 of 6 runs are left out",
		"| ours-geo | 3 | **1.15** (1.05–1.25) | 2.30, 0.30 | 400k (400k) | 20 / 150 | 18 / 90, 8.0 | 2 | 9, 0 |\n",
		"| gdnsd-geo | 2 | **1.15** (1.10–1.20) |",
		"round by round: median 1.01, below in 1 of 2 valid pairs.",
		"| knot-geo | 1 | 58k (58k–58k) | 14.6 | 0 |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("not in the report: %s\n%s", want, got)
		}
	}
	if _, err := read(strings.NewReader("{}\nx\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a line that is no JSON: %v", err)
	}
}
