package server

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Why this file goes past package net: the kernel's way of one datagram costs 2 µs and the rest of an answer a tenth of that, so what is left to save is system calls
// (recvmmsg and sendmmsg: two per batch) and the scheduler's part in waiting (none).
//
// Waiting. The thread waits inside a raw system call, of which the scheduler knows nothing: it keeps its P, and a datagram wakes the thread and nobody else. That is safe
// because (1) a socket with SO_RCVTIMEO is never restarted after a signal (socket(7), signal(7)): the runtime's preemption signal ends the call with EINTR, and the
// thread gives way; (2) should the signal come just before the call, the timeout ends it; (3) Listen sees to it that there are more Ps than workers, and refuses to
// start without asynchronous preemption. A worker that has nothing to do for some timeouts on end waits in poll through the scheduler instead, so that a quiet
// server neither wakes 500 times a second nor holds a P.
//
// Ownership. The slab, the names and the headers belong to the loop. An answer lies in the slot of its query, or anywhere that stays untouched until the batch is sent.

const (
	udpWait      = 2 * time.Millisecond   // SO_RCVTIMEO: the longest that a stop of the world can be held up
	udpQuiet     = 16                     // timeouts on end until the worker waits through the scheduler
	udpQuietWait = 100 * time.Millisecond // the longest wait there: stop and Refresh are seen then
	udpSendWait  = 5 * time.Millisecond   // the longest wait for room in the send buffer, once per batch
	udpControl   = 64                     // room for one control message, IP_PKTINFO or IPV6_PKTINFO
)

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	unix.Msghdr
	n uint32 // octets received or sent
}

// batchLoop is a blocking socket with its buffers.
type batchLoop struct {
	_     [64]byte // no line of the cache is another worker's too
	fd    int
	addr  netip.AddrPort
	v4    bool
	wild  bool // answers must name the address that they leave from
	cpu   int  // the CPU that owns the socket; -1: any
	bytes int  // receive buffer

	last     int // messages of the last batch: their headers have to be set again
	rx, tx   []mmsghdr
	rxv, txv []unix.Iovec

	memory   *buffers // where the next three lie
	names    []unix.RawSockaddrInet6
	controls []byte
	slab     []byte

	stopping atomic.Bool
	given    atomic.Bool // with stopping: another process reads the socket too
	mu       sync.Mutex  // guards fd against kernelDrops and control
	closed   bool
	drops    uint64 // when it was closed
	_        [64]byte
}

// openUDP opens the sockets of one address, one per worker; all have the port of the first. Inherited ones come first, and each of them gets a worker, however many are configured:
// what is queued in them must be answered.
func openUDP(addr netip.AddrPort, c *ListenConfig, inherited []*os.File) ([]udpLoop, error) {
	if c.Portable {
		return openPacket(addr, c)
	}
	if asyncPreemptOff(os.Getenv("GODEBUG")) {
		return nil, errors.New("GODEBUG has asyncpreemptoff=1: threads that wait for datagrams could not be stopped for the garbage collector (hint: remove it, or set Portable)")
	}
	workers := max(c.UDPWorkers, len(inherited))
	memory, err := newBuffers(workers * loopBytes(c.Batch))
	if err != nil {
		return nil, fmt.Errorf("udp %s: %w", addr, err)
	}
	defer memory.release()
	cpus := steer(c.Steer, addr.Addr(), workers)
	var loops []udpLoop
	for i := range workers {
		var from *os.File
		if i < len(inherited) {
			from = inherited[i]
		}
		l, err := openBatch(addr, c, from, i == 0, memory)
		if err != nil {
			for _, l := range loops {
				l.release()
			}
			return nil, fmt.Errorf("udp %s: %w", addr, err)
		}
		if cpus != nil {
			l.cpu = cpus[i]
			// An older kernel ignores it in part; the flow then goes to any worker, which is right too.
			_ = unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_INCOMING_CPU, l.cpu)
		}
		addr = l.addr
		loops = append(loops, l)
	}
	return loops, nil
}

// asyncPreemptOff reads the value of the environment's GODEBUG.
func asyncPreemptOff(godebug string) bool {
	off := false
	for kv := range strings.SplitSeq(godebug, ",") {
		if v, ok := strings.CutPrefix(kv, "asyncpreemptoff="); ok {
			off = v == "1"
		}
	}
	return off
}

// loopBytes is the memory for datagrams that a loop takes.
func loopBytes(batch int) int {
	return lines(batch*udpSlot) + lines(batch*unix.SizeofSockaddrInet6) + lines(batch*udpControl)
}

