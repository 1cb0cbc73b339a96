package app

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/server"
)

// Previews predict over the query mix of the fleet (steering.md section 7): a node of which little is asked would know little of who is. Every half minute a node tells the others who asks
// it, as a sample of networks for each of its most asked records.
const (
	mixEvery   = 30 * time.Second
	mixLife    = 10 * mixEvery // how long the mix of a node that is silent counts
	mixRecords = 64            // of a node, the most asked
	mixClients = 4096          // of all nodes together, shared by them
	mixLeast   = 32            // of a node, whatever the size of the fleet
	mixMost    = 512           // of a node
	mixHeavy   = 8             // of a record
	mixNodes   = 2048          // that are remembered
	mixRuns    = 50_000        // clients of this node that a report is a sample of
)

// mixes is who asks at the other nodes. It implements gossip.State: of each node the report with the highest number counts.
type mixes struct {
	node   string
	report func() []mixRecord // who asks here

	mu     sync.Mutex
	seq    uint64
	others map[string]*mixReport
}

// mixReport is who asks at one node.
type mixReport struct {
	Node    string      `json:"node"`
	Seq     uint64      `json:"seq"`
	Age     int64       `json:"age"` // since it was made, in ms
	Records []mixRecord `json:"records"`

	made time.Time // by the clock of the one who has it
}

// mixRecord is who asks for one record: queries a second, and networks that stand for equal parts of them.
type mixRecord struct {
	Owner     []byte                   `json:"owner"` // wire form
	Type      uint16                   `json:"type"`
	PerSecond float64                  `json:"per_second"`
	Clients   map[netip.Prefix]int     `json:"clients"`         // how many parts each stands for
	Heavy     map[netip.Prefix]float64 `json:"heavy,omitempty"` // share of the record's queries, 0..1, of networks above 1 %
}

// newMixes begins with a number above those of an earlier life, if this machine's clock has not jumped back; otherwise Merge learns of them.
func newMixes(node string, report func() []mixRecord) *mixes {
	return &mixes{node: node, report: report, seq: uint64(time.Now().Unix()), others: map[string]*mixReport{}}
}

// say is this node's report of now, for the others.
func (m *mixes) say() []byte {
	records := m.report()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seq++
	return mustJSON([]*mixReport{{Node: m.node, Seq: m.seq, Records: records}})
}

// MarshalBinary implements gossip.State.
func (m *mixes) MarshalBinary() ([]byte, error) {
	records := m.report()
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.forget(now)
	m.seq++
	out := []*mixReport{{Node: m.node, Seq: m.seq, Records: records}}
	for _, name := range slices.Sorted(maps.Keys(m.others)) {
		r := *m.others[name]
		r.Age = now.Sub(r.made).Milliseconds()
		out = append(out, &r)
	}
	return json.Marshal(out)
}

