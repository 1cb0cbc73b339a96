//go:build !unix

package cli

import "os"

// notifyResize does nothing: the next second's picture has the new size.
func notifyResize(chan<- os.Signal) {}
