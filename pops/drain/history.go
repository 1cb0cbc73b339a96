package drain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/edgesteer/edgesteer/pops"
)

// Op is what a history record is about.
type Op string

// The operations.
const (
	Accepted    Op = "accepted"     // a new statement
	ReplacedOp  Op = "replaced"     // a new statement in the place of an earlier one
	Edited      Op = "edited"       // automation said something else of the same outage
	Overridden  Op = "overridden"   // a guard rail was broken, and its override was named
	Refused     Op = "refused"      // nothing changed
	Renewed     Op = "renewed"      // another end
	LiftedOp    Op = "lifted"       //
	ExpiredOp   Op = "expired"      //
	Merged      Op = "merged"       // this node heard of it from another
	GuardBroken Op = "guard_broken" // what came from other nodes breaks a guard rail together with what was here
	Noted       Op = "noted"        // a report, for example of a drill: nothing changed
	Trouble     Op = "problem"      // with the files or the clock
)

// Record is one line of history: who did what, when and why, and what was before and after. Each node keeps its own.
type Record struct {
	Seq  uint64    `json:"seq"`  // counts up on this node
	Time time.Time `json:"time"` // fleet time
	Node string    `json:"node"` // that wrote the record; Stamp.Node of the statement is where it was made
	Op   Op        `json:"op"`

	ID     string      `json:"id,omitempty"`
	Kind   pops.Kind   `json:"kind,omitzero"`
	Target pops.Target `json:"target,omitzero"`
	To     pops.Target `json:"to,omitzero"`
	Author string      `json:"author,omitempty"`
	Role   pops.Class  `json:"role,omitzero"`
	Reason string      `json:"reason,omitempty"`
	Ticket string      `json:"ticket,omitempty"`

	Code    Code     `json:"code,omitempty"`    // of a refusal
	Message string   `json:"message,omitempty"` // of a refusal, a problem, the merge of a lift
	Guards  []string `json:"guards,omitempty"`  // that were broken

	Changes []Change `json:"changes,omitempty"` // what became of shares
	Before  *Entry   `json:"before,omitempty"`  // the statement, nil if there was none
	After   *Entry   `json:"after,omitempty"`
}

// Change is what becomes of one target: the share in percent of networks that it has now, and that it has when every ramp is over.
type Change struct {
	Target pops.Target `json:"target"`
	Before float64     `json:"before"`
	After  float64     `json:"after"`
}

// Query asks for history. The zero Query is the newest 100 records.
type Query struct {
	Target pops.Target // records whose target touches this one; zero: all
	ID     string      // records of this statement; "": all
	Before uint64      // records with a lower number only; 0: all
	Limit  int         // at most this many; 0: 100
}

// Sizes of the history.
const (
	remembered  = 10_000   // records that can be asked for
	rotateAt    = 64 << 20 // octets of one file
	generations = 4        // files that are kept
)

// history is the append-only file of records: one JSON object a line, whose first member is a sum of the rest. It is used under the ledger's lock.
type history struct {
	fs      FS
	dir     string
	limit   int64 // octets of the file that are followed by another file
	file    File
	size    int64  // what is known to be whole
	torn    bool   // something after size is yet to be cut off
	written uint64 // number of the last record in the file

	mu     sync.Mutex // of recent, so that who asks does not wait for the disk
	recent []Record   // oldest first
}

func (h *history) path(generation int) string {
	name := filepath.Join(h.dir, historyName)
	if generation > 0 {
		name = fmt.Sprintf("%s.%d", name, generation)
	}
	return name
}

// sumMember is the beginning of a line, before the rest.
func sumMember(rest []byte) string { return `{"sum":"` + sum(rest) + `",` }

const sumPrefix = len(`{"sum":"0123456789abcdef",`)

// line gives a record as it stands in the file.
func line(r *Record) []byte {
	rest := encoded(r)[1:]
	return fmt.Appendf(nil, "%s%s\n", sumMember(rest), rest)
}

// parseLine reads a line without its newline.
func parseLine(b []byte) (r Record, err error) {
	if len(b) < sumPrefix {
		return r, errDamaged
	}
	rest := b[sumPrefix:]
	if string(b[:sumPrefix]) != sumMember(rest) {
		return r, errDamaged
	}
	return r, json.Unmarshal(append([]byte("{"), rest...), &r)
}

