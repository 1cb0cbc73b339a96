package pops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Everywhere is the PoP of a target that means one service at every PoP.
const Everywhere = "*"

// Target is what a statement is about: POP (all that is there), POP/SERVICE (one endpoint) or */SERVICE (one service everywhere). It is comparable; the zero Target is none.
type Target struct {
	PoP     string // Everywhere for */SERVICE
	Service string // "" for a whole PoP
}

// ParseTarget reads POP, POP/SERVICE or */SERVICE. It knows the form only: see Fleet.Check for whether it exists.
func ParseTarget(s string) (Target, error) {
	pop, service, both := strings.Cut(s, "/")
	switch {
	case s == "":
		return Target{}, fmt.Errorf("empty target: give POP, POP/SERVICE or */SERVICE")
	case pop == Everywhere && (!both || service == Everywhere):
		return Target{}, fmt.Errorf("target %q: everything cannot be a target; give POP, POP/SERVICE or */SERVICE", s)
	case service == Everywhere:
		return Target{}, fmt.Errorf("target %q: a whole PoP is written %q", s, pop)
	}
	if pop != Everywhere {
		if err := CheckName(pop); err != nil {
			return Target{}, fmt.Errorf("target %q: %w", s, err)
		}
	}
	if both {
		if err := CheckName(service); err != nil {
			return Target{}, fmt.Errorf("target %q: %w", s, err)
		}
	}
	return Target{PoP: pop, Service: service}, nil
}

// CheckName says whether a PoP or a service may bear a name: 1 to 128 octets, no "/", "*", space or control character, so that every one can be a target.
func CheckName(name string) error {
	if name == "" {
		return fmt.Errorf("empty name")
	}
	if len(name) > 128 {
		return fmt.Errorf("name %q... is longer than 128 octets", name[:32])
	}
	for _, r := range name {
		if r == '/' || r == '*' || r == unicode.ReplacementChar || unicode.IsSpace(r) || unicode.IsControl(r) {
			return fmt.Errorf("name %q holds %q", name, r)
		}
	}
	return nil
}

// String is the target as people write it.
func (t Target) String() string {
	if t.Service == "" {
		return t.PoP
	}
	return t.PoP + "/" + t.Service
}

// Touches says whether two targets can have an endpoint in common.
func (t Target) Touches(o Target) bool {
	return (t.PoP == o.PoP || t.PoP == Everywhere || o.PoP == Everywhere) && (t.Service == o.Service || t.Service == "" || o.Service == "")
}

// MarshalText implements encoding.TextMarshaler.
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; it accepts what ParseTarget does, and nothing as the zero Target.
func (t *Target) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*t = Target{}
		return nil
	}
	*t, err = ParseTarget(string(b))
	return err
}

// UnknownError says that a target names something that does not exist.
type UnknownError struct {
	Kind string   // "PoP", "service" or "endpoint"
	Name string   // what was asked for
	Near []string // targets that were perhaps meant, best first, in the form that can be used instead; perhaps none
}

func (e *UnknownError) Error() string {
	s := fmt.Sprintf("unknown %s %q", e.Kind, e.Name)
	if len(e.Near) > 0 {
		quoted := make([]string, len(e.Near))
		for i, n := range e.Near {
			quoted[i] = fmt.Sprintf("%q", n)
		}
		s += ": did you mean " + strings.Join(quoted, " or ") + "?"
	}
	return s
}

// ParseTarget reads a target and checks that it exists: the error may be an *UnknownError.
func (f *Fleet) ParseTarget(s string) (Target, error) {
	t, err := ParseTarget(s)
	if err != nil {
		return Target{}, err
	}
	return t, f.Check(t)
}

// Check says whether a target names something that exists; if not, the error is an *UnknownError.
func (f *Fleet) Check(t Target) error {
	var pops, services []string
	for i := range f.PoPs {
		pops = append(pops, f.PoPs[i].Name)
	}
	for i := range f.Services {
		services = append(services, f.Services[i].Name)
	}
	pop, service := f.FindPoP(t.PoP), f.FindService(t.Service)
	if t.PoP != Everywhere && pop < 0 {
		unknown := &UnknownError{Kind: "PoP", Name: t.PoP}
		if t.Service == "" && f.FindService(t.PoP) >= 0 {
			unknown.Near = []string{Everywhere + "/" + t.PoP}
			return unknown
		}
		for _, n := range Similar(t.PoP, pops) {
			unknown.Near = append(unknown.Near, Target{PoP: n, Service: t.Service}.String())
		}
		return unknown
	}
	if t.Service == "" {
		return nil
	}
	if service < 0 {
		unknown := &UnknownError{Kind: "service", Name: t.Service}
		for _, n := range Similar(t.Service, services) {
			unknown.Near = append(unknown.Near, Target{PoP: t.PoP, Service: n}.String())
		}
		return unknown
	}
	if len(f.Match(t)) > 0 {
		return nil
	}
	unknown := &UnknownError{Kind: "endpoint", Name: t.String()}
	for i := range f.Endpoints {
		if e := &f.Endpoints[i]; (e.PoP == pop || e.Service == service) && len(unknown.Near) < maxNear {
			unknown.Near = append(unknown.Near, f.UnitTarget(Unit(i)).String())
		}
	}
	return unknown
}

// Match gives the units that a target covers, lowest first: of a PoP all its endpoints and the PoP itself, else endpoints only. Nothing if it names nothing that exists.
func (f *Fleet) Match(t Target) []Unit {
	pop, service := f.FindPoP(t.PoP), f.FindService(t.Service)
	if (t.PoP != Everywhere && pop < 0) || (t.Service != "" && service < 0) || (t.PoP == Everywhere && t.Service == "") {
		return nil
	}
	var units []Unit
	for i := range f.Endpoints {
		if e := &f.Endpoints[i]; (t.PoP == Everywhere || e.PoP == pop) && (t.Service == "" || e.Service == service) {
			units = append(units, f.EndpointUnit(i))
		}
	}
	if t.Service == "" {
		units = append(units, f.PoPUnit(pop))
	}
	return units
}

const maxNear = 3

// Similar gives up to three of the known names that somebody may have meant, best first; only the one that differs by nothing but case, if there is such.
func Similar(name string, known []string) []string {
	type guess struct {
		name string
		far  int
	}
	var guesses []guess
	lower := strings.ToLower(name)
	for _, k := range known {
		l := strings.ToLower(k)
		if l == lower && k != name {
			return []string{k} // only the case is wrong
		}
		far := distance(lower, l)
		if len(lower) >= 2 && strings.Contains(l, lower) { // a part of it was typed
			far = 1
		}
		if far <= max(2, len(k)/3) && far < max(len(name), len(k)) {
			guesses = append(guesses, guess{k, far})
		}
	}
	slices.SortStableFunc(guesses, func(a, b guess) int { return cmp.Compare(a.far, b.far) })
	var names []string
	for _, g := range guesses[:min(len(guesses), maxNear)] {
		names = append(names, g.name)
	}
	return names
}

// distance is the Levenshtein distance of two names, in octets.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
