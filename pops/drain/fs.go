package drain

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// FS is the file system that a ledger stands on. OS is the real one; tests hand in one that fails.
type FS interface {
	// Open opens a file as os.OpenFile does.
	Open(name string, flag int, perm fs.FileMode) (File, error)
	Rename(from, to string) error
	// Link gives a file a second name, or makes a synced copy where the file system has no links.
	Link(from, to string) error
	Remove(name string) error
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the names in a folder durable.
	SyncDir(name string) error
	// Lock takes the file for this process until it is closed or the process ends; it fails at once when another has it.
	Lock(name string) (io.Closer, error)
}

// File is an open file of an FS.
type File interface {
	io.ReadWriteCloser
	Sync() error
	Truncate(size int64) error
}

// OS is the file system of this machine.
type OS struct{}

// Open implements FS.
func (OS) Open(name string, flag int, perm fs.FileMode) (File, error) {
	return os.OpenFile(name, flag, perm)
}

// Rename implements FS.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// Stat implements FS.
func (OS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// Link implements FS.
func (o OS) Link(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return copyFile(o, from, to)
}

func copyFile(fsys FS, from, to string) error {
	b, err := readFile(fsys, from)
	if err != nil {
		return err
	}
	return writeFile(fsys, to, b)
}

// SyncDir implements FS.
func (OS) SyncDir(name string) error {
	d, err := os.Open(filepath.Clean(name))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writeFile writes and syncs a new file; what is there after an error is removed.
func writeFile(fsys FS, name string, b []byte) error {
	f, err := fsys.Open(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = fsys.Remove(name) // it is not the file that counts, and the next attempt truncates it
	}
	return err
}

func readFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}
