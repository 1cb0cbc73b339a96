//go:build unix

package health

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/server/config"
)

// costServer names the variable that makes a test process the server of TestCost: what is checked costs another process.
const costServer = "EDGESTEER_TEST_COST_SERVER"

// TestCostServer is that process: plain HTTP on one port, TLS on another, at every loopback address.
func TestCostServer(t *testing.T) {
	if os.Getenv(costServer) == "" {
		t.Skip("this is for TestCost")
	}
	cert, _ := certificate(t, time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0))
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	fmt.Println("cert", base64.StdEncoding.EncodeToString(cert.Certificate[0]))
	for _, secure := range []bool{false, true} {
		l, err := net.Listen("tcp4", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("port", l.Addr().(*net.TCPAddr).Port)
		if secure {
			l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}})
		}
		go (&http.Server{Handler: page, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}).Serve(l)
	}
	io.Copy(io.Discard, os.Stdin) // until TestCost ends
}

// startCostServer starts it and gives its ports, and whose certificates to trust.
func startCostServer(t *testing.T) (plain, secure int, roots *x509.CertPool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCostServer$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), costServer+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	var ports []int
	roots = x509.NewCertPool()
	for lines := bufio.NewScanner(out); len(ports) < 2 && lines.Scan(); {
		var port int
		if _, err := fmt.Sscanf(lines.Text(), "port %d", &port); err == nil {
			ports = append(ports, port)
		}
		if text, ok := strings.CutPrefix(lines.Text(), "cert "); ok {
			der, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			c, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			roots.AddCert(c)
		}
	}
	if len(ports) < 2 {
		t.Fatal("the server has no ports")
	}
	return ports[0], ports[1], roots
}

// processorTime is what this process has used so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// mixed has n endpoints, one address each, of which every second has the one check, and the others the other.
func mixed(n int, checks ...Check) *Plan {
	p := plan(n, 1, nil)
	for i := range p.targets {
		a := address(i).As4()
		a[0] = 127 // loopback
		p.targets[i].addresses[0] = netip.AddrFrom4(a)
		p.fleet.Endpoints[i].Addresses[0] = netip.AddrFrom4(a)
		p.targets[i].check = checks[i%len(checks)]
	}
	return p
}

// figures asks for the test that measures: it says something on a quiet machine only.
var figures = flag.Bool("figures", false, "measure what checks cost")

// 5,000 endpoints, tcp and plain http, checked every 10 s: less than a quarter of a core, and no check late by more than a second. TLS with resumed sessions is told apart. What counts is processor time, in user and
// kernel mode, of this process, in which nothing else runs; the servers are in another. Lateness is of the wall clock, so a series in which the machine stalls is measured again, twice at most.
func TestCost(t *testing.T) {
	if !*figures {
		t.Skip("for a quiet machine: go test ./pops/health -run 'TestCost$' -v -figures")
	}
	const interval = 10 * time.Second
	plainPort, tlsPort, roots := startCostServer(t)
	check := func(c config.Check) Check {
		made, err := newCheck(defaults(c))
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	https := check(config.Check{Kind: "https", Port: tlsPort, SNI: "example.com", Verify: true})
	trust(https, roots)
	for _, tt := range []struct {
		name   string
		n      int
		checks []Check
		most   float64 // of a core; 0: it is only told
	}{
		{"tcp and http", 5000, []Check{check(config.Check{Kind: "tcp", Port: plainPort}), check(config.Check{Kind: "http", Port: plainPort})}, 0.25},
		{"https, sessions resumed", 1000, []Check{https}, 0},
		{"https, whole handshakes", 1000, []Check{forgetful{https.(*httpCheck)}}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for try := range 3 {
				core, late, down := measure(t, mixed(tt.n, tt.checks...), interval)
				t.Logf("%d endpoints every %s: %.1f %% of a core; %d checks late by more than a second, %d endpoints down", tt.n, interval, 100*core, late, down)
				if tt.most == 0 || core < tt.most && late == 0 && down == 0 {
					return
				}
				if try == 2 {
					t.Errorf("%.1f %% of a core, want less than %.0f %%; %d late by more than a second; %d down", 100*core, 100*tt.most, late, down)
				}
			}
		})
	}
}

// forgetful is a check that has no session to resume.
type forgetful struct{ *httpCheck }

func (f forgetful) Probe(ctx context.Context, a netip.Addr) error {
	f.mu.Lock()
	delete(f.configs, a)
	f.mu.Unlock()
	return f.httpCheck.Probe(ctx, a)
}

// measure runs a plan for two intervals after the first, and gives the part of a core that it took, how many checks were late by more than a second, and how many endpoints are down, of which none is.
func measure(t *testing.T, p *Plan, interval time.Duration) (core float64, late uint64, down int) {
	t.Helper()
	registry := prometheus.NewRegistry()
	m, err := New(Config{Node: "n1", Plan: p, Registerer: registry, Broadcast: func(string, []byte) {}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	m.settle()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	defer func() { cancel(); <-done }()
	wait := time.NewTimer(interval)
	defer wait.Stop()
	<-wait.C // from here on everything is as it stays: sessions are there, too
	began, used := time.Now(), processorTime(t)
	_, before := lateness(t, registry)
	wait.Reset(2 * interval)
	<-wait.C
	core = float64(processorTime(t)-used) / float64(time.Since(began))
	all, after := lateness(t, registry)
	if all < uint64(2*len(p.targets)) {
		t.Errorf("only %d checks", all)
	}
	for _, s := range m.Status() {
		if s.Down || !s.Known {
			down++
		}
	}
	return core, after - before, down
}

// settle makes every address one that is known to be up, as after a restart: the first checks are then spread over the interval.
func (m *Monitor) settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = nil
	for _, jobs := range m.jobs {
		for _, j := range jobs {
			j.tally = tally{mood: up, settled: true, since: m.now()}
			j.next = j.first(time.Now())
			m.queue.push(j)
		}
		m.vote(jobs[0].target)
	}
}

// lateness counts all checks, and those that were late by more than a second.
func lateness(t *testing.T, r *prometheus.Registry) (all, late uint64) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "edgesteer_health_late_seconds" {
			continue
		}
		h := f.Metric[0].Histogram
		all = h.GetSampleCount()
		for _, b := range h.Bucket {
			if b.GetUpperBound() == 1 {
				late = all - b.GetCumulativeCount()
			}
		}
	}
	return all, late
}

// The state that a Monitor of 5,000 endpoints shows and evaluates: what people, warnings and automation cost while they look.
func BenchmarkLook(b *testing.B) {
	p := plan(5000, 1, &fake{})
	m, err := New(Config{Node: "n1", Plan: p, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	for _, node := range []string{"n2", "n3", "n4", "n5"} {
		r := Report{Node: node, Epoch: time.Now(), At: time.Now(), Votes: map[string]Vote{}}
		for i := range p.targets {
			r.Votes[p.targets[i].name] = Vote{Since: time.Now(), Set: time.Now()}
		}
		if err := m.Merge(encode(r)); err != nil {
			b.Fatal(err)
		}
	}
	for name, look := range map[string]func(){
		"status":   func() { m.Status() },
		"evaluate": func() { m.mu.Lock(); m.evaluate(time.Now()); m.mu.Unlock() },
		"verdicts": func() { m.Verdicts(p.fleet) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				look()
			}
		})
	}
}
