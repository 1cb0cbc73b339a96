package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
)

// TestUndo checks the commands that lead back: to the shares of the moment, and on from there.
func TestUndo(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	fra := pops.Target{PoP: "fra"}
	made := func(id string, by float64, change ...func(*drain.Entry)) *drain.Entry {
		e := &drain.Entry{Statement: drain.Statement{
			ID: id, Kind: pops.Drain, Target: fra, By: by, Author: "ann", Role: pops.Person, Version: 1,
			Created: now.Add(-time.Hour), Expires: now.Add(7 * time.Hour), Ramp: pops.Ramp{From: 100, To: pops.Share(100 - by)},
		}}
		for _, c := range change {
			c(e)
		}
		return e
	}
	fresh := func(e *drain.Entry) { e.Created, e.Expires = now, now.Add(8*time.Hour) }
	replaces := func(id string) func(*drain.Entry) { return func(e *drain.Entry) { e.Version, e.Replaces = 2, id } }
	ramp := func(start time.Duration, over time.Duration, steps ...float64) func(*drain.Entry) {
		return func(e *drain.Entry) { e.Ramp.Start, e.Ramp.Over, e.Ramp.Steps = now.Add(start), over, steps }
	}
	scheduled := func(e *drain.Entry) {
		e.Start, e.Expires, e.Ramp.Start = now.Add(2*time.Hour), now.Add(5*time.Hour), now.Add(2*time.Hour)
	}
	until := func(end time.Duration) func(*drain.Entry) {
		return func(e *drain.Entry) { e.Expires, e.Version = now.Add(end), e.Version+1 }
	}
	lifted := func(e *drain.Entry) *drain.Entry {
		c := *e
		c.Lift = &drain.Lift{At: now, Author: "bob", Role: pops.Person, Stamp: drain.Stamp{Wall: now.UnixMilli(), Node: "a"}}
		return &c
	}
	first, second := made("d-1", 100), made("d-2", 20, replaces("d-1"))
	shift := made("s-1", 50, func(e *drain.Entry) { e.Kind, e.To, e.Ticket = pops.Shift, pops.Target{PoP: "dub"}, "NET-1" })
	auto := made("a-1", 100, func(e *drain.Entry) { e.Role, e.Author, e.Back.Over = pops.Automation, "auto", 5*time.Minute })
	for _, test := range []struct {
		name       string
		before     []*drain.Entry
		made       []*drain.Entry
		ended      []*drain.Entry
		want, note string
	}{
		{name: "new", made: []*drain.Entry{made("d-2", 20, fresh)}, want: "restore fra --reason 'undo d-2'"},
		{name: "new beside another", before: []*drain.Entry{auto}, made: []*drain.Entry{made("d-2", 20, fresh)}, want: "restore --id d-2 --reason 'undo d-2'"},
		{name: "replaced", before: []*drain.Entry{first}, made: []*drain.Entry{second}, ended: []*drain.Entry{lifted(first)}, want: "drain fra --for 7h0m --reason 'undo d-2'"},
		{name: "renewed after it replaced another", before: []*drain.Entry{lifted(first), second}, made: []*drain.Entry{made("d-2", 20, replaces("d-1"), until(20*time.Hour))}, want: "renew fra --for 7h0m"},
		{name: "one of two renewed", before: []*drain.Entry{second, shift}, made: []*drain.Entry{made("d-2", 20, until(20*time.Hour))}, want: "renew --id d-2 --for 7h0m"},
		{name: "scheduled, renewed", before: []*drain.Entry{made("d-1", 20, scheduled)}, made: []*drain.Entry{made("d-1", 20, scheduled, until(20*time.Hour))}, want: "renew fra --for 3h0m"},
		{
			name: "scheduled, lifted", before: []*drain.Entry{made("d-1", 37, scheduled, ramp(2*time.Hour, 10*time.Minute, 50, 100))}, ended: []*drain.Entry{lifted(made("d-1", 37, scheduled))},
			want: "drain fra --by 37% --start 2026-03-01T14:00:00Z --over 10m --steps 50%,100% --for 3h0m --reason 'undo lift of d-1'",
		},
		{
			name: "scheduled, replaced", before: []*drain.Entry{made("d-1", 37, scheduled)}, made: []*drain.Entry{second}, ended: []*drain.Entry{lifted(made("d-1", 37, scheduled))},
			want: "restore fra --reason 'undo d-2' --now && drain fra --by 37% --start 2026-03-01T14:00:00Z --for 3h0m --reason 'undo d-2'",
		},
		{
			name: "under way", before: []*drain.Entry{made("d-1", 100, ramp(-20*time.Minute, 50*time.Minute))}, made: []*drain.Entry{second},
			want: "drain fra --by 40% --for 7h0m --reason 'undo d-2' && drain fra --over 30m --for 7h0m --reason 'undo d-2'",
		},
		{
			name: "steps under way", before: []*drain.Entry{made("d-1", 100, ramp(-5*time.Minute, 30*time.Minute, 10, 20, 60, 100))}, ended: []*drain.Entry{lifted(first)},
			want: "drain fra --by 10% --for 7h0m --reason 'undo lift of d-1' && drain fra --start 2026-03-01T12:05:00Z --over 20m --steps 11.11%,55.56%,100% --for 6h55m --reason 'undo lift of d-1'",
		},
		{name: "a shift with a ticket", before: []*drain.Entry{shift}, ended: []*drain.Entry{lifted(shift)}, want: "shift fra dub --by 50% --for 7h0m --reason 'undo lift of s-1' --ticket NET-1"},
		{
			name: "of automation", before: []*drain.Entry{auto}, ended: []*drain.Entry{lifted(auto)}, want: "drain fra --for 7h0m --back 5m --reason 'undo lift of a-1'",
			note: "a-1 was made by auto (automation); the undo makes a drain of yours",
		},
		{
			name: "two replaced by one", before: []*drain.Entry{first, made("d-2", 20)}, made: []*drain.Entry{made("d-3", 10, replaces("d-2"))}, ended: []*drain.Entry{lifted(made("d-2", 20)), lifted(first)}, want: "drain fra --for 7h0m --reason 'undo d-3'",
			note: "the undo makes one drain of fra, that by 100%: several stood there",
		},
		{
			name: "two of one target", before: []*drain.Entry{first, second}, ended: []*drain.Entry{lifted(first), lifted(second)}, want: "drain fra --for 7h0m --reason 'undo lift of d-1'",
			note: "the undo makes one drain of fra, that by 100%: several stood there",
		},
		{
			name: "guard rails", before: []*drain.Entry{made("d-1", 100, func(e *drain.Entry) { e.Override = []string{"half", "volatile"} })}, ended: []*drain.Entry{lifted(first)},
			want: "drain fra --for 7h0m --override half --reason 'undo lift of d-1'",
		},
		{
			name: "hurried", before: []*drain.Entry{{Statement: first.Statement, Lift: &drain.Lift{At: now.Add(-time.Minute), Back: drain.Way{Over: time.Hour}}}}, ended: []*drain.Entry{lifted(first)},
			note: "no command undoes that fra comes back at once: d-1 had ended before",
		},
	} {
		got, notes := undo(&drain.Result{Statements: test.made, Ended: test.ended}, test.before, now)
		if diff := cmp.Diff(test.want, strings.ReplaceAll(got, "edgesteer ", "")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.name, diff)
		}
		if note := strings.Join(notes, "; "); note != test.note {
			t.Errorf("%s: note %q, want %q", test.name, note, test.note)
		}
	}
	if got, _ := undo(&drain.Result{Statements: []*drain.Entry{second}, Repeated: true}, nil, now); got != "" {
		t.Errorf("of what was done before: %s", got)
	}
}
