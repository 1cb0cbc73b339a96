package admin

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

// rateSpans is how many samples are remembered, one a second.
const rateSpans = 900

// Counts are counters of what was answered since the node started. They only rise.
type Counts struct {
	Queries float64   // steered queries
	PoPs    []string  // as configured
	Answers []float64 // steered answers that named each PoP, in that order
}

// rates remembers how fast the counters rose, second by second.
type rates struct {
	mu   sync.Mutex
	last Counts
	at   time.Time // when last was read; zero: never
	pops []string
	ring []api.RateSpan // oldest first, at most rateSpans, all of the same PoPs
	wake chan struct{}
}

// sample takes the counters in. With other PoPs than before it begins anew.
func (r *rates) sample(c Counts, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, seconds := r.last, now.Sub(r.at).Seconds()
	first := r.at.IsZero() || seconds <= 0 || !slices.Equal(last.PoPs, c.PoPs)
	r.last, r.at = c, now
	if first {
		r.pops, r.ring = c.PoPs, nil
		return
	}
	span := api.RateSpan{Time: now.Round(time.Millisecond), Seconds: round(seconds), Queries: rise(last.Queries, c.Queries, seconds), Answers: make([]float64, len(c.Answers))}
	for i := range c.Answers {
		span.Answers[i] = rise(last.Answers[i], c.Answers[i], seconds)
	}
	if len(r.ring) == rateSpans {
		r.ring = append(r.ring[:0], r.ring[1:]...)
	}
	r.ring = append(r.ring, span)
	close(r.wake)
	r.wake = make(chan struct{})
}

// rise is by how much a counter rises a second. One that has fallen was begun anew.
func rise(before, after, seconds float64) float64 {
	if after < before {
		return 0
	}
	return round((after - before) / seconds)
}

// round leaves a tenth: what a person sees, and a stream need not carry more.
func round(f float64) float64 { return float64(int64(10*f+0.5)) / 10 }

// since gives the samples after a moment, at most n, with the PoPs they are of, and what to wait for when there is nothing more.
func (r *rates) since(after time.Time, n int) (pops []string, spans []api.RateSpan, wake <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.ring)
	for i > 0 && len(r.ring)-i < n && r.ring[i-1].Time.After(after) {
		i--
	}
	return r.pops, slices.Clone(r.ring[i:]), r.wake
}

// sampleRates takes the counters in once a second until done is closed.
func (s *Server) sampleRates(done <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		s.rates.sample(s.cfg.Counts(), s.cfg.Ledger.Now())
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

// listRates is GET /v1/rates.
func (s *Server) listRates(c *call) (*api.Rates, error) {
	q, err := c.query()
	if err != nil {
		return nil, err
	}
	n, err := number(q, "seconds", 1, rateSpans, rateSpans)
	if err != nil {
		return nil, err
	}
	pops, spans, _ := s.rates.since(time.Time{}, int(n))
	return &api.Rates{Schema: api.Schema, Node: s.cfg.Node.Name, PoPs: pops, Samples: append([]api.RateSpan{}, spans...)}, nil
}

// rateReader is one reader of the stream who has asked for rates.
type rateReader struct {
	server *Server
	on     bool
	seen   time.Time // of the newest sample that was sent
	pops   []string  // as they were sent
}

// next gives the samples since the last as an event of the stream, "" if there are none, and what to wait for. The event is not numbered: who takes the stream up later asks for what it
// has missed of the rates.
func (r *rateReader) next(id uint64) (event string, wake <-chan struct{}) {
	if !r.on {
		return "", nil
	}
	pops, spans, wake := r.server.rates.since(r.seen, rateSpans)
	if len(spans) == 0 {
		return "", wake
	}
	newest := spans[len(spans)-1]
	out := api.Event{Schema: api.Schema, ID: id, Time: newest.Time, Kind: api.EventRates, Text: fmt.Sprintf("%.4g steered queries a second", newest.Queries),
		Rates: &api.Rates{Schema: api.Schema, Node: r.server.cfg.Node.Name, Samples: spans}}
	if !slices.Equal(pops, r.pops) {
		out.Rates.PoPs = pops
	}
	data, err := json.Marshal(out)
	if err != nil { // a NaN, which a rate cannot be
		return "", wake
	}
	r.seen, r.pops = newest.Time, pops
	return fmt.Sprintf("event: %s\ndata: %s\n\n", out.Kind, data), wake
}
