package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/api"
)

const dashboardFile = "../packaging/grafana/edgesteer.json"

// watchedTOML is a node with everything that the dashboard shows: services with load and checks, TLS, a fleet of one, an admin address for Prometheus.
const watchedTOML = `
[server]
node = "watched"
listen = ["LISTEN"]
state = "state"
[server.tls]
listen = ["TLS"]
certificate = "tls.crt"
key = "tls.key"
[dnstap]
socket = "tap.sock"
[admin]
listen = ["unix:state/admin.sock", "ADMIN"]
[[admin.token]]
name = "prometheus"
role = "viewer"
sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
[cluster]
listen = "CLUSTER"
network = "local"
join_timeout = "0s"

[[pop]]
name = "us-east-1"
country = "US"
[[pop]]
name = "eu-west-1"
country = "IE"
[[pop]]
name = "ap-northeast-1"
country = "JP"
[[service]]
name = "wss"
check = { kind = "tcp", port = PORT, interval = "1s", timeout = "500ms" }
load = { metric = "connections", low_watermark = 80, high_watermark = 100, max_age = "1h" }
[service.at.us-east-1]
addresses = ["HOST"]
capacity = 120
[service.at.eu-west-1]
addresses = ["HOST"]
capacity = 100
[service.at.ap-northeast-1]
addresses = ["HOST"]
capacity = 60
[[zone]]
name = "example.com"
file = "zone"
[[zone.record]]
name = "wss"
service = "wss"
filters = ["up", { filter = "shed_load", metric = "connections" }, "geotarget_country", { filter = "select_first_n", N = 1 }]
`

// The token "test", whose hash is in watchedTOML.
const watchedToken = "test"

