package drain

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/pops"
)

// TestRefusedRequests: each bad input has its code, its words and, where there is something to do, its hint. Nothing changes, and the history has it.
func TestRefusedRequests(t *testing.T) {
	with := func(r Request, change func(*Request)) Request {
		change(&r)
		return r
	}
	tests := []struct {
		name    string
		request Request
		code    Code
		message string
		hint    string
	}{
		{"unknown PoP", drain("fraa", 100), Unknown, `unknown PoP "fraa": did you mean "fra"?`, ""},
		{"unknown service", drain("fra/envoy-ws", 100), Unknown, `unknown service "envoy-ws": did you mean "fra/envoy-wss"?`, ""},
		{"unknown service everywhere", drain("*/envoy", 100), Unknown, `unknown service "envoy": did you mean "*/envoy-wss" or "*/envoy-edge"?`, ""},
		{"a service that is not served there", drain("sin/envoy-edge", 100), Unknown, `unknown endpoint "sin/envoy-edge": did you mean "sin/envoy-wss" or "iad/envoy-edge" or "fra/envoy-edge"?`, ""},
		{"no target", with(drain("fra", 100), func(r *Request) { r.Target = pops.Target{} }), Invalid, "no target given", "give POP, POP/SERVICE or */SERVICE"},
		{"no kind", with(drain("fra", 100), func(r *Request) { r.Kind = 0 }), Invalid, "unknown kind of statement", ""},
		{"no author", with(drain("fra", 100), func(r *Request) { r.Author = " " }), Invalid, "no author given", ""},
		{"no role", with(drain("fra", 100), func(r *Request) { r.Role = 0 }), Invalid, "no role given", ""},
		{"no reason", with(drain("fra", 100), func(r *Request) { r.Reason = " \n" }), Invalid, "no reason given", `say why: --reason "fibre works, INC-123"`},
		{"reason too long", with(drain("fra", 100), func(r *Request) { r.Reason = strings.Repeat("x", 4097) }), Invalid, "the reason has 4097 octets, at most 4096 are kept", ""},
		{"reason with an escape sequence", with(drain("fra", 100), func(r *Request) { r.Reason = "\x1b[31m" }), Invalid, "the reason holds a control character or is not UTF-8", ""},
		{"ticket with a newline", with(drain("fra", 100), func(r *Request) { r.Ticket = "a\nb" }), Invalid, `"a\nb" holds a control character`, ""},
		{"long key", with(drain("fra", 100), func(r *Request) { r.Key = strings.Repeat("k", 300) }), Invalid, `"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"... has 300 octets, at most 256 are kept`, ""},
		{"nothing leaves", drain("fra", 0), Invalid, "a drain by 0% does nothing", "to give everything back: edgesteer restore fra"},
		{"half a percent", drain("fra", 0.5), Invalid, "a drain by 0.5%: only whole percents can be asked for", "say --by 1%"},
		{"37.5 percent", drain("fra", 37.5), Invalid, "a drain by 37.5%: only whole percents can be asked for", "say --by 38%"},
		{"less than nothing", drain("fra", -1), Invalid, "a drain by -1% is not between 1% and 100%", ""},
		{"more than all", drain("fra", 101), Invalid, "a drain by 101% is not between 1% and 100%", ""},
		{"no number", drain("fra", math.NaN()), Invalid, "a drain by NaN% is not between 1% and 100%", ""},
		{"too short", with(drain("fra", 100), func(r *Request) { r.For = 59 * time.Second }), Invalid, "an expiry of 59s is not between 1m0s and 72h0m0s", ""},
		{"too long", with(drain("fra", 100), func(r *Request) { r.For = 73 * time.Hour }), Invalid, "an expiry of 73h0m0s is not between 1m0s and 72h0m0s", "for longer say --for forever"},
		{"negative", with(drain("fra", 100), func(r *Request) { r.For = -time.Hour }), Invalid, "an expiry of -1h0m0s is not between 1m0s and 72h0m0s", ""},
		{"for ever and an hour", with(drain("fra", 100), func(r *Request) { r.For, r.Forever = time.Hour, true }), Invalid, "both an expiry and none were asked for", ""},
		{"automation for ever", with(automation("fra", "o"), func(r *Request) { r.Forever = true }), Forbidden, "only a person can make a statement that never expires, this is automation", ""},
		{"a start long ago", with(drain("fra", 100), func(r *Request) { r.Start = noon.Add(-2 * time.Minute) }), Invalid, "a start at 2026-03-01T11:58:00Z is not within 30 days from now (2026-03-01T12:00:00Z)", ""},
		{"a start next year", with(drain("fra", 100), func(r *Request) { r.Start = noon.AddDate(1, 0, 0) }), Invalid, "a start at 2027-03-01T12:00:00Z is not within 30 days from now (2026-03-01T12:00:00Z)", ""},
		{"a ramp longer than the drain", with(drain("fra", 100), func(r *Request) { r.Over.Over, r.For = time.Hour, time.Hour }), Invalid, "the ramp takes 1h0m0s, but the statement expires after 1h0m0s", ""},
		{"a ramp with bad steps", with(drain("fra", 100), func(r *Request) { r.Over = Way{time.Hour, []float64{50, 10}} }), Invalid, "ramp: the last step of a ramp is 100%", ""},
		{"a ramp back of a week", with(drain("fra", 100), func(r *Request) { r.Back.Over = 168 * time.Hour }), Invalid, "ramp back: a ramp of 168h0m0s is longer than 72h0m0s", ""},
		{"unknown override", with(drain("fra", 100), func(r *Request) { r.Override = []string{"all"} }), Invalid, `unknown override "all": one of capacity, half, last, volatile`, ""},
		{"automation overrides", with(automation("fra", "o"), func(r *Request) { r.Override = []string{"last"} }), Forbidden, "only a person can override a guard rail, this is automation", ""},
		{"automation pins", with(pin("fra"), func(r *Request) { r.Role = pops.Automation }), Forbidden, "a pin cannot be made by automation", ""},
		{"a drill shifts", with(shift("fra", "iad"), func(r *Request) { r.Role = pops.Drill }), Forbidden, "a shift cannot be made by drill", ""},
		{"a pin by half", with(pin("fra"), func(r *Request) { r.By = 50 }), Invalid, "a pin takes no percentage", ""},
		{"a drain to somewhere", with(drain("fra", 100), func(r *Request) { r.To = target("iad") }), Invalid, "only a shift leads to another PoP", ""},
		{"a shift to itself", shift("fra", "fra"), Invalid, "a shift from fra to itself", ""},
		{"a shift to nowhere", shift("fra", "iadd"), Unknown, `unknown PoP "iadd": did you mean "iad"?`, ""},
		{"a shift of a service everywhere", shift("*/envoy-wss", "iad"), Invalid, "a shift leads from one PoP to another, not from or to */SERVICE", ""},
		{"a shift of a PoP to an endpoint", shift("fra", "iad/envoy-wss"), Invalid, "iad/envoy-wss takes no networks of fra: a shift keeps the service", "edgesteer shift fra/envoy-wss iad/envoy-wss"},
		{"a shift to another service", shift("fra/envoy-edge", "iad/envoy-wss"), Invalid, "iad/envoy-wss takes no networks of fra/envoy-edge: a shift keeps the service", "edgesteer shift fra/envoy-wss iad/envoy-wss"},
		{"a shift to where the service is not", shift("fra/envoy-edge", "sin"), Unknown, `unknown endpoint "sin/envoy-edge": did you mean "sin/envoy-wss" or "iad/envoy-edge" or "fra/envoy-edge"?`, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t, "a")
			_, err := n.Apply(test.request)
			bad := refused(t, err)
			if diff := cmp.Diff([]string{string(test.code), test.message, test.hint}, []string{string(bad.Code), bad.Message, bad.Hint}); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			n.want("")
			h := n.History(Query{Limit: 1})
			if len(h) != 1 || h[0].Op != Refused || h[0].Code != test.code || h[0].Message != test.message {
				t.Errorf("history: %+v", h)
			}
			n.restart(true)
			if h := n.History(Query{Limit: 1}); len(h) != 1 || h[0].Op != Refused {
				t.Errorf("history after a restart: %+v, problems %v", h, n.Problems())
			}
		})
	}
}

