package wire

import (
	"fmt"
	"testing"
)

// The query of the shared harness: one name, EDNS 1232, one IPv4 /24; the answer is one ready-made A record.
const benchQuery = "1234 0000 0001 0000 0000 0001 n:wss-primary.example.com 0001 0001 o:0008000700011800510245"

func BenchmarkParse(b *testing.B) {
	for what, text := range map[string]string{
		"ecs":   benchQuery,
		"plain": "1234 0000 0001 0000 0000 0000 n:wss-primary.example.com 0001 0001",
	} {
		b.Run(what, func(b *testing.B) {
			msg := raw(b, text)
			q := new(Query)
			b.ReportAllocs()
			for b.Loop() {
				q.Parse(msg)
			}
		})
	}
}

func BenchmarkParseBuild(b *testing.B) {
	msg := raw(b, benchQuery)
	rrs := raw(b, "c00c 0001 0001 00000014 0004 c6336401")
	soa := record(b, "example.com. 60 SOA ns1.example.com. hostmaster.example.com. 1 2 3 4 5")
	addr := rrs[12:]
	q, r := new(Query), new(Builder)
	run := func(what string, answer func()) {
		b.Run(what, func(b *testing.B) {
			slot := make([]byte, 2048)
			b.ReportAllocs()
			for b.Loop() {
				datagram := slot[:copy(slot, msg)]
				if q.Parse(datagram) != OK {
					b.Fatal("query")
				}
				r.OPT = OPT{}
				r.Begin(q, datagram[:0], 1232)
				r.SetAA(true)
				answer()
				r.OPT.Scope = 24
				r.Finish()
			}
		})
	}
	run("packed", func() { r.AppendPacked(Answer, 1, rrs) })
	run("append", func() { r.Append(Answer, q.Name, TypeA, ClassIN, 20, addr) })
	run("negative", func() { soa.appendTo(r, Authority) })
}

// A large answer over TCP: thousands of records of the question's name, or as many names to compress.
func BenchmarkBuildTCP(b *testing.B) {
	q := parsed(b, plain)
	buf := newBuffer()
	r := new(Builder)
	var targets [][]byte
	for i := range 4000 {
		targets = append(targets, name(b, fmt.Sprintf("host-%d.conf.test", i)))
	}
	addr := []byte{192, 0, 2, 1}
	run := func(what string, next func(i int) bool) {
		b.Run(what, func(b *testing.B) {
			n := 0
			for b.Loop() {
				r.Begin(q, buf, MaxMessage)
				for n = 0; next(n); {
					n++
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/record")
		})
	}
	run("A", func(int) bool { return r.Append(Answer, q.Name, TypeA, ClassIN, 60, addr) })
	run("A of another owner", func(int) bool { return r.Append(Answer, targets[0], TypeA, ClassIN, 60, addr) })
	run("NS", func(i int) bool { return r.Append(Answer, q.Name, TypeNS, ClassIN, 60, targets[i%len(targets)]) })
}
