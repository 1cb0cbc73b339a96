package admin

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

// undoing makes the commands that lead back to what was before a change.
type undoing struct {
	before   map[string]*drain.Entry
	now      time.Time
	commands []string
	notes    []string // what no command can bring back
}

// undo gives the commands that take back what was done, and says what they cannot bring back; before are the statements as they were. "" if there is nothing to take back.
func undo(r *drain.Result, before []*drain.Entry, now time.Time) (commands string, notes []string) {
	if r.Repeated {
		return "", nil
	}
	u := undoing{before: map[string]*drain.Entry{}, now: now}
	for _, e := range before {
		u.before[e.ID] = e
	}
	for _, e := range r.Statements {
		switch old, replaced := u.before[e.ID], u.before[e.Replaces]; {
		case old != nil && !e.Expires.Equal(old.Expires):
			u.renew(old)
		case old != nil:
			u.again(old, nil, e.ID)
		case replaced != nil:
			u.again(u.least(r.Ended, replaced), e, e.ID)
		default:
			u.add(u.restore(e)...)
		}
	}
	if len(r.Statements) == 0 {
		u.lifted(r.Ended)
	}
	return strings.Join(u.commands, " && "), u.notes
}

// least is of the statements that a new one has ended that which left least; one is that whose place it has. No more than one of them can be made again.
func (u *undoing) least(ended []*drain.Entry, one *drain.Entry) *drain.Entry {
	for _, e := range ended {
		if old := u.before[e.ID]; old != nil && old.Ramp.To < one.Ramp.To {
			one = old
		}
	}
	if len(ended) > 1 {
		u.note("the undo makes one %s of %s, that by %s: several stood there", one.Kind, one.Target, percent(one.By))
	}
	return one
}

func (u *undoing) add(words ...string) { u.commands = append(u.commands, command(words...)) }

func (u *undoing) note(format string, args ...any) {
	u.notes = append(u.notes, fmt.Sprintf(format, args...))
}

// alone tells whether nothing but e, and the statements named, stands for exactly its target, so that the target means it.
func (u *undoing) alone(e *drain.Entry, ids ...string) bool {
	for _, o := range u.before {
		if o.Target == e.Target && o.ID != e.ID && !slices.Contains(ids, o.ID) && (o.Live(u.now) || o.Phase(u.now) == drain.Restoring) {
			return false
		}
	}
	return true
}

// restore is the command that lifts a new statement, and nothing else of its target.
func (u *undoing) restore(e *drain.Entry) []string {
	if u.alone(e, e.Replaces) {
		return []string{"restore", e.Target.String(), "--reason", "undo " + e.ID}
	}
	return []string{"restore", "--id", e.ID, "--reason", "undo " + e.ID}
}

// renew is the command that gives a statement its old end.
func (u *undoing) renew(old *drain.Entry) {
	if u.alone(old) {
		u.add("renew", old.Target.String(), "--for", u.left(old))
		return
	}
	u.add("renew", "--id", old.ID, "--for", u.left(old))
}

// lifted leads back to before a lift. Of several statements of one kind and target one command after the other would replace the one before: the one that leaves least is made again.
func (u *undoing) lifted(ended []*drain.Entry) {
	type place struct {
		kind   pops.Kind
		target pops.Target
	}
	least := map[place]*drain.Entry{}
	var order []place
	for _, e := range ended {
		old := u.before[e.ID]
		if old == nil || old.Lift != nil && old.Lift.Stamp == e.Lift.Stamp {
			continue
		}
		if !old.Live(u.now) {
			u.note("no command undoes that %s comes back at once: %s had ended before", old.Target, old.ID)
			continue
		}
		at := place{old.Kind, old.Target}
		other, twice := least[at]
		switch {
		case !twice:
			order = append(order, at)
			least[at] = old
			continue
		case old.Ramp.To < other.Ramp.To:
			least[at] = old
		}
		u.note("the undo makes one %s of %s, that by %s: several stood there", old.Kind, old.Target, percent(least[at].By))
	}
	for _, at := range order {
		u.again(least[at], nil, "lift of "+least[at].ID)
	}
}

