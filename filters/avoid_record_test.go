package filters

import (
	"net/netip"
	"testing"

	"github.com/edgesteer/edgesteer/pops"
)

// TestAvoidRecord: steering.md section 3 (`avoid_record`).
func TestAvoidRecord(t *testing.T) {
	const avoid = "up; avoid_record record=other; geotarget_country; select_first_n"
	const primary = "up; geotarget_country; select_first_n"
	rdata := func(label string) func(*Answer) {
		return func(a *Answer) { explicit(yes)(a); a.Label = label }
	}
	table(t, []row{
		{name: "the second nearest", chain: avoid, other: primary, spots: []spot{{name: "de", country: "DE"}, {name: "pl", country: "PL"}, {name: "jp", country: "JP"}}, want: "pl"},
		{name: "of one answer nothing would be left", chain: avoid, other: primary, spots: []spot{{name: "de", country: "DE"}}, want: "de"},
		{name: "what the primary does not give", chain: avoid, other: primary, spots: []spot{{name: "de", country: "DE", state: share(0)}, {name: "pl", country: "PL"}, {name: "jp", country: "JP"}}, want: "jp"},
		{name: "one of two is left", chain: avoid, other: primary, spots: []spot{{name: "de", country: "DE"}, {name: "jp", country: "JP"}}, want: "jp"},
		{name: "all that the primary gives", chain: avoid, other: "geotarget_country; select_first_n N=2", spots: []spot{{name: "de", country: "DE"}, {name: "pl", country: "PL"}, {name: "jp", country: "JP"}}, want: "jp"},
		{name: "where a shift sends the primary", chain: avoid, other: primary,
			spots: []spot{{name: "de", country: "DE", state: shift(0, 1)}, {name: "pl", country: "PL"}, {name: "jp", country: "JP"}}, want: "jp"},
		{name: "explicit ones by rdata", chain: avoid, other: "select_first_n",
			spots: []spot{{name: "a", answer: rdata("192.0.2.1")}, {name: "b", answer: rdata("192.0.2.1")}, {name: "c", answer: rdata("192.0.2.3")}}, want: "192.0.2.3"},
		{name: "an unplaced client", chain: avoid, other: primary, client: "223.0.0.0/24", spots: []spot{{name: "de", country: "DE"}, {name: "pl", country: "PL"}}, want: "pl"},
	})
}

// A record that gives this client nothing, for its all_down, leaves nothing to avoid.
func TestAvoidWithheld(t *testing.T) {
	w := scene(t, []spot{{name: "de", country: "DE", state: share(0)}, {name: "pl", country: "PL"}}, "avoid_record record=other; geotarget_country; select_first_n", "geotarget_country; select_first_n; up")
	x := &Exec{}
	if got, _ := w.names(x, germany); got != "pl" {
		t.Errorf("what the last resort gives is avoided: %s, want pl", got)
	}
	w.chain.Steps[0].Filter.(*avoidRecord).chain.Withholds = true
	if got, _ := w.names(x, germany); got != "de" {
		t.Errorf("the other record gives nothing: %s, want de", got)
	}
}

// A client that the sender's address placed is known as such when only the other record asked for its place.
func TestAvoidBySender(t *testing.T) {
	w := scene(t, []spot{{name: "de", country: "DE"}, {name: "jp", country: "JP"}}, "up; avoid_record record=other", "geotarget_country; select_first_n")
	x := &Exec{}
	for ecs, want := range map[string]bool{"223.0.0.0/24": true, "130.0.0.0/24": false} {
		w.run(x, netip.MustParsePrefix(ecs), netip.MustParseAddr("130.0.0.1"))
		if x.BySender != want {
			t.Errorf("%s: by the sender %v, want %v", ecs, x.BySender, want)
		}
	}
}

// TestBackupIsNeverPrimary: for all clients and many mixes of drains, primary and backup differ while two candidates remain.
func TestBackupIsNeverPrimary(t *testing.T) {
	const primary = "up; shed_load metric=connections; geotarget_country; select_first_n"
	const backup = "up; avoid_record record=other; shed_load metric=connections; geotarget_country; select_first_n"
	spots := []spot{{name: "de", country: "DE"}, {name: "pl", country: "PL"}, {name: "us", country: "US"}, {name: "jp", country: "JP"}}
	first, second := scene(t, spots, primary, ""), scene(t, spots, backup, primary)
	r := newRand(3)
	x, y := &Exec{}, &Exec{}
	for range 300 {
		v := testView(r, first.view.Fleet)
		first.setView(v)
		second.setView(v)
		for range 20 {
			ecs, _ := testClient(r)
			a, _ := first.names(x, ecs)
			b, _ := second.names(y, ecs)
			if available(v, x.Client) >= 2 && a == b {
				t.Fatalf("client %v: primary and backup are %s\n%+v", ecs, a, v.States)
			}
		}
	}
}

// available counts the endpoints that a client can be sent to for their own sake.
func available(v *pops.View, c interface{ Network() netip.Addr }) (n int) {
	for u := range v.Fleet.Endpoints {
		in, _ := v.Available(pops.Unit(u), c.Network(), pops.RungBucket)
		if in && v.States[u].Dead != 3 {
			n++
		}
	}
	return n
}
