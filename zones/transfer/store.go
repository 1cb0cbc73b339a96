package transfer

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// A copy of a secondary zone is a master file that other servers read, too. Its first line tells the version of the format, its last line the number of records and a checksum of all
// before it. The file's time of modification is when a primary last said that it is current, which is what expiry counts from.
const (
	storeHead = "; edgesteer secondary zone, version 1\n"
	storeTail = "; end: %d records, crc32c %08x\n"
)

// store keeps the copies of secondary zones in a folder.
type store struct {
	dir string // "" keeps nothing

	writing sync.Mutex
}

// path is the file of a zone. Names may have any octet, files not.
func (s *store) path(apex []byte) string {
	name := strings.TrimSuffix(wire.NameString(apex), ".")
	if name == "" {
		name = "@"
	}
	name = url.PathEscape(name)
	if len(name) > 200 {
		sum := sha256.Sum256(apex)
		name = hex.EncodeToString(sum[:])
	}
	return filepath.Join(s.dir, name+".zone")
}

// save writes a copy, durable when it returns. What was there before stays until then.
func (s *store) save(z *zones.Zone, checked time.Time) error {
	if s.dir == "" {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := os.MkdirAll(s.dir, 0o750); err != nil {
		return err
	}
	path := s.path(z.Apex())
	if err := writeCopy(path+".tmp", z); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(path+".tmp")))
	}
	if err := os.Chtimes(path+".tmp", checked, checked); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	return syncDir(s.dir)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func writeCopy(path string, z *zones.Zone) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<16)
	err = writeZone(w, z)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// writeZone writes the static records of a zone.
func writeZone(out io.Writer, z *zones.Zone) error {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	w := io.MultiWriter(out, sum)
	if _, err := io.WriteString(w, storeHead); err != nil {
		return err
	}
	n := 0
	line := func(owner []byte, s zones.RRset) error {
		for rdata := range s.RData() {
			n++
			if _, err := io.WriteString(w, recordText(owner, s.Type, s.TTL, rdata)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := line(z.Apex(), z.SOA()); err != nil { // the first, as everywhere
		return err
	}
	for owner, s := range z.RRsets() {
		if s.Type == wire.TypeSOA {
			continue
		}
		if err := line(owner, s); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, storeTail, n, sum.Sum32())
	return err
}

// recordText is the line of a record in a master file. The types that people look for are written as they know them, all others in the form of RFC 3597, which has no traps.
func recordText(owner []byte, typ uint16, ttl uint32, rdata []byte) string {
	switch typ {
	case dns.TypeA, dns.TypeAAAA, dns.TypeNS, dns.TypeCNAME, dns.TypeDNAME, dns.TypePTR, dns.TypeSOA, dns.TypeMX, dns.TypeSRV, dns.TypeTXT:
		h := dns.RR_Header{Name: ".", Rrtype: typ, Class: dns.ClassINET, Rdlength: uint16(len(rdata))}
		if rr, n, err := dns.UnpackRRWithHeader(h, rdata, 0); err == nil && n == len(rdata) {
			*rr.Header() = h
			text := strings.TrimPrefix(rr.String(), h.String())
			return fmt.Sprintf("%s\t%d\tIN\t%s\t%s\n", wire.NameString(owner), ttl, dns.TypeToString[typ], text)
		}
	}
	return fmt.Sprintf("%s\t%d\tIN\tTYPE%d\t\\# %d %x\n", wire.NameString(owner), ttl, typ, len(rdata), rdata)
}

// load reads the copy of a zone, and when a primary last said that it is current. Without one the error is fs.ErrNotExist; a damaged one is an error, too.
func (s *store) load(apex []byte) (*zones.Zone, time.Time, error) {
	if s.dir == "" {
		return nil, time.Time{}, fs.ErrNotExist
	}
	path := s.path(apex)
	info, err := os.Stat(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	z, err := readZone(data, apex)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%s: %w", path, err)
	}
	return z, info.ModTime(), nil
}

// readZone reads what writeZone wrote.
func readZone(data, apex []byte) (*zones.Zone, error) {
	if !bytes.HasPrefix(data, []byte(storeHead)) {
		return nil, errors.New("copy of the zone is not of a version known here")
	}
	body := bytes.LastIndexByte(bytes.TrimSuffix(data, []byte("\n")), '\n') + 1
	var records int
	var sum uint32
	if _, err := fmt.Sscanf(string(data[body:]), storeTail, &records, &sum); err != nil {
		return nil, errors.New("copy of the zone is cut")
	}
	if crc32.Checksum(data[:body], crc32.MakeTable(crc32.Castagnoli)) != sum {
		return nil, errors.New("copy of the zone is damaged: its checksum does not fit")
	}
	b := zones.NewBuilder(apex)
	packed := make([]byte, maxPacked)
	text := data[len(storeHead):body]
	n, from, at := 0, 0, 0
	for line := range bytes.Lines(text) {
		if rr, ok := readGeneric(line); ok {
			known, err := readKnown(b, text[from:at], packed)
			if err != nil {
				return nil, err
			}
			b.Add(rr.owner, rr.typ, rr.ttl, rr.rdata)
			n, from = n+known+1, at+len(line)
		}
		at += len(line)
	}
	known, err := readKnown(b, text[from:], packed)
	if err != nil {
		return nil, err
	}
	n += known
	if n != records {
		return nil, fmt.Errorf("copy of the zone has %d records instead of %d", n, records)
	}
	z, faults := b.Build()
	if z == nil {
		return nil, faultError(faults)
	}
	return z, nil
}

// readKnown reads lines of recordText that are not in the form of RFC 3597, and gives their number.
func readKnown(b *zones.Builder, text, packed []byte) (n int, err error) {
	if len(text) == 0 {
		return 0, nil
	}
	zp := dns.NewZoneParser(bytes.NewReader(text), ".", "")
	for rr, ok := zp.Next(); ok; rr, ok = zp.Next() {
		size, err := dns.PackRR(rr, packed, 0, nil, false)
		if err != nil {
			return 0, err
		}
		owner, rdata := split(packed[:size])
		b.Add(owner, rr.Header().Rrtype, rr.Header().Ttl, rdata)
		n++
	}
	return n, zp.Err()
}

// readGeneric reads a line of recordText in the form of RFC 3597. miekg/dns would look into the data of types that it knows, and refuse what a primary may well have.
func readGeneric(line []byte) (record, bool) {
	if !bytes.Contains(line, []byte("\tTYPE")) {
		return record{}, false
	}
	f := strings.Split(strings.TrimSuffix(string(line), "\n"), "\t")
	if len(f) != 5 || !strings.HasPrefix(f[3], "TYPE") {
		return record{}, false
	}
	rr := record{owner: parseName(f[0]), class: wire.ClassIN}
	var size int
	var data string
	n, _ := fmt.Sscanf(f[1]+" "+f[3]+" "+f[4], `%d TYPE%d \# %d %s`, &rr.ttl, &rr.typ, &size, &data)
	var err error
	rr.rdata, err = hex.DecodeString(data)
	return rr, n >= 3 && err == nil && len(rr.rdata) == size && rr.owner != nil
}

// touch notes that a primary has said that a copy is current.
func (s *store) touch(apex []byte, checked time.Time) error {
	if s.dir == "" {
		return nil
	}
	return os.Chtimes(s.path(apex), checked, checked)
}

// has reports whether a zone has a copy.
func (s *store) has(apex []byte) bool {
	if s.dir == "" {
		return true
	}
	_, err := os.Stat(s.path(apex))
	return err == nil
}
