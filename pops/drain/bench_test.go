package drain

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/edgesteer/edgesteer/pops"
)

// BenchmarkApply makes drains on a real disk, on a ledger that remembers many.
func BenchmarkApply(b *testing.B) {
	for _, remembered := range []int{0, 1000} {
		b.Run(fmt.Sprint(remembered), func(b *testing.B) {
			l, err := New(Config{Node: "a", Dir: b.TempDir(), Fleet: func() *pops.Fleet { return fleet }, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			peer := newState()
			for i := range remembered {
				e := &Entry{Statement: Statement{ID: fmt.Sprint("d-", i), Kind: pops.Drain, Role: pops.Person, Target: target("fra"), By: 1, Reason: "a reason of some length, INC-12345", Author: "ann", Stamp: Stamp{Wall: int64(i), Node: "b"}}, Lift: &Lift{Role: pops.Person, Stamp: Stamp{Node: "b"}}}
				e.cover()
				peer.entries[e.ID] = e
			}
			if err := l.Merge(encoded(peer.message())); err != nil {
				b.Fatal(err)
			}
			l.Flush()
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				if _, err := l.Apply(drain("fra", float64(1+i%100))); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
