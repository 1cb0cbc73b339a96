package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/pops"
)

// fake is a check whose results the test says.
type fake struct {
	mu     sync.Mutex
	at     map[netip.Addr][]time.Time
	result func(a netip.Addr, n int) error // n counts from 0
	took   time.Duration
}

func (f *fake) Probe(ctx context.Context, a netip.Addr) error {
	f.mu.Lock()
	if f.at == nil {
		f.at = map[netip.Addr][]time.Time{}
	}
	n := len(f.at[a])
	f.at[a] = append(f.at[a], time.Now())
	f.mu.Unlock()
	if f.took > 0 {
		select {
		case <-time.After(f.took):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if f.result == nil {
		return nil
	}
	return f.result(a, n)
}

func (f *fake) times(a netip.Addr) []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Time(nil), f.at[a]...)
}

func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})
}

// plan has n PoPs with one service and each addresses.
func plan(n, addresses int, c Check) *Plan {
	f := &pops.Fleet{Services: []pops.Service{{Name: "wss"}}}
	p := &Plan{fleet: f, byName: map[string]int{}, agree: 0.75}
	for i := range n {
		e := pops.Endpoint{PoP: i, Service: 0}
		for k := range addresses {
			e.Addresses = append(e.Addresses, address(i*addresses+k))
		}
		f.PoPs = append(f.PoPs, pops.PoP{Name: fmt.Sprintf("p%d", i)})
		f.Endpoints = append(f.Endpoints, e)
		t := target{
			name: fmt.Sprintf("p%d/wss", i), pop: f.PoPs[i].Name, kind: "tcp", check: c,
			interval: 10 * time.Second, timeout: 5 * time.Second, fall: 3, rise: 5, minUp: 1, addresses: e.Addresses,
		}
		p.byName[t.name] = i
		p.at = append(p.at, i)
		p.targets = append(p.targets, t)
	}
	return p
}

func start(t *testing.T, c Config) (m *Monitor, stop func()) {
	t.Helper()
	if c.Node == "" {
		c.Node = "n1"
	}
	c.Log = slog.New(slog.DiscardHandler)
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	return m, func() { cancel(); <-done }
}

var errBad = errors.New("connection refused")

// downs are the indexes of the endpoints that are down.
func downs(m *Monitor) (out []int) {
	for i, v := range m.Verdicts(m.plan.fleet) {
		if v.Down {
			out = append(out, i)
		}
	}
	return out
}

// Every address is checked once per interval, evenly, never late, and in the first second for the first time.
func TestOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5000
		f := &fake{took: 3 * time.Second}
		began := time.Now()
		_, stop := start(t, Config{Plan: plan(n, 1, f)})
		time.Sleep(120 * time.Second)
		synctest.Wait()
		stop()
		perSecond := map[int64]int{}
		for i := range n {
			times := f.times(address(i))
			if d := times[0].Sub(began); d > firstRound+least {
				t.Fatalf("first check of %d after %s", i, d)
			}
			for k := 1; k < len(times); k++ {
				d := times[k].Sub(times[k-1])
				if k > 1 && (d < 8900*time.Millisecond || d > 11100*time.Millisecond) || d < 4*time.Second || d > 16*time.Second {
					t.Fatalf("check %d of %d came %s after the one before", k, i, d)
				}
				if at := times[k].Sub(began); at > 20*time.Second && at < 110*time.Second {
					perSecond[int64(at/time.Second)]++
				}
			}
			if len(times) < 11 || len(times) > 14 {
				t.Fatalf("%d checks of %d in 120 s", len(times), i)
			}
		}
		for s, k := range perSecond {
			if k < 350 || k > 650 { // the standard deviation is 21
				t.Errorf("%d checks in second %d, want about 500", k, s)
			}
		}
	})
}

// Probes that all take their whole time make no other late.
func TestAllTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: time.Hour}
		_, stop := start(t, Config{Plan: plan(2000, 1, f)})
		time.Sleep(100 * time.Second)
		synctest.Wait()
		stop()
		for i := range 2000 {
			times := f.times(address(i))
			for k := 2; k < len(times); k++ {
				if d := times[k].Sub(times[k-1]); d > 12*time.Second {
					t.Fatalf("check %d of %d came %s after the one before", k, i, d)
				}
			}
		}
	})
}

// Down after fall faults in a row, up after rise good ones, and nothing in between.
func TestFallAndRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := func(n int) bool { return n >= 4 && n < 20 }
		f := &fake{result: func(_ netip.Addr, n int) error {
			if bad(n) {
				return errBad
			}
			return nil
		}}
		m, stop := start(t, Config{Plan: plan(1, 1, f)})
		defer stop()
		var seen []string
		was := ""
		for range 4000 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			s := fmt.Sprintf("%v after %d", downs(m), len(f.times(address(0))))
			if state := fmt.Sprint(downs(m)); state != was {
				was = state
				seen = append(seen, s)
			}
		}
		if diff := cmp.Diff([]string{"[] after 0", "[0] after 7", "[] after 25"}, seen); diff != "" {
			t.Error(diff)
		}
	})
}

