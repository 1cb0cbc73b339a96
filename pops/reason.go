package pops

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind is what a statement does.
type Kind uint8

// The kinds of statements.
const (
	Drain Kind = iota + 1 // networks leave
	Shift                 // networks leave for another PoP
	Pin                   // automation, drills and health do not count
)

// Class is who stands behind a statement.
type Class uint8

// The classes of authors, strongest first.
const (
	Person Class = iota + 1
	Automation
	Drill
)

var (
	kinds   = [...]string{Drain: "drain", Shift: "shift", Pin: "pin"}
	classes = [...]string{Person: "person", Automation: "automation", Drill: "drill"}
)

// Valid says whether k is one of the kinds.
func (k Kind) Valid() bool { return k >= Drain && k <= Pin }

// Valid says whether c is one of the classes.
func (c Class) Valid() bool { return c >= Person && c <= Drill }

// String is "drain", "shift" or "pin".
func (k Kind) String() string { return word(kinds[:], int(k)) }

// String is "person", "automation" or "drill".
func (c Class) String() string { return word(classes[:], int(c)) }

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// MarshalText implements encoding.TextMarshaler.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Kind) UnmarshalText(b []byte) error {
	i, err := parse(kinds[:], "kind", b)
	*k = Kind(i)
	return err
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Class) UnmarshalText(b []byte) error {
	i, err := parse(classes[:], "class", b)
	*c = Class(i)
	return err
}

func word(words []string, i int) string {
	if i > 0 && i < len(words) {
		return words[i]
	}
	return strconv.Itoa(i)
}

func parse(words []string, what string, b []byte) (int, error) {
	for i := 1; i < len(words); i++ {
		if words[i] == string(b) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q: one of %s", what, b, strings.Join(words[1:], ", "))
}

// Intent is what a statement means at one moment, its ramp evaluated.
type Intent struct {
	ID     string // unique
	Kind   Kind
	Class  Class
	Target Target
	To     Target // of a shift: a PoP, or its endpoint of the target's service
	Share  Share  // what stays at the target; 100 for a pin
	Moving bool   // the share is about to change: a ramp is under way, or an end is near
	Author string // shown
	Note   string // its reason, shown
}

// Verdict is what health says of an endpoint. The zero Verdict is up, or nothing known: the whole share.
type Verdict struct {
	Down  bool
	Since time.Time // of the verdict: the earlier of two comes first when only some may be applied
	Note  string    // what the checks see, shown; "" if there is nothing to say
	Dead  uint64    // bit i: Endpoint.Addresses[i] fails its checks; an endpoint can be up with some of them dead
	// Wavers says that the verdict may soon be another: checks have begun to say otherwise, or the nodes disagree.
	Wavers bool
}

// Reason is one thing that bears on the share of a unit, and what became of it.
type Reason struct {
	Kind    Kind   // of the statement; 0: the verdict of the checks
	ID      string // of the statement
	Class   Class  // of the statement
	Author  string
	Note    string // the statement's reason; of a verdict, what the checks see
	Share   Share  // what it alone leaves
	To      Unit   // where a shift leads, else NoUnit
	Decides bool   // the lowest of those that apply: it set the share. A pin never decides
	Applied bool
	Why     string // if not applied: why
}

// String is the reason in one line, as in "drain d-7k2m by alice (person): 63 % stay, decides: fibre works".
func (r Reason) String() string {
	var b strings.Builder
	switch r.Kind {
	case 0:
		b.WriteString("health")
	default:
		fmt.Fprintf(&b, "%s %s by %s (%s)", r.Kind, r.ID, r.Author, r.Class)
	}
	if r.Kind != Pin {
		fmt.Fprintf(&b, ": %s %% stay", strconv.FormatFloat(float64(r.Share), 'f', -1, 64))
	}
	switch {
	case r.Decides:
		b.WriteString(", decides")
	case !r.Applied:
		b.WriteString(", not applied: " + r.Why)
	}
	if r.Note != "" {
		b.WriteString(": " + r.Note)
	}
	return b.String()
}
