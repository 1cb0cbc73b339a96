package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/server/config"
)

// A new process of a node takes over from the one that serves, through a socket in the state folder, without the loss of a query or a statement:
//
//	new                                           old
//	loads configuration, zones, databases
//	take ---------------------------------------> ends the admin API, leaves the ports of the fleet to the new one without goodbye, writes and lets go of the ledger;
//	                                              answers by what it knows, ramps go on
//	     <-------- states, listening sockets, yours
//	opens the ledger, joins the fleet, answers
//	on the very same sockets
//	serving ------------------------------------> reads no more
//	     <-------------- open connections, done
//	opens the admin API                           ends
//
// Until it has heard "serving" the old process can go on as if nothing had been: when the connection ends, when that takes too long, and when it is told to stop, it says "no", opens
// its ledger again, and joins again. A new process that fails says so and ends; one that hears "no" ends. When the old one crashes, the new one hears nothing more, and serves.

// handOverVersion is of the messages. Versions that do not know each other refuse: then the old process must be stopped first.
const handOverVersion = 1

const (
	handOverName  = "handover.sock"
	handOverHello = 10 * time.Second       // for the first message of a process
	handOverTake  = 30 * time.Second       // for ending the control path, and in addition to join_timeout for opening it
	handOverAdmin = 2 * time.Second        // that requests of the admin API get
	handOverConns = time.Second            // for passing on open connections
	handOverRetry = 500 * time.Millisecond // between attempts to go on
	handOverChunk = 48 << 10               // octets of a state in one message
)

// Kinds of messages.
const (
	opTake    = "take"    // to the old process: I am ready to take over
	opState   = "state"   // a state, or a part of one
	opSocket  = "socket"  // with its descriptor
	opYours   = "yours"   // the ledger and the ports are free
	opServing = "serving" // to the old process: I answer
	opFailed  = "failed"  // to the old process: I cannot, go on
	opConn    = "conn"    // an open connection, with its descriptor
	opDone    = "done"    // I read no more
	opNo      = "no"      // I go on
)

// handOver is a message between two processes.
type handOver struct {
	Op      string         `json:"op"`
	Version int            `json:"version,omitempty"` // of take
	Node    string         `json:"node,omitempty"`    // of take
	Error   string         `json:"error,omitempty"`   // of failed and no
	Name    string         `json:"name,omitempty"`    // of a state
	Data    []byte         `json:"data,omitempty"`    // of a state
	Socket  *server.Socket `json:"socket,omitempty"`
	Conn    *server.Conn   `json:"conn,omitempty"`
}

// errTakenBack is that the old process goes on.
var errTakenBack = errors.New("the process that serves goes on")

// door is where another process can take over from this one. A nil door is shut.
type door struct {
	app  *App
	path string
	ln   listener
	quit chan struct{} // closed when the server is told to stop
	once sync.Once
	done chan struct{} // closed when nobody can take over any more
	out  atomic.Bool   // a process is taking over
}

// giving says whether another process is taking over, so that the rest of the fleet need not notice.
func (d *door) giving() bool { return d != nil && d.out.Load() }

// shut lets nobody take over any more, and waits for one who is about to.
func (d *door) shut() {
	if d == nil {
		return
	}
	d.once.Do(func() {
		close(d.quit)
		d.ln.Close()
	})
	<-d.done
}

// openDoor lets other processes take over. Without it this one can still serve.
func (a *App) openDoor() {
	path := a.handOverPath(a.present().cfg)
	ln, err := listenHandOver(path)
	if err != nil {
		if !errors.Is(err, errors.ErrUnsupported) {
			a.log.Warn("no other process can take over from this one", "socket", path, "err", err)
		}
		return
	}
	a.door = &door{app: a, path: path, ln: ln, quit: make(chan struct{}), done: make(chan struct{})}
	go a.door.run()
}

func (a *App) handOverPath(cfg *config.Config) string {
	return filepath.Join(cfg.Path(cfg.Server.State), handOverName)
}

// run gives to one process after the other, until one has taken over.
func (d *door) run() {
	defer close(d.done)
	defer d.ln.Close()
	for {
		link, err := d.ln.accept()
		if err != nil {
			_ = os.Remove(d.path) // it was closed: the server stops, and still has the lock of the folder
			return
		}
		if taken := d.give(link); taken {
			pid := link.pid()
			link.Close()
			d.app.log.Info("another process has taken over", "pid", pid)
			d.app.gone <- pid
			close(d.app.gone)
			return
		}
		link.Close()
	}
}

