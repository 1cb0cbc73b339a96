package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

func TestPositions(t *testing.T) {
	const text = `# comment
title = "x" # zone[0]
dotted.'quoted key'."esc\u0061ped" = 1
list = [ # one
  "a,]#",
  [1, 2],

  { k = "}", "l" = [
    3 ] },
]
multi = """
[not.a.table]
key = "\""" still """
raw = '''\'''
after = 1979-05-27 07:32:00 # a date with a blank

[[zone]]
name = "a"
[[zone.record]]
filters = ["up", { filter = "shuffle" },
  "sticky"]
[[zone.record]]
[zone.record.group.eu]
pop = "x"
[[zone]]
[[zone.record]]
name = "b"
`
	p := scan(text, 1, nil)
	tests := []struct {
		line int
		path []any
	}{
		{2, []any{"title"}},
		{3, []any{"dotted"}},
		{3, []any{"dotted", "quoted key"}},
		{3, []any{"dotted", "quoted key", "escaped"}},
		{4, []any{"list"}},
		{5, []any{"list", 0}},
		{6, []any{"list", 1, 1}},
		{8, []any{"list", 2, "k"}},
		{9, []any{"list", 2, "l", 0}},
		{11, []any{"multi"}},
		{14, []any{"raw"}},
		{15, []any{"after"}},
		{17, []any{"zone"}},
		{17, []any{"zone", 0}},
		{18, []any{"zone", 0, "name"}},
		{20, []any{"zone", 0, "record", 0, "filters", 1, "filter"}},
		{21, []any{"zone", 0, "record", 0, "filters", 2}},
		{22, []any{"zone", 0, "record", 1}},
		{24, []any{"zone", 0, "record", 1, "group", "eu", "pop"}},
		{25, []any{"zone", 1}},
		{27, []any{"zone", 1, "record", 0, "name"}},
		// What is not there has the line of what is around it.
		{25, []any{"zone", 1, "file"}},
		{20, []any{"zone", 0, "record", 0, "filters", 1, "N"}},
		{0, []any{"nothing"}},
		{0, nil},
	}
	for _, tt := range tests {
		if got := p.line(tt.path); got != tt.line {
			t.Errorf("line of %s = %d, want %d", Field(tt.path...), got, tt.line)
		}
	}
	if new(Config).Line("zone", 0) != 0 {
		t.Error("a configuration that was not parsed has lines")
	}
}

// unplaced lists the keys and values that the parser sees and the scanner does not.
func unplaced(p *Positions, v any, at string, path []any) (missing []string) {
	check := func(part any, v any) {
		next, nextPath := place(at, part), append(slices.Clip(path), part)
		if p.lines[next] == 0 {
			missing = append(missing, Field(nextPath...))
		}
		missing = append(missing, unplaced(p, v, next, nextPath)...)
	}
	switch v := plain(v).(type) {
	case map[string]any:
		for key, item := range v {
			check(key, item)
		}
	case []any:
		for i, item := range v {
			check(i, item)
		}
	}
	return missing
}

// FuzzPositions: the scanner finds every key and value of any text that the parser takes, and ends on any other.
func FuzzPositions(f *testing.F) {
	for _, file := range []string{"testdata/edgesteer.toml", "testdata/odd.toml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("\ufeffa=1")
	f.Add("a = [[[")
	f.Add("= = ] } \" '''")
	f.Fuzz(func(t *testing.T, text string) {
		p := scan(text, 1, nil)
		var tree map[string]any
		if _, err := toml.Decode(text, &tree); err != nil {
			return
		}
		if missing := unplaced(p, tree, "", nil); len(missing) > 0 {
			t.Errorf("no position of %s", strings.Join(missing, ", "))
		}
	})
}

func TestField(t *testing.T) {
	got := []string{Field(), Field("zone", 0, "record", 3), Field("a b", "", "c")}
	want := []string{"", "zone[0].record[3]", `"a b"."".c`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Field (-want +got):\n%s", diff)
	}
}

func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	text.WriteString(minimal + "[[zone]]\nname = \"z\"\nfile = \"z\"\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "[[zone.record]]\nname = \"w%d\"\nservice = \"s\"\nfilters = [\"up\", \"geotarget_country\", { filter = \"select_first_n\", N = 1 }]\n", i)
	}
	data := []byte(text.String())
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, ps := Parse("e.toml", data); Failed(ps) {
			b.Fatal(Problems(ps))
		}
	}
}
