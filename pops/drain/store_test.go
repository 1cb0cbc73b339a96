package drain

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/pops"
)

// work does a bit of everything, and gives the ids that were accepted, those that were lifted, and the reasons of what was refused.
func work(n *node) (accepted, lifted map[string]bool, refused []string) {
	accepted, lifted = map[string]bool{}, map[string]bool{}
	apply := func(r Request) {
		result, err := n.Apply(r)
		if n.fs.dead { // nobody is there to be told
			return
		}
		if err != nil {
			refused = append(refused, r.Reason)
			return
		}
		for _, e := range result.Statements {
			accepted[e.ID] = true
		}
		for _, e := range result.Ended {
			lifted[e.ID] = true
		}
	}
	for i := range 4 {
		r := drain([]string{"iad", "fra", "sin", "fra"}[i], float64(10+i))
		r.Reason = fmt.Sprintf("reason %d", i)
		apply(r)
		n.pass(time.Second)
	}
	if result, err := n.Lift(restore("iad")); err == nil && !n.fs.dead {
		for _, e := range result.Ended {
			lifted[e.ID] = true
		}
	}
	r := automation("iad", "o")
	r.Reason = "reason 4"
	apply(r)
	n.Flush()
	return accepted, lifted, refused
}

// whole checks what a restart must find: all that was accepted, nothing that was refused, every lift, and a history that has it all.
func (n *node) whole(what string, accepted, lifted map[string]bool, refused []string) {
	n.t.Helper()
	known := map[string]bool{}
	for _, e := range n.Statements() {
		known[e.ID] = true
		if lifted[e.ID] && e.Lift == nil {
			n.t.Fatalf("%s: the lift of %s is lost", what, e.ID)
		}
		if slices.Contains(refused, e.Reason) {
			n.t.Fatalf("%s: %s was refused, and stands", what, e.Reason)
		}
	}
	recorded, ends := map[string]bool{}, map[string]bool{}
	seq := uint64(0)
	for _, r := range slices.Backward(n.History(Query{Limit: 1000})) {
		if r.Seq <= seq {
			n.t.Fatalf("%s: history number %d after %d", what, r.Seq, seq)
		}
		seq = r.Seq
		switch r.Op {
		case Accepted, ReplacedOp:
			recorded[r.ID] = true
		case LiftedOp:
			ends[r.ID] = true
		}
	}
	for id := range recorded {
		if !known[id] {
			n.t.Fatalf("%s: %s is in the history, but was not accepted", what, id)
		}
	}
	for id := range accepted {
		if !known[id] || !recorded[id] {
			n.t.Fatalf("%s: %s was accepted; known %v, in the history %v\n%s", what, id, known[id], recorded[id], n.ops())
		}
	}
	for id := range lifted {
		if !ends[id] {
			n.t.Fatalf("%s: the lift of %s is not in the history", what, id)
		}
	}
}

// TestKilledAnywhere kills the process at every single call to the disk, half of a write done, and restarts it, also after a loss of power: nothing that was accepted is lost.
func TestKilledAnywhere(t *testing.T) {
	for kill := 1; ; kill++ {
		n := newNode(t, "a")
		n.fs.calls = 0
		n.fs.fault = func(call int, _, _ string) error {
			if call == kill {
				return errKilled
			}
			return nil
		}
		accepted, lifted, _ := work(n)
		done := !n.fs.dead
		disk := n.fs
		for _, powerLoss := range []bool{false, true} {
			n.fs = disk
			n.restart(powerLoss)
			n.whole(fmt.Sprintf("killed at call %d, loss of power %v", kill, powerLoss), accepted, lifted, nil)
			for _, p := range n.Problems() {
				if p.Kind != HistoryMended {
					t.Fatalf("killed at call %d, loss of power %v: %v", kill, powerLoss, p)
				}
			}
			n.apply(drain("sin", 99)) // and it works on
			n.restart(true)
			n.want1("sin 1")
		}
		if done {
			if kill < 40 {
				t.Errorf("only %d calls", kill)
			}
			return
		}
	}
}

