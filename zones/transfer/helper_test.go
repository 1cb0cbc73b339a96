package transfer

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// Two keys, which the tests have on both sides.
var (
	secret      = base64.StdEncoding.EncodeToString([]byte("a secret of thirty-two octets, !"))
	otherSecret = base64.StdEncoding.EncodeToString([]byte("another secret, of other octets."))
)

func keys(tb testing.TB) *Keys {
	tb.Helper()
	k, problems := NewKeys(&config.Config{TSIG: []config.TSIG{
		{Name: "key.example", Algorithm: "hmac-sha256", Secret: secret},
		{Name: "other.example", Algorithm: "hmac-sha512", Secret: otherSecret},
	}})
	if len(problems) > 0 {
		tb.Fatal(problems)
	}
	return k
}

func wired(tb testing.TB, text string) []byte {
	tb.Helper()
	n := parseName(text)
	if n == nil {
		tb.Fatalf("%q is no name", text)
	}
	return n
}

// zone makes a zone of a master file; $ORIGIN is its name.
func zone(tb testing.TB, origin, text string) *zones.Zone {
	tb.Helper()
	b := zones.NewBuilder(wired(tb, origin))
	buf := make([]byte, 1<<17)
	zp := dns.NewZoneParser(strings.NewReader(text), origin, "")
	for rr, ok := zp.Next(); ok; rr, ok = zp.Next() {
		n, err := dns.PackRR(rr, buf, 0, nil, false)
		if err != nil {
			tb.Fatal(err)
		}
		owner, rdata := split(buf[:n])
		b.Add(owner, rr.Header().Rrtype, rr.Header().Ttl, rdata)
	}
	if err := zp.Err(); err != nil {
		tb.Fatal(err)
	}
	z, faults := b.Build()
	if z == nil {
		tb.Fatal(faults)
	}
	return z
}

// small is a zone with a serial.
func small(tb testing.TB, serial uint32) *zones.Zone {
	tb.Helper()
	return zone(tb, "edge.example.", fmt.Sprintf(smallText, serial))
}

const smallText = `$TTL 3600
@ SOA ns1 hostmaster %d 7200 900 1209600 60
@ NS ns1
@ NS ns2.elsewhere.
@ MX 10 mail
ns1 A 192.0.2.53
ns1 AAAA 2001:db8::53
mail 300 A 192.0.2.25
www CNAME mail
txt TXT "a;b" "c \"d\" \\ \007"
_x._tcp SRV 1 2 443 mail
svc HTTPS 1 . alpn="h2,h3" ipv4hint=192.0.2.1
caa CAA 0 issue "ca.example"
odd TYPE65400 \# 4 0a000001
empty TYPE65401 \# 0
*.wild A 192.0.2.9
we\.ird\@\$\032\000 A 192.0.2.10
sub NS ns.sub
ns.sub A 192.0.2.54
old DNAME new
loc LOC 52 14 05.000 N 00 08 50.000 E 10.00m 1.00m 10000.00m 10.00m
ds DS 12345 8 2 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
`

// large is a zone with n hosts.
func large(tb testing.TB, origin string, serial uint32, n int) *zones.Zone {
	tb.Helper()
	b := zones.NewBuilder(wired(tb, origin))
	for owner, s := range zone(tb, origin, fmt.Sprintf("@ 60 SOA ns1 hostmaster %d 7200 900 1209600 60\n@ 60 NS ns1\nns1 60 A 192.0.2.53\n", serial)).RRsets() {
		for rdata := range s.RData() {
			b.Add(owner, s.Type, s.TTL, rdata)
		}
	}
	for i := range n {
		b.Add(wired(tb, fmt.Sprintf("host-%d.%s", i, origin)), dns.TypeA, 60, binary.BigEndian.AppendUint32(nil, uint32(i)))
	}
	z, faults := b.Build()
	if z == nil {
		tb.Fatal(faults)
	}
	return z
}

// text is all static records of a zone, in canonical order, as text of our own making.
func text(z *zones.Zone) string {
	var b bytes.Buffer
	for owner, s := range z.RRsets() {
		for rdata := range s.RData() {
			fmt.Fprintf(&b, "%s %d %s %x\n", wire.NameString(owner), s.TTL, zones.TypeString(s.Type), rdata)
		}
	}
	return b.String()
}

