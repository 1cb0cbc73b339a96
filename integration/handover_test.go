package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// takeOver starts a new process of a node, which takes over from the one that runs, and returns when that has ended.
func (n *node) takeOver() {
	n.t.Helper()
	old, done, log := n.cmd, n.done, n.log
	n.start("--take-over")
	select {
	case <-done:
	case <-time.After(patience):
		old.Process.Kill()
		n.t.Fatalf("the old process has not ended\n%s", log)
	}
	if code := old.ProcessState.ExitCode(); code != 0 {
		n.t.Errorf("the old process ended with exit code %d\n%s", code, log)
	}
}

// traffic is queries of many clients to one node: each is asked once, and must be answered, by something else than the PoP "home". Half of the clients ask over UDP, a quarter on one connection
// of TCP, a quarter on a new one for each query.
type traffic struct {
	asked, lost, wrong atomic.Int64
	stop               chan struct{}
	wg                 sync.WaitGroup
}

func startTraffic(t testing.TB, addr string, clients, rate int) *traffic {
	f := &traffic{stop: make(chan struct{})}
	for c := range clients {
		network, keep := "udp", true
		if c%2 == 1 {
			network, keep = "tcp", c%4 == 1
		}
		f.wg.Go(func() {
			tick := time.NewTicker(time.Second * time.Duration(clients) / time.Duration(rate))
			defer tick.Stop()
			var conn *dns.Conn
			for {
				select {
				case <-f.stop:
					return
				case <-tick.C:
				}
				f.asked.Add(1)
				r, err := asks(network, addr, &conn)
				switch {
				case err != nil:
					if f.lost.Add(1) <= 5 { // a few tell what happened
						t.Logf("%s, kept %v: %v", network, keep, err)
					}
				case r.Rcode != dns.RcodeSuccess || len(r.Answer) == 0 || slices.Contains(addresses(r), "192.0.2.1"):
					if f.wrong.Add(1) <= 5 {
						t.Logf("%s, kept %v:\n%v", network, keep, r)
					}
				}
				if conn != nil && (!keep || err != nil) {
					conn.Close()
					conn = nil
				}
			}
		})
	}
	return f
}

// asks asks once, on a connection that is opened if need be.
func asks(network, addr string, conn **dns.Conn) (*dns.Msg, error) {
	if *conn == nil {
		c, err := dns.DialTimeout(network, addr, 20*time.Second)
		if err != nil {
			return nil, err
		}
		*conn = c
	}
	m := question("home.example.com", dns.TypeA, "20.0.0.0/24")
	(*conn).SetDeadline(time.Now().Add(20 * time.Second))
	if err := (*conn).WriteMsg(m); err != nil {
		return nil, err
	}
	r, err := (*conn).ReadMsg()
	if err == nil && r.Id != m.Id {
		err = fmt.Errorf("answer to another query")
	}
	return r, err
}

func (f *traffic) end(t testing.TB) {
	t.Helper()
	close(f.stop)
	f.wg.Wait()
	t.Logf("of %d queries, each asked once, %d were not answered, %d not as they should", f.asked.Load(), f.lost.Load(), f.wrong.Load())
	if f.lost.Load() > 0 || f.wrong.Load() > 0 {
		t.Errorf("of %d queries, each asked once, %d were not answered, %d not as they should", f.asked.Load(), f.lost.Load(), f.wrong.Load())
	}
}

// New processes of a node take over from each other under load: no query is lost, none is answered wrong, none has to be asked twice, and what was said stays said. The rest of the fleet does not
// notice (S12).
func TestHandOver(t *testing.T) {
	linuxOnly(t)
	nodes := prepareCluster(t, 2, nil)
	startCluster(t, nodes)
	nodes[0].drain("home", 100)
	everywhere(t, nodes, false)
	rounds, rate := 6, 4000
	if testing.Short() || raceEnabled {
		rounds, rate = 3, 1000
	}
	flow := startTraffic(t, nodes[0].addr, 16, rate)
	said, last := map[string]bool{}, ""
	for i := range rounds {
		said[nodes[0].drain([]string{"south", "asia", "east/wss", "south/wss", "asia/wss", "*/edge"}[i], 10).Statements[0].ID] = true
		nodes[0].takeOver()
		last = nodes[0].drain("east", float64(i+1)).Statements[0].ID // it is ready, and takes orders
	}
	flow.end(t)
	said[last] = true
	for _, n := range nodes {
		eventually(t, "all agree", func() bool { return agree(nodes) })
		s, err := n.api.Statements(background(), false)
		if err != nil {
			t.Fatal(err)
		}
		lost := maps.Clone(said)
		for _, st := range s.Statements {
			delete(lost, st.ID)
		}
		if len(lost) > 0 {
			t.Errorf("lost: %v", lost)
		}
	}
	nodes[1].stop()
	switch said := nodes[1].log.String(); {
	case strings.Contains(said, "state=left"):
		t.Errorf("the other node has noticed:\n%s", said)
	case strings.Contains(said, "state=dead"): // or the machine stalled for as long as that takes
		late(t, "the other node has noticed:\n%s", said)
	}
	nodes[0].stop()
}