// give hands over to a process; false if this one goes on.
func (d *door) give(link *pipe) bool {
	a := d.app
	_ = link.SetDeadline(time.Now().Add(handOverHello))
	m, _, err := link.receive()
	switch cfg := a.present().cfg; {
	case err != nil || m.Op != opTake:
		a.log.Warn("a process wanted to take over and did not say so", "pid", link.pid(), "err", err)
		return false
	case m.Version != handOverVersion:
		err = fmt.Errorf("it speaks version %d of the hand-over, this process %d (hint: stop this one, then start the other)", m.Version, handOverVersion)
	case m.Node != cfg.Server.Node:
		err = fmt.Errorf("this is node %s, not %s", cfg.Server.Node, m.Node)
	}
	if err != nil {
		a.log.Warn("a process may not take over", "pid", link.pid(), "err", err)
		_ = link.send(&handOver{Op: opNo, Error: err.Error()}, nil)
		return false
	}
	a.reloading.Lock()
	defer a.reloading.Unlock()
	a.log.Info("handing over", "pid", link.pid())
	d.out.Store(true)
	defer d.out.Store(false)
	known, current := d.release(link)
	err = d.wait(link)
	current(context.Background())
	if err == nil {
		d.leave(link)
		return true
	}
	_ = link.SetDeadline(time.Now().Add(handOverHello))
	_ = link.send(&handOver{Op: opNo, Error: "it took too long, or was told to stop"}, nil)
	link.Close()
	a.log.Warn("the other process did not take over", "err", err)
	d.goOn(known)
	return false
}

// release ends the control path and hands over what there is. It gives the states that are on no disk, and ends what keeps the answers current meanwhile with end.
func (d *door) release(link *pipe) (known map[string][]byte, end func(context.Context)) {
	a := d.app
	ctx, cancel := context.WithTimeout(context.Background(), handOverAdmin)
	defer cancel()
	a.end(ctx, doors)
	known = a.recall()
	a.end(ctx, state)
	current := run(a.keepCurrent) // what is in force stays readable
	_ = link.SetDeadline(time.Now().Add(handOverTake))
	for name, data := range known {
		for chunk := range slices.Chunk(data, handOverChunk) {
			_ = link.send(&handOver{Op: opState, Name: name, Data: chunk}, nil)
		}
	}
	// Errors show when the answer is waited for.
	_ = a.listeners.Sockets(func(s server.Socket, fd uintptr) error { return link.send(&handOver{Op: opSocket, Socket: &s}, &fd) })
	_ = link.send(&handOver{Op: opYours}, nil)
	return known, current
}

// wait waits until the other process serves; the error says why it will not.
func (d *door) wait(link *pipe) error {
	limit := handOverTake
	if c := d.app.parts.cfg.Cluster; c != nil {
		limit += c.Join
	}
	_ = link.SetDeadline(time.Now().Add(limit))
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-d.quit:
			_ = link.SetDeadline(time.Now())
		case <-over:
		}
	}()
	m, _, err := link.receive()
	switch {
	case err != nil:
		return err
	case m.Op == opFailed:
		return errors.New(m.Error)
	case m.Op != opServing:
		return fmt.Errorf("it says %q", m.Op)
	}
	return nil
}

// leave ends the listeners, and hands open connections on.
func (d *door) leave(link *pipe) {
	a := d.app
	ctx, cancel := context.WithTimeout(context.Background(), a.parts.cfg.Server.Stop)
	defer cancel()
	_ = link.SetDeadline(time.Now().Add(handOverTake))
	left := make(chan struct{})
	go func() {
		a.listeners.Give(ctx, func(c *server.Conn, fd uintptr) error { return link.send(&handOver{Op: opConn, Conn: c}, &fd) })
		close(left)
	}()
	select {
	case <-left:
	case <-time.After(handOverConns): // zone transfers, and connections of TLS that have yet to end
	}
	_ = link.send(&handOver{Op: opDone}, nil)
	<-left
	a.end(ctx, answering)
}

