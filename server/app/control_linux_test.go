package app

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// manyZones is a server that has loaded n zones, all at one time.
func manyZones(t *testing.T, n int, at time.Time) *App {
	t.Helper()
	cfg := &config.Config{Dir: "/etc/edgesteer"}
	var list []*zones.Zone
	for i := range n {
		name := fmt.Sprintf("Zone%d.example", i)
		apex, err := wire.ParseName(name)
		if err != nil {
			t.Fatal(err)
		}
		apex = wire.ToLower(nil, apex)
		b := zones.NewBuilder(apex)
		b.Add(apex, 6, 60, slices.Concat(apex, apex, make([]byte, 20))) // SOA
		b.Add(apex, 2, 60, apex)                                        // NS
		z, faults := b.Build()
		if z == nil {
			t.Fatal(faults)
		}
		list = append(list, z)
		cfg.Zones = append(cfg.Zones, config.Zone{Name: name, File: fmt.Sprint("z", i)})
	}
	a := &App{parts: &parts{cfg: cfg, zones: zones.New(list, nil)}}
	a.noteZones(nil, at)
	return a
}

// processorTime is what the thread of a function has used of a processor: what others use meanwhile does not count.
func processorTime(t *testing.T, f func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var from, to unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &from); err != nil {
		t.Fatal(err)
	}
	f()
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &to); err != nil {
		t.Fatal(err)
	}
	return time.Duration(to.Nano() - from.Nano())
}

// TestZoneList: every zone is listed with its file, and the time that it takes grows with the zones, not with their square: each scrape of the metrics asks for the list.
func TestZoneList(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	least := func(n int) time.Duration {
		a := manyZones(t, n, at)
		best := time.Hour
		for range 5 {
			var list []api.ZoneInfo
			best = min(best, processorTime(t, func() { list = a.zoneList() }))
			if len(list) != n {
				t.Fatalf("%d zones of %d", len(list), n)
			}
			for _, z := range list {
				var i int
				if _, err := fmt.Sscanf(z.Name, "zone%d.example.", &i); err != nil || z.Source != fmt.Sprintf("/etc/edgesteer/z%d", i) || z.Secondary || !z.Loaded.Equal(at) {
					t.Fatalf("%+v", z)
				}
			}
		}
		return best
	}
	few, many := least(500), least(20_000)
	t.Logf("500 zones take %v, 20,000 take %v", few, many)
	if many > 1000*few { // 40 times as long, and up to 170 since they do not fit the caches; more than 1600 times if each zone were searched for
		t.Errorf("500 zones take %v, 20,000 take %v", few, many)
	}
}
