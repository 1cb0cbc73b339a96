package drain

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/edgesteer/edgesteer/pops"
)

// crashDir names, in the environment of a child process, the folder on which it works until it is killed.
const crashDir = "EDGESTEER_TEST_CRASH_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		crashChild(dir)
		return
	}
	os.Exit(m.Run())
}

// tellingFS writes a dot for every call to the disk, so that the parent can kill at any of them.
type tellingFS struct{ OS }

type tellingFile struct{ File }

func (f tellingFS) Open(name string, flag int, perm fs.FileMode) (File, error) {
	fmt.Print(".")
	file, err := f.OS.Open(name, flag, perm)
	return tellingFile{file}, err
}

func (f tellingFS) Rename(from, to string) error {
	fmt.Print(".")
	return f.OS.Rename(from, to)
}

func (f tellingFile) Write(b []byte) (int, error) {
	fmt.Print(".")
	n, err := f.File.Write(b[:len(b)/2])
	if err != nil {
		return n, err
	}
	fmt.Print(".")
	m, err := f.File.Write(b[len(b)/2:])
	return n + m, err
}

func (f tellingFile) Sync() error {
	fmt.Print(".")
	return f.File.Sync()
}

// crashChild applies and lifts for ever, and tells what was accepted when it was.
func crashChild(dir string) {
	l, err := New(Config{Node: "a", Dir: dir, FS: tellingFS{}, Fleet: func() *pops.Fleet { return fleet }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Printf("\nerror %v\n", err)
		return
	}
	for i := 0; ; i++ {
		target := []string{"iad", "fra", "sin", "*/envoy-wss"}[rand.IntN(4)]
		if i%4 == 3 {
			if result, err := l.Lift(restore(target)); err == nil {
				fmt.Printf("\nlifted %s\n", result.Ended[0].ID)
			}
			continue
		}
		result, err := l.Apply(drain(target, float64(1+rand.IntN(100))))
		if err != nil {
			fmt.Printf("\nerror %v\n", err)
			return
		}
		fmt.Printf("\napplied %s\n", result.Statements[0].ID)
	}
}

// TestKill9 kills a real process at random points of 200 applies: every accepted statement is there after the restart, and the history is whole.
func TestKill9(t *testing.T) {
	dir := t.TempDir()
	applies := 200
	if testing.Short() {
		applies = 60
	}
	accepted, lifted := map[string]bool{}, map[string]bool{}
	for kills := 1; len(accepted) < applies; kills++ {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), crashDir+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		read := bufio.NewReader(out)
		told := make([]byte, 1+rand.IntN(2000))
		n, err := io.ReadFull(read, told)
		if err != nil {
			t.Fatalf("the child ended by itself: %s %v", told[:n], err)
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(read)
		_ = child.Wait() // it was killed
		for _, l := range strings.SplitAfter(string(told)+string(rest), "\n") {
			word, id, _ := strings.Cut(strings.TrimSuffix(l, "\n"), " ")
			switch {
			case word == "error":
				t.Fatalf("kill %d: %s", kills, id)
			case !strings.HasSuffix(l, "\n"): // cut short
			case word == "applied":
				accepted[id] = true
			case word == "lifted":
				lifted[id] = true
			}
		}
		l, err := New(Config{Node: "a", Dir: dir, Fleet: func() *pops.Fleet { return fleet }, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		node := &node{Ledger: l, t: t}
		node.whole(fmt.Sprintf("kill %d", kills), accepted, lifted, nil)
		for _, p := range l.Problems() {
			if p.Kind != HistoryMended && p.Kind != NoState {
				t.Errorf("kill %d: %v", kills, p)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d statements, %d lifts", len(accepted), len(lifted))
}
