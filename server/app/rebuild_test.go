package app

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
)

// A clock that is set, and a machine that was stopped for a while, hold no scheduled drain up.
func TestScheduledDespiteClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newVirtual(t, []time.Duration{0})
		defer f.end()
		a := f.apps[0]
		if _, err := a.ledger.Apply(drain.Request{
			Kind: pops.Drain, Target: pops.Target{PoP: "home"}, By: 100, Start: a.now().Add(50 * time.Minute), Author: "test", Role: pops.Person, Reason: "test", Override: []string{"half", "last"},
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		f.step.Store(int64(40 * time.Minute))
		time.Sleep(8 * time.Minute)
		if got := share(a); got != 100 {
			t.Errorf("%v %% before its start", got)
		}
		time.Sleep(time.Minute + 2*time.Second)
		if got := share(a); got != 0 {
			t.Errorf("%v %% after its start", got)
		}
	})
}

// What is predicted while the configuration is loaded anew rests on one configuration or the other.
func TestPreviewWhileReloading(t *testing.T) {
	apps := startSkewed(t, []time.Duration{0})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 5 {
			apps[0].Reload()
		}
	}()
	for previews := 0; ; previews++ {
		select {
		case <-done:
			if previews == 0 {
				t.Error("nothing was predicted")
			}
			return
		default:
		}
		if _, err := apps[0].ledger.Apply(drain.Request{Kind: pops.Drain, Target: pops.Target{PoP: "home"}, By: 20, Author: "test", Role: pops.Person, Reason: "test", DryRun: true}); err != nil {
			t.Error(err)
		}
	}
}
