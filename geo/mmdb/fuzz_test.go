package mmdb

import (
	"bytes"
	"net"
	"net/netip"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"github.com/edgesteer/edgesteer/geo"
)

// FuzzParse: no bytes make the reader, or the compiler over what it read, crash.
func FuzzParse(f *testing.F) {
	for _, record := range []mmdbtype.Map{
		{"country": mmdbtype.Map{"iso_code": mmdbtype.String("US")}, "location": mmdbtype.Map{"latitude": mmdbtype.Float64(1), "longitude": mmdbtype.Float64(2)}},
		{"autonomous_system_number": mmdbtype.Uint32(64500)},
		{"country_code": mmdbtype.String("JP"), "state1": mmdbtype.String("Tokyo"), "latitude": mmdbtype.Float32(35)},
	} {
		for _, version := range []int{4, 6} {
			w, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "x", IPVersion: version, RecordSize: 24, IncludeReservedNetworks: true})
			if err != nil {
				f.Fatal(err)
			}
			for _, n := range []string{"203.0.113.0/24", "10.0.0.0/8"} {
				_, p, _ := net.ParseCIDR(n)
				if err := w.Insert(p, record); err != nil {
					f.Fatal(err)
				}
			}
			var b bytes.Buffer
			if _, err := w.WriteTo(&b); err != nil {
				f.Fatal(err)
			}
			f.Add(b.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := parse("x", data)
		if err != nil {
			return
		}
		s := newSource([]*file{x, x})
		for _, a := range []string{"203.0.113.1", "0.0.0.0", "255.255.255.255", "2001:db8::1", "::", "ffff::"} {
			a := netip.MustParseAddr(a)
			if _, n := s.Lookup(a); n < 0 || n > a.BitLen() {
				t.Errorf("%v: a prefix of %d bits", a, n)
			}
		}
		// A tree may still be none: then the compiler says so.
		if _, err := geo.Compile(s, geo.Plan{Kind: geo.SortCountry, Targets: []geo.Target{{Countries: []geo.Country{'U'<<8 | 'S'}}}}); err != nil {
			t.Log(err)
		}
	})
}

// TestKnottedTree: in a damaged tree, nodes that share their children have more networks than anybody can count.
func TestKnottedTree(t *testing.T) {
	w, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "x", IPVersion: 6, RecordSize: 24})
	if err != nil {
		t.Fatal(err)
	}
	_, p, _ := net.ParseCIDR("2a00:1234:5678:9abc:def0:1234:5678:9abc/128")
	if err := w.Insert(p, mmdbtype.Map{"country_code": mmdbtype.String("JP")}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()
	for node := range 100 {
		next := byte(node + 1)
		copy(data[node*6:], []byte{0, 0, next, 0, 0, next})
	}
	if _, err := parse("x", data); err == nil {
		t.Error("a knotted tree was taken")
	} else {
		t.Log(err)
	}
}
