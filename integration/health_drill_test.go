package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

// drillStatements are the drills that a node knows, those that have ended too.
func drillStatements(n *node) (out []api.Statement) {
	n.t.Helper()
	list, err := n.api.Statements(background(), true)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, s := range list.Statements {
		if s.Class == api.ClassDrill {
			out = append(out, s)
		}
	}
	return out
}

// noted waits until the history of a node has a report that holds a text.
func (n *node) noted(text string) {
	n.t.Helper()
	var last []api.HistoryEntry
	defer func() {
		if n.t.Failed() {
			n.t.Logf("%+v", last)
		}
	}()
	eventually(n.t, "the history has "+text, func() bool {
		h, err := n.api.History(background(), api.HistoryQuery{Limit: 100})
		if err != nil {
			n.t.Fatal(err)
		}
		last = h.Entries
		return slices.ContainsFunc(h.Entries, func(e api.HistoryEntry) bool { return e.Action == api.ActionNoted && strings.Contains(e.Message, text) })
	})
}

// A drill whose window opens runs once in a fleet, and ends when its condition, asked of a real Prometheus, holds; another is run by hand, and gives way to a person.
func TestDrill(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	if now.Hour() == 23 && now.Minute() >= 30 {
		t.Skip("a window cannot go past midnight")
	}
	e := startExporter(t)
	prometheus := startPrometheus(t, e)
	nodes := prepareCluster(t, 2, nil)
	for _, n := range nodes {
		n.edit("[[pop]]\n", fmt.Sprintf(`[automation]
enabled = false
[prometheus]
url = "http://%s"
[[drill]]
target = "home/wss"
window = "%s-%s UTC"
abort = "pop_broken == 1"
[[drill]]
target = "south"
window = "Mon 03:00-03:20 UTC"
blocked = ["2020-01-01..2099-12-31"]
over = "1m"
[[pop]]
`, prometheus, now.Format("15:04"), now.Add(20*time.Minute).Format("15:04")))
	}
	startCluster(t, nodes)
	everywhere(t, nodes, false)
	eventually(t, "both agree", func() bool { return agree(nodes) })
	list := drillStatements(nodes[0])
	if len(list) != 1 || len(drillStatements(nodes[1])) != 1 || list[0].Target != "home/wss" || list[0].By != 100 {
		t.Fatalf("%+v", list)
	}
	out, errs, code := nodes[1].run("drill", "list")
	lines := strings.Split(out, "\n")
	if code != 0 || len(lines) != 3 || !strings.HasPrefix(lines[0], "home/wss\t100 %\t0s\t") || !strings.Contains(lines[0], "\truns until ") || !strings.HasPrefix(lines[1], "south\t100 %\t1m0s\tMon 03:00-03:20 UTC\tnever\t") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}

	e.broken[1].Store(true)
	everywhere(t, nodes, true)
	for _, n := range nodes {
		n.noted("drill report: home/wss by 100 % for ")
		n.noted(`ended early: its abort condition holds: pop_broken{instance=`)
	}
	if out, errs, code = nodes[0].run("drill", "list"); code != 0 || !strings.Contains(out, "drill report: home/wss") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if list = drillStatements(nodes[1]); len(list) != 1 || list[0].Lifted == nil {
		t.Errorf("it has begun again: %+v", list)
	}

	if out, errs, code = nodes[0].run("drill", "run", "asia", "--reason", "test", "--yes"); code != 1 || !strings.Contains(errs, "no drill of asia is configured, there are home/wss, south") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if out, errs, code = nodes[0].run("drill", "run", "south", "--for", "2m", "--reason", "test", "--dry-run"); code == 0 || !strings.Contains(errs, "at least 3m") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if out, errs, code = nodes[0].run("drill", "run", "south", "--for", "5m", "--reason", "before the season", "--yes"); code != 0 || !strings.Contains(out, "south") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	eventually(t, "both know the drill", func() bool { return agree(nodes) })
	nodes[1].drain("south/wss", 5)
	for _, n := range nodes {
		n.noted("drill report: south by 100 % for ")
	}
	list = drillStatements(nodes[1])
	if i := slices.IndexFunc(list, func(s api.Statement) bool { return s.Target == "south" }); i < 0 || list[i].Lifted == nil || !strings.Contains(list[i].Lifted.Reason, "touches its target") || list[i].Reason != "before the season" {
		t.Errorf("%+v", list)
	}
}
