package zonefile_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/zonefile"
)

// TestLoader: what has not changed is taken over from the set that is served, and what was warned of is warned of again.
func TestLoader(t *testing.T) {
	s := newSite(t)
	s.write("plain", zoneText+"dup A 192.0.2.1\ndup A 192.0.2.1\n")
	s.write("included", "host A 192.0.2.7\n")
	s.write("including", zoneText+"$INCLUDE included\n")
	s.write("steered", zoneText)
	zone := func(name, records string) string {
		return fmt.Sprintf("[[zone]]\nname = \"%s.example\"\nfile = %q\n", name, name) + records
	}
	text := start + fleetText + zone("plain", "") + zone("including", "") + zone("steered", wssRecord+"filters = [\"up\"]\n")
	var loader zonefile.Loader
	load := func(text string, prev *zones.Set) (*zones.Set, []string) {
		t.Helper()
		cfg, problems := config.Parse(filepath.Join(s.dir, "edgesteer.toml"), []byte(text))
		if config.Failed(problems) {
			t.Fatal(problems)
		}
		fleet, _ := zonefile.Fleet(cfg)
		set, problems := loader.Load(cfg, fleet, prev)
		return set, s.texts(problems)
	}
	// kept says which zones two sets share.
	kept := func(a, b *zones.Set) (names string) {
		t.Helper()
		if a == nil || b == nil {
			t.Fatal("no set")
		}
		for z := range b.Zones() {
			if a.Zone(z.Apex()) == z {
				names += strings.TrimSuffix(z.String(), ".example.") + " "
			}
		}
		return names
	}
	first, warned := load(text, nil)
	if len(warned) != 1 || !strings.HasPrefix(warned[0], "plain:") {
		t.Fatal(warned)
	}
	again, problems := load(text, first)
	if got := kept(first, again); got != "including plain steered " {
		t.Errorf("nothing has changed, kept are %q", got)
	}
	if diff := cmp.Diff(warned, problems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.write("included", "host A 192.0.2.8\n")
	next, _ := load(text, again)
	if got := kept(again, next); got != "plain steered " {
		t.Errorf("an included file has changed, kept are %q", got)
	}
	third, problems := load(strings.Replace(text, `filters = ["up"]`, `filters = ["up", "shuffle"]`, 1), next)
	if got := kept(next, third); got != "including plain " {
		t.Errorf("a record has changed, kept are %q", got)
	}
	edge := third.Zone(wireName(t, "steered.example."))
	if len(edge.Records()) == 0 || len(edge.Records()[0].Chain.Steps) != 2 || edge.Find(wireName(t, "static.steered.example."), 1).Kind != zones.Answer {
		t.Error("the zone of the changed record is not what it should be")
	}
	if diff := cmp.Diff(warned, problems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A zone that comes from elsewhere meanwhile is not what the loader knows.
	cfg, _ := config.Parse(filepath.Join(s.dir, "edgesteer.toml"), []byte(text))
	fleet, _ := zonefile.Fleet(cfg)
	other, _ := zonefile.Load(cfg, fleet, nil)
	fourth, _ := load(text, other)
	if got := kept(other, fourth); got != "" {
		t.Errorf("taken over unseen: %q", got)
	}
	s.write("plain", "broken\n")
	fifth, problems := load(text, fourth)
	if got := fifth.Zone(wireName(t, "plain.example.")); got == nil || got.Serial() != first.Zone(wireName(t, "plain.example.")).Serial() || len(problems) < 2 {
		t.Error(problems)
	}
	s.write("plain", zoneText)
	if sixth, problems := load(text, fifth); len(problems) > 0 || kept(fifth, sixth) != "including steered " {
		t.Errorf("a mended file: %v, kept are %q", problems, kept(fifth, sixth))
	}
}

// BenchmarkLoad loads 1,000,000 names in 10,000 zones, then loads them again after one file has changed. The heap is what a set of them holds.
func BenchmarkLoad(b *testing.B) {
	s := site{b.TempDir(), b}
	var text strings.Builder
	text.WriteString(start)
	for z := range 10_000 {
		var zone strings.Builder
		zone.WriteString("@ 3600 SOA ns admin 1 7200 900 1209600 300\n@ 3600 NS ns\nns 300 A 192.0.2.1\n")
		for n := range 98 {
			fmt.Fprintf(&zone, "host%d 300 A 198.51.100.%d\n", n, n)
		}
		s.write(fmt.Sprint("z", z), zone.String())
		fmt.Fprintf(&text, "[[zone]]\nname = \"z%d.example\"\nfile = \"z%d\"\n", z, z)
	}
	cfg, problems := config.Parse(filepath.Join(s.dir, "edgesteer.toml"), []byte(text.String()))
	if config.Failed(problems) {
		b.Fatal(problems)
	}
	fleet, _ := zonefile.Fleet(cfg)
	var loader zonefile.Loader
	var set *zones.Set
	b.Run("all", func(b *testing.B) {
		before := heap()
		for b.Loop() {
			set, problems = new(zonefile.Loader).Load(cfg, fleet, nil)
		}
		if set == nil {
			b.Fatal(problems)
		}
		b.ReportMetric(float64(heap()-before)/1e6, "MB")
	})
	b.Run("one", func(b *testing.B) {
		set, problems = loader.Load(cfg, fleet, nil)
		n := 1
		for b.Loop() {
			n++
			s.write("z77", fmt.Sprintf("@ 3600 SOA ns admin %d 7200 900 1209600 300\n@ 3600 NS ns\nns 300 A 192.0.2.1\n", n))
			if set, problems = loader.Load(cfg, fleet, set); set == nil {
				b.Fatal(problems)
			}
		}
	})
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestLoaderRecords: a zone is built again when something changes that its steered records are made of, and only then. What there is to warn of is said each time, at the line where it
// is now.
func TestLoaderRecords(t *testing.T) {
	s := newSite(t)
	s.write("zone", zoneText)
	const up = "filters = [\"up\"]\n"
	one := "[[zone]]\nname = \"one.example\"\nfile = \"zone\"\n" + wssRecord + up
	slow := strings.Replace(wssRecord, "ttl = 30", "ttl = 300", 1) + up
	two := "[[zone]]\nname = \"two.example\"\nfile = \"zone\"\n" + slow + strings.Replace(wssRecord, "\"s\"", "\"t\"", 1) + up + "meta = { note = { feed = \"f\", value = \"x\" }, weight = 1 }\n"
	three := "[[zone]]\nname = \"three.example\"\nfile = \"zone\"\n" + slow
	base := start + fleetText
	all := base + one + two + three
	said := func(text string) map[string]any { return map[string]any{"f": text} }
	for _, tt := range []struct {
		name, text string
		says       map[string]any
		kept       string
		warned     []string // of lines and words of what was warned of
	}{
		{"nothing", all, nil, "one three two", []string{"two: 300 s", "two: weight"}},
		{"a comment before all", "# new\n" + all, nil, "one three two", []string{"two: 300 s", "two: weight"}},
		{"the order of zones", base + three + two + one, nil, "one three two", []string{"three: 300 s", "two: weight"}},
		{"a zone that was the first to be warned of", base + one + three, nil, "one three", []string{"three: 300 s"}},
		{"a record that becomes like others", base + strings.Replace(one, wssRecord+up, slow, 1) + two + three, nil, "three two", []string{"one: 300 s", "two: weight"}},
		{"a record", strings.Replace(all, "ttl = 300", "ttl = 200", 1), nil, "one three", []string{"two: 200 s", "three: 300 s", "two: weight"}},
		{"a filter's key", strings.Replace(all, up, `filters = ["up", { filter = "select_first_n", N = 2 }]`+"\n", 1), nil, "three two", []string{"two: 300 s", "two: weight"}},
		{"a capacity", strings.Replace(all, "capacity = 100", "capacity = 90", 1), nil, "", []string{"two: 300 s", "two: weight"}},
		{"a place", strings.Replace(all, "8.7", "8.8", 1), nil, "", []string{"two: 300 s", "two: weight"}},
		{"a watermark", strings.Replace(all, "low_watermark = 10", "low_watermark = 11", 1), nil, "", []string{"two: 300 s", "two: weight"}},
		{"a check", strings.Replace(all, "[service.at.fra]", "check = { kind = \"tcp\", port = 443 }\n[service.at.fra]", 1), nil, "one three two", []string{"two: 300 s", "two: weight"}},
		{"a feed of another record", all + "meta = { cost = { feed = \"a\" } }\n", nil, "", []string{"two: 300 s", "two: weight", "three: 300 s", "three: cost"}},
		{"what a feed says", all, said("y"), "one three", []string{"two: 300 s", "two: weight"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var loader zonefile.Loader
			load := func(text string, says map[string]any, prev *zones.Set) (*zones.Set, []config.Problem) {
				t.Helper()
				cfg, problems := config.Parse(filepath.Join(s.dir, "edgesteer.toml"), []byte(text))
				if config.Failed(problems) {
					t.Fatal(problems)
				}
				cfg = cfg.Bind(says)
				fleet, _ := zonefile.Fleet(cfg)
				set, problems := loader.Load(cfg, fleet, prev)
				if set == nil {
					t.Fatal(problems)
				}
				return set, problems
			}
			first, _ := load(all, nil, nil)
			second, problems := load(tt.text, tt.says, first)
			var kept []string
			for z := range second.Zones() {
				if first.Zone(z.Apex()) == z {
					kept = append(kept, strings.TrimSuffix(z.String(), ".example."))
				}
			}
			if got := strings.Join(kept, " "); got != tt.kept {
				t.Errorf("kept are %q, want %q", got, tt.kept)
			}
			lines := strings.Split(tt.text, "\n")
			if len(problems) != len(tt.warned) {
				t.Errorf("want %q, got %v", tt.warned, problems)
			}
			for _, want := range tt.warned {
				zone, words, _ := strings.Cut(want, ": ")
				if !slices.ContainsFunc(problems, func(p config.Problem) bool {
					within := ""
					for _, line := range lines[:p.Line] {
						if name, ok := strings.CutSuffix(strings.TrimPrefix(line, `name = "`), `.example"`); ok {
							within = name
						}
					}
					return p.Warning && within == zone && strings.Contains(p.Message, words)
				}) {
					t.Errorf("nothing warns of %q: %v", want, problems)
				}
			}
			if a, b := second.Zone(wireName(t, "three.example.")), second.Zone(wireName(t, "one.example.")); strings.HasSuffix(tt.name, "like others") && a.Records()[0].Pool != b.Records()[0].Pool {
				t.Error("records that differ in their names only do not share their answers")
			}
			if third, again := load(tt.text, tt.says, second); third.Len() != second.Len() || cmp.Diff(problems, again) != "" {
				t.Errorf("once more: %s", cmp.Diff(problems, again))
			}
		})
	}
}

// TestLoaderTwin: after any changes a Loader that has seen all versions makes what one makes that has seen none, and warns of the same.
func TestLoaderTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 9))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	s := newSite(t)
	file := func() string {
		return zoneText + pick("", "www A 192.0.2.1\n", "dup A 192.0.2.1\ndup A 192.0.2.1\n", "$INCLUDE included\n", "target A 192.0.2.3\n")
	}
	record := func(i int) string {
		text := fmt.Sprintf("[[zone.record]]\nname = \"r%d\"\n", i)
		chain := "filters = " + pick(`["up"]`, `["up", "geotarget_latlong"]`, `["up", "shed_load", "geotarget_country", { filter = "select_first_n", N = 1 }]`, `[]`, `["up", "weighted_shuffle"]`) + "\n"
		if i == 2 && r.IntN(2) == 0 {
			chain = "filters = [\"up\", { filter = \"avoid_record\", record = \"r1\" }, { filter = \"select_first_n\", N = 1 }]\n"
		}
		ttl := pick("", "ttl = 300\n", "ttl = 30\n")
		if r.IntN(4) == 0 {
			return text + "type = \"CNAME\"\n" + ttl + chain + "[[zone.record.answer]]\nrdata = \"" + pick("target", "nowhere", "static") + "\"\npop = \"fra\"\nmeta = { up = true, note = { feed = \"n\" } }\n"
		}
		return text + "service = \"wss\"\n" + ttl + pick("", "", "", "meta = { cost = 3 }\n", "meta = { weight = { feed = \"w\" } }\n", "meta = { country = { feed = \"c\", value = \"DE\" } }\n") + chain
	}
	zone := func() string {
		text := ""
		for i := range r.IntN(4) {
			text += record(i)
		}
		return text
	}
	fleet, says := fleetText, map[string]any{}
	bodies := make([]string, 4)
	for i := range bodies {
		s.write(fmt.Sprint("z", i), file())
		bodies[i] = zone()
	}
	s.write("included", "in A 192.0.2.1\n")
	order := r.Perm(len(bodies))
	var loader zonefile.Loader
	var prev *zones.Set
	kept := 0
	all := cmp.Exporter(func(reflect.Type) bool { return true })
	for step := range 300 {
		switch r.IntN(12) {
		case 0:
			fleet = strings.Replace(fleetText, "8.7", pick("8.7", "8.8", "8.9"), 1)
		case 1:
			fleet = strings.Replace(fleetText, "weight = 3", pick("weight = 3", "weight = { feed = \"a\" }"), 1)
		case 2:
			says = map[string]any{"c": pick("FR", "DE"), "n": pick("x", "y")}
		case 3:
			r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		case 4:
			order = r.Perm(len(bodies))[:1+r.IntN(len(bodies))]
		case 5, 6:
			s.write(fmt.Sprint("z", r.IntN(len(bodies))), file())
		case 7:
			s.write("included", fmt.Sprintf("in A 192.0.2.%d\n", r.IntN(3)))
		default:
			bodies[r.IntN(len(bodies))] = zone()
		}
		text := start + fleet
		for _, i := range order {
			text += fmt.Sprintf("[[zone]]\nname = \"z%d.example\"\nfile = \"z%d\"\n%s", i, i, bodies[i])
		}
		cfg, problems := config.Parse(filepath.Join(s.dir, "edgesteer.toml"), []byte(text))
		if config.Failed(problems) {
			t.Fatal(problems)
		}
		cfg = cfg.Bind(says)
		f, problems := zonefile.Fleet(cfg)
		if config.Failed(problems) {
			t.Fatal(problems)
		}
		want, wanted := zonefile.Load(cfg, f, prev)
		got, warned := loader.Load(cfg, f, prev)
		if a, b := s.texts(wanted), s.texts(warned); !slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))) {
			t.Fatalf("step %d: problems (-want +got):\n%s", step, cmp.Diff(a, b))
		}
		if want == nil || got == nil {
			if want != nil || got != nil {
				t.Fatalf("step %d: refused by one: %v %v", step, want, got)
			}
			continue
		}
		if !reflect.DeepEqual(want.Plans(), got.Plans()) || want.Len() != got.Len() {
			t.Fatalf("step %d: %d plans of %d zones, want %d of %d", step, len(got.Plans()), got.Len(), len(want.Plans()), want.Len())
		}
		for z := range want.Zones() {
			other := got.Zone(z.Apex())
			if other == nil || !z.Same(other) {
				t.Fatalf("step %d: zone %s is not what it should be", step, z)
			}
			if diff := cmp.Diff(z.Records(), other.Records(), all, cmpopts.EquateNaNs()); diff != "" {
				t.Fatalf("step %d: zone %s (-want +got):\n%s", step, z, diff)
			}
			if prev != nil && prev.Zone(z.Apex()) == other {
				kept++
			}
		}
		prev = got
	}
	if kept < 300 {
		t.Errorf("only %d zones were taken over", kept)
	}
}
