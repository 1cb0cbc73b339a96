// Package drain is the ledger: what people and automation have said about where clients should not go, and what became of it.
//
// A [Ledger] holds statements: drains, shifts and pins, each with an author, a reason, an end and perhaps a ramp. [Ledger.Apply], [Ledger.Renew] and [Ledger.Lift] change it; they
// return when the change is on disk. [Ledger.Intents] says what all statements mean at one moment, for pops.NewView; [Ledger.NextChange] says when that will differ. The statements
// of other nodes come in by [Ledger.Merge], in any order and any number of times, with the same result everywhere.
//
// What it is not: it decides nothing about clients (pops.NewView does), measures nothing (an [Effect] that is plugged in predicts), and knows no network and no HTTP.
package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/pops"
)

// Config is what a Ledger is made of.
type Config struct {
	Node  string             // this node's name, unique in the fleet; required
	Dir   string             // an existing folder for the files; required
	Fleet func() *pops.Fleet // what exists now; required
	FS    FS                 // nil: OS
	Clock *Clock             // fleet time and stamps; nil: this machine's clock alone
	// View computes the view that statements lead to, with the health, loads and feeds of now; it is called for previews only. nil: the statements alone.
	View   func(intents []pops.Intent, now time.Time) *pops.View
	Effect Effect // the guard rails; nil: none
	// Bound says why automation may not make a statement that leads from one view to another: a bound that persons do not have, and that nobody can override. "": it may. nil: there is no bound.
	Bound func(before, after *pops.View) string
	// Broadcast hands every change that was made here to the other nodes: a state for their Merge, in which key is the one statement. A later one of the same key takes the place
	// of an earlier one. It must not block. nil: there are no other nodes.
	Broadcast  func(key string, state []byte)
	Log        *slog.Logger          // nil: slog.Default
	Registerer prometheus.Registerer // nil: the metrics are counted but not shown
}

// Ledger holds the statements. All methods are safe for concurrent use; those that only read, and Merge, never wait for the disk.
type Ledger struct {
	config  Config
	clock   *Clock
	log     *slog.Logger
	metrics *metrics
	closed  atomic.Bool

	joining sync.Mutex            // of what follows; nobody who has it waits for the disk
	state   atomic.Pointer[state] // written under joining only
	heard   []Record              // of what was merged, not numbered yet
	before  *state                // all of those merges; nil: what was merged is noted

	mu       sync.Mutex // of all that follows, and of the order of changes that are made here
	lock     io.Closer
	store    store
	history  history
	seq      uint64           // of the last history record
	pending  []Record         // records that are not in the history file yet
	noted    map[string]Stamp // versions whose expiry has a record
	dirty    bool             // the ledger file lacks something
	refused  bool             // the disk refused the last write, which was given up: look whether it works again
	volatile bool             // that something was accepted here
	merged   *state           // the state before the merges whose guard rails are yet to be looked at; nil if there are none
	refusals map[string]time.Time
	looked   time.Time // at the files
	written  time.Time // fleet time in the ledger file
	waiting  atomic.Pointer[[]Record]

	subscribersMu sync.Mutex
	subscribers   map[chan struct{}]struct{}
	wake          chan struct{} // Run has something to do

	problemsMu sync.Mutex
	problems   map[ProblemKind]Problem
}

// ErrClosed is the error of a change after Close.
var ErrClosed = errors.New("ledger is closed")

