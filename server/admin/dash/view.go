package dash

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

// State is what is to be seen of a PoP or an endpoint at a glance. Its name is a class of the style sheet.
type State string

// The states, the one that needs a person most first.
const (
	Down    State = "down"    // health has taken it out
	Gray    State = "gray"    // the nodes disagree about its health
	Drained State = "drained" // a statement has taken it out
	Leaving State = "leaving" // a statement takes a part
	Sheds   State = "sheds"   // it turns networks away because of its load
	Up      State = "up"
)

// Label is the state in a word or two.
func (s State) Label() string {
	return map[State]string{Down: "down", Gray: "in doubt", Drained: "drained", Leaving: "partly drained", Sheds: "sheds load", Up: "serves"}[s]
}

// rank orders states, that which needs a person most first.
func (s State) rank() int { return slices.Index(states(), s) }

func states() []State { return []State{Down, Gray, Drained, Leaving, Sheds, Up} }

// picture is all that the live part of the page shows.
type picture struct {
	Caller     *api.Caller
	Status     *api.Status
	PoPs       []marker
	Rows       []row
	More       int // endpoints that are still to come
	Statements []said
	Legend     []count
	Peers      []api.Peer
	History    historyPart
	Warnings   []warning
	Names      []string // of steered records, without the final dot
}

// FirstName is one of the names that can be explained, "" if there are none.
func (p *picture) FirstName() string {
	if len(p.Names) == 0 {
		return ""
	}
	return p.Names[0]
}

// CanAct tells whether the levers are for who looks.
func (p *picture) CanAct() bool { return p.Caller.Role == api.RoleOperator }

// Serving is how many PoPs may serve all of their networks, or a part.
func (p *picture) Serving() (n int) {
	for _, c := range p.Legend {
		if c.State != Down && c.State != Drained {
			n += c.N
		}
	}
	return n
}

// Alive is how many nodes of the fleet are.
func (p *picture) Alive() (n int) {
	for i := range p.Peers {
		if p.Peers[i].State == "alive" {
			n++
		}
	}
	return n
}

// Behind is how many nodes obey other statements than this one.
func (p *picture) Behind() (n int) {
	for i := range p.Peers {
		if p.Peers[i].Behind {
			n++
		}
	}
	return n
}

// warning is what a person should look at.
type warning struct {
	Text string
	Calm bool // it needs nobody
}

// firstStart begins the warning of a node that has never had statements: every node starts so once.
const firstStart = "no_state: "

// count is how many PoPs are in a state.
type count struct {
	State State
	N     int
}

// marker is a PoP on the map.
type marker struct {
	Name  string
	X, Y  float64
	State State
	Share float64
	Text  string // all of it in a line
	Label label
}

// label is where the name of a PoP stands, seen from it.
type label struct {
	Shown  bool // it fits
	Anchor string
	X, Y   float64
}

// row is an endpoint of the table. The first of a PoP carries what is said of the whole PoP.
type row struct {
	PoP, Service string
	First        bool // of its PoP
	Several      bool // its PoP has other endpoints
	Place        string
	State        State
	Share        float64
	ShiftTo      string
	Load         *gauge
	Health       *votes
	Why          []string
	CanLift      string // id of the statement that decides, "" if none does
}

// Target is the endpoint as orders name it.
func (r *row) Target() string {
	if r.Several {
		return r.PoP + "/" + r.Service
	}
	return r.PoP
}

// gauge is a load against its watermarks and its capacity, as a drawing 100 wide.
type gauge struct {
	Width     float64
	Low, High float64 // where the watermarks stand; 0: there are none
	Capacity  float64 // where the capacity stands; 0: unknown
	Class     string  // "", "above" the low watermark, or "over" the capacity or the high one
	Text      string
	More      string // the rest, which the drawing shows
	Stale     bool
}

// votes is what the nodes believe of an endpoint.
type votes struct {
	Class string // a State
	Text  string
	Lines []string // by node
}

// said is a statement, for people.
type said struct {
	api.Statement
	What, Who, Why, Until string
	Now                   string // how far its ramp is; "" if it is over
	CanRenew              bool
}

