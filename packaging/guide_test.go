package packaging

import (
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/edgesteer/edgesteer/cmd/edgesteer/cli"
	"github.com/edgesteer/edgesteer/filters"
)

// documents are what people read here.
func documents(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*.md", "*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, files...)
	}
	if len(out) < 7 {
		t.Fatalf("documents: %v", out)
	}
	return out
}

// shellWords splits a line as a shell does, up to the first pipe, redirection or comment.
func shellWords(line string) (out []string) {
	for _, m := range regexp.MustCompile(`"[^"]*"|'[^']*'|[^\s]+`).FindAllString(line, -1) {
		if slices.Contains([]string{"|", ">", "&&", ";", "#"}, m) {
			break
		}
		out = append(out, strings.Trim(m, `"'`))
	}
	return out
}

// TestCommands: every command of edgesteer in the documents exists and takes the arguments and flags that it is given there.
func TestCommands(t *testing.T) {
	block := regexp.MustCompile(`(?m)^\s*\$ (?:sudo )?((?:\./)?edgesteer .*)$|\| (edgesteer import ns1 -.*)$`)
	inline := regexp.MustCompile("`(edgesteer [a-z][^`]*)`")
	found := 0
	for _, file := range documents(t) {
		text := read(t, file)
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			parses(t, file, shellWords(m[1]+m[2]))
			found++
		}
		for _, m := range inline.FindAllStringSubmatch(text, -1) { // these may leave arguments out
			words := shellWords(m[1])
			c, rest, err := cli.Command().Find(words[1:])
			if err != nil || !c.HasParent() {
				t.Errorf("%s: %q is no command: %v", file, m[1], err)
			} else if err := c.ParseFlags(rest); err != nil {
				t.Errorf("%s: %q: %v", file, m[1], err)
			}
			found++
		}
	}
	if found < 40 {
		t.Errorf("found %d commands", found)
	}
}

// anchors are the headings of a document as links name them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^#+ (.+)$").FindAllStringSubmatch(text, -1) {
		slug := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		out[regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(slug, "")] = true
	}
	return out
}

// TestLinks: what the guide links to is there, headings too.
func TestLinks(t *testing.T) {
	for _, file := range documents(t) {
		if filepath.Dir(file) != "guide" && filepath.Dir(file) != "." {
			continue
		}
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(read(t, file), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			checkLink(t, file, filepath.Dir(file), m[1])
		}
	}
}

// checkLink reports a link, relative to a folder, to what is not there.
func checkLink(t *testing.T, from, dir, link string) {
	t.Helper()
	name, anchor, _ := strings.Cut(link, "#")
	target := filepath.Join(dir, name)
	if name == "" {
		target = from
	}
	if _, err := os.Stat(target); err != nil {
		t.Errorf("%s: %s: %v", from, link, err)
	} else if anchor != "" && !anchors(read(t, target))[anchor] {
		t.Errorf("%s: %s: there is no such heading", from, link)
	}
}

// TestRunbook: every alert links to a heading of its own, named like it.
func TestRunbook(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "prometheus/edgesteer.alerts.yml")), &rules); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			found++
			u, err := url.Parse(r.Annotations["runbook_url"])
			_, file, ok := strings.Cut(u.Path, "/blob/main/")
			if err != nil || !ok || u.Fragment != strings.ToLower(r.Alert) {
				t.Errorf("%s links to %q", r.Alert, r.Annotations["runbook_url"])
				continue
			}
			checkLink(t, "prometheus/edgesteer.alerts.yml", "..", path.Join(file)+"#"+u.Fragment)
		}
	}
	if found == 0 {
		t.Error("there are no alerts")
	}
}

// TestMetrics: the documents name metrics that exist.
func TestMetrics(t *testing.T) {
	known := read(t, "prometheus/METRICS.md")
	for _, file := range documents(t) {
		for _, m := range regexp.MustCompile("`(edgesteer_[a-z_]+)").FindAllStringSubmatch(read(t, file), -1) {
			if !strings.Contains(known, "`"+m[1]) {
				t.Errorf("%s: there is no metric %s", file, m[1])
			}
		}
	}
}

// TestMigration: the table of filters has each that exists, and each that the import refuses.
func TestMigration(t *testing.T) {
	cells := map[string]bool{}
	for line := range strings.Lines(read(t, "guide/ns1.md")) {
		if strings.HasPrefix(line, "| ") {
			columns := strings.SplitN(line, " | ", 3)
			for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(strings.Join(columns[:min(2, len(columns))], " "), -1) {
				cells[m[1]] = true
			}
		}
	}
	for _, e := range filters.Registry() {
		if !cells[e.Name] {
			t.Errorf("the table says nothing of %s", e.Name)
		}
	}
	for _, name := range []string{"pulsar", "pulse", "ipv4_prefix_shuffle", "parse_ipv4", "additional_metadata"} {
		if !cells[name] {
			t.Errorf("the table says nothing of %s; it has %v", name, slices.Sorted(maps.Keys(cells)))
		}
	}
}
