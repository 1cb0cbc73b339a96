package transfer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// request is an AXFR or, with a serial, an IXFR of edge.example, signed if there is a key.
func request(key string, serial ...uint32) *dns.Msg {
	m := new(dns.Msg)
	m.SetAxfr("edge.example.")
	if len(serial) > 0 {
		m.SetIxfr("edge.example.", serial[0], "ns1.edge.example.", "hostmaster.edge.example.")
	}
	switch key {
	case "":
	case "other.example.":
		m.SetTsig(key, dns.HmacSHA512, 300, time.Now().Unix())
	default:
		m.SetTsig(key, dns.HmacSHA256, 300, time.Now().Unix())
	}
	return m
}

// axfr receives a transfer with miekg/dns, and counts its messages.
func axfr(addr string, m *dns.Msg) (list []dns.RR, messages int, err error) {
	t := &dns.Transfer{}
	if m.IsTsig() != nil {
		t.TsigSecret = map[string]string{"key.example.": secret, "other.example.": otherSecret, "unknown.example.": secret}
	}
	ch, err := t.In(m, addr)
	if err != nil {
		return nil, 0, err
	}
	for e := range ch {
		if e.Error != nil {
			return nil, messages, e.Error
		}
		messages++
		list = append(list, e.RR...)
	}
	return list, messages, nil
}