// SIGUSR2 starts the successor: what runs under systemd hands over with a signal, and tells who the main process is now.
func TestHandOverSignal(t *testing.T) {
	linuxOnly(t)
	n := startFleet(t)
	n.drain("home", 100)
	flow := startTraffic(t, n.addr, 8, 500)
	ready, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(n.dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	old := n.cmd.Process.Pid
	n.cmd.Process.Signal(syscall.SIGUSR2)
	pid, buf := 0, make([]byte, 64)
	for isReady := false; pid == 0 || !isReady; {
		ready.SetReadDeadline(time.Now().Add(patience))
		k, err := ready.Read(buf)
		if err != nil {
			t.Fatalf("%v\n%s", err, n.log)
		}
		switch said := string(buf[:k]); said {
		case "READY=1":
			isReady = true
		default:
			fmt.Sscanf(said, "MAINPID=%d", &pid)
		}
	}
	defer func() {
		syscall.Kill(pid, syscall.SIGTERM)
		<-n.done // when nobody writes into its log any more
		if code := n.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("the old process ended with exit code %d", code)
		}
	}()
	eventually(t, "the old process has ended", func() bool { return errors.Is(syscall.Kill(old, 0), syscall.ESRCH) })
	if pid == old {
		t.Errorf("the main process is still %d", pid)
	}
	flow.end(t)
	n.restore("home")
	if !n.home() {
		t.Error("the new process does not obey")
	}
}

// A new process that cannot start, one that dies meanwhile, one of another version and one of another node change nothing: the old one goes on, and no query is lost.
func TestHandOverFails(t *testing.T) {
	linuxOnly(t)
	nodes := prepareCluster(t, 2, nil)
	startCluster(t, nodes)
	n := nodes[0]
	n.drain("home", 100)
	everywhere(t, nodes, false)
	flow := startTraffic(t, n.addr, 16, 1000)

	// The port of its admin API is taken: that shows when the old process has let go of everything.
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	out, errs, code := n.run("serve", "--config", filepath.Join(n.dir, "edgesteer.toml"), "--take-over", "--admin", other.Addr().String())
	if code != 1 || !strings.Contains(errs, "address already in use") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	eventually(t, "the old process takes orders", func() bool { _, err := n.api.Status(background()); return err == nil })
	n.drain("south", 10)

	// It dies.
	c := n.takes(1, "n1")
	for m := c.receive(); m.Op != "yours"; m = c.receive() {
		if m.Op != "state" && m.Op != "socket" {
			t.Fatalf("%+v", m)
		}
	}
	c.Close()
	eventually(t, "the old process takes orders", func() bool { _, err := n.api.Status(background()); return err == nil })
	n.drain("south", 20)

	// It may not.
	for _, who := range []struct {
		version int
		node    string
	}{{99, "n1"}, {1, "n2"}} {
		c := n.takes(who.version, who.node)
		if m := c.receive(); m.Op != "no" || m.Error == "" {
			t.Errorf("%+v", m)
		}
		c.Close()
	}
	n.drain("south", 30)
	eventually(t, "all agree", func() bool { return agree(nodes) })

	// Without --take-over nobody takes over by mistake.
	if _, errs, code := n.run("serve", "--config", filepath.Join(n.dir, "edgesteer.toml")); code != 1 || !strings.Contains(errs, "--take-over") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	n.takeOver() // and then it works
	flow.end(t)
	// After a crash there is nobody to take over from.
	n.kill()
	n.start("--take-over")
	if n.home() {
		t.Error("the drain is gone")
	}
}

func linuxOnly(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("processes hand over on Linux only")
	}
}

// taker is a process that wants to take over.
type taker struct {
	*net.UnixConn
	t testing.TB
}

type handOver struct {
	Op      string `json:"op"`
	Version int    `json:"version,omitempty"`
	Node    string `json:"node,omitempty"`
	Error   string `json:"error,omitempty"`
}

func (n *node) takes(version int, name string) *taker {
	n.t.Helper()
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: filepath.Join(n.dir, "state", "handover.sock"), Net: "unixpacket"})
	if err != nil {
		n.t.Fatal(err)
	}
	data, _ := json.Marshal(handOver{Op: "take", Version: version, Node: name})
	if _, err := c.Write(data); err != nil {
		n.t.Fatal(err)
	}
	return &taker{c, n.t}
}

func (c *taker) receive() (m handOver) {
	c.t.Helper()
	buf := make([]byte, 128<<10)
	c.SetReadDeadline(time.Now().Add(patience))
	n, err := c.Read(buf) // the kernel closes descriptors that nobody asks for
	if err == nil {
		err = json.Unmarshal(buf[:n], &m)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}
