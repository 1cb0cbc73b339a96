package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
)

// Limits of connections; those of requests are configured.
const (
	maxConns    = 1024 // of each address
	maxHeader   = 16 << 10
	headerTime  = 5 * time.Second
	idleTime    = 2 * time.Minute
	socketProbe = time.Second // for finding out whether a socket's owner lives
)

// checkListen refuses an address that could be reached from outside in clear text.
func checkListen(listen string, secure bool) error {
	if path, ok := strings.CutPrefix(listen, "unix:"); ok {
		if path == "" {
			return fmt.Errorf("admin.listen: %q names no socket", listen)
		}
		return nil
	}
	ap, err := netip.ParseAddrPort(listen)
	if err != nil {
		return fmt.Errorf("admin.listen: %q is neither unix:PATH nor ADDRESS:PORT", listen)
	}
	if !secure && !ap.Addr().IsLoopback() {
		return fmt.Errorf("admin.listen: %s can be reached from outside, but there is no TLS (hint: add [admin.tls], or listen on loopback)", listen)
	}
	return nil
}

// Bind binds every address, or none. Who connects waits until Start.
func (s *Server) Bind() (err error) {
	defer func() {
		if err != nil {
			s.closeListeners()
		}
	}()
	for _, listen := range s.cfg.Settings.Listen {
		var l net.Listener
		if path, ok := strings.CutPrefix(listen, "unix:"); ok {
			l, err = listenUnix(s.cfg.Path(path), s.cfg.Settings.FileMode())
		} else {
			l, err = net.Listen("tcp", listen)
		}
		if err != nil {
			return fmt.Errorf("admin: listening on %s: %w", listen, err)
		}
		s.listeners = append(s.listeners, limit(l, maxConns))
	}
	for _, l := range s.cfg.Listeners {
		s.listeners = append(s.listeners, limit(l, maxConns))
	}
	return nil
}

// Start serves until Stop, on the addresses that were bound; if none was, it binds them first.
func (s *Server) Start() error {
	if s.listeners == nil {
		if err := s.Bind(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stopWatch = cancel
	go s.watch(ctx)
	go s.sampleRates(ctx.Done())
	for _, l := range s.listeners {
		go func() {
			if err := s.serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.cfg.Log.Error("admin listener stopped", "address", l.Addr().String(), "error", err)
			}
		}()
	}
	return nil
}

func (s *Server) closeListeners() {
	for _, l := range s.listeners {
		l.Close()
	}
	s.listeners = nil
}

// Addrs are the bound addresses, in the order of the configuration, then those that were bound before.
func (s *Server) Addrs() []net.Addr {
	addrs := make([]net.Addr, len(s.listeners))
	for i, l := range s.listeners {
		addrs[i] = l.Addr()
	}
	return addrs
}

// Stop ends event streams, lets other requests end, and closes everything when the context does. It may be called without Start.
func (s *Server) Stop(ctx context.Context) error {
	defer s.closeListeners() // those that were bound and never served
	s.stopWatch()
	s.hub.end()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	return err
}

func (s *Server) serve(l net.Listener) error {
	if s.cfg.Settings.TLS != nil && l.Addr().Network() != "unix" {
		return s.http.ServeTLS(l, "", "")
	}
	return s.http.Serve(l)
}

// listenUnix binds a socket that nobody can open before it has its mode: it is made under another name and moved. A socket that a dead process left is replaced; one that answers,
// or a file that is no socket, is not.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is there and is not a socket", path)
	default:
		if c, err := net.DialTimeout("unix", path, socketProbe); err == nil {
			c.Close()
			return nil, fmt.Errorf("%s is served by another process", path)
		}
	}
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		if len(fresh) > 107 {
			err = fmt.Errorf("%w (hint: the system allows paths of 107 octets, this one needs %d)", err, len(fresh))
		}
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(fresh, mode); err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(fresh))
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &socket{UnixListener: l, path: path, info: info}, nil
}

// socket removes its file when it is closed, unless another process has put its own there.
type socket struct {
	*net.UnixListener
	path string
	info fs.FileInfo
}

func (s *socket) Close() error {
	var err error
	if info, found := os.Lstat(s.path); found == nil && os.SameFile(info, s.info) {
		err = os.Remove(s.path)
	}
	return errors.Join(err, s.UnixListener.Close())
}

// Addr is where the socket is found, not where it was made.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// limited is a listener with a bound on its open connections: past it the next one waits.
type limited struct {
	net.Listener
	slots chan struct{}
	done  chan struct{}
	close sync.Once
}

func limit(l net.Listener, n int) *limited {
	return &limited{Listener: l, slots: make(chan struct{}, n), done: make(chan struct{})}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &conn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limited) Close() error {
	l.close.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// conn gives its place back when it is closed.
type conn struct {
	net.Conn
	release func()
}

func (c *conn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// CloseWrite lets the HTTP server say all before it hangs up on a client that is still sending.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// connContext notes who is at the other end of a unix socket.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if l, ok := c.(*conn); ok {
		if u, ok := l.Conn.(*net.UnixConn); ok {
			return context.WithValue(ctx, peerKey{}, peerOf(u))
		}
	}
	return ctx
}
