package drain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Names in the state folder.
const (
	ledgerName  = "ledger.json"
	oldName     = "ledger.json.old"
	newName     = "ledger.json.new"
	clockName   = "clock.json"
	historyName = "history.jsonl"
	lockName    = "ledger.lock"
)

const (
	formatName    = "edgesteer ledger"
	formatVersion = 1
)

// header is the first line of a ledger file; the rest is the body.
type header struct {
	Format     string `json:"format"`
	Version    int    `json:"version"`
	Generation uint64 `json:"generation"`
	Length     int    `json:"length"` // of the body in octets
	Sum        string `json:"sum"`    // XXH64 of the body
}

// body is what a ledger keeps on disk: the replicated state, and what concerns this node alone.
type body struct {
	Node    string           `json:"node"`
	Time    time.Time        `json:"time"`              // fleet time
	Stamp   Stamp            `json:"stamp"`             // highest
	Seq     uint64           `json:"seq"`               // of the last history record
	Noted   map[string]Stamp `json:"noted,omitempty"`   // versions whose expiry the history has
	Pending []Record         `json:"pending,omitempty"` // history records that may not be in the history file yet
	State   message          `json:"state"`
}

// store writes ledger files. A file is written beside the old one, synced and renamed; the generation before it stays as ledger.json.old. It is used under the ledger's lock.
type store struct {
	fs         FS
	dir        string
	generation uint64
	size       int64             // of the ledger file as it was written, -1 if there is none
	mod        time.Time         // of it
	aside      map[string]string // files that must be moved before anything may be written: from, to
}

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// errDamaged is a ledger file that is not what was written.
var errDamaged = errors.New("damaged")

// found is what became of looking for the last ledger.
type found struct {
	body     *body
	problems []Problem
	complete bool // the newest generation was read: nothing that was accepted is missing
}

// load reads the newest generation that can be read. A file that is damaged or of a newer version is moved aside, never overwritten.
func (s *store) load(now time.Time) found {
	s.size, s.aside = -1, map[string]string{}
	_ = s.fs.Remove(s.path(newName)) // a write that a crash cut short
	var out found
	for _, name := range []string{ledgerName, oldName} {
		b, h, err := s.read(name)
		s.generation = max(s.generation, h.Generation)
		switch {
		case err == nil:
			out.body, out.complete = b, name == ledgerName
			if out.complete {
				s.remember()
			}
			return out
		case errors.Is(err, fs.ErrNotExist):
			if name == ledgerName {
				out.problems = append(out.problems, Problem{Kind: LedgerMissing, Detail: s.path(name) + " is missing"})
			}
		default:
			kind, suffix := LedgerDamaged, "damaged"
			if errors.Is(err, errNewer) {
				kind, suffix = LedgerNewer, "newer"
			}
			to := fmt.Sprintf("%s.%s-%s", s.path(name), suffix, now.UTC().Format("20060102T150405.000Z"))
			s.aside[s.path(name)] = to
			out.problems = append(out.problems, Problem{Kind: kind, Detail: fmt.Sprintf("%s: %v; kept as %s", s.path(name), err, filepath.Base(to))})
		}
	}
	return out
}

