package integration

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// soak is how many mutated queries TestSoak sends: go test ./integration -run TestSoak -soak 10000000 -timeout 2h
var soak = flag.Int("soak", 100_000, "mutated queries of TestSoak")

// resident is the memory of a node's process, in MiB.
func (n *node) resident() float64 {
	n.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	if err != nil && runtime.GOOS != "linux" {
		n.t.Skip("no /proc here")
	}
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				n.t.Fatal(err)
			}
			return kb / 1024
		}
	}
	n.t.Fatal("no VmRSS")
	return 0
}

// seeds are sound queries of many kinds, to be damaged.
func seeds(t testing.TB) (out [][]byte) {
	t.Helper()
	for _, name := range []string{"primary.example.com", "backup.example.com", "example.com", "nosuch.example.com", "elsewhere.test", "."} {
		for _, typ := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeANY, dns.TypeSOA, dns.TypeAXFR, dns.TypeTXT} {
			for _, subnet := range []string{"", "198.51.100.0/24", "2001:db8::/48", "0.0.0.0/0"} {
				m := question(name, typ, subnet)
				m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"}, &dns.EDNS0_NSID{Code: dns.EDNS0NSID})
				b, err := m.Pack()
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, b)
			}
		}
	}
	return out
}

// mutate damages a message: octets changed, cut, doubled, swapped with another's.
func mutate(rnd *rand.Rand, all [][]byte) []byte {
	m := append([]byte(nil), all[rnd.IntN(len(all))]...)
	for range 1 + rnd.IntN(4) {
		if len(m) == 0 {
			break
		}
		switch i := rnd.IntN(len(m)); rnd.IntN(6) {
		case 0:
			m[i] = byte(rnd.Uint32())
		case 1:
			m[i] ^= 1 << rnd.IntN(8)
		case 2:
			m = m[:i]
		case 3:
			m = append(m[:i:i], append([]byte{byte(rnd.Uint32())}, m[i:]...)...)
		case 4:
			other := all[rnd.IntN(len(all))]
			m = append(m[:i:i], other[rnd.IntN(len(other)):]...)
		case 5:
			m = append(m, m[i:]...)
		}
	}
	return m[:min(len(m), 4000)]
}

// Mutated queries over UDP and TCP, and good ones in between: none of the good ones is lost, the server lives and does not grow.
func TestSoak(t *testing.T) {
	n := startFleet(t)
	all := seeds(t)
	const workers, chunk = 4, 500
	var sent atomic.Int64
	var wg sync.WaitGroup
	half := make(chan struct{})
	var once sync.Once
	for w := range workers {
		wg.Go(func() {
			defer once.Do(func() { close(half) }) // whatever happens, nobody waits for it for ever
			rnd := rand.New(rand.NewPCG(uint64(w), 42))
			good, err := dns.Dial("udp", n.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer good.Close()
			for sent.Load() < int64(*soak) {
				var err error
				if w == 0 {
					err = soakTCP(n.addr, rnd, all, chunk)
				} else {
					err = soakUDP(n.addr, rnd, all, chunk)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if sent.Add(chunk) > int64(*soak)/2 {
					once.Do(func() { close(half) })
				}
				r, err := exchange(good, question("home.example.com", dns.TypeA, "198.51.100.0/24"))
				if err != nil || len(r.Answer) != 1 {
					t.Errorf("a good query in between: %v %v", r, err)
					return
				}
			}
		})
	}
	wg.Go(func() { <-half })
	<-half
	middle := n.resident()
	wg.Wait()
	end := n.resident()
	t.Logf("%d mutated queries; %.0f MiB after half of them, %.0f MiB at the end", sent.Load(), middle, end)
	if end > middle+32 {
		t.Errorf("memory grew from %.0f to %.0f MiB", middle, end)
	}
	select {
	case <-n.done:
		t.Fatalf("the server is gone\n%s", n.log)
	default:
	}
}

func soakUDP(addr string, rnd *rand.Rand, all [][]byte, count int) error {
	conn, err := net.Dial("udp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	go io.Copy(io.Discard, conn) // until it is closed
	for range count {
		if _, err := conn.Write(mutate(rnd, all)); err != nil && !strings.Contains(err.Error(), "refused") {
			return err
		}
	}
	return nil
}

// soakTCP sends damaged messages in sound frames, and now and then a damaged frame, which ends the connection.
func soakTCP(addr string, rnd *rand.Rand, all [][]byte, count int) error {
	for count > 0 {
		conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
		if err != nil {
			return err
		}
		go io.Copy(io.Discard, conn)
		for count > 0 {
			count--
			m := mutate(rnd, all)
			frame := append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...)
			broken := rnd.IntN(100) == 0
			if broken {
				frame[1]++
			}
			conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
			if _, err := conn.Write(frame); err != nil || broken {
				break // the server may hang up on nonsense
			}
		}
		conn.Close()
	}
	return nil
}

// A thousand idle or slow TCP clients and a flood of queries without cookies: a resolver that behaves well, with a cookie, gets every answer, over UDP and over TCP.
func TestSlowClientsAndFlood(t *testing.T) {
	toml := strings.Replace(fleet, "[server.rrl]\nenabled = false", "[server.tcp]\nconnections = 500\nconnections_per_client = 100\n[server.rrl]\nrate = 100", 1)
	n := prepare(t, toml, map[string]string{"zone": fleetZone}).start()

	// Idle clients, from ten addresses; half of them send a part of a message and wait.
	var idle []net.Conn
	defer func() {
		for _, c := range idle {
			c.Close()
		}
	}()
	for i := range 1000 {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%10))}, Timeout: 5 * time.Second}
		c, err := d.Dial("tcp", n.addr)
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
		if i%2 == 0 {
			c.Write([]byte{0, 40, 1, 2, 3})
		}
	}
	stop := make(chan struct{})
	var flooded atomic.Int64
	var wg sync.WaitGroup
	for f := range 2 {
		wg.Go(func() {
			conn, err := net.DialUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 2, byte(1+f))}, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(n.addr)))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			go io.Copy(io.Discard, conn)
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				for j := range 10 {
					q, err := question(fmt.Sprintf("x%d-%d.nosuch.example.com", i, j), dns.TypeA, "").Pack()
					if err != nil {
						t.Error(err)
						return
					}
					conn.Write(q)
					flooded.Add(1)
				}
			}
		})
	}

	cookie := "0102030405060708"
	for _, network := range []string{"udp", "tcp"} {
		conn, err := dns.Dial(network, n.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for i := range 500 {
			m := question(fmt.Sprintf("y%d.nosuch.example.com", i), dns.TypeA, "")
			m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: cookie})
			r, err := exchange(conn, m)
			if err != nil {
				t.Fatalf("%s, query %d: %v", network, i, err)
			}
			for _, o := range r.IsEdns0().Option {
				if c, ok := o.(*dns.EDNS0_COOKIE); ok {
					cookie = c.Cookie
				}
			}
			if r.Rcode != dns.RcodeNameError && i > 0 {
				t.Fatalf("%s, query %d: %s", network, i, dns.RcodeToString[r.Rcode])
			}
		}
	}
	close(stop)
	wg.Wait()
	eventually(t, "the flood is limited", func() bool { return n.metric("edgesteer_rate_limited_total", "drop") > 0 })
	t.Logf("%d queries of the flood, %.0f answers to it dropped", flooded.Load(), n.metric("edgesteer_rate_limited_total", "drop"))
}
