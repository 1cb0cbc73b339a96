package wire

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
)

// raw assembles a message from words: hex octets; n:NAME a whole name; l:LABEL a label with its length; x:HH*N an octet
// N times; o:HEX an OPT record of 1232 octets with these options, its length filled in.
func raw(tb testing.TB, text string) []byte {
	tb.Helper()
	var b []byte
	octets := func(s string) []byte {
		d, err := hex.DecodeString(s)
		if err != nil {
			tb.Fatalf("message %q: %v", text, err)
		}
		return d
	}
	for w := range strings.FieldsSeq(text) {
		kind, rest, ok := strings.Cut(w, ":")
		switch {
		case !ok:
			b = append(b, octets(w)...)
		case kind == "n":
			b = append(b, name(tb, rest)...)
		case kind == "l":
			b = append(append(b, byte(len(rest))), rest...)
		case kind == "x":
			octet, count, _ := strings.Cut(rest, "*")
			n, err := strconv.Atoi(count)
			if err != nil {
				tb.Fatalf("message %q: %v", text, err)
			}
			for range n {
				b = append(b, octets(octet)...)
			}
		case kind == "o":
			d := octets(rest)
			b = append(b, octets("00002904d000000000")...)
			b = binary.BigEndian.AppendUint16(b, uint16(len(d)))
			b = append(b, d...)
		default:
			tb.Fatalf("message %q: word %q", text, w)
		}
	}
	return b
}

func name(tb testing.TB, text string) []byte {
	tb.Helper()
	n, err := ParseName(text)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// parsed is a query that must be read as OK.
func parsed(tb testing.TB, text string) *Query {
	tb.Helper()
	q := new(Query)
	if s := q.Parse(raw(tb, text)); s != OK {
		tb.Fatalf("%s: status %d", text, s)
	}
	return q
}

// Words of queries that many tests start from: www.conf.test. IN A, ID 1234, without and with an OPT record.
const (
	plain   = "1234 0000 0001 0000 0000 0000 n:www.conf.test 0001 0001"
	withOPT = "1234 0000 0001 0000 0000 0001 n:www.conf.test 0001 0001"
	client8 = "\x01\x02\x03\x04\x05\x06\x07\x08" // a client cookie
)
