package integration

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/api"
)

// database writes a location database in which one network lies in a country.
func (n *node) database(name, network, country string) {
	n.t.Helper()
	w, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "GeoLite2-Country", RecordSize: 24, IncludeReservedNetworks: true})
	if err != nil {
		n.t.Fatal(err)
	}
	_, prefix, err := net.ParseCIDR(network)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := w.Insert(prefix, mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String(country)}}); err != nil {
		n.t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(n.dir, name+".new"))
	if err != nil {
		n.t.Fatal(err)
	}
	if _, err := w.WriteTo(f); err != nil {
		n.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(f.Name(), filepath.Join(n.dir, name)); err != nil {
		n.t.Fatal(err)
	}
}

// asking asks for a name all the time until stopped, and counts what is no good answer.
func (n *node) asking(name, subnet string, good func(*dns.Msg) bool) (stop func()) {
	end := make(chan struct{})
	var wg sync.WaitGroup
	var asked, bad atomic.Int64
	for range 2 {
		wg.Go(func() {
			conn, err := dns.Dial("udp", n.addr)
			if err != nil {
				n.t.Error(err)
				return
			}
			defer conn.Close()
			for {
				select {
				case <-end:
					return
				default:
				}
				asked.Add(1)
				if r, err := exchange(conn, question(name, dns.TypeA, subnet)); err != nil || !good(r) {
					bad.Add(1)
					n.t.Logf("%v %v", r, err)
				}
			}
		})
	}
	return func() {
		close(end)
		wg.Wait()
		if bad.Load() > 0 || asked.Load() == 0 {
			n.t.Errorf("%d of %d answers were no good ones", bad.Load(), asked.Load())
		}
	}
}

// SIGHUP reads zones, configuration and databases again: all or nothing per file, and no query is lost.
func TestReload(t *testing.T) {
	toml := strings.Replace(fleet, "[[pop]]", "[geo]\ndatabases = [\"country.mmdb\"]\n\n[[pop]]", 1)
	n := prepare(t, toml, map[string]string{"zone": fleetZone + "host A 192.0.2.77\n"})
	n.database("country.mmdb", "198.51.100.0/24", "US")
	n.start()
	hangup := func() { n.cmd.Process.Signal(syscall.SIGHUP) }
	first := func(name string) string {
		if a := addresses(n.ask(name, dns.TypeA, "198.51.100.0/24")); len(a) > 0 {
			return a[0]
		}
		return ""
	}
	stopHost := n.asking("host.example.com", "", func(r *dns.Msg) bool { return len(r.Answer) == 1 })
	stopSteered := n.asking("primary.example.com", "198.51.100.0/24", func(r *dns.Msg) bool { return len(r.Answer) == 1 })

	// A zone file changes.
	n.write("zone", fleetZone+"host A 192.0.2.78\n")
	hangup()
	eventually(t, "the new zone is served", func() bool { return first("host.example.com") == "192.0.2.78" })

	// A broken one keeps the old zone; so does one that is gone. The rest of the reload counts.
	for _, text := range []string{fleetZone + "host A 192.0.2.999\n", ""} {
		if text == "" {
			os.Remove(filepath.Join(n.dir, "zone"))
		} else {
			n.write("zone", text)
		}
		reload, err := n.api.ReloadZones(background())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(reload.Problems, func(p api.ConfigProblem) bool {
			return p.Line > 0 && strings.Contains(p.Message, "keeps its old version")
		}) {
			t.Errorf("zone %q: problems %+v", text, reload.Problems)
		}
		if got := first("host.example.com"); got != "192.0.2.78" {
			t.Errorf("with a zone file that cannot be used the old zone is not served: %q", got)
		}
	}
	n.write("zone", fleetZone+"host A 192.0.2.79\n")
	hangup()
	eventually(t, "the mended zone is served", func() bool { return first("host.example.com") == "192.0.2.79" })

	// The location database is replaced while it is in use, time and again; a broken one changes nothing.
	for i := range 10 {
		country, want := "DE", "192.0.2.2"
		if i%2 == 1 {
			country, want = "US", "192.0.2.1"
		}
		n.database("country.mmdb", "198.51.100.0/24", country)
		hangup()
		eventually(t, "the new database is used", func() bool { return first("primary.example.com") == want })
	}
	n.write("country.mmdb", "no database")
	reload, err := n.api.ReloadZones(background())
	if err != nil {
		t.Fatal(err)
	}
	if len(reload.Problems) == 0 || first("primary.example.com") != "192.0.2.1" {
		t.Errorf("a broken database: %+v, %s", reload.Problems, first("primary.example.com"))
	}
	n.database("country.mmdb", "198.51.100.0/24", "US")

	// A configuration with a mistake changes nothing.
	text, err := os.ReadFile(filepath.Join(n.dir, "edgesteer.toml"))
	if err != nil {
		t.Fatal(err)
	}
	n.write("edgesteer.toml", strings.Replace(string(text), "192.0.2.1\"", "192.0.2.222\"", 1)+"\nmistake = 1\n")
	if reload, err = n.api.ReloadZones(background()); err != nil || len(reload.Problems) == 0 {
		t.Errorf("a mistake in the configuration: %+v %v", reload, err)
	}
	if got := first("primary.example.com"); got != "192.0.2.1" {
		t.Errorf("after a refused reload %s is served", got)
	}
	n.write("edgesteer.toml", strings.Replace(string(text), "192.0.2.1\"", "192.0.2.222\"", 1))
	hangup()
	eventually(t, "the new configuration is served", func() bool { return first("primary.example.com") == "192.0.2.222" })
	stopHost()
	stopSteered()
	n.stop()
}

// What serves says when it cannot start: every problem, with file and line, and exit code 1.
func TestServeRefuses(t *testing.T) {
	n := prepare(t, strings.Replace(fleet, `"up", "shed_load"`, `"upp", "shed_lod"`, 1), map[string]string{"zone": fleetZone})
	n.api, _ = api.New("unix:/nonexistent", "")
	_, stderr, code := n.run("serve", "--config", "edgesteer.toml")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{`did you mean "up"?`, `did you mean "shed_load"?`, "edgesteer.toml:", "hint: edgesteer check --config edgesteer.toml"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
}
