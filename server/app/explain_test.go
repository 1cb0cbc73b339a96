package app

import (
	"testing"

	"github.com/edgesteer/edgesteer/server/api"
)

// Who asks may be written in the ways in which people and logs write networks and addresses.
func TestExplainClients(t *testing.T) {
	for _, c := range []struct{ client, subnet, sender string }{
		{"90.0.0.0/24", "90.0.0.0/24", "90.0.0.0"},
		{"90.0.0.7/24", "90.0.0.0/24", "90.0.0.0"},
		{"90.0.0.7", "90.0.0.0/24", "90.0.0.0"},
		{"2001:db8::7", "2001:db8::/56", "2001:db8::"},
		{"fe80::7%eth0", "fe80::/56", "fe80::"},
		{"::ffff:90.0.0.7", "90.0.0.0/24", "90.0.0.0"},
		{"::ffff:90.0.0.0/120", "::ffff:90.0.0.0/120", "::ffff:90.0.0.0"}, // asked for as it is
	} {
		q, err := question(api.ExplainQuery{Name: "www.example.com", Type: "A", Client: c.client})
		if err != nil {
			t.Errorf("%s: %v", c.client, err)
			continue
		}
		if q.Subnet.String() != c.subnet || q.Sender.String() != c.sender {
			t.Errorf("%s: subnet %s sent by %s, want %s by %s", c.client, q.Subnet, q.Sender, c.subnet, c.sender)
		}
	}
	q, err := question(api.ExplainQuery{Name: "www.example.com", Type: "A", Sender: "::ffff:90.0.0.7"})
	if err != nil || q.Sender.String() != "90.0.0.7" {
		t.Errorf("sender %s, %v", q.Sender, err)
	}
}
