package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

var (
	firstAddr  = netip.MustParseAddrPort("192.0.2.1:53")
	secondAddr = netip.MustParseAddrPort("192.0.2.2:53")
)

// bench is an In with primaries of its own making, and a diary.
type bench struct {
	t        *testing.T
	in       *In
	registry *prometheus.Registry
	start    time.Time
	log      logbook

	mu      sync.Mutex
	diary   []string
	primary func(p *primary, have *zones.Zone) (*zones.Zone, error) // what primaries do
	refuse  error                                                   // of Changed
}

// logbook keeps what was logged, for a test to read while the In goes on.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// timed is a zone with small timers: refresh 100 s, retry 20 s, expire 300 s.
func timed(t testing.TB, serial uint32) *zones.Zone {
	return zone(t, "edge.example.", fmt.Sprintf("@ 60 SOA a b %d 100 20 300 60\n@ 60 NS c.elsewhere.\n", serial))
}

func newBench(t *testing.T, dir string, does func(p *primary, have *zones.Zone) (*zones.Zone, error)) *bench {
	t.Helper()
	b := &bench{t: t, registry: prometheus.NewRegistry(), start: time.Now(), primary: does}
	in, err := NewIn(InConfig{
		Zones: []config.Zone{{Name: "edge.example", Primaries: []config.Primary{{Address: firstAddr}, {Address: secondAddr, Key: "key.example"}}}, {Name: "static.example", File: "f"}},
		Keys:  keys(t), Dir: dir, Registerer: b.registry, Log: slog.New(slog.NewTextHandler(&b.log, nil)),
		Changed: func(_ []byte, z *zones.Zone) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			if z == nil {
				b.note("expired")
				return nil
			}
			if b.refuse == nil {
				b.note("serial %d", z.Serial())
			}
			return b.refuse
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	in.fetch = func(_ context.Context, p *primary, _ []byte, have *zones.Zone) (*zones.Zone, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		n := 1
		if p.addr == secondAddr {
			n = 2
		}
		b.note("ask %d", n)
		return b.primary(p, have)
	}
	b.in = in
	return b
}

// note writes a line of the diary, with the time in seconds; a wait that chance has shortened is rounded up to tens.
func (b *bench) note(format string, args ...any) {
	s := time.Since(b.start).Seconds()
	b.diary = append(b.diary, fmt.Sprintf("%.1f ", s)+fmt.Sprintf(format, args...))
}

// read gives the diary and starts a new page.
func (b *bench) read() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.diary
	b.diary = nil
	return d
}

// what is the diary without times.
func what(diary []string) string {
	var out []string
	for _, d := range diary {
		_, w, _ := strings.Cut(d, " ")
		out = append(out, w)
	}
	return strings.Join(out, ", ")
}

func (b *bench) set(does func(p *primary, have *zones.Zone) (*zones.Zone, error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.primary = does
}

// run starts the In and ends it with the test.
func (b *bench) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); b.in.Run(ctx) }()
	b.t.Cleanup(func() { cancel(); <-done })
}

func (b *bench) counter(series string) float64 { return counter(b.t, b.registry, series) }

// sends is a primary that has a version.
func sends(z *zones.Zone) func(*primary, *zones.Zone) (*zones.Zone, error) {
	return func(_ *primary, have *zones.Zone) (*zones.Zone, error) {
		switch {
		case have != nil && have.Serial() == z.Serial():
			return nil, nil
		case have != nil && !newer(z.Serial(), have.Serial()):
			return nil, fmt.Errorf("%w: older", errBehind)
		}
		return z, nil
	}
}

func dead(*primary, *zones.Zone) (*zones.Zone, error) { return nil, errors.New("nobody there") }