// H05: one fault in three, or every other one, flaps nothing.
func TestPatterns(t *testing.T) {
	for _, every := range []int{2, 3} {
		t.Run(fmt.Sprintf("one in %d", every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{result: func(_ netip.Addr, n int) error {
					if n%every == 1 {
						return errBad
					}
					return nil
				}}
				m, stop := start(t, Config{Plan: plan(1, 1, f)})
				defer stop()
				for range 600 {
					time.Sleep(time.Second)
					synctest.Wait()
					if d := downs(m); d != nil {
						t.Fatalf("down after %d checks", len(f.times(address(0))))
					}
				}
				if n := len(f.times(address(0))); n < 50 {
					t.Fatalf("%d checks only", n)
				}
			})
		})
	}
}

// A verdict wavers from the first check that says otherwise until it has changed, or the checks are at one with it again.
func TestWavers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fake{result: func(_ netip.Addr, n int) error {
			if n >= 2 && n < 6 || n == 20 {
				return errBad
			}
			return nil
		}}
		p := plan(1, 1, c)
		m, stop := start(t, Config{Plan: p})
		defer stop()
		var last pops.Verdict
		var seen []string
		for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
			select {
			case <-m.Changed():
			default:
				continue
			}
			if v := m.Verdicts(p.fleet)[0]; v.Down != last.Down || v.Wavers != last.Wavers {
				seen = append(seen, fmt.Sprintf("%d: down %v, wavers %v", len(c.times(address(0))), v.Down, v.Wavers))
				last = v
			}
		}
		want := []string{
			"3: down false, wavers true", "5: down true, wavers false", // fall
			"7: down true, wavers true", "11: down false, wavers false", // rise
			"21: down false, wavers true", "22: down false, wavers false", // one failure
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Error(diff)
		}
	})
}

// That a check ends the wavering of a verdict is not told before the verdict is: what is served in between would promise a long life.
func TestWaversUntilTheVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := New(Config{Node: "n1", Plan: plan(1, 1, &fake{}), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop() // nothing is checked
		told := func() bool {
			select {
			case <-m.Changed():
				return true
			default:
				return false
			}
		}
		time.Sleep(time.Minute)
		m.step(ctx) // a look at the verdicts: the next is a tenth of a second later at the earliest
		told()
		m.mu.Lock()
		m.dirty, m.stirred = true, true
		m.mu.Unlock()
		if m.step(ctx); told() {
			t.Error("told before the verdict")
		}
		time.Sleep(quiet)
		if m.step(ctx); !told() {
			t.Error("not told with the verdict")
		}
	})
}

// A first impression of down ends with the first good probe.
func TestFirstImpression(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{result: func(_ netip.Addr, n int) error {
			if n == 0 {
				return errBad
			}
			return nil
		}}
		m, stop := start(t, Config{Plan: plan(1, 1, f)})
		defer stop()
		m.First(t.Context())
		if d := downs(m); len(d) != 1 {
			t.Errorf("down after the first round: %v", d)
		}
		time.Sleep(17 * time.Second)
		synctest.Wait()
		if d := downs(m); d != nil {
			t.Errorf("down: %v", d)
		}
	})
}

// H11: what was down before a crash is down before the first check.
func TestRestart(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pause time.Duration
		want  []int
	}{
		{"young", 9 * time.Minute, []int{1}},
		{"old", 11 * time.Minute, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				f := &fake{result: func(a netip.Addr, _ int) error {
					if a == address(1) {
						return errBad
					}
					return nil
				}}
				m, stop := start(t, Config{Plan: plan(3, 1, f), Dir: dir})
				time.Sleep(2 * time.Minute)
				stop()
				if diff := cmp.Diff([]int{1}, downs(m)); diff != "" {
					t.Fatal(diff)
				}
				time.Sleep(tt.pause)
				again, err := New(Config{Node: "n1", Plan: plan(3, 1, &fake{}), Dir: dir, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, downs(again)); diff != "" {
					t.Error(diff)
				}
				if tt.want != nil { // nothing to wait for
					began := time.Now()
					again.First(t.Context())
					if d := time.Since(began); d != 0 {
						t.Errorf("the first round took %s", d)
					}
				}
			})
		})
	}
}

