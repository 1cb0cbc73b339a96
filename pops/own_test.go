package pops

import (
	"math"
	"testing"
	"time"
)

// TestOwnShed: the probability of an answer's own load rises at once and falls by 10 points a minute, as an endpoint's does (steering.md section 3).
func TestOwnShed(t *testing.T) {
	f := testFleet()
	f.Feeds = []string{"other", "load"}
	num := func(v float64) Value { return Value{Set: true, Const: v} }
	own := OwnLoad{Load: Value{Set: true, Const: math.NaN(), Feed: 2}, Low: num(80), High: num(120)}
	at := func(f *Fleet, now time.Time, previous *View, feeds ...float64) *View {
		return NewView(f, Input{Now: now, Previous: previous, Feeds: feeds, Own: []OwnLoad{own}})
	}
	shed := func(v *View, want float64) {
		t.Helper()
		if got := v.OwnShed(&own); math.Abs(got-want) > 1e-9 {
			t.Errorf("at %v: %v, want %v", v.At.Sub(noon), got, want)
		}
	}
	nan := math.NaN()
	v := at(f, noon, nil, nan, 100)
	shed(v, 0.5)
	v = at(f, noon.Add(time.Second), v, nan, 120)
	shed(v, 1) // rises at once
	rises := v
	v = at(f, noon.Add(time.Minute+time.Second), v, nan, 60)
	shed(v, 0.9)
	if rises.OwnShedFalls(&own) || !v.OwnShedFalls(&own) {
		t.Error("OwnShedFalls is wrong")
	}
	if want := v.At.Add(6 * time.Second); !v.Next.Equal(want) {
		t.Errorf("falling: next %v, want %v", v.Next, want)
	}
	v = at(f, noon.Add(2*time.Minute+time.Second), v, nan, 60)
	shed(v, 0.8) // on from where it was
	swings := at(f, v.At.Add(5*time.Minute), v, nan, 90)
	shed(swings, (90*1.11-80)/40) // for a while no lower than a load 11 % higher would have it
	shed(at(f, v.At.Add(time.Hour), v, nan, 90), 0.25)
	shed(at(f, v.At.Add(time.Hour), v, nan, 60), 0)
	shed(at(f, v.At.Add(time.Second), v, nan, nan), 0) // a stale one says nothing: nobody is shed

	// A reload that gives the feed another number keeps it.
	turned := testFleet()
	turned.Feeds = []string{"load"}
	own.Load.Feed = 1
	shed(at(turned, v.At.Add(time.Minute), v, 60), 0.7)
}