// newPicture puts together what the API says.
func newPicture(who *api.Caller, st *api.Status, health *api.Health, peers *api.Peers) *picture {
	p := &picture{Caller: who, Status: st, Peers: peers.Peers}
	beliefs := map[string]*api.EndpointHealth{}
	for i := range health.Endpoints {
		beliefs[health.Endpoints[i].Target] = &health.Endpoints[i]
	}
	n := map[State]int{}
	for i := range st.PoPs {
		pop := &st.PoPs[i]
		rows := popRows(pop, beliefs, st.Time)
		state := Up
		for k := range rows {
			if rows[k].State.rank() < state.rank() {
				state = rows[k].State
			}
		}
		if len(rows) == 0 {
			state = stateOf(pop.Share, pop.Why, 0)
		}
		n[state]++
		p.Rows = append(p.Rows, rows...)
		if pop.Latitude != nil && pop.Longitude != nil {
			p.PoPs = append(p.PoPs, newMarker(pop, state))
		}
	}
	placeNames(p.PoPs)
	for _, s := range states() {
		if n[s] > 0 {
			p.Legend = append(p.Legend, count{s, n[s]})
		}
	}
	for i := range st.Statements {
		p.Statements = append(p.Statements, newSaid(&st.Statements[i], st.Time))
	}
	for _, text := range st.NotReady {
		p.Warnings = append(p.Warnings, warning{Text: "not ready: " + text})
	}
	if !st.Ledger.Durable {
		p.Warnings = append(p.Warnings, warning{Text: "the disk refuses statements: " + st.Ledger.Error})
	}
	for _, text := range st.Warnings {
		if !st.Ledger.Durable && strings.HasSuffix(text, st.Ledger.Error) {
			continue // has been said
		}
		text, calm := strings.CutPrefix(text, firstStart)
		p.Warnings = append(p.Warnings, warning{text, calm})
	}
	return p
}

func popRows(pop *api.PoP, beliefs map[string]*api.EndpointHealth, now time.Time) []row {
	rows := make([]row, 0, len(pop.Endpoints))
	for i := range pop.Endpoints {
		e := &pop.Endpoints[i]
		r := row{
			PoP: pop.Name, Service: e.Service, First: i == 0, Several: len(pop.Endpoints) > 1, Place: place(pop),
			State: stateOf(e.Share, e.Why, e.Shed), Share: e.Share, ShiftTo: e.ShiftTo, Load: newGauge(e), Why: reasons(e, now),
		}
		if h := beliefs[pop.Name+"/"+e.Service]; h != nil {
			r.Health = newVotes(h)
			if h.Gray && r.State.rank() > Gray.rank() {
				r.State = Gray
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// stateOf is what a share and what set it mean.
func stateOf(share float64, why []api.Reason, shed float64) State {
	byHealth := slices.ContainsFunc(why, func(r api.Reason) bool { return r.Kind == api.KindHealth && r.Applied && r.Share == 0 })
	switch {
	case byHealth:
		return Down
	case share == 0:
		return Drained
	case share < 100:
		return Leaving
	case shed > 0:
		return Sheds
	}
	return Up
}

func place(pop *api.PoP) string {
	switch {
	case len(pop.Subdivision) > 0:
		return strings.Join(pop.Subdivision, ", ")
	case len(pop.Country) > 0:
		return strings.Join(pop.Country, ", ")
	}
	return strings.Join(pop.Georegion, ", ")
}

// reasons are all that bears on an endpoint, what decides first.
func reasons(e *api.Endpoint, now time.Time) (out []string) {
	for i := range e.Why {
		r := &e.Why[i]
		text := "health: " + r.Text
		if r.Kind != api.KindHealth {
			text = string(r.Kind)
			if r.ShiftTo != "" {
				text += " to " + r.ShiftTo
			}
			text += " by " + author(r.Author, r.Class) + ": " + r.Text
			if r.End != nil {
				text += ", until " + clock(*r.End, now)
			}
		}
		if !r.Applied {
			text += " (does not count: " + r.Why + ")"
		}
		out = append(out, text)
	}
	if e.Shed > 0 {
		out = append(out, "shed_load turns away "+api.Percent(e.Shed)+" of the networks")
	}
	down := 0
	for _, a := range e.Addresses {
		if a.Down {
			down++
		}
	}
	if down > 0 && down < len(e.Addresses) {
		out = append(out, fmt.Sprintf("%d of %d addresses down", down, len(e.Addresses)))
	}
	return out
}

func author(name string, class api.Class) string {
	if class == "" || class == api.ClassPerson || name == string(class) {
		return name
	}
	return name + " (" + string(class) + ")"
}

// clock is a moment in UTC, with the date unless that is today.
func clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04 UTC")
	}
	return t.Format("2006-01-02 15:04 UTC")
}

func newMarker(pop *api.PoP, state State) marker {
	m := marker{Name: pop.Name, State: state, Share: pop.Share}
	m.X, m.Y = project(*pop.Latitude, *pop.Longitude)
	m.X, m.Y = math.Round(m.X), math.Round(m.Y)
	m.Text = pop.Name + ": " + state.Label()
	if pop.Share < 100 {
		m.Text += ", may serve " + api.Percent(pop.Share) + " of its networks"
	}
	return m
}

// Names on the map, in its units; a letter is about half as wide as it is high.
const (
	nameHeight = 22.0
	nameGap    = 12.0
)

// placeNames finds out on which side of its PoP each name fits, those of the states first that need a person. Names that fit nowhere are left out: the table has them.
func placeNames(list []marker) {
	type box struct{ left, top, right, bottom float64 }
	var taken []box
	free := func(b box) bool {
		return b.left > 0 && b.right < mapWidth && b.top > 0 && !slices.ContainsFunc(taken, func(o box) bool {
			return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
		})
	}
	for i := range list {
		taken = append(taken, box{list[i].X - 9, list[i].Y - 9, list[i].X + 9, list[i].Y + 9})
	}
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return list[a].State.rank() - list[b].State.rank() })
	for _, i := range order {
		m := &list[i]
		wide := float64(len(m.Name)) * nameHeight * 0.56
		for _, at := range []struct {
			anchor string
			x, y   float64 // of the anchor, on the middle of the line
			left   float64 // of the box
		}{
			{"start", nameGap, 0, nameGap},
			{"end", -nameGap, 0, -nameGap - wide},
			{"middle", 0, nameGap + nameHeight/2, -wide / 2},
			{"middle", 0, -nameGap - nameHeight/2, -wide / 2},
		} {
			b := box{m.X + at.left, m.Y + at.y - nameHeight/2, m.X + at.left + wide, m.Y + at.y + nameHeight/2}
			if free(b) {
				taken = append(taken, b)
				m.Label = label{true, at.anchor, at.x, at.y + nameHeight/3}
				break
			}
		}
	}
}

