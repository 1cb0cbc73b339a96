package app

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/server"
)

// askers is the mix of one record: n networks, of which the first asks for a fifth of all.
func askers(owner string, n int, rate float64) server.RecordMix {
	r := server.RecordMix{Key: server.MixKey{Owner: owner, Type: 1}, Rate: rate}
	for i := range n {
		c := geo.NewClient(netip.AddrFrom4([4]byte{byte(20 + i>>8), byte(i), 0, 0}), 24, netip.Addr{})
		w := rate * 0.8 / float64(n-1)
		if i == 0 {
			w = rate * 0.2
			r.Heavy = append(r.Heavy, server.Heavy{Client: c, Share: 0.2})
		}
		r.Clients = append(r.Clients, server.Weighted{Client: c, Weight: w})
	}
	return r
}

// A mix comes to the other nodes with its queries a second and its shares, and is of bounded size whatever is asked.
func TestMixesDigest(t *testing.T) {
	var mix []server.RecordMix
	for i := range 200 {
		mix = append(mix, askers(fmt.Sprintf("\x03r%02d\x07example\x03com\x00", i), 1000, float64(1000*(i+1))))
	}
	a := newMixes("a", func() []mixRecord { return digest(slices.Clone(mix), mixMost, 0.1) })
	b := newMixes("b", func() []mixRecord { return nil })
	if data := a.say(); len(data) > 64<<10 {
		t.Errorf("%d octets", len(data))
	} else if err := b.Merge(data); err != nil {
		t.Fatal(err)
	}
	got := b.add(nil, 0.2) // here a unit of rate is twice as many queries a second
	if len(got) != mixRecords {
		t.Errorf("%d records", len(got))
	}
	for i := range got {
		r := &got[i]
		k := slices.IndexFunc(mix, func(m server.RecordMix) bool { return m.Key == r.Key })
		if want := mix[k].Rate / 2; math.Abs(r.Rate-want) > 1e-6*want {
			t.Errorf("record %d: rate %v, want %v", k, r.Rate, want)
		}
		sum, first := 0.0, 0.0
		for _, c := range r.Clients {
			sum += c.Weight
			if c.Client.Addr == mix[k].Clients[0].Client.Addr {
				first += c.Weight
			}
		}
		if math.Abs(sum-r.Rate) > 1e-6*r.Rate || math.Abs(first/sum-0.2) > 0.5/float64(len(r.Clients))+0.15 {
			t.Errorf("record %d: weights add up to %v of %v, the first has %v", k, sum, r.Rate, first/sum)
		}
		if len(r.Heavy) != 1 || r.Heavy[0].Share != 0.2 {
			t.Errorf("record %d: heavy %v", k, r.Heavy)
		}
	}
	// A second node asks as much for one of them, of other networks: shares halve.
	c := newMixes("c", func() []mixRecord {
		r := askers(mix[199].Key.Owner, 100, 1000)
		r.Heavy = nil
		return digest([]server.RecordMix{r}, mixMost, 20)
	})
	if err := b.Merge(c.say()); err != nil {
		t.Fatal(err)
	}
	got = b.add([]server.RecordMix{askers(mix[199].Key.Owner, 10, 100_000)}, 0.2)
	if r := got[0]; math.Abs(r.Rate-300_000) > 1 || len(r.Heavy) != 1 || math.Abs(r.Heavy[0].Share-0.4/3) > 1e-9 {
		t.Errorf("rate %v, heavy %v", r.Rate, r.Heavy)
	}
}

// Reports are merged in any order and any number of times, and those of silent nodes are forgotten.
func TestMixesMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := 1.0
		a := newMixes("a", func() []mixRecord { return digest([]server.RecordMix{askers("\x01r\x00", 10, rate)}, 32, 1) })
		first := a.say()
		rate = 2
		second := a.say()
		b, c := newMixes("b", func() []mixRecord { return nil }), newMixes("c", func() []mixRecord { return nil })
		for _, data := range [][]byte{first, second, second} {
			if err := b.Merge(data); err != nil {
				t.Fatal(err)
			}
		}
		whole, err := b.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(mixLife - time.Second) // it was on its way for long, or its node is silent
		for _, data := range [][]byte{whole, first} {
			if err := c.Merge(data); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(b.others["a"].Records, c.others["a"].Records, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" || c.others["a"].Records[0].PerSecond != 2 {
			t.Error(diff)
		}
		time.Sleep(2 * time.Second)
		if len(b.add(nil, 1)) != 0 {
			t.Error("a silent node counts for ever")
		}
		for _, bad := range []string{
			`{`, `[{"node":""}]`, `[{"node":"x","records":[{"per_second":0}]}]`, `[{"node":"x","records":[{"per_second":1,"clients":{"1.2.3.0/24":0}}]}]`,
			`[{"node":"x","records":[{"per_second":1,"heavy":{"1.2.3.0/24":2}}]}]`,
		} {
			if b.Merge([]byte(bad)) == nil {
				t.Errorf("%s was taken", bad)
			}
		}
		if err := b.Merge([]byte(`[null]`)); err != nil || len(b.others) != 0 {
			t.Errorf("%v, %d nodes", err, len(b.others))
		}
	})
}

// What is asked at one node is what another predicts by, within a minute. A node counts from its start: the rate is right when it has been asked for much longer than it took to start.
func TestMixesFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newVirtual(t, make([]time.Duration, 3))
		defer f.end()
		handler := f.apps[2].handlers.New()
		buf := make([]byte, 4096)
		for second := range 240 {
			handler.Refresh()
			for i := range 20 {
				q := new(dns.Msg)
				q.SetQuestion("wss.example.com.", dns.TypeA)
				msg, err := q.Pack()
				if err != nil {
					t.Fatal(err)
				}
				handler.Handle(msg, buf[:0], &server.Peer{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{20, byte(i), 0, 1}), 4000)})
			}
			handler.Done()
			time.Sleep(time.Second)
			if second != 59 && second != 239 {
				continue
			}
			mix := f.apps[0].asked(previewRuns)
			if len(mix) != 1 || len(mix[0].Clients) != 20 {
				t.Fatalf("after %d s: %+v", second+1, mix)
			}
			if got := f.apps[0].mix.PerSecond(mix[0].Rate); second == 239 && math.Abs(got-20) > 2 {
				t.Errorf("%v queries a second", got)
			}
		}
	})
}
