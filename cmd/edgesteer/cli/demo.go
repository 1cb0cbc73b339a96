package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/app"
	"github.com/edgesteer/edgesteer/server/app/demo"
)

type demoOptions struct {
	*streams
	demo.Options
}

// demoClient is a network whose answer the demo shows.
type demoClient struct{ prefix, place string }

func demoClients() []demoClient {
	return []demoClient{
		{"1.0.16.0/24", "Japan"},
		{"200.160.0.0/24", "Brazil"},
		{"90.0.0.0/24", "France"},
		{"41.0.0.0/24", "South Africa"},
		{"1.128.0.0/24", "Australia"},
		{"2a01:cb00::/48", "France, IPv6"},
	}
}

func newDemo(s *streams) *cobra.Command {
	o := &demoOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Serve a built-in example with backends and clients, and show where clients go",
		Long: "Demo serves example.com with PoPs on all continents and the names " + demo.Primary + " and " + demo.Backup + " on a port of this machine, until it is interrupted.\n" +
			"Behind every PoP there are backends, addresses of this machine's loopback network that take websockets; clients all over the world ask and connect; health checks and automation " +
			"are on and quick. The page, whose address it prints, shows all of it.\n" +
			"`demo break` makes a PoP sick, `demo heal` makes it well.",
		Example: "  edgesteer demo --nodes 3\n  edgesteer demo break eu-west-1\n  edgesteer demo heal eu-west-1",
	}
	group(cmd, newDemoBreak(s), newDemoHeal(s))
	cmd.Args = arguments()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) }
	cmd.Flags().StringVar(&o.Listen, "listen", "", "`ADDRESS` for UDP and TCP; further nodes take the addresses after it (left out: 127.0.0.1:5300, or another port if that is taken)")
	cmd.Flags().StringVar(&o.Admin, "admin", "", "`ADDRESS` of the page and the admin API (left out: 127.0.0.1:8053, or another port if that is taken)")
	cmd.Flags().IntVar(&o.Nodes, "nodes", 1, "`NUMBER` of nodes of a fleet, 1 to 9")
	cmd.Flags().IntVar(&o.Queries, "queries", 300, "`NUMBER` of queries a second from clients, 0 to 10000; 0: there are no clients")
	return cmd
}

func (o *demoOptions) run(ctx context.Context) error {
	for _, address := range []string{o.Listen, o.Admin} {
		if _, err := netip.ParseAddrPort(address); err != nil && address != "" {
			return wrong("edgesteer demo --listen 127.0.0.1:5300 --admin 127.0.0.1:8053", "%q is not an address", address)
		}
	}
	if o.Nodes < 1 || o.Nodes > 9 {
		return wrong("edgesteer demo --nodes 3", "--nodes %d: want 1 to 9", o.Nodes)
	}
	if o.Queries < 0 || o.Queries > 10_000 {
		return wrong("edgesteer demo --queries 300", "--queries %d: want 0 to 10000", o.Queries)
	}
	o.Log, o.Version = slog.New(slog.DiscardHandler), build().String() // what the demo has to say is on stdout
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	d, err := demo.Start(ctx, o.Options)
	if err != nil {
		return startError(err)
	}
	if err := o.show(d); err != nil {
		return err
	}
	return untilStopped(d, o.Log, d.Config, signals)
}

