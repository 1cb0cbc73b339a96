package gossip

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMessage(t *testing.T) {
	for _, m := range []message{
		{kind: goodbye, sender: "n1"},
		{kind: pieces, sender: "", records: []record{{}}},
		{kind: whole, sender: "node", records: []record{{state: "a", key: "k", id: 1 << 63, data: []byte("data")}, {state: "b", data: make([]byte, 300)}}},
	} {
		b := m.encode()
		if len(b) > m.size() {
			t.Errorf("%d octets, foretold were %d", len(b), m.size())
		}
		got, err := decode(b)
		if diff := cmp.Diff(m, got, cmp.AllowUnexported(message{}, record{}), cmp.Comparer(func(a, b []byte) bool { return string(a) == string(b) })); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
		for n := range b {
			if _, err := decode(b[:n]); err == nil && n > 0 && len(m.records) == 0 {
				t.Errorf("the first %d of %d octets are a message", n, len(b))
			}
		}
	}
}

func FuzzMessage(f *testing.F) {
	m := message{kind: whole, sender: "node", records: []record{{state: "a", key: "k", id: 7, data: []byte("data")}, {state: "b"}}}
	f.Add(m.encode())
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			return
		}
		again, err := decode(m.encode())
		if diff := cmp.Diff(m, again, cmp.AllowUnexported(message{}, record{}), cmp.Comparer(func(a, b []byte) bool { return string(a) == string(b) })); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
	})
}
