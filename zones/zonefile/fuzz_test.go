package zonefile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
)

// FuzzZonefile: whatever the text, no panic, and each problem has a line of the file. Of a zone that is taken, what the library reads is what is found.
func FuzzZonefile(f *testing.F) {
	files, err := filepath.Glob("testdata/conformance/*.zone")
	if err != nil || len(files) == 0 {
		f.Fatal("no zones", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text[:min(len(text), 4000)]))
	}
	for _, text := range []string{
		"", "\n", "(", "\"", "a", "$ORIGIN", "$INCLUDE /", "$INCLUDE testdata", "$TTL x\n", "@ 1 SOA a b 1 2 3 4 5\n@ 1 NS a\na 1 A 192.0.2.1\n",
		"@ 1 SOA a b (1 2\n3 4 5)\n@ 1 NS a\n$ORIGIN x\n@ A x\n A 1.2.3.4\n", "a 1 A ;\n 1.2.3.4", "a 1 TXT \"\n\"\nb", "$GENERATE 1-3 $ 1 A 1.0.2.$\n", "a 1 A \\# 4 01020304\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(strings.ToUpper(text), "$GENERATE") && strings.ContainsAny(text, "456789") { // thousands of records for each line
			return
		}
		b := zones.NewBuilder([]byte("\x04conf\x04test\x00"))
		places, _, problems := read("fuzz.zone", []byte(text), "conf.test.", b, make([]byte, maxRR))
		if len(places) != b.Rows() {
			t.Fatalf("%d places for %d rows", len(places), b.Rows())
		}
		lines := strings.Count(text, "\n") + 1
		check := func(file string, line int) {
			if line < 1 || file == "fuzz.zone" && line > lines {
				t.Errorf("line %d of %d", line, lines)
			}
		}
		for _, p := range problems {
			check(p.File, p.Line)
		}
		for _, p := range places {
			check(p.file, p.line)
		}
		z, faults := b.Build()
		for _, fault := range faults {
			if fault.Row < -1 || fault.Row >= len(places) || fault.Message == "" {
				t.Errorf("fault %+v of %d rows", fault, len(places))
			}
		}
		if z == nil || config.Failed(problems) {
			return
		}
		zp := dns.NewZoneParser(strings.NewReader(text), "conf.test.", "fuzz.zone")
		zp.SetIncludeAllowed(true)
		buf := make([]byte, 1<<17)
		for rr, ok := zp.Next(); ok; rr, ok = zp.Next() {
			find(t, z, rr, buf)
		}
	})
}

// find looks for a record among those of the zone.
func find(t *testing.T, z *zones.Zone, rr dns.RR, buf []byte) {
	n, err := dns.PackRR(rr, buf, 0, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	owner, rdata := split(buf[:n])
	for name, s := range z.RRsets() {
		if s.Type != rr.Header().Rrtype || !bytes.EqualFold(name, owner) {
			continue
		}
		for other := range s.RData() {
			if bytes.EqualFold(other, rdata) { // targets are in lower case
				return
			}
		}
	}
	t.Errorf("%v is lost", rr)
}