func TestRefusedLifts(t *testing.T) {
	with := func(r LiftRequest, change func(*LiftRequest)) LiftRequest {
		change(&r)
		return r
	}
	n := newNode(t, "a")
	d := n.apply(drain("fra", 100))
	for _, test := range []struct {
		name    string
		request LiftRequest
		code    Code
		message string
		hint    string
	}{
		{"no reason", with(restore("fra"), func(r *LiftRequest) { r.Reason = "" }), Invalid, "no reason given", `say why: --reason "fibre works, INC-123"`},
		{"neither target nor id", LiftRequest{Author: "bob", Role: pops.Person, Reason: "r"}, Invalid, "give a target or the ids of statements, one of the two", ""},
		{"both target and id", with(restore("fra"), func(r *LiftRequest) { r.IDs = []string{d.ID} }), Invalid, "give a target or the ids of statements, one of the two", ""},
		{"unknown id", with(restore("fra"), func(r *LiftRequest) { r.Target, r.IDs = pops.Target{}, []string{"d-x"} }), Unknown, `unknown statement "d-x"`, "see edgesteer status"},
		{"unknown PoP", restore("fraa"), Unknown, `unknown PoP "fraa": did you mean "fra"?`, ""},
		{"nothing there", restore("iad"), Unknown, "nothing stands for iad", ""},
		{"something wider is there", restore("fra/envoy-wss"), Unknown, "nothing stands for fra/envoy-wss, but it is touched by drain " + d.ID + " of fra by ann", "edgesteer restore fra"},
		{"automation lifts a person's", with(restore("fra"), func(r *LiftRequest) { r.Role, r.Target, r.IDs = pops.Automation, pops.Target{}, []string{d.ID} }), Forbidden, "drain " + d.ID + " is by ann (person): automation cannot change it", ""},
		{"automation lifts a person's by target", with(restore("fra"), func(r *LiftRequest) { r.Role = pops.Automation }), Unknown, "nothing stands for fra, but it is touched by drain " + d.ID + " of fra by ann", "edgesteer restore fra"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := n.Lift(test.request)
			bad := refused(t, err)
			if diff := cmp.Diff([]string{string(test.code), test.message, test.hint}, []string{string(bad.Code), bad.Message, bad.Hint}); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			n.want("fra 0")
		})
	}
}