// A damaged file is no verdict, and no obstacle.
func TestDamagedFile(t *testing.T) {
	for _, text := range []string{"", "{", `{"version": 99}`, "null"} {
		dir := t.TempDir()
		if err := replace(filepath.Join(dir, fileName), []byte(text)); err != nil {
			t.Fatal(err)
		}
		m, err := New(Config{Node: "n1", Plan: plan(1, 1, &fake{}), Dir: dir, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if m.restored {
			t.Errorf("%q: restored", text)
		}
	}
}

// Nothing that hangs makes the start wait longer than the timeout and a second.
func TestFirstIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stop := start(t, Config{Plan: plan(10, 2, &fake{took: time.Hour})})
		defer stop()
		began := time.Now()
		m.First(t.Context())
		if d := time.Since(began); d > 6*time.Second {
			t.Errorf("took %s", d)
		}
		if d := downs(m); len(d) != 10 {
			t.Errorf("%d are down", len(d))
		}
	})
}

// An endpoint is up while min_up of its addresses are, and a dead address is in the mask.
func TestMinUp(t *testing.T) {
	for _, tt := range []struct {
		minUp, dead int
		down        bool
		mask        uint64
	}{
		{1, 0, false, 0}, {1, 1, false, 0b001}, {1, 2, false, 0b011}, {1, 3, true, 0b111},
		{2, 1, false, 0b001}, {2, 2, true, 0b011},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := plan(1, 3, &fake{result: func(a netip.Addr, _ int) error {
				if a.Less(address(tt.dead)) {
					return errBad
				}
				return nil
			}})
			p.targets[0].minUp = tt.minUp
			m, stop := start(t, Config{Plan: p})
			defer stop()
			time.Sleep(time.Minute)
			synctest.Wait()
			v := m.Verdicts(m.plan.fleet)[0]
			if v.Down != tt.down || v.Dead != tt.mask {
				t.Errorf("min_up %d, %d of 3 dead: down %t, mask %03b", tt.minUp, tt.dead, v.Down, v.Dead)
			}
		})
	}
}

// What this node could not even try is no vote.
func TestLocalFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stop := start(t, Config{Plan: plan(1, 2, &fake{result: func(a netip.Addr, _ int) error {
			if a == address(1) {
				return &localError{"no route"}
			}
			return nil
		}})})
		defer stop()
		m.First(t.Context())
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]pops.Verdict{{Since: m.Verdicts(m.plan.fleet)[0].Since}}, m.Verdicts(m.plan.fleet)); diff != "" {
			t.Error(diff)
		}
		s := m.Status()[0]
		if a := s.Addresses[1]; a.State != "unknown" || a.Fault != "no route" {
			t.Errorf("%+v", a)
		}
	})
}

// A reload keeps what is known, checks what is new soon, and forgets what is gone.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{result: func(netip.Addr, int) error { return errBad }}
		m, stop := start(t, Config{Plan: plan(2, 1, f)})
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		since := m.Verdicts(m.plan.fleet)[0].Since
		m.Reload(plan(3, 1, f))
		if v := m.Verdicts(m.plan.fleet); !v[0].Down || v[0].Since != since || v[2].Down {
			t.Errorf("after the reload: %+v", v)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if v := m.Verdicts(m.plan.fleet); !v[2].Down {
			t.Errorf("a new endpoint was not checked: %+v", v)
		}
		m.Reload(plan(1, 1, f))
		if s := m.Status(); len(s) != 1 || len(m.reports["n1"].Votes) != 1 {
			t.Errorf("after the second reload: %+v", s)
		}
	})
}

// H06: what an operator sees of a check.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stop := start(t, Config{Plan: plan(1, 1, &fake{result: func(_ netip.Addr, n int) error {
			if n >= 2 {
				return errBad
			}
			return nil
		}})})
		defer stop()
		time.Sleep(58 * time.Second)
		synctest.Wait()
		s := m.Status()[0]
		a := s.Addresses[0]
		if !s.Down || !s.Quorum || s.Voters != 1 || s.Against != 1 || len(s.Votes) != 1 || s.Votes[0].Vote.Error != "connection refused" {
			t.Errorf("%+v", s)
		}
		if a.State != "down" || a.Fault != "connection refused" || a.Faults != a.Checks-2 || a.Run != int(a.Faults) || a.Next.Before(time.Now()) || a.Next.Sub(a.Last) > 11*time.Second {
			t.Errorf("%+v", a)
		}
	})
}

func TestProbeNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := New(Config{Node: "n1", Plan: plan(1, 2, &fake{took: time.Second, result: func(a netip.Addr, _ int) error {
			if a == address(1) {
				return errBad
			}
			return &Warning{"ends soon"}
		}})})
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.ProbeNow(t.Context(), "p0/wss")
		want := []Result{{Address: address(0), Warning: "ends soon", Took: time.Second}, {Address: address(1), Fault: "connection refused", Took: time.Second}}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || err != nil {
			t.Error(diff, err)
		}
		if _, err := m.ProbeNow(t.Context(), "p9/wss"); err == nil {
			t.Error("probed what is not checked")
		}
	})
}
