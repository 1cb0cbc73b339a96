package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/zones"
)

func TestStore(t *testing.T) {
	s := &store{dir: filepath.Join(t.TempDir(), "zones")}
	apex := wired(t, "edge.example")
	if _, _, err := s.load(apex); !errors.Is(err, fs.ErrNotExist) || s.has(apex) {
		t.Errorf("empty folder: %v", err)
	}
	at := time.Unix(1_800_000_000, 0)
	for _, serial := range []uint32{1, 2} {
		z := small(t, serial)
		if err := s.save(z, at); err != nil {
			t.Fatal(err)
		}
		got, checked, err := s.load(apex)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text(z), text(got)); diff != "" || !checked.Equal(at) {
			t.Errorf("checked %v: %s", checked, diff)
		}
	}
	if err := s.touch(apex, at.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, checked, err := s.load(apex); err != nil || !checked.Equal(at.Add(time.Hour)) {
		t.Errorf("checked %v: %v", checked, err)
	}
	names, err := os.ReadDir(s.dir)
	if err != nil || len(names) != 1 || names[0].Name() != "edge.example.zone" {
		t.Errorf("files %v, %v", names, err)
	}
	if _, _, err := s.load(wired(t, "other.example")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	none := &store{}
	if err := errors.Join(none.save(small(t, 1), at), none.touch(apex, at)); err != nil || !none.has(apex) {
		t.Error(err)
	}
}

// Other servers and people can read a copy.
func TestStoreIsMasterFile(t *testing.T) {
	z := small(t, 1)
	var b bytes.Buffer
	if err := writeZone(&b, z); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sorted(text(z)), sorted(text(zone(t, "edge.example.", b.String())))); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{
		"edge.example.\t3600\tIN\tSOA\tns1.edge.example. hostmaster.edge.example. 1 7200 900 1209600 60\n",
		"mail.edge.example.\t300\tIN\tA\t192.0.2.25\n",
		"svc.edge.example.\t3600\tIN\tTYPE65\t\\# ",
	} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("no line %q in\n%s", line, b.String())
		}
	}
}

// A file that was cut anywhere, or has one wrong octet anywhere, is damage and never a zone.
func TestStoreDamage(t *testing.T) {
	var b bytes.Buffer
	if err := writeZone(&b, small(t, 1)); err != nil {
		t.Fatal(err)
	}
	apex := wired(t, "edge.example")
	if _, err := readZone(b.Bytes(), apex); err != nil {
		t.Fatal(err)
	}
	for i := range b.Len() - 1 {
		if _, err := readZone(b.Bytes()[:i], apex); err == nil {
			t.Errorf("cut to %d octets it is a zone", i)
		}
		bad := bytes.Clone(b.Bytes())
		bad[i] ^= 1 << (i % 7)
		if z, err := readZone(bad, apex); err == nil && text(z) != text(small(t, 1)) {
			t.Errorf("with another octet %d it is another zone", i)
		}
	}
	if _, err := readZone(b.Bytes(), wired(t, "other.example")); err == nil {
		t.Error("it is the copy of another zone")
	}
	old := bytes.Replace(b.Bytes(), []byte("version 1"), []byte("version 2"), 1)
	if _, err := readZone(old, apex); err == nil || !strings.Contains(err.Error(), "version") {
		t.Error(err)
	}
}

