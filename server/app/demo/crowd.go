package demo

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/geo/mmdb"
	"github.com/edgesteer/edgesteer/server/api"
)

// What the clients do.
const (
	crowdTick    = 20 * time.Millisecond // between two handfuls of queries
	primaryPart  = 0.8                   // of the queries; the rest asks for the backup
	joinEvery    = 90 * time.Millisecond // between two clients that connect
	stay         = 45 * time.Second      // for how long, in the mean
	reportEvery  = 2 * time.Second       // between two reports of loads
	lostPatience = 3 * time.Second       // for an answer or a handshake
	networksSeen = 30_000                // networks that are looked up to choose from
)

// crowd are the clients: networks all over the world, that ask through resolvers which tell the network, and of which some connect to what they are told.
type crowd struct {
	servers  []string
	queries  int
	backends *backends
	rand     *rand.Rand
	places   [][]netip.Prefix // networks by country
	weights  []float64        // of the countries, adding up
}

// newCrowd chooses the networks: at random from the address space, so that each country has as many as it really has. Small countries ask more than their part, so that there is something to be
// seen everywhere: by the square root.
func newCrowd(servers []string, queries int, b *backends) (*crowd, error) {
	source, err := mmdb.Embedded()
	if err != nil {
		return nil, err
	}
	c := &crowd{servers: servers, queries: queries, backends: b, rand: rand.New(rand.NewPCG(5, 3))}
	countries := map[geo.Country][]netip.Prefix{}
	for range networksSeen {
		a := netip.AddrFrom4([4]byte{byte(1 + c.rand.IntN(223)), byte(c.rand.IntN(256)), byte(c.rand.IntN(256)), 0})
		if place, _ := source.Lookup(a); place.Country != 0 {
			countries[place.Country] = append(countries[place.Country], netip.PrefixFrom(a, 24))
		}
	}
	if len(countries) == 0 {
		return nil, fmt.Errorf("none of %d networks is in a country", networksSeen)
	}
	sum := 0.0
	for _, country := range slices.Sorted(maps.Keys(countries)) {
		sum += math.Sqrt(float64(len(countries[country])))
		c.places, c.weights = append(c.places, countries[country]), append(c.weights, sum)
	}
	return c, nil
}

// network is one of a client, chosen by weight.
func (c *crowd) network(r *rand.Rand) netip.Prefix {
	at, _ := slices.BinarySearchFunc(c.weights, r.Float64()*c.weights[len(c.weights)-1], cmp.Compare[float64])
	list := c.places[min(at, len(c.places)-1)]
	return list[r.IntN(len(list))]
}

// run asks, connects and reports until the context ends.
func (c *crowd) run(ctx context.Context, report func([]api.LoadSample)) {
	var all sync.WaitGroup
	defer all.Wait()
	for i, server := range c.servers {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		all.Go(func() { c.ask(ctx, server, r, float64(c.queries)/float64(len(c.servers))) })
	}
	join, reports := time.NewTicker(joinEvery), time.NewTicker(reportEvery)
	defer join.Stop()
	defer reports.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-join.C:
			if len(c.backends.pops) > 0 {
				r := rand.New(rand.NewPCG(c.rand.Uint64(), 2))
				all.Go(func() { c.visit(ctx, r) })
			}
		case <-reports.C:
			var loads []api.LoadSample
			for _, pop := range c.backends.names {
				open := float64(c.backends.open(pop))
				loads = append(loads, api.LoadSample{Target: pop + "/envoy-wss", Value: &open})
			}
			if len(loads) > 0 {
				report(loads)
			}
		}
	}
}

// ask sends queries at a steady pace, and reads what comes so that nothing is kept waiting.
func (c *crowd) ask(ctx context.Context, server string, r *rand.Rand, perSecond float64) {
	conn, err := net.Dial("udp", server)
	if err != nil {
		return // an address of this machine
	}
	defer conn.Close()
	go func() {
		buf := make([]byte, 4096)
		for {
			if _, err := conn.Read(buf); err != nil && ctx.Err() != nil {
				return
			}
		}
	}()
	tick := time.NewTicker(crowdTick)
	defer tick.Stop()
	due, last := 0.0, time.Now()
	for {
		var now time.Time
		select {
		case <-ctx.Done():
			return
		case now = <-tick.C:
		}
		due += perSecond * min(now.Sub(last), time.Second).Seconds()
		last = now
		for ; due >= 1; due-- {
			if packet, err := c.question(r).Pack(); err == nil {
				_, _ = conn.Write(packet) // what is lost is lost, as on any way
			}
		}
	}
}

// question is one of a client, as its resolver asks it.
func (c *crowd) question(r *rand.Rand) *dns.Msg {
	name := Primary
	if r.Float64() > primaryPart {
		name = Backup
	}
	network := c.network(r)
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), dns.TypeA)
	m.RecursionDesired = false
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: uint8(network.Bits()), Address: network.Addr().AsSlice()}}
	return m
}

// visit is a client that connects to what it is told and stays; when it is thrown out it asks again.
func (c *crowd) visit(ctx context.Context, r *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.ExpFloat64()*float64(stay)))
	defer cancel()
	q := c.question(r)
	for ctx.Err() == nil {
		if err := c.connect(ctx, q, c.servers[r.IntN(len(c.servers))]); err != nil {
			select { // a client that is refused waits a little, too
			case <-ctx.Done():
			case <-time.After(time.Duration((1 + r.Float64()) * float64(time.Second))):
			}
		}
	}
}

// connect asks, and holds a connection to the first address until it breaks or the context ends.
func (c *crowd) connect(ctx context.Context, q *dns.Msg, server string) error {
	short, cancel := context.WithTimeout(ctx, lostPatience)
	defer cancel()
	q.Id = dns.Id()
	answer, _, err := new(dns.Client).ExchangeContext(short, q, server)
	if err != nil {
		return err
	}
	for _, rr := range answer.Answer {
		a, ok := rr.(*dns.A)
		if !ok {
			continue
		}
		conn, res, err := websocket.Dial(short, fmt.Sprintf("ws://%s:%d/", a.A, backendPort), nil)
		if err != nil {
			if res != nil && res.Body != nil {
				_ = res.Body.Close() // it was refused
			}
			return err
		}
		_, _, err = conn.Reader(ctx) // nothing is said: it returns when the connection ends
		_ = conn.CloseNow()
		return err
	}
	return fmt.Errorf("%s has no address", q.Question[0].Name)
}
