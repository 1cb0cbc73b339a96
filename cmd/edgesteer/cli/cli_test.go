package cli

import (
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the reference in README.md")
	testscript.Main(m, map[string]func(){
		"edgesteer": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// Scripts may use, besides testscript's commands:
//
//	exits CODE COMMAND...           runs a command that must end with the exit code
//	freeport NAME...                sets variables to ports that are free for UDP and TCP
//	signal HUP|TERM|INT             sends a signal to every command in the background
//	dig ADDRESS NAME TYPE [SUBNET]  asks until there is an answer (1 min); what came is the standard output
//	waitdig ADDRESS NAME TYPE TEXT  asks until the answer holds the text (1 min)
//	waitfor REGEXP COMMAND...       runs a command until its output matches (1 min)
//	ready SOCKET                    waits until a server listens there (1 min)
func TestScripts(t *testing.T) {
	var ports atomic.Uint32
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"freeport": freeport(&ports),
			"dig":      dig,
			"exits":    exits,
			"ready":    ready,
			"signal":   signalAll,
			"waitdig":  waitdig,
			"waitfor":  waitfor,
		},
		Setup: func(e *testscript.Env) error {
			e.Setenv("NO_COLOR", "1")
			e.Setenv("ESC", "\x1b")
			return nil
		},
	})
}

// exits CODE COMMAND...: runs it and wants that exit code; output goes to the files stdout and stderr.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// ready waits until a server listens on a socket.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ready SOCKET")
	}
	ts.Check(poll(func() error {
		c, err := net.Dial("unix", ts.MkAbs(args[0]))
		if err == nil {
			c.Close()
		}
		return err
	}))
}

// signalAll sends a signal to every command in the background.
func signalAll(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT}
	if neg || len(args) != 1 || signals[args[0]] == nil {
		ts.Fatalf("usage: signal HUP|TERM|INT")
	}
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(signals[args[0]]))
	}
}

// freeport takes ports that no system gives to whoever asks for any, and each once: until the server of the script binds it nobody has it by chance.
func freeport(ports *atomic.Uint32) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		for _, name := range args {
			ts.Setenv(name, fmt.Sprint(nextPort(ports)))
		}
	}
}

// nextPort is the next port from 10000 to 29999 that is free for UDP and TCP, from a place that differs between processes that run at the same time.
func nextPort(ports *atomic.Uint32) uint32 {
	for {
		port := 10_000 + (uint32(os.Getpid())*64+ports.Add(1))%20_000
		at := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := net.Listen("tcp", at)
		if err != nil {
			continue
		}
		l.Close()
		if p, err := net.ListenPacket("udp", at); err == nil {
			p.Close()
			return port
		}
	}
}

// dig asks until there is an answer; negated, it wants none.
func dig(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: dig ADDRESS NAME TYPE [SUBNET]")
	}
	var text string
	err := poll(func() (err error) {
		if text, err = ask(ts, args); neg {
			return nil
		}
		return err
	})
	ts.Check(err)
	if neg == (text != "") {
		ts.Fatalf("%s: answer %q", args[0], text)
	}
	_, _ = fmt.Fprint(ts.Stdout(), text)
}

// waitdig asks until the answer holds a text.
func waitdig(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: waitdig ADDRESS NAME TYPE TEXT")
	}
	ts.Check(poll(func() error {
		text, err := ask(ts, args[:3])
		if err == nil && !strings.Contains(text, args[3]) {
			err = fmt.Errorf("no %s in %s", args[3], text)
		}
		return err
	}))
}

// waitfor runs a command until its output matches.
func waitfor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: waitfor REGEXP COMMAND...")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	ts.Check(poll(func() error {
		if err := ts.Exec(args[1], args[2:]...); err != nil {
			return err
		}
		if out := ts.ReadFile("stdout"); !want.MatchString(out) {
			return fmt.Errorf("nothing matches %s in\n%s", want, out)
		}
		return nil
	}))
}

// poll tries for two minutes: with the race detector on, a server takes long to start.
func poll(try func() error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 2400 {
		if err := try(); err == nil {
			return nil
		}
		<-tick.C
	}
	return try()
}

func ask(ts *testscript.TestScript, args []string) (string, error) {
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(args[1]), dns.StringToType[args[2]])
	m.SetEdns0(1232, false)
	if len(args) > 3 {
		p, err := netip.ParsePrefix(args[3])
		ts.Check(err)
		family := uint16(1)
		if p.Addr().Is6() {
			family = 2
		}
		m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: family, SourceNetmask: uint8(p.Bits()), Address: p.Addr().AsSlice()})
	}
	c := dns.Client{Timeout: time.Second}
	r, _, err := c.Exchange(m, args[0])
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintln(&b, dns.RcodeToString[r.Rcode])
	for _, rr := range r.Answer {
		fmt.Fprintln(&b, strings.ReplaceAll(rr.String(), "\t", " "))
	}
	if opt := r.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if s, ok := o.(*dns.EDNS0_SUBNET); ok {
				fmt.Fprintf(&b, "scope /%d\n", s.SourceScope)
			}
		}
	}
	return b.String(), nil
}

// Every command has help, an example or no arguments, and flags that the environment can give.
func TestCommands(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" && !c.Hidden {
			t.Errorf("%s has no help", c.CommandPath())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s has no help", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(testRoot())
}

func TestEnvironment(t *testing.T) {
	env := map[string]string{"EDGESTEER_CONFIG": "/e.toml", "EDGESTEER_ALL_DOWN": "a,b", "EDGESTEER_GIVEN": "env", "EDGESTEER_HELP": "true"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	f := pflag.NewFlagSet("x", pflag.ContinueOnError)
	config, given := f.String("config", "default", ""), f.String("given", "", "")
	list, help := f.StringSlice("all-down", nil, ""), f.Bool("help", false, "")
	number := f.Int("number", 1, "")
	if err := f.Parse([]string{"--given", "flag"}); err != nil {
		t.Fatal(err)
	}
	if err := fromEnvironment(f, lookup); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{"/e.toml", "flag", []string{"a", "b"}, false, 1}, []any{*config, *given, *list, *help, *number}); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	env["EDGESTEER_NUMBER"] = "x"
	if err := fromEnvironment(f, lookup); err == nil || !strings.Contains(err.Error(), "EDGESTEER_NUMBER") {
		t.Errorf("a number of x: %v", err)
	}
}

func TestTable(t *testing.T) {
	rows := [][]string{{"eu-west-1", "up", "37 %"}, {"fra", "drained", ""}}
	tests := []struct {
		name             string
		terminal, colour bool
		want             string
	}{
		{"piped", false, false, "eu-west-1\tup\t37 %\nfra\tdrained\t\n"},
		{"terminal", true, false, "POP        STATE    SHARE\neu-west-1  up       37 %\nfra        drained\n"},
		{"colour", true, true, "\x1b[2mPOP        STATE    SHARE\x1b[0m\neu-west-1  up       37 %\nfra        drained\n"},
	}
	for _, tt := range tests {
		var out strings.Builder
		s := &streams{out: &out, terminal: tt.terminal, colour: tt.colour}
		s.table([]string{"POP", "STATE", "SHARE"}, rows)
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestNotify(t *testing.T) {
	dir, err := os.MkdirTemp("", "n") // a short path, for the socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: dir + "/s", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := send(dir+"/s", "READY=1"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, err := l.Read(b)
	if err != nil || string(b[:n]) != "READY=1" {
		t.Errorf("read %q, %v", b[:n], err)
	}
	if err := send(dir+"/none", "READY=1"); err == nil {
		t.Error("no error without a listener")
	}
}
