package admin

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/server/api"
)

func TestRates(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1e9+int64(s), 0) }
	r := rates{wake: make(chan struct{})}
	two := func(q, a, b float64) Counts {
		return Counts{Queries: q, PoPs: []string{"fra", "dub"}, Answers: []float64{a, b}}
	}
	r.sample(two(100, 60, 40), at(0)) // from here on
	r.sample(two(130, 80, 50), at(1))
	_, _, wake := r.since(at(1), rateSpans)
	r.sample(two(150, 80, 70), at(3)) // a stall of a second
	r.sample(two(10, 5, 5), at(4))    // began anew
	select {
	case <-wake:
	default:
		t.Error("nobody is told of new samples")
	}
	pops, spans, _ := r.since(time.Time{}, rateSpans)
	want := []api.RateSpan{
		{Time: at(1), Seconds: 1, Queries: 30, Answers: []float64{20, 10}},
		{Time: at(3), Seconds: 2, Queries: 10, Answers: []float64{0, 10}},
		{Time: at(4), Seconds: 1, Queries: 0, Answers: []float64{0, 0}},
	}
	if diff := cmp.Diff(want, spans); diff != "" || len(pops) != 2 {
		t.Errorf("%v (-want +got):\n%s", pops, diff)
	}
	if _, spans, _ := r.since(at(1), rateSpans); len(spans) != 2 {
		t.Errorf("%d samples after the first", len(spans))
	}
	if _, spans, _ := r.since(time.Time{}, 1); len(spans) != 1 || !spans[0].Time.Equal(at(4)) {
		t.Errorf("the last one is %v", spans)
	}
	r.sample(Counts{PoPs: []string{"ams"}, Answers: []float64{7}}, at(5)) // another fleet
	r.sample(Counts{PoPs: []string{"ams"}, Answers: []float64{8}}, at(6))
	if pops, spans, _ := r.since(time.Time{}, rateSpans); len(spans) != 1 || len(pops) != 1 || spans[0].Answers[0] != 1 {
		t.Errorf("another fleet: %v %v", pops, spans)
	}
	for i := range rateSpans + 10 {
		r.sample(Counts{PoPs: []string{"ams"}, Answers: []float64{8}}, at(7+i))
	}
	if _, spans, _ := r.since(time.Time{}, 2*rateSpans); len(spans) != rateSpans {
		t.Errorf("%d samples are kept", len(spans))
	}
}

// TestRateStream: who asks for rates gets them each second, the names of the PoPs with the first; who does not gets none.
func TestRateStream(t *testing.T) {
	var n atomic.Int64
	f := newFixture(t, func(c *Config) {
		c.Counts = func() Counts { // answers never stand still
			return Counts{Queries: float64(n.Add(100)), PoPs: []string{"fra", "dub", "ams"}, Answers: []float64{float64(n.Load()), 0, 0}}
		}
	})
	c, err := api.New("unix:"+f.dir+"/admin.sock", "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	enough := errors.New("enough")
	var got []api.Event
	err = c.EventsAndRates(ctx, func(e api.Event) error {
		if e.Kind == api.EventRates {
			got = append(got, e)
		}
		if len(got) == 2 {
			return enough
		}
		return nil
	}, nil)
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if len(got[0].Rates.PoPs) != 3 || got[1].Rates.PoPs != nil || got[1].Rates.Samples[0].Answers[0] <= 0 || got[1].ID != f.hub.newest() {
		t.Errorf("%+v, %+v", got[0].Rates, got[1].Rates)
	}
	r, err := c.Rates(ctx, 1)
	if err != nil || len(r.Samples) != 1 || r.Samples[0].Queries <= 0 || len(r.PoPs) != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}
