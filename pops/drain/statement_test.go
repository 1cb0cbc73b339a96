package drain

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/pops"
)

func TestLife(t *testing.T) {
	m := func(n float64) time.Time { return noon.Add(time.Duration(n * float64(time.Minute))) }
	ramp := func(r pops.Ramp, from, to pops.Share) pops.Ramp { r.From, r.To = from, to; return r }
	plain := Statement{Kind: pops.Drain, By: 37, Created: noon, Expires: m(480), Ramp: ramp(pops.Ramp{}, 100, 63)}
	ramped := plain
	ramped.Ramp = ramp(pops.Ramp{Start: noon, Over: 10 * time.Minute}, 100, 0)
	back := plain
	back.Back = Way{Over: 10 * time.Minute}
	later := plain
	later.Start, later.Ramp.Start = m(60), m(60)
	pinned := Statement{Kind: pops.Pin, Created: noon, Expires: m(480)}
	laterPin := pinned
	laterPin.Start = m(60)

	type moment struct {
		at    float64 // minutes from noon
		share pops.Share
		phase Phase
		next  float64 // -1: none
	}
	tests := []struct {
		name    string
		entry   Entry
		moments []moment
	}{
		{"plain", Entry{Statement: plain}, []moment{{-60, 63, Active, 480}, {0, 63, Active, 480}, {479, 63, Active, 480}, {480, 100, Expired, -1}}},
		{"for ever", Entry{Statement: Statement{Kind: pops.Drain, Ramp: ramp(pops.Ramp{}, 100, 0)}}, []moment{{0, 0, Active, -1}, {1e6, 0, Active, -1}}},
		{"ramp", Entry{Statement: ramped}, []moment{{0, 100, Active, 0.1}, {0.1, 99, Active, 0.2}, {5, 50, Active, 5.1}, {10, 0, Active, 480}, {480, 100, Expired, -1}}},
		{"back on expiry", Entry{Statement: back}, []moment{{479, 63, Active, 480}, {480, 63, Restoring, 480 + 10./37}, {485, 81, Restoring, 480 + 190./37}, {490, 100, Expired, -1}}},
		{"scheduled", Entry{Statement: later}, []moment{{0, 100, Scheduled, 60}, {60, 63, Active, 480}, {480, 100, Expired, -1}}},
		{"pin", Entry{Statement: pinned}, []moment{{-60, 0, Active, 480}, {0, 0, Active, 480}, {480, 100, Expired, -1}}},
		{"scheduled pin", Entry{Statement: laterPin}, []moment{{0, 0, Scheduled, 60}, {60, 0, Active, 480}}},
		{"lifted", Entry{Statement: plain, Lift: &Lift{At: m(30)}}, []moment{{0, 100, Lifted, -1}, {30, 100, Lifted, -1}}},
		{"lifted with a way back", Entry{Statement: plain, Lift: &Lift{At: m(30), Back: Way{Over: 37 * time.Minute}}},
			[]moment{{29, 63, Restoring, 30}, {30, 63, Restoring, 31}, {31, 64, Restoring, 32}, {67, 100, Lifted, -1}, {480, 100, Lifted, -1}}},
		{"lifted within its ramp", Entry{Statement: ramped, Lift: &Lift{At: m(5), Back: Way{Over: 50 * time.Minute}}},
			[]moment{{5, 50, Restoring, 6}, {6, 51, Restoring, 7}, {55, 100, Lifted, -1}}},
		{"lifted, the way back is longer than its life", Entry{Statement: plain, Lift: &Lift{At: m(470), Back: Way{Over: 37 * time.Minute}}},
			[]moment{{470, 63, Restoring, 471}, {480, 73, Restoring, 481}, {507, 100, Lifted, -1}}},
		{"lifted on its way back from expiry", Entry{Statement: back, Lift: &Lift{At: m(485)}}, []moment{{486, 100, Lifted, -1}}},
		{"replaced", Entry{Statement: plain, Lift: &Lift{At: m(30), For: "x", Back: Way{Over: time.Hour}}}, []moment{{0, 100, Replaced, -1}, {31, 100, Replaced, -1}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, want := range test.moments {
				at := m(want.at)
				if got := test.entry.Share(at); test.entry.Kind != pops.Pin && (got < want.share-1e-6 || got > want.share+1e-6) {
					t.Errorf("minute %v: share %v, want %v", want.at, got, want.share)
				}
				if got := test.entry.Phase(at); got != want.phase {
					t.Errorf("minute %v: %s, want %s", want.at, got, want.phase)
				}
				got := test.entry.Next(at)
				if want.next < 0 != got.IsZero() || want.next >= 0 && got.Sub(m(want.next)).Abs() > time.Microsecond {
					t.Errorf("minute %v: next %v, want minute %v", want.at, got, want.next)
				}
			}
		})
	}
}

// TestNextMissesNothing follows random statements second by second: the share moves only where Next said, and on the way back it never falls.
func TestNextMissesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	within := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	for range 200 {
		e := &Entry{Statement: Statement{Kind: pops.Drain, Expires: noon.Add(within(time.Hour) + time.Minute)}}
		e.Ramp = pops.Ramp{From: 100, To: pops.Share(r.IntN(100))}
		if r.IntN(2) == 0 {
			e.Ramp.Start, e.Ramp.Over = noon.Add(within(10*time.Minute)), within(20*time.Minute)
			e.Start = e.Ramp.Start
		}
		if r.IntN(2) == 0 {
			e.Back = Way{Over: within(20*time.Minute) + 1, Steps: []float64{1, 10, 25, 50, 100}}
		}
		if r.IntN(2) == 0 {
			e.Lift = &Lift{At: noon.Add(within(time.Hour)), Back: Way{Over: within(10 * time.Minute)}}
		}
		share, next := e.Share(noon), e.Next(noon)
		ended := func(at time.Time) bool { return e.expired(at) || e.Lift != nil && !at.Before(e.Lift.At) }
		for at := noon; at.Before(noon.Add(2 * time.Hour)); at = at.Add(time.Second) {
			got := e.Share(at)
			if got != share && (next.IsZero() || at.Before(next)) {
				t.Fatalf("%+v: share moves from %v to %v at %v, next was %v", e, share, got, at, next)
			}
			if got < share && ended(at.Add(-time.Second)) {
				t.Fatalf("%+v: share falls from %v to %v at %v, after its end", e, share, got, at)
			}
			share = got
			if !next.IsZero() && !at.Before(next) {
				next = e.Next(at)
			}
		}
		if share != 100 {
			t.Fatalf("%+v: ends at %v", e, share)
		}
	}
}
