package pops

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testFleet is iad, fra and sin with two services; envoy-edge is not served at sin.
func testFleet() *Fleet {
	return &Fleet{
		PoPs:     []PoP{{"iad"}, {"fra"}, {"sin"}},
		Services: []Service{{Name: "envoy-wss", Metric: Connections}, {Name: "envoy-edge"}},
		Endpoints: []Endpoint{
			{PoP: 0, Service: 0, Capacity: 100}, {PoP: 1, Service: 0, Capacity: 100}, {PoP: 2, Service: 0, Capacity: 100},
			{PoP: 0, Service: 1}, {PoP: 1, Service: 1},
		},
	}
}

func TestMatch(t *testing.T) {
	f := testFleet()
	for target, want := range map[string][]string{
		"fra":           {"fra/envoy-wss", "fra/envoy-edge", "fra"},
		"sin":           {"sin/envoy-wss", "sin"},
		"iad/envoy-wss": {"iad/envoy-wss"},
		"*/envoy-wss":   {"iad/envoy-wss", "fra/envoy-wss", "sin/envoy-wss"},
		"*/envoy-edge":  {"iad/envoy-edge", "fra/envoy-edge"},
	} {
		parsed, err := f.ParseTarget(target)
		if err != nil {
			t.Errorf("%s: %v", target, err)
		}
		if parsed.String() != target {
			t.Errorf("%s prints as %s", target, parsed)
		}
		var got []string
		for _, u := range f.Match(parsed) {
			got = append(got, f.UnitTarget(u).String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", target, diff)
		}
	}
	for _, none := range []Target{{}, {PoP: "*"}, {PoP: "x"}, {PoP: "fra", Service: "x"}, {PoP: "sin", Service: "envoy-edge"}, {PoP: "*", Service: "x"}} {
		if units := f.Match(none); units != nil {
			t.Errorf("%q matches %v", none, units)
		}
	}
}

func TestParseTargetErrors(t *testing.T) {
	f := testFleet()
	tests := []struct{ target, want string }{
		{"", `empty target: give POP, POP/SERVICE or */SERVICE`},
		{"*", `target "*": everything cannot be a target; give POP, POP/SERVICE or */SERVICE`},
		{"fra/*", `target "fra/*": a whole PoP is written "fra"`},
		{"*/*", `target "*/*": everything cannot be a target; give POP, POP/SERVICE or */SERVICE`},
		{"fra/", `target "fra/": empty name`},
		{"a b", `target "a b": name "a b" holds ' '`},
		{"fra/a/b", `target "fra/a/b": name "a/b" holds '/'`},
		{"fraa", `unknown PoP "fraa": did you mean "fra"?`},
		{"FRA", `unknown PoP "FRA": did you mean "fra"?`},
		{"fr", `unknown PoP "fr": did you mean "fra"?`},
		{"tokyo", `unknown PoP "tokyo"`},
		{"fra2/envoy-wss", `unknown PoP "fra2": did you mean "fra/envoy-wss"?`},
		{"envoy-wss", `unknown PoP "envoy-wss": did you mean "*/envoy-wss"?`},
		{"fra/envoy-ws", `unknown service "envoy-ws": did you mean "fra/envoy-wss"?`},
		{"*/edge", `unknown service "edge": did you mean "*/envoy-edge"?`},
		{"sin/envoy-edge", `unknown endpoint "sin/envoy-edge": did you mean "sin/envoy-wss" or "iad/envoy-edge" or "fra/envoy-edge"?`},
	}
	for _, test := range tests {
		_, err := f.ParseTarget(test.target)
		if err == nil || err.Error() != test.want {
			t.Errorf("%q:\n got %v\nwant %s", test.target, err, test.want)
		}
		var unknown *UnknownError
		if got := errors.As(err, &unknown); got != strings.HasPrefix(test.want, "unknown") {
			t.Errorf("%q: is an UnknownError: %v", test.target, got)
		}
	}
}

// TestTouches compares with the units that targets match, where every service is everywhere.
func TestTouches(t *testing.T) {
	f := testFleet()
	f.Endpoints = append(f.Endpoints, Endpoint{PoP: 2, Service: 1})
	targets := []string{"iad", "fra", "iad/envoy-wss", "fra/envoy-wss", "fra/envoy-edge", "*/envoy-wss", "*/envoy-edge"}
	for _, a := range targets {
		for _, b := range targets {
			x, _ := f.ParseTarget(a)
			y, _ := f.ParseTarget(b)
			want := false
			for _, u := range f.Match(x) {
				want = want || slices.Contains(f.Match(y), u)
			}
			if got := x.Touches(y); got != want {
				t.Errorf("%s touches %s: %v, want %v", a, b, got, want)
			}
		}
	}
}

func TestTargetJSON(t *testing.T) {
	for _, want := range []Target{{}, {PoP: "fra"}, {PoP: "fra", Service: "envoy-wss"}, {PoP: "*", Service: "envoy-wss"}} {
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Target
		if err := json.Unmarshal(b, &got); err != nil || got != want {
			t.Errorf("%s: %+v, %v", b, got, err)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"fra", "fra/envoy-wss", "*/envoy-wss", "*", "/", "a//b", "\xff"} {
		f.Add(s)
	}
	fleet := testFleet()
	f.Fuzz(func(t *testing.T, s string) {
		target, err := ParseTarget(s)
		if err != nil {
			return
		}
		if target.String() != s {
			t.Errorf("%q prints as %q", s, target)
		}
		if known := fleet.Check(target) == nil; known != (len(fleet.Match(target)) > 0) {
			t.Errorf("%q: exists %v, but matches %v", s, known, fleet.Match(target))
		}
	})
}

// A name that is right but for its case is the only one that is meant.
func TestSimilarCase(t *testing.T) {
	if diff := cmp.Diff([]string{"fra"}, Similar("FRA", []string{"nra", "fra", "frb"})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