// The zone arrives as it is: its SOA first and last, all else once.
func TestTransfer(t *testing.T) {
	z := small(t, 7)
	for _, key := range []string{"", "key.example.", "other.example."} {
		for _, ixfr := range []bool{false, true} {
			o, registry := out(t, &config.Transfer{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
			s := serve(t, o, z)
			m := request(key)
			if ixfr {
				m = request(key, 6)
			}
			list, _, err := axfr(s.addr, m)
			s.stop()
			if err != nil {
				t.Fatalf("key %q, IXFR %t: %v", key, ixfr, err)
			}
			last := len(list) - 1
			if list[0].Header().Rrtype != dns.TypeSOA || list[0].String() != list[last].String() {
				t.Errorf("from %v to %v", list[0], list[last])
			}
			if diff := cmp.Diff(sorted(text(z)), sorted(texts(t, list[:last]))); diff != "" {
				t.Error(diff)
			}
			if n := counter(t, registry, `edgesteer_transfer_out_total{result="whole"}`); n != 1 {
				t.Errorf("%v transfers counted", n)
			}
		}
	}
}

// 100,000 records come in few large messages, each signed, through one buffer.
func TestTransferLarge(t *testing.T) {
	const n = 100_000
	z := large(t, "large.example.", 1, n)
	o, _ := out(t, &config.Transfer{Keys: []string{"key.example"}}, "large.example")
	m := new(dns.Msg)
	m.SetAxfr("large.example.")
	m.SetTsig("key.example.", dns.HmacSHA256, 300, time.Now().Unix())
	msg, mac, err := dns.TsigGenerate(m, secret, "", false)
	if err != nil {
		t.Fatal(err)
	}
	run, rcode := o.Transfer(msg, z, netip.MustParseAddrPort("192.0.2.1:1"), nil, nil)
	if run == nil {
		t.Fatalf("rcode %d", rcode)
	}
	records, messages, octets := 0, 0, 0
	var first, last *byte
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun := time.Now()
	err = run(func(msg []byte) error {
		if first == nil {
			first = &msg[0]
		}
		last = &msg[0]
		answers, _, _ := counts(msg)
		records += answers
		octets += len(msg)
		messages++
		if len(msg) > wire.MaxMessage {
			return fmt.Errorf("message of %d octets", len(msg))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	runtime.ReadMemStats(&after)
	if first != last {
		t.Error("messages do not share a buffer")
	}
	if records != n+4 {
		t.Errorf("%d records", records)
	}
	if octets/messages < 50_000 || octets/records > 40 {
		t.Errorf("%d octets in %d messages for %d records", octets, messages, records)
	}
	t.Logf("%d records, %d messages, %d octets, %v, %d octets allocated", records, messages, octets, took, after.TotalAlloc-before.TotalAlloc)

	// And the library takes it.
	i := 0
	run, _ = o.Transfer(msg, z, netip.MustParseAddrPort("192.0.2.1:1"), nil, nil)
	err = run(func(msg []byte) error {
		var r dns.Msg
		if err := r.Unpack(msg); err != nil {
			return err
		}
		if err := dns.TsigVerify(append([]byte(nil), msg...), secret, mac, i > 0); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		mac = r.IsTsig().MAC
		i++
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTransferRefused(t *testing.T) {
	home := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	away := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	key := []string{"key.example"}
	for _, tt := range []struct {
		name   string
		table  *config.Transfer
		key    string
		want   string // error of miekg/dns's client
		reason string
	}{
		{"address fits", &config.Transfer{Allow: home}, "", "", ""},
		{"address fits, signed all the same", &config.Transfer{Allow: home}, "key.example.", "", ""},
		{"key fits", &config.Transfer{Keys: key}, "key.example.", "", ""},
		{"both fit", &config.Transfer{Allow: home, Keys: key}, "key.example.", "", ""},
		{"second key", &config.Transfer{Keys: []string{"other.example", "key.example"}}, "key.example.", "", ""},
		{"no table", nil, "", "bad xfr rcode: 5", refusedZone},
		{"empty table", &config.Transfer{}, "key.example.", "bad xfr rcode: 5", refusedZone},
		{"address does not fit", &config.Transfer{Allow: away}, "", "bad xfr rcode: 5", refusedAddress},
		{"key fits, address does not", &config.Transfer{Allow: away, Keys: key}, "key.example.", "bad xfr rcode: 5", refusedAddress},
		{"not signed", &config.Transfer{Allow: home, Keys: key}, "", "bad xfr rcode: 5", refusedUnsigned},
		{"other key", &config.Transfer{Keys: key}, "other.example.", "bad xfr rcode: 5", refusedKey},
		{"unknown key", &config.Transfer{Keys: key}, "unknown.example.", "bad authentication", refusedSignature},
		{"unknown key, though none is needed", &config.Transfer{Allow: home}, "unknown.example.", "bad authentication", refusedSignature},
		{"a key that the configuration lacks", &config.Transfer{Keys: []string{"gone.example"}}, "key.example.", "bad xfr rcode: 5", refusedKey},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, registry := out(t, tt.table)
			s := serve(t, o, small(t, 1))
			_, _, err := axfr(s.addr, request(tt.key))
			s.stop()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if tt.reason != "" {
				if n := counter(t, registry, fmt.Sprintf("edgesteer_transfer_refused_total{reason=%q}", tt.reason)); n != 1 {
					t.Errorf("%v refusals counted", n)
				}
			}
			if n := counter(t, registry, `edgesteer_transfer_out_total{result="whole"}`); (n == 1) != (tt.want == "") {
				t.Errorf("%v transfers counted", n)
			}
		})
	}
}

// A signature that is wrong under a known name is refused, counted, and answered with BADSIG.
func TestTransferBadSignature(t *testing.T) {
	o, registry := out(t, &config.Transfer{Keys: []string{"key.example"}})
	m := request("key.example.")
	msg, _, err := dns.TsigGenerate(m, otherSecret, "", false)
	if err != nil {
		t.Fatal(err)
	}
	s, rcode := o.Verify(msg)
	if rcode != wire.RCodeNotAuth || s.fault != badSig {
		t.Errorf("rcode %d, %+v", rcode, s)
	}
	if run, rcode := o.Transfer(msg, small(t, 1), netip.MustParseAddrPort("127.0.0.1:1"), nil, nil); run != nil || rcode != wire.RCodeNotAuth {
		t.Errorf("rcode %d", rcode)
	}
	if n := counter(t, registry, `edgesteer_tsig_refused_total{error="badsig"}`); n != 1 {
		t.Errorf("%v counted", n)
	}
	if _, rcode := o.Verify([]byte("nonsense")); rcode != wire.RCodeFormErr {
		t.Errorf("rcode %d", rcode)
	}
}

func TestIXFR(t *testing.T) {
	for _, tt := range []struct {
		ours, theirs uint32
		current      bool
	}{
		{5, 4, false}, {5, 5, true}, {5, 6, true}, {0, 1<<32 - 1, false}, {1<<32 - 1, 0, true}, {1 << 31, 1, false},
	} {
		o, registry := out(t, &config.Transfer{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
		msg, err := request("", tt.theirs).Pack()
		if err != nil {
			t.Fatal(err)
		}
		run, rcode := o.Transfer(msg, small(t, tt.ours), netip.MustParseAddrPort("[::ffff:127.0.0.1]:1"), nil, nil)
		if run == nil {
			t.Fatalf("rcode %d", rcode)
		}
		n := 0
		if err := run(func(msg []byte) error { n += int(binary.BigEndian.Uint16(msg[6:])); return nil }); err != nil {
			t.Fatal(err)
		}
		if (n == 1) != tt.current {
			t.Errorf("serial %d for a client that has %d: %d records", tt.ours, tt.theirs, n)
		}
		if c := counter(t, registry, `edgesteer_transfer_out_total{result="current"}`); (c == 1) != tt.current {
			t.Errorf("%v counted", c)
		}
	}
	// RFC 1995 section 3: the client says what it has.
	o, _ := out(t, &config.Transfer{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	m := request("", 1)
	m.Ns = nil
	msg, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if run, rcode := o.Transfer(msg, small(t, 1), netip.MustParseAddrPort("127.0.0.1:1"), nil, nil); run != nil || rcode != wire.RCodeFormErr {
		t.Errorf("IXFR without SOA: rcode %d", rcode)
	}
}

// A client that goes away ends the transfer; so does a record that is larger than any message.
func TestTransferBreaksOff(t *testing.T) {
	o, registry := out(t, &config.Transfer{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	msg, err := request("").Pack()
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	run, _ := o.Transfer(msg, small(t, 1), netip.MustParseAddrPort("127.0.0.1:1"), nil, nil)
	if err := run(func([]byte) error { return gone }); !errors.Is(err, gone) {
		t.Error(err)
	}
	huge := zone(t, "edge.example.", fmt.Sprintf("@ 60 SOA a b 1 2 3 4 5\n@ 60 NS a.elsewhere.\nhuge 60 TYPE65400 \\# 65500 %s\n", strings.Repeat("00", 65500)))
	run, _ = o.Transfer(msg, huge, netip.MustParseAddrPort("127.0.0.1:1"), nil, nil)
	if err := run(func([]byte) error { return nil }); err == nil || !strings.Contains(err.Error(), "TYPE65400 record does not fit into a message") {
		t.Error(err)
	}
	if n := counter(t, registry, `edgesteer_transfer_out_total{result="failed"}`); n != 2 {
		t.Errorf("%v counted", n)
	}
}

// A configuration that is loaded again counts from the next request on.
func TestOutConfigure(t *testing.T) {
	o, registry := out(t, nil)
	s := serve(t, o, small(t, 1))
	if _, _, err := axfr(s.addr, request("")); err == nil {
		t.Error("not refused")
	}
	o.Configure([]config.Zone{{Name: "Edge.Example.", Transfer: &config.Transfer{Keys: []string{"key.example"}}}}, keys(t))
	if _, _, err := axfr(s.addr, request("key.example.")); err != nil {
		t.Error(err)
	}
	lint(t, registry)
}
