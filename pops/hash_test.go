package pops

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// TestHashVectors holds the draws to what every node and every version must compute.
func TestHashVectors(t *testing.T) {
	file, err := os.Open("testdata/hash.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := 0
	for scan := bufio.NewScanner(file); scan.Scan(); {
		if strings.HasPrefix(scan.Text(), "#") {
			continue
		}
		f := strings.Split(scan.Text(), " ")
		if len(f) != 5 {
			t.Fatalf("line %q: want tag, network, id, hash, bucket", scan.Text())
		}
		var network netip.Addr
		if f[1] != "-" {
			network = netip.MustParseAddr(f[1])
		}
		if got := fmt.Sprintf("%016x", Hash(f[0], network, f[2])); got != f[3] {
			t.Errorf("Hash(%s, %s, %s) = %s, want %s", f[0], f[1], f[2], got, f[3])
		}
		if got := fmt.Sprintf("%.6f", Bucket(f[0], network, f[2])); got != f[4] {
			t.Errorf("Bucket(%s, %s, %s) = %s, want %s", f[0], f[1], f[2], got, f[4])
		}
		lines++
	}
	if lines < 12 {
		t.Errorf("only %d vectors", lines)
	}
}

// TestHashForm compares with the definition, written out.
func TestHashForm(t *testing.T) {
	for _, id := range []string{"", "fra", strings.Repeat("x", hashed-21), strings.Repeat("x", hashed-20), strings.Repeat("y", 5000)} {
		v4 := xxhash.Sum64String("up" + "\x00\x01" + "\xc6\x33\x64\x00" + "\x00" + id)
		if got := Hash("up", netip.MustParseAddr("198.51.100.0"), id); got != v4 {
			t.Errorf("IPv4, id of %d octets: %x, want %x", len(id), got, v4)
		}
		if got := Hash("up", netip.MustParseAddr("::ffff:198.51.100.0"), id); got != v4 {
			t.Errorf("mapped IPv4, id of %d octets: %x, want %x", len(id), got, v4)
		}
		v6 := xxhash.Sum64String("up" + "\x00\x02" + "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" + "\x00" + id)
		if got := Hash("up", netip.MustParseAddr("2001:db8::1%eth0"), id); got != v6 {
			t.Errorf("IPv6, id of %d octets: %x, want %x", len(id), got, v6)
		}
		if got, want := Hash("up", netip.Addr{}, id), xxhash.Sum64String("up\x00\x00\x00"+id); got != want {
			t.Errorf("no address, id of %d octets: %x, want %x", len(id), got, want)
		}
	}
}

func TestUnit01(t *testing.T) {
	if got := Unit01(0); got != 0 {
		t.Errorf("lowest: %v", got)
	}
	if got := Unit01(^uint64(0)) * 100; !(got < 100) {
		t.Errorf("highest bucket: %v", got)
	}
}

// networks gives n client networks: /24 prefixes for the even, /56 prefixes for the odd.
func networks(n int) []netip.Addr {
	list := make([]netip.Addr, n)
	for i := range list {
		if k := i / 2; i%2 == 0 {
			list[i] = netip.AddrFrom4([4]byte{byte(11 + k>>16), byte(k >> 8), byte(k), 0})
		} else {
			list[i] = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, byte(k >> 16), byte(k >> 8), byte(k)})
		}
	}
	return list
}

// TestShares is the promise of granularity: 37 % takes 37 +- 0.5 % of 100,000 networks, one more percent a further 1 +- 0.1 % and gives none back, 0 and 100 are exact.
func TestShares(t *testing.T) {
	const n = 100_000
	list := networks(n)
	for _, pop := range []string{"iad", "eu-west-1"} {
		f := &Fleet{PoPs: []PoP{{Name: pop}}}
		in := func(share Share) ([]bool, int) {
			v := NewView(f, Input{Intents: []Intent{{ID: "d", Kind: Drain, Class: Person, Target: Target{PoP: pop}, Share: share}}})
			set, count := make([]bool, n), 0
			for i, network := range list {
				if set[i], _ = v.Available(f.PoPUnit(0), network, RungBucket); set[i] {
					count++
				}
			}
			return set, count
		}
		all, count := in(100)
		if count != n {
			t.Errorf("%s at 100 %%: %d of %d", pop, count, n)
		}
		for share := Share(99); share >= 0; share-- {
			set, less := in(share)
			for i := range set {
				if set[i] && !all[i] {
					t.Fatalf("%s: %s comes back at %v %%", pop, list[i], share)
				}
			}
			if moved := 100 * float64(count-less) / n; moved < 0.9 || moved > 1.1 {
				t.Errorf("%s: %v %% -> %v %% moves %.3f %%", pop, share+1, share, moved)
			}
			if got := 100 * float64(less) / n; got < float64(share)-0.5 || got > float64(share)+0.5 {
				t.Errorf("%s at %v %%: %.3f %%", pop, share, got)
			}
			all, count = set, less
		}
		if count != 0 {
			t.Errorf("%s at 0 %%: %d of %d", pop, count, n)
		}
	}
}

// TestDrawsAreApart says that who leaves one PoP, and who is shed, is no news about another.
func TestDrawsAreApart(t *testing.T) {
	list := networks(20_000)
	draws := map[string]func(netip.Addr) bool{
		"up fra":   func(a netip.Addr) bool { return Bucket(TagUp, a, "fra") < 50 },
		"up iad":   func(a netip.Addr) bool { return Bucket(TagUp, a, "iad") < 50 },
		"shed fra": func(a netip.Addr) bool { return Bucket(TagShed, a, "fra") < 50 },
		"sticky":   func(a netip.Addr) bool { return Bucket(TagSticky, a, "fra") < 50 },
		"shard":    func(a netip.Addr) bool { return Bucket(TagShard, a, "fra") < 50 },
	}
	for x, dx := range draws {
		for y, dy := range draws {
			if x >= y {
				continue
			}
			both := 0
			for _, a := range list {
				if dx(a) && dy(a) {
					both++
				}
			}
			if p := float64(both) / float64(len(list)); p < 0.24 || p > 0.26 {
				t.Errorf("%s and %s: %.3f of networks, want 0.25", x, y, p)
			}
		}
	}
}
