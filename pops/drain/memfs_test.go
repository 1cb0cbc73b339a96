package drain

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"
)

// memFS is a file system in memory that can fail at any call and that knows what a loss of power would leave: of a file what was synced, of a folder the names that were.
type memFS struct {
	mu      sync.Mutex
	names   map[string]*inode // as this process sees them
	durable map[string]*inode // as they are after a loss of power
	calls   int
	fault   func(call int, op, name string) error // nil: none. An error of a write lets half of it through
	dead    bool                                  // the process was killed: nothing happens any more
	held    bool
}

type inode struct {
	data, synced []byte
	mod          time.Time
}

var (
	errKilled = errors.New("killed")
	errNoRoom = &fs.PathError{Op: "write", Path: "disk", Err: syscall.ENOSPC}
)

func newMemFS() *memFS {
	return &memFS{names: map[string]*inode{}, durable: map[string]*inode{}}
}

// after gives the disk as a new process finds it.
func (m *memFS) after(powerLoss bool) *memFS {
	n := newMemFS()
	from := m.names
	if powerLoss {
		from = m.durable
	}
	for name, i := range from {
		data := i.data
		if powerLoss {
			data = i.synced
		}
		c := &inode{data: append([]byte(nil), data...), synced: append([]byte(nil), data...), mod: i.mod}
		n.names[name], n.durable[name] = c, c
	}
	return n
}

// call counts a call that changes something, and decides whether it fails.
func (m *memFS) call(op, name string) error {
	if m.dead {
		return errKilled
	}
	m.calls++
	if m.fault == nil {
		return nil
	}
	err := m.fault(m.calls, op, path.Base(name))
	m.dead = errors.Is(err, errKilled)
	return err
}

func (m *memFS) Open(name string, flag int, _ fs.FileMode) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if flag&os.O_CREATE != 0 {
		if err := m.call("open", name); err != nil {
			return nil, err
		}
	}
	i, ok := m.names[name]
	if !ok {
		if flag&os.O_CREATE == 0 {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		i = &inode{}
		m.names[name] = i
	}
	if flag&os.O_TRUNC != 0 {
		i.data = nil
	}
	return &memFile{fs: m, inode: i, name: name}, nil
}

func (m *memFS) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("rename", to); err != nil {
		return err
	}
	i, ok := m.names[from]
	if !ok {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	delete(m.names, from)
	m.names[to] = i
	return nil
}

func (m *memFS) Link(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("link", to); err != nil {
		return err
	}
	if _, ok := m.names[to]; ok {
		return &fs.PathError{Op: "link", Path: to, Err: fs.ErrExist}
	}
	m.names[to] = m.names[from]
	return nil
}

func (m *memFS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("remove", name); err != nil {
		return err
	}
	if _, ok := m.names[name]; !ok {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	delete(m.names, name)
	return nil
}

func (m *memFS) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, ok := m.names[name]
	if !ok {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return memInfo{name, int64(len(i.data)), i.mod}, nil
}

func (m *memFS) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("syncdir", name); err != nil {
		return err
	}
	m.durable = maps.Clone(m.names)
	return nil
}

func (m *memFS) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held {
		return nil, fmt.Errorf("%s is held", name)
	}
	m.held = true
	return closeFunc(func() { m.held = false }), nil
}

type closeFunc func()

func (f closeFunc) Close() error { f(); return nil }

// put writes a file from outside.
func (m *memFS) put(name string, data []byte) {
	i := &inode{data: data, synced: data, mod: time.Now()}
	m.names[name], m.durable[name] = i, i
}

type memFile struct {
	fs    *memFS
	inode *inode
	name  string
	at    int
}

func (f *memFile) Read(b []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.at >= len(f.inode.data) {
		return 0, io.EOF
	}
	n := copy(b, f.inode.data[f.at:])
	f.at += n
	return n, nil
}

func (f *memFile) Write(b []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	err := f.fs.call("write", f.name)
	n := len(b)
	if err != nil {
		n /= 2
	}
	if f.fs.dead && err == nil {
		n = 0
	}
	f.inode.data = append(slices.Clip(f.inode.data), b[:n]...)
	f.inode.mod = time.Now()
	return n, err
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.call("sync", f.name); err != nil {
		return err
	}
	f.inode.synced = f.inode.data
	return nil
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.call("truncate", f.name); err != nil {
		return err
	}
	f.inode.data = f.inode.data[:size:size]
	return nil
}

func (f *memFile) Close() error { return nil }

type memInfo struct {
	name string
	size int64
	mod  time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return 0o640 }
func (i memInfo) ModTime() time.Time { return i.mod }
func (i memInfo) IsDir() bool        { return false }
func (i memInfo) Sys() any           { return nil }
