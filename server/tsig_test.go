package server_test

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// keyring takes every signature for good, or refuses every one, and notes what it was asked.
type keyring struct {
	rcode uint16
	size  int
	calls []string
}

func (k *keyring) Verify(msg []byte) (server.Signer, uint16) {
	k.calls = append(k.calls, "verify")
	return k, k.rcode
}

func (k *keyring) Size() int { return k.size }

func (k *keyring) Sign(answer []byte) []byte {
	k.calls = append(k.calls, "sign")
	return append(answer, bytes.Repeat([]byte("s"), k.size)...)
}

func (k *keyring) Notify(msg, zone []byte, peer *server.Peer) uint16 {
	k.calls = append(k.calls, "notify")
	return wire.RCodeNoError
}

func (k *keyring) Transfer(msg []byte, zone *zones.Zone, peer *server.Peer) (server.Transfer, uint16) {
	k.calls = append(k.calls, "transfer")
	return func(func([]byte) error) error { return nil }, wire.RCodeNoError
}

// Answers to signed messages are signed, refusals too; what leaves no room for it goes out truncated. No other message is touched.
func TestSignedMessages(t *testing.T) {
	publisher := publisher(t, world, zoneText, pops.Input{})
	for _, tt := range []struct {
		name      string
		opcode    int
		qtype     uint16
		unsigned  bool
		transport server.Transport
		ring      keyring
		calls     string
		rcode     int
		truncated bool
		silent    bool
	}{
		{name: "query", qtype: dns.TypeSOA, transport: server.UDP, ring: keyring{size: 60}, calls: "verify sign"},
		{name: "query without TSIG", qtype: dns.TypeSOA, unsigned: true, transport: server.UDP, ring: keyring{size: 60}},
		{name: "no room", qtype: dns.TypeSOA, transport: server.UDP, ring: keyring{size: 460}, calls: "verify sign", truncated: true},
		{name: "room over TCP", qtype: dns.TypeSOA, transport: server.TCP, ring: keyring{size: 460}, calls: "verify sign"},
		{name: "refused", qtype: dns.TypeSOA, transport: server.TCP, ring: keyring{size: 60, rcode: wire.RCodeNotAuth}, calls: "verify sign", rcode: dns.RcodeNotAuth},
		{name: "NOTIFY", opcode: dns.OpcodeNotify, qtype: dns.TypeSOA, transport: server.UDP, ring: keyring{size: 60}, calls: "verify notify sign"},
		{name: "transfer", qtype: dns.TypeAXFR, transport: server.TCP, ring: keyring{size: 60}, calls: "verify transfer", silent: true},
		{name: "transfer refused", qtype: dns.TypeAXFR, transport: server.TCP, ring: keyring{size: 60, rcode: wire.RCodeNotAuth}, calls: "verify sign", rcode: dns.RcodeNotAuth},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := new(dns.Msg)
			m.SetQuestion("edge.example.", tt.qtype)
			m.Opcode = tt.opcode
			msg, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			if !tt.unsigned {
				m.SetTsig("key.", dns.HmacSHA256, 300, 1)
				if msg, _, err = dns.TsigGenerate(m, "c2VjcmV0", "", false); err != nil {
					t.Fatal(err)
				}
			}
			h := server.NewHandlers(server.HandlerConfig{Publisher: publisher, Messages: &tt.ring}).New()
			peer := server.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:53"), Transport: tt.transport}
			buf := make([]byte, 0, 1<<16)
			out := h.Handle(msg, buf, &peer)
			if got := strings.Join(tt.ring.calls, " "); got != tt.calls {
				t.Errorf("calls %q, want %q", got, tt.calls)
			}
			if tt.silent {
				if out != nil || h.Transfer() == nil {
					t.Errorf("answer of %d octets", len(out))
				}
				return
			}
			var r dns.Msg
			if tt.calls != "" {
				if !bytes.HasSuffix(out, []byte("sss")) {
					t.Error("not signed")
				}
				out = out[:len(out)-tt.ring.size]
			}
			if err := r.Unpack(out); err != nil {
				t.Fatal(err)
			}
			if r.Rcode != tt.rcode || r.Truncated != tt.truncated || len(r.Question) != 1 {
				t.Errorf("answer %v", r)
			}
			if (len(r.Answer) == 1) == (tt.truncated || tt.rcode != 0 || tt.opcode != 0) {
				t.Errorf("%d records", len(r.Answer))
			}
		})
	}
}
