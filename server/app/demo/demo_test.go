package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/server"
)

// newBackends are those of the demo; without a loopback network of many addresses there are none.
func newBackends(t *testing.T) *backends {
	t.Helper()
	b, err := listenBackends(configText)
	if err != nil {
		t.Skipf("no loopback network: %v", err)
	}
	t.Cleanup(b.close)
	return b
}

func (b *backends) dial(t *testing.T, pop int) (*websocket.Conn, int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, res, err := websocket.Dial(ctx, fmt.Sprintf("ws://127.%d.%d.2:%d/", b.block, pop, backendPort), nil)
	if res == nil {
		return c, 0, err
	}
	return c, res.StatusCode, err
}

// TestBackends: a PoP takes websockets, loses them when it falls ill, refuses, and takes them again; what is done to one is seen through the door.
func TestBackends(t *testing.T) {
	b := newBackends(t)
	dir := t.TempDir()
	door, err := openDoor(dir, b)
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	c, _, err := b.dial(t, 5)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, said, err := c.Read(t.Context()); err != nil || string(said) != "hello" {
		t.Fatalf("%q, %v", said, err)
	}
	if n := b.open("eu-west-1"); n != 1 {
		t.Errorf("%d connections", n)
	}
	if h, err := Set(t.Context(), dir, "eu-west-1", Refusing); err != nil || !slices.Equal(h.Sick, []string{"eu-west-1"}) {
		t.Fatalf("%+v, %v", h, err)
	}
	if _, _, err := c.Read(t.Context()); err == nil {
		t.Error("a sick PoP keeps its connections")
	}
	if _, status, err := b.dial(t, 5); err == nil || status != http.StatusServiceUnavailable {
		t.Errorf("a sick PoP answers %d, %v", status, err)
	}
	other, _, err := b.dial(t, 6)
	if err != nil {
		t.Errorf("another PoP is sick, too: %v", err)
	} else {
		_ = other.CloseNow()
	}
	if h, err := Set(t.Context(), dir, "eu-west-1", Well); err != nil || len(h.Sick) != 0 {
		t.Fatalf("%+v, %v", h, err)
	}
	again, _, err := b.dial(t, 5)
	if err != nil {
		t.Fatalf("a PoP that is well again: %v", err)
	}
	_ = again.CloseNow()

	var bad *DoorError
	if _, err := Set(t.Context(), dir, "eu-west-2", Refusing); !errors.As(err, &bad) || !strings.Contains(bad.Advice(), "eu-west-1") {
		t.Errorf("a PoP that is not there: %v", err)
	}
	if _, err := Set(t.Context(), t.TempDir(), "eu-west-1", Well); !errors.As(err, &bad) || bad.Advice() != "edgesteer demo starts one" {
		t.Errorf("no demo: %v", err)
	}
}

// TestBesides: a second demo takes addresses of its own, and its configuration has them.
func TestBesides(t *testing.T) {
	a := newBackends(t)
	b := newBackends(t)
	if a.block == b.block || !strings.Contains(b.text, fmt.Sprintf(`"127.%d.1.1"`, b.block)) {
		t.Errorf("blocks %d and %d", a.block, b.block)
	}
	dir := t.TempDir()
	cfg, err := write(dir, b.text, "127.0.0.1:5300")
	if err != nil {
		t.Fatal(err)
	}
	if len(b.names) != len(cfg.PoPs) || len(b.servers) != 2*len(cfg.PoPs) {
		t.Errorf("%d backends at %d addresses for %d PoPs", len(b.names), len(b.servers), len(cfg.PoPs))
	}
}

// TestCrowd: clients are everywhere, and no country has most of them.
func TestCrowd(t *testing.T) {
	c, err := newCrowd(nil, 100, &backends{})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.places) < 60 {
		t.Errorf("clients in %d countries", len(c.places))
	}
	most := 0.0
	for i, w := range c.weights {
		if i > 0 {
			w -= c.weights[i-1]
		}
		most = max(most, w)
	}
	if part := most / c.weights[len(c.weights)-1]; part > 0.2 {
		t.Errorf("one country has %.0f %% of the clients", 100*part)
	}
	r := rand.New(rand.NewPCG(1, 1))
	seen := map[netip.Prefix]bool{}
	for range 1000 {
		seen[c.network(r)] = true
	}
	if len(seen) < 500 {
		t.Errorf("%d networks in 1000 draws", len(seen))
	}
}

// TestNoBackends: where there are none nothing is checked, and the rest is as it is.
func TestNoBackends(t *testing.T) {
	dir := t.TempDir()
	cfg, err := write(dir, unchecked(configText), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := write(dir, configText, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Services[0].Check != nil || whole.Services[0].Check == nil || len(cfg.Services[0].At) != len(whole.Services[0].At) {
		t.Errorf("check %v, %d endpoints", cfg.Services[0].Check, len(cfg.Services[0].At))
	}
}

// TestChooseListen: no two demos share a port; the usual address gives way, one that was asked for does not, and all nodes have the same port.
func TestChooseListen(t *testing.T) {
	share := func(at netip.AddrPort) *server.Listeners { // as a server does it
		t.Helper()
		l, err := server.Listen(server.ListenConfig{DNS: []netip.AddrPort{at}, Metrics: prometheus.NewRegistry()}, server.NewHandlers(server.HandlerConfig{Publisher: new(server.Publisher), CookieSecrets: []server.CookieSecret{{1}}}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Stop(context.Background()) })
		return l
	}
	first, err := chooseListen("", 1)
	if err != nil {
		t.Fatal(err)
	}
	share(first)
	second, err := chooseListen("", 1)
	if err != nil || second == first {
		t.Errorf("%s is given twice: %v", second, err)
	}
	if _, err := chooseListen(first.String(), 1); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%s, which is in use, is given: %v", first, err)
	}
	if runtime.GOOS == "linux" { // others have one loopback address
		share(netip.AddrPortFrom(second.Addr().Next(), second.Port()))
		if third, err := chooseListen("", 2); err != nil || third == second || third == first {
			t.Errorf("%s is given, and the second node cannot have its port: %v", third, err)
		}
	}
	if _, err := chooseListen("nonsense", 1); err == nil {
		t.Error("nonsense is an address")
	}
}

// TestListenPage: the usual address gives way, one that was asked for does not, and nothing is reached from outside.
func TestListenPage(t *testing.T) {
	first, err := listenPage("", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := listenPage("", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := listenPage(second.Addr().String(), 0); err == nil {
		t.Error("an address that is taken is given twice")
	}
	if _, err := listenPage("192.0.2.1:8053", 0); err == nil || !strings.Contains(err.Error(), "loopback only") {
		t.Errorf("an address that is not loopback: %v", err)
	}
}