// open reads what is there, oldest first, and mends a torn end: a crash left a record that was never confirmed. each sees every record.
func (h *history) open(each func(*Record)) (problems []Problem) {
	damaged := 0
	for g := generations - 1; g >= 0; g-- {
		b, err := readFile(h.fs, h.path(g))
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				problems = append(problems, Problem{Kind: HistoryDamaged, Detail: fmt.Sprintf("reading %s: %v", h.path(g), err)})
			}
			continue
		}
		whole := len(b)
		for start := 0; start < len(b); {
			end := bytes.IndexByte(b[start:], '\n')
			last := end < 0
			if last {
				end = len(b) - start
			}
			r, err := parseLine(b[start : start+end])
			switch {
			case last: // never confirmed, however whole it looks
				whole = start
			case err == nil && r.Seq > h.written:
				h.written = r.Seq
				h.remember(r)
				if each != nil {
					each(&r)
				}
			case err != nil && end > 0:
				damaged++
			}
			start += end + 1
		}
		if g == 0 {
			h.size = int64(whole)
		}
		if whole < len(b) {
			problems = append(problems, Problem{Kind: HistoryMended, Detail: fmt.Sprintf("%s ended in the middle of a record: %d octets cut off", h.path(g), len(b)-whole)})
			h.torn = g == 0
		}
	}
	if damaged > 0 {
		problems = append(problems, Problem{Kind: HistoryDamaged, Detail: fmt.Sprintf("%d lines of %s cannot be read; they stay as they are", damaged, h.path(0))})
	}
	h.recent = slices.Clone(h.recent[max(0, len(h.recent)-remembered):])
	return problems
}

// remember keeps a record, and at most twice as many as can be asked for.
func (h *history) remember(r Record) {
	if h.recent = append(h.recent, r); len(h.recent) > 2*remembered {
		h.recent = slices.Clone(h.recent[len(h.recent)-remembered:])
	}
}

// append makes records durable, or says why not: then nothing of them counts as written.
func (h *history) append(records []Record) error {
	var b []byte
	for i := range records {
		if records[i].Seq > h.written {
			b = append(b, line(&records[i])...)
		}
	}
	if len(b) == 0 {
		return nil
	}
	if err := h.write(b); err != nil {
		h.torn = true
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range records {
		if r.Seq > h.written {
			h.written = r.Seq
			h.remember(r)
		}
	}
	return nil
}

func (h *history) write(b []byte) error {
	if h.size > h.limit {
		if err := h.rotate(); err != nil {
			return err
		}
	}
	if h.file == nil {
		f, err := h.fs.Open(h.path(0), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
		if err != nil {
			return err
		}
		h.file = f
		if err := h.fs.SyncDir(h.dir); err != nil {
			return err
		}
	}
	if h.torn {
		if err := h.file.Truncate(h.size); err != nil {
			return err
		}
		h.torn = false
	}
	if _, err := h.file.Write(b); err != nil {
		return err
	}
	if err := h.file.Sync(); err != nil {
		return err
	}
	h.size += int64(len(b))
	return nil
}

func (h *history) rotate() error {
	err := h.close()
	for g := generations - 2; g >= 0 && err == nil; g-- {
		if err = h.fs.Rename(h.path(g), h.path(g+1)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		h.size, h.torn = 0, false
	}
	return err
}

// removed tells whether somebody has taken the file away while it was in use.
func (h *history) removed() bool {
	if h.size == 0 {
		return false
	}
	_, err := h.fs.Stat(h.path(0))
	return errors.Is(err, fs.ErrNotExist)
}

// again starts a new file with what is remembered.
func (h *history) again() error {
	if err := h.close(); err != nil {
		return err
	}
	h.size, h.torn = 0, false
	var b []byte
	for i := range h.recent {
		b = append(b, line(&h.recent[i])...)
	}
	err := h.write(b)
	h.torn = err != nil
	return err
}

func (h *history) close() error {
	if h.file == nil {
		return nil
	}
	f := h.file
	h.file = nil
	return f.Close()
}

// query gives what was asked for, newest first.
func (h *history) query(q Query) []Record {
	h.mu.Lock()
	recent := h.recent // records do not change once they are there
	h.mu.Unlock()
	var out []Record
	for i := len(recent) - 1; i >= 0 && len(out) < q.limit(); i-- {
		if q.wants(&recent[i]) {
			out = append(out, recent[i])
		}
	}
	return out
}

func (q Query) limit() int {
	if q.Limit <= 0 {
		return 100
	}
	return q.Limit
}

func (q Query) wants(r *Record) bool {
	return (q.Before == 0 || r.Seq < q.Before) &&
		(q.ID == "" || r.ID == q.ID) &&
		(q.Target == pops.Target{} || r.Target != pops.Target{} && r.Target.Touches(q.Target))
}
