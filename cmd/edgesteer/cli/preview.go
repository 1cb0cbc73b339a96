package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

// printer writes a change: before it is made what will happen, afterwards what was done.
type printer struct {
	*streams
	named string    // as --server has it; "": it need not be given again
	from  string    // the server
	now   time.Time // there
}

// movedRows is how many rows of a table of PoPs, or of networks, are written for people; programs get all.
const movedRows = 12

// preview writes what a change will do.
func (p *printer) preview(c *api.Change) {
	p.now = moment(c)
	p.title(c)
	if p.terminal {
		fmt.Fprintln(p.out)
	}
	rows, left := p.pops(c)
	p.section("pop", []string{"TARGET", ">SHARE", ">AFTER", ">ANSWERS", ">AFTER"}, rows)
	if left != "" {
		fmt.Fprintln(p.out, p.dim(left))
	}
	if p.terminal && len(rows) > 0 {
		fmt.Fprintln(p.out)
	}
	loads, known := p.loads(c)
	if known {
		p.section("load", []string{"LOAD", ">NOW", ">AFTER", ">PEAK", ">CAPACITY", ""}, loads)
		if p.terminal {
			fmt.Fprintln(p.out)
		}
	}
	if heavy, left := p.heavy(c); len(heavy) > 0 {
		p.section("network", []string{"NETWORK", ">OF THE TARGET", "FROM", "TO", "RECORD"}, heavy)
		if left != "" {
			fmt.Fprintln(p.out, p.dim(left))
		}
		if p.terminal {
			fmt.Fprintln(p.out)
		}
	}
	load, warnings := "", c.Warnings
	if !known && c.Effect != nil && len(c.Effect.PoPs) > 0 {
		load = "unknown: no fresh load is reported"
		warnings = slices.DeleteFunc(slices.Clone(warnings), func(w string) bool { return strings.HasPrefix(w, "load after the change is unknown") }) // of all of them
	}
	p.fields("answers", movedText(c), "load", load, "expires", p.expires(c), "undo", p.undo(unmade(c)), "server", p.from)
	if p.terminal && len(warnings)+len(c.Guards) > 0 {
		fmt.Fprintln(p.out)
	}
	p.warnings(warnings)
	p.guards(c.Guards)
	if p.terminal {
		fmt.Fprintln(p.out)
	}
}

// shownGuards is how many of the reasons why one guard rail breaks are written for people.
const shownGuards = 4

func (p *printer) guards(list []api.Guard) {
	times := map[api.GuardName]int{}
	for _, g := range list {
		times[g.Name]++
		if times[g.Name] > shownGuards {
			continue
		}
		text := fmt.Sprintf("guard rail %s: %s", g.Name, oneLine(g.Text))
		if g.Overridden {
			text += " (overridden)"
		}
		fmt.Fprintln(p.err, p.wrapped(2, text))
	}
	for _, g := range list {
		if n := times[g.Name] - shownGuards; n > 0 {
			fmt.Fprintf(p.err, "guard rail %s: ... and %d more\n", g.Name, n)
			times[g.Name] = 0
		}
	}
}

// moment is when the server computed a change: it is the latest that is in it.
func moment(c *api.Change) time.Time {
	var now time.Time
	for _, list := range [][]api.Statement{c.Statements, c.Ended} {
		for _, st := range list {
			if st.Made.After(now) {
				now = st.Made
			}
			if st.Lifted != nil && st.Lifted.Time.After(now) {
				now = st.Lifted.Time
			}
		}
	}
	return now
}

// title says what will be done: made, renewed, replaced, taken back, and what stays.
func (p *printer) title(c *api.Change) {
	for i := range c.Statements {
		st := &c.Statements[i]
		if renewed(c, st) {
			so := ""
			if k := slices.IndexFunc(c.Before, func(b api.Statement) bool { return b.ID == st.ID }); k >= 0 {
				so = ", so far: " + p.until(c.Before[k].End, p.now)
			}
			fmt.Fprintln(p.out, p.bold("another end for "+deed(st))+so)
			continue
		}
		fmt.Fprintln(p.out, p.bold(deed(st))+p.manner(st))
	}
	for i := range c.Ended {
		st := &c.Ended[i]
		word := "takes back"
		if st.State == api.StateReplaced || len(c.Statements) > 0 {
			word = "replaces"
		}
		fmt.Fprintln(p.out, p.wrapped(2, word+" "+p.said(st)))
		if l := st.Lifted; l != nil && l.Over > 0 {
			way := "the networks come back over " + l.Over.String()
			if len(l.Steps) > 0 {
				way += " in " + count(len(l.Steps), "step")
			}
			fmt.Fprintln(p.out, way)
		}
	}
	for i := range c.Remaining {
		fmt.Fprintln(p.out, p.wrapped(2, "still stands: "+p.said(&c.Remaining[i])))
	}
}

