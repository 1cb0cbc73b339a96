package app

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestRelease: memory is given back once after a run of reloads, and not while somebody may still look at what was served before.
func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		garbage := make(chan struct{}, 1)
		var freed []time.Duration
		began := time.Now()
		stop := run(func(ctx context.Context) { release(ctx, garbage, func() { freed = append(freed, time.Since(began)) }) })
		for range 3 {
			garbage <- struct{}{}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		garbage <- struct{}{}
		time.Sleep(time.Minute)
		stop(t.Context())
		if want := []time.Duration{2*time.Second + releaseAfter, 3*time.Second + time.Hour + releaseAfter}; !slices.Equal(freed, want) {
			t.Errorf("freed after %v, want %v", freed, want)
		}
	})
}