// What a crash leaves behind while a copy is written does not harm the copy before.
func TestStoreCrash(t *testing.T) {
	s := &store{dir: t.TempDir()}
	if err := s.save(small(t, 1), time.Now()); err != nil {
		t.Fatal(err)
	}
	write(t, s.dir, "edge.example.zone.tmp", "; edgesteer secondary zo")
	z, _, err := s.load(wired(t, "edge.example"))
	if err != nil || z.Serial() != 1 {
		t.Fatal(err)
	}
	if err := s.save(small(t, 2), time.Now()); err != nil {
		t.Fatal(err)
	}
	if z, _, err = s.load(wired(t, "edge.example")); err != nil || z.Serial() != 2 {
		t.Error(err)
	}
	// No room to write in: the copy stays.
	if err := os.Mkdir(filepath.Join(s.dir, "edge.example.zone.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.save(small(t, 3), time.Now()); err == nil {
		t.Error("written to a folder")
	}
	if z, _, err = s.load(wired(t, "edge.example")); err != nil || z.Serial() != 2 {
		t.Error(err)
	}
}

func TestStorePath(t *testing.T) {
	s := &store{dir: "d"}
	seen := map[string]string{}
	for _, name := range []string{".", "example.com", "EXAMPLE.net.", "0/25.2.0.192.in-addr.arpa", `\046\046.example`, `a\000b`, `x\/\.\.\/y`, strings.Repeat(strings.Repeat("x", 60)+".", 4), strings.Repeat(strings.Repeat("y", 60)+".", 4)} {
		path := s.path(wired(t, name))
		if filepath.Dir(path) != "d" || len(filepath.Base(path)) > 250 || seen[path] != "" {
			t.Errorf("%s: %s, as %s", name, path, seen[path])
		}
		seen[path] = name
	}
	if seen["d/example.net.zone"] == "" || seen["d/@.zone"] == "" {
		t.Errorf("paths %v", seen)
	}
}

// Whatever the type, what is written is read back as the same octets.
func FuzzRecordText(f *testing.F) {
	for owner, set := range small(f, 1).RRsets() {
		for rdata := range set.RData() {
			f.Add(owner[:len(owner)-len("\x04edge\x07example\x00")], set.Type, rdata)
		}
	}
	f.Add([]byte{}, dns.TypeTXT, []byte("\x00\x03\"\\\x00\x01;"))
	f.Add([]byte("\x03a\x00b\x01$"), dns.TypeCAA, []byte("\x00\x05issuea\"b"))
	f.Add([]byte("\x01*"), dns.TypeNSEC, []byte("\x01a\x00\x00\x01\x40"))
	f.Add([]byte("\x03txt"), dns.TypeTXT, []byte("\x03a; b\tc \"d\" \\ \a")) // between others of its rrset, in the form of RFC 3597
	f.Fuzz(func(t *testing.T, labels []byte, typ uint16, rdata []byte) {
		head := small(t, 1)
		b := zones.NewBuilder(head.Apex())
		b.AddZone(head)
		owner := append(bytes.Clone(labels), head.Apex()...)
		if len(owner) > 255 || len(rdata) > 1000 || !sound(owner, typ, rdata) {
			return
		}
		b.Add(owner, typ, 60, rdata)
		z, _ := b.Build()
		if z == nil {
			return
		}
		var out bytes.Buffer
		if err := writeZone(&out, z); err != nil {
			t.Fatal(err)
		}
		got, err := readZone(out.Bytes(), z.Apex())
		if err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		if diff := cmp.Diff(text(z), text(got)); diff != "" {
			t.Error(diff)
		}
	})
}

// sound says that a record is one that a transfer can bring.
func sound(owner []byte, typ uint16, rdata []byte) bool {
	for i := 0; owner[i] != 0; i += 1 + int(owner[i]) {
		if owner[i] > 63 || i+1+int(owner[i]) >= len(owner) {
			return false
		}
	}
	rr := append(bytes.Clone(owner), byte(typ>>8), byte(typ), 0, 1, 0, 0, 0, 60, byte(len(rdata)>>8), byte(len(rdata)))
	rr = append(rr, rdata...)
	got, end, err := readRecord(rr, 0, make([]byte, maxPacked))
	return err == nil && end == len(rr) && bytes.Equal(got.rdata, rdata) && (len(rdata) > 0 || mayBeEmpty(typ))
}

func BenchmarkStore(b *testing.B) {
	z := large(b, "large.example.", 1, 100_000)
	s := &store{dir: b.TempDir()}
	b.Run("save", func(b *testing.B) {
		for b.Loop() {
			if err := s.save(z, time.Now()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := s.load(z.Apex()); err != nil {
				b.Fatal(err)
			}
		}
	})
	info, err := os.Stat(s.path(z.Apex()))
	if err != nil {
		b.Fatal(err)
	}
	b.Log(fmt.Sprint(info.Size(), " octets"))
}