// want1 checks that one thing stands, among others.
func (n *node) want1(share string) {
	n.t.Helper()
	if !slices.Contains(strings.Split(n.shares(), ", "), share) {
		n.t.Fatalf("stands: %q, want %q", n.shares(), share)
	}
}

// TestKilledAtEveryByte cuts the new ledger file and the history at every length: what was there before the write is there after it.
func TestKilledAtEveryByte(t *testing.T) {
	n := newNode(t, "a")
	e := n.apply(drain("fra", 37))
	last := n.apply(drain("iad", 10))
	for _, name := range []string{newName, historyName} {
		var b []byte
		if name == newName {
			b = n.fs.names["state/"+ledgerName].data
		} else {
			b = n.fs.names["state/"+historyName].data
		}
		for cut := range len(b) {
			c := &node{hands: n.hands, fs: n.fs.after(true), effect: n.effect, t: t}
			c.fs.put("state/"+name, slices.Clone(b[:cut]))
			c.open("a")
			c.want("fra 63, iad 90")
			if name == historyName {
				if cut > 0 && b[cut-1] != '\n' && !c.problem(HistoryMended) {
					t.Fatalf("cut at %d: not mended: %v", cut, c.Problems())
				}
				c.apply(drain("sin", 1))
				c.restart(true)
				if h := c.History(Query{Limit: 1}); len(h) != 1 || h[0].Target != target("sin") {
					t.Fatalf("cut at %d: what was appended after it is lost: %+v", cut, h)
				}
			}
		}
	}
	// A ledger file that is cut itself, by whatever, is damage: the generation before it and the history still have everything.
	b := n.fs.names["state/"+ledgerName].data
	for cut := range len(b) {
		c := &node{hands: n.hands, fs: n.fs.after(true), effect: n.effect, t: t}
		c.fs.put("state/"+ledgerName, slices.Clone(b[:cut]))
		c.open("a")
		c.want("fra 63, iad 90")
		if !c.problem(LedgerDamaged) {
			t.Fatalf("cut at %d: %v", cut, c.Problems())
		}
	}
	for _, id := range []string{e.ID, last.ID} {
		if len(n.History(Query{ID: id})) != 1 {
			t.Errorf("history of %s: %+v", id, n.History(Query{ID: id}))
		}
	}
}

// TestFailingDisk lets every single call to the disk fail once, and then all from there on: what the disk does not take is refused, and after a restart exactly what was accepted
// stands.
func TestFailingDisk(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		for_ bool // for good
	}{{"no room", errNoRoom, false}, {"no room, for good", errNoRoom, true}, {"input/output error, for good", syscall.EIO, true}} {
		t.Run(test.name, func(t *testing.T) {
			for at := 1; ; at++ {
				n := newNode(t, "a")
				n.fs.calls = 0
				n.fs.fault = func(call int, _, _ string) error {
					if call == at || test.for_ && call > at {
						return test.err
					}
					return nil
				}
				accepted, lifted, refusedReasons := work(n)
				done := n.fs.calls < at
				what := fmt.Sprintf("call %d fails", at)
				inMemory := n.shares()
				n.fs.fault = nil
				disk := n.fs.after(false)
				n.Flush()
				n.whole(what+", the disk recovers", accepted, lifted, refusedReasons)
				if n.shares() != inMemory {
					t.Fatalf("%s: in force %q, then %q", what, inMemory, n.shares())
				}
				for _, p := range n.Problems() {
					if p.Kind == DiskFailing || p.Kind == HistoryFailing {
						t.Fatalf("%s: the disk is well, but %v", what, p)
					}
				}
				n.restart(true)
				n.whole(what+", the disk recovers, restart", accepted, lifted, refusedReasons)
				n.want(inMemory)
				n.fs = disk
				n.restart(false)
				n.whole(what+", restart", accepted, lifted, refusedReasons)
				n.want(inMemory)
				if done {
					return
				}
			}
		})
	}
}

