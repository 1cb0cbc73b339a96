package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadDocument(t *testing.T) {
	type entry struct {
		Name  string             `toml:"name" need:"true"`
		Share map[string]Percent `toml:"share"`
		Count *int               `toml:"count" range:"0..9"`
	}
	type file struct {
		Entries []entry `toml:"entry"`
	}
	path := filepath.Join(t.TempDir(), "f.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[[entry]]\nname = \"a\"\nshare = { x = \"37%\" }\n\n[[entry]]\nname = \"b\"\n  [entry.share]\n  y = \"1%\"\n")
	var got file
	doc, problems := ReadDocument(path, &got)
	if problems != nil {
		t.Fatal(problems)
	}
	want := file{[]entry{{Name: "a", Share: map[string]Percent{"x": 37}}, {Name: "b", Share: map[string]Percent{"y": 1}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if got := doc.Line("entry", 1, "share", "y"); got != 8 {
		t.Errorf("y is on line %d, want 8", got)
	}
	if got, want := doc.Problem("wrong", "", "entry", 1).String(), path+":5: entry[1]: wrong"; got != want {
		t.Errorf("problem %q, want %q", got, want)
	}

	write("[[entry]]\nnaem = \"a\"\ncount = 10\n")
	_, problems = ReadDocument(path, new(file))
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.String())
	}
	wantTexts := []string{
		path + ":1: entry[0]: name is missing",
		path + ":2: entry[0].naem: unknown key (hint: did you mean \"name\"?)",
		path + ":3: entry[0].count: 10 is out of range (hint: from 0 to 9)",
	}
	if diff := cmp.Diff(wantTexts, texts); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}

	write("[entry\n")
	if doc, problems := ReadDocument(path, new(file)); doc != nil || len(problems) != 1 {
		t.Errorf("no TOML: %v, %v", doc, problems)
	}
	if doc, problems := ReadDocument(path+".none", new(file)); doc != nil || len(problems) != 1 {
		t.Errorf("no file: %v, %v", doc, problems)
	}
}
