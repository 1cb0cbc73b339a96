package filters

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
)

// TestReadme loads every example of the README and checks that each filter has a section with its keys, their defaults, its metadata, and an example that uses it.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, reference, _ := strings.Cut(string(text), "\n## Filters\n")
	sections := map[string]string{}
	for part := range strings.SplitSeq(reference, "\n### ") {
		name, body, _ := strings.Cut(part, "\n")
		sections[strings.TrimSpace(name)] = body
	}
	for _, e := range Registry() {
		body := sections[e.Name]
		for _, k := range e.Keys {
			def := k.Default
			if def == "" {
				def = "required"
			}
			if !strings.Contains(body, fmt.Sprintf("| `%s` | %s |", k.Name, def)) {
				t.Errorf("section %s: no row for key %s with default %s", e.Name, k.Name, def)
			}
		}
		for _, key := range e.Reads {
			if !strings.Contains(body, "`"+key+"`") {
				t.Errorf("section %s: does not name the metadata %s", e.Name, key)
			}
		}
		used := false
		for _, chain := range examples(t, body) {
			for _, c := range chain {
				used = used || c.Name == e.Name
			}
		}
		if !used {
			t.Errorf("section %s: no example that uses it", e.Name)
		}
	}
	for _, chain := range examples(t, string(text)) {
		if problems := load(chain); len(problems) != 0 {
			t.Errorf("%v: %v", chain, problems)
		}
	}
}

// examples gives the chains of all TOML blocks of a text.
func examples(t *testing.T, text string) (chains [][]Config) {
	t.Helper()
	for i, block := range strings.Split(text, "```toml\n") {
		if i == 0 {
			continue
		}
		block, _, _ = strings.Cut(block, "```")
		var file struct {
			Zone struct {
				Record []struct {
					Filters []any
				}
			}
		}
		if _, err := toml.Decode(block, &file); err != nil {
			t.Fatalf("%v in:\n%s", err, block)
		}
		for _, r := range file.Zone.Record {
			var chain []Config
			for _, f := range r.Filters {
				c := Config{Args: map[string]any{}}
				switch f := f.(type) {
				case string:
					c.Name = f
				case map[string]any:
					for k, v := range f {
						if k == "filter" {
							c.Name = v.(string)
						} else {
							c.Args[k] = v
						}
					}
				}
				chain = append(chain, c)
			}
			chains = append(chains, chain)
		}
	}
	return chains
}

// load builds a chain over two answers that have all metadata and one that has no place.
func load(chain []Config) []Problem {
	pool := &Pool{}
	fleet := testFleet(3, 1)
	for i := range 3 {
		a := Answer{Label: fleet.PoPs[i].Name, PoP: i, Unit: pops.Unit(i), Has4: 1, Weight: num(1), Priority: num(1), Cost: num(1)}
		if i > 0 {
			a.Place = geo.Target{Countries: []geo.Country{1}, Regions: []geo.Region{geo.Europe}, ASNs: []uint32{1}, Coords: true}
			a.Place.Prefixes = append(a.Place.Prefixes, germany)
		}
		pool.Answers = append(pool.Answers, a)
	}
	_, problems := New(chain, Env{Pool: pool, Fleet: fleet, Plan: func(geo.Plan) int { return 0 },
		Record: func(string) (*Chain, *Pool, error) { return &Chain{Static: true}, pool, nil }})
	return problems
}
