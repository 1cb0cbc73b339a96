package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// pipe is a connection between two processes of one node: messages in JSON, one a packet, each with at most one descriptor.
type pipe struct {
	*net.UnixConn
	peer int

	sending sync.Mutex
	buf     []byte
}

// handOverPacket is the room for one message: a connection has up to 64 KiB that were not read yet, in base64.
const handOverPacket = 128 << 10

// listener is where other processes ask to take over.
type listener struct{ *net.UnixListener }

// listenHandOver listens at a path. The caller holds the lock of the folder, so that a socket there is one that a dead process left.
func listenHandOver(path string) (listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return listener{}, err
	}
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return listener{}, err
	}
	ln.SetUnlinkOnClose(false) // after a hand-over the name is the next process's
	return listener{ln}, os.Chmod(path, 0o600)
}

// accept waits for a process of the same user, or of root.
func (l listener) accept() (*pipe, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		peer, err := newPipe(c)
		if err == nil {
			return peer, nil
		}
		_ = c.Close()
	}
}

// dialHandOver connects to the process that serves; nil if there is none.
func dialHandOver(ctx context.Context, path string) (*pipe, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unixpacket", path)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("taking over: %w", err)
	}
	l, err := newPipe(c.(*net.UnixConn)) //nolint:forcetypeassert // it is of this network
	if err != nil {
		return nil, errors.Join(fmt.Errorf("taking over through %s: %w", path, err), c.Close())
	}
	return l, nil
}

// newPipe makes a pipe, unless another user is at its other end.
func newPipe(c *net.UnixConn) (*pipe, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil || err != nil {
		return nil, errors.Join(e, err)
	}
	if uid := int(cred.Uid); uid != 0 && uid != os.Geteuid() {
		return nil, fmt.Errorf("process %d is of user %d", cred.Pid, uid)
	}
	return &pipe{UnixConn: c, peer: int(cred.Pid), buf: make([]byte, handOverPacket)}, nil
}

// pid is the process at the other end.
func (l *pipe) pid() int { return l.peer }

// send sends a message, with a descriptor if fd is not nil. It may be called from several goroutines.
func (l *pipe) send(m *handOver, fd *uintptr) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var rights []byte
	if fd != nil {
		rights = unix.UnixRights(int(*fd))
	}
	l.sending.Lock()
	defer l.sending.Unlock()
	_, _, err = l.WriteMsgUnix(data, rights, nil)
	return err
}

// receive waits for the next message. The file is its descriptor, nil if it has none.
func (l *pipe) receive() (m *handOver, file *os.File, err error) {
	oob := make([]byte, unix.CmsgSpace(4))
	n, k, flags, _, err := l.ReadMsgUnix(l.buf, oob)
	if err != nil {
		return nil, nil, err
	}
	if k > 0 {
		messages, err := unix.ParseSocketControlMessage(oob[:k])
		if err != nil {
			return nil, nil, err
		}
		for i := range messages {
			fds, err := unix.ParseUnixRights(&messages[i])
			if err != nil {
				return nil, nil, err
			}
			for _, fd := range fds {
				closeFile(file)
				file = os.NewFile(uintptr(fd), "handed over")
			}
		}
	}
	m = new(handOver)
	if flags&unix.MSG_TRUNC != 0 {
		err = errors.New("message is too long")
	} else {
		err = json.Unmarshal(l.buf[:n], m)
	}
	if err != nil {
		closeFile(file)
		return nil, nil, err
	}
	return m, file, nil
}
