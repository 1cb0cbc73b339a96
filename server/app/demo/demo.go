// Package demo is the built-in example, alive: servers that answer for example.com, a backend behind every address that they give, clients all over the world that ask and connect, and a
// door to make a PoP sick.
//
// All of it runs in one process, needs no rights and no files of others, and ends with it. The servers are those of server/app and the checks, the loads, the drains are real; only the world is
// played: clients are networks chosen at random, and the backends are addresses of this machine's loopback network (127.0.0.0/8).
package demo

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/app"
	"github.com/edgesteer/edgesteer/server/config"
)

//go:embed edgesteer.toml
var configText string

//go:embed example.com.zone
var zoneText string

// The names that the demo serves.
const (
	Primary = "wss-primary.example.com"
	Backup  = "wss-backup.example.com"
)

// usualListen is where queries are answered, and usualAdmin where the page is, if nobody else is there.
const (
	usualListen = "127.0.0.1:5300"
	usualAdmin  = "127.0.0.1:8053"
)

// gossipPort is where the nodes of a fleet talk to each other, each on an address of its own.
const gossipPort = 7946

// Dir is where the demo keeps its files: a folder of this user's own below the system's folder for temporary files, the same for every demo, so that commands find its socket.
func Dir() string {
	return filepath.Join(os.TempDir(), "edgesteer-demo-"+strconv.Itoa(os.Getuid()))
}

// Socket is the admin API's of the first node of the demo in a folder.
func Socket(dir string) string { return filepath.Join(dir, "state", "admin.sock") }

// Config writes the example to Dir and loads it, to listen on an address: what one node of the demo has, without its backends and its clients. What an earlier demo left there is removed;
// beside one that still runs another folder is made.
func Config(listen string) (*config.Config, error) {
	dir, err := folder()
	if err != nil {
		return nil, err
	}
	return write(dir, configText, listen)
}

// folder makes the demo's folder.
func folder() (string, error) {
	dir := Dir()
	if c, err := net.Dial("unix", Socket(dir)); err == nil {
		c.Close()
		return os.MkdirTemp("", "edgesteer-demo-")
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("making the demo's folder: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the demo's folder: %w", err)
	}
	return dir, nil
}

// write writes the files of a node and loads them.
func write(dir, text, listen string) (*config.Config, error) {
	for name, data := range map[string]string{"edgesteer.toml": text, "example.com.zone": zoneText} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			return nil, fmt.Errorf("writing the demo's files: %w", err)
		}
	}
	cfg, problems := config.Load(filepath.Join(dir, "edgesteer.toml"))
	if config.Failed(problems) {
		return nil, config.Problems(problems)
	}
	addr, err := netip.ParseAddrPort(listen)
	if err != nil {
		return nil, fmt.Errorf("address to listen on: %w", err)
	}
	cfg.Server.Listen = []netip.AddrPort{addr}
	return cfg, nil
}

// Options are what can be chosen.
type Options struct {
	Listen  string // address for UDP and TCP; further nodes have the same port and the addresses after it; "": 127.0.0.1:5300, or another port if that is taken
	Admin   string // address of the page and the API; "": 127.0.0.1:8053, or another port if that is taken
	Nodes   int    // of the fleet, 1 to 9
	Queries int    // steered queries a second from the clients, in total; 0: there are no clients
	Version string // of the program
	Log     *slog.Logger
}

// Demo runs until Stop.
type Demo struct {
	Apps     []*app.App // the nodes; the first has its files in Dir
	Config   *config.Config
	Dir      string
	Page     string // address of the page, with the token of its operator behind the #
	Viewer   string // the same with the token of a viewer
	Backends bool   // there are backends; false on systems whose loopback network is a single address
	stops    []func(context.Context)
}

// Start starts backends, nodes and clients, in this order, and returns when queries are answered.
func Start(ctx context.Context, o Options) (d *Demo, err error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	first, err := chooseListen(o.Listen, o.Nodes)
	if err != nil {
		return nil, err
	}
	d = &Demo{}
	defer func() {
		if err != nil {
			_ = d.Stop(ctx) // what went wrong is said already
		}
	}()
	if d.Dir, err = folder(); err != nil {
		return d, err
	}
	text, backends := d.openBackends()
	operator, viewer := rand.Text(), rand.Text()
	var admin string
	for i := range o.Nodes {
		nodeDir := d.Dir
		if i > 0 {
			nodeDir = filepath.Join(d.Dir, "node"+strconv.Itoa(i+1))
			if err := os.Mkdir(nodeDir, 0o700); err != nil {
				return d, fmt.Errorf("making the demo's folder: %w", err)
			}
		}
		listen := netip.AddrPortFrom(next(first.Addr(), i), first.Port())
		cfg, err := write(nodeDir, text, listen.String())
		if err != nil {
			return d, err
		}
		cfg.Admin.Tokens = []config.Token{{Name: "you", Role: "operator", SHA256: hash(operator)}, {Name: "viewer", Role: "viewer", SHA256: hash(viewer)}}
		if o.Nodes > 1 {
			join(cfg, backends.block, i)
		}
		a, page, err := startNode(ctx, cfg, o, i)
		if err != nil {
			return d, err
		}
		if i == 0 {
			d.Config, admin = cfg, page
		}
		d.Apps = append(d.Apps, a)
		d.stops = append(d.stops, func(ctx context.Context) { _ = a.Stop(ctx) }) // what does not stop in time ends with the process
	}
	d.Page, d.Viewer = "http://"+admin+"/#"+operator, "http://"+admin+"/#"+viewer
	if err := d.startWorld(o, backends); err != nil {
		return d, err
	}
	return d, nil
}