// openBatch opens a socket, or takes over that of a file. first says that addr may have no port yet. memory has loopBytes left.
func openBatch(addr netip.AddrPort, c *ListenConfig, from *os.File, first bool, memory *buffers) (*batchLoop, error) {
	l := &batchLoop{fd: -1, v4: addr.Addr().Is4(), wild: addr.Addr().IsUnspecified(), cpu: -1}
	var err error
	if from != nil {
		err = l.inherit(from, addr, c.ReceiveBuffer)
	} else {
		err = l.open(addr, c.ReceiveBuffer, first)
	}
	if err != nil {
		if l.fd >= 0 {
			_ = unix.Close(l.fd)
		}
		return nil, err
	}
	n := c.Batch
	l.rx, l.tx = make([]mmsghdr, n), make([]mmsghdr, n)
	l.rxv, l.txv = make([]unix.Iovec, n), make([]unix.Iovec, n)
	l.memory = memory.use()
	l.slab = memory.take(n * udpSlot)
	l.names = unsafe.Slice((*unix.RawSockaddrInet6)(unsafe.Pointer(unsafe.SliceData(memory.take(n*unix.SizeofSockaddrInet6)))), n)
	l.controls = memory.take(n * udpControl)
	for i := range n {
		l.rxv[i].Base = &l.slab[i*udpSlot]
		l.rxv[i].SetLen(udpSlot)
		for _, m := range []*mmsghdr{&l.rx[i], &l.tx[i]} {
			m.SetIovlen(1)
		}
		l.rx[i].Iov, l.tx[i].Iov = &l.rxv[i], &l.txv[i]
		l.rx[i].Name = (*byte)(unsafe.Pointer(&l.names[i]))
		if l.wild {
			l.rx[i].Control = &l.controls[i*udpControl]
		}
	}
	l.last = n
	return l, nil
}

func (l *batchLoop) open(addr netip.AddrPort, buffer int, first bool) error {
	family := unix.AF_INET6
	if l.v4 {
		family = unix.AF_INET
	}
	sa, err := sockaddr(addr)
	if err != nil {
		return err
	}
	if l.fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return os.NewSyscallError("socket", err)
	}
	type option struct{ level, name, value int }
	share := option{unix.SOL_SOCKET, unix.SO_REUSEPORT, 1}
	var must []option
	// A port of the kernel's choice must be nobody else's, also not that of another socket that shares: so the first asks for it alone and shares it afterwards.
	alone := first && addr.Port() == 0
	if !alone {
		must = append(must, share)
	}
	if !l.v4 {
		must = append(must, option{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1})
	}
	if l.wild && l.v4 {
		must = append(must, option{unix.IPPROTO_IP, unix.IP_PKTINFO, 1})
	}
	if l.wild && !l.v4 {
		must = append(must, option{unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1})
	}
	for _, o := range must {
		if err := unix.SetsockoptInt(l.fd, o.level, o.name, o.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	l.tune(buffer)
	if err := unix.Bind(l.fd, sa); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if alone {
		if err := unix.SetsockoptInt(l.fd, share.level, share.name, share.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return l.finish(addr)
}

// inherit takes over the socket of another process, which has bound it to addr. Its options are set again: that process may be of another version.
func (l *batchLoop) inherit(from *os.File, addr netip.AddrPort, buffer int) (err error) {
	if l.fd, err = unix.FcntlInt(from.Fd(), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	l.tune(buffer)
	if err := l.finish(addr); err != nil {
		return err
	}
	if l.addr != addr {
		return fmt.Errorf("a socket that should be of %s is of %s", addr, l.addr)
	}
	return nil
}

// finish sets the timeouts of a bound socket and finds out its port.
func (l *batchLoop) finish(addr netip.AddrPort) error {
	for _, t := range []struct {
		name int
		d    time.Duration
	}{{unix.SO_RCVTIMEO, udpWait}, {unix.SO_SNDTIMEO, udpSendWait}} {
		tv := unix.NsecToTimeval(int64(t.d))
		if err := unix.SetsockoptTimeval(l.fd, unix.SOL_SOCKET, t.name, &tv); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	bound, err := unix.Getsockname(l.fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	switch b := bound.(type) {
	case *unix.SockaddrInet4:
		l.addr = netip.AddrPortFrom(addr.Addr(), uint16(b.Port))
	case *unix.SockaddrInet6:
		l.addr = netip.AddrPortFrom(addr.Addr(), uint16(b.Port))
	}
	return nil
}

// tune sets what makes the socket better and may fail.
func (l *batchLoop) tune(buffer int) {
	// The kernel doubles what it is given, for its own records of each datagram. FORCE passes net.core.rmem_max, with CAP_NET_ADMIN.
	if unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
		_ = unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)
	}
	if unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, buffer) != nil {
		_ = unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, buffer)
	}
	if n, err := unix.GetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_RCVBUF); err == nil {
		l.bytes = n / 2
	}
	// A forged ICMP message must not be able to make the kernel cut answers into fragments; 1232 octets fit everywhere.
	if l.v4 {
		_ = unix.SetsockoptInt(l.fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT)
	} else {
		_ = unix.SetsockoptInt(l.fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_OMIT)
	}
}

func sockaddr(a netip.AddrPort) (unix.Sockaddr, error) {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}, nil
	}
	sa := &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if zone := a.Addr().Zone(); zone != "" {
		dev, err := net.InterfaceByName(zone)
		if err != nil {
			return nil, fmt.Errorf("zone of %s: %w", a, err)
		}
		sa.ZoneId = uint32(dev.Index)
	}
	return sa, nil
}

