package server

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/zones"
)

// Snapshot is everything that an answer depends on, at one moment. It is immutable once published; a handler takes it once per batch, so that no answer mixes two moments.
type Snapshot struct {
	Version uint64 // set by Publish, counts up
	Zones   *zones.Set
	Atlas   *geo.Atlas // compiled for Zones.Plans()
	View    *pops.View // of the fleet that Zones was built for
}

// Publisher holds the current snapshot. Its single writer is the rebuild step of server/app; readers are all handlers.
type Publisher struct {
	current atomic.Pointer[Snapshot]
}

// Snapshot gives the current snapshot, nil before the first Publish.
func (p *Publisher) Snapshot() *Snapshot { return p.current.Load() }

// Publish checks that the parts of s belong together and makes it what the next batch of queries sees. The caller must not change s afterwards.
func (p *Publisher) Publish(s *Snapshot) error {
	if s.Zones == nil || s.Atlas == nil || s.View == nil {
		return errors.New("snapshot lacks zones, geography or PoP view")
	}
	if want, have := len(s.Zones.Plans()), s.Atlas.Len(); have < want {
		return fmt.Errorf("geography was compiled for %d plans, the zones have %d", have, want)
	}
	if want, have := s.View.Fleet.Units(), len(s.View.States); have != want {
		return fmt.Errorf("PoP view has %d states for %d units", have, want)
	}
	s.Version = 1
	if old := p.current.Load(); old != nil {
		s.Version = old.Version + 1
	}
	p.current.Store(s)
	return nil
}
