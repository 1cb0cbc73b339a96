package drain

import (
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/cespare/xxhash/v2"

	"github.com/edgesteer/edgesteer/pops"
)

// refusalQuiet is how long the same refusal of automation is not written into the history again.
const refusalQuiet = time.Minute

// repeated finds the outcome of a request that was made before with the same key.
func (l *Ledger) repeated(author, key, digest string) (Result, bool, *Refusal) {
	s := l.state.Load()
	receipt, ok := s.receipts[author+"\x00"+key]
	if key == "" || !ok {
		return Result{}, false, nil
	}
	if receipt.Digest != digest {
		return Result{}, false, &Refusal{Code: Conflict, Message: fmt.Sprintf("idempotency key %q was used for another request", key), IDs: receipt.IDs}
	}
	result := Result{Repeated: true, Durable: !l.dirty}
	for _, id := range receipt.IDs {
		if e, ok := s.entries[id]; ok {
			result.Statements = append(result.Statements, e)
		}
	}
	for _, id := range receipt.Ended {
		if e, ok := s.entries[id]; ok {
			result.Ended = append(result.Ended, e)
		}
	}
	return result, true, nil
}

func (l *Ledger) receipt(author, key, digest string, ids []string, ended []*Entry, stamp Stamp, now time.Time) *Receipt {
	if key == "" {
		return nil
	}
	r := &Receipt{Key: author + "\x00" + key, Digest: digest, IDs: ids, At: now, Stamp: stamp}
	for _, e := range ended {
		r.Ended = append(r.Ended, e.ID)
	}
	return r
}

// digest tells requests apart. What JSON cannot say (no number) is refused later.
func digest(op string, request any) string {
	b, err := json.Marshal(request)
	return sum(fmt.Append(nil, op, " ", string(b), err))
}

// order carries out a request of somebody, unless it was carried out before (key), and tells of a refusal. plain is the request without what may differ when it is repeated, record what is told of it.
func (l *Ledger) order(op string, plain any, key string, dryRun bool, record Record, run func(digest string) (Result, *Refusal)) (Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return Result{}, ErrClosed
	}
	l.noteMerges()
	digest := digest(op, plain)
	if result, done, bad := l.repeated(record.Author, key, digest); done || bad != nil {
		return result, l.refuse(bad, record, dryRun)
	}
	result, bad := run(digest)
	return result, l.refuse(bad, record, dryRun)
}

// commit makes next, which was made of s, durable, and then what everybody sees. volatile accepts it even where the disk does not.
func (l *Ledger) commit(s, next *state, records []Record, volatile bool) (durable bool, bad *Refusal) {
	seq, pending := l.seq, l.pending
	for i := range records {
		l.pending = append(slices.Clip(l.pending), l.number(records[i]))
	}
	stuck, err := l.save(next)
	if err != nil && !stuck && !volatile {
		l.seq, l.pending, l.refused = seq, pending, true
		l.failing(err)
		return false, &Refusal{
			Code: Disk, Err: err,
			Message: fmt.Sprintf("not accepted: the disk of %s does not take it: %v", l.config.Dir, err),
			Hint:    "make room there, ask another node, or accept that a restart of this node loses it: --override " + Volatile,
		}
	}
	l.volatile = l.volatile || err != nil
	l.saved(err)
	l.change(func(now *state) *state {
		if now != s { // something was merged meanwhile
			next, _, _ = join(now, next)
		}
		return next
	})
	l.settle(NoState)
	l.flushHistory()
	for i := range records {
		l.metrics.operations.WithLabelValues(string(records[i].Op)).Inc()
	}
	return err == nil, nil
}

// refuse puts a refusal into the history and gives it as an error; nil for none.
func (l *Ledger) refuse(bad *Refusal, r Record, dry bool) error {
	if bad == nil {
		return nil
	}
	if dry {
		return bad
	}
	l.metrics.refused.WithLabelValues(string(bad.Code)).Inc()
	if r.Role != pops.Person {
		now, key := l.clock.Now(), r.Author+"\x00"+r.Target.String()+"\x00"+string(bad.Code)
		if at, again := l.refusals[key]; again && now.Sub(at) < refusalQuiet {
			return bad
		}
		l.refusals[key] = now
	}
	r.Op, r.Code, r.Message = Refused, bad.Code, bad.Message
	if bad.Report != nil {
		r.Guards = bad.Report.guards()
	}
	r.sane()
	l.pending = append(l.pending, l.number(r))
	l.flushHistory()
	return bad
}

// plain gives a space for a control character: what is recorded must not move a terminal's cursor.
func plain(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

// sane makes a record of what was refused one that can be read again.
func (r *Record) sane() {
	for _, s := range []*string{&r.Author, &r.Reason, &r.Ticket, &r.Message} {
		*s = strings.Map(plain, strings.ToValidUTF8((*s)[:min(len(*s), maxReason)], "?"))
	}
	for _, t := range []*pops.Target{&r.Target, &r.To} {
		if _, err := pops.ParseTarget(t.String()); err != nil {
			*t = pops.Target{}
		}
	}
	if !r.Kind.Valid() {
		r.Kind = 0
	}
	if !r.Role.Valid() {
		r.Role = 0
	}
}

// tell hands entries to the other nodes.
func (l *Ledger) tell(entries []*Entry, receipt *Receipt) {
	if l.config.Broadcast == nil {
		return
	}
	for _, e := range entries {
		l.config.Broadcast(e.ID, encoded(newState().with([]*Entry{e}, receipt).message()))
		receipt = nil
	}
}

// OutageID is the id of automation's statement on an outage: the same on every node that sees it.
func OutageID(t pops.Target, outage string) string {
	return "a-" + letters(xxhash.Sum64String(t.String()+"\x00"+outage))
}

// newID makes an id from the stamp, which no other statement has.
func newID(s *state, e *Entry) string {
	for salt := 0; ; salt++ {
		id := e.Kind.String()[:1] + "-" + letters(xxhash.Sum64(fmt.Append(encoded(e.Stamp), salt)))[:10]
		if _, taken := s.entries[id]; !taken {
			return id
		}
	}
}

var alphabet = base32.NewEncoding("abcdefghijkmnpqrstuvwxyz23456789").WithPadding(base32.NoPadding)

func letters(n uint64) string {
	return alphabet.EncodeToString(binary.BigEndian.AppendUint64(nil, n))
}

// Note puts a report into the history of this node: about a statement, or with id "" about a target.
func (l *Ledger) Note(id string, target pops.Target, author string, role pops.Class, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return
	}
	r := Record{Op: Noted, ID: id, Target: target, Author: author, Role: role, Message: text}
	r.sane()
	l.pending = append(l.pending, l.number(r))
	l.flushHistory()
}

// Deny puts into the history that somebody was refused before the ledger was asked, because they may not. The same author is noted once a minute, or those who may do nothing could
// fill the history.
func (l *Ledger) Deny(author, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed.Load() {
		_ = l.refuse(&Refusal{Code: Forbidden, Message: message}, Record{Author: author}, false) // who calls has told them
	}
}
