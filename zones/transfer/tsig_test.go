package transfer

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones/wire"
)

func TestNewKeys(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "secret", secret+"\n")
	write(t, dir, "bad", "?")
	cfg := &config.Config{Dir: dir, TSIG: []config.TSIG{
		{Name: "Key.Example.", Secret: secret, Algorithm: "hmac-sha1"},
		{Name: "file", SecretFile: "secret", Algorithm: "HMAC-SHA384."},
		{Name: "file2", SecretFile: "bad", Algorithm: "hmac-sha256"},
		{Name: "file3", SecretFile: "missing", Algorithm: "hmac-sha256"},
		{Name: "md5", Secret: secret, Algorithm: "hmac-md5.sig-alg.reg.int"},
		{Name: "a..b", Secret: secret, Algorithm: "hmac-sha256"},
		{Name: "none", SecretFile: write(t, dir, "empty", "\n"), Algorithm: "hmac-sha256"},
		{Name: "refused", Secret: "?", Algorithm: "hmac-sha256"}, // package config has said so
	}}
	k, problems := NewKeys(cfg)
	var got []string
	for _, p := range problems {
		got = append(got, p.Field+": "+p.Message)
	}
	want := []string{
		"tsig[2].secret_file: key file2. is not base64",
		"tsig[3].secret_file: reading key: open " + dir + "/missing: no such file or directory",
		`tsig[4].algorithm: unknown algorithm "hmac-md5.sig-alg.reg.int"`,
		`tsig[5].name: name "a..b" has an empty label`,
		"tsig[6].secret_file: key none. is empty",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if a, b := k.named("KEY.example"), k.named("file."); a == nil || b == nil || !bytes.Equal(a.secret, b.secret) {
		t.Errorf("keys %+v %+v", a, b)
	}
	if k.named("refused") != nil {
		t.Error("a key of what is no secret")
	}
	if (*Keys)(nil).named("key.example") != nil {
		t.Error("no keys have a key")
	}
}

// What Signer signs miekg/dns verifies, and the other way round, with each algorithm.
func TestSignAgainstLibrary(t *testing.T) {
	for _, algorithm := range []string{dns.HmacSHA1, dns.HmacSHA224, dns.HmacSHA256, dns.HmacSHA384, dns.HmacSHA512} {
		t.Run(algorithm, func(t *testing.T) {
			ks, problems := NewKeys(&config.Config{TSIG: []config.TSIG{{Name: "Key.example.", Algorithm: algorithm, Secret: secret}}})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			k := ks.named("key.example")
			m := new(dns.Msg)
			m.SetQuestion("edge.example.", dns.TypeSOA)
			m.SetEdns0(1232, false)
			plain, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			// Our request and answers.
			s := newSigner(k, time.Now)
			size := s.Size()
			signed := s.Sign(bytes.Clone(plain))
			if len(signed) != len(plain)+size {
				t.Errorf("%d octets more, Size says %d", len(signed)-len(plain), size)
			}
			request := hex.EncodeToString(s.prior)
			if err := dns.TsigVerify(bytes.Clone(signed), secret, "", false); err != nil {
				t.Error(err)
			}
			var q wire.Query
			if status := q.Parse(signed); status != wire.OK || q.TSIG != len(plain) {
				t.Fatalf("status %d, TSIG at %d", status, q.TSIG)
			}
			back, rcode := ks.verify(&q, time.Now)
			if rcode != wire.RCodeNoError {
				t.Fatalf("rcode %d", rcode)
			}
			m.Response = true
			answer, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 { // a transfer
				out := back.Sign(bytes.Clone(answer))
				if err := dns.TsigVerify(bytes.Clone(out), secret, request, i > 0); err != nil {
					t.Errorf("message %d: %v", i, err)
				}
				request = hex.EncodeToString(back.prior)
			}
			// Theirs.
			m.Response = false
			m.SetTsig("KEY.example.", algorithm, 300, time.Now().Unix())
			theirs, mac, err := dns.TsigGenerate(m, secret, "", false)
			if err != nil {
				t.Fatal(err)
			}
			q.Parse(theirs)
			if back, rcode = ks.verify(&q, time.Now); rcode != wire.RCodeNoError || hex.EncodeToString(back.prior) != mac {
				t.Errorf("rcode %d", rcode)
			}
		})
	}
}