func (l *batchLoop) local() netip.AddrPort { return l.addr }
func (l *batchLoop) room() int             { return l.bytes }

func (l *batchLoop) stop(given bool) {
	l.given.Store(given)
	l.stopping.Store(true)
}

func (l *batchLoop) control(f func(fd uintptr)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	f(uintptr(l.fd))
	return nil
}

func (l *batchLoop) run(w *udpWorker) {
	runtime.LockOSThread() // for good: the thread ends with the worker, and takes its CPU set with it
	if l.cpu >= 0 {
		var set unix.CPUSet
		set.Set(l.cpu)
		_ = unix.SchedSetaffinity(0, &set) // where it is not allowed the thread runs anywhere
	}
	quiet := 0
	for !l.stopping.Load() {
		n, err := l.receive()
		w.Refresh()
		switch {
		case n > 0:
			quiet = 0
			l.answer(w, n)
			continue
		case err == unix.EAGAIN:
			quiet++
		case err != unix.EINTR:
			w.count.readErrors.Add(1)
			quiet++
		}
		if quiet >= udpQuiet {
			l.poll()
		} else {
			runtime.Gosched() // a signal or a timeout: somebody may be waiting for this thread to give way
		}
	}
	if !l.given.Load() {
		l.leave()
		l.drain(w)
	}
	w.Refresh()
	l.release()
}

// drain answers what is queued.
func (l *batchLoop) drain(w *udpWorker) {
	for end := time.Now().Add(udpDrainLimit); time.Now().Before(end); {
		n, err := l.receive()
		w.Refresh() // also here: a worker that was idle may have come without one since its last batch
		if n > 0 {
			l.answer(w, n)
		} else if err != unix.EINTR {
			return
		}
	}
}

// receive waits for the first datagram, at most udpWait, and takes those that are there.
func (l *batchLoop) receive() (int, unix.Errno) {
	for i := range l.rx[:l.last] {
		m := &l.rx[i]
		m.Namelen = unix.SizeofSockaddrInet6
		if l.wild {
			m.SetControllen(udpControl)
		}
	}
	l.last = 0
	n, _, err := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(l.fd), uintptr(unsafe.Pointer(&l.rx[0])), uintptr(len(l.rx)), unix.MSG_WAITFORONE, 0, 0)
	if err != 0 {
		return 0, err
	}
	l.last = int(n)
	return int(n), 0
}

// answer answers the n datagrams that receive took.
func (l *batchLoop) answer(w *udpWorker, n int) {
	k := 0
	for i := range n {
		m := &l.rx[i]
		slot := l.slab[i*udpSlot : (i+1)*udpSlot : (i+1)*udpSlot]
		a := w.answer(slot, int(m.n), l.sender(i))
		if len(a) == 0 {
			continue
		}
		l.txv[k].Base = &a[0]
		l.txv[k].SetLen(len(a))
		t := &l.tx[k]
		t.Name, t.Namelen = m.Name, m.Namelen
		if l.wild {
			l.leaveFrom(t, m)
		}
		k++
	}
	failed := l.send(k)
	w.Done()
	w.count.batch(n, k-failed, failed)
}

// sender is who sent message i.
func (l *batchLoop) sender(i int) netip.AddrPort {
	if l.v4 {
		sa := (*unix.RawSockaddrInet4)(unsafe.Pointer(&l.names[i]))
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), ntohs(&sa.Port))
	}
	// Without a zone, which a Peer has no use for: the answer goes to the name as it came.
	sa := &l.names[i]
	return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), ntohs(&sa.Port))
}

func ntohs(p *uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(p))
	return uint16(b[0])<<8 | uint16(b[1])
}