// TestRefusalIsClean: what is refused for its control characters is not recorded with them.
func TestRefusalIsClean(t *testing.T) {
	n := newNode(t, "a")
	r := drain("fra", 100)
	r.Author, r.Reason, r.Ticket = "\x1b[31mroot\nbob", "x\u009b2J", "T\x00"
	if _, err := n.Apply(r); refused(t, err).Code != Invalid {
		t.Error(err)
	}
	h := n.History(Query{Limit: 1})[0]
	for _, s := range []string{h.Author, h.Reason, h.Ticket, h.Message} {
		if !clean(s, "") {
			t.Errorf("recorded: %q", s)
		}
	}
	if h.Author != " [31mroot bob" {
		t.Errorf("author %q", h.Author)
	}
}

// TestReplacedIsSaid: the end of a statement that another takes the place of is in the history as that of who made the other.
func TestReplacedIsSaid(t *testing.T) {
	n := newNode(t, "a")
	first := n.apply(drain("fra", 100))
	r := drain("fra", 20)
	r.Author, r.Reason = "bob", "half is fine"
	second := n.apply(r)
	h := n.History(Query{ID: first.ID, Limit: 1})[0]
	if h.Op != LiftedOp || h.Author != "bob" || h.Reason != "half is fine" || h.Message != "replaced by bob: drain "+second.ID {
		t.Errorf("%+v", h)
	}
}