// dashboard is what the test reads of the JSON.
type dashboard struct {
	Panels []struct {
		Title   string
		Type    string
		Targets []struct{ RefID, Expr string }
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
}

func readDashboard(t testing.TB) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(text(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The dashboard asks for metrics that there are.
func TestDashboardMetrics(t *testing.T) {
	known, queries := metricNames(t), 0
	for _, p := range readDashboard(t).Panels {
		for _, q := range p.Targets {
			queries++
			expr := strings.ReplaceAll(q.Expr, `edgesteer_(tls|admin)_certificate`, `edgesteer_tls_certificate`)
			for _, name := range unknownMetrics(expr, known) {
				t.Errorf("%s: there is no metric %s", p.Title, name)
			}
		}
	}
	if queries < 50 {
		t.Errorf("%d queries", queries)
	}
}

// A real Prometheus that scrapes a server with traffic has data for every query of the dashboard, its variables and its annotations.
func TestDashboard(t *testing.T) {
	prometheus := need(t, "prometheus")
	backend, err := net.Listen("tcp", netip.AddrPortFrom(loopback(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { backend.Close() })
	go func() {
		for {
			c, err := backend.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	host, port, _ := net.SplitHostPort(backend.Addr().String())
	own, admin := loopback(), netip.AddrPortFrom(loopback(), 8053).String()
	toml := strings.NewReplacer("TLS", netip.AddrPortFrom(own, 8853).String(), "ADMIN", admin, "CLUSTER", netip.AddrPortFrom(own, 7946).String(), "HOST", host, "PORT", port).Replace(watchedTOML)
	n := prepare(t, toml, map[string]string{"zone": "@ 300 IN SOA ns hostmaster 1 7200 3600 1209600 60\n@ 300 IN NS ns\nns 300 IN A 192.0.2.53\n"})
	certificate(t, n)
	n.start()
	base := watch(t, prometheus, admin)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go n.traffic(ctx)
	eventually(t, "Prometheus has scraped the node", func() bool {
		return promHas(t, base, `edgesteer_drain_write_seconds_count`)
	})
	if stdout, stderr, code := n.run("drain", "eu-west-1", "--by", "50%", "--reason", "to be seen", "--yes"); code != 0 {
		t.Fatal(stdout, stderr)
	}
	var report api.LoadReport
	for pop, load := range map[string]float64{"us-east-1": 90, "eu-west-1": 10, "ap-northeast-1": 10} {
		report.Loads = append(report.Loads, api.LoadSample{Target: pop + "/wss", Value: &load})
	}
	if _, err := n.api.ReportLoads(background(), report); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$job", ".*", "$instance", ".*", "$pop", ".*", "$__rate_interval", "5s", "$__interval", "15s")
	d := readDashboard(t)
	asked := 0
	query := func(what, expr string) {
		t.Helper()
		asked++
		expr = variables.Replace(expr)
		eventually(t, what+" has data: "+expr, func() bool {
			return promHas(t, base, expr)
		})
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		_, rest, ok := strings.Cut(v.Definition, "label_values(")
		selector, label, ok2 := strings.Cut(strings.TrimSuffix(rest, ")"), ", "+v.Name)
		if !ok || !ok2 || label != "" {
			t.Errorf("variable %s: %s", v.Name, v.Definition)
			continue
		}
		query("variable "+v.Name, fmt.Sprintf(`count by (%s) (%s)`, v.Name, selector))
	}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			query(p.Title, q.Expr)
		}
	}
	for _, a := range d.Annotations.List {
		if _, err := promQuery(base, variables.Replace(a.Expr)); err != nil { // has data only just after a change
			t.Errorf("annotation %s: %v", a.Name, err)
		}
	}
	if asked < 50 {
		t.Errorf("%d queries", asked)
	}
}

// watch runs a Prometheus with this repository's rules that scrapes a target once a second, and gives its URL.
func watch(t testing.TB, path, target string) string {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs(rulesDir)
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 5s}
rule_files: [%q, %q]
scrape_configs:
  - job_name: edgesteer
    authorization: {credentials: %s}
    static_configs: [{targets: [%q]}]
`, filepath.Join(rules, "edgesteer.rules.yml"), filepath.Join(rules, "edgesteer.alerts.yml"), watchedToken, target)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := netip.AddrPortFrom(loopback(), 9090).String()
	startPeer(t, path, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr, "--log.level=warn")
	base := "http://" + addr
	eventually(t, "Prometheus is ready", func() bool {
		r, err := http.Get(base + "/-/ready")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	return base
}

// promHas tells whether an expression has a value now that is a number.
func promHas(t testing.TB, base, expr string) bool {
	t.Helper()
	values, err := promQuery(base, expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return slices.ContainsFunc(values, func(v string) bool { return v != "NaN" })
}

// promQuery asks for the values of an expression now.
func promQuery(base, expr string) (values []string, err error) {
	r, err := http.Get(base + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s", answer.Error)
	}
	for _, v := range answer.Data.Result {
		s, _ := v.Value[1].(string)
		values = append(values, s)
	}
	return values, nil
}

// traffic asks some 3000 times a second over UDP for many networks, and now and then over TCP, until ctx ends.
func (n *node) traffic(ctx context.Context) {
	conn, err := net.Dial("udp", n.addr)
	if err != nil {
		return
	}
	defer conn.Close()
	list := networks(256)
	var messages [][]byte
	for _, p := range list {
		m, err := question("wss.example.com", dns.TypeA, p.String()).Pack()
		if err != nil {
			return
		}
		messages = append(messages, m)
	}
	buf := make([]byte, 4096)
	tcp := &dns.Client{Net: "tcp", Timeout: time.Second}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		<-tick.C
		for k := range 16 {
			if _, err := conn.Write(messages[(16*i+k)%len(messages)]); err != nil {
				return
			}
		}
		conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		for range 16 {
			if _, err := conn.Read(buf); err != nil {
				break
			}
		}
		if i%100 == 0 {
			tcp.ExchangeContext(ctx, question("wss.example.com", dns.TypeA, ""), n.addr)
		}
	}
}