// TestFullDisk: a statement is refused with words that name the disk, unless its author accepts that it is in memory only; then it is in force, told to the peers, and kept as soon
// as there is room.
func TestFullDisk(t *testing.T) {
	for _, op := range []string{"open", "write", "sync", "rename", "syncdir"} {
		t.Run(op, func(t *testing.T) {
			n := newNode(t, "a")
			n.apply(drain("iad", 10))
			n.fs.fault = func(_ int, o, name string) error {
				if o == op && (strings.HasPrefix(name, "ledger.json") || o == "syncdir") {
					return errNoRoom
				}
				return nil
			}
			_, err := n.Apply(drain("fra", 37))
			bad := refused(t, err)
			if bad.Code != Disk || !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(bad.Message, "not accepted: the disk of state does not take it: ") || !strings.HasSuffix(bad.Hint, "--override volatile") {
				t.Errorf("refusal: %+v", bad)
			}
			n.want("iad 90")
			if !n.problem(DiskFailing) {
				t.Errorf("problems: %v", n.Problems())
			}
			crashed := &node{hands: n.hands, fs: n.fs.after(false), effect: n.effect, t: t}
			crashed.open("a")
			crashed.want("iad 90")

			told := len(n.told)
			r := drain("fra", 37)
			r.Override = []string{Volatile}
			result, err := n.Apply(r)
			if err != nil || result.Durable {
				t.Fatalf("%+v, %v", result, err)
			}
			if len(n.told) != told+1 {
				t.Error("the peers are not told")
			}
			n.want("fra 63, iad 90")
			if n.Flush() {
				t.Error("all is on disk")
			}
			if p := n.Problems(); !slices.ContainsFunc(p, func(p Problem) bool { return p.Kind == DiskFailing && strings.Contains(p.Detail, "in memory only") }) {
				t.Errorf("problems: %v", p)
			}
			n.fs.fault = nil
			n.flush()
			if n.problem(DiskFailing) {
				t.Errorf("problems: %v", n.Problems())
			}
			n.restart(true)
			n.want("fra 63, iad 90")
			if h := n.History(Query{Target: target("fra"), Limit: 1}); len(h) != 1 || h[0].Op != Accepted {
				t.Errorf("history: %+v", h)
			}
		})
	}
}

// TestHistoryDiskFails: a statement that the ledger file has is accepted, its record waits in that file.
func TestHistoryDiskFails(t *testing.T) {
	for _, op := range []string{"write", "sync", "truncate"} {
		n := newNode(t, "a")
		n.fs.fault = func(_ int, o, name string) error {
			if name == historyName && (o == op || op == "truncate" && o == "write") {
				return errNoRoom
			}
			return nil
		}
		e := n.apply(drain("fra", 37))
		if !n.problem(HistoryFailing) || n.Flush() {
			t.Errorf("%s: problems: %v", op, n.Problems())
		}
		if h := n.History(Query{}); len(h) != 2 || h[0].ID != e.ID {
			t.Errorf("%s: history: %+v", op, h)
		}
		n.fs.fault = nil
		n.restart(true)
		if h := n.History(Query{}); len(h) < 2 || h[0].ID != e.ID || h[0].Op != Accepted {
			t.Errorf("%s: history after a restart: %+v", op, h)
		}
		n.flush()
	}
}

