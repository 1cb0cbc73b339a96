//go:build !linux

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Processes hand over on Linux only: what it means that two of them have one socket differs from system to system.

type pipe struct{ io.Closer }

func (*pipe) pid() int                              { return 0 }
func (*pipe) send(*handOver, *uintptr) error        { return errors.ErrUnsupported }
func (*pipe) receive() (*handOver, *os.File, error) { return nil, nil, errors.ErrUnsupported }
func (*pipe) SetDeadline(time.Time) error           { return errors.ErrUnsupported }

type listener struct{ io.Closer }

func (listener) accept() (*pipe, error) { return nil, errors.ErrUnsupported }

func listenHandOver(string) (listener, error) { return listener{}, errors.ErrUnsupported }

func dialHandOver(context.Context, string) (*pipe, error) {
	return nil, fmt.Errorf("taking over from another process: %w (hint: stop it first)", errors.ErrUnsupported)
}
