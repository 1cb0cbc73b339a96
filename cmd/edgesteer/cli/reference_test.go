package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/app/demo"
)

//go:generate go test -run ^TestReference$ . -update

const begin, end = "<!-- commands: made by go generate from the code -->\n", "<!-- end of commands -->\n"

func testRoot() *cobra.Command {
	return newRoot(newStreams(strings.NewReader(""), new(strings.Builder), new(strings.Builder)))
}

// TestReference holds the README's reference to the commands; -update writes it.
func TestReference(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(readme), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("README.md has no place for the commands")
	}
	var b strings.Builder
	for _, c := range testRoot().Commands() {
		if c.Hidden {
			continue
		}
		section(&b, c, "edgesteer "+c.Use)
		if c.Name() == "simulate" {
			continue // of commands that have a section
		}
		for _, sub := range c.Commands() {
			section(&b, sub, "edgesteer "+c.Name()+" "+sub.Use)
		}
	}
	if updating() {
		if err := os.WriteFile("README.md", []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(b.String(), old); diff != "" {
		t.Errorf("README.md is not what the commands say; run: go generate ./cmd/edgesteer/cli\n(-commands +README):\n%s", diff)
	}
}

// section is what a command says of itself.
func section(b *strings.Builder, c *cobra.Command, title string) {
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(b, "### %s\n\n%s\n\n", title, text)
	if c.HasExample() {
		fmt.Fprintf(b, "```%s\n```\n\n", strings.ReplaceAll("\n"+c.Example, "\n  ", "\n"))
	}
	if flags := c.LocalFlags().FlagUsagesWrapped(0); flags != "" && c.Runnable() {
		fmt.Fprintf(b, "```\n%s```\n\n", flags)
	}
}

// Every command in the READMEs exists and takes the flags that it is given there.
func TestReadmeCommands(t *testing.T) {
	line := regexp.MustCompile(`(?m)^(?:\$ )?(?:go run \./cmd/)?edgesteer ([a-z].*)$`)
	for _, file := range []string{"README.md", "../../../README.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := line.FindAllStringSubmatch(strings.ReplaceAll(string(text), begin, ""), -1)
		if len(found) == 0 {
			t.Errorf("%s shows no command", file)
		}
		for _, m := range found {
			if strings.HasPrefix(m[1], "is ") || strings.HasPrefix(m[1], "answers ") {
				continue // prose, and what the demo prints
			}
			cmd, args, err := testRoot().Find(strings.Fields(m[1]))
			if err != nil || !cmd.HasParent() {
				t.Errorf("%s: %q is no command: %v", file, m[1], err)
			} else if err := cmd.ParseFlags(args); err != nil {
				t.Errorf("%s: %q: %v", file, m[1], err)
			}
		}
	}
}

// The cases in the README pass in the demo.
func TestReadmeCases(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```toml\n")
	cases, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("README.md shows no cases")
	}
	t.Setenv("TMPDIR", t.TempDir())
	cfg, err := demo.Config("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "steering.toml")
	if err := os.WriteFile(file, []byte(cases), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	if code := Main([]string{"test", file, "--config", cfg.File}, strings.NewReader(""), &out, &errs); code != exitDone {
		t.Errorf("exit code %d\n%s%s", code, &out, &errs)
	}
}