// startNode starts a node, and gives the address of its page.
func startNode(ctx context.Context, cfg *config.Config, o Options, node int) (a *app.App, page string, err error) {
	l, err := listenPage(o.Admin, node)
	if err != nil {
		return nil, "", err
	}
	page = l.Addr().String()
	if a, err = app.New(cfg, app.Options{Log: o.Log, Version: o.Version, Bound: []net.Listener{l}}); err != nil {
		l.Close()
		return nil, "", err
	}
	if err = a.Start(ctx); err != nil {
		l.Close() // if it has not come so far that it closes it itself
	}
	return a, page, err
}

// openBackends makes a backend for every address, and gives the configuration with the addresses that they have. Where there is no more than one loopback address there are none, and nothing
// checks them.
func (d *Demo) openBackends() (text string, b *backends) {
	b, err := listenBackends(configText)
	if err != nil {
		return unchecked(configText), &backends{block: firstBlock}
	}
	d.Backends = true
	d.stops = append(d.stops, func(context.Context) { b.close() })
	return b.text, b
}

// unchecked is a configuration without its health check.
func unchecked(text string) string {
	before, rest, _ := strings.Cut(text, "[service.check]")
	_, after, _ := strings.Cut(rest, "[service.at.")
	return before + "[service.at." + after
}

// startWorld opens the door to the backends, and lets the clients ask and connect.
func (d *Demo) startWorld(o Options, b *backends) error {
	door, err := openDoor(d.Dir, b)
	if err != nil {
		return err
	}
	d.stops = append(d.stops, func(context.Context) { door.Close() })
	if o.Queries == 0 {
		return nil
	}
	reports, err := api.New("unix:"+Socket(d.Dir), "")
	if err != nil {
		return err
	}
	var servers []string
	for _, a := range d.Apps {
		servers = append(servers, a.Addrs()[0].String())
	}
	c, err := newCrowd(servers, o.Queries, b)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run(ctx, func(loads []api.LoadSample) {
			_, _ = reports.ReportLoads(ctx, api.LoadReport{Loads: loads}) // the next report is a moment away
		})
	}()
	d.stops = append(d.stops, func(context.Context) {
		cancel()
		<-done
	})
	return nil
}

// Stop ends everything, the last first.
func (d *Demo) Stop(ctx context.Context) error {
	for _, stop := range slices.Backward(d.stops) {
		stop(ctx)
	}
	d.stops = nil
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("stopped before everything had come to its end: %w", err)
	}
	return nil
}

// next is an address so many after another.
func next(a netip.Addr, n int) netip.Addr {
	for range n {
		a = a.Next()
	}
	return a
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// chooseListen gives the address for UDP and TCP of the first of some nodes. One that was asked for is taken as it is, if nobody has it; the usual one gives way to whoever is there. Servers share
// their ports with those that take over from them: a second demo would share them with the first, and each would answer half of the queries.
func chooseListen(asked string, nodes int) (netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(cmp.Or(asked, usualListen))
	if err != nil {
		return at, fmt.Errorf("address to listen on: %w", err)
	}
	for try := 0; ; try++ {
		if at.Port() == 0 {
			return at, nil
		}
		for i := range nodes {
			if err = alone(netip.AddrPortFrom(next(at.Addr(), i), at.Port())); err != nil {
				break
			}
		}
		if err == nil || asked != "" || try == 100 {
			return at, err
		}
		at = netip.AddrPortFrom(at.Addr(), at.Port()+1)
	}
}

// alone tells why an address cannot be had for UDP and TCP without sharing it.
func alone(at netip.AddrPort) error {
	u, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return err
	}
	defer u.Close()
	t, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return err
	}
	return t.Close()
}

// listenPage binds the address of a node's page. One that was asked for is taken as it is; the usual one gives way to whoever is there.
func listenPage(asked string, node int) (net.Listener, error) {
	at, err := netip.ParseAddrPort(cmp.Or(asked, usualAdmin))
	if err != nil {
		return nil, fmt.Errorf("address of the page: %w", err)
	}
	if !at.Addr().IsLoopback() {
		return nil, fmt.Errorf("address of the page: %s can be reached from outside; the demo speaks clear text, on loopback only", at)
	}
	at = netip.AddrPortFrom(next(at.Addr(), node), at.Port())
	l, err := net.Listen("tcp", at.String())
	if err != nil && asked == "" {
		return net.Listen("tcp", netip.AddrPortFrom(at.Addr(), 0).String())
	}
	return l, err
}

// homes are the PoPs that the nodes of a fleet stand in, far from each other.
var homes = [...]string{"us-east-1", "eu-central-1", "ap-southeast-1", "sa-east-1", "ap-northeast-1", "af-south-1", "us-west-2", "ap-south-1", "ap-southeast-2"}

// join makes a node of a fleet out of a configuration. Each node knows the first.
func join(cfg *config.Config, block, node int) {
	address := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(block), 0, byte(i + 1)}), gossipPort)
	}
	if node > 0 {
		cfg.Server.Node += "-" + strconv.Itoa(node+1)
	}
	cfg.Server.PoP = homes[node%len(homes)]
	cfg.Cluster = &config.Cluster{
		Listen: address(node), Network: "local", Sync: 5 * time.Second, Rejoin: time.Second, Join: 2 * time.Second, Leave: time.Second,
	}
	if node > 0 {
		cfg.Cluster.Seeds = []string{address(0).String()}
	}
}
