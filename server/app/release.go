package app

import (
	"context"
	"time"
)

// releaseAfter is how long somebody may still look at what was served before: a worker that has had nothing to do, or who counts who asks.
const releaseAfter = 2 * time.Second

// spent says that something has been replaced or thrown away.
func (a *App) spent() {
	select {
	case a.garbage <- struct{}{}:
	default: // it is known
	}
}

// release calls free, which gives memory back to the system, when there is garbage, nobody looks at what was served before any more, and loading has come to rest. Left to
// itself the collector would let the process grow to twice what it holds first, and keep most of that.
func release(ctx context.Context, garbage <-chan struct{}, free func()) {
	rest := time.NewTimer(time.Hour)
	rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-garbage:
			rest.Reset(releaseAfter)
		case <-rest.C:
			free()
		}
	}
}