// newGauge draws the load of an endpoint; nil if nothing is known of it.
func newGauge(e *api.Endpoint) *gauge {
	l := e.Load
	if l == nil || l.Value == nil && e.Capacity == nil {
		return nil
	}
	g := &gauge{Stale: l.Stale, Text: "unknown"}
	value := 0.0
	if l.Value != nil {
		value = *l.Value
		g.Text = api.Amount(value)
	}
	whole := max(value, 1)
	for _, f := range []*float64{e.Capacity, l.High} {
		if f != nil {
			whole = max(whole, *f)
		}
	}
	at := func(f *float64) float64 {
		if f == nil {
			return 0
		}
		return math.Round(1000**f/whole) / 10
	}
	g.Width, g.Low, g.High, g.Capacity = at(&value), at(l.Low), at(l.High), at(e.Capacity)
	if e.Capacity != nil {
		g.Text += " of " + api.Amount(*e.Capacity)
	}
	switch {
	case e.Capacity != nil && value > *e.Capacity, l.High != nil && value >= *l.High:
		g.Class = "over"
	case l.Low != nil && value > *l.Low:
		g.Class = "above"
	}
	if l.Low != nil && l.High != nil {
		g.More = fmt.Sprintf(" %s, sheds from %s to %s", l.Metric, api.Amount(*l.Low), api.Amount(*l.High))
	}
	if l.Stale && l.Value != nil {
		g.Text += " (old)"
	}
	return g
}

// newVotes describes what the nodes believe.
func newVotes(h *api.EndpointHealth) *votes {
	v := &votes{Class: string(Up)}
	up := h.Fresh - h.Against
	switch {
	case h.Verdict == api.HealthUnknown:
		v.Class, v.Text = string(Sheds), "not known yet"
	case h.Gray:
		v.Class, v.Text = string(Gray), fmt.Sprintf("%d of %d up: in doubt, stays %s", up, h.Fresh, h.Verdict)
	case h.Verdict == api.HealthDown:
		v.Class, v.Text = string(Down), fmt.Sprintf("%d of %d down", h.Against, h.Fresh)
	default:
		v.Text = fmt.Sprintf("%d of %d up", up, h.Fresh)
	}
	for _, vote := range h.Votes {
		line := vote.Node + ": up"
		if vote.Down {
			line = vote.Node + ": down"
		}
		if vote.Error != "" {
			line += ", " + vote.Error
		}
		if !vote.Counts {
			line += " (does not count: " + vote.Why + ")"
		}
		v.Lines = append(v.Lines, line)
	}
	return v
}

func newSaid(st *api.Statement, now time.Time) said {
	s := said{Statement: *st, What: what(st.Kind, st.Target, st.To, st.By), Who: author(st.Author, st.Class), Why: st.Reason, CanRenew: st.End != nil && st.State != api.StateRestoring}
	if st.Ticket != "" {
		s.Why += " (" + st.Ticket + ")"
	}
	switch {
	case st.State == api.StateScheduled:
		s.Until = "from " + clock(st.Start, now)
	case st.State == api.StateRestoring:
		s.Until = "coming back"
	case st.End == nil:
		s.Until = "for ever"
	default:
		s.Until = "until " + clock(*st.End, now) + ", in " + api.Span(st.End.Sub(now))
	}
	if left := 100 - st.Share; st.Kind != api.KindPin && st.State != api.StateScheduled && left != st.By {
		s.Now = "now " + api.Percent(left)
	}
	return s
}

// what is a statement in few words: drain of eu-west-1 by 37 %.
func what(kind api.Kind, target, to string, by float64) string {
	text := string(kind) + " of " + target
	if to != "" {
		text += " to " + to
	}
	if kind != api.KindPin && by > 0 {
		text += " by " + api.Percent(by)
	}
	return text
}
