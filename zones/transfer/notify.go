package transfer

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// NOTIFY is sent this often, and each time waited for twice as long as before (RFC 1996 section 3.6 leaves both to us): a minute and a half in all.
const (
	notifyTries = 5
	notifyWait  = 3 * time.Second
)

// notices are the NOTIFYs to be sent.
type notices struct {
	out      *Out
	exchange func(ctx context.Context, to netip.AddrPort, msg []byte, answer func([]byte) bool) error

	mu      sync.Mutex
	last    *zones.Set
	serials map[string]uint32 // of its zones, by apex
	pending []*zones.Zone
	wake    chan struct{}
}

func newNotices(o *Out) notices {
	return notices{out: o, exchange: exchangeUDP, serials: map[string]uint32{}, wake: make(chan struct{}, 1)}
}

// recipient is a secondary of a zone.
type recipient struct {
	apex string
	to   netip.AddrPort
}

// Published is told of the set that is served from now on, as often as anything is published. Secondaries of zones with a new serial are sent NOTIFY; all are after the start, as nobody knows what they have missed.
// It returns at once.
func (o *Out) Published(set *zones.Set) {
	n := &o.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	if set == n.last {
		return
	}
	n.last = set
	there := map[string]uint32{}
	for z := range set.Zones() {
		apex := string(z.Apex())
		serial, known := n.serials[apex]
		there[apex] = z.Serial()
		if p := o.rules.Load().zones[apex]; p != nil && len(p.notify) > 0 && (!known || serial != z.Serial()) {
			n.pending = append(n.pending, z)
		}
	}
	n.serials = there
	if len(n.pending) > 0 {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// Run sends NOTIFY until ctx is done, and returns when nothing runs any more. A new serial of a zone ends the attempts for the one before.
func (o *Out) Run(ctx context.Context) {
	n := &o.notices
	var tasks sync.WaitGroup
	running := map[recipient]context.CancelFunc{}
	for {
		select {
		case <-ctx.Done():
			for _, cancel := range running {
				cancel()
			}
			tasks.Wait()
			return
		case <-n.wake:
		}
		n.mu.Lock()
		pending := n.pending
		n.pending = nil
		n.mu.Unlock()
		for _, z := range pending {
			p := o.rules.Load().zones[string(z.Apex())]
			if p == nil {
				continue
			}
			for _, to := range p.notify {
				key := recipient{string(z.Apex()), to}
				if cancel := running[key]; cancel != nil {
					cancel()
				}
				each, cancel := context.WithCancel(ctx)
				running[key] = cancel
				tasks.Go(func() {
					defer cancel()
					n.tell(each, z, p, to)
				})
			}
		}
	}
}

// tell sends NOTIFY to one secondary until it answers.
func (n *notices) tell(ctx context.Context, z *zones.Zone, p *policy, to netip.AddrPort) {
	log := n.out.log.With("zone", z.String(), "to", to, "serial", z.Serial())
	wait := notifyWait
	for range notifyTries {
		rcode, err := n.once(ctx, z, p, to, wait)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && rcode == 0:
			n.out.metrics.told.WithLabelValues(toldAnswered).Inc()
			log.Debug("secondary notified")
			return
		case err == nil:
			n.out.metrics.told.WithLabelValues(toldRefused).Inc()
			log.Warn("secondary refuses NOTIFY", "rcode", dns.RcodeToString[int(rcode)])
			return
		}
		log.Debug("NOTIFY is not answered", "err", err)
		wait *= 2
	}
	n.out.metrics.told.WithLabelValues(toldLost).Inc()
	log.Warn("secondary does not answer NOTIFY", "tries", notifyTries)
}

// once sends one NOTIFY and takes the whole of wait, if it must.
func (n *notices) once(ctx context.Context, z *zones.Zone, p *policy, to netip.AddrPort, wait time.Duration) (rcode uint8, err error) {
	each, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	id := uint16(rand.Uint32())
	msg, v := n.message(z, p, id)
	err = n.exchange(each, to, msg, func(answer []byte) bool {
		off, e := checkHeader(answer, id, wire.OpNotify, z.Apex(), wire.TypeSOA)
		if _, refused := errors.AsType[rcodeError](e); e != nil && !refused {
			return false
		}
		rcode = answer[3] & 15
		if v == nil {
			return true
		}
		answers, authority, additional := counts(answer)
		t, start, e := last(answer, off, answers+authority+additional)
		return e == nil && t != nil && (v.check(answer, t, start) == nil || rcode != 0)
	})
	if err != nil { // wait until it is time to try again, also when the socket said at once that nobody is there
		<-each.Done()
	}
	return rcode, err
}

// message is a NOTIFY with the SOA (RFC 1996 section 3.7), signed with the zone's first key if it has one.
func (n *notices) message(z *zones.Zone, p *policy, id uint16) ([]byte, *verifier) {
	head := binary.BigEndian.AppendUint16(nil, id)
	head = append(head, wire.OpNotify<<3|4, 0, 0, 1, 0, 0, 0, 0, 0, 0) // AA
	head = append(head, z.Apex()...)
	head = binary.BigEndian.AppendUint16(head, wire.TypeSOA)
	head = binary.BigEndian.AppendUint16(head, wire.ClassIN)
	var q wire.Query
	var b wire.Builder
	q.Parse(head)
	b.Begin(&q, make([]byte, 0, 1<<10), 1<<10)
	b.SetAA(true)
	z.SOA().Append(&b, wire.Answer, z.Apex(), true)
	msg := b.Finish()
	msg[2] &^= 0x80 // the builder makes responses
	if len(p.keys) == 0 {
		return msg, nil
	}
	s := newSigner(p.keys[0], n.out.now)
	return s.Sign(msg), answerTo(s)
}

// exchangeUDP sends a message and reads datagrams from there until one is the answer.
func exchangeUDP(ctx context.Context, to netip.AddrPort, msg []byte, answer func([]byte) bool) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", to.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Write(msg); err != nil {
		return err
	}
	buf := make([]byte, wire.MaxMessage)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return err
		}
		if answer(buf[:n]) {
			return nil
		}
	}
}
