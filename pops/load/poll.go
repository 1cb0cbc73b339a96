package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/edgesteer/edgesteer/pops"
)

// requestTime is how long a poll may take.
const requestTime = 5 * time.Second

// maxAnswer is how many octets of an answer are read.
const maxAnswer = 1 << 20

// source is where the loads of a service are fetched: by url, or by a query of Prometheus.
type source struct {
	service           string
	url               string
	query             string
	prometheus, token string // URL, and file of the bearer token
	interval, timeout time.Duration
}

// sourceState is what came of a source.
type sourceState struct {
	last  time.Time // fleet time of the last answer
	fault string    // of the last attempt, "": it was good
}

// fetch asks the source once. The loads are by PoP.
func (s *Store) fetch(ctx context.Context, src *source) (map[string]Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, src.timeout)
	defer cancel()
	if src.query != "" {
		return s.ask(ctx, src)
	}
	return s.poll(ctx, src)
}

// follow fetches once per interval until ctx ends.
func (s *Store) follow(ctx context.Context, src *source) {
	wait := time.Duration(rand.Float64() * float64(min(src.interval, time.Second))) // not all sources, nor all nodes, at once
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		began := time.Now()
		got, err := s.fetch(ctx, src)
		if ctx.Err() != nil {
			return
		}
		s.fetched(src, got, err)
		wait = max(0, src.interval-time.Since(began))
	}
}

// fetched takes in what came of a fetch.
func (s *Store) fetched(src *source, got map[string]Sample, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.sources[src.service]
	was := state.fault
	state.fault = ""
	in := map[string]Sample{}
	var strange []string
	for _, pop := range slices.Sorted(maps.Keys(got)) {
		name := pops.Target{PoP: pop, Service: src.service}.String()
		switch v := got[pop].Value; {
		case math.IsNaN(v) || math.IsInf(v, 0) || v < 0:
			err = errors.Join(err, fmt.Errorf("load %g of %s is no load", v, pop))
		case !s.plan.endpoint(name):
			strange = append(strange, pop)
		default:
			in[loadKey+name] = got[pop]
		}
	}
	switch {
	case err != nil:
		state.fault = err.Error()
		s.metrics.fetches.WithLabelValues(src.service, "bad").Inc()
	case len(in) == 0:
		state.fault = "no loads of any endpoint"
		s.metrics.fetches.WithLabelValues(src.service, "bad").Inc()
	default:
		s.metrics.fetches.WithLabelValues(src.service, "good").Inc()
	}
	if state.fault != was {
		switch state.fault {
		case "":
			s.log.Info("loads come again", "service", src.service)
		default:
			s.log.Warn("loads cannot be fetched: those that are known grow stale", "service", src.service, "err", state.fault, "unknown_pops", strange)
		}
	}
	if len(in) > 0 {
		state.last = s.now()
		s.metrics.samples.WithLabelValues("fetch").Add(float64(len(in)))
		s.take(in)
	}
	s.sources[src.service] = state
}

// poll gets a JSON object of loads by PoP: {"fra": 81200, "dub": 4000}.
func (s *Store) poll(ctx context.Context, src *source) (map[string]Sample, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, src.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "edgesteer-load")
	client := &http.Client{Transport: s.config.Transport}
	res, err := client.Do(r)
	if err != nil {
		return nil, plain(err)
	}
	defer func() { _ = res.Body.Close() }() // what matters of it was read
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", res.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, plain(err)
	}
	if len(data) > maxAnswer {
		return nil, fmt.Errorf("an answer of more than %d octets", maxAnswer)
	}
	var values map[string]float64
	if err := json.Unmarshal(data, &values); err != nil {
		return nil, errors.New("the answer is no JSON object of numbers by PoP")
	}
	now, out := s.now(), make(map[string]Sample, len(values))
	for pop, v := range values {
		out[pop] = Sample{Value: v, At: now, Node: s.config.Node}
	}
	return out, nil
}

// plain takes the URL off an error, which may hold a secret.
func plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	return errors.New(strings.TrimSpace(err.Error()))
}
