package app

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/server/admin"
	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// openLedger opens the ledger of the state folder and obeys it.
func (a *App) openLedger() error {
	cfg := a.parts.cfg
	dir := cfg.Path(cfg.Server.State)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making the state folder: %w", err)
	}
	a.clock = drain.NewClock(drain.ClockConfig{Node: cfg.Server.Node, Wall: a.opts.Wall})
	ledger, err := drain.New(drain.Config{
		Node: cfg.Server.Node, Dir: dir,
		Clock:      a.clock,
		Broadcast:  a.broadcast(ledgerState),
		Fleet:      func() *pops.Fleet { return a.publisher.Snapshot().View.Fleet },
		View:       a.preview,
		Effect:     &effect{publisher: &a.publisher, mix: a.mix, asked: a.asked},
		Bound:      a.bound,
		Log:        a.log,
		Registerer: a.control,
	})
	if err != nil {
		return err
	}
	a.ledger = ledger
	a.atEnd(state, func(context.Context) {
		if err := ledger.Close(); err != nil {
			a.log.Error("closing the ledger", "err", err)
		}
	})
	a.background(state, ledger.Run)
	return a.obey()
}

// openAdmin binds the addresses of the admin API. Nothing is served yet.
func (a *App) openAdmin() error {
	cfg := a.present().cfg
	s, err := admin.New(admin.Config{
		Settings: cfg.Admin, Listeners: a.opts.Bound, Path: cfg.Path,
		Node:      api.Node{Name: cfg.Server.Node, PoP: cfg.Server.PoP, Version: a.opts.Version, Config: cfg.Hash(), Started: a.started},
		Publisher: &a.publisher, Ledger: a.ledger,
		Places:     a.places,
		Answers:    a.answers,
		Counts:     a.counts,
		Explain:    func(q api.ExplainQuery) (*api.Explanation, error) { return a.Explain(q, nil, nil) },
		Zones:      a.zoneList,
		Reload:     a.reloadZones,
		Loads:      reports{a.loads, func() *config.Config { return a.present().cfg }},
		Health:     a.healthList,
		Warnings:   a.warnings,
		Probe:      a.probe,
		Automation: a.automation,
		Drills:     a.drillList,
		Drill:      a.drillNow,
		Alerted:    a.drills.heard,
		Rebuild:    a.obey,
		Wait:       a.wait,
		Peers:      a.peers,
		Registry:   a.control, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.admin = s // before the first request can want a rebuild
	a.mu.Unlock()
	if err := s.Bind(); err != nil {
		return err
	}
	a.atEnd(doors, func(ctx context.Context) {
		if err := s.Stop(ctx); err != nil {
			a.log.Warn("stopping the admin API", "err", err)
		}
	})
	return nil
}

// answersAge is how old the shares of PoPs may be that several askers are told: computing them runs every chain over the mix.
const answersAge = time.Second

// answers is the live query mix, as shares of PoPs.
func (a *App) answers() admin.Answers {
	a.answered.Lock()
	defer a.answered.Unlock()
	snap := a.publisher.Snapshot()
	if now := time.Now(); a.answered.snapshot != snap.Version || now.Sub(a.answered.at) > answersAge {
		a.answered.answers, a.answered.snapshot, a.answered.at = a.computeAnswers(snap), snap.Version, now
	}
	return a.answered.answers
}

func (a *App) computeAnswers(snap *server.Snapshot) admin.Answers {
	shares, rate := server.Shares(snap, a.mix.Snapshot(previewRuns))
	out := admin.Answers{Queries: a.mix.PerSecond(rate), PoPs: map[string]float64{}}
	if rate == 0 {
		return out
	}
	for i, share := range shares {
		out.PoPs[snap.View.Fleet.PoPs[i].Name] = 100 * share
	}
	return out
}

// counts are how many answers named each PoP since the start.
func (a *App) counts() admin.Counts {
	f := a.publisher.Snapshot().View.Fleet
	out := admin.Counts{PoPs: make([]string, len(f.PoPs)), Answers: make([]float64, len(f.PoPs))}
	for i := range f.PoPs {
		out.PoPs[i] = f.PoPs[i].Name
	}
	for _, u := range a.handlers.UnitAnswers(f) {
		out.Queries += u.Answers
		if u.Unit >= 0 {
			out.Answers[f.PoPOf(u.Unit)] += u.Answers
		}
	}
	return out
}

// places are where PoPs are, as configured.
func (a *App) places() map[string]api.PoP {
	a.mu.Lock()
	cfg := a.parts.cfg
	a.mu.Unlock()
	out := map[string]api.PoP{}
	for _, p := range cfg.PoPs {
		out[p.Name] = api.PoP{Country: texts(p.Country), Subdivision: texts(p.Subdivision), Georegion: texts(p.Georegion), Latitude: p.Latitude, Longitude: p.Longitude}
	}
	return out
}

// texts is a text or a list of texts, as a configuration may have it.
func texts(v any) (out []string) {
	switch v := v.(type) {
	case string:
		out = append(out, v)
	case []any:
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// noteZones notes for each zone that is not the one of old that it was loaded now.
func (a *App) noteZones(old *zones.Set, now time.Time) {
	loaded := map[string]time.Time{}
	for z := range a.parts.zones.Zones() {
		loaded[z.String()] = now
		if old != nil && old.Zone(z.Apex()) == z {
			loaded[z.String()] = a.loaded[z.String()]
		}
	}
	a.loaded = loaded
}

// zoneList is what is said of each zone. Statements go on being obeyed while it is put together.
func (a *App) zoneList() []api.ZoneInfo {
	p, loaded := a.whatIsLoaded()
	known := map[string]*config.Zone{}
	for i := range p.cfg.Zones {
		known[strings.ToLower(strings.TrimSuffix(p.cfg.Zones[i].Name, ".")+".")] = &p.cfg.Zones[i]
	}
	out := make([]api.ZoneInfo, 0, p.zones.Len())
	for z := range p.zones.Zones() {
		info := api.ZoneInfo{Name: z.String(), Serial: z.Serial(), Owners: z.Names(), Steered: len(z.Records()), Loaded: loaded[z.String()]}
		info.Names = steeredNames(z)
		if c := known[strings.ToLower(z.String())]; c != nil {
			info.Source, info.Secondary = p.cfg.Path(c.File), c.File == ""
			if info.Secondary && len(c.Primaries) > 0 {
				info.Source = c.Primaries[0].Address.String()
			}
		}
		out = append(out, info)
	}
	return out
}

// whatIsLoaded is what is served now, and when the present version of each zone was loaded. Neither may be changed.
func (a *App) whatIsLoaded() (*parts, map[string]time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.parts, a.loaded
}

// steeredNames are the first names of a zone's steered records.
func steeredNames(z *zones.Zone) (names []string) {
	for _, r := range z.Records() {
		if name := wire.NameString(r.Name); len(names) < 100 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// reloadZones is Reload in the words of the API.
func (a *App) reloadZones() *api.Reload {
	_, before := a.whatIsLoaded()
	out := &api.Reload{Schema: api.Schema, Changed: []string{}}
	for _, p := range a.Reload() {
		out.Problems = append(out.Problems, api.ConfigProblem{File: p.File, Line: p.Line, Field: p.Field, Message: p.Message, Hint: p.Hint, Warning: p.Warning})
	}
	p, after := a.whatIsLoaded()
	for z := range p.zones.Zones() {
		if !before[z.String()].Equal(after[z.String()]) {
			out.Changed = append(out.Changed, z.String())
		}
	}
	return out
}
