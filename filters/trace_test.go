package filters

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// traced runs a scene for a client and writes its trace.
func traced(t *testing.T, spots []spot, chain, other, client string) string {
	t.Helper()
	w := scene(t, spots, chain, other)
	x := &Exec{Trace: &Trace{}, Rand: newRand(1)}
	if client == "" {
		client = germany.String()
	}
	w.names(x, netip.MustParsePrefix(client))
	list := func(cs []Candidate) string {
		var s []string
		for _, c := range cs {
			s = append(s, w.pool.Answers[c.Answer].Label)
		}
		return strings.Join(s, " ")
	}
	var b strings.Builder
	for _, s := range x.Trace.Steps {
		fmt.Fprintf(&b, "%s | %s -> %s | /%d\n", strings.TrimSpace(s.Name+" "+s.Args), list(s.Before), list(s.After), s.Bits)
		for _, n := range s.Notes {
			who := "-"
			if n.Answer >= 0 {
				who = w.pool.Answers[n.Answer].Label
			}
			fmt.Fprintf(&b, "  %s: %s\n", who, n.Text)
		}
	}
	return b.String()
}

func TestTrace(t *testing.T) {
	tests := []struct {
		name, chain, other, client string
		spots                      []spot
		want                       string
	}{
		{"the main chain", "up; shed_load metric=connections; geotarget_country; select_first_n", "", "",
			[]spot{{name: "de", country: "DE", state: share(63)}, {name: "jp", country: "JP"}, {name: "x"}, {name: "us", country: "US", state: shed(0.75)}, {name: "gone", state: share(0)}}, `
up | de jp x us gone -> de jp x us | /0
  de: drained to 63 %: bucket 29.2 is inside
  gone: share is 0 %
shed_load metric=connections | de jp x us -> de jp x | /0
  us: load 90: p 0.75, draw 0.699: removed
geotarget_country | de jp x -> de jp x | /0
  de: lists DE, 0 km
  jp: 9,006 km
  x: no place
select_first_n N=1 | de jp x -> de | /24
  jp: cut: place 2 > N 1
  x: cut: place 3 > N 1
`},
		{"rungs", "up", "", "", []spot{{name: "a", state: down}, {name: "b", state: share(0)}, {name: "c", answer: explicit(none)}, {name: "d", state: down, answer: explicit(no)}}, `
up | a b c d -> a c d | /0
  a: share is 0 %
  b: share is 0 %
  c: neither ` + "`up`" + ` nor a PoP: counts as down
  d: up is false
  -: nobody is left on rung 1: bucket below share
  a: share is 0 %
  b: share is 0 %
  c: neither ` + "`up`" + ` nor a PoP: counts as down
  d: up is false
  -: nobody is left on rung 2: share above 0
  b: drained to 0 % by statements
`},
		{"a shift", "up; priority; select_first_n N=2", "", "", []spot{{name: "a", state: shift(0, 1), answer: ranked(1, 0)}, {name: "b", answer: ranked(2, 0)}, {name: "c"}, {name: "d"}}, `
up | a b c d -> a b c d | /0
  a: a is shifted: served by b
priority eliminate=false | a b c d -> a b c d | /0
  a: priority 1
  b: priority 2
  c: no priority
  d: no priority
select_first_n N=2 | a b c d -> a c | /0
  c: cut: place 3 > N 2
  d: cut: place 4 > N 2
  b: b is in the list already, in the place of a
`},
		{"places", "geotarget_country", "", "", []spot{{name: "x"}, {name: "jp", country: "JP"}, {name: "de", country: "DE"}}, `
geotarget_country | x jp de -> de jp x | /0
  x: no place
  jp: 9,006 km
  de: lists DE, 0 km
  -: scope 1: what is left and its order
`},
		{"no place", "geotarget_country; select_first_n", "", "223.0.0.0/24", []spot{{name: "jp", country: "JP"}, {name: "de", country: "DE"}}, `
geotarget_country | jp de -> jp de | /0
  -: the client has no place: the order is left alone
select_first_n N=1 | jp de -> jp | /4
  de: cut: place 2 > N 1
`},
		{"fences", "geofence_country; netfence_asn remove_no_asn=false", "", "",
			[]spot{{name: "de", country: "DE"}, {name: "us", country: "US"}, {name: "x"}}, `
geofence_country remove_no_location=true | de us x -> de | /2
  de: matches
  us: does not match
  x: has no tag, and others match
netfence_asn remove_no_asn=false | de -> de | /2
  de: has no tag
`},
		{"another draw", "up; geotarget_country; select_first_n", "", "", []spot{{name: "de", country: "DE", state: share(10)}, {name: "jp", country: "JP"}}, `
up | de jp -> jp | /0
  de: drained to 10 %: bucket 29.2 is outside
geotarget_country | jp -> jp | /0
  jp: 9,006 km
select_first_n N=1 | jp -> jp | /0
  -: scope 24: by another draw other answers would be given
`},
		{"all would go", "shed_load metric=connections", "", "", []spot{{name: "a", state: shed(1)}, {name: "b", state: shed(1)}}, `
shed_load metric=connections | a b -> a b | /0
  a: load 90 is at or above the high watermark: removed
  b: load 90 is at or above the high watermark: removed
  -: all would go: none is removed
`},
		{"avoid_record", "avoid_record record=other", "select_first_n", "", []spot{{name: "a"}, {name: "b"}}, `
avoid_record record=other | a b -> b | /0
  a: other gives it
`},
		{"groups and tiers", "select_first_region; cost", "", "", []spot{{name: "a", group: "g", answer: ranked(1, 2)}, {name: "b"}}, `
select_first_region | a b -> a | /0
  -: keeps group "g"
cost eliminate=false | a -> a | /0
  a: cost 2
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := traced(t, tt.spots, tt.chain, tt.other, tt.client)
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), got); diff != "" {
				t.Errorf("trace (-want +got):\n%s", diff)
			}
		})
	}
}

func TestThousands(t *testing.T) {
	for metres, want := range map[uint32]string{0: "0", 499: "0", 500: "1", 999_499: "999", 1_203_000: "1,203", 20_015_087: "20,015"} {
		if got := thousands(metres); got != want {
			t.Errorf("%d m: got %q, want %q", metres, got, want)
		}
	}
}
