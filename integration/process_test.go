package integration

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/api"
)

// program builds the program once for all tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "edgesteer-integration-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "edgesteer")
	out, err := exec.Command("go", "build", "-o", path, "../cmd/edgesteer").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building: %w\n%s", err, out)
	}
	return path, nil
})

// node is a running server: a process of its own, with its own folder.
type node struct {
	t     testing.TB
	dir   string
	addr  string // for DNS
	space string // network namespace; "": that of the test
	env   []string
	api   *api.Client
	cmd   *exec.Cmd
	log   *journal
	done  chan struct{}
}

// journal keeps what a process says, and can be read while it goes on.
type journal struct {
	mu   sync.Mutex
	text []byte
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text = append(j.text, p...)
	return len(p), nil
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return string(j.text)
}

// lastLoopback numbers the loopback addresses that tests listen on, one a node: no two nodes can ever share a port.
var lastLoopback atomic.Uint32

func loopback() netip.Addr {
	n := lastLoopback.Add(1)
	return netip.AddrFrom4([4]byte{127, ours(), byte(n >> 8), byte(n)})
}

// ours is the second octet of the loopback addresses of this process. A socket keeps other processes that run these tests away from them, as long as this one lives.
var ours = sync.OnceValue(func() byte {
	for i := range 64 {
		octet := byte(64 + (os.Getpid()+i)%64)
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			panic(err)
		}
		if syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, octet, 255, 254}, Port: 5300}) == nil {
			return octet
		}
		syscall.Close(fd)
	}
	panic("no loopback addresses are left: 64 processes run these tests")
})

// prepare writes the files of a node. LISTEN in toml stands for its address for DNS.
func prepare(t testing.TB, toml string, files map[string]string) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir(), addr: netip.AddrPortFrom(loopback(), 5300).String()}
	n.write("edgesteer.toml", strings.ReplaceAll(toml, "LISTEN", n.addr))
	for name, text := range files {
		n.write(name, text)
	}
	return n
}

func (n *node) write(name, text string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// forget removes a file of a node.
func (n *node) forget(name string) {
	n.t.Helper()
	if err := os.Remove(filepath.Join(n.dir, name)); err != nil {
		n.t.Fatal(err)
	}
}

// start runs the server, with more flags perhaps, and returns when it says that it is ready, as it does to systemd.
func (n *node) start(flags ...string) *node {
	n.t.Helper()
	path, err := program()
	if err != nil {
		n.t.Fatal(err)
	}
	ready, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(n.dir, "notify"), Net: "unixgram"})
	if err != nil {
		n.t.Fatal(err)
	}
	defer os.Remove(filepath.Join(n.dir, "notify"))
	defer ready.Close()
	n.log = new(journal)
	args := append([]string{path, "serve", "--config", filepath.Join(n.dir, "edgesteer.toml")}, flags...)
	if n.space != "" {
		args = append([]string{"ip", "netns", "exec", n.space}, args...) // which becomes the server
	}
	n.cmd = exec.Command(args[0], args[1:]...)
	n.cmd.Env = append(append(os.Environ(), n.env...), "NOTIFY_SOCKET="+filepath.Join(n.dir, "notify"))
	n.cmd.Stderr = n.log
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	cmd, done := n.cmd, make(chan struct{})
	n.done = done
	go func() {
		cmd.Wait()
		close(done)
		ready.Close() // whoever waits for READY hears of it
	}()
	n.t.Cleanup(n.kill)
	ready.SetReadDeadline(time.Now().Add(10 * time.Minute))
	buf := make([]byte, 64)
	for said := ""; said != "READY=1"; {
		k, err := ready.Read(buf)
		if said = string(buf[:k]); err != nil || said != "READY=1" && !strings.HasPrefix(said, "MAINPID=") {
			n.kill()
			n.t.Fatalf("server is not ready: %v %q\n%s", err, said, n.log)
		}
	}
	if n.api, err = api.New("unix:"+filepath.Join(n.dir, "state", "admin.sock"), ""); err != nil {
		n.t.Fatal(err)
	}
	return n
}

// kill ends the process as a crash does, and waits until it is gone.
func (n *node) kill() {
	if n.cmd != nil && n.cmd.Process != nil {
		n.cmd.Process.Kill()
		<-n.done
	}
}

