package app

import (
	"fmt"
	"sync"
	"time"

	"github.com/edgesteer/edgesteer/pops"
)

// ladderMemory is for how long an answer from a lower rung is told of.
const ladderMemory = time.Minute

// ladder remembers when answers last came from the lower rungs of the last-resort ladder. Such an answer is better than none, and a person has to look.
type ladder struct {
	mu    sync.Mutex
	count [pops.RungAll + 1]uint64
	seen  [pops.RungAll + 1]time.Time // when the count last rose
}

// note takes the counts of answers by rung since the start.
func (l *ladder) note(count [pops.RungAll + 1]uint64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rung := range count {
		if count[rung] > l.count[rung] {
			l.seen[rung] = now
		}
	}
	l.count = count
}

// warnings names the rungs that answers of the last minute came from.
func (l *ladder) warnings(now time.Time) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rung, what := range [...]string{
		pops.RungShare: "for some clients every draw says leave, and draws are ignored",
		pops.RungSaid:  "nothing that they could be sent to is up, and health is ignored",
		pops.RungAll:   "everything that they could be sent to is drained, and drains are ignored",
	} {
		if what == "" {
			continue
		}
		if at := l.seen[rung]; !at.IsZero() && now.Sub(at) < ladderMemory {
			out = append(out, fmt.Sprintf("answers come from rung %d of the ladder: %s", rung, what))
		}
	}
	return out
}
