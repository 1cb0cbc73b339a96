package integration

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

var (
	scale = flag.Bool("scale", false, "TestScale: 1,000,000 names in 10,000 zones and 10,000 steered records instead of a hundredth; its latencies become promises")
	city  = flag.String("city", "", "TestScale: a location database in place of the embedded one, absolute path")
)

// Many zones, steered records and PoPs: all of it is answered, and while a zone changes, the configuration is read again and the location database is swapped, no query is lost.
func TestScale(t *testing.T) {
	zones, records, size := 100, 100, 100
	if *scale {
		zones, records = 10_000, 10_000
	}
	const places = 200
	var toml strings.Builder
	toml.WriteString("[server]\nnode = \"n1\"\nlisten = [\"LISTEN\"]\n[server.rrl]\nenabled = false\n")
	if *city != "" {
		toml.WriteString("[geo]\ndatabases = [\"city.mmdb\"]\n")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range places {
		fmt.Fprintf(&toml, "[[pop]]\nname = \"pop%d\"\nlatitude = %.2f\nlongitude = %.2f\n", i, r.Float64()*100-40, r.Float64()*360-180)
	}
	for s, name := range []string{"wss", "web"} {
		fmt.Fprintf(&toml, "[[service]]\nname = %q\n", name)
		for i := range places {
			fmt.Fprintf(&toml, "[service.at.pop%d]\naddresses = [\"198.51.%d.%d\"]\n", i, 100+s, i)
		}
	}
	files := map[string]string{}
	for z := range zones {
		file := fmt.Sprintf("zone%d", z)
		files[file] = hosts(size, 1)
		fmt.Fprintf(&toml, "[[zone]]\nname = \"zone%d.example\"\nfile = %q\n", z, file)
		for i := range max(1, records/zones) {
			fmt.Fprintf(&toml, "[[zone.record]]\nname = \"edge%d\"\nservice = %q\nttl = 30\nfilters = [\"up\", \"shed_load\", \"geotarget_country\", { filter = \"select_first_n\", N = 1 }]\n", i, []string{"wss", "web"}[(z+i)%2])
		}
	}
	n := prepare(t, toml.String(), files)
	if *city != "" {
		n.copyFile("city.mmdb", *city)
	}
	began := time.Now()
	n.start()
	level := n.resident()
	t.Logf("started in %v, %.0f MiB", time.Since(began).Round(time.Millisecond), level)

	load := n.pace(t, func(i int) *dns.Msg {
		z := i * 7919 % zones
		if i%2 == 0 {
			return question(fmt.Sprintf("host%d.zone%d.example", i%size, z), dns.TypeA, "")
		}
		return question(fmt.Sprintf("edge0.zone%d.example", z), dns.TypeA, fmt.Sprintf("%d.%d.%d.0/24", 1+i%200, i>>8&0xff, i&0xff))
	})
	step := func(what string, act func()) {
		t.Helper()
		load.mark()
		began := time.Now()
		act()
		took := time.Since(began)
		p50, p99, most := load.mark()
		t.Logf("%s: %v; answers meanwhile p50 %v, p99 %v, most %v; %.0f MiB", what, took.Round(time.Millisecond), p50, p99, most, n.resident())
		if *scale && p99 > 5*time.Millisecond {
			t.Errorf("%s: p99 is %v, promised are 5 ms", what, p99)
		}
	}
	reload := func() {
		t.Helper()
		if _, err := n.api.ReloadZones(background()); err != nil {
			t.Fatal(err)
		}
	}
	step("quiet", func() { eventually(t, "two thousand answers", func() bool { return load.count() > 2000 }) })
	step("one zone changed", func() {
		n.write("zone7", hosts(size, 2))
		reload()
		if r := n.ask("zone7.example", dns.TypeSOA, ""); len(r.Answer) != 1 || r.Answer[0].(*dns.SOA).Serial != 2 {
			t.Errorf("the changed zone is not served: %v", r.Answer)
		}
	})
	step("one record changed", func() {
		n.write("edgesteer.toml", strings.ReplaceAll(strings.Replace(toml.String(), "ttl = 30", "ttl = 31", 1), "LISTEN", n.addr))
		reload()
		if r := n.ask("edge0.zone0.example", dns.TypeA, "20.0.0.0/24"); len(r.Answer) != 1 || r.Answer[0].Header().Ttl != 31 {
			t.Errorf("the changed record is not served: %v", r.Answer)
		}
	})
	if *city != "" {
		step("location database swapped", func() {
			f, err := os.OpenFile(filepath.Join(n.dir, "city.mmdb"), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			// The time of building is in the metadata at the end: another one makes it another database.
			tail := make([]byte, 200)
			end, err := f.Seek(-int64(len(tail)), io.SeekEnd)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.ReadAt(tail, end); err != nil {
				t.Fatal(err)
			}
			at := strings.Index(string(tail), "build_epoch")
			if at < 0 {
				t.Fatal("no build_epoch in the database")
			}
			if _, err := f.WriteAt([]byte{tail[at+len("build_epoch")+5] ^ 1}, end+int64(at+len("build_epoch")+5)); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			reload()
		})
	}
	step("memory given back", func() {
		eventually(t, fmt.Sprintf("not much more memory than the %.0f MiB of before", level), func() bool { return n.resident() < level*1.1+20 })
	})
	if lost := load.stop(); lost > 0 {
		t.Errorf("%d queries were not answered", lost)
	}
	n.stop()
}

// hosts is a zone of n names and its apex.
func hosts(n, serial int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "$TTL 300\n@ SOA ns1 hostmaster %d 3600 600 86400 60\n@ NS ns1\nns1 A 127.0.0.1\n", serial)
	for i := range n {
		fmt.Fprintf(&b, "host%d A 203.0.113.%d\n", i, i%256)
	}
	return b.String()
}

func (n *node) copyFile(name, from string) {
	n.t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		n.t.Fatal(err)
	}
	n.write(name, string(data))
}

