package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is something wrong with a file.
type Problem struct {
	File    string // "" if it is about no file
	Line    int    // from 1; 0 if not known
	Field   string // as Field writes it; may be empty
	Message string // lower case, no full stop
	Hint    string // what to do; may be empty
	Warning bool   // worth a look, but nothing is refused
	Kept    bool   // a warning all the same: on its account something keeps its old version
}

// String is the form that editors understand: "edgesteer.toml:12: zone[0].name: message (hint: ...)".
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	if p.Field != "" {
		b.WriteString(p.Field)
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		fmt.Fprintf(&b, " (hint: %s)", p.Hint)
	}
	return b.String()
}

// Problems is the error of a configuration that cannot be served: all that is wrong, a line each.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Failed tells whether a problem is more than a warning.
func Failed(ps []Problem) bool {
	return slices.ContainsFunc(ps, func(p Problem) bool { return !p.Warning })
}

// Tidy puts problems in the order of the files, each once: what checks a thing that is used twice may find a mistake twice.
func Tidy(ps []Problem) []Problem {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	seen := map[Problem]bool{}
	return slices.DeleteFunc(ps, func(p Problem) bool {
		again := seen[p]
		seen[p] = true
		return again
	})
}

// Field writes a path as problems show it: ("zone", 0, "name") is zone[0].name.
func Field(path ...any) string {
	var b strings.Builder
	for _, p := range path {
		switch p := p.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", p)
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			if bare(p) {
				b.WriteString(p)
			} else {
				b.WriteString(strconv.Quote(p))
			}
		}
	}
	return b.String()
}

func bare(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(r rune) bool { return !isBare(r) })
}

// DidYouMean is the hint for a word that is none of those known: a question with the nearest, or a list if they are few, or "".
func DidYouMean(word string, known []string) string {
	best, distance := "", 1+max(1, len(word)/3)
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := editDistance(strings.ToLower(word), strings.ToLower(k)); d < distance {
			best, distance = k, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf("did you mean %q?", best)
	case len(known) > 0 && len(known) <= 12:
		return "known: " + strings.Join(slices.Compact(slices.Sorted(slices.Values(known))), ", ")
	}
	return ""
}

// editDistance counts inserted, deleted, replaced and swapped neighbouring octets.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
