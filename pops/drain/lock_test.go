//go:build unix

package drain

import (
	"path/filepath"
	"strings"
	"testing"
)

// One process has a folder, also where the lock's file cannot be made.
func TestLock(t *testing.T) {
	for name, file := range map[string]string{"a file": "lock", "no file can be made": strings.Repeat("x", 300)} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), file)
			held, err := OS{}.Lock(path)
			if err != nil {
				t.Fatal(err)
			}
			if second, err := (OS{}).Lock(path); err == nil || !strings.Contains(err.Error(), "held by another process") {
				t.Errorf("a second lock: %v %v", second, err)
			}
			if err := held.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := OS{}.Lock(path)
			if err != nil {
				t.Fatal(err)
			}
			again.Close()
		})
	}
	if l, err := (OS{}).Lock(filepath.Join(t.TempDir(), "no", "folder")); err == nil {
		t.Errorf("a folder that is not there: %v", l)
	}
}
