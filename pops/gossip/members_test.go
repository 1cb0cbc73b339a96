package gossip

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
)

// Who is gone is known for a day, and one who is there for ever.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ms := newMembers("n1", slog.New(slog.DiscardHandler), newMetrics(nil, nil))
		for _, name := range []string{"n1", "n2", "n3"} {
			ms.is(&memberlist.Node{Name: name}, Alive)
		}
		time.Sleep(48 * time.Hour)
		ms.is(&memberlist.Node{Name: "n2"}, Dead)
		time.Sleep(remembered)
		if n := len(ms.list()); n != 3 {
			t.Errorf("%d members after a day", n)
		}
		time.Sleep(time.Second)
		if n := len(ms.list()); n != 2 {
			t.Errorf("%d members after more than a day", n)
		}
	})
}
