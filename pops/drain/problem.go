package drain

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"
)

// ProblemKind is what is wrong with a ledger.
type ProblemKind string

// The kinds of problems.
const (
	NoState        ProblemKind = "no_state"        // neither a ledger nor a history was found: a first start, or a lost disk
	LedgerMissing  ProblemKind = "ledger_missing"  // the ledger file was gone; statements come from the older generation, the history, memory and peers
	LedgerDamaged  ProblemKind = "ledger_damaged"  // the ledger file was not what was written; likewise
	LedgerNewer    ProblemKind = "ledger_newer"    // the ledger file is of a newer version; likewise
	LedgerChanged  ProblemKind = "ledger_changed"  // somebody touched the ledger file while this process ran; it was written again
	DiskFailing    ProblemKind = "disk_failing"    // the ledger cannot be written: what was accepted since is in memory only
	HistoryFailing ProblemKind = "history_failing" // the history cannot be written: records wait, and stand in the ledger file
	HistoryMended  ProblemKind = "history_mended"  // the history ended in the middle of a record that was never confirmed
	HistoryDamaged ProblemKind = "history_damaged" // lines of the history cannot be read
	ClockBack      ProblemKind = "clock_back"      // the time of day jumped back, fleet time is ahead of it
	ClockOff       ProblemKind = "clock_off"       // the peers' time of day is more than 10 s from ours
	ForeignState   ProblemKind = "foreign_state"   // a peer's state could not be read, or not all of it
	GuardByMerge   ProblemKind = "guard_broken_by_merge"
)

var problemKinds = []ProblemKind{
	NoState, LedgerMissing, LedgerDamaged, LedgerNewer, LedgerChanged, DiskFailing, HistoryFailing, HistoryMended, HistoryDamaged, ClockBack, ClockOff, ForeignState, GuardByMerge,
}

// Problem is something that an operator should know of. It stands until it is over, or, when it cannot be, until the process ends.
type Problem struct {
	Kind   ProblemKind `json:"kind"`
	Detail string      `json:"detail"`
	Since  time.Time   `json:"since"` // fleet time
}

// Problems are those that stand, by kind.
func (l *Ledger) Problems() []Problem {
	l.problemsMu.Lock()
	defer l.problemsMu.Unlock()
	var list []Problem
	for _, p := range l.problems {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Problem) int { return cmp.Compare(a.Kind, b.Kind) })
	return list
}

// raise makes a problem stand. It is logged when it is new.
func (l *Ledger) raise(kind ProblemKind, detail string) {
	l.problemsMu.Lock()
	old, had := l.problems[kind]
	p := Problem{Kind: kind, Detail: detail, Since: l.clock.Now()}
	if had {
		p.Since = old.Since
	}
	l.problems[kind] = p
	l.problemsMu.Unlock()
	if !had {
		level := slog.LevelError
		if kind == NoState { // every node starts so once
			level = slog.LevelWarn
		}
		l.metrics.problems.WithLabelValues(string(kind)).Set(1)
		l.log.Log(context.Background(), level, "ledger problem", "kind", kind, "detail", detail)
	}
}

// settle ends a problem.
func (l *Ledger) settle(kind ProblemKind) {
	l.problemsMu.Lock()
	_, had := l.problems[kind]
	delete(l.problems, kind)
	l.problemsMu.Unlock()
	if had {
		l.metrics.problems.WithLabelValues(string(kind)).Set(0)
		l.log.Info("ledger problem is over", "kind", kind)
	}
}

// clockMargin is how far clocks may be apart without anybody being told.
const clockMargin = 10 * time.Second

func (l *Ledger) checkClock() {
	offset, ahead := l.clock.Offset()
	if ahead > clockMargin {
		l.raise(ClockBack, "fleet time is "+ahead.Round(time.Second).String()+" ahead of this machine's clock and waits for it")
	} else {
		l.settle(ClockBack)
	}
	if offset.Abs() > clockMargin {
		l.raise(ClockOff, "the peers' clocks are "+offset.Round(time.Millisecond).String()+" from this machine's")
	} else {
		l.settle(ClockOff)
	}
}