// leaveFrom lets t leave from the address that m came to: the control message goes back as it came, without the interface, which routing chooses.
func (l *batchLoop) leaveFrom(t, m *mmsghdr) {
	t.Control = nil
	t.SetControllen(0)
	c := (*unix.Cmsghdr)(unsafe.Pointer(m.Control))
	data := unsafe.Add(unsafe.Pointer(m.Control), unix.CmsgLen(0))
	got := int(m.Controllen)
	switch {
	case l.v4 && got >= unix.CmsgLen(unix.SizeofInet4Pktinfo) && c.Level == unix.IPPROTO_IP && c.Type == unix.IP_PKTINFO:
		(*unix.Inet4Pktinfo)(data).Ifindex = 0
	case !l.v4 && got >= unix.CmsgLen(unix.SizeofInet6Pktinfo) && c.Level == unix.IPPROTO_IPV6 && c.Type == unix.IPV6_PKTINFO:
		// A link-local address means nothing without its interface.
		if info := (*unix.Inet6Pktinfo)(data); info.Addr[0] != 0xfe || info.Addr[1]&0xc0 != 0x80 {
			info.Ifindex = 0
		}
	default:
		return
	}
	t.Control = m.Control
	t.SetControllen(got)
}

// send sends the first k answers and gives the number of those that could not be sent.
func (l *batchLoop) send(k int) (failed int) {
	for done := 0; done < k; {
		n, _, err := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(l.fd), uintptr(unsafe.Pointer(&l.tx[done])), uintptr(k-done), 0, 0, 0)
		switch err {
		case 0:
			done += int(n)
		case unix.EINTR:
		case unix.EAGAIN: // no room in the send buffer: what is left is late already
			return failed + k - done
		default: // the first of them cannot be sent (no route, a firewall's no); the others perhaps can
			failed++
			done++
		}
	}
	return failed
}

// poll waits for a datagram through the scheduler, at most udpQuietWait.
func (l *batchLoop) poll() {
	fds := [1]unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds[:], int(udpQuietWait/time.Millisecond))
}

// leave takes the socket out of those that the kernel chooses from, so that new datagrams go to a process that shares the port, and what is queued here can be
// answered to the end: a connected socket gets only what its peer sends, and the peer is the socket itself.
func (l *batchLoop) leave() {
	self := l.addr
	if l.wild {
		self = netip.AddrPortFrom(netip.IPv6Loopback(), self.Port())
		if l.v4 {
			self = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), self.Port())
		}
	}
	if sa, err := sockaddr(self); err == nil {
		_ = unix.Connect(l.fd, sa)
	}
}

func (l *batchLoop) release() {
	drops := l.kernelDrops()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed, l.drops = true, drops
		_ = unix.Close(l.fd)
		l.memory.release()
	}
}

// kernelDrops asks when somebody wants to know, which costs a datagram nothing (SO_RXQ_OVFL would cost a control message each).
func (l *batchLoop) kernelDrops() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.drops
	}
	var info [9]uint32 // SK_MEMINFO_VARS of linux/sock_diag.h; the last is SK_MEMINFO_DROPS
	size := uint32(unsafe.Sizeof(info))
	_, _, err := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(l.fd), unix.SOL_SOCKET, unix.SO_MEMINFO, uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if err != 0 || size < uint32(unsafe.Sizeof(info)) {
		return 0
	}
	return uint64(info[8])
}

// steer chooses the CPUs that own the sockets of an address, one per worker, or none.
//
// A datagram then goes to the worker on the CPU that its interrupt came to, and its lines of the cache stay there. It goes nowhere else, however: with fewer receive
// queues than workers the rest of them would have nothing to do. SteerAuto therefore asks for as many queues as workers on every device.
func steer(mode Steer, addr netip.Addr, workers int) []int {
	if workers < 2 || mode == SteerHash {
		return nil
	}
	var set unix.CPUSet
	if unix.SchedGetaffinity(os.Getpid(), &set) != nil || set.Count() < workers {
		return nil
	}
	if mode == SteerAuto && (addr.IsLoopback() || receiveQueues("/sys/class/net") < workers) {
		return nil
	}
	var cpus []int
	for i := 0; len(cpus) < workers; i++ {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus
}

// receiveQueues is the least number of receive queues of a device with hardware behind it (real or virtual) under dir; 0 without one.
func receiveQueues(dir string) int {
	least := 0
	devices, _ := filepath.Glob(filepath.Join(dir, "*", "device"))
	for _, d := range devices {
		queues, _ := filepath.Glob(filepath.Join(filepath.Dir(d), "queues", "rx-*"))
		if least == 0 || len(queues) < least {
			least = len(queues)
		}
	}
	return least
}

// reusePort lets a socket share its port with another process of the same user. It fits net.ListenConfig.Control.
func reusePort(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}); e != nil {
		return e
	}
	return os.NewSyscallError("setsockopt", err)
}