func TestVerifyFaults(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, tt := range []struct {
		name   string
		change func(m *dns.TSIG) (secret string)
		cut    int // octets of the MAC that stay
		rcode  uint16
		fault  uint16
		signed bool
	}{
		{"good", func(*dns.TSIG) string { return secret }, 0, wire.RCodeNoError, 0, true},
		{"unknown key", func(m *dns.TSIG) string { m.Hdr.Name = "unknown."; return secret }, 0, wire.RCodeNotAuth, badKey, false},
		{"other algorithm", func(m *dns.TSIG) string { m.Algorithm = dns.HmacSHA512; return secret }, 0, wire.RCodeNotAuth, badKey, false},
		{"wrong secret", func(*dns.TSIG) string { return otherSecret }, 0, wire.RCodeNotAuth, badSig, false},
		{"late", func(m *dns.TSIG) string { m.TimeSigned -= 301; return secret }, 0, wire.RCodeNotAuth, badTime, true},
		{"early", func(m *dns.TSIG) string { m.TimeSigned += 301; return secret }, 0, wire.RCodeNotAuth, badTime, true},
		{"just in time", func(m *dns.TSIG) string { m.TimeSigned -= 300; return secret }, 0, wire.RCodeNoError, 0, true},
		{"late and wrong", func(m *dns.TSIG) string { m.TimeSigned -= 301; return otherSecret }, 0, wire.RCodeNotAuth, badSig, false},
		{"cut", func(*dns.TSIG) string { return secret }, 16, wire.RCodeNotAuth, badTrunc, true},
		{"cut and wrong", func(*dns.TSIG) string { return otherSecret }, 16, wire.RCodeNotAuth, badSig, false},
		{"cut too short", func(*dns.TSIG) string { return secret }, 15, wire.RCodeFormErr, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := new(dns.Msg)
			m.SetQuestion("edge.example.", dns.TypeAXFR)
			m.SetTsig("key.example.", dns.HmacSHA256, 300, now.Unix())
			asked := m.IsTsig()
			with := tt.change(asked)
			msg, mac, err := dns.TsigGenerate(m, with, "", false)
			if err != nil {
				t.Fatal(err)
			}
			if tt.cut > 0 {
				var cut dns.Msg
				if err := cut.Unpack(msg); err != nil {
					t.Fatal(err)
				}
				cut.IsTsig().MAC, cut.IsTsig().MACSize = cut.IsTsig().MAC[:2*tt.cut], uint16(tt.cut)
				mac = cut.IsTsig().MAC
				if msg, err = cut.Pack(); err != nil {
					t.Fatal(err)
				}
			}
			var q wire.Query
			if status := q.Parse(msg); status != wire.OK {
				t.Fatal(status)
			}
			before := bytes.Clone(msg)
			s, rcode := keys(t).verify(&q, func() time.Time { return now })
			if rcode != tt.rcode {
				t.Fatalf("rcode %d, want %d", rcode, tt.rcode)
			}
			if !bytes.Equal(before, msg) {
				t.Error("the message was changed")
			}
			if rcode == wire.RCodeFormErr {
				if s != nil {
					t.Error("a damaged record is answered")
				}
				return
			}
			answer := s.Sign(answerHeader(msg, tt.rcode))
			var r dns.Msg
			if err := r.Unpack(answer); err != nil {
				t.Fatal(err)
			}
			got := r.IsTsig()
			if got.Error != tt.fault || (got.MACSize > 0) != tt.signed {
				t.Errorf("answer %v", got)
			}
			if tt.fault == badTime {
				if got.OtherData != fmt.Sprintf("%012x", now.Unix()) || got.TimeSigned != asked.TimeSigned {
					t.Errorf("times of the answer: %v", got)
				}
			}
			// The client sees why.
			v := &verifier{key: keys(t).named(got.Hdr.Name), now: func() time.Time { return time.Unix(int64(got.TimeSigned), 0) }}
			if v.prior, err = hex.DecodeString(mac); err != nil {
				t.Fatal(err)
			}
			end := len(answer) - dns.Len(got)
			err = v.check(answer, got, end)
			var f fault
			if tt.fault != 0 && (!errors.As(err, &f) || uint16(f) != tt.fault && v.key != nil && got.Algorithm == dns.HmacSHA256) {
				t.Errorf("client: %v", err)
			}
			if tt.fault == 0 && err != nil {
				t.Errorf("client: %v", err)
			}
		})
	}
}

// answerHeader is an answer without records to a query, question included.
func answerHeader(query []byte, rcode uint16) []byte {
	var q wire.Query
	var b wire.Builder
	q.Parse(query)
	b.Begin(&q, make([]byte, 0, 1024), 1024)
	b.SetRCode(rcode)
	return b.Finish()
}
