package wire_test

import (
	"encoding/hex"
	"fmt"

	"github.com/edgesteer/edgesteer/zones/wire"
)

// One query from datagram to response, written over the datagram.
func Example() {
	slot := make([]byte, wire.MaxMessage)
	n, _ := hex.Decode(slot, []byte("2a2a01000001000000000001"+"0377777704636f6e6604746573740000010001"+
		"00002904d000000000000b"+"0008000700011800c00002")) // www.conf.test A, client subnet 192.0.2.0/24
	datagram := slot[:n]

	var q wire.Query   // one of each
	var b wire.Builder // per worker
	status := q.Parse(datagram)
	if status == wire.Drop {
		return
	}
	b.OPT = wire.OPT{UDPSize: 1232, NSID: []byte("dns-a")}
	limit := wire.MinLimit
	if q.HasOPT {
		limit = min(max(int(q.UDPSize), wire.MinLimit), 1232)
	}
	b.Begin(&q, datagram[:0], limit)
	b.SetRCode(status.RCode())
	if status == wire.OK {
		b.SetAA(true)
		before := b.Mark()
		for _, addr := range [][]byte{{192, 0, 2, 80}, {192, 0, 2, 81}} {
			if !b.Append(wire.Answer, q.Name, wire.TypeA, wire.ClassIN, 60, addr) {
				b.Rollback(before) // the whole rrset or nothing
				b.Truncate()
				break
			}
		}
		b.OPT.Scope = 20 // what the answer depended on
	}
	response := b.Finish()

	fmt.Println(wire.NameString(q.Name), q.ECS.Addr, q.ECS.Source)
	fmt.Println(hex.EncodeToString(response))
	// Output:
	// www.conf.test. 192.0.2.0 24
	// 2a2a850000010002000000010377777704636f6e6604746573740000010001c00c000100010000003c0004c0000250c00c000100010000003c0004c000025100002904d000000000000b0008000700011814c00002
}