// New opens the ledger of a folder, mending what a crash left. It fails only when another process has the folder or the folder cannot be used at all; a ledger file that is missing,
// damaged or of a newer version is a Problem: it is kept, and the statements are taken from the generation before it and from the history, and soon from peers.
func New(c Config) (*Ledger, error) {
	if c.Node == "" || c.Dir == "" || c.Fleet == nil {
		return nil, errors.New("a ledger needs a node name, a folder and a fleet")
	}
	if c.FS == nil {
		c.FS = OS{}
	}
	if c.Clock == nil {
		c.Clock = NewClock(ClockConfig{Node: c.Node})
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	lock, err := c.FS.Lock(filepath.Join(c.Dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("opening the ledger: %w", err)
	}
	l := &Ledger{
		config: c, clock: c.Clock, log: c.Log, metrics: newMetrics(c.Registerer),
		lock:        lock,
		store:       store{fs: c.FS, dir: c.Dir},
		history:     history{fs: c.FS, dir: c.Dir, limit: rotateAt},
		noted:       map[string]Stamp{},
		refusals:    map[string]time.Time{},
		subscribers: map[chan struct{}]struct{}{},
		wake:        make(chan struct{}, 1),
		problems:    map[ProblemKind]Problem{},
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open()
	return l, nil
}

// open reads the files.
func (l *Ledger) open() {
	clock := l.store.loadClock()
	l.clock.Begin(clock.Offset) // or a machine whose clock is ahead would begin in the future
	found := l.store.load(l.clock.Now())
	s := newState()
	if b := found.body; b != nil {
		l.clock.Restore(b.Time, b.Stamp)
		l.seq, l.pending = b.Seq, b.Pending
		maps.Copy(l.noted, b.Noted)
		if read, bad, err := b.State.state(); err == nil {
			s = read
			l.foreign(bad, "ledger file")
		}
	}
	var replay func(*Record)
	recovered := 0
	if !found.complete { // what the history says of statements fills in what the file does not
		replay = func(r *Record) {
			if r.After != nil && r.After.valid() {
				one := r.After.copied()
				one.cover()
				var changed []string
				s, changed, _ = join(s, newState().with([]*Entry{one}, nil))
				recovered += len(changed)
			}
		}
	}
	problems := append(found.problems, l.history.open(replay)...)
	if found.body != nil || l.history.written > 0 {
		l.clock.Restore(clock.Time, clock.Stamp)
	}
	for _, e := range s.entries {
		l.clock.Observe(e.Stamp)
	}
	l.seq = max(l.seq, l.history.written)
	fresh := found.body == nil && l.history.written == 0
	for _, p := range problems {
		if p.Kind == LedgerMissing {
			if fresh {
				p = Problem{Kind: NoState, Detail: "no ledger in " + l.config.Dir + ": this node starts without statements"}
			}
		}
		l.raise(p.Kind, p.Detail)
		l.pending = append(l.pending, l.number(Record{Op: Trouble, Message: p.Detail}))
	}
	if !found.complete && !fresh {
		l.log.Warn("ledger recovered", "statements", len(s.entries), "from_history", recovered)
	}
	l.change(func(*state) *state { return s.prune(l.clock.Now()) })
	l.dirty = true
	l.flush()
}

// Close writes what is still to be written and lets go of the folder. What is in force stays readable.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return nil
	}
	l.noteMerges()
	l.flush()
	l.saveClock()
	l.closed.Store(true)
	var err error
	if l.dirty || len(l.pending) > 0 {
		err = errors.New("closing the ledger: the disk did not take everything")
	}
	return errors.Join(err, l.history.close(), l.lock.Close())
}

// Run does what has to be done in time: it notes expiries, writes what was merged or could not be written before, looks after the files and the clock. It returns when ctx ends.
func (l *Ledger) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-l.wake:
		}
		l.Flush()
	}
}

// fileLook is how often the files are looked at and the clock is kept.
const fileLook = 5 * time.Second

// Flush does at once what Run would do next. It says whether everything is on disk.
func (l *Ledger) Flush() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return false
	}
	now := l.clock.Now()
	if now.Before(l.written) { // the clock was ahead until it heard those of the others: the next start would take it from the file
		l.dirty = true
	}
	l.noteMerges()
	l.noteExpired(now)
	l.lookAtMerges(now)
	if s := l.state.Load(); s.prune(now) != s {
		l.change(func(s *state) *state { return s.prune(now) })
		maps.DeleteFunc(l.noted, func(id string, _ Stamp) bool { return l.state.Load().entries[id] == nil })
		l.dirty = true
	}
	if now.Sub(l.looked) >= fileLook {
		l.looked = now
		l.checkClock()
		l.saveClock()
		if what := l.store.tampered(); what != "" && !l.dirty {
			l.store.setAside(now)
			l.raise(LedgerChanged, what+"; it was written again from memory")
			l.pending = append(l.pending, l.number(Record{Op: Trouble, Message: what}))
			l.dirty = true
		}
		maps.DeleteFunc(l.refusals, func(_ string, at time.Time) bool { return now.Sub(at) > refusalQuiet })
	}
	l.flush()
	return !l.dirty && len(l.pending) == 0
}

func (l *Ledger) saveClock() {
	offset, _ := l.clock.Offset()
	if err := l.store.saveClock(clockFile{Time: l.clock.Now(), Stamp: l.clock.highest(), Offset: offset}); err != nil {
		l.metrics.writeErrors.Inc()
	}
}

// flush writes the ledger file if it lacks something, then the history.
func (l *Ledger) flush() {
	if l.dirty || l.refused {
		if stuck, err := l.save(l.state.Load()); err == nil || stuck {
			l.saved(err)
		} else {
			l.failing(err)
		}
	}
	l.flushHistory()
}

func (l *Ledger) save(s *state) (stuck bool, err error) {
	start, now := time.Now(), l.clock.Now()
	stuck, err = l.store.save(&body{
		Node: l.config.Node, Time: now, Stamp: l.clock.highest(),
		Seq: l.seq, Noted: l.noted, Pending: l.pending, State: s.message(),
	})
	l.metrics.writes.Observe(time.Since(start).Seconds())
	if err != nil {
		l.metrics.writeErrors.Inc()
	} else {
		l.written = now
	}
	return stuck, err
}

// saved takes note that the ledger file holds the present state; err says that it may not survive a loss of power.
func (l *Ledger) saved(err error) {
	l.dirty, l.refused = err != nil, false
	if err != nil {
		l.failing(err)
		return
	}
	l.volatile = false
	l.settle(DiskFailing)
}

