package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/edgesteer/edgesteer/server/config"
)

// execCheck runs a program: exit code 0 is good, else the first line of what it printed is the evidence. It and all that it started is killed when its time is over.
type execCheck struct {
	*dialer
	command []string
	room    chan struct{} // for programs at the same time
}

const (
	maxPrograms = 32   // of one check at the same time
	maxOutput   = 4096 // octets kept; the rest is read and dropped
	// killTime is how long a program that was killed may keep its output open.
	killTime = 100 * time.Millisecond
)

func newExec(c *config.Check, d *dialer) (Check, error) {
	if len(c.Command) == 0 || c.Command[0] == "" {
		return nil, &fieldError{"command", "an exec check needs a command", `for example command = ["/usr/local/bin/check", "{address}"]`}
	}
	return &execCheck{d, c.Command, make(chan struct{}, maxPrograms)}, nil
}

func (c *execCheck) Probe(ctx context.Context, a netip.Addr) error {
	select {
	case c.room <- struct{}{}:
		defer func() { <-c.room }()
	case <-ctx.Done():
		return &localError{"too many commands run at the same time"}
	}
	replace := strings.NewReplacer("{address}", a.String(), "{port}", strconv.Itoa(int(c.port)))
	args := make([]string, len(c.command))
	for i, s := range c.command {
		args[i] = replace.Replace(s)
	}
	var out limited
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // the operator's command
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = killTime
	group(cmd)
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return fmt.Errorf("exit code %d%s", exit.ExitCode(), out.line())
	case errors.As(err, &exit):
		return fmt.Errorf("%w%s", exit, out.line())
	case errors.Is(err, exec.ErrWaitDelay): // it ended well; something that it left behind holds the output
		return nil
	case err != nil:
		return &localError{"the command does not run: " + cut(err.Error())}
	}
	return nil
}

// limited keeps the beginning of what is written.
type limited struct{ b bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := maxOutput - l.b.Len(); room > 0 {
		l.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// line is ": " and the first line with anything in it, or nothing.
func (l *limited) line() string {
	for s := range strings.Lines(l.b.String()) {
		if s = strings.TrimSpace(s); s != "" {
			return ": " + s
		}
	}
	return ""
}
