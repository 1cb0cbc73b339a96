package app

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/pops/health"
	"github.com/edgesteer/edgesteer/server/config"
)

// moment is the now of these tests.
func moment() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// fourPoPs have two services each, of the same capacity.
func fourPoPs() *pops.Fleet {
	f := &pops.Fleet{Services: []pops.Service{{Name: "wss"}, {Name: "edge"}}}
	for i, name := range []string{"fra", "dub", "iad", "nrt"} {
		f.PoPs = append(f.PoPs, pops.PoP{Name: name})
		f.Endpoints = append(f.Endpoints, pops.Endpoint{PoP: i, Service: 0, Capacity: 100}, pops.Endpoint{PoP: i, Service: 1})
	}
	return f
}

func rules() config.Automation {
	return config.Automation{
		Enabled: true, MaxDrained: 34, RestoreAfter: 5 * time.Minute, RestoreMax: time.Hour,
		Ramp: []config.Percent{1, 10, 25, 50, 100}, RampStep: time.Minute, PoPDown: 50,
	}
}

// seen has a verdict of each endpoint since ten minutes ago; those in down are down since then.
func seen(down ...string) (out []health.Status) {
	f := fourPoPs()
	for e := range f.Endpoints {
		s := health.Status{Target: f.UnitTarget(f.EndpointUnit(e)).String(), Known: true, Quorum: true, Since: moment().Add(-10 * time.Minute)}
		for _, d := range down {
			if d == s.Target {
				s.Down = true
				s.Votes = []health.NodeVote{
					{Node: "n2", Fresh: true, Vote: health.Vote{Down: true, Since: moment().Add(-11 * time.Minute), Error: "timeout"}},
					{Node: "n1", Fresh: true, Vote: health.Vote{Down: true, Since: moment().Add(-12 * time.Minute), Error: "status 503"}},
					{Node: "n3", Vote: health.Vote{Down: true, Since: moment().Add(-time.Hour), Error: "stale"}},
				}
			}
		}
		out = append(out, s)
	}
	return out
}

func said(id, target, outage string, lifted time.Duration) *drain.Entry {
	t, err := pops.ParseTarget(target)
	if err != nil {
		panic(err)
	}
	e := &drain.Entry{Statement: drain.Statement{
		ID: id, Kind: pops.Drain, Role: pops.Automation, Target: t, Outage: outage, Expires: moment().Add(time.Hour),
	}}
	if lifted > 0 {
		e.Lift = &drain.Lift{At: moment().Add(-lifted)}
	}
	return e
}

// told is what is done, in short.
func told(deeds []deed) (out []string) {
	for _, d := range deeds {
		switch {
		case d.drain != nil:
			out = append(out, "drain "+d.target+" "+d.drain.Outage)
		case d.lift != nil:
			out = append(out, "lift "+strings.Join(d.lift.IDs, " "))
		default:
			out = append(out, "alert "+d.target+": "+d.alert)
		}
	}
	return out
}

