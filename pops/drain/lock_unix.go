//go:build unix

package drain

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Lock implements FS. In a folder that cannot be written to (read-only, full), where nobody else can make the file either, it locks the folder.
func (OS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		folder, e := os.Open(filepath.Dir(name))
		if e != nil {
			return nil, err
		}
		f = folder
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s is held by another process: %w", name, err)
	}
	return f, nil
}
