package config

import (
	"errors"
	"fmt"
	"testing"
)

func TestProblemString(t *testing.T) {
	tests := []struct {
		problem Problem
		want    string
	}{
		{Problem{File: "edgesteer.toml", Line: 12, Field: "zone[0].record[1].filters[2]", Message: `unknown filter "upp"`, Hint: `did you mean "up"?`},
			`edgesteer.toml:12: zone[0].record[1].filters[2]: unknown filter "upp" (hint: did you mean "up"?)`},
		{Problem{File: "a.zone", Message: "no SOA"}, "a.zone: no SOA"},
		{Problem{Message: "no"}, "no"},
		{Problem{File: "a", Line: 1, Message: "ttl above 60", Warning: true}, "a:1: warning: ttl above 60"},
	}
	for _, tt := range tests {
		if got := tt.problem.String(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func TestProblemsAreAnError(t *testing.T) {
	err := fmt.Errorf("loading: %w", Problems{{Message: "a"}, {Message: "b"}})
	var ps Problems
	if !errors.As(err, &ps) || len(ps) != 2 || ps.Error() != "a\nb" {
		t.Errorf("errors.As gave %v", ps)
	}
	if Failed([]Problem{{Warning: true}}) || !Failed([]Problem{{Warning: true}, {}}) || Failed(nil) {
		t.Error("Failed does not tell warnings from errors")
	}
}

func TestDidYouMean(t *testing.T) {
	filters := []string{"up", "shed_load", "geotarget_country", "geotarget_regional", "shuffle", "select_first_n"}
	tests := []struct {
		word  string
		known []string
		want  string
	}{
		{"upp", filters, `did you mean "up"?`},
		{"pu", filters, `did you mean "up"?`},
		{"geo_target_country", filters, `did you mean "geotarget_country"?`},
		{"SHUFFLE", filters, `did you mean "shuffle"?`},
		{"zzz", filters, "known: geotarget_country, geotarget_regional, select_first_n, shed_load, shuffle, up"},
		{"zzz", []string{"iad", "fra", "iad"}, "known: fra, iad"}, // a name given twice is an error of its own
		{"zzz", nil, ""},
	}
	for _, tt := range tests {
		if got := DidYouMean(tt.word, tt.known); got != tt.want {
			t.Errorf("DidYouMean(%q) = %s, want %s", tt.word, got, tt.want)
		}
	}
	many := make([]string, 13)
	for i := range many {
		many[i] = fmt.Sprintf("name-%d", i)
	}
	if got := DidYouMean("zzz", many); got != "" {
		t.Errorf("a list of 13 names: %s", got)
	}
}

func TestEditDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"abcd", "abxcd", 1}, {"ab", "ba", 1}}
	for _, tt := range tests {
		if got := editDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
