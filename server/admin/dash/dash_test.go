package dash

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
)

// TestVendored: what is of others is what its sums say, and nothing is there that has none.
func TestVendored(t *testing.T) {
	sums, err := files.ReadFile("vendored/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want[name] = sum
	}
	list, err := files.ReadDir("vendored")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if f.Name() == "SHA256SUMS" {
			continue
		}
		data, err := files.ReadFile("vendored/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want[f.Name()] {
			t.Errorf("%s is not what its sum says", f.Name())
		}
		delete(want, f.Name())
	}
	for name := range want {
		t.Errorf("%s is not there", name)
	}
}

// TestPolicy: nothing in the templates would need an exception from the content policy, and nothing is fetched from elsewhere.
func TestPolicy(t *testing.T) {
	list, err := files.ReadDir("templates")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		text, err := files.ReadFile("templates/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{`\sstyle=`, `<style`, `\son[a-z]+=`, `<script>`, `hx-on`, `(src|href|action)="(https?:)?//`, `javascript:`} {
			if found := regexp.MustCompile(bad).FindString(string(text)); found != "" {
				t.Errorf("%s: %s", f.Name(), found)
			}
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || !strings.HasPrefix(policy, "default-src 'none'; ") {
		t.Error(policy)
	}
}

func TestProject(t *testing.T) {
	for _, test := range []struct {
		name                string
		latitude, longitude float64
		x                   float64 // of 1000
	}{
		{"Greenwich", 51.5, 0, 500},
		{"the equator's west end", 0, -180, 0},
		{"the equator's east end", 0, 180, 1000},
		{"half way east", 0, 90, 750},
	} {
		if x, y := project(test.latitude, test.longitude); math.Abs(x-test.x) > 0.01 || y < 0 || y > mapHeight() {
			t.Errorf("%s is at %.2f, %.2f", test.name, x, y)
		}
	}
	// Areas are true: a degree square at the equator and one at 60 degrees differ as the sphere's do.
	area := func(latitude float64) float64 {
		x0, y0 := project(latitude-.5, 10)
		x1, _ := project(latitude-.5, 11)
		_, y1 := project(latitude+.5, 10)
		return (x1 - x0) * (y0 - y1)
	}
	sphere := math.Sin(60.5*math.Pi/180) - math.Sin(59.5*math.Pi/180)
	sphere /= 2 * math.Sin(.5*math.Pi/180)
	if got := area(60) / area(0); math.Abs(got-sphere) > .01 {
		t.Errorf("a square at 60 degrees has %.3f of the area of one at the equator, want %.3f", got, sphere)
	}
	_, north := project(mapNorth, 0)
	if _, south := project(-30, 0); math.Abs(north) > 0.01 || south < mapHeight()/2 {
		t.Errorf("the map is upside down: north at %.2f", north)
	}
}

// TestLand: the picture is well-formed, and there is land where land is.
func TestLand(t *testing.T) {
	p, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	land := p.assets["land.svg"].data
	d := xml.NewDecoder(strings.NewReader(string(land)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(string(land), "M"); n < 60 || len(land) > 60_000 {
		t.Errorf("%d outlines in %d octets", n, len(land))
	}
	for _, broken := range []string{"{", `{"objects":{"land":{"geometries":[{"type":"Point"}]}}}`, `{"objects":{"land":{"geometries":[{"type":"MultiPolygon","arcs":[[[0]]]}]}}}`, "{}"} {
		if _, err := drawLand([]byte(broken)); err == nil || !strings.HasPrefix(err.Error(), "outlines of land: ") {
			t.Errorf("%s: %v", broken, err)
		}
	}
}