// show answers the sample clients and says what to try.
func (o *demoOptions) show(d *demo.Demo) error {
	at := d.Apps[0].Addrs()[0]
	nodes := ""
	switch n := len(d.Apps); {
	case n == 2:
		nodes = " and the address after it"
	case n > 2:
		nodes = fmt.Sprintf(" and the %d addresses after it", n-1)
	}
	fmt.Fprintf(o.out, "edgesteer answers for example.com on %s%s, UDP and TCP.\nThe page: %s\n\n", at, nodes, d.Page)
	var rows [][]string
	for _, c := range demoClients() {
		row, err := demoRow(d.Apps[0], c)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	o.table([]string{"CLIENT NETWORK", "WHERE", "WSS-PRIMARY", "WSS-BACKUP", "SCOPE"}, rows)
	dig := fmt.Sprintf("dig +short @%s -p %d", at.Addr(), at.Port())
	sick := "  %[4]s demo break eu-west-1             # Dublin's backends fall ill; automation acts; demo heal makes them well\n"
	if !d.Backends {
		sick = "  # there are no backends and no clients: they need a loopback network of more than one address, as Linux has\n"
	}
	fmt.Fprintf(o.out, "\nTry:\n"+
		"  %[1]s %[2]s +subnet=1.0.16.0/24      # a client in Japan\n"+
		"  %[1]s %[3]s +subnet=200.160.0.0/24    # a client in Brazil\n"+
		"  %[4]s explain %[2]s A --client 90.0.0.0/24\n"+
		"  %[4]s status --watch\n"+
		"  %[4]s drain eu-west-3 --reason \"trying it\"     # take Paris out of the answers; it shows and asks first\n"+
		"  %[4]s restore eu-west-3 --reason \"that is it\"\n"+
		sick+
		"\nThe page as a viewer sees it: %[5]s\n"+
		"Ctrl-C stops it. IP Geolocation by DB-IP (https://db-ip.com).\n", dig, demo.Primary, demo.Backup, program(), d.Viewer)
	return nil
}

// program is how this program was called, as far as can be told.
func program() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/edgesteer"
	}
	return "edgesteer"
}

func demoRow(a *app.App, c demoClient) ([]string, error) {
	primary, err := a.Explain(api.ExplainQuery{Name: demo.Primary, Type: "A", Client: c.prefix}, nil, nil)
	if err != nil {
		return nil, err
	}
	backup, err := a.Explain(api.ExplainQuery{Name: demo.Backup, Type: "A", Client: c.prefix}, nil, nil)
	if err != nil {
		return nil, err
	}
	return []string{c.prefix, c.place, strings.Join(primary.Possible, " or "), strings.Join(backup.Possible, " or "), fmt.Sprintf("/%d", primary.Scope)}, nil
}

type sicknessOptions struct {
	*streams
	server string
	how    string
}

func newDemoBreak(s *streams) *cobra.Command {
	o := &sicknessOptions{streams: s}
	cmd := &cobra.Command{
		Use:               "break POP",
		Short:             "Make a PoP of the demo sick",
		Long:              "Break makes the backends of one of the demo's PoPs sick: their connections break and new ones are refused. Health checks see it, and automation acts.",
		Example:           "  edgesteer demo break eu-west-1\n  edgesteer demo break eu-west-1 --how hang",
		Args:              arguments("POP"),
		ValidArgsFunction: targets(popsOnly),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.doBreak(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&o.how, "how", "refuse", "`WAY` to be sick: refuse answers handshakes with 503, hang never answers them")
	complete(cmd, "how", "refuse", "hang")
	addServer(cmd, &o.server)
	return cmd
}

func newDemoHeal(s *streams) *cobra.Command {
	o := &sicknessOptions{streams: s}
	cmd := &cobra.Command{
		Use:               "heal POP",
		Short:             "Make a PoP of the demo well again",
		Example:           "  edgesteer demo heal eu-west-1",
		Args:              arguments("POP"),
		ValidArgsFunction: targets(popsOnly),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := demo.Set(cmd.Context(), o.dir(), args[0], demo.Well); err != nil {
				return err
			}
			fmt.Fprintf(o.out, "%s is well. Its checks pass again in a few seconds; what automation has drained comes back along a ramp, a person's drain does not.\n", args[0])
			return nil
		},
	}
	addServer(cmd, &o.server)
	return cmd
}

func (o *sicknessOptions) doBreak(ctx context.Context, pop string) error {
	sickness := demo.Sickness(o.how)
	if sickness != demo.Refusing && sickness != demo.Silent {
		return wrong("edgesteer demo break "+pop+" --how hang", "--how %q: want refuse or hang", o.how)
	}
	if _, err := demo.Set(ctx, o.dir(), pop, sickness); err != nil {
		return err
	}
	fmt.Fprintf(o.out, "%s is sick. Its checks fail three times, then it leaves the answers; watch the page, or %s status --watch.\nundo     %s demo heal %s\n", pop, program(), program(), pop)
	return nil
}

// dir is the folder of the demo: that of the server that was named, or the usual one.
func (o *sicknessOptions) dir() string {
	if socket, ok := strings.CutPrefix(o.server, "unix:"); ok {
		return filepath.Dir(filepath.Dir(socket))
	}
	return demo.Dir()
}
