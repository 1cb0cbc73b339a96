package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/api"
)

// From the order to the first changed answer, on a node with 10,000 steered records that are asked for: what an operator waits for. The preview, the disk and the rebuild are
// in it. The figures are logged; what is asserted is an order of magnitude, since a test machine has neighbours.
func TestLeverLatency(t *testing.T) {
	records, rounds := 10_000, 50
	if testing.Short() || raceEnabled {
		records, rounds = 1000, 10
	}
	var toml strings.Builder
	toml.WriteString(fleet)
	for i := range records {
		fmt.Fprintf(&toml, "[[zone.record]]\nname = \"r%d\"\nservice = \"wss\"\nttl = 30\nfilters = [\"up\", \"shed_load\", \"geotarget_country\", { filter = \"select_first_n\", N = 1 }]\n", i)
	}
	n := prepare(t, toml.String(), map[string]string{"zone": fleetZone}).start()
	clients := networks(records)
	conn, err := dns.Dial("udp", n.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i, c := range clients { // everybody is asked for, so that previews have something to do
		if _, err := exchange(conn, question(fmt.Sprintf("r%d.example.com", i), dns.TypeA, c.String())); err != nil {
			t.Fatal(err)
		}
	}
	address := map[string]string{"east": "192.0.2.2", "south": "192.0.2.3"}
	var client string // one that is sent east, and south when east is drained
	for _, c := range clients {
		if addresses(n.ask("r0.example.com", dns.TypeA, c.String()))[0] == address["east"] {
			client = c.String()
			break
		}
	}
	var took []time.Duration
	for i := range rounds {
		by := 100.0
		drained := i%2 == 0
		done := make(chan error, 1)
		start := time.Now()
		go func() {
			order := api.Order{Reason: "test", Override: []string{"half", "last", "capacity"}}
			var err error
			if drained {
				_, err = n.api.Drain(background(), api.DrainRequest{Target: "east", By: &by, Order: order})
			} else {
				_, err = n.api.Restore(background(), api.RestoreRequest{Target: "east", Order: order})
			}
			done <- err
		}()
		for {
			r, err := exchange(conn, question("r0.example.com", dns.TypeA, client))
			if err != nil {
				t.Fatal(err)
			}
			if (addresses(r)[0] != address["east"]) == drained {
				break
			}
			select {
			case err := <-done:
				if done <- err; err != nil {
					t.Fatal(err)
				}
			default:
			}
			if time.Since(start) > patience {
				t.Fatalf("the answer does not change: %v", addresses(r))
			}
		}
		took = append(took, time.Since(start))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(took)
	t.Logf("%d records: from the order to the first changed answer: median %v, maximum %v", records, took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] > 2*time.Second {
		late(t, "the lever takes %v", took[len(took)/2])
	}
}
