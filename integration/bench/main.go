// The bench command makes integration/bench/RESULTS.md of what the shared harness measured: medians and spread of interleaved rounds, each paired with a C echo of the same packets just
// before and just after. run.sh measures and calls it; `make bench` calls run.sh.
//
// What it is not: a judge. A row that fell short stands there like any other.
package main

import (
	"bufio"
	"cmp"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	out := flag.String("o", "", "file to write, instead of standard output")
	commit := flag.String("commit", "unknown", "version that was measured")
	flag.Parse()
	if err := run(*out, *commit, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(out, commit string, files []string) error {
	var runs []result
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		more, err := read(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		runs = append(runs, more...)
	}
	if len(runs) == 0 {
		return fmt.Errorf("no results in %s", strings.Join(files, ", "))
	}
	text := report(runs, fmt.Sprintf("Version %s, %s, %s, %d processors, %s.", commit, runtime.Version(), processor(), runtime.NumCPU(), time.Now().UTC().Format(time.DateOnly)))
	if out == "" {
		_, err := io.WriteString(os.Stdout, text)
		return err
	}
	return os.WriteFile(out, []byte(text), 0o644)
}

// result is one line of the harness: one row in one round.
type result struct {
	Row   string    `json:"row"`
	Group string    `json:"group"`
	Round int       `json:"round"`
	Max   load      `json:"max"`
	Half  load      `json:"half"`
	At20k *load     `json:"at20k"`
	Cal   float64   `json:"cal"` // CPU µs per packet of the C echo around it
	Pair  []float64 `json:"cal01"`

	QPS  float64 `json:"qps"` // of TCP
	CPU  float64 `json:"cpu_us"`
	Lost float64 `json:"lost"`
}

// load is one run of the load generator.
type load struct {
	QPS  float64 `json:"qps"`
	CPU  float64 `json:"cpu_us"`
	User float64 `json:"user_us"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	RSS  float64 `json:"rss_kb"`
	Lost float64 `json:"lost"`
	Bad  float64 `json:"bad"`
}

func read(r io.Reader) (runs []result, err error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		var one result
		if err := json.Unmarshal(s.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		runs = append(runs, one)
	}
	return runs, s.Err()
}

// valid reports whether the machine had the same speed before and after: the two echoes differ by less than a fifth.
func (r *result) valid() bool {
	return len(r.Pair) < 2 || r.Pair[0]/r.Pair[1] < 1.2 && r.Pair[1]/r.Pair[0] < 1.2
}

// times is the CPU per query in multiples of the echo's.
func (r *result) times() float64 { return r.Max.CPU / r.Cal }

//go:embed head.md
var head string

func report(runs []result, what string) string {
	var b strings.Builder
	b.WriteString(head)
	fmt.Fprintf(&b, "\n%s\n", what)
	var cal []float64
	rows := map[string][]result{}
	invalid := 0
	for _, r := range runs {
		if r.Group == "tcp" {
			rows["tcp "+r.Row] = append(rows["tcp "+r.Row], r)
			continue
		}
		cal = append(cal, r.Pair...)
		if !r.valid() {
			invalid++
			continue
		}
		rows[r.Group+" "+r.Row] = append(rows[r.Group+" "+r.Row], r)
	}
	if len(cal) > 0 {
		fmt.Fprintf(&b, "The C echo took %.2f µs of CPU per packet in the median, %.2f to %.2f. %d of %d runs are left out, because the machine changed its speed meanwhile.\n",
			median(cal), slices.Min(cal), slices.Max(cal), invalid, len(cal)/2)
	}
	for _, g := range []struct{ group, title string }{
		{"geo", "Steered by client subnet, one core"}, {"static", "Static answer, no EDNS, one core"}, {"limit", "Echo of the same packets"},
	} {
		table(&b, g.group, g.title, rows)
	}
	pairs(&b, rows)
	tcp(&b, rows)
	return b.String()
}

func table(b *strings.Builder, group, title string, rows map[string][]result) {
	var names []string
	for key := range rows {
		if g, name, _ := strings.Cut(key, " "); g == group {
			names = append(names, name)
		}
	}
	if names == nil {
		return
	}
	of := func(name string, f func(*result) float64) []float64 {
		var out []float64
		for i := range rows[group+" "+name] {
			out = append(out, f(&rows[group+" "+name][i]))
		}
		return out
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(median(of(x, (*result).times)), median(of(y, (*result).times))), strings.Compare(x, y))
	})
	fmt.Fprintf(b, "\n## %s\n\n", title)
	b.WriteString("| row | runs | CPU per query, times the C echo: median (range) | CPU µs/query, of it user | answers/s, median (best) | p50 / p99 µs at half load | at 20,000 q/s: p50 / p99 µs, CPU µs/query, times the echo's | RSS MiB | lost, bad |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
	echo := median(of2(rows["limit echo-c-batch"]))
	for _, name := range names {
		x := of(name, (*result).times)
		qps := of(name, func(r *result) float64 { return r.Max.QPS })
		slow := "-"
		if rows[group+" "+name][0].At20k != nil {
			at := func(f func(*load) float64) float64 {
				return median(of(name, func(r *result) float64 { return f(r.At20k) }))
			}
			cpu := at(func(l *load) float64 { return l.CPU })
			slow = fmt.Sprintf("%.0f / %.0f, %.1f", at(func(l *load) float64 { return l.P50 }), at(func(l *load) float64 { return l.P99 }), cpu)
			if echo > 0 {
				slow += fmt.Sprintf(", %.2f", cpu/echo)
			}
		}
		fmt.Fprintf(b, "| %s | %d | **%.2f** (%.2f–%.2f) | %.2f, %.2f | %s (%s) | %.0f / %.0f | %s | %.0f | %.0f, %.0f |\n", name, len(x), median(x), slices.Min(x), slices.Max(x),
			median(of(name, func(r *result) float64 { return r.Max.CPU })), median(of(name, func(r *result) float64 { return r.Max.User })),
			thousands(median(qps)), thousands(slices.Max(qps)),
			median(of(name, func(r *result) float64 { return r.Half.P50 })), median(of(name, func(r *result) float64 { return r.Half.P99 })), slow,
			median(of(name, func(r *result) float64 { return r.Max.RSS }))/1024,
			sum(of(name, func(r *result) float64 { return r.Max.Lost + r.Half.Lost })), sum(of(name, func(r *result) float64 { return r.Max.Bad + r.Half.Bad })))
	}
}

// of2 is the CPU per query at 20,000 q/s of each run.
func of2(runs []result) (out []float64) {
	for _, r := range runs {
		if r.At20k != nil {
			out = append(out, r.At20k.CPU)
		}
	}
	return out
}

// pairs says, round by round, how ours stands to gdnsd's.
func pairs(b *strings.Builder, rows map[string][]result) {
	for _, group := range []string{"geo", "static"} {
		theirs := map[int]float64{}
		for _, r := range rows[group+" gdnsd-"+group] {
			theirs[r.Round] = r.times()
		}
		var ratios []float64
		below := 0
		for _, r := range rows[group+" ours-"+group] {
			if other, ok := theirs[r.Round]; ok {
				ratios = append(ratios, r.times()/other)
				if r.times() < other {
					below++
				}
			}
		}
		if ratios != nil {
			fmt.Fprintf(b, "\nOurs to gdnsd's on the %s row, round by round: median %.2f, below in %d of %d valid pairs.\n", group, median(ratios), below, len(ratios))
		}
	}
}

func tcp(b *strings.Builder, rows map[string][]result) {
	var names []string
	for key := range rows {
		if name, ok := strings.CutPrefix(key, "tcp "); ok {
			names = append(names, name)
		}
	}
	if names == nil {
		return
	}
	slices.Sort(names)
	b.WriteString("\n## TCP, 20 connections, 400 outstanding\n\n| row | runs | queries/s: median (range) | CPU µs/query | lost |\n|---|---|---|---|---|\n")
	for _, name := range names {
		var qps, cpu, lost []float64
		for _, r := range rows["tcp "+name] {
			qps, cpu, lost = append(qps, r.QPS), append(cpu, r.CPU), append(lost, r.Lost)
		}
		fmt.Fprintf(b, "| %s | %d | %s (%s–%s) | %.1f | %.0f |\n", name, len(qps), thousands(median(qps)), thousands(slices.Min(qps)), thousands(slices.Max(qps)), median(cpu), sum(lost))
	}
}

func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// thousands is a number in thousands.
func thousands(x float64) string { return fmt.Sprintf("%.0fk", x/1000) }

// processor is the name of this machine's processor.
func processor() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