// Refresh, retry and expiry go by the SOA.
func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, t.TempDir(), sends(timed(t, 1)))
		b.run()
		if got := what(b.read()); got != "ask 1, serial 1" {
			t.Fatalf("at the start: %s", got)
		}
		// Refresh after 90 to 100 s.
		time.Sleep(89 * time.Second)
		if got := what(b.read()); got != "" {
			t.Errorf("before refresh: %s", got)
		}
		time.Sleep(11 * time.Second)
		if got := what(b.read()); got != "ask 1" {
			t.Errorf("at refresh: %s", got)
		}
		b.set(sends(timed(t, 2)))
		time.Sleep(100 * time.Second)
		if got := what(b.read()); got != "ask 1, serial 2" {
			t.Errorf("new version: %s", got)
		}
		// Nobody there: retry each 18 to 20 s, both in turn, until 300 s after the last good check.
		b.set(dead)
		good := b.in.zones[string(wired(t, "edge.example"))].checked
		time.Sleep(time.Until(good.Add(299 * time.Second)))
		d := b.read()
		if n := len(d); n < 2*10 || n > 2*13 || strings.Contains(what(d), "expired") || !strings.HasPrefix(what(d), "ask 1, ask 2, ask 1, ask 2") {
			t.Errorf("retries: %v", d)
		}
		if left := b.counter(`edgesteer_secondary_expiry_seconds{zone="edge.example."}`); left <= 0 || left > 1 {
			t.Errorf("%v s until expiry", left)
		}
		time.Sleep(1 * time.Second)
		if d := b.read(); !strings.Contains(what(d), "expired") || len(b.in.Zones()) != 0 {
			t.Errorf("at expiry: %v", d)
		}
		if n, left := b.counter(`edgesteer_secondary_expired_total`), b.counter(`edgesteer_secondary_expiry_seconds{zone="edge.example."}`); n != 1 || left != 0 {
			t.Errorf("%v expired, %v s left", n, left)
		}
		// The primary is back, with the same version: it is served again.
		b.set(sends(timed(t, 2)))
		time.Sleep(20 * time.Second)
		if d := b.read(); !strings.HasSuffix(what(d), "ask 1, serial 2") || len(b.in.Zones()) != 1 {
			t.Errorf("afterwards: %v", d)
		}
		if n := b.counter(`edgesteer_secondary_serial{zone="edge.example."}`); n != 2 {
			t.Errorf("serial %v", n)
		}
		lint(t, b.registry)
	})
}

// Without a copy it is asked for more and more seldom.
func TestFirstTransferRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "", dead)
		b.run()
		var gaps []string
		last := b.start
		for range 9 {
			for {
				if d := b.read(); len(d) > 0 {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			gaps = append(gaps, time.Since(last).Round(time.Second).String())
			last = time.Now()
		}
		for i, want := range []time.Duration{0, 5, 10, 20, 40, 80, 160, 300, 300} {
			got, err := time.ParseDuration(gaps[i])
			if want *= time.Second; err != nil || got > want+time.Second || got < want*9/10-time.Second {
				t.Errorf("gap %d is %v, want %v", i, got, want)
			}
		}
	})
}

// Timers of an SOA that make no sense are bent.
func TestTimersOf(t *testing.T) {
	for _, tt := range []struct {
		soa  string
		want timers
	}{
		{"100 20 300", timers{100 * time.Second, 20 * time.Second, 300 * time.Second}},
		{"0 0 0", timers{minTimer, minTimer, 2 * minTimer}},
		{"4294967295 4294967295 4294967295", timers{maxTimer, maxTimer, (1<<32 - 1) * time.Second}},
		{"100 20 30", timers{100 * time.Second, 20 * time.Second, 120 * time.Second}},
	} {
		got := timersOf(zone(t, "edge.example.", "@ 60 SOA a b 1 "+tt.soa+" 60\n@ 60 NS c.\n"))
		if got != tt.want {
			t.Errorf("%s: %v, want %v", tt.soa, got, tt.want)
		}
	}
}

func notice(key string) []byte {
	m := new(dns.Msg)
	m.SetNotify("edge.example.")
	if key == "" {
		b, _ := m.Pack()
		return b
	}
	m.SetTsig(key, dns.HmacSHA256, 300, time.Now().Unix())
	b, _, _ := dns.TsigGenerate(m, secret, "", false)
	return b
}