func TestDamagedFiles(t *testing.T) {
	body := func(n *node, name string) []byte { return slices.Clone(n.fs.names["state/"+name].data) }
	tests := []struct {
		name     string
		damage   func(n *node)
		problems []ProblemKind
		kept     []string // files that must be there afterwards, by the beginning of their name
		shares   string
	}{
		{"nothing", func(*node) {}, nil, nil, "fra 63, iad 90"},
		{"ledger removed", func(n *node) { delete(n.fs.names, "state/"+ledgerName) }, []ProblemKind{LedgerMissing}, nil, "fra 63, iad 90"},
		{"ledger emptied", func(n *node) { n.fs.put("state/"+ledgerName, nil) }, []ProblemKind{LedgerDamaged}, []string{"ledger.json.damaged-"}, "fra 63, iad 90"},
		{"one bit of it", func(n *node) {
			b := body(n, ledgerName)
			b[len(b)/2] ^= 4
			n.fs.put("state/"+ledgerName, b)
		}, []ProblemKind{LedgerDamaged}, []string{"ledger.json.damaged-"}, "fra 63, iad 90"},
		{"a newer version", func(n *node) {
			n.fs.put("state/"+ledgerName, []byte(`{"format":"edgesteer ledger","version":7,"generation":99,"length":0,"sum":""}`+"\n\x01"))
		}, []ProblemKind{LedgerNewer}, []string{"ledger.json.newer-"}, "fra 63, iad 90"},
		{"both generations damaged: the history has everything", func(n *node) {
			n.fs.put("state/"+ledgerName, []byte("x"))
			n.fs.put("state/"+oldName, []byte("y"))
		}, []ProblemKind{LedgerDamaged}, []string{"ledger.json.damaged-", "ledger.json.old.damaged-"}, "fra 63, iad 90"},
		{"both removed: the history has everything", func(n *node) {
			delete(n.fs.names, "state/"+ledgerName)
			delete(n.fs.names, "state/"+oldName)
		}, []ProblemKind{LedgerMissing}, nil, "fra 63, iad 90"},
		{"history removed", func(n *node) { delete(n.fs.names, "state/"+historyName) }, nil, nil, "fra 63, iad 90"},
		{"history removed and ledger damaged: the generation before is all there is", func(n *node) {
			delete(n.fs.names, "state/"+historyName)
			n.fs.put("state/"+ledgerName, []byte("x"))
		}, []ProblemKind{LedgerDamaged}, []string{"ledger.json.damaged-"}, "fra 63"},
		{"everything removed", func(n *node) { clear(n.fs.names) }, []ProblemKind{NoState}, nil, ""},
		{"one line of history", func(n *node) {
			b := body(n, historyName)
			b[len(b)/2] ^= 4
			n.fs.put("state/"+historyName, b)
		}, []ProblemKind{HistoryDamaged}, nil, "fra 63, iad 90"},
		{"clock file", func(n *node) { n.fs.put("state/"+clockName, []byte("{")) }, nil, nil, "fra 63, iad 90"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t, "a")
			n.apply(drain("sin", 5))
			n.lift(restore("sin"))
			n.apply(drain("fra", 37))
			n.apply(drain("iad", 10))
			n.flush()
			test.damage(n)
			n.restart(false)
			n.want(test.shares)
			var kinds []ProblemKind
			for _, p := range n.Problems() {
				kinds = append(kinds, p.Kind)
			}
			if !slices.Equal(kinds, test.problems) {
				t.Errorf("problems %v, want %v", n.Problems(), test.problems)
			}
			for _, kept := range test.kept {
				found := false
				for name := range n.fs.names {
					found = found || strings.HasPrefix(path.Base(name), kept)
				}
				if !found {
					t.Errorf("no %s... is kept", kept)
				}
			}
			if len(test.problems) > 0 && !strings.Contains(n.ops(), string(Trouble)) {
				t.Errorf("the history does not tell of it: %s", n.ops())
			}
			n.restart(true) // what was recovered has been written
			n.want(test.shares)
			if test.name != "one line of history" && len(n.Problems()) > 0 {
				t.Errorf("after another restart: %v", n.Problems())
			}
		})
	}
}

// TestRecoveryMayNotDestroy: where the damaged file cannot be moved aside nothing is written over it.
func TestRecoveryMayNotDestroy(t *testing.T) {
	n := newNode(t, "a")
	n.apply(drain("fra", 37))
	n.fs = n.fs.after(true)
	n.fs.put("state/"+ledgerName, []byte("precious"))
	n.fs.fault = func(_ int, op, name string) error {
		if op == "rename" && strings.Contains(name, "damaged") {
			return fs.ErrPermission
		}
		return nil
	}
	n.open("a")
	n.want("fra 63")
	_, err := n.Apply(drain("iad", 10))
	if bad := refused(t, err); bad.Code != Disk {
		t.Errorf("%+v", bad)
	}
	if got := string(n.fs.names["state/"+ledgerName].data); got != "precious" {
		t.Errorf("overwritten by %q", got)
	}
	n.fs.fault = nil
	n.apply(drain("iad", 10))
	n.restart(true)
	n.want("fra 63, iad 90")
}

