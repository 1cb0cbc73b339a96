package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"
)

// What the server tells of is what readers of others' make see: fstrm_capture takes it in, dnstap-ldns reads it. While there is no reader, answers come all the same.
func TestDnstap(t *testing.T) {
	capture, show := need(t, "fstrm_capture"), need(t, "dnstap-ldns")
	n := prepare(t, `
[server]
node = "tapped"
listen = ["LISTEN"]
state = "state"
[dnstap]
socket = "tap.sock"
[[pop]]
name = "home"
[[service]]
name = "wss"
[service.at.home]
addresses = ["192.0.2.1"]
[[zone]]
name = "example.com"
file = "zone"
[[zone.record]]
name = "wss"
service = "wss"
filters = ["up"]
`, map[string]string{"zone": "@ 300 IN SOA ns hostmaster 1 7200 3600 1209600 60\n@ 300 IN NS ns\nns 300 IN A 192.0.2.53\n"})
	n.start()
	n.ask("early.example.com", dns.TypeA, "") // kept for the reader that comes
	socket, file := filepath.Join(n.dir, "tap.sock"), filepath.Join(n.dir, "tap.fstrm")
	cmd := exec.Command(capture, "-t", "protobuf:dnstap.Dnstap", "-u", socket, "-w", file)
	log := new(journal)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("fstrm_capture said:\n%s", log)
		}
	})
	eventually(t, "the reader is connected", func() bool { return n.metric("edgesteer_dnstap_connected", "") == 1 })
	n.ask("wss.example.com", dns.TypeA, "198.51.100.0/24")
	if _, _, err := (&dns.Client{Net: "tcp"}).Exchange(question("wss.example.com", dns.TypeAAAA, ""), n.addr); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all messages are sent", func() bool { return n.metric("edgesteer_dnstap_messages_total", `"sent"`) == 6 })
	if dropped := n.metric("edgesteer_dnstap_messages_total", `"dropped"`); dropped != 0 {
		t.Errorf("%v messages are dropped", dropped)
	}
	n.stop()
	cmd.Process.Signal(syscall.SIGTERM)
	<-ended
	out, err := exec.Command(show, "-r", file, "-y").CombinedOutput()
	if err != nil {
		t.Fatalf("dnstap-ldns: %v\n%s", err, out)
	}
	seen := string(out)
	for text, times := range map[string]int{
		"type: MESSAGE": 6, "type: AUTH_QUERY": 3, "type: AUTH_RESPONSE": 3, "socket_protocol: UDP": 4, "socket_protocol: TCP": 2, "socket_family: INET": 6,
		`identity: "tapped"`: 6, "query_address: ": 6, "query_time: ": 6, "response_time: ": 3, "early.example.com.": 2, "IN\tA\t192.0.2.1": 1, "rcode: NXDOMAIN": 1,
	} {
		if n := strings.Count(seen, text); n < times {
			t.Errorf("%q %d times, want %d", text, n, times)
		}
	}
	if t.Failed() {
		t.Log(seen)
	}
}
