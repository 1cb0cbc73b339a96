// Package load knows the newest loads of endpoints and the newest values of feeds, wherever they come from: pushed through the API, polled as JSON, or asked of Prometheus.
//
// A [Store] keeps the newest sample of each; other nodes' samples come in by [Store.Merge], in any order and any number of times. [Store.Loads] and [Store.Feeds] are what pops.NewView takes; what
// is too old is not in them, and is shown as stale.
//
// What it is not: it sheds nothing (pops.NewView and the filters do), and keeps nothing on disk: a load of before a restart is too old to act on.
package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/pops"
)

// Config is what a Store is made of.
type Config struct {
	Node string           // this node's name; required
	Plan *Plan            // required
	Now  func() time.Time // fleet time; nil: time.Now
	// Broadcast hands samples that came in here to the other nodes: a state for their Merge. A later one of the same key takes the place of an earlier one. It must not block. nil: there are no other
	// nodes.
	Broadcast  func(key string, state []byte)
	Transport  http.RoundTripper     // of polls and queries; nil: a plain one
	Log        *slog.Logger          // nil: slog.Default
	Registerer prometheus.Registerer // nil: the metrics are counted but not shown
}

// Store keeps the newest samples. All methods are safe for concurrent use.
type Store struct {
	config  Config
	now     func() time.Time
	log     *slog.Logger
	metrics *metrics
	changed chan struct{}
	reload  chan struct{}

	mu      sync.Mutex // of all that follows
	plan    *Plan
	samples map[string]Sample // by key
	sources map[string]sourceState
}

// Sample is a value at a moment.
type Sample struct {
	Value float64   `json:"value"`
	Text  []string  `json:"text,omitempty"` // of a feed, instead of a number
	At    time.Time `json:"at"`             // when it was true; fleet time
	Node  string    `json:"node"`           // that it came to
}

// compare orders samples: the newer is more, and of two of one moment some fixed one.
func (s Sample) compare(o Sample) int {
	return cmp.Or(s.At.Compare(o.At), cmp.Compare(s.Node, o.Node), cmp.Compare(s.Value, o.Value), slices.Compare(s.Text, o.Text))
}

// Keys of samples: loads by endpoint, feeds by name.
const (
	loadKey = "load "
	feedKey = "feed "
)

// maxAhead is how far in the future a sample may be: clocks differ.
const maxAhead = time.Minute

// New makes a Store. Run polls and queries.
func New(c Config) (*Store, error) {
	if c.Node == "" || c.Plan == nil {
		return nil, errors.New("loads need a node name and a plan")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute}
	}
	s := &Store{
		config: c, now: c.Now, log: c.Log, plan: c.Plan,
		metrics: newMetrics(c.Registerer),
		changed: make(chan struct{}, 1), reload: make(chan struct{}, 1),
		samples: map[string]Sample{}, sources: map[string]sourceState{},
	}
	s.metrics.expect(c.Plan)
	s.register(c.Registerer)
	return s, nil
}

// Reload makes another plan the one to follow. What is known of endpoints and feeds that are in both is kept.
func (s *Store) Reload(p *Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = p
	s.metrics.expect(p)
	maps.DeleteFunc(s.samples, func(key string, _ Sample) bool { return !p.knows(key) })
	select {
	case s.reload <- struct{}{}:
	default:
	}
}

// Load is a load that somebody reports.
type Load struct {
	Target pops.Target // an endpoint
	Value  float64     // in the unit of its service's metric
	At     time.Time   // when it was true; zero: now
}

// Push takes in loads: all, or none with an error that says what is wrong with which.
func (s *Store) Push(loads []Load) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	in := make(map[string]Sample, len(loads))
	for i, l := range loads {
		name := l.Target.String()
		if l.At.IsZero() {
			l.At = now
		}
		fault := ""
		switch {
		case !s.plan.endpoint(name):
			fault = name + " is no endpoint"
		case math.IsNaN(l.Value) || math.IsInf(l.Value, 0) || l.Value < 0:
			fault = fmt.Sprintf("load %g is no load", l.Value)
		case l.At.Sub(now) > maxAhead:
			fault = "its time is in the future"
		}
		if fault != "" {
			return &InvalidError{Index: i, Text: fault}
		}
		in[loadKey+name] = Sample{Value: l.Value, At: l.At, Node: s.config.Node}
	}
	s.take(in)
	s.metrics.samples.WithLabelValues("push").Add(float64(len(loads)))
	return nil
}

// InvalidError says what is wrong with one of several loads.
type InvalidError struct {
	Index int // from 0
	Text  string
}

func (e *InvalidError) Error() string { return e.Text }

// ErrUnknownFeed is the error of a feed to which no metadata is bound.
var ErrUnknownFeed = errors.New("no metadata is bound to this feed")

// Feed takes in a value of a feed: a number, where booleans are 0 and 1, or if text is not empty that, for places and notes. A zero time is now.
func (s *Store) Feed(name string, value float64, text []string, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if at.IsZero() {
		at = now
	}
	switch {
	case !s.plan.knows(feedKey + name):
		return ErrUnknownFeed
	case len(text) > 0 && !s.plan.bound[name]:
		return &InvalidError{Text: "what is bound to this feed wants a number"}
	case math.IsNaN(value) || math.IsInf(value, 0):
		return &InvalidError{Text: fmt.Sprintf("%g is no value", value)}
	case at.Sub(now) > maxAhead:
		return &InvalidError{Text: "its time is in the future"}
	}
	s.take(map[string]Sample{feedKey + name: {Value: value, Text: text, At: at, Node: s.config.Node}})
	s.metrics.samples.WithLabelValues("feed").Inc()
	return nil
}

