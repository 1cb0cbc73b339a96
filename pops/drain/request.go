package drain

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/edgesteer/edgesteer/pops"
)

// Bounds of what may be said (steering.md section 4).
const (
	DefaultFor = 8 * time.Hour
	MinFor     = time.Minute
	MaxFor     = 72 * time.Hour
	maxReason  = 4096 // octets
	maxShort   = 256  // octets of author, ticket, outage, key
	maxAhead   = 30 * 24 * time.Hour
)

// Volatile is the override that lets a statement be accepted while the disk refuses it: it is in force, and told to the peers, but gone if this process ends before the disk works.
const Volatile = "volatile"

// Overrides are the words that Request.Override may hold: the guard rails of steering.md section 7, and Volatile.
var overrides = []string{"capacity", "half", "last", Volatile}

// Request is a statement that somebody wants to make.
type Request struct {
	Kind   pops.Kind
	Target pops.Target
	To     pops.Target // of a shift
	By     float64     // percent of networks that leave, whole, 1..100; 0 for a pin. There is no default: 0 is refused

	Author string     // required
	Role   pops.Class // required
	Reason string     // required, at most 4096 octets
	Ticket string

	Start   time.Time     // zero: now; at most 30 days ahead
	For     time.Duration // from the start; 0: 8 h; 1 min to 72 h
	Forever bool          // instead of For; persons only
	Over    Way           // how the share gets there; zero: at once
	Back    Way           // how it comes back when it expires, or is lifted by someone who does not say how

	Outage   string   // automation: what this is about, the same on every node (for a webhook: fingerprint + startsAt)
	Evidence []string // automation: what was seen; merged by union
	Override []string // guard rails to go past, by name; persons only
	Key      string   // idempotency key: the same request by the same author with the same key is made once
	DryRun   bool     // only say what would happen
}

// LiftRequest ends statements. It lifts what its node knows, and says what that was.
type LiftRequest struct {
	Target pops.Target // all that stands for exactly this target, or
	IDs    []string    // these statements
	Author string      // required
	Role   pops.Class  // required: automation lifts automation's, drills lift drills', a person lifts anything
	Reason string      // required
	Ticket string
	Back   Way  // how the share comes back; zero: as the statement said
	Now    bool // at once, whatever the statement said
	// Override may name Volatile.
	Override []string
	Key      string
	DryRun   bool
}

// RenewRequest gives statements another end.
type RenewRequest struct {
	Target   pops.Target // all that stands for exactly this target, or
	IDs      []string    // these statements
	Author   string      // required
	Role     pops.Class  // required, as for a lift
	Reason   string
	For      time.Duration // from now, or from a start that is to come; 0: 8 h
	Forever  bool          // persons only
	Override []string      // may name Volatile
	Key      string
	DryRun   bool
}

// Code says what kind of refusal it is.
type Code string

// The codes of refusals.
const (
	Invalid   Code = "invalid"   // the request itself is wrong
	Unknown   Code = "unknown"   // the target or the statement does not exist
	Conflict  Code = "conflict"  // another statement stands against it
	Guard     Code = "guard"     // a guard rail
	Forbidden Code = "forbidden" // the role may not
	Disk      Code = "disk"      // it cannot be kept
)

var codes = []Code{Invalid, Unknown, Conflict, Guard, Forbidden, Disk}

// Refusal is the error of an operation that was not accepted: nothing has changed.
type Refusal struct {
	Code    Code
	Message string
	Hint    string   // what to do instead, perhaps a command; "" if there is nothing
	IDs     []string // the statements that it names
	Near    []string // targets that were perhaps meant
	Report  *Report  // of a guard rail
	Err     error    // what is behind it, nil if nothing
}

func (r *Refusal) Error() string { return r.Message }

// Unwrap gives what is behind it.
func (r *Refusal) Unwrap() error { return r.Err }

func invalid(hint, format string, args ...any) *Refusal {
	return &Refusal{Code: Invalid, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// checkWho refuses what every operation must say of itself and does not.
func checkWho(author string, role pops.Class, reason string, required bool, short ...string) *Refusal {
	switch {
	case strings.TrimSpace(author) == "":
		return invalid("", "no author given")
	case !role.Valid():
		return invalid("", "no role given")
	case required && strings.TrimSpace(reason) == "":
		return invalid("say why: --reason \"fibre works, INC-123\"", "no reason given")
	case len(reason) > maxReason:
		return invalid("", "the reason has %d octets, at most %d are kept", len(reason), maxReason)
	}
	for _, s := range append(short, author) {
		if len(s) > maxShort {
			return invalid("", "%q... has %d octets, at most %d are kept", s[:32], len(s), maxShort)
		}
		if !clean(s, "") {
			return invalid("", "%q holds a control character", s)
		}
	}
	if !clean(reason, "\n\t") {
		return invalid("", "the reason holds a control character or is not UTF-8")
	}
	return nil
}

func clean(s, allowed string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune(allowed, r) })
}

// checkFor gives how long something is to last; 0 for ever.
func checkFor(d time.Duration, forever bool, role pops.Class) (time.Duration, *Refusal) {
	switch {
	case forever && d != 0:
		return 0, invalid("", "both an expiry and none were asked for")
	case forever && role != pops.Person:
		return 0, &Refusal{Code: Forbidden, Message: fmt.Sprintf("only a person can make a statement that never expires, this is %s", role)}
	case forever:
		return 0, nil
	case d == 0:
		return DefaultFor, nil
	case d < MinFor || d > MaxFor:
		hint := ""
		if d > MaxFor {
			hint = "for longer say --for forever"
		}
		return 0, invalid(hint, "an expiry of %v is not between %v and %v", d, MinFor, MaxFor)
	}
	return d, nil
}