// stop ends the process as systemd does.
func (n *node) stop() {
	n.t.Helper()
	n.cmd.Process.Signal(syscall.SIGTERM)
	<-n.done
	if code := n.cmd.ProcessState.ExitCode(); code != 0 {
		n.t.Errorf("exit code %d after SIGTERM\n%s", code, n.log)
	}
}

// run runs a command of the program against the node and gives what it prints and its exit code.
func (n *node) run(args ...string) (stdout, stderr string, code int) {
	n.t.Helper()
	path, err := program()
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = n.dir
	cmd.Env = append(os.Environ(), "EDGESTEER_SERVER="+n.api.Server())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		n.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// question is a query with a client subnet, "" for none.
func question(name string, typ uint16, subnet string) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), typ)
	m.RecursionDesired = false
	m.SetEdns0(1232, false)
	if subnet != "" {
		p := netip.MustParsePrefix(subnet)
		e := &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: uint8(p.Bits()), Address: p.Addr().AsSlice()}
		if p.Addr().Is6() {
			e.Family = 2
		}
		m.IsEdns0().Option = append(m.IsEdns0().Option, e)
	}
	return m
}

// ask sends a query over UDP and wants an answer.
func (n *node) ask(name string, typ uint16, subnet string) *dns.Msg {
	n.t.Helper()
	conn, err := dns.Dial("udp", n.addr)
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	r, err := exchange(conn, question(name, typ, subnet))
	if err != nil {
		n.t.Fatalf("%s %s for %s: %v", name, dns.TypeToString[typ], subnet, err)
	}
	return r
}

// scope is the scope prefix length of an answer, -1 if it has no client subnet.
func scope(r *dns.Msg) int {
	if o := r.IsEdns0(); o != nil {
		for _, e := range o.Option {
			if s, ok := e.(*dns.EDNS0_SUBNET); ok {
				return int(s.SourceScope)
			}
		}
	}
	return -1
}

// addresses are the addresses of an answer.
func addresses(r *dns.Msg) (out []string) {
	for _, rr := range r.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			out = append(out, rr.A.String())
		case *dns.AAAA:
			out = append(out, rr.AAAA.String())
		}
	}
	return out
}

// crowd asks for one name on behalf of many networks, one address each, and gives the first address of each answer. Answers that do not come are asked for again a few times:
// the kernel may drop datagrams.
func (n *node) crowd(name string, networks []netip.Prefix) []string {
	n.t.Helper()
	out := make([]string, len(networks))
	const workers = 8
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			conn, err := dns.Dial("udp", n.addr)
			if err != nil {
				errs[w] = err
				return
			}
			defer conn.Close()
			for i := w; i < len(networks); i += workers {
				r, err := exchange(conn, question(name, dns.TypeA, networks[i].String()))
				if err != nil {
					errs[w] = err
					return
				}
				a := addresses(r)
				if r.Rcode != dns.RcodeSuccess || len(a) == 0 {
					errs[w] = fmt.Errorf("%s for %s: %s with %d addresses", name, networks[i], dns.RcodeToString[r.Rcode], len(a))
					return
				}
				out[i] = a[0]
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			n.t.Fatal(err)
		}
	}
	return out
}

// exchange asks on an open socket, three times at the most.
func exchange(conn *dns.Conn, m *dns.Msg) (r *dns.Msg, err error) {
	for range 3 {
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		if err = conn.WriteMsg(m); err != nil {
			return nil, err
		}
		for {
			if r, err = conn.ReadMsg(); err != nil || r.Id == m.Id {
				break
			}
		}
		if err == nil {
			return r, nil
		}
	}
	return nil, err
}

// networks are n different /24s of the unicast space, spread evenly.
func networks(n int) []netip.Prefix {
	out := make([]netip.Prefix, 0, n)
	for i := uint32(0); len(out) < n; i++ {
		h := i * 2654435761 >> 8 // Knuth's multiplicative hash: different for different i below 2^24
		a := netip.AddrFrom4([4]byte{byte(h >> 16), byte(h >> 8), byte(h), 0})
		if a.IsGlobalUnicast() && !a.IsPrivate() && a.As4()[0] != 127 && a.As4()[0] != 0 {
			out = append(out, netip.PrefixFrom(a, 24))
		}
	}
	return out
}

func background() context.Context { return context.Background() }