func (s *store) read(name string) (*body, header, error) {
	var h header
	b, err := readFile(s.fs, s.path(name))
	if err != nil {
		return nil, h, err
	}
	first, rest, ok := bytes.Cut(b, []byte("\n"))
	if !ok || json.Unmarshal(first, &h) != nil || h.Format != formatName {
		return nil, h, fmt.Errorf("%w: no ledger header in the first line", errDamaged)
	}
	if h.Version > formatVersion {
		return nil, h, fmt.Errorf("ledger version %d, this is version %d: %w", h.Version, formatVersion, errNewer)
	}
	if len(rest) != h.Length || sum(rest) != h.Sum {
		return nil, header{}, fmt.Errorf("%w: %d octets with sum %s, the header says %d with %s", errDamaged, len(rest), sum(rest), h.Length, h.Sum)
	}
	var out body
	if err := json.Unmarshal(rest, &out); err != nil {
		return nil, header{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if slices.Contains(out.State.Entries, nil) {
		return nil, header{}, fmt.Errorf("%w: a statement cannot be read", errDamaged)
	}
	if out.State.Version > stateVersion {
		return nil, h, fmt.Errorf("statements of version %d, this is version %d: %w", out.State.Version, stateVersion, errNewer)
	}
	return &out, h, nil
}

func sum(b []byte) string { return fmt.Sprintf("%016x", xxhash.Sum64(b)) }

// save makes b the newest generation. After an error the folder is as before, unless stuck: then the new generation is in place, but perhaps not durable.
func (s *store) save(b *body) (stuck bool, err error) {
	for from, to := range s.aside {
		if err := s.fs.Rename(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("moving a damaged ledger aside: %w", err)
		}
		delete(s.aside, from)
	}
	rest := append(encoded(b), '\n')
	file := encoded(header{Format: formatName, Version: formatVersion, Generation: s.generation + 1, Length: len(rest), Sum: sum(rest)})
	file = append(append(file, '\n'), rest...)
	if err := writeFile(s.fs, s.path(newName), file); err != nil {
		return false, err
	}
	had, err := s.keepOld()
	if err == nil {
		err = s.fs.Rename(s.path(newName), s.path(ledgerName))
	}
	if err != nil {
		_ = s.fs.Remove(s.path(newName))
		return false, err
	}
	s.generation++
	if err := s.fs.SyncDir(s.dir); err != nil {
		return !s.rollback(had), err
	}
	s.remember()
	return false, nil
}

// keepOld gives the present ledger file a second name; false if there is none.
func (s *store) keepOld() (bool, error) {
	if _, err := s.fs.Stat(s.path(ledgerName)); errors.Is(err, fs.ErrNotExist) {
		return false, nil // an older generation, if there is one, is the best there is
	}
	if err := s.fs.Remove(s.path(oldName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, s.fs.Link(s.path(ledgerName), s.path(oldName))
}

// rollback puts the generation before back in place.
func (s *store) rollback(had bool) bool {
	if had {
		return s.fs.Rename(s.path(oldName), s.path(ledgerName)) == nil
	}
	return s.fs.Remove(s.path(ledgerName)) == nil
}

// remember notes how the ledger file looks.
func (s *store) remember() {
	s.size = -1
	if info, err := s.fs.Stat(s.path(ledgerName)); err == nil {
		s.size, s.mod = info.Size(), info.ModTime()
	}
}

// tampered says what somebody did to the ledger file since it was written, "" if nothing.
func (s *store) tampered() string {
	info, err := s.fs.Stat(s.path(ledgerName))
	switch {
	case s.size < 0:
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return s.path(ledgerName) + " was removed while edgesteer ran"
	case err == nil && (info.Size() != s.size || !info.ModTime().Equal(s.mod)):
		return s.path(ledgerName) + " was changed while edgesteer ran"
	}
	return ""
}

// setAside keeps what somebody wrote over the ledger file.
func (s *store) setAside(now time.Time) {
	s.aside[s.path(ledgerName)] = fmt.Sprintf("%s.changed-%s", s.path(ledgerName), now.UTC().Format("20060102T150405.000Z"))
}

// clockFile is the fleet time between two writes of the ledger, and how far this machine's clock was from it.
type clockFile struct {
	Time   time.Time     `json:"time"`
	Stamp  Stamp         `json:"stamp"`
	Offset time.Duration `json:"offset,omitzero"`
}

func (s *store) saveClock(c clockFile) error {
	name := s.path(clockName)
	if err := writeFile(s.fs, name+".new", append(encoded(c), '\n')); err != nil {
		return err
	}
	if err := s.fs.Rename(name+".new", name); err != nil {
		return err
	}
	return s.fs.SyncDir(s.dir)
}

func (s *store) loadClock() (c clockFile) {
	if b, err := readFile(s.fs, s.path(clockName)); err == nil {
		_ = json.Unmarshal(b, &c) // a damaged one is worth nothing; the ledger has the time of its last write
	}
	return c
}