// TestTampered: somebody removes or overwrites the ledger file while the process runs.
func TestTampered(t *testing.T) {
	for _, overwrite := range []bool{false, true} {
		n := newNode(t, "a")
		n.apply(drain("fra", 37))
		n.flush()
		if n.problem(LedgerChanged) {
			t.Error("it changed by itself")
		}
		if overwrite {
			n.fs.put("state/"+ledgerName, []byte("no drains"))
		} else {
			delete(n.fs.names, "state/"+ledgerName)
			delete(n.fs.names, "state/"+oldName)
		}
		n.pass(fileLook)
		n.flush()
		n.want("fra 63")
		if !n.problem(LedgerChanged) || !strings.Contains(n.ops(), "accepted problem") {
			t.Errorf("overwritten %v: %v, %s", overwrite, n.Problems(), n.ops())
		}
		n.restart(true)
		n.want("fra 63")
	}
}

func TestOneProcessOnly(t *testing.T) {
	n := newNode(t, "a")
	if _, err := New(n.Ledger.config); err == nil {
		t.Error("two ledgers on one folder")
	}
}

// TestOSFiles runs the ledger on the real file system.
func TestOSFiles(t *testing.T) {
	dir := t.TempDir()
	h := &hands{wall: noon}
	config := Config{Node: "a", Dir: dir, Clock: h.clock("a"), Fleet: func() *pops.Fleet { return fleet }, Log: slog.New(slog.DiscardHandler)}
	open := func() *node {
		t.Helper()
		l, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		return &node{Ledger: l, t: t}
	}
	n := open()
	n.apply(drain("fra", 37))
	n.apply(drain("iad", 10))
	if _, err := New(config); err == nil {
		t.Error("two ledgers on one folder")
	}
	h.pass(fileLook)
	n.flush()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = open()
	n.want("fra 63, iad 90")
	if p := n.Problems(); len(p) > 0 {
		t.Errorf("problems: %v", p)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	config.Dir = path.Join(dir, "missing")
	if _, err := New(config); err == nil {
		t.Error("opened in a folder that does not exist")
	}
}

// TestStartOnDeadDisk: a node whose disk takes nothing serves what the disk holds, says so, and accepts nothing but what may be lost.
func TestStartOnDeadDisk(t *testing.T) {
	n := newNode(t, "a")
	n.apply(drain("fra", 37))
	n.fs = n.fs.after(true)
	n.fs.fault = func(int, string, string) error { return syscall.EROFS }
	n.open("a")
	n.want("fra 63")
	if !n.problem(DiskFailing) {
		t.Errorf("problems: %v", n.Problems())
	}
	_, err := n.Lift(restore("fra"))
	if bad := refused(t, err); bad.Code != Disk {
		t.Errorf("%+v", bad)
	}
	lift := restore("fra")
	lift.Override = []string{Volatile}
	if result := n.lift(lift); result.Durable {
		t.Error("durable")
	}
	n.want("")
}

// TestLinkCopies: where the file system has no links the older generation is a copy.
func TestLinkCopies(t *testing.T) {
	dir := t.TempDir()
	from, to := path.Join(dir, "from"), path.Join(dir, "missing", "to")
	if err := writeFile(OS{}, from, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := (OS{}).Link(from, to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a folder that is not there: %v", err)
	}
	if err := (OS{}).Link(from, from); !errors.Is(err, fs.ErrExist) {
		t.Errorf("onto itself: %v", err)
	}
	if err := copyFile(OS{}, from, path.Join(dir, "to")); err != nil {
		t.Fatal(err)
	}
	if b, err := readFile(OS{}, path.Join(dir, "to")); string(b) != "x" || err != nil {
		t.Errorf("copy: %q, %v", b, err)
	}
}

// TestHistoryRemoved: somebody removes the history while the process runs. What is remembered is written again, and that is said.
func TestHistoryRemoved(t *testing.T) {
	n := newNode(t, "a")
	n.apply(drain("fra", 37))
	n.flush()
	before := len(n.History(Query{Limit: 1000}))
	delete(n.fs.names, "state/"+historyName)
	n.apply(drain("iad", 10))
	n.flush()
	if !n.problem(HistoryDamaged) {
		t.Error("nobody was told")
	}
	n.restart(true)
	n.want("fra 63, iad 90")
	if after := len(n.History(Query{Limit: 1000})); after <= before {
		t.Errorf("%d records before, %d after a restart", before, after)
	}
}
