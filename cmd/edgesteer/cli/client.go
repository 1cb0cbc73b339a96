package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/app/demo"
	"github.com/edgesteer/edgesteer/server/config"
)

// usualSocket is where a packaged server listens for commands.
const usualSocket = "/run/edgesteer/admin.sock"

// requestTime is how long a request may take, with all its retries.
const requestTime = 30 * time.Second

// addServer is the flag --server.
func addServer(cmd *cobra.Command, server *string) {
	cmd.Flags().StringVar(server, "server", "", "running server, unix:`PATH` or https://HOST:PORT (left out: that of edgesteer.toml here; without that file the packaged one, else the demo)")
}

// question is a command that asks a server and shows what it says.
type question struct {
	*streams
	server string
	output output
}

// flags gives the command those of a question.
func (q *question) flags(cmd *cobra.Command) *cobra.Command {
	addServer(cmd, &q.server)
	addOutput(cmd, &q.output)
	return cmd
}

// put puts a question and shows the answer, as text by show.
func put[T any](ctx context.Context, q *question, get func(*api.Client, context.Context) (T, error), show func(T) error) error {
	c, err := q.connect(q.server)
	if err != nil {
		return err
	}
	answer, err := inTime(ctx, func(ctx context.Context) (T, error) { return get(c, ctx) })
	if err != nil {
		return err
	}
	if q.output == "json" {
		return q.json(answer)
	}
	return show(answer)
}

// connect makes a client of the server that was named, else of the one that this folder or machine means.
func (s *streams) connect(server string) (*api.Client, error) {
	if server == "" {
		var err error
		if server, err = s.localServer(); err != nil {
			return nil, err
		}
	}
	return newClient(server)
}

// newClient speaks to a running server, with the token of the environment.
func newClient(server string) (*api.Client, error) {
	c, err := api.New(server, os.Getenv("EDGESTEER_TOKEN"))
	if err != nil {
		return nil, wrong("for example --server unix:"+usualSocket, "%w", err)
	}
	return c, nil
}

// localServer finds the server that is meant when none is named. If there is a configuration (EDGESTEER_CONFIG, or edgesteer.toml here) it is that one's and no other: nobody is to
// drain another server, or the demo, because theirs is down. Else it is the packaged server, else the demo, which is told, since it may run for somebody else's reasons. A socket that
// may not be opened counts as one that answers: it is meant, too.
func (s *streams) localServer() (string, error) {
	if path := configPath(); path != "" {
		return configuredServer(path)
	}
	if answers(usualSocket) {
		return "unix:" + usualSocket, nil
	}
	if answers(demoSocket()) {
		fmt.Fprintln(s.err, "no edgesteer.toml is here and no packaged server runs: this is the demo")
		return "unix:" + demoSocket(), nil
	}
	return "", hinted(fmt.Errorf("no server runs on this machine: no edgesteer.toml is here, and nothing listens on %s, %s", usualSocket, demoSocket()),
		"edgesteer demo starts one; --server unix:PATH or https://HOST:PORT names one elsewhere")
}

// configuredServer is the server of a configuration.
func configuredServer(path string) (string, error) {
	const named = "--server unix:PATH or https://HOST:PORT names another"
	cfg, problems := config.Load(path)
	if cfg == nil {
		return "", hinted(fmt.Errorf("%s does not say which server is meant: %s", path, config.Problems(problems).Error()), named)
	}
	var sockets []string
	for _, listen := range cfg.Admin.Listen {
		if socket, ok := strings.CutPrefix(listen, "unix:"); ok {
			if socket = cfg.Path(socket); answers(socket) {
				return "unix:" + socket, nil
			}
			sockets = append(sockets, socket)
		}
	}
	switch {
	case len(cfg.Admin.Listen) == 0:
		return "", hinted(fmt.Errorf("the server of %s listens nowhere for commands", path), "set admin.listen there; "+named)
	case len(sockets) == 0:
		return "", hinted(fmt.Errorf("the server of %s listens on no socket", path), "name it: --server "+cfg.Admin.Listen[0])
	}
	return "", hinted(fmt.Errorf("the server of %s (socket %s) does not answer", path, strings.Join(sockets, ", ")),
		"start it with edgesteer serve --config "+quoted(path)+"; "+named)
}

// answers tells whether a server listens on a socket.
func answers(socket string) bool {
	c, err := net.DialTimeout("unix", socket, time.Second)
	if err == nil {
		c.Close()
	}
	return err == nil || errors.Is(err, fs.ErrPermission)
}

func demoSocket() string { return demo.Socket(demo.Dir()) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// configPath is the configuration that commands mean which have no flag for it: the one of EDGESTEER_CONFIG, be it there or not, else edgesteer.toml here; "" if there is none.
func configPath() string {
	path := os.Getenv("EDGESTEER_CONFIG")
	if path == "" && exists("edgesteer.toml") {
		path = "edgesteer.toml"
	}
	return path
}
