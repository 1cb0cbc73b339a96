package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/edgesteer/edgesteer/server/api"
)

// exporter is what Prometheus scrapes: one gauge a PoP that says whether it is broken, and one of connections.
type exporter struct {
	addr   string
	broken [2]atomic.Bool // home, east
	load   atomic.Int64   // of home
}

func startExporter(t testing.TB) *exporter {
	t.Helper()
	e := &exporter{}
	l, err := net.Listen("tcp", netip.AddrPortFrom(loopback(), 9100).String())
	if err != nil {
		t.Fatal(err)
	}
	e.addr = l.Addr().String()
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		for i, pop := range []string{"home", "east"} {
			broken := 0
			if e.broken[i].Load() {
				broken = 1
			}
			fmt.Fprintf(w, "pop_broken{pop=%q} %d\n", pop, broken)
		}
		for i := range 4 {
			fmt.Fprintf(w, "envoy_connections{pop=\"home\",worker=\"%d\"} %d\n", i, e.load.Load()/4)
		}
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return e
}

// file writes a file into a new folder and gives its path.
func file(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startPrometheus runs Prometheus, which scrapes an exporter once a second and tells Alertmanagers of PoPs that are broken. It gives its address.
func startPrometheus(t testing.TB, e *exporter, alertmanagers ...string) string {
	t.Helper()
	path, addr := need(t, "prometheus"), netip.AddrPortFrom(loopback(), 9090).String()
	rules := file(t, "rules.yml", `groups:
- name: pops
  rules:
  - alert: PoPBroken
    expr: pop_broken == 1
    labels: {severity: page}
    annotations: {summary: "{{ $labels.pop }} does not take traffic"}
`)
	conf := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n- job_name: pops\n  static_configs: [{targets: [%q]}]\n", rules, e.addr)
	if len(alertmanagers) > 0 {
		conf += fmt.Sprintf("alerting:\n  alert_relabel_configs:\n  - {action: labeldrop, regex: instance|job}\n  alertmanagers:\n  - static_configs: [{targets: [%s]}]\n", strings.Join(alertmanagers, ", "))
	}
	startPeer(t, path, "--config.file", file(t, "prometheus.yml", conf), "--storage.tsdb.path", t.TempDir(), "--web.listen-address", addr, "--log.level", "warn")
	eventually(t, "Prometheus is ready", func() bool { return ready("http://" + addr + "/-/ready") })
	return addr
}

// startAlertmanager runs an Alertmanager, one that knows no other, which posts what it hears to a node. It gives its address.
func startAlertmanager(t testing.TB, url, token string) string {
	t.Helper()
	path, addr := need(t, "prometheus-alertmanager"), netip.AddrPortFrom(loopback(), 9093).String()
	conf := fmt.Sprintf(`route: {receiver: edgesteer, group_by: ["..."], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers:
- name: edgesteer
  webhook_configs:
  - url: %q
    send_resolved: true
    http_config: {authorization: {credentials: %q}}
`, url, token)
	startPeer(t, path, "--config.file", file(t, "alertmanager.yml", conf), "--storage.path", t.TempDir(), "--web.listen-address", addr, "--cluster.listen-address=", "--log.level", "warn")
	eventually(t, "Alertmanager is ready", func() bool { return ready("http://" + addr + "/-/ready") })
	return addr
}

func ready(url string) bool {
	r, err := http.Get(url)
	if err != nil {
		return false
	}
	defer r.Body.Close()
	io.Copy(io.Discard, r.Body)
	return r.StatusCode == http.StatusOK
}

// An alert of Prometheus, told by two Alertmanagers to two nodes, makes one statement, which ends when the alert does, along the ramp; one that would go past the bound makes none. Loads come from the
// same Prometheus.
func TestAlertmanagers(t *testing.T) {
	t.Parallel()
	need(t, "prometheus")
	const token = "token-of-alertmanager"
	sum := sha256.Sum256([]byte(token))
	e := startExporter(t)
	e.load.Store(400)
	nodes := prepareCluster(t, 2, nil)
	var managers []string
	for _, n := range nodes {
		host, _, _ := strings.Cut(n.addr, ":")
		managers = append(managers, fmt.Sprintf("%q", startAlertmanager(t, "http://"+host+":8053/v1/webhooks/alertmanager", token)))
	}
	prometheus := startPrometheus(t, e, managers...)
	for _, n := range nodes {
		host, _, _ := strings.Cut(n.addr, ":")
		n.edit("[[pop]]\n", fmt.Sprintf(`[admin]
listen = ["unix:state/admin.sock", "%s:8053"]
[[admin.token]]
name = "alertmanager"
role = "automation"
sha256 = "%s"
[prometheus]
url = "http://%s"
[automation]
max_drained = "50%%"
restore_after = "0s"
ramp = ["50%%", "100%%"]
ramp_step = "3s"
[[pop]]
`, host, hex.EncodeToString(sum[:]), prometheus))
		n.edit("name = \"wss\"\n", "name = \"wss\"\n[service.load]\nmetric = \"connections\"\ninterval = \"1s\"\nquery = \"sum by (pop) (envoy_connections)\"\n")
	}
	startCluster(t, nodes)

	eventually(t, "the load of home is known", func() bool {
		list, err := nodes[0].api.Loads(background())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list.Loads, func(v api.Value) bool { return v.Name == "home/wss" && !v.Stale && *v.Value == 400 })
	})

	e.broken[0].Store(true)
	everywhere(t, nodes, false)
	posted := func(n *node, outcome string) float64 {
		return n.metric("edgesteer_admin_alerts_total", `outcome="`+outcome+`"`)
	}
	eventually(t, "both nodes were told", func() bool { return posted(nodes[0], "drained") > 0 && posted(nodes[1], "drained") > 0 })
	eventually(t, "both agree", func() bool { return agree(nodes) })
	var id string
	for _, n := range nodes {
		list := automationDrains(n)
		if len(list) != 1 {
			t.Fatalf("%d statements: %+v", len(list), list)
		}
		s := list[0]
		if id = s.ID; s.Target != "home" || s.Author != "alertmanager" || s.Reason != "alert PoPBroken: home does not take traffic" || !strings.Contains(s.Ticket, "pop_broken") || len(s.Evidence) != 1 {
			t.Errorf("%+v", s)
		}
	}

	// With home away east would be everything that is left of edge.
	e.broken[1].Store(true)
	eventually(t, "a drain of east is refused", func() bool { return posted(nodes[0], "refused")+posted(nodes[1], "refused") > 0 })
	for _, n := range nodes {
		if list := automationDrains(n); len(list) != 1 || list[0].ID != id {
			t.Errorf("past the bound: %+v", list)
		}
	}
	h, err := nodes[0].api.History(background(), api.HistoryQuery{Target: "east"})
	other, otherErr := nodes[1].api.History(background(), api.HistoryQuery{Target: "east"})
	if err != nil || otherErr != nil {
		t.Fatal(err, otherErr)
	}
	if !slices.ContainsFunc(append(h.Entries, other.Entries...), func(e api.HistoryEntry) bool {
		return e.Action == "refused" && strings.Contains(e.Message, "100 % of edge would be drained, max_drained is 50 %")
	}) {
		t.Errorf("%+v", h.Entries)
	}

	e.broken[0].Store(false)
	shares := map[float64]bool{}
	eventually(t, "home is back", func() bool {
		p, err := nodes[1].api.PoP(background(), "home")
		if err != nil {
			t.Fatal(err)
		}
		shares[p.PoP.Share] = true
		return p.PoP.Share == 100
	})
	rampSeen(t, shares)
	everywhere(t, nodes, true)
	if list := automationDrains(nodes[0]); len(list) != 1 || list[0].ID != id || !rampedBack(list[0]) || !strings.HasPrefix(list[0].Lifted.Reason, "resolved: ") {
		t.Errorf("%+v", list)
	}
}

// edit replaces a piece of a node's configuration, once.
func (n *node) edit(old, text string) {
	n.t.Helper()
	toml, err := os.ReadFile(filepath.Join(n.dir, "edgesteer.toml"))
	if err != nil {
		n.t.Fatal(err)
	}
	if !strings.Contains(string(toml), old) {
		n.t.Fatalf("%q is not in the configuration", old)
	}
	n.write("edgesteer.toml", strings.Replace(string(toml), old, text, 1))
}
