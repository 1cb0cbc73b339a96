package app

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/edgesteer/edgesteer/pops"
	loads "github.com/edgesteer/edgesteer/pops/load"
	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones/zonefile"
)

// loadPause is how long new loads and values of feeds wait for others, so that many of them make one new view.
const loadPause = 200 * time.Millisecond

// newLoads makes what keeps loads and feeds.
func (a *App) newLoads() (err error) {
	cfg := a.parts.cfg
	a.loads, err = loads.New(loads.Config{
		Node:       cfg.Server.Node,
		Plan:       a.parts.loads,
		Now:        a.now,
		Broadcast:  a.broadcast(loadState),
		Log:        a.log,
		Registerer: a.control,
	})
	return err
}

// reports are loads and feeds, in the words of the API.
type reports struct {
	*loads.Store
	cfg func() *config.Config // that is in use
}

// Status implements admin.Loads.
func (r reports) Status() *api.Loads {
	return &api.Loads{Loads: values(r.LoadStatus()), Feeds: values(r.FeedStatus())}
}

func values(list []loads.Status) []api.Value {
	out := make([]api.Value, 0, len(list))
	for _, s := range list {
		v := api.Value{Name: s.Name, Stale: s.Stale, MaxAge: api.Duration(s.MaxAge)}
		if s.Known {
			v.Text, v.Time, v.Node = s.Sample.Text, s.Sample.At, s.Sample.Node
			if len(v.Text) == 0 {
				v.Value = &s.Sample.Value
			}
		}
		out = append(out, v)
	}
	return out
}

// Push implements admin.Loads. Targets and values have been checked to be there.
func (r reports) Push(list []api.LoadSample) (int, error) {
	taken := make([]loads.Load, 0, len(list))
	for i, l := range list {
		t, err := pops.ParseTarget(l.Target)
		if err != nil {
			return i, err
		}
		taken = append(taken, loads.Load{Target: t, Value: *l.Value, At: l.Time})
	}
	err := r.Store.Push(taken)
	if bad, ok := errors.AsType[*loads.InvalidError](err); ok {
		return bad.Index, err
	}
	return 0, err
}

// Feed implements admin.Loads.
func (r reports) Feed(name string, f *api.FeedReport) (bool, error) {
	value := 0.0
	if f.Value != nil {
		value = *f.Value
	}
	for _, key := range r.cfg().Bindings()[name] { // what is refused here would hold up a reload later
		if err := zonefile.CheckFeed(key, loads.Sample{Value: value, Text: f.Text}.Says()); err != nil {
			return true, err
		}
	}
	err := r.Store.Feed(name, value, f.Text, f.Time)
	return !errors.Is(err, loads.ErrUnknownFeed), err
}

const (
	// bindEvery is how often it is looked whether feeds say something else of what is compiled.
	bindEvery = time.Second
	// bindPause is the least time between two compilations for that.
	bindPause = 5 * time.Second
)

// followFeeds compiles anew what is bound to feeds whenever they say something else, until ctx ends.
func (a *App) followFeeds(ctx context.Context) {
	tick := time.NewTicker(bindEvery)
	defer tick.Stop()
	var last time.Time
	var refused map[string]any
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		said := a.loads.Said()
		if maps.EqualFunc(said, a.present().said, equal) || refused != nil && maps.EqualFunc(said, refused, equal) || time.Since(last) < bindPause {
			continue
		}
		last, refused = time.Now(), nil
		if err := a.bind(said); err != nil {
			a.log.Error("what feeds say cannot be taken over: everything stays as it was", "err", err)
			refused = said
		}
	}
}

func equal(x, y any) bool { return reflect.DeepEqual(x, y) }

// bind loads again with what feeds say. Zones that it does not touch are taken over.
func (a *App) bind(said map[string]any) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	prev := a.present()
	next, problems := load(prev.cfg, prev, said)
	if next == nil {
		return config.Problems(problems)
	}
	a.configureTransfers(next)
	if err := a.replace(next); err != nil {
		return err
	}
	a.log.Info("compiled what feeds say", "feeds", slices.Sorted(maps.Keys(said)), "version", a.publisher.Snapshot().Version)
	return nil
}

// said is what feeds say of what a configuration that is about to be loaded binds to them.
func (a *App) said(cfg *config.Config) map[string]any {
	if a.loads == nil {
		return nil
	}
	out, known := a.loads.Said(), cfg.Bindings()
	maps.DeleteFunc(out, func(feed string, _ any) bool { return known[feed] == nil })
	return out
}
