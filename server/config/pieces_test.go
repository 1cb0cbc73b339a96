package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

// sample has zones of all forms, with other tables between and behind them.
const sample = `[server]
node = "a"
[[pop]]
name = "x"

[[zone]] # the first
name = "a.example"
file = "a"
  [[zone.record]]
  name = "www"
  type = "TXT"
  filters = ["up", # a comment
    { filter = "select_first_n", N = 1 }]
  [[zone.record.answer]]
  rdata = """one
[[zone]]
name = "no zone"
"""
  meta = { weight = 3, up = { feed = "f" } }
  [zone.record.group.g]
  meta = { note = "[[zone]]" }

[[tsig]]
name = "k"
secret = "AAAA"
  [["zone"]]
name = 'b.example'
file = 'b'
[zone.transfer]
allow = ["192.0.2.1"]
[[zone]]
name = "c.example"
file = "c"
[[drill]]
target = "x"
window = "Tue 10:00-11:00 UTC"
`

// same says what two results of parsing differ in.
func same(t *testing.T, what string, want *Config, wanted []Problem, got *Config, problems []Problem) {
	t.Helper()
	for _, list := range [][]Problem{wanted, problems} { // those of one line come in any order
		slices.SortFunc(list, func(a, b Problem) int { return strings.Compare(a.String(), b.String()) })
	}
	if diff := cmp.Diff(wanted, problems); diff != "" {
		t.Errorf("%s: problems (-want +got):\n%s", what, diff)
	}
	if (want == nil) != (got == nil) {
		t.Fatalf("%s: want %v, got %v", what, want, got)
	}
	if want == nil {
		return
	}
	a, b := *want, *got
	a.positions, b.positions, a.known, b.known = nil, nil, nil, nil
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%s: the configurations differ:\n%+v\n%+v", what, a, b)
	}
}

// sameLines says of which keys and values of a text two configurations know different lines.
func sameLines(t *testing.T, what, text string, want, got *Config) {
	t.Helper()
	var tree map[string]any
	if _, err := toml.Decode(text, &tree); err != nil {
		t.Fatal(err)
	}
	var walk func(v any, path []any)
	walk = func(v any, path []any) {
		if w, g := want.Line(path...), got.Line(path...); w != g {
			t.Errorf("%s: %s is in line %d, not %d", what, Field(path...), w, g)
		}
		switch v := v.(type) {
		case map[string]any:
			for key, item := range v {
				walk(item, append(slices.Clip(path), key))
			}
			walk(nil, append(slices.Clip(path), "nothing"))
		case []any:
			for i, item := range append(v, nil) {
				walk(item, append(slices.Clip(path), i))
			}
		}
	}
	walk(plain(tree), nil)
}

// whole decodes a text as one.
func whole(text string) (*Config, []Problem) {
	var t tree
	if _, err := toml.Decode(text, &t.rest); err != nil {
		return nil, []Problem{syntaxProblem("e.toml", err)}
	}
	return build("e.toml", text, t)
}

// TestParts: decoded part by part, and over another configuration, a text means what it means as one, with the same problems and the same hash.
func TestParts(t *testing.T) {
	edit := func(what, by string) string {
		t.Helper()
		if !strings.Contains(sample, what) {
			t.Fatalf("no %q in the sample", what)
		}
		return strings.Replace(sample, what, by, 1)
	}
	texts := map[string]string{
		"empty":                       "",
		"sample":                      sample,
		"byte order mark":             "\ufeff" + sample,
		"only zones":                  "[[zone]]\nname = \"a.example\"\nfile = \"a\"\n[[zone]]\nname = \"b.example\"\nfile = \"b\"",
		"lines of another system":     strings.ReplaceAll(sample, "\n", "\r\n"),
		"a record":                    edit(`"select_first_n", N = 1`, `"select_first_n", N = 2`),
		"a comment":                   edit("# the first", "# number one"),
		"a line more":                 edit("[[pop]]", "\n[[pop]]"),
		"a zone less":                 edit("[[zone]]\nname = \"c.example\"\nfile = \"c\"\n", ""),
		"a zone twice":                edit("[[drill]]", "[[zone]]\nname = \"c.example\"\nfile = \"c\"\n[[drill]]"),
		"a wrong type":                edit(`name = 'b.example'`, `name = 7`),
		"an unknown key":              edit(`file = "c"`, "file = \"c\"\nfiles = 1"),
		"an unknown key of the rest":  edit(`target = "x"`, "target = \"x\"\naim = 1"),
		"zones as one list":           "zone = [{ name = \"a.example\", file = \"a\" }]\n",
		"a list, then tables":         "zone = [{ name = \"a.example\", file = \"a\" }]\n[[zone]]\nname = \"b.example\"\n",
		"a table, then tables":        "[zone]\nname = \"a.example\"\n[[zone]]\nname = \"b.example\"\n",
		"no list":                     "zone = 3\n",
		"parts come after":            edit("[[drill]]", "[[drill]]\ntarget = \"x\"\nwindow = \"Tue 10:00-11:00 UTC\"\n[[zone.record]]\nname = \"late\"\ntype = \"TXT\"\n[[drill]]"),
		"dotted key of the rest":      "zone.name = \"a\"\n" + sample,
		"behind a value":              edit("file = \"a\"\n", "file = \"a\" [[zone]]\n"),
		"behind a value of the rest":  edit("name = \"x\"\n\n[[zone]]", "name = \"x\" [[zone]]"),
		"behind a table":              edit("name = \"x\"\n\n[[zone]]", "name = \"x\"\n[log] [[zone]]"),
		"a string without end":        edit(`file = "a"`, `file = "a`),
		"a long string without end":   edit("\"\"\"\n  meta", "\n  meta"),
		"a long string of the rest":   edit(`name = "x"`, "name = \"\"\"x\n") + `"""`,
		"a list without end":          edit(`["192.0.2.1"]`, `["192.0.2.1"`),
		"a list of the rest":          edit(`name = "x"`, "name = [\"x\",") + "]",
		"a zone's head without end":   edit("[[zone]] # the first", "[[zone] # the first"),
		"a key twice":                 edit("file = \"a\"\n", "file = \"a\"\nfile = \"b\"\n"),
		"a table twice":               edit("[[drill]]", "[server]\nnode = \"b\"\n[[drill]]"),
		"a table of a zone twice":     edit("[zone.transfer]", "[zone.transfer]\n[zone.transfer]"),
		"an empty name":               edit("[[pop]]", "[]\n[[pop]]"),
		"a null":                      edit("# the first", "# the \x00 first"),
		"no UTF-8":                    edit("# the first", "# the \xff first"),
		"an inline table over lines":  edit("{ weight = 3,", "{ weight = 3,\n"),
		"a literal string over lines": edit(`'b.example'`, "'''b.example\n[[zone]]\n'''"),
	}
	for before, text := range texts {
		want, wanted := whole(text)
		got, problems := Parse("e.toml", []byte(text))
		same(t, before, want, wanted, got, problems)
		if got == nil {
			continue
		}
		sameLines(t, before, text, want, got)
		for after, text := range texts {
			want, wanted := whole(text)
			got, problems := parse("e.toml", text, got.known)
			same(t, before+", then "+after, want, wanted, got, problems)
		}
	}
}

