package drain

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestHistoryLines: each line is a JSON object by itself, whose sum is that of the rest.
func TestHistoryLines(t *testing.T) {
	n := newNode(t, "a")
	r := drain("fra", 37)
	r.Reason = "two\nlines and \"quotes\" and ü"
	n.apply(r)
	n.lift(restore("fra"))
	b := n.fs.names["state/"+historyName].data
	lines := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
	if len(lines) != 3 {
		t.Fatalf("%d lines: %s", len(lines), b)
	}
	for _, l := range lines {
		var object map[string]any
		if err := json.Unmarshal(l, &object); err != nil || object["sum"] == nil || object["op"] == nil {
			t.Errorf("%s: %v", l, err)
		}
		got, err := parseLine(l)
		if err != nil {
			t.Errorf("%s: %v", l, err)
		}
		if again := line(&got); !bytes.Equal(again, append(l, '\n')) {
			t.Errorf("is written again as\n%s\nnot\n%s", again, l)
		}
		for i := range l {
			torn := bytes.Clone(l)
			torn[i] ^= 1
			if _, err := parseLine(torn); err == nil {
				t.Fatalf("octet %d changed and not seen: %s", i, torn)
			}
		}
	}
}

func TestQuery(t *testing.T) {
	n := newNode(t, "a")
	var ids []string
	for i, s := range []string{"iad", "fra", "fra/envoy-wss", "*/envoy-edge", "sin"} {
		ids = append(ids, n.apply(drain(s, float64(i+1))).ID)
	}
	n.lift(restore("fra")) // records 2 to 6 are accepted, 7 is the lift
	tests := []struct {
		name  string
		query Query
		want  []uint64
	}{
		{"all", Query{}, []uint64{7, 6, 5, 4, 3, 2, 1}},
		{"the newest", Query{Limit: 2}, []uint64{7, 6}},
		{"a page further", Query{Limit: 2, Before: 6}, []uint64{5, 4}},
		{"of a statement", Query{ID: ids[1]}, []uint64{7, 3}},
		{"of a PoP, and what touches it", Query{Target: target("fra")}, []uint64{7, 5, 4, 3}},
		{"of an endpoint", Query{Target: target("fra/envoy-edge")}, []uint64{7, 5, 3}},
		{"of a service", Query{Target: target("*/envoy-wss")}, []uint64{7, 6, 4, 3, 2}},
	}
	for _, test := range tests {
		var got []uint64
		for _, r := range n.History(test.query) {
			got = append(got, r.Seq)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.name, diff)
		}
	}
}

// TestRotate: a file that is full is followed by another; the last few are kept and can be asked for after a restart.
func TestRotate(t *testing.T) {
	n := newNode(t, "a")
	n.history.limit = 3000
	for i := range 60 {
		n.apply(drain("fra", float64(i+1)))
		n.pass(time.Second)
	}
	files := 0
	for name, f := range n.fs.names {
		if bytes.HasPrefix([]byte(name), []byte("state/"+historyName)) {
			files++
			if len(f.data) > 10_000 {
				t.Errorf("%s has %d octets", name, len(f.data))
			}
		}
	}
	if files != generations {
		t.Errorf("%d files, want %d", files, generations)
	}
	newest := n.History(Query{Limit: 1})[0].Seq
	n.restart(true)
	h := n.History(Query{Limit: 1000})
	if h[0].Seq != newest {
		t.Errorf("newest is %d, was %d", h[0].Seq, newest)
	}
	for i := range h[1:] {
		if h[i+1].Seq != h[i].Seq-1 {
			t.Errorf("%d after %d", h[i].Seq, h[i+1].Seq)
		}
	}
	if len(h) < 8 {
		t.Errorf("only %d records are kept", len(h))
	}
	n.want("fra 40")
	if p := n.Problems(); len(p) > 0 {
		t.Errorf("problems: %v", p)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	h := history{fs: newMemFS(), dir: "state", limit: rotateAt}
	seq := uint64(0)
	for range 30 {
		var records []Record
		for range remembered / 10 {
			seq++
			records = append(records, Record{Seq: seq, Op: Refused})
		}
		if err := h.append(records); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(h.query(Query{Limit: 1 << 20})); got < remembered || got > 2*remembered {
		t.Errorf("%d records remembered", got)
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(`{"sum":"0123456789abcdef","seq":1}`))
	f.Add(line(&Record{Seq: 1, Op: Accepted, Target: target("fra"), After: &Entry{}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := parseLine(bytes.TrimSuffix(b, []byte("\n"))); err == nil {
			if _, err := parseLine(bytes.TrimSuffix(line(&r), []byte("\n"))); err != nil {
				t.Errorf("%s cannot be read again: %v", b, err)
			}
		}
	})
}