// take keeps what is new, and tells the other nodes. It holds mu.
func (s *Store) take(in map[string]Sample) {
	fresh := map[string]Sample{}
	for key, sample := range in {
		if old, ok := s.samples[key]; !ok || sample.compare(old) > 0 {
			s.samples[key] = sample
			fresh[key] = sample
		}
	}
	if len(fresh) == 0 {
		return
	}
	s.signal()
	if s.config.Broadcast == nil {
		return
	}
	for key, sample := range fresh {
		s.config.Broadcast(key, encode(map[string]Sample{key: sample}))
	}
}

func (s *Store) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Changed receives when there are new samples. There is one channel: one may read it.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Loads are the newest loads of a fleet's endpoints, the plan's or another; unknown ones are zero, and those that are stale say so by their time.
func (s *Store) Loads(f *pops.Fleet) []pops.Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]pops.Load, len(f.Endpoints))
	if len(s.samples) == 0 {
		return out
	}
	for e := range f.Endpoints {
		name := f.UnitTarget(f.EndpointUnit(e)).String()
		if sample, ok := s.samples[loadKey+name]; ok {
			out[e] = pops.Load{Value: sample.Value, At: sample.At, Fresh: sample.At.Add(s.plan.loadAge(name))}
		}
	}
	return out
}

// Feeds are the newest values of a fleet's feeds; NaN: never seen, or stale.
func (s *Store) Feeds(f *pops.Fleet) []float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	out := make([]float64, len(f.Feeds))
	for i, name := range f.Feeds {
		out[i] = math.NaN()
		if sample, ok := s.samples[feedKey+name]; ok && now.Before(sample.At.Add(s.plan.feedAge(name))) {
			out[i] = sample.Value
		}
	}
	return out
}

// Said is what feeds say now of metadata that is compiled (config.Bind): a text, texts, or a number. Those that say nothing, or have not for too long, are not in it.
func (s *Store) Said() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, out := s.now(), map[string]any{}
	for name := range s.plan.bound {
		sample, ok := s.samples[feedKey+name]
		if ok && now.Before(sample.At.Add(s.plan.feedAge(name))) {
			out[name] = sample.Says()
		}
	}
	return out
}

// Says is the value of a sample as a configuration would have it: a text, texts, or a number.
func (s Sample) Says() any {
	switch {
	case len(s.Text) == 1:
		return s.Text[0]
	case len(s.Text) > 1:
		list := make([]any, len(s.Text))
		for i, t := range s.Text {
			list[i] = t
		}
		return list
	case s.Value == math.Trunc(s.Value) && math.Abs(s.Value) < 1<<53:
		return int64(s.Value)
	}
	return s.Value
}

// NextChange is the first moment after now at which a feed goes stale; zero if none does. Of loads pops.NewView knows itself.
func (s *Store) NextChange(now time.Time) (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.plan.feeds {
		if sample, ok := s.samples[feedKey+name]; ok {
			if end := sample.At.Add(s.plan.feedAge(name)); end.After(now) && (next.IsZero() || end.Before(next)) {
				next = end
			}
		}
	}
	return next
}

const messageVersion = 1

type message struct {
	Version int               `json:"version"`
	Samples map[string]Sample `json:"samples"`
}

func encode(samples map[string]Sample) []byte {
	b, _ := json.Marshal(message{messageVersion, samples}) // samples are finite
	return b
}

// MarshalBinary gives all samples, for another Store's Merge. Stores that agree give the same octets.
func (s *Store) MarshalBinary() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return encode(s.samples), nil
}

// Merge takes in another node's samples, all of them or some. What is of the future, by a clock that was far ahead, is left out as Push would refuse it: no later sample would count until then.
func (s *Store) Merge(b []byte) error {
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("merging a peer's loads: %w", err)
	}
	if m.Version != messageVersion {
		return fmt.Errorf("merging a peer's loads: version %d, this node knows %d", m.Version, messageVersion)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	news, now := false, s.now()
	for key, sample := range m.Samples {
		if old, ok := s.samples[key]; s.plan.knows(key) && sample.At.Sub(now) <= maxAhead && (!ok || sample.compare(old) > 0) {
			s.samples[key] = sample
			news = true
		}
	}
	if news {
		s.signal()
	}
	return nil
}

// Status is what is known of one load or feed.
type Status struct {
	Name   string // POP/SERVICE, or of the feed
	Known  bool   // there was a sample
	Sample Sample
	Stale  bool // there was none, or it is too old
	MaxAge time.Duration
}

// LoadStatus describes the endpoints of which a load was ever reported, or should be, by name.
func (s *Store) LoadStatus() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status(loadKey, s.plan.loads)
}

// FeedStatus describes the feeds that metadata is bound to, by name.
func (s *Store) FeedStatus() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status(feedKey, s.plan.feeds)
}

func (s *Store) status(prefix string, ages map[string]time.Duration) []Status {
	now := s.now()
	out := make([]Status, 0, len(ages))
	for _, name := range slices.Sorted(maps.Keys(ages)) {
		sample, ok := s.samples[prefix+name]
		out = append(out, Status{Name: name, Known: ok, Sample: sample, Stale: !ok || !now.Before(sample.At.Add(ages[name])), MaxAge: ages[name]})
	}
	return out
}

// Run polls and queries what the plan names, until ctx ends.
func (s *Store) Run(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		p := s.plan
		s.mu.Unlock()
		round, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for i := range p.sources {
			wg.Go(func() { s.follow(round, &p.sources[i]) })
		}
		select {
		case <-ctx.Done():
		case <-s.reload:
		}
		cancel()
		wg.Wait()
	}
}
