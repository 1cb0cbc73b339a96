package filters

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/pops"
)

// row is one case of a filter's table: who gets what. The client is German unless it says otherwise.
type row struct {
	name   string
	chain  string
	other  string // chain of the record that avoid_record names
	spots  []spot
	client string
	v6     bool
	want   string // labels of who serves, in order
	rung   uint8  // 0: not looked at
}

func table(t *testing.T, rows []row) {
	t.Helper()
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			w := scene(t, tt.spots, tt.chain, tt.other)
			w.twin.v6 = tt.v6
			ecs := germany
			if tt.client != "" {
				ecs = netip.MustParsePrefix(tt.client)
			}
			x := &Exec{}
			got, _ := w.names(x, ecs)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.chain, diff)
			}
			if tt.rung != 0 && x.Rung != tt.rung {
				t.Errorf("rung %d, want %d", x.Rung, tt.rung)
			}
		})
	}
}

// explicit makes an answer that is tied to no PoP, with `up` as given; NaN for none.
func explicit(up pops.Value) func(*Answer) {
	return func(a *Answer) {
		a.PoP, a.Unit, a.Has4, a.Up = -1, pops.NoUnit, 0, up
	}
}

// tied makes an answer that is tied to its PoP and has the value `up`.
func tied(up pops.Value) func(*Answer) {
	return func(a *Answer) {
		explicit(up)(a)
		a.PoP, a.Unit = 0, 2 // the first PoP of two
	}
}

var (
	yes  = pops.Value{Set: true, Const: 1}
	no   = pops.Value{Set: true}
	none = pops.Value{}
)

func num(v float64) pops.Value { return pops.Value{Set: true, Const: v} }

// fed is bound to the test fleet's only feed, which has no data: the constant counts.
func fed(v float64) pops.Value { return pops.Value{Set: true, Const: v, Feed: 1} }

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 11)) }

// networks calls f with n client networks of 10.0.0.0/8, all different.
func networks(n int, f func(netip.Prefix)) {
	for i := range n {
		f(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24))
	}
}
