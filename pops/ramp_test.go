package pops

import (
	"math/rand/v2"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestRampShare(t *testing.T) {
	down := Ramp{Start: noon, From: 100, To: 0, Over: 10 * time.Minute}
	part := Ramp{Start: noon, From: 100, To: 63, Over: time.Hour}
	fast := Ramp{Start: noon, From: 100, To: 0, Over: 10 * time.Second}
	steps := Ramp{Start: noon, From: 0, To: 100, Over: 8 * time.Minute, Steps: []float64{1, 10, 25, 50, 100}}
	half := Ramp{Start: noon, From: 20, To: 60, Over: time.Minute, Steps: []float64{50, 100}}
	tests := []struct {
		name string
		ramp Ramp
		at   time.Duration
		want Share
	}{
		{"no ramp, before any time", Ramp{From: 100, To: 40}, -time.Hour, 40},
		{"scheduled, before", Ramp{Start: noon, From: 100, To: 40}, -1, 100},
		{"scheduled, at start", Ramp{Start: noon, From: 100, To: 40}, 0, 40},
		{"linear, before", down, -time.Second, 100},
		{"linear, start", down, 0, 100},
		{"linear, within the first percent", down, 5999 * time.Millisecond, 100},
		{"linear, first percent", down, 6 * time.Second, 99},
		{"linear, half", down, 5 * time.Minute, 50},
		{"linear, last percent", down, 10*time.Minute - 1, 1},
		{"linear, end", down, 10 * time.Minute, 0},
		{"linear, after", down, time.Hour, 0},
		{"linear to a part", part, 30 * time.Minute, 82},
		{"linear, once a second", fast, 2500 * time.Millisecond, 80},
		{"steps, before", steps, -1, 0},
		{"steps, first at once", steps, 0, 1},
		{"steps, second", steps, 2 * time.Minute, 10},
		{"steps, before the third", steps, 4*time.Minute - 1, 10},
		{"steps, last", steps, 8 * time.Minute, 100},
		{"steps are of the way", half, 0, 40},
		{"steps are of the way, end", half, time.Minute, 60},
		{"one step is at once", Ramp{Start: noon, From: 100, To: 0, Over: time.Minute, Steps: []float64{100}}, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := test.ramp.Check(); err != nil {
				t.Errorf("check: %v", err)
			}
			if got := test.ramp.Share(noon.Add(test.at)); got != test.want {
				t.Errorf("share after %v: %v, want %v", test.at, got, test.want)
			}
		})
	}
}

// TestRampNext follows random ramps from change to change: the share stays between two of them, never turns back, and arrives.
func TestRampNext(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		ramp := Ramp{Start: noon, From: Share(r.IntN(101)), To: Share(r.IntN(101)), Over: time.Duration(r.Int64N(int64(2 * time.Hour)))}
		if r.IntN(2) == 0 && ramp.Over > 0 {
			ramp.Steps = []float64{1, 10, 25, 50, 100}[r.IntN(5):]
		}
		if err := ramp.Check(); err != nil {
			t.Fatal(err)
		}
		at, share, changes := noon.Add(-time.Minute), ramp.From, 0
		for {
			next := ramp.Next(at)
			if next.IsZero() {
				break
			}
			if !next.After(at) {
				t.Fatalf("%+v: next of %v is %v", ramp, at, next)
			}
			if got := ramp.Share(next.Add(-1)); got != share {
				t.Fatalf("%+v: share moves to %v before %v", ramp, got, next)
			}
			got := ramp.Share(next)
			if ramp.From <= ramp.To && got < share || ramp.From >= ramp.To && got > share {
				t.Fatalf("%+v: share turns back from %v to %v", ramp, share, got)
			}
			at, share = next, got
			if changes++; changes > 102 {
				t.Fatalf("%+v: more than 102 changes", ramp)
			}
		}
		if share != ramp.To {
			t.Fatalf("%+v: ends at %v", ramp, share)
		}
	}
}

// TestRampMovesOnce gives a cold site back over an hour: each network changes sides once.
func TestRampMovesOnce(t *testing.T) {
	ramp := Ramp{Start: noon, From: 0, To: 100, Over: time.Hour}
	list := networks(2000)
	moves := make([]int, len(list))
	in := make([]bool, len(list))
	for at := noon; !at.IsZero(); at = ramp.Next(at) {
		share := ramp.Share(at)
		for i, network := range list {
			if now := Bucket(TagUp, network, "fra") < float64(share); now != in[i] {
				in[i] = now
				moves[i]++
			}
		}
	}
	for i := range moves {
		if moves[i] != 1 || !in[i] {
			t.Fatalf("%s moved %d times and is in: %v", list[i], moves[i], in[i])
		}
	}
}

func TestRampCheck(t *testing.T) {
	for name, ramp := range map[string]Ramp{
		"share above 100":     {From: 101},
		"share below 0":       {To: -1},
		"negative time":       {Over: -1},
		"steps without time":  {Steps: []float64{50, 100}},
		"steps do not arrive": {Over: time.Minute, Steps: []float64{50}},
		"steps fall":          {Over: time.Minute, Steps: []float64{50, 20, 100}},
		"step of 0":           {Over: time.Minute, Steps: []float64{0, 100}},
		"step above 100":      {Over: time.Minute, Steps: []float64{120, 100}},
	} {
		if ramp.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