// pacer asks at a steady rate and notes how long each answer took.
type pacer struct {
	end  chan struct{}
	wg   sync.WaitGroup
	mu   sync.Mutex
	took []time.Duration
	lost int
}

// pace asks a thousand times a second until stopped. An answer that does not come in ten seconds, or has no records, is lost.
func (n *node) pace(t *testing.T, ask func(i int) *dns.Msg) *pacer {
	p := &pacer{end: make(chan struct{})}
	const askers = 4
	for a := range askers {
		p.wg.Go(func() {
			var conn *dns.Conn
			defer func() {
				if conn != nil {
					conn.Close()
				}
			}()
			tick := time.NewTicker(askers * time.Millisecond)
			defer tick.Stop()
			for i := a; ; i += askers {
				select {
				case <-p.end:
					return
				case <-tick.C:
				}
				if i/askers%50 == 0 { // from another port now and then, as resolvers do: so each worker is asked
					if conn != nil {
						conn.Close()
					}
					var err error
					if conn, err = dns.Dial("udp", n.addr); err != nil {
						t.Error(err)
						return
					}
				}
				m := ask(i)
				began := time.Now()
				conn.SetDeadline(began.Add(10 * time.Second))
				err := conn.WriteMsg(m)
				var r *dns.Msg
				for err == nil {
					if r, err = conn.ReadMsg(); err == nil && r.Id == m.Id {
						break
					}
				}
				took := time.Since(began)
				p.mu.Lock()
				p.took = append(p.took, took)
				if err != nil || len(r.Answer) == 0 {
					p.lost++
					t.Logf("%s: %v %v", m.Question[0].Name, err, r)
				}
				p.mu.Unlock()
			}
		})
	}
	return p
}

func (p *pacer) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.took)
}

// mark gives what was seen since the last mark.
func (p *pacer) mark() (p50, p99, most time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := p.took
	p.took = nil
	if len(took) == 0 {
		return 0, 0, 0
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
}

// stop ends the asking and gives how many queries were not answered.
func (p *pacer) stop() (lost int) {
	close(p.end)
	p.wg.Wait()
	return p.lost
}
