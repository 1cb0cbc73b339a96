package transfer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
)

// post is an Out whose NOTIFYs go to functions.
type post struct {
	*Out
	registry *prometheus.Registry
	start    time.Time

	mu     sync.Mutex
	sent   []string                // seconds, recipient and serial
	answer func(q *dns.Msg) []byte // nil: nobody answers
}

func newPost(t *testing.T, table *config.Transfer) *post {
	t.Helper()
	o, registry := out(t, table)
	p := &post{Out: o, registry: registry, start: time.Now()}
	o.notices.exchange = func(ctx context.Context, to netip.AddrPort, msg []byte, answer func([]byte) bool) error {
		var q dns.Msg
		if err := q.Unpack(msg); err != nil {
			t.Error(err)
		}
		p.mu.Lock()
		p.sent = append(p.sent, fmt.Sprintf("%.0f %s %d", time.Since(p.start).Seconds(), to.Addr(), q.Answer[0].(*dns.SOA).Serial))
		reply := p.answer
		p.mu.Unlock()
		if reply != nil && answer(reply(&q)) {
			return nil
		}
		return errors.New("no answer")
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); o.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return p
}

func (p *post) read() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sent
	p.sent = nil
	return s
}

func set(list ...*zones.Zone) *zones.Set { return zones.New(list, nil) }

func to(addrs ...string) *config.Transfer {
	t := &config.Transfer{}
	for _, a := range addrs {
		t.Notify = append(t.Notify, netip.MustParseAddrPort(a))
	}
	return t
}

// Each secondary hears of each new serial, once it answers; of others no more than it must.
func TestPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost(t, to("192.0.2.1:53"))
		p.answer = func(q *dns.Msg) []byte {
			r := new(dns.Msg)
			r.SetReply(q)
			r.Answer = nil
			b, _ := r.Pack()
			return b
		}
		other := zone(t, "other.example.", "@ 60 SOA a b 1 2 3 4 5\n@ 60 NS c.\n")
		p.Published(set(small(t, 1), other))
		if diff := cmp.Diff([]string{"0 192.0.2.1 1"}, p.read()); diff != "" {
			t.Errorf("after the start: %s", diff)
		}
		p.Published(set(small(t, 1), zone(t, "other.example.", "@ 60 SOA a b 2 2 3 4 5\n@ 60 NS c.\n")))
		time.Sleep(time.Hour)
		if got := p.read(); len(got) > 0 {
			t.Errorf("nothing has changed: %v", got)
		}
		p.Published(set(small(t, 2)))
		if diff := cmp.Diff([]string{"3600 192.0.2.1 2"}, p.read()); diff != "" {
			t.Errorf("new serial: %s", diff)
		}
		if n := counter(t, p.registry, `edgesteer_notify_out_total{result="answered"}`); n != 2 {
			t.Errorf("%v counted", n)
		}
	})
}

// Without an answer it is sent five times, later and later; a new serial takes the place of the old.
func TestNotifyRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost(t, to("192.0.2.1:53", "[2001:db8::1]:53"))
		p.Published(set(small(t, 1)))
		time.Sleep(4 * time.Second)
		p.Published(set(small(t, 2)))
		time.Sleep(time.Hour)
		want := sorted("0 192.0.2.1 1\n3 192.0.2.1 1\n4 192.0.2.1 2\n7 192.0.2.1 2\n13 192.0.2.1 2\n25 192.0.2.1 2\n49 192.0.2.1 2\n" +
			"0 2001:db8::1 1\n3 2001:db8::1 1\n4 2001:db8::1 2\n7 2001:db8::1 2\n13 2001:db8::1 2\n25 2001:db8::1 2\n49 2001:db8::1 2\n")
		got := ""
		for _, s := range p.read() {
			got += s + "\n"
		}
		if diff := cmp.Diff(want, sorted(got)); diff != "" {
			t.Error(diff)
		}
		if n := counter(t, p.registry, `edgesteer_notify_out_total{result="lost"}`); n != 2 {
			t.Errorf("%v counted", n)
		}
	})
}

// Only the answer to this NOTIFY, signed if it was, ends the attempts.
func TestNotifyAnswers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		keys   []string
		change func(r *dns.Msg)
		secret string
		tries  int
		result string
	}{
		{"good", nil, func(*dns.Msg) {}, "", 1, toldAnswered},
		{"refused", nil, func(r *dns.Msg) { r.Rcode = dns.RcodeRefused }, "", 1, toldRefused},
		{"not implemented", nil, func(r *dns.Msg) { r.Rcode = dns.RcodeNotImplemented }, "", 1, toldRefused},
		{"other ID", nil, func(r *dns.Msg) { r.Id++ }, "", 5, toldLost},
		{"other zone", nil, func(r *dns.Msg) { r.Question[0].Name = "other.example." }, "", 5, toldLost},
		{"a query", nil, func(r *dns.Msg) { r.Response = false }, "", 5, toldLost},
		{"signed", []string{"key.example"}, func(*dns.Msg) {}, secret, 1, toldAnswered},
		{"not signed", []string{"key.example"}, func(*dns.Msg) {}, "", 5, toldLost},
		{"wrong signature", []string{"key.example"}, func(*dns.Msg) {}, otherSecret, 5, toldLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := to("192.0.2.1:53")
				table.Keys = tt.keys
				p := newPost(t, table)
				p.answer = func(q *dns.Msg) []byte {
					r := new(dns.Msg)
					r.SetReply(q)
					tt.change(r)
					if tt.secret == "" {
						b, _ := r.Pack()
						return b
					}
					if q.IsTsig() == nil {
						t.Fatal("NOTIFY is not signed")
					}
					r.SetTsig("key.example.", dns.HmacSHA256, 300, time.Now().Unix())
					b, _, _ := dns.TsigGenerate(r, tt.secret, q.IsTsig().MAC, false)
					return b
				}
				p.Published(set(small(t, 1)))
				time.Sleep(time.Hour)
				if n := len(p.read()); n != tt.tries {
					t.Errorf("%d tries", n)
				}
				if n := counter(t, p.registry, fmt.Sprintf("edgesteer_notify_out_total{result=%q}", tt.result)); n != 1 {
					t.Errorf("not counted as %s", tt.result)
				}
			})
		})
	}
}

// Over a socket, with the library at the other end.
func TestNotifyUDP(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *dns.Msg, 1)
	s := &dns.Server{PacketConn: conn, TsigSecret: map[string]string{"key.example.": secret}, MsgAcceptFunc: func(dns.Header) dns.MsgAcceptAction { return dns.MsgAccept },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
			if err := w.TsigStatus(); err != nil {
				t.Error(err)
			}
			r := new(dns.Msg)
			r.SetReply(q)
			r.SetTsig("key.example.", dns.HmacSHA256, 300, time.Now().Unix())
			w.WriteMsg(r)
			got <- q
		})}
	served := make(chan struct{})
	go func() { defer close(served); s.ActivateAndServe() }()
	table := to(conn.LocalAddr().String())
	table.Keys = []string{"key.example"}
	o, registry := out(t, table)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); o.Run(ctx) }()
	o.Published(set(small(t, 7)))
	q := <-got
	if q.Opcode != dns.OpcodeNotify || !q.Authoritative || q.Response || q.Question[0].Name != "edge.example." || q.Answer[0].(*dns.SOA).Serial != 7 {
		t.Errorf("NOTIFY %v", q)
	}
	for counter(t, registry, `edgesteer_notify_out_total{result="answered"}`) == 0 {
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("not answered")
		}
	}
	cancel()
	<-done
	conn.Close()
	<-served
}
