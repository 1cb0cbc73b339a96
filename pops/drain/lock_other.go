//go:build !unix

package drain

import (
	"io"
	"os"
)

// Lock implements FS. Where there is no advisory lock the folder is the operator's to guard.
func (OS) Lock(name string) (io.Closer, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o640)
}