// Merge implements gossip.State.
func (m *mixes) Merge(data []byte) error {
	var reports []*mixReport
	if err := json.Unmarshal(data, &reports); err != nil {
		return fmt.Errorf("query mix: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.forget(now)
	var errs []error
	for _, r := range reports {
		if r == nil {
			continue
		}
		r.made = now.Add(-time.Duration(max(0, r.Age)) * time.Millisecond)
		old := m.others[r.Node]
		switch err := r.check(); {
		case err != nil:
			errs = append(errs, fmt.Errorf("query mix of %q: %w", r.Node, err))
		case r.Node == m.node:
			m.seq = max(m.seq, r.Seq)
		case now.Sub(r.made) > mixLife || old != nil && old.Seq >= r.Seq || old == nil && len(m.others) >= mixNodes:
		default:
			m.others[r.Node] = r
		}
	}
	return errors.Join(errs...)
}

func (m *mixes) forget(now time.Time) {
	maps.DeleteFunc(m.others, func(_ string, r *mixReport) bool { return now.Sub(r.made) > mixLife })
}

// check refuses what no node says.
func (r *mixReport) check() error {
	if r.Node == "" || len(r.Records) > mixRecords {
		return fmt.Errorf("%d records, at most %d are told", len(r.Records), mixRecords)
	}
	clients := 0
	for i := range r.Records {
		rec := &r.Records[i]
		clients += len(rec.Clients)
		if !(rec.PerSecond > 0) || math.IsInf(rec.PerSecond, 0) || len(rec.Heavy) > mixHeavy || clients > mixMost+mixRecords {
			return fmt.Errorf("record %d is not as a node tells it", i)
		}
		for p, n := range rec.Clients {
			if !p.IsValid() || n < 1 {
				return fmt.Errorf("record %d has a client %v", i, p)
			}
		}
		for p, share := range rec.Heavy {
			if !p.IsValid() || !(share > 0 && share <= 1) {
				return fmt.Errorf("record %d has a heavy network %v", i, p)
			}
		}
	}
	return nil
}

// add adds what the others are asked to what is asked here. perSecond is what one unit of a rate is here, in queries a second.
func (m *mixes) add(own []server.RecordMix, perSecond float64) []server.RecordMix {
	if !(perSecond > 0) {
		return own
	}
	at := map[server.MixKey]int{}
	for i := range own {
		at[own[i].Key] = i
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(time.Now())
	for _, name := range slices.Sorted(maps.Keys(m.others)) {
		for i := range m.others[name].Records {
			r := &m.others[name].Records[i]
			key := server.MixKey{Owner: string(r.Owner), Type: r.Type}
			k, ok := at[key]
			if !ok {
				k = len(own)
				at[key] = k
				own = append(own, server.RecordMix{Key: key})
			}
			r.addTo(&own[k], r.PerSecond/perSecond)
		}
	}
	return own
}

// addTo adds queries, so many by the counting of the other node.
func (r *mixRecord) addTo(to *server.RecordMix, rate float64) {
	parts := 0
	for _, n := range r.Clients {
		parts += n
	}
	if parts == 0 {
		return
	}
	for p, n := range r.Clients {
		to.Clients = append(to.Clients, server.Weighted{Client: clientOf(p), Weight: rate * float64(n) / float64(parts)})
	}
	sum := to.Rate + rate
	heavy := map[netip.Addr]server.Heavy{}
	for _, h := range to.Heavy {
		h.Share *= to.Rate / sum
		heavy[h.Client.Network()] = h
	}
	for p, share := range r.Heavy {
		h := server.Heavy{Client: clientOf(p), Share: share * rate / sum}
		h.Share += heavy[h.Client.Network()].Share
		heavy[h.Client.Network()] = h
	}
	to.Rate, to.Heavy = sum, nil
	for _, h := range heavy {
		if h.Share > 0.01 {
			to.Heavy = append(to.Heavy, h)
		}
	}
	slices.SortFunc(to.Heavy, func(a, b server.Heavy) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), a.Client.Addr.Compare(b.Client.Addr))
	})
}

func clientOf(p netip.Prefix) geo.Client { return geo.NewClient(p.Addr(), uint8(p.Bits()), p.Addr()) }

// digest is a mix as it is told: at most mixRecords records and about so many clients. perSecond is as in add.
func digest(mix []server.RecordMix, clients int, perSecond float64) []mixRecord {
	slices.SortFunc(mix, func(a, b server.RecordMix) int { return cmp.Compare(b.Rate, a.Rate) })
	mix = mix[:min(len(mix), mixRecords)]
	total := 0.0
	for i := range mix {
		total += mix[i].Rate
	}
	out := []mixRecord{}
	for i := range mix {
		r := &mix[i]
		if !(r.Rate*perSecond > 0) {
			continue
		}
		one := mixRecord{Owner: []byte(r.Key.Owner), Type: r.Key.Type, PerSecond: r.Rate * perSecond, Clients: sample(r.Clients, max(1, int(float64(clients)*r.Rate/total)))}
		for _, h := range r.Heavy[:min(len(r.Heavy), mixHeavy)] {
			if one.Heavy == nil {
				one.Heavy = map[netip.Prefix]float64{}
			}
			one.Heavy[netip.PrefixFrom(h.Client.Addr, int(h.Client.Bits))] = h.Share
		}
		out = append(out, one)
	}
	return out
}

// sample takes n clients in proportion to their weights (systematic sampling): each stands for one of n equal parts, a heavy one for several.
func sample(clients []server.Weighted, n int) map[netip.Prefix]int {
	total := 0.0
	for i := range clients {
		total += clients[i].Weight
	}
	out := map[netip.Prefix]int{}
	step, next, sum := total/float64(n), total/float64(2*n), 0.0
	for i := range clients {
		c := &clients[i].Client
		for sum += clients[i].Weight; next < sum; next += step {
			out[netip.PrefixFrom(c.Addr, int(c.Bits))]++
		}
	}
	return out
}

// asks is who asks at this node, for the others.
func (a *App) asks() []mixRecord {
	nodes := 1
	if f := a.fleet.Load(); f != nil {
		nodes = len(f.gossip.Members())
	}
	return digest(a.mix.Snapshot(mixRuns), min(mixMost, max(mixLeast, mixClients/max(1, nodes))), a.mix.PerSecond(1))
}

// asked is who asks for what, at all nodes: for each record clients that stand for all its queries. Those of this node are at most about limit.
func (a *App) asked(limit int) []server.RecordMix {
	mix := a.mix.Snapshot(limit)
	if f := a.fleet.Load(); f != nil {
		mix = f.mixes.add(mix, a.mix.PerSecond(1))
	}
	return mix
}
