package app

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/pops"
)

// Answers from a lower rung are warned of for a minute after the last one.
func TestLadder(t *testing.T) {
	var l ladder
	now := moment()
	l.note([pops.RungAll + 1]uint64{1: 1000}, now)
	if got := l.warnings(now); got != nil {
		t.Errorf("%q", got)
	}
	l.note([pops.RungAll + 1]uint64{1: 1000, 3: 1}, now)
	l.note([pops.RungAll + 1]uint64{1: 2000, 3: 1, 4: 5}, now.Add(30*time.Second))
	third := "answers come from rung 3 of the ladder: nothing that they could be sent to is up, and health is ignored"
	fourth := "answers come from rung 4 of the ladder: everything that they could be sent to is drained, and drains are ignored"
	for after, want := range map[time.Duration][]string{59 * time.Second: {third, fourth}, 60 * time.Second: {fourth}, 90 * time.Second: nil} {
		if diff := cmp.Diff(want, l.warnings(now.Add(after))); diff != "" {
			t.Errorf("after %s: %s", after, diff)
		}
	}
}