// TestReload: zones whose text is what it was are not decoded again, and nothing of what has changed is missed.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(sample)
	first, problems := Load(path)
	if first == nil || Failed(problems) {
		t.Fatal(problems)
	}
	write(strings.Replace(sample, `file = 'b'`, `file = 'other'`, 1))
	second, _ := first.Reload()
	if second.Zones[1].File != "other" {
		t.Errorf("the new file of a zone is not seen: %+v", second.Zones[1])
	}
	shared := func(a, b *Config, zone int) bool {
		return len(a.Zones[zone].Records) > 0 && &a.Zones[zone].Records[0] == &b.Zones[zone].Records[0]
	}
	if !shared(first, second, 0) {
		t.Error("a zone was decoded again although nothing of it has changed")
	}
	write(strings.Replace(sample, `weight = 3`, `weight = 4`, 1))
	third, _ := second.Reload()
	if got := third.Zones[0].Records[0].Answers[0].Meta["weight"]; got != int64(4) {
		t.Errorf("the new weight is not seen: %v", got)
	}
	if first.Hash() == second.Hash() || second.Hash() == third.Hash() {
		t.Error("other zones have the same hash")
	}
	// What is wrong is said again each time, at the line where it is now.
	bad := strings.Replace(sample, `name = "c.example"`, `name = "c.example"`+"\nfiles = 1", 1)
	write(bad)
	fourth, again := third.Reload()
	if len(again) != 1 || again[0].Field != "zone[2].files" {
		t.Fatal(again)
	}
	write("\n\n" + bad)
	if _, moved := fourth.Reload(); len(moved) != 1 || moved[0].Line != again[0].Line+2 {
		t.Errorf("want the problem of %v two lines on, got %v", again, moved)
	}
	write("[[zone")
	if c, problems := fourth.Reload(); c != nil || !Failed(problems) {
		t.Errorf("a damaged file: %v", problems)
	}
}

// FuzzParts: any text means the same in parts and over another one as it means as one.
func FuzzParts(f *testing.F) {
	for _, file := range []string{"testdata/edgesteer.toml", "testdata/odd.toml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(sample)
	f.Add("a = \"\"\"\n[[zone]]\n\"\"\" \n [[zone]]\nname = '''\n[b]'''\n[[zone.record]]\n[b]\n")
	before, _ := Parse("e.toml", []byte(sample))
	f.Fuzz(func(t *testing.T, text string) {
		want, wanted := whole(text)
		got, problems := parse("e.toml", text, before.known)
		same(t, "parts", want, wanted, got, problems)
		if got != nil {
			sameLines(t, "parts", text, want, got)
		}
	})
}

// BenchmarkReload reads 10,000 zones with a steered record each: all of them, and after one of them has changed.
func BenchmarkReload(b *testing.B) {
	var text strings.Builder
	text.WriteString("[server]\nnode = \"a\"\n[[service]]\nname = \"s\"\n")
	for z := range 10_000 {
		fmt.Fprintf(&text, "[[zone]]\nname = \"z%d.example\"\nfile = \"z%d\"\n[[zone.record]]\nname = \"www\"\nservice = \"s\"\nttl = %d\nfilters = [\"up\", \"shed_load\", \"geotarget_country\", { filter = \"select_first_n\", N = 1 }]\n", z, z, 30+z)
	}
	texts := [2]string{text.String(), strings.Replace(text.String(), "ttl = 77\n", "ttl = 7\n", 1)}
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			parse("e.toml", texts[0], nil)
		}
	})
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		c, _ := parse("e.toml", texts[0], nil)
		for n := 1; b.Loop(); n++ {
			c, _ = parse("e.toml", texts[n%2], c.known)
		}
	})
}
