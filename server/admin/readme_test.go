package admin

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/edgesteer/edgesteer/server/api"
)

// TestReadme checks the README's tables against the code, and runs its example.
func TestReadme(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(data)
	f := newFixture(t)
	for _, r := range routes() {
		who := strings.ReplaceAll(r.allow.String(), " or ", ", ")
		switch r.allow {
		case readers:
			who = "all roles"
		case nobody:
			who = "everybody"
		}
		if row := "| `" + r.name() + "` | " + who + " |"; !strings.Contains(readme, row) {
			t.Errorf("no row %s", row)
		}
	}
	if rows := len(regexp.MustCompile("(?m)^\\| `(GET|POST) ").FindAllString(readme, -1)); rows != len(routes()) {
		t.Errorf("%d rows for %d routes", rows, len(routes()))
	}
	body := regexp.MustCompile(`-d '([^']+)'`).FindStringSubmatch(readme)[1]
	done := f.change(t, f.unix, "/v1/drains", "", strings.ReplaceAll(body, "eu-west-1", "fra"))
	if s := done.Statements[0]; s.By != 37 || s.Ramp.Over.String() != "10m" || done.Schema != api.Schema {
		t.Errorf("%+v", s)
	}
}