func (l *Ledger) failing(err error) {
	detail := fmt.Sprintf("%s cannot be written: %v", l.store.path(ledgerName), err)
	if l.volatile {
		detail += "; statements that were accepted since are in memory only"
	}
	l.raise(DiskFailing, detail)
}

func (l *Ledger) flushHistory() {
	if l.history.removed() {
		what := l.history.path(0) + " was removed while edgesteer ran; what is remembered was written again"
		if err := l.history.again(); err != nil {
			what = l.history.path(0) + " was removed while edgesteer ran and cannot be written again: " + err.Error()
		}
		l.raise(HistoryDamaged, what)
		l.pending = append(l.pending, l.number(Record{Op: Trouble, Message: what}))
		l.dirty = true
	}
	if len(l.pending) > 0 {
		if err := l.history.append(l.pending); err != nil {
			l.metrics.writeErrors.Inc()
			l.raise(HistoryFailing, fmt.Sprintf("%s cannot be written: %v", l.history.path(0), err))
		} else {
			l.pending = nil
			l.settle(HistoryFailing)
		}
	}
	l.showPending()
}

// showPending lets History give what is not in the file yet.
func (l *Ledger) showPending() {
	waiting := l.pending
	l.waiting.Store(&waiting)
}

// number completes a history record.
func (l *Ledger) number(r Record) Record {
	l.seq++
	r.Seq, r.Time, r.Node = l.seq, l.clock.Now(), l.config.Node
	return r
}

// change makes what f makes of the state what readers see.
func (l *Ledger) change(f func(*state) *state) {
	l.joining.Lock()
	defer l.joining.Unlock()
	l.publish(f(l.state.Load()))
}

// publish makes s what readers see. It holds joining.
func (l *Ledger) publish(s *state) {
	l.state.Store(s)
	if len(s.entries) > 0 {
		l.settle(NoState)
	}
	l.metrics.count(s, l.clock.Now())
	l.subscribersMu.Lock()
	defer l.subscribersMu.Unlock()
	for c := range l.subscribers {
		select {
		case c <- struct{}{}:
		default: // it has not looked yet
		}
	}
}

// Subscribe gives a channel that has something in it whenever statements have changed since it was last read, and a function that ends that.
func (l *Ledger) Subscribe() (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	l.subscribersMu.Lock()
	defer l.subscribersMu.Unlock()
	l.subscribers[c] = struct{}{}
	return c, func() {
		l.subscribersMu.Lock()
		defer l.subscribersMu.Unlock()
		delete(l.subscribers, c)
	}
}

// Now is fleet time.
func (l *Ledger) Now() time.Time { return l.clock.Now() }

// Intents is what all statements mean at a moment, in order of id.
func (l *Ledger) Intents(now time.Time) []pops.Intent {
	return l.state.Load().intents(func(e *Entry) (pops.Intent, bool) { return e.intent(now, false) })
}

// NextChange is the first moment after now at which Intents will differ without anything being said: a start, a step of a ramp, an end. Zero if there is none.
func (l *Ledger) NextChange(now time.Time) time.Time {
	var next time.Time
	for _, e := range l.state.Load().entries {
		if n := e.Next(now); !n.IsZero() && (next.IsZero() || n.Before(next)) {
			next = n
		}
	}
	return next
}

// Statements are all that the ledger remembers, tombstones included, in order of id. The caller must not change them.
func (l *Ledger) Statements() []*Entry { return l.state.Load().sorted() }

// Statement is one of them; false if it is not known.
func (l *Ledger) Statement(id string) (*Entry, bool) {
	e, ok := l.state.Load().entries[id]
	return e, ok
}

// History is what was asked for, newest first. The newest 10,000 records can be asked for.
func (l *Ledger) History(q Query) []Record {
	var out []Record
	if waiting := l.waiting.Load(); waiting != nil {
		for _, r := range slices.Backward(*waiting) {
			if len(out) < q.limit() && q.wants(&r) {
				out = append(out, r)
			}
		}
	}
	if q.Limit = q.limit() - len(out); q.Limit == 0 {
		return out
	}
	return append(out, l.history.query(q)...)
}

// noteExpired writes the expiries that are due into the history.
func (l *Ledger) noteExpired(now time.Time) {
	var records []Record
	for _, e := range l.state.Load().sorted() {
		if e.Lift != nil || !e.expired(now) || l.noted[e.ID] == e.Stamp {
			continue
		}
		l.noted[e.ID] = e.Stamp
		records = append(records, l.number(about(e, Record{Op: ExpiredOp, Before: e})))
		l.metrics.operations.WithLabelValues(string(ExpiredOp)).Inc()
	}
	if len(records) > 0 {
		l.pending = append(l.pending, records...)
		l.dirty = true
		l.change(func(s *state) *state { return s }) // it means something else now
	}
}

// about fills a record with what its statement says.
func about(e *Entry, r Record) Record {
	r.ID, r.Kind, r.Target, r.To = e.ID, e.Kind, e.Target, e.To
	r.Author, r.Role, r.Reason, r.Ticket = e.Author, e.Role, e.Reason, e.Ticket
	return r
}