func TestAutomate(t *testing.T) {
	began := "health 2026-01-02T02:52:05Z" // the first vote that counts
	for _, tt := range []struct {
		name    string
		health  []health.Status
		entries []*drain.Entry
		drained []pops.Intent
		rules   func(*config.Automation)
		want    []string
	}{
		{"all is well", seen(), nil, nil, nil, nil},
		{"half of the services", seen("fra/wss"), nil, nil, nil, []string{"drain fra " + began}},
		{"all of them", seen("fra/wss", "fra/edge"), nil, nil, nil, []string{"drain fra " + began}},
		{"not enough of them: the endpoint alone", seen("fra/wss"), nil, nil, func(r *config.Automation) { r.PoPDown = 60 }, []string{"drain fra/wss " + began}},
		{"where the PoP may not be drained its endpoint perhaps may", seen("fra/wss"), nil, []pops.Intent{{ID: "d-2", Kind: pops.Drain, Class: pops.Person, Target: pops.Target{PoP: "dub", Service: "edge"}}}, nil,
			[]string{"alert fra: 50 % of edge would be drained, max_drained is 34 %", "drain fra/wss " + began}},
		{"endpoints of two PoPs, and room for one", seen("fra/wss", "dub/wss"), nil, nil, func(r *config.Automation) { r.PoPDown = 60 },
			[]string{"drain fra/wss " + began, "alert dub/wss: 50 % of wss would be drained, max_drained is 34 %"}},
		{"an endpoint is well for long enough", seen(), []*drain.Entry{said("d-1", "fra/wss", began, 0)}, nil, nil, []string{"lift d-1"}},
		{"the rest of its PoP does not hold it up", seen("fra/edge"), []*drain.Entry{said("d-1", "fra/wss", began, 0)}, nil, func(r *config.Automation) { r.PoPDown = 60 }, []string{"lift d-1", "drain fra/edge " + began}},
		{"an endpoint after two flaps", seen(), []*drain.Entry{said("d-0", "fra/wss", "health x", time.Hour), said("d-9", "fra/wss", "health y", 2*time.Hour), said("d-1", "fra/wss", began, 0)}, nil, nil, nil},
		{"the flaps of its PoP are others", seen(), []*drain.Entry{said("d-0", "fra", "health x", time.Hour), said("d-9", "fra", "health y", 2*time.Hour), said("d-1", "fra/wss", began, 0)}, nil, nil, []string{"lift d-1"}},
		{"the endpoint was drained first, then the PoP is", seen("fra/wss", "fra/edge"), []*drain.Entry{said("d-1", "fra/wss", "health earlier", 0)}, nil, nil, []string{"drain fra " + began, "drain fra/wss health earlier"}},
		{"switched off", seen("fra/wss"), nil, nil, func(r *config.Automation) { r.Enabled = false }, nil},
		{"it stands already", seen("fra/wss"), []*drain.Entry{said("d-1", "fra", "health earlier", 0)}, nil, nil, []string{"drain fra health earlier"}},
		{"two PoPs, and room for one", seen("fra/wss", "dub/wss"), nil, nil, nil, []string{"drain fra " + began, "alert dub: 50 % of wss would be drained, max_drained is 34 %"}},
		{"the bound", seen("fra/wss"), nil, []pops.Intent{{ID: "d-2", Kind: pops.Drain, Class: pops.Person, Target: pops.Target{PoP: "dub"}}}, nil,
			[]string{"alert fra: 50 % of wss would be drained, max_drained is 34 %"}},
		{"well for long enough", seen(), []*drain.Entry{said("d-1", "fra", began, 0)}, nil, nil, []string{"lift d-1"}},
		{"not for long enough", seen(), []*drain.Entry{said("d-1", "fra", began, 0)}, nil, func(r *config.Automation) { r.RestoreAfter = 11 * time.Minute }, nil},
		{"after one flap", seen(), []*drain.Entry{said("d-0", "fra", "health x", time.Hour), said("d-1", "fra", began, 0)}, nil, nil, []string{"lift d-1"}},
		{"after two flaps", seen(), []*drain.Entry{said("d-0", "fra", "health x", time.Hour), said("d-9", "fra", "health y", 2*time.Hour), said("d-1", "fra", began, 0)}, nil, nil, nil},
		{"flaps of yesterday", seen(), []*drain.Entry{said("d-0", "fra", "health x", 25*time.Hour), said("d-9", "fra", "health y", 26*time.Hour), said("d-1", "fra", began, 0)}, nil, nil, []string{"lift d-1"}},
		{"a webhook's drain is not ours to lift", seen(), []*drain.Entry{said("d-1", "fra", "fingerprint", 0)}, nil, nil, nil},
	} {
		o := &outlook{now: moment(), rules: rules(), health: tt.health, entries: tt.entries, view: pops.NewView(fourPoPs(), pops.Input{Now: moment(), Intents: tt.drained})}
		if tt.rules != nil {
			tt.rules(&o.rules)
		}
		if diff := cmp.Diff(tt.want, told(automate(o))); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// In doubt nothing is given back.
func TestAutomateWaitsForCertainty(t *testing.T) {
	for _, doubt := range []func(*health.Status){
		func(s *health.Status) { s.Quorum = false },
		func(s *health.Status) { s.Gray = moment() },
		func(s *health.Status) { s.Known = false },
		func(s *health.Status) { s.Doubt = moment().Add(-4 * time.Minute) }, // all agree again, but not for long enough
	} {
		list := seen()
		doubt(&list[0])
		o := &outlook{now: moment(), rules: rules(), health: list, entries: []*drain.Entry{said("d-1", "fra", "health x", 0)}, view: pops.NewView(fourPoPs(), pops.Input{Now: moment()})}
		if got := told(automate(o)); got != nil {
			t.Errorf("%q", got)
		}
	}
}

// What a statement says: who saw what, and the way back.
func TestAutomateSays(t *testing.T) {
	o := &outlook{now: moment(), rules: rules(), health: seen("fra/wss"), view: pops.NewView(fourPoPs(), pops.Input{Now: moment()})}
	r := automate(o)[0].drain
	want := &drain.Request{
		Kind: pops.Drain, Target: pops.Target{PoP: "fra"}, By: 100, Author: "automation", Role: pops.Automation,
		Reason: "1 of 2 services are down: wss (status 503: n1; timeout: n2)", Outage: "health 2026-01-02T02:52:05Z",
		Evidence: []string{"n1: fra/wss: status 503", "n2: fra/wss: timeout"},
		Back:     drain.Way{Over: 4 * time.Minute, Steps: []float64{1, 10, 25, 50, 100}},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

// What the reason says of many nodes and errors is short.
func TestEvidence(t *testing.T) {
	for _, tt := range []struct {
		seen map[string][]string
		want string
	}{
		{nil, ""},
		{map[string][]string{"timeout": {"n3", "n1"}}, " (timeout: n1, n3)"},
		{map[string][]string{"timeout": {"n6", "n5", "n4", "n3", "n2", "n1"}}, " (timeout: n1, n2, n3, n4 and 2 more)"},
		{map[string][]string{"a": {"n1"}, "b": {"n2"}, "c": {"n3"}, "d": {"n4"}, "e": {"n5"}, "f": {"n6"}}, " (a: n1; b: n2; c: n3; d: n4; 2 other errors)"},
	} {
		if got := evidence(tt.seen); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// A drain that ends by itself is a flap, too: so webhooks' are that are held.
func TestFlaps(t *testing.T) {
	expired := said("a-1", "fra", "fingerprint", 0)
	expired.Expires = moment().Add(-time.Hour)
	yesterday := said("a-2", "fra", "fingerprint", 0)
	yesterday.Expires = moment().Add(-25 * time.Hour)
	entries := []*drain.Entry{expired, yesterday, said("a-3", "fra", "fingerprint", time.Minute), said("a-4", "fra", "fingerprint", 0), said("a-5", "fra", "health x", time.Minute), said("a-6", "dub", "fingerprint", time.Minute)}
	if n := flaps(entries, pops.Target{PoP: "fra"}, false, moment()); n != 2 {
		t.Errorf("%d flaps of a webhook, want 2", n)
	}
	if n := flaps(entries, pops.Target{PoP: "fra"}, true, moment()); n != 1 {
		t.Errorf("%d flaps of health, want 1", n)
	}
	r := rules()
	for n, want := range []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour} {
		if got := hold(&r, n); got != want {
			t.Errorf("after %d flaps: %s, want %s", n, got, want)
		}
	}
}

// A look at 5,000 endpoints, a tenth of which is down.
func BenchmarkAutomate(b *testing.B) {
	f := &pops.Fleet{}
	for s := range 10 {
		f.Services = append(f.Services, pops.Service{Name: fmt.Sprintf("s%d", s)})
	}
	var list []health.Status
	for p := range 500 {
		f.PoPs = append(f.PoPs, pops.PoP{Name: fmt.Sprintf("p%d", p)})
		for s := range 10 {
			f.Endpoints = append(f.Endpoints, pops.Endpoint{PoP: p, Service: s})
			list = append(list, health.Status{Target: fmt.Sprintf("p%d/s%d", p, s), Known: true, Quorum: true, Down: p%10 == 0, Since: moment()})
		}
	}
	view := pops.NewView(f, pops.Input{Now: moment()})
	b.ReportAllocs()
	for b.Loop() {
		automate(&outlook{now: moment(), rules: rules(), health: list, view: view})
	}
}

// An outage has the name of the first vote after the end of the one before: one node that goes on to vote down, or a service that has long been down, makes no outage that is over already.
func TestOutage(t *testing.T) {
	at := func(d time.Duration) time.Time { return moment().Add(-d) }
	vote := func(node string, since time.Duration) health.NodeVote {
		return health.NodeVote{Node: node, Fresh: true, Vote: health.Vote{Down: true, Since: at(since), Error: "timeout"}}
	}
	status := func(since time.Duration, votes ...health.NodeVote) []health.Status {
		list := seen()
		list[0].Down, list[0].Since, list[0].Votes = true, at(since), votes
		return list
	}
	beside := func(list []health.Status, since time.Duration, votes ...health.NodeVote) []health.Status {
		list[1].Down, list[1].Since, list[1].Votes = true, at(since), votes
		return list
	}
	const over = "alert fra: a-1 was lifted by alice at 2026-01-02T02:04:05Z, and it is the same outage still: I know better"
	lifted := []*drain.Entry{said("a-1", "fra", "health first", time.Hour), said("a-0", "fra", "health earlier", 2*time.Hour)}
	lifted[0].Lift.Author, lifted[0].Lift.Reason = "alice", "I know better"
	for _, tt := range []struct {
		name   string
		health []health.Status
		all    bool // both services make the PoP sick
		want   string
	}{
		{"all votes are new", status(time.Minute, vote("n1", 2*time.Minute), vote("n2", 3*time.Minute)), false, "drain fra health 2026-01-02T03:01:05Z"},
		{"one node has gone on", status(time.Minute, vote("n1", 5*time.Hour), vote("n2", 3*time.Minute), vote("n3", 2*time.Minute)), false, "drain fra health 2026-01-02T03:01:05Z"},
		{"a service was down before, and it takes both", beside(status(time.Minute, vote("n1", 2*time.Minute)), 5*time.Hour, vote("n1", 5*time.Hour)), true, "drain fra health 2026-01-02T03:02:05Z"},
		{"it was never up again", status(90*time.Minute, vote("n1", 90*time.Minute)), false, over},
		{"it was never up again, and all nodes have been restarted", status(90*time.Minute, vote("n1", time.Minute), vote("n2", time.Minute)), false, over},
		{"it was never up again, and this node is new", status(time.Minute, vote("n1", 90*time.Minute), vote("n2", 90*time.Minute), vote("n3", time.Minute)), false, over},
		{"it was never up again, and nobody can say", status(90 * time.Minute), false, over},
	} {
		o := &outlook{now: moment(), rules: rules(), health: tt.health, entries: lifted, view: pops.NewView(fourPoPs(), pops.Input{Now: moment()})}
		if tt.all {
			o.rules.PoPDown = 100
		}
		if diff := cmp.Diff([]string{tt.want}, told(automate(o))[:1]); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// However much is said of a sick PoP, the ledger takes it.
func TestAutomationFitsTheLedger(t *testing.T) {
	f, list := &pops.Fleet{PoPs: []pops.PoP{{Name: "fra"}, {Name: "dub"}, {Name: "iad"}}}, []health.Status(nil)
	for s := range 60 {
		f.Services = append(f.Services, pops.Service{Name: fmt.Sprintf("a-service-with-a-long-name-%d", s)})
		for p := range f.PoPs {
			f.Endpoints = append(f.Endpoints, pops.Endpoint{PoP: p, Service: s})
		}
		h := health.Status{Target: "fra/" + f.Services[s].Name, Known: true, Quorum: true, Down: true, Since: moment()}
		for n := range 5 {
			h.Votes = append(h.Votes, health.NodeVote{Node: fmt.Sprintf("ip-10-0-0-%d.eu-central-1.compute.internal", n), Fresh: true, Vote: health.Vote{
				Down: true, Since: moment(), Error: fmt.Sprintf("2001:db8:1111:2222:3333:4444:5555:%d: exit code 1: \x1b[31m%s", n, strings.Repeat("überlastet…", 12)),
			}})
		}
		list = append(list, h)
	}
	ledger, err := drain.New(drain.Config{Node: "n0", Dir: t.TempDir(), Fleet: func() *pops.Fleet { return f }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	deeds := automate(&outlook{now: moment(), rules: rules(), health: list, view: pops.NewView(f, pops.Input{Now: moment()})})
	if len(deeds) == 0 || deeds[0].drain == nil {
		t.Fatalf("%+v", deeds)
	}
	for _, d := range deeds {
		if d.drain == nil {
			continue
		}
		if _, err := ledger.Apply(*d.drain); err != nil {
			t.Errorf("%s: %v", d.target, err)
		}
	}
}
