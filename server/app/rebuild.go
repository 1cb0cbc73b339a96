package app

import (
	"context"
	"reflect"
	"time"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/server/config"
)

// now is fleet time.
func (a *App) now() time.Time {
	if a.ledger != nil {
		return a.ledger.Now()
	}
	return time.Now()
}

// rebuild computes the PoP view for a moment and publishes it with everything else: the single writer of the snapshot. The caller holds mu, or is New.
func (a *App) rebuild(now time.Time) error {
	in := a.input(a.parts, now)
	if old := a.publisher.Snapshot(); old != nil {
		in.Previous, in.Version = old.View, old.Version+1
	}
	if a.ledger != nil {
		in.Intents = a.ledger.Intents(now)
	}
	if err := a.publisher.Publish(&server.Snapshot{Zones: a.parts.zones, Atlas: a.parts.atlas, View: pops.NewView(a.parts.fleet, in)}); err != nil {
		return err
	}
	a.out.Published(a.parts.zones)
	if a.admin != nil {
		a.admin.Published()
	}
	return nil
}

// input is what the view of a fleet rests on beside the statements.
func (a *App) input(p *parts, now time.Time) pops.Input {
	in := pops.Input{Now: now, Panic: float64(p.cfg.Automation.Panic), Own: p.own}
	if a.health != nil {
		in.Verdicts = a.health.Verdicts(p.fleet)
	}
	if a.loads != nil {
		in.Loads, in.Feeds = a.loads.Loads(p.fleet), a.loads.Feeds(p.fleet)
	}
	return in
}

// preview is the view that other statements would lead to, with the health and loads of now.
func (a *App) preview(intents []pops.Intent, now time.Time) *pops.View {
	p := a.present()
	in := a.input(p, now)
	in.Intents, in.Previous = intents, a.publisher.Snapshot().View
	return pops.NewView(p.fleet, in)
}

// obey makes what the ledger says what is served, and returns when it is.
func (a *App) obey() error {
	entries := a.ledger.Statements() // before: what is said meanwhile is obeyed perhaps
	a.mu.Lock()
	err := a.rebuild(a.now())
	a.mu.Unlock()
	if err == nil {
		a.obeys(entries)
	}
	return err
}

// keepCurrent collects who asks, and rebuilds when statements have changed or a moment has come at which the view changes by itself: a start, a step of a ramp, an end, a load
// that goes stale.
func (a *App) keepCurrent(ctx context.Context) {
	changed, unsubscribe := a.ledger.Subscribe()
	defer unsubscribe()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	due := a.nextChange()
	next := time.NewTimer(a.until(due))
	defer next.Stop()
	soon := false // a view with new loads is
	for {
		select {
		case <-ctx.Done():
			return
		case <-second.C:
			a.mix.Collect(time.Now())
			now := a.now()
			a.ladder.note(a.handlers.Rungs(), now)
			if due.IsZero() || now.Before(due) { // the timer knows nothing of a clock that was set, or of a machine that was stopped
				continue
			}
		case <-changed:
		case <-a.health.Changed():
		case <-a.loads.Changed():
			if !soon {
				soon = true
				next.Reset(min(loadPause, a.until(due)))
			}
			continue
		case <-next.C:
		}
		if err := a.obey(); err != nil {
			a.log.Error("rebuilding", "err", err)
		}
		soon = false
		due = a.nextChange()
		next.Reset(a.until(due))
	}
}

// nextChange is when the view changes if nothing happens; zero if it does not.
func (a *App) nextChange() (next time.Time) {
	now := a.now()
	for _, t := range []time.Time{a.ledger.NextChange(now), a.loads.NextChange(now), a.publisher.Snapshot().View.Next} {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

// until is how long it is until a moment; an hour at the most.
func (a *App) until(t time.Time) time.Duration {
	if t.IsZero() {
		return time.Hour
	}
	return min(time.Hour, max(0, t.Sub(a.now())))
}

// fixed warns of changes that a reload cannot make.
func fixed(old, cfg *config.Config) (out []config.Problem) {
	for _, k := range []struct {
		old, new any
		path     []any
	}{
		{old.Server, cfg.Server, []any{"server"}},
		{old.Dnstap, cfg.Dnstap, []any{"dnstap"}},
		{old.Admin, cfg.Admin, []any{"admin"}},
		{old.Cluster, cfg.Cluster, []any{"cluster"}},
	} {
		if !reflect.DeepEqual(k.old, k.new) {
			p := cfg.Problem("changes here take effect at the next start only", "restart the server", k.path...)
			p.Warning = true
			out = append(out, p)
		}
	}
	return out
}
