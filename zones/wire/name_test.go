package wire

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestParseName(t *testing.T) {
	l63 := strings.Repeat("a", 63)
	tests := []struct {
		text string
		want string // hex; empty: an error
		err  string // part of it
	}{
		{".", "00", ""},
		{"test", "0474657374 00", ""},
		{"test.", "0474657374 00", ""},
		{"Www.test", "03577777 0474657374 00", ""},
		{`a\.b.c`, "03612e62 0163 00", ""},
		{`a\\b`, "03615c62 00", ""},
		{`a\"b\;\(\)\@\$`, "08 6122623b28294024 00", ""},
		{`\000\255\032`, "0300ff20 00", ""},
		{`\046`, "012e 00", ""},
		{"a b", "03612062 00", ""},
		{"*.x", "012a 0178 00", ""},
		{"bücher", "07 62c3bc63686572 00", ""},
		{l63 + ".", "3f" + strings.Repeat("61", 63) + "00", ""},
		{"", "", "name is empty"},
		{"..", "", "empty label"},
		{".a", "", "empty label"},
		{"a..b", "", "empty label"},
		{"a..", "", "empty label"},
		{l63 + "a", "", "label of 64 octets, 63 are allowed"},
		{strings.Repeat(l63+".", 4), "", "has 257 octets, 255 are allowed"},
		{strings.Repeat("a.", 128), "", "has 257 octets, 255 are allowed"},
		{`a\`, "", "neither"},
		{`a\25`, "", "neither"},
		{`a\2x5`, "", "neither"},
		{`a\256`, "", `"\\256" is neither`},
		{`a\999`, "", "neither"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := ParseName(tt.text)
			if tt.want == "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("name %x, error %v, want %q", got, err, tt.err)
				}
				return
			}
			want, herr := hex.DecodeString(strings.ReplaceAll(tt.want, " ", ""))
			if herr != nil {
				t.Fatal(herr)
			}
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("name %x, error %v, want %x", got, err, want)
			}
		})
	}
}

func TestNameString(t *testing.T) {
	for in, want := range map[string]string{
		"\x00":                       ".",
		"\x03Www\x04test\x00":        "Www.test.",
		"\x03a.b\x00":                `a\.b.`,
		"\x08\"\\();@$'\x00":         `\"\\\(\)\;\@\$'.`,
		"\x06\x00\x1f ~\x7f\xff\x00": `\000\031\032~\127\255.`,
		"":                           "<bad name>",
		"\x03Www":                    "<bad name>",
		"\x01a\x00b":                 "<bad name>",
		"\xc0\x0c":                   "<bad name>",
		"\x00\x00":                   "<bad name>",
		strings.Repeat("\x01a", 128): "<bad name>",
		"\x40" + strings.Repeat("a", 64) + "\x00": "<bad name>",
	} {
		if got := NameString([]byte(in)); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// Any name survives its text, and the library reads that text as the same name.
func FuzzName(f *testing.F) {
	f.Add([]byte("\x03www\x04conf\x04test\x00"))
	f.Add([]byte("\x03a.b\x04\\(\"$\x02\x00\xff\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n := nameLen(data)
		if text, err := ParseName(string(data)); err == nil && nameLen(text) != len(text) {
			t.Fatalf("%q became %x", data, text)
		}
		if n < 0 {
			return
		}
		wire := data[:n]
		text := NameString(wire)
		back, err := ParseName(text)
		if err != nil || !bytes.Equal(back, wire) {
			t.Fatalf("%x: %s: %x, %v", wire, text, back, err)
		}
		buf := make([]byte, 300)
		end, err := dns.PackDomainName(text, buf, 0, nil, false)
		if err != nil || !bytes.Equal(buf[:end], wire) {
			t.Fatalf("%x: %s: the library has %x, %v", wire, text, buf[:end], err)
		}
	})
}

func TestToLowerEqualFold(t *testing.T) {
	var q Query
	for range 2000 {
		n := randomName(300)
		low := ToLower(nil, n)
		want := slices.Clone(n)
		for i, c := range n {
			if 'A' <= c && c <= 'Z' {
				want[i] = c + 'a' - 'A'
			}
		}
		if !bytes.Equal(low, want) {
			t.Fatalf("%x became %x", n, low)
		}
		if !EqualFold(n, low) || !EqualFold(low, n) {
			t.Fatalf("%x and %x differ", n, low)
		}
		if other := ToLower(nil, n); len(other) > 1 {
			other[1] ^= 0x80
			if EqualFold(n, other) {
				t.Fatalf("%x and %x are the same", n, other)
			}
		}
		msg := append(append(raw(t, "1234 0000 0001 0000 0000 0000"), n...), 0, 1, 0, 1)
		if s := q.Parse(msg); s != OK || !bytes.Equal(q.Name, low) || !bytes.Equal(q.RawName, n) {
			t.Fatalf("%x: status %d, %x", n, s, q.Name)
		}
		if got := ToLower(n[:0], n); !bytes.Equal(got, low) {
			t.Fatalf("in place: %x for %x", got, low)
		}
	}
	if EqualFold([]byte("\x01a\x00"), []byte("\x01a")) || EqualFold([]byte("\x01@\x00"), []byte("\x01`\x00")) {
		t.Error("different names are the same")
	}
}

// lower8 against lower, for every octet at every place.
func TestLower8(t *testing.T) {
	for c := range 256 {
		for place := range 8 {
			in := uint64(0x4100ff5b7a407f5a) &^ (0xff << (8 * place))
			in |= uint64(c) << (8 * place)
			got := lower8(in)
			for i := range 8 {
				if want := lower(byte(in >> (8 * i))); byte(got>>(8*i)) != want {
					t.Fatalf("%016x: %016x", in, got)
				}
			}
		}
	}
}

// randomName is a valid name of at most limit octets, of octets that matter: letters, their neighbours, and any.
func randomName(limit int) []byte {
	var n []byte
	limit = min(limit, MaxName)
	for rand.IntN(5) > 0 {
		l := 1 + rand.IntN(12)
		if rand.IntN(20) == 0 {
			l = MaxLabel
		}
		if len(n)+1+l+1 > limit {
			break
		}
		n = append(n, byte(l))
		for range l {
			c := byte(rand.IntN(256))
			if rand.IntN(2) == 0 {
				c = "azAZ@[`{"[rand.IntN(8)]
			}
			n = append(n, c)
		}
	}
	return append(n, 0)
}

func TestCountLabels(t *testing.T) {
	for text, want := range map[string]int{".": 0, "test": 1, "www.conf.test": 3, strings.Repeat("a.", 127): 127} {
		if got := CountLabels(name(t, text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

func TestIsSubdomain(t *testing.T) {
	tests := []struct {
		name, parent string
		want         bool
	}{
		{"edge.example", "edge.example", true},
		{"a.Edge.EXAMPLE", "edge.example", true},
		{"b.a.edge.example", "edge.example", true},
		{"notedge.example", "edge.example", false}, // W10: a border of labels, not of characters
		{`not\.edge.example`, "edge.example", false},
		{"example", "edge.example", false},
		{"edge.example", "edge.examplE", true},
		{"edge.sample", "edge.example", false},
		{"anything", ".", true},
		{".", ".", true},
		{".", "example", false},
	}
	for _, tt := range tests {
		if got := IsSubdomain(name(t, tt.name), name(t, tt.parent)); got != tt.want {
			t.Errorf("%s below %s: %v", tt.name, tt.parent, got)
		}
	}
	// the label's octets look like the parent
	if IsSubdomain([]byte("\x06x\x04test\x00"), []byte("\x04test\x00")) {
		t.Error("an octet inside a label was taken for a length")
	}
}

// The example of RFC 4034 section 6.1, and a few more.
func TestCompare(t *testing.T) {
	ordered := []string{".", "example.", "a.example.", "yljkjljk.a.example.", "Z.a.example.", "zABC.a.EXAMPLE.", "z.example.", `\001.z.example.`, "*.z.example.", "a.b.z.example.", `\200.z.example.`, "examplea."}
	for i, a := range ordered {
		for j, b := range ordered {
			if got, want := Compare(name(t, a), name(t, b)), cmp.Compare(i, j); got != want {
				t.Errorf("%s, %s: %d, want %d", a, b, got, want)
			}
		}
	}
	if Compare(name(t, "A.b"), name(t, "a.B")) != 0 {
		t.Error("case matters")
	}
	// against an obvious twin
	for range 2000 {
		a, b := randomName(60), randomName(60)
		if got, want := Compare(a, b), slices.CompareFunc(reversed(a), reversed(b), bytes.Compare); got != want {
			t.Fatalf("%x, %x: %d, want %d", a, b, got, want)
		}
	}
}

// reversed is the lower-cased labels of a name, the last one first.
func reversed(n []byte) [][]byte {
	var ls [][]byte
	for n[0] != 0 {
		ls = append(ls, ToLower(nil, n[1:1+n[0]]))
		n = n[1+n[0]:]
	}
	slices.Reverse(ls)
	return ls
}

// Names that are no names do not crash the helpers that may meet them.
func TestBadNames(t *testing.T) {
	good := name(t, "a.test")
	for _, bad := range []string{"", "\x05", "\x05abc", "\x01a\x3f", strings.Repeat("\xff", 300)} {
		n := []byte(bad)
		CountLabels(n)
		IsSubdomain(n, good)
		IsSubdomain(good, n)
		EqualFold(n, good)
		if NameString(n) != "<bad name>" {
			t.Errorf("%x has a text", n)
		}
		var at [MaxLabels + 1]uint8
		if _, ok := labels(n, &at); ok {
			t.Errorf("%x is a name", n)
		}
	}
}