func checkOverride(words []string, role pops.Class) *Refusal {
	for _, w := range words {
		if !slices.Contains(overrides, w) {
			return invalid("", "unknown override %q: one of %s", w, strings.Join(overrides, ", "))
		}
	}
	if len(words) > 0 && role != pops.Person {
		return &Refusal{Code: Forbidden, Message: fmt.Sprintf("only a person can override a guard rail, this is %s", role)}
	}
	return nil
}

func (w Way) check(what string) *Refusal {
	if err := (pops.Ramp{To: 100, Over: w.Over, Steps: w.Steps}).Check(); err != nil {
		return invalid("", "%s: %v", what, err)
	}
	if w.Over > MaxFor {
		return invalid("", "%s: a ramp of %v is longer than %v", what, w.Over, MaxFor)
	}
	return nil
}

// check refuses what is wrong with a request whatever else stands, and gives its duration; 0 for ever.
func (r *Request) check(fleet *pops.Fleet, now time.Time) (time.Duration, *Refusal) {
	if !r.Kind.Valid() {
		return 0, invalid("", "unknown kind of statement")
	}
	if bad := checkWho(r.Author, r.Role, r.Reason, true, append([]string{r.Ticket, r.Outage, r.Key}, r.Evidence...)...); bad != nil {
		return 0, bad
	}
	if r.Role != pops.Person && r.Kind == pops.Pin || r.Role == pops.Drill && r.Kind != pops.Drain {
		return 0, &Refusal{Code: Forbidden, Message: fmt.Sprintf("a %s cannot be made by %s", r.Kind, r.Role)}
	}
	if bad := r.checkTargets(fleet); bad != nil {
		return 0, bad
	}
	if bad := r.checkBy(); bad != nil {
		return 0, bad
	}
	if bad := checkOverride(r.Override, r.Role); bad != nil {
		return 0, bad
	}
	last, bad := checkFor(r.For, r.Forever, r.Role)
	if bad != nil {
		return 0, bad
	}
	if bad := r.Over.check("ramp"); bad != nil {
		return 0, bad
	}
	if bad := r.Back.check("ramp back"); bad != nil {
		return 0, bad
	}
	if last > 0 && r.Over.Over >= last {
		return 0, invalid("", "the ramp takes %v, but the statement expires after %v", r.Over.Over, last)
	}
	if !r.Start.IsZero() && (r.Start.Before(now.Add(-time.Minute)) || r.Start.After(now.Add(maxAhead))) {
		return 0, invalid("", "a start at %s is not within 30 days from now (%s)", r.Start.UTC().Format(time.RFC3339), now.Format(time.RFC3339))
	}
	return last, nil
}

func (r *Request) checkBy() *Refusal {
	switch {
	case r.Kind == pops.Pin && r.By != 0:
		return invalid("", "a pin takes no percentage")
	case r.Kind == pops.Pin:
		return nil
	case r.By == 0:
		return invalid("to give everything back: edgesteer restore "+r.Target.String(), "a %s by 0%% does nothing", r.Kind)
	case !(r.By > 0 && r.By <= 100):
		return invalid("", "a %s by %v%% is not between 1%% and 100%%", r.Kind, r.By)
	case r.By != math.Trunc(r.By):
		return invalid(fmt.Sprintf("say --by %.0f%%", max(1, math.Round(r.By))), "a %s by %v%%: only whole percents can be asked for", r.Kind, r.By)
	}
	return nil
}

func (r *Request) checkTargets(fleet *pops.Fleet) *Refusal {
	if bad := checkTarget(fleet, r.Target); bad != nil {
		return bad
	}
	if r.Kind != pops.Shift {
		if r.To != (pops.Target{}) {
			return invalid("", "only a shift leads to another PoP")
		}
		return nil
	}
	if bad := checkTarget(fleet, r.To); bad != nil {
		return bad
	}
	switch {
	case r.Target.PoP == pops.Everywhere || r.To.PoP == pops.Everywhere:
		return invalid("", "a shift leads from one PoP to another, not from or to %s/SERVICE", pops.Everywhere)
	case r.Target.PoP == r.To.PoP:
		return invalid("", "a shift from %s to itself", r.Target.PoP)
	case r.To.Service != "" && r.To.Service != r.Target.Service:
		return invalid(fmt.Sprintf("edgesteer shift %s %s", pops.Target{PoP: r.Target.PoP, Service: r.To.Service}, r.To), "%s takes no networks of %s: a shift keeps the service", r.To, r.Target)
	}
	for _, u := range fleet.Match(r.Target) {
		if e, ok := fleet.Endpoint(u); ok && fleet.FindEndpoint(fleet.FindPoP(r.To.PoP), fleet.Endpoints[e].Service) >= 0 {
			return nil
		}
	}
	return invalid("", "nothing that %s serves is served at %s", r.Target, r.To.PoP)
}

func checkTarget(fleet *pops.Fleet, t pops.Target) *Refusal {
	if t == (pops.Target{}) {
		return invalid("give POP, POP/SERVICE or */SERVICE", "no target given")
	}
	err := fleet.Check(t)
	if err == nil {
		return nil
	}
	bad := &Refusal{Code: Unknown, Message: err.Error(), Err: err}
	unknown := &pops.UnknownError{}
	if errors.As(err, &unknown) {
		bad.Near = unknown.Near
	}
	return bad
}
