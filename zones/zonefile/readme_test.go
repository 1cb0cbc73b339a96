package zonefile_test

import (
	"os"
	"strings"
	"testing"

	"github.com/edgesteer/edgesteer/zones"
)

// The example of the README is loaded without a warning.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(lang string) string {
		_, after, ok := strings.Cut(string(text), "```"+lang+"\n")
		code, _, ok2 := strings.Cut(after, "```")
		if !ok || !ok2 {
			t.Fatalf("no block of %s", lang)
		}
		return code
	}
	s := newSite(t)
	s.write("example.com.zone", block("zone"))
	set, problems := s.loadText(block("toml"), nil)
	if set == nil || problems != nil {
		t.Fatal(problems)
	}
	if r := set.Find(wireName(t, "a.assets.example.com."), 5); r.Kind != zones.Answer || r.Record == nil || !r.Wild {
		t.Errorf("%v", r.Kind)
	}
}
