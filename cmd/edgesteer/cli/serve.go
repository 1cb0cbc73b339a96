package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/app"
	"github.com/edgesteer/edgesteer/server/config"
)

type serveOptions struct {
	*streams
	config string
	listen []string
	admin  []string

	takeOver bool
}

func newServe(s *streams) *cobra.Command {
	o := &serveOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer queries until told to stop",
		Long: "Serve answers queries as the configuration says. It logs to stderr.\n\n" +
			"SIGHUP reads configuration, zones and databases again: what is broken keeps its old version.\n" +
			"SIGTERM and SIGINT stop: listeners close, queries in flight are answered; a second one stops at once.\n" +
			"SIGUSR2 starts the program again, as it is on disk now, with the same arguments and --take-over (Linux): the new process takes the sockets, the open TCP connections and the ledger\n" +
			"over, and this one ends, without the loss of a query. If the new one fails, this one goes on. --take-over does the same by hand.\n" +
			"With NOTIFY_SOCKET in the environment systemd is told when the server is ready (Type=notify).",
		Example: "  edgesteer serve --config /etc/edgesteer/edgesteer.toml",
		Args:    arguments(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	addConfig(cmd, &o.config)
	cmd.Flags().StringSliceVar(&o.listen, "listen", nil, "`ADDRESS`es for UDP and TCP instead of those in the configuration")
	cmd.Flags().StringSliceVar(&o.admin, "admin", nil, "`ADDRESS`es of the admin API instead of those in the configuration")
	cmd.Flags().BoolVar(&o.takeOver, "take-over", false, "take over from the process of this node that serves now, if there is one, without the loss of a query")
	return cmd
}

func (o *serveOptions) run(ctx context.Context) error {
	cfg, problems := config.Load(o.config)
	if config.Failed(problems) {
		return hinted(config.Problems(problems), "edgesteer check --config "+o.config)
	}
	log := newLog(o.err, cfg.Log)
	for _, p := range problems {
		log.Warn("configuration", "problem", p.String()) // of reading it; the app logs those of the meaning
	}
	signals := make(chan os.Signal, 4) // before anything that takes time: a SIGHUP then is a reload, not the end
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT, handOver)
	defer signal.Stop(signals)
	a, err := app.New(cfg, app.Options{Log: log, Version: build().String(), Listen: o.listen, Admin: o.admin, TakeOver: o.takeOver})
	if err != nil {
		return hinted(err, "edgesteer check --config "+o.config)
	}
	if err := a.Start(ctx); err != nil {
		if o.takeOver && strings.Contains(err.Error(), lockHeld) {
			return hinted(err, "that process does not hand over: it is of an earlier version, or just starts; stop it first")
		}
		return startError(err)
	}
	notify(log, "READY=1")
	return untilStopped(a, log, cfg, signals)
}

// running is what can be stopped, and perhaps reloaded and handed over.
type running interface {
	Stop(context.Context) error
}

// untilStopped reloads on SIGHUP and starts a successor on SIGUSR2. It returns when the server has stopped after SIGTERM or SIGINT, or another process has taken over.
func untilStopped(a running, log *slog.Logger, cfg *config.Config, signals <-chan os.Signal) error {
	var gone <-chan int
	if g, ok := a.(interface{ Gone() <-chan int }); ok {
		gone = g.Gone()
	}
	for stop := false; !stop; {
		select {
		case pid := <-gone:
			notify(log, "MAINPID="+strconv.Itoa(pid))
			return nil
		case s := <-signals:
			switch s {
			case syscall.SIGHUP:
				if r, ok := a.(interface{ Reload() []config.Problem }); ok {
					go r.Reload() // it logs what it does, and one comes after the other; stopping does not wait for it
				}
			case handOver:
				if gone != nil {
					startSuccessor(log)
				}
			default:
				log.Info("stopping", "signal", s.String())
				stop = true
			}
		}
	}
	notify(log, "STOPPING=1")
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Server.Stop)
	defer cancel()
	go func() {
		<-signals
		cancel()
	}()
	return a.Stop(ctx)
}

// startSuccessor starts the program that is on disk now, with the arguments of this process, to take over from it. It says itself if it cannot.
func startSuccessor(log *slog.Logger) {
	args := slices.Clone(os.Args[1:])
	if !slices.Contains(args, "--take-over") {
		args = append(args, "--take-over")
	}
	cmd := exec.Command(os.Args[0], args...) //nolint:gosec // what this process was started as
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		log.Error("starting a process to take over", "program", os.Args[0], "err", err)
		return
	}
	log.Info("started a process to take over", "pid", cmd.Process.Pid)
	go func() {
		if err := cmd.Wait(); err != nil {
			log.Error("the process that should take over has ended", "pid", cmd.Process.Pid, "err", err)
		}
	}()
}

// lockHeld is in the error of a start when another process of the node runs.
const lockHeld = "is held by another process"

// startError says what can be done about an address that cannot be had, beside what the error says itself.
func startError(err error) error {
	text := err.Error()
	told := strings.Contains(text, "(hint: ")
	switch {
	case strings.Contains(text, lockHeld):
		return hinted(err, "edgesteer serve --take-over takes over from it")
	case errors.Is(err, fs.ErrPermission) && told:
		return hinted(err, "edgesteer serve --listen 127.0.0.1:5300")
	case errors.Is(err, fs.ErrPermission):
		return hinted(err, permissionHint(err))
	case strings.Contains(text, "address already in use") && told:
		return hinted(err, "--listen gives another")
	case strings.Contains(text, "address already in use"):
		return hinted(err, "ss -lntup shows who has it; --listen gives another")
	}
	return err
}

// permissionHint says what a start lacks that was not permitted: a port, or a file.
func permissionHint(err error) string {
	listen, isListen := errors.AsType[*net.OpError](err)
	file, isFile := errors.AsType[*fs.PathError](err)
	switch {
	case isListen && listen.Net != "unix":
		return "edgesteer serve --listen 127.0.0.1:5300; ports below 1024 need CAP_NET_BIND_SERVICE"
	case isListen:
		return folderHint(listen.Addr.String())
	case isFile:
		return folderHint(file.Path)
	}
	return ""
}

// folderHint is about the folder of a file that cannot be made or opened.
func folderHint(path string) string {
	return "ls -ld " + quoted(filepath.Dir(path)) + " shows whose it is; the user that runs this must be able to write there"
}

func newLog(w io.Writer, c config.Log) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // checked; "" is info
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// notify tells systemd, if it has asked (sd_notify(3)).
func notify(log *slog.Logger, state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if err := send(path, state); err != nil {
		log.Warn("telling the service manager", "state", state, "err", err)
	}
}

func send(path, state string) error {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("writing to %s: %w", path, err)
	}
	return nil
}