// NOTIFY counts from a primary only, with its key if it has one; then that primary is asked, soon and not more often than once a second.
func TestNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "", sends(timed(t, 1)))
		b.run()
		b.read()
		apex := wired(t, "edge.example")
		axfr := notice("")
		axfr[12+len(apex)+1] = byte(dns.TypeA)
		bad := notice("key.example.")
		bad[len(bad)-10] ^= 1
		stranger := netip.MustParseAddrPort("192.0.2.3:53")
		first, second := netip.MustParseAddrPort("[::ffff:192.0.2.1]:4711"), netip.MustParseAddrPort("192.0.2.2:4711")
		for _, tt := range []struct {
			name   string
			msg    []byte
			zone   string
			from   netip.AddrPort
			rcode  uint16
			result string
			asked  string
		}{
			{"primary", notice(""), "edge.example", first, wire.RCodeNoError, notifyTaken, "ask 1"},
			{"primary with key", notice("key.example."), "edge.example", second, wire.RCodeNoError, notifyTaken, "ask 2"},
			{"primary with key, not signed", notice(""), "edge.example", second, wire.RCodeRefused, notifyKey, ""},
			{"bad signature", bad, "edge.example", second, wire.RCodeNotAuth, notifyKey, ""},
			{"unknown key", notice("unknown."), "edge.example", first, wire.RCodeNotAuth, notifyKey, ""},
			{"signed, though it need not be", notice("key.example."), "edge.example", first, wire.RCodeNoError, notifyTaken, "ask 1"},
			{"stranger", notice(""), "edge.example", stranger, wire.RCodeRefused, notifyAddress, ""},
			{"stranger with key", notice("key.example."), "edge.example", stranger, wire.RCodeRefused, notifyAddress, ""},
			{"no secondary", notice(""), "static.example", first, wire.RCodeNotAuth, notifyZone, ""},
			{"other type", axfr, "edge.example", first, wire.RCodeNotImp, notifyType, ""},
		} {
			time.Sleep(5 * time.Second)
			before := b.counter(fmt.Sprintf("edgesteer_notify_in_total{result=%q}", tt.result))
			if rcode := b.in.Notify(tt.msg, wired(t, tt.zone), tt.from); rcode != tt.rcode {
				t.Errorf("%s: rcode %d, want %d", tt.name, rcode, tt.rcode)
			}
			if got := what(b.read()); got != tt.asked {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.asked)
			}
			if n := b.counter(fmt.Sprintf("edgesteer_notify_in_total{result=%q}", tt.result)); n != before+1 {
				t.Errorf("%s: not counted", tt.name)
			}
		}
		if rcode := b.in.Notify([]byte("x"), apex, first); rcode != wire.RCodeFormErr {
			t.Errorf("nonsense: rcode %d", rcode)
		}
		time.Sleep(5 * time.Second)
		for range 1000 {
			b.in.Notify(notice(""), apex, first)
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(b.read()); n < 9 || n > 11 {
			t.Errorf("asked %d times in 10 s", n)
		}
	})
}

// A version that was sent while the check before runs is not missed.
func TestNotifyDuringCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "", sends(timed(t, 1)))
		fetch := b.in.fetch
		b.in.fetch = func(ctx context.Context, p *primary, apex []byte, have *zones.Zone) (*zones.Zone, error) {
			z, err := fetch(ctx, p, apex, have)
			time.Sleep(10 * time.Second) // a slow line
			return z, err
		}
		b.run()
		time.Sleep(5 * time.Second)
		b.set(sends(timed(t, 2)))
		b.in.Notify(notice(""), wired(t, "edge.example"), firstAddr)
		time.Sleep(20 * time.Second)
		if got := what(b.read()); got != "ask 1, serial 1, ask 1, serial 2" {
			t.Errorf("%s", got)
		}
	})
}

// A copy outlives a restart, and so does the time from which its expiry counts.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		b := newBench(t, dir, sends(timed(t, 1)))
		done := make(chan struct{})
		go func() { defer close(done); b.in.Run(ctx) }()
		time.Sleep(150 * time.Second) // the last check was between 90 and 100 s
		cancel()
		<-done
		checked := b.in.zones[string(wired(t, "edge.example"))].checked

		again := newBench(t, dir, dead)
		if list := again.in.Zones(); len(list) != 1 || list[0].Serial() != 1 {
			t.Fatalf("after a restart: %v", list)
		}
		again.run()
		time.Sleep(time.Until(checked.Add(299 * time.Second)))
		if d := again.read(); strings.Contains(what(d), "expired") || len(d) < 2 {
			t.Errorf("%v", d)
		}
		time.Sleep(time.Second)
		if d := again.read(); !strings.Contains(what(d), "expired") {
			t.Errorf("%v", d)
		}
		// One that is started only now does not serve it, but knows it.
		late := newBench(t, dir, sends(timed(t, 1)))
		if list := late.in.Zones(); len(list) != 0 {
			t.Errorf("expired, but served: %v", list)
		}
		late.run()
		if got := what(late.read()); got != "ask 1, serial 1" {
			t.Errorf("%s", got)
		}
	})
}

// A damaged copy is said aloud and never served.
func TestRestartDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		if err := (&store{dir: dir}).save(timed(t, 1), time.Now()); err != nil {
			t.Fatal(err)
		}
		path := (&store{dir: dir}).path(wired(t, "edge.example"))
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, "edge.example.zone", string(data[:len(data)-5]))
		b := newBench(t, dir, sends(timed(t, 1)))
		if len(b.in.Zones()) != 0 || !strings.Contains(b.log.String(), "copy of the zone is") || b.counter("edgesteer_secondary_store_errors_total") != 1 {
			t.Errorf("served: %v, log %s", b.in.Zones(), b.log.String())
		}
		b.run()
		if got := what(b.read()); got != "ask 1, serial 1" {
			t.Errorf("%s", got)
		}
		if z, _, err := (&store{dir: dir}).load(wired(t, "edge.example")); err != nil || z.Serial() != 1 {
			t.Error(err)
		}
	})
}