// goOn opens again what was let go of. The other process may hold the ledger for a moment.
func (d *door) goOn(known map[string][]byte) {
	a := d.app
	for pause := time.Duration(0); ; pause = handOverRetry {
		select {
		case <-d.quit:
			return
		case <-time.After(pause):
		}
		err := a.openState(context.Background(), known)
		if err == nil {
			err = a.openAdmin()
		}
		if err == nil {
			err = a.openDoors()
		}
		if err == nil {
			a.log.Info("going on")
			return
		}
		a.log.Error("going on", "err", err)
		a.end(context.Background(), doors)
		a.end(context.Background(), state)
	}
}

// recall is what only this process knows, for the next one.
func (a *App) recall() map[string][]byte {
	out := map[string][]byte{}
	if data, err := a.loads.MarshalBinary(); err == nil {
		out[loadState] = data
	}
	return out
}

// remember takes over what another process of this node knew.
func (a *App) remember(known map[string][]byte) {
	if data := known[loadState]; data != nil {
		if err := a.loads.Merge(data); err != nil {
			a.log.Warn("loads of the process before", "err", err)
		}
	}
}

// predecessor is the process that this one takes over from. A nil one is nobody: there was none, or it is gone.
type predecessor struct {
	app   *App
	link  *pipe
	known map[string][]byte
	open  []server.Socket
}

// takeOver asks the process that serves to hand over, and gives nil if there is none.
func (a *App) takeOver(ctx context.Context) (*predecessor, error) {
	link, err := dialHandOver(ctx, a.handOverPath(a.parts.cfg))
	if err != nil || link == nil {
		return nil, err
	}
	p := &predecessor{app: a, link: link, known: map[string][]byte{}}
	_ = link.SetDeadline(time.Now().Add(handOverTake))
	err = link.send(&handOver{Op: opTake, Version: handOverVersion, Node: a.parts.cfg.Server.Node}, nil)
	for err == nil {
		m, file, e := link.receive()
		switch {
		case e != nil:
			err = e
		case m.Op == opState:
			p.known[m.Name] = append(p.known[m.Name], m.Data...)
		case m.Op == opSocket && m.Socket != nil && file != nil:
			m.Socket.File = file
			p.open = append(p.open, *m.Socket)
		case m.Op == opYours:
			a.log.Info("taking over", "pid", link.pid(), "sockets", len(p.open))
			return p, nil
		case m.Op == opNo:
			p.close()
			return nil, fmt.Errorf("process %d does not hand over: %s", link.pid(), m.Error)
		default:
			closeFile(file)
		}
	}
	p.close()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("process %d does not hand over: %w", link.pid(), err)
	}
	a.log.Warn("the process that served has ended while it handed over", "pid", link.pid(), "err", err)
	return nil, nil
}

func (p *predecessor) close() {
	for _, s := range p.open {
		closeFile(s.File)
	}
	p.link.Close()
}

func closeFile(f *os.File) {
	if f != nil {
		_ = f.Close()
	}
}

func (p *predecessor) states() map[string][]byte {
	if p == nil {
		return nil
	}
	return p.known
}

// sockets gives those of the old process, once: who gets them closes them.
func (p *predecessor) sockets() []server.Socket {
	if p == nil {
		return nil
	}
	open := p.open
	p.open = nil
	return open
}

// failed tells the old process to go on.
func (p *predecessor) failed(why error) {
	if p == nil {
		return
	}
	_ = p.link.send(&handOver{Op: opFailed, Error: why.Error()}, nil)
	p.close()
}

// replace tells the old process that this one answers, and returns when that reads no more.
func (p *predecessor) replace(l *server.Listeners) error {
	if p == nil {
		return nil
	}
	_ = p.link.SetDeadline(time.Now().Add(handOverTake))
	err := p.link.send(&handOver{Op: opServing}, nil)
	for err == nil {
		m, file, e := p.link.receive()
		switch {
		case e != nil:
			err = e
		case m.Op == opConn && m.Conn != nil && file != nil:
			if e := l.Adopt(m.Conn, file); e != nil {
				p.app.log.Warn("going on with a connection", "err", e)
			}
		case m.Op == opDone:
			p.close()
			return nil
		case m.Op == opNo:
			return fmt.Errorf("%w: %s", errTakenBack, m.Error)
		default:
			closeFile(file)
		}
	}
	p.app.log.Warn("the process that served has ended before it had handed over everything", "pid", p.link.pid(), "err", err)
	p.close()
	return nil
}
