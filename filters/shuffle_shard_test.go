package filters

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// shards gives the shard of n tenants: names under a wildcard.
func shards(t *testing.T, spots []spot, chain string, n int) []string {
	t.Helper()
	w := scene(t, spots, chain, "")
	x := &Exec{}
	w.names(x, germany)
	out := make([]string, n)
	for i := range out {
		label := fmt.Sprintf("tenant%d", i)
		x.QName = fmt.Appendf(nil, "%c%s\x05cells\x07example\x03com\x00", len(label), label)
		x.Begin(w.pool)
		for j := range w.pool.Answers {
			x.Add(j)
		}
		w.chain.Run(x)
		var s []string
		for _, c := range x.List {
			s = append(s, w.pool.Answers[c.Serve].Label)
		}
		out[i] = strings.Join(s, " ")
		if x.Bits() != 0 {
			t.Fatalf("scope %d: a shard by name does not depend on the client", x.Bits())
		}
	}
	return out
}

// TestShuffleShard: by name, 8 answers, shards of 2, 100,000 tenants: each answer carries 25 +- 0.5 %, two tenants share a whole shard with 1/28 +- 5 %, and removing one answer
// moves only its tenants, to their own fallback (steering.md section 3, `shuffle_shard`).
func TestShuffleShard(t *testing.T) {
	const n = 100000
	var spots []spot
	for i := range 8 {
		spots = append(spots, spot{name: fmt.Sprintf("cell%d", i)})
	}
	before := shards(t, spots, "up; shuffle_shard size=2 key=qname", n)
	placed, pairs := map[string]int{}, map[string]int{}
	for _, s := range before {
		a, b, _ := strings.Cut(s, " ")
		placed[a]++
		placed[b]++
		if b < a {
			a, b = b, a
		}
		pairs[a+" "+b]++
	}
	for cell, c := range placed {
		if share := float64(c) / n; math.Abs(share-0.25) > 0.005 {
			t.Errorf("%s carries %.2f %% of the tenants, want 25 +- 0.5", cell, share*100)
		}
	}
	var same float64
	for _, c := range pairs {
		same += float64(c) * float64(c-1)
	}
	if p := same / (float64(n) * (n - 1)); len(pairs) != 28 || math.Abs(p*28-1) > 0.05 {
		t.Errorf("two tenants share a whole shard with 1/%.2f (%d shards), want 1/28 +- 5 %%", 1/p, len(pairs))
	}

	spots[3].state = share(0)
	after := shards(t, spots, "up; shuffle_shard size=2 key=qname", n)
	for i := range before {
		primary, fallback, _ := strings.Cut(before[i], " ")
		switch {
		case primary == "cell3":
			if !strings.HasPrefix(after[i], fallback+" ") {
				t.Fatalf("tenant %d had %s and goes to %s, not to its fallback", i, before[i], after[i])
			}
		case fallback == "cell3":
			if !strings.HasPrefix(after[i], primary+" ") {
				t.Fatalf("tenant %d had %s, lost its fallback and goes to %s", i, before[i], after[i])
			}
		case after[i] != before[i]:
			t.Fatalf("tenant %d had %s and moved to %s", i, before[i], after[i])
		}
	}
}

// TestShuffleShardByClient: all of a network is one tenant.
func TestShuffleShardByClient(t *testing.T) {
	const n = 20000
	spots := []spot{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}
	pairs := map[string]float64{}
	for _, a := range "abcd" {
		for _, b := range "abcd" {
			if a != b {
				pairs[string(a)+" "+string(b)] = 1. / 12
			}
		}
	}
	near(t, tally(each(t, spots, "shuffle_shard size=2", n)), n, pairs)
}

// TestShardsAreFrozen: the shard of a name is the same on every node and in every version.
func TestShardsAreFrozen(t *testing.T) {
	var spots []spot
	for i := range 8 {
		spots = append(spots, spot{name: fmt.Sprintf("cell%d", i)})
	}
	var b bytes.Buffer
	for i, s := range shards(t, spots, "shuffle_shard size=3 key=qname", 50) {
		fmt.Fprintf(&b, "tenant%d: %s\n", i, s)
	}
	want, err := os.ReadFile("testdata/shards.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("shards have changed; they are frozen in testdata/shards.txt:\n%s", b.Bytes())
	}
}