// renewed tells whether a change gives a statement another end, and nothing else.
func renewed(c *api.Change, st *api.Statement) bool { return st.Version > 1 && len(c.Ended) == 0 }

// manner is how a statement will come about.
func (p *printer) manner(st *api.Statement) string {
	s := ""
	if st.Start.After(p.now.Add(time.Second)) {
		s += ", from " + p.clock(st.Start, p.now)
	}
	if st.Ramp != nil && st.Ramp.Over > 0 {
		s += " over " + st.Ramp.Over.String()
		if len(st.Ramp.Steps) > 0 {
			s += " in " + count(len(st.Ramp.Steps), "step")
		}
	}
	if st.Restore > 0 {
		s += ", and back over " + st.Restore.String()
	}
	return s
}

// said is a statement that somebody made, with who, when and why.
func (p *printer) said(st *api.Statement) string {
	return fmt.Sprintf("%s %s, by %s %s ago: %s", st.ID, deed(st), who(st.Author, st.Class), api.Span(max(0, p.now.Sub(st.Made))), why(st.Reason, st.Ticket))
}

// pops are shares and parts of the answers: first what gets another share, then the PoPs whose answers change most.
func (p *printer) pops(c *api.Change) (rows [][]string, left string) {
	effects := map[string]api.PoPEffect{}
	var list []api.PoPEffect
	if c.Effect != nil {
		list = slices.Clone(c.Effect.PoPs)
		for _, e := range list {
			effects[e.PoP] = e
		}
	}
	for _, s := range c.Shares {
		row := []string{s.Target, p.share(s.Before), p.share(s.After), "", ""}
		pop, _, _ := strings.Cut(s.Target, "/")
		if e, ok := effects[pop]; ok { // of the first row of a PoP
			row[3], row[4] = p.part(e.AnswersBefore), p.part(e.AnswersAfter)
			delete(effects, pop)
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(list, func(a, b api.PoPEffect) int { return cmp.Compare(difference(b), difference(a)) })
	for _, e := range list {
		if _, ok := effects[e.PoP]; ok {
			rows = append(rows, []string{e.PoP, p.share(e.ShareBefore), p.share(e.ShareAfter), p.part(e.AnswersBefore), p.part(e.AnswersAfter)})
		}
	}
	if p.terminal && len(rows) > movedRows+1 {
		left = fmt.Sprintf("... and %d more", len(rows)-movedRows)
		rows = rows[:movedRows]
	}
	return rows, left
}

func difference(e api.PoPEffect) float64 {
	if e.AnswersBefore == nil || e.AnswersAfter == nil {
		return 0
	}
	return math.Abs(*e.AnswersAfter - *e.AnswersBefore)
}

// loads are those of endpoints; known is false if there is no figure among them.
func (p *printer) loads(c *api.Change) (rows [][]string, known bool) {
	if c.Effect == nil {
		return nil, false
	}
	for _, l := range c.Effect.Loads {
		over := ""
		peak := p.amount(l.Peak)
		if p.terminal && (l.Peak == nil || peak == p.amount(l.After)) {
			peak = "" // also when they differ by less than is written
		}
		if l.Over {
			over = "above capacity"
		}
		known = known || l.Before != nil || l.After != nil
		rows = append(rows, []string{l.PoP + "/" + l.Service, p.amount(l.Before), p.amount(l.After), peak, p.amount(l.Capacity), over})
	}
	return rows, known
}

// heavy are single networks: how much of the target's traffic each moves, by asking for which record.
func (p *printer) heavy(c *api.Change) (rows [][]string, left string) {
	if c.Effect == nil {
		return nil, ""
	}
	for _, h := range c.Effect.Heavy {
		rows = append(rows, []string{h.Network, p.part(&h.Percent), cmp.Or(h.From, "none"), cmp.Or(h.To, "none"), h.Record})
	}
	if p.terminal && len(rows) > movedRows+1 {
		left = fmt.Sprintf("... and %d more", len(rows)-movedRows)
		rows = rows[:movedRows]
	}
	return rows, left
}

// movedText says how much moves, and by which traffic: an average that needs some minutes to show a new rate.
func movedText(c *api.Change) string {
	switch e := c.Effect; {
	case e == nil:
		return ""
	case e.Moved == 0:
		return "stay as they are"
	case e.Queries == 0:
		return api.Percent(e.Moved) + " go elsewhere"
	default:
		return fmt.Sprintf("%s go elsewhere, by %s queries a second (5-minute average)", api.Percent(e.Moved), api.Short(e.Queries))
	}
}

func (p *printer) expires(c *api.Change) string {
	if len(c.Statements) == 0 {
		return ""
	}
	return p.until(c.Expires, p.now)
}

// undo is the command that takes a change back, for the same server.
func (p *printer) undo(commands string) string {
	if commands == "" || p.named == "" {
		return commands
	}
	list := strings.Split(commands, " && ")
	for i := range list {
		list[i] += " --server " + quoted(p.named)
	}
	return strings.Join(list, " && ")
}

// unmade is how a change can be undone that was not made: its statements have no names yet.
func unmade(c *api.Change) string {
	s := c.Undo
	if c.DryRun {
		for _, st := range c.Statements {
			if renewed(c, &st) {
				continue // it keeps its name
			}
			s = strings.ReplaceAll(s, "undo "+st.ID, "undo "+string(st.Kind))
			s = strings.ReplaceAll(s, "--id "+st.ID, "--id ID")
		}
	}
	return s
}

// quoted is a word for a shell.
func quoted(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n'\"\\$`&|;<>()*?[]#~!{}") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func (p *printer) warnings(list []string) {
	for _, w := range list {
		fmt.Fprintln(p.err, p.wrapped(2, "warning: "+oneLine(w)))
	}
}

// done writes what was done; what the preview has said already is not said again.
func (p *printer) done(c, preview *api.Change) {
	p.now = moment(c)
	what, node := "done", ""
	if c.Repeated {
		what = "was done before"
	}
	var pairs []string
	for i := range c.Statements {
		st := &c.Statements[i]
		node = st.Node
		pairs = append(pairs, what, st.ID+" "+deed(st))
	}
	for i := range c.Ended {
		st := &c.Ended[i]
		word, coming := "taken back", ""
		if len(c.Statements) > 0 {
			word = "replaced"
		}
		if st.State == api.StateRestoring {
			coming = ", the networks are coming back"
		}
		if node == "" && st.Lifted != nil {
			node = st.Lifted.Node
		}
		pairs = append(pairs, word, st.ID+" "+deed(st)+coming)
	}
	pairs = append(pairs, p.nodes(c, node)...)
	pairs = append(pairs, "expires", p.expires(c), "undo", p.undo(c.Undo))
	p.fields(pairs...)
	p.warnings(slices.DeleteFunc(slices.Clone(c.Warnings), func(w string) bool { return slices.Contains(preview.Warnings, w) }))
}

// nodes says of each node whether its answers obey; of the one that was asked, whether its disk has it, too.
func (p *printer) nodes(c *api.Change, asked string) (pairs []string) {
	disk := ", and has it on its disk"
	if !c.Durable {
		disk = p.bold(", but does NOT have it on its disk")
	}
	list := c.Nodes
	if !slices.ContainsFunc(list, func(n api.Applied) bool { return n.Node == asked }) {
		list = append([]api.Applied{{Node: asked, Applied: true}}, list...)
	}
	for _, n := range list {
		text := n.Node + " obeys"
		if !n.Applied {
			text = n.Node + " does not obey yet"
		}
		if n.Node == asked {
			text += disk
		}
		if n.Error != "" {
			text += ": " + n.Error
		}
		pairs = append(pairs, "node", text)
	}
	return pairs
}
