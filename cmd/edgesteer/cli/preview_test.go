package cli

import (
	"testing"

	"github.com/edgesteer/edgesteer/server/api"
)

// The words about what moves agree with the figure, and say what the rate is an average of.
func TestMovedText(t *testing.T) {
	for _, tt := range []struct {
		effect *api.Effect
		want   string
	}{
		{nil, ""},
		{&api.Effect{}, "stay as they are"},
		{&api.Effect{Queries: 3}, "stay as they are"},
		{&api.Effect{Moved: 0.001}, "<0.1 % go elsewhere"},
		{&api.Effect{Moved: 2.4}, "2.4 % go elsewhere"},
		{&api.Effect{Moved: 2.4, Queries: 2140}, "2.4 % go elsewhere, by 2140 queries a second (5-minute average)"},
	} {
		if got := movedText(&api.Change{Effect: tt.effect}); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.effect, got, tt.want)
		}
	}
}

// Of many heavy networks people see the heaviest, programs all.
func TestManyHeavyNetworks(t *testing.T) {
	c := &api.Change{Effect: &api.Effect{Heavy: make([]api.HeavyNetwork, 40)}}
	for terminal, want := range map[bool]int{true: movedRows, false: 40} {
		rows, left := (&printer{streams: &streams{terminal: terminal}}).heavy(c)
		if len(rows) != want || (left == "... and 28 more") != terminal {
			t.Errorf("terminal %v: %d rows, %q", terminal, len(rows), left)
		}
	}
}