// texts is a transfer that miekg/dns has received, in the same form.
func texts(tb testing.TB, list []dns.RR) string {
	tb.Helper()
	var lines []string
	buf := make([]byte, 1<<17)
	for _, rr := range list {
		n, err := dns.PackRR(rr, buf, 0, nil, false)
		if err != nil {
			tb.Fatal(err)
		}
		owner, rdata := split(buf[:n])
		lines = append(lines, fmt.Sprintf("%s %d %s %x\n", wire.NameString(owner), rr.Header().Ttl, zones.TypeString(rr.Header().Rrtype), rdata))
	}
	return strings.Join(lines, "")
}

// sorted are the lines of a text in order.
func sorted(s string) string {
	lines := strings.SplitAfter(s, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// out makes an Out that has the table for zone edge.example, and its registry.
func out(tb testing.TB, t *config.Transfer, names ...string) (*Out, *prometheus.Registry) {
	tb.Helper()
	registry := prometheus.NewRegistry()
	var list []config.Zone
	for _, name := range append(names, "edge.example") {
		list = append(list, config.Zone{Name: name, Transfer: t})
	}
	o, err := NewOut(OutConfig{Zones: list, Keys: keys(tb), Registerer: registry})
	if err != nil {
		tb.Fatal(err)
	}
	return o, registry
}

// server answers transfers and SOA questions on a loopback address, as the real one does: it has signatures checked, answers signed, and runs transfers.
type server struct {
	addr string
	stop func() // returns when all connections have come to their end

	mu    sync.Mutex
	zones map[string]*zones.Zone
	asked []uint16 // types of the questions that came
}

func serve(tb testing.TB, o *Out, list ...*zones.Zone) *server {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &server{addr: l.Addr().String(), zones: map[string]*zones.Zone{}}
	for _, z := range list {
		s.zones[string(z.Apex())] = z
	}
	var conns sync.WaitGroup
	s.stop = sync.OnceFunc(func() { l.Close(); conns.Wait() })
	tb.Cleanup(s.stop)
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { defer conn.Close(); s.connection(o, conn) })
		}
	})
	return s
}

func (s *server) connection(o *Out, conn net.Conn) {
	for buf := make([]byte, wire.MaxMessage); ; {
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		msg, err := readFrame(conn, buf)
		if err != nil {
			return
		}
		if err := s.answer(o, bytes.Clone(msg), netip.MustParseAddrPort(conn.RemoteAddr().String()), func(m []byte) error {
			_, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...))
			return err
		}); err != nil {
			return
		}
	}
}

func (s *server) answer(o *Out, msg []byte, from netip.AddrPort, send func([]byte) error) error {
	var q wire.Query
	if status := q.Parse(msg); status != wire.OK {
		return fmt.Errorf("status %d", status)
	}
	s.mu.Lock()
	z := s.zones[string(q.Name)]
	s.asked = append(s.asked, q.Type)
	s.mu.Unlock()
	var signer *Signer
	rcode := wire.RCodeNoError
	if q.TSIG != 0 {
		signer, rcode = o.Verify(msg)
	}
	if rcode == wire.RCodeNoError && z == nil {
		rcode = wire.RCodeNotAuth
	}
	if rcode == wire.RCodeNoError && q.Type != dns.TypeSOA {
		var run func(func([]byte) error) error
		if run, rcode = o.Transfer(msg, z, from, nil, nil); run != nil {
			return run(send)
		}
	}
	var b wire.Builder
	b.Begin(&q, make([]byte, 0, wire.MaxMessage), wire.MaxMessage)
	b.SetRCode(rcode)
	if rcode == wire.RCodeNoError {
		b.SetAA(true)
		z.SOA().Append(&b, wire.Answer, q.Name, true)
	}
	answer := b.Finish()
	if signer != nil {
		answer = signer.Sign(answer)
	}
	return send(answer)
}

// counter is the value of a series, such as `edgesteer_transfer_refused_total{reason="key"}`.
func counter(tb testing.TB, g prometheus.Gatherer, series string) float64 {
	tb.Helper()
	families, err := g.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += fmt.Sprintf("{%s=%q}", l.GetName(), l.GetValue())
			}
			if name == series {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	tb.Fatalf("no series %s", series)
	return 0
}

func lint(tb testing.TB, g prometheus.Gatherer) {
	tb.Helper()
	if problems, err := testutil.GatherAndLint(g); err != nil || len(problems) > 0 {
		tb.Errorf("metrics: %v, %v", problems, err)
	}
}

func write(tb testing.TB, dir, name, text string) string {
	tb.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}