// again makes a statement as it was, with the share that it had, for the time that it had left. in is the statement that has its place, nil if none has.
func (u *undoing) again(old, in *drain.Entry, of string) {
	if old.Role != pops.Person {
		u.note("%s was made by %s (%s); the undo makes a %s of yours", old.ID, old.Author, old.Role, old.Kind)
	}
	words, begin := u.course(old)
	if u.unfinished(old) { // there is a share to go on from
		switch gone := math.Round(100 - float64(old.Share(u.now))); {
		case gone >= 1:
			u.add(append(u.what(old, gone), "--for", lasting(old.Expires, u.now), "--reason", "undo "+of)...)
		case in != nil:
			u.add(append(u.restore(in), "--now")...)
		}
	}
	words = append(append(u.what(old, old.By), words...), "--for", lasting(old.Expires, begin))
	if old.Back.Over > 0 {
		words = append(words, "--back", api.Duration(old.Back.Over).String())
	}
	if named := slices.DeleteFunc(slices.Clone(old.Override), func(w string) bool { return w == drain.Volatile }); len(named) > 0 {
		words = append(words, "--override", strings.Join(named, ","))
	}
	words = append(words, "--reason", "undo "+of)
	if old.Ticket != "" {
		words = append(words, "--ticket", old.Ticket)
	}
	u.add(words...)
}

// what is a statement: drain fra --by 37%.
func (u *undoing) what(e *drain.Entry, by float64) []string {
	words := []string{e.Kind.String(), e.Target.String()}
	if e.Kind == pops.Shift {
		words = append(words, pops.Target{PoP: e.To.PoP}.String())
	}
	if e.Kind != pops.Pin && by != 100 {
		words = append(words, "--by", percent(by))
	}
	return words
}

// unfinished tells whether a statement has yet to begin, or is on its way.
func (u *undoing) unfinished(e *drain.Entry) bool {
	return e.Start.After(u.now) || e.Ramp.Over > 0 && e.Ramp.End().After(u.now)
}

// course is when a statement begins and the way that its share has yet to go. Steps go on at the moment of the next one.
func (u *undoing) course(e *drain.Entry) (words []string, begin time.Time) {
	r := e.Ramp
	begin = u.now
	switch {
	case e.Start.After(u.now):
		begin = e.Start
		words = []string{"--start", begin.Format(time.RFC3339)}
		if r.Over > 0 {
			words = append(words, "--over", api.Duration(r.Over).String())
			words = append(words, steps(r.Steps)...)
		}
	case r.Over == 0 || !r.End().After(u.now):
	case len(r.Steps) == 0:
		words = []string{"--over", api.Duration(max(time.Second, r.End().Sub(u.now).Round(time.Second))).String()}
	default:
		begin = r.Next(u.now)
		from := r.Share(u.now)
		var rest []float64
		for at := begin; !at.IsZero(); at = r.Next(at) {
			if way := math.Round(float64((r.Share(at)-from)/(r.To-from)*10000)) / 100; len(rest) == 0 || way > rest[len(rest)-1] {
				rest = append(rest, way)
			}
		}
		words = []string{"--start", begin.Format(time.RFC3339)}
		if over := r.End().Sub(begin).Round(time.Second); over > 0 && len(rest) > 1 {
			words = append(words, "--over", api.Duration(over).String())
			words = append(words, steps(rest)...)
		}
	}
	return words, begin
}

func steps(ways []float64) []string {
	if len(ways) == 0 {
		return nil
	}
	var words []string
	for _, w := range ways {
		words = append(words, percent(w))
	}
	return []string{"--steps", strings.Join(words, ",")}
}

func percent(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) + "%" }

// left is how long a statement has still to go, as --for takes it: from its start, if that is to come.
func (u *undoing) left(e *drain.Entry) string {
	if e.Start.After(u.now) {
		return lasting(e.Expires, e.Start)
	}
	return lasting(e.Expires, u.now)
}

func lasting(end, from time.Time) string {
	if end.IsZero() {
		return "forever"
	}
	minutes := max(drain.MinFor, min(end.Sub(from).Round(time.Minute), drain.MaxFor))
	return strings.TrimSuffix(minutes.String(), "0s")
}

// command is a line that can be pasted into a shell.
func command(words ...string) string {
	var b strings.Builder
	b.WriteString("edgesteer")
	for _, w := range words {
		b.WriteByte(' ')
		plain := w != "" && !strings.ContainsFunc(w, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./%,:=+@", r))
		})
		if plain {
			b.WriteString(w)
		} else {
			b.WriteString("'" + strings.ReplaceAll(w, "'", `'\''`) + "'")
		}
	}
	return b.String()
}
