package geo_test

import (
	"errors"
	"testing"

	"github.com/edgesteer/edgesteer/geo"
)

func TestAtlas(t *testing.T) {
	src := table(t, "10.0.0.0/8 DE", "11.0.0.0/8 FR")
	a, b, c := plan(t, geo.SortCountry, "DE", "FR"), plan(t, geo.MatchCountry, "DE"), plan(t, geo.MatchPrefix, "10.0.0.0/8")
	first, err := geo.BuildAtlas(src, []geo.Plan{a, b, a, c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if first.Len() != 4 || first.Map(0) != first.Map(2) || first.Map(0) == first.Map(1) || first.Source() != geo.Source(src) || len(first.Databases()) != 1 {
		t.Error("equal plans share a map, others do not")
	}
	d := plan(t, geo.SortCountry, "FR", "DE")
	next, err := geo.BuildAtlas(src, []geo.Plan{d, b, c}, first)
	if err != nil {
		t.Fatal(err)
	}
	if next.Map(1) != first.Map(1) || next.Map(2) != first.Map(3) || next.Map(0) == first.Map(0) {
		t.Error("a reload compiles new plans only")
	}
	other, err := geo.BuildAtlas(table(t, "10.0.0.0/8 DE"), []geo.Plan{b, c}, next)
	if err != nil {
		t.Fatal(err)
	}
	if other.Map(0) == next.Map(1) || other.Map(1) != next.Map(2) {
		t.Error("another source compiles anew what reads it, and no prefixes")
	}
	_, err = geo.BuildAtlas(src, []geo.Plan{a, plan(t, geo.MatchASN, "AS1"), b, plan(t, geo.MatchCountry, "US-CA")}, nil)
	var pe *geo.PlanError
	if !errors.As(err, &pe) || pe.Plan != 1 || len(err.(interface{ Unwrap() []error }).Unwrap()) != 2 {
		t.Errorf("all failing plans are reported: %v", err)
	}
	if empty, err := geo.BuildAtlas(src, nil, nil); err != nil || empty.Len() != 0 {
		t.Errorf("no plans: %v", err)
	}
}

func TestKey(t *testing.T) {
	base := plan(t, geo.SortCountry, "DE US-CA @1,2", "FR")
	for name, same := range map[string]bool{
		"DE US-CA @1,2|FR":                true,
		"DE US-CA @1,2 AS5 10.0.0.0/8|FR": true, // not looked at
		"DE US-CA @1,2 EUROPE|FR":         true,
		"FR|DE US-CA @1,2":                false,
		"DE US-CA @1,3|FR":                false,
		"DE US-CA|FR":                     false,
		"DE FR US-CA @1,2|":               false,
	} {
		var words []string
		for i, j := 0, 0; j <= len(name); j++ {
			if j == len(name) || name[j] == '|' {
				words = append(words, name[i:j])
				i = j + 1
			}
		}
		if got := plan(t, geo.SortCountry, words...).Key() == base.Key(); got != same {
			t.Errorf("%s: same %v, want %v", name, got, same)
		}
	}
	if plan(t, geo.MatchCountry, "DE").Key() == plan(t, geo.MatchRegion, "DE").Key() {
		t.Error("kinds share a key")
	}
}
