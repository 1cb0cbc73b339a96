package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/edgesteer/edgesteer/server/api"
)

// share is a percentage of networks.
func (s *streams) share(f float64) string {
	if !s.terminal {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return api.Percent(f)
}

// part is a percentage that is perhaps not known. All parts of a column have one decimal on a terminal, so that their points stand below each other.
func (s *streams) part(f *float64) string {
	switch {
	case f == nil:
		return "unknown"
	case !s.terminal:
		return strconv.FormatFloat(*f, 'f', 3, 64)
	}
	return fmt.Sprintf("%.1f %%", *f)
}

// amount is a load or a capacity: 950, 81.2k, 1.25M on a terminal, the whole number for programs.
func (s *streams) amount(f *float64) string {
	switch {
	case f == nil:
		return "unknown"
	case !s.terminal:
		return strconv.FormatFloat(*f, 'f', -1, 64)
	}
	return api.Amount(*f)
}

// clock is a moment in UTC, with the date unless that is now's.
func (s *streams) clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	switch {
	case !s.terminal:
		return t.Truncate(time.Second).Format(time.RFC3339)
	case t.Truncate(24 * time.Hour).Equal(now.Truncate(24 * time.Hour)):
		return t.Format("15:04 UTC")
	}
	return t.Format("2006-01-02 15:04 UTC")
}

// until is when something ends; nil: never.
func (s *streams) until(t *time.Time, now time.Time) string {
	switch {
	case t == nil:
		return "never"
	case !s.terminal:
		return s.clock(*t, now)
	}
	return s.clock(*t, now) + ", in " + api.Span(t.Sub(now))
}

// deed is a statement in few words: drain of eu-west-1 by 37 %.
func deed(st *api.Statement) string {
	return string(st.Kind) + " of " + object(st.Target, st.To, st.Kind, st.By)
}

func object(target, to string, kind api.Kind, by float64) string {
	target, to = oneLine(target), oneLine(to)
	if to != "" {
		target += " to " + to
	}
	if kind != api.KindPin && by > 0 {
		target += " by " + api.Percent(by)
	}
	return target
}

// oneLine is a text from outside without what would break a line, or move the cursor of a terminal: Unicode's control characters, and those that turn the direction of writing.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	}), " ")
}

// who is the author of a statement, with what they are unless it is a person.
func who(author string, class api.Class) string {
	author = oneLine(author)
	if class == api.ClassPerson || class == "" {
		return author
	}
	return author + " (" + string(class) + ")"
}

// why is a reason and its ticket.
func why(reason, ticket string) string {
	reason, ticket = oneLine(reason), oneLine(ticket)
	if ticket == "" {
		return reason
	}
	if reason == "" {
		return ticket
	}
	return reason + " (" + ticket + ")"
}