// A version that is not believed or cannot be served never replaces a good one, in memory or on disk.
func TestGoodCopyStays(t *testing.T) {
	for _, tt := range []struct {
		name    string
		primary func(*primary, *zones.Zone) (*zones.Zone, error)
		refuse  error
		result  string
		log     string
	}{
		{"older", sends(small(t, 1)), nil, "behind", "older version"},
		{"broken", func(*primary, *zones.Zone) (*zones.Zone, error) { return nil, errors.New("broken") }, nil, "failed", "broken"},
		{"shrunk", sends(small(t, 3)), nil, "refused", "has 21 records, the version at hand 304: not believed"},
		{"not to be served", sends(large(t, "edge.example.", 3, 200)), errors.New("www is steered"), "refused", "serial 3 cannot be served: www is steered"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				good := large(t, "edge.example.", 2, 301)
				dir := t.TempDir()
				b := newBench(t, dir, sends(good))
				b.run()
				b.read()
				b.set(tt.primary)
				b.mu.Lock()
				b.refuse = tt.refuse
				b.mu.Unlock()
				time.Sleep(2 * time.Hour)
				if d := b.read(); len(d) == 0 || strings.Contains(what(d), "serial") {
					t.Errorf("%v", d)
				}
				if list := b.in.Zones(); len(list) != 1 || list[0] != good {
					t.Errorf("served: %v", list)
				}
				if z, _, err := b.in.store.load(good.Apex()); err != nil || z.Serial() != 2 {
					t.Errorf("on disk: %v, %v", z, err)
				}
				if n := b.counter(fmt.Sprintf("edgesteer_secondary_checks_total{result=%q}", tt.result)); n < 2 || !strings.Contains(b.log.String(), tt.log) {
					t.Errorf("%v counted; log %s", n, b.log.String())
				}
				if tt.name != "shrunk" {
					return
				}
				// Unless an operator says so, or the good version has expired.
				if err := os.Remove(b.in.store.path(good.Apex())); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				if d := b.read(); !strings.Contains(what(d), "serial 3") {
					t.Errorf("after its file was removed: %v", d)
				}
			})
		})
	}
}

// A disk that refuses the copy does not keep the zone from being served.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := write(t, t.TempDir(), "file", "")
		b := newBench(t, file, sends(timed(t, 1)))
		b.run()
		if got := what(b.read()); got != "ask 1, serial 1" || len(b.in.Zones()) != 1 {
			t.Errorf("%s", got)
		}
		if n := b.counter("edgesteer_secondary_store_errors_total"); n == 0 || !strings.Contains(b.log.String(), "keeping a copy") {
			t.Errorf("%v errors, log %s", n, b.log.String())
		}
	})
}

// Zones come and go with the configuration.
func TestInConfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		other := zone(t, "other.example.", "@ 60 SOA a b 5 100 20 300 60\n@ 60 NS c.elsewhere.\n")
		if err := (&store{dir: dir}).save(other, time.Now()); err != nil {
			t.Fatal(err)
		}
		b := newBench(t, dir, func(_ *primary, have *zones.Zone) (*zones.Zone, error) {
			if have == nil {
				return timed(t, 1), nil
			}
			return nil, nil
		})
		b.run()
		b.read()
		b.in.Configure([]config.Zone{
			{Name: "edge.example", Primaries: []config.Primary{{Address: secondAddr}}},
			{Name: "Other.example.", Primaries: []config.Primary{{Address: firstAddr}}},
		}, keys(t))
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"ask 1", "ask 2", "serial 5"}, sortedNotes(b.read())); diff != "" {
			t.Errorf("a new zone is served from its copy, and other primaries are asked at once: %s", diff)
		}
		b.in.Configure([]config.Zone{{Name: "other.example", Primaries: []config.Primary{{Address: firstAddr}}}}, keys(t))
		time.Sleep(100 * time.Second)
		if got := what(b.read()); got != "ask 1" || len(b.in.Zones()) != 1 {
			t.Errorf("%s", got)
		}
		if rcode := b.in.Notify(notice(""), wired(t, "edge.example"), firstAddr); rcode != wire.RCodeNotAuth {
			t.Errorf("rcode %d for a zone that is gone", rcode)
		}
	})
}

func sortedNotes(diary []string) []string {
	lines := strings.Split(what(diary), ", ")
	return strings.Split(strings.TrimSpace(sorted(strings.Join(lines, "\n")+"\n")), "\n")
}
