package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// fileName is the file of the last verdicts.
const fileName = "verdicts.json"

const (
	fileVersion = 1
	young       = 10 * time.Minute // verdicts that are served at the start are younger
)

// memory is what was believed, as it is on disk.
type memory struct {
	Version  int                              `json:"version"`
	At       time.Time                        `json:"at"`
	Verdicts map[string]verdict               `json:"verdicts"`  // by target
	Seen     map[string]map[netip.Addr]belief `json:"addresses"` // by target: what this node itself has seen
	Voters   map[string]voter                 `json:"voters"`    // nodes: a node that comes back alone must know that it is not the only one
}

type voter struct {
	PoP string    `json:"pop,omitempty"`
	At  time.Time `json:"at"` // of its last report
}

type belief struct {
	Down  bool      `json:"down,omitempty"`
	Since time.Time `json:"since"`
	Error string    `json:"error,omitempty"`
}

// tally is what to start with for an address; nothing if it is not remembered.
func (l *memory) tally(target string, a netip.Addr) tally {
	if l == nil {
		return tally{}
	}
	b, ok := l.Seen[target][a]
	switch {
	case !ok:
		return tally{}
	case b.Down:
		return tally{mood: down, settled: true, since: b.Since, failed: b.Error}
	}
	return tally{mood: up, settled: true, since: b.Since}
}

// load reads the last verdicts, nil if there are none that may be served.
func (m *Monitor) load(now time.Time) *memory {
	if m.config.Dir == "" {
		return nil
	}
	path := filepath.Join(m.config.Dir, fileName)
	b, err := os.ReadFile(filepath.Clean(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	last := new(memory)
	if err == nil {
		err = json.Unmarshal(b, last)
	}
	switch {
	case err == nil && last.Version != fileVersion:
		err = fmt.Errorf("version %d, this program knows %d", last.Version, fileVersion)
		fallthrough
	case err != nil:
		m.log.Error("the last verdicts cannot be read: a round of checks comes first", "file", path, "err", err)
		return nil
	}
	if age := now.Sub(last.At); age > young || age < -young {
		m.log.Info("the last verdicts are too old to be served: a round of checks comes first", "age", age.Round(time.Second))
		return nil
	}
	m.restored = true
	m.log.Info("the last verdicts are served until checks say otherwise", "targets", len(last.Verdicts), "age", now.Sub(last.At).Round(time.Second))
	return last
}

// save wakes the one who writes.
func (m *Monitor) save() {
	m.kept = m.now()
	select {
	case m.saves <- struct{}{}:
	default:
	}
}

// keep writes verdicts to disk whenever they have changed, and now and then so that they stay young; and once more at the end.
func (m *Monitor) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			m.write()
			return
		case <-m.saves:
			m.write()
		}
	}
}

func (m *Monitor) write() {
	if m.config.Dir == "" {
		return
	}
	if err := replace(filepath.Join(m.config.Dir, fileName), m.remember()); err != nil {
		m.metrics.writeErrors.Inc()
		m.log.Error("the verdicts cannot be kept: a restart would have to begin with a round of checks", "err", err)
	}
}

// remember is what belongs on disk.
func (m *Monitor) remember() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := memory{Version: fileVersion, At: m.now(), Verdicts: map[string]verdict{}, Seen: map[string]map[netip.Addr]belief{}, Voters: map[string]voter{}}
	for node, r := range m.reports {
		l.Voters[node] = voter{r.PoP, r.At}
	}
	for name, v := range m.verdicts {
		if v.Known {
			l.Verdicts[name] = *v
		}
	}
	for name, jobs := range m.jobs {
		seen := map[netip.Addr]belief{}
		for _, j := range jobs {
			if j.tally.mood != unknown {
				seen[j.address] = belief{Down: j.tally.mood == down, Since: j.tally.since, Error: j.tally.failed}
			}
		}
		l.Seen[name] = seen
	}
	b, _ := json.Marshal(&l) // times, texts and addresses always can be
	return b
}

// replace puts a file in the place of another: whoever reads finds one of the two, whole, whatever happens.
func replace(path string, b []byte) error {
	temporary := path + ".tmp"
	f, err := os.OpenFile(filepath.Clean(temporary), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640) //nolint:gosec // the group may read
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
