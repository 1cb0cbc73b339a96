package drain

import (
	"fmt"

	"github.com/edgesteer/edgesteer/pops"
)

// CheckTogether refuses requests that could not stand together, in whatever order they are made: for those who ask what would be. Only Kind, Target, To and By count. The error is
// a *Refusal. A pin of what a person drains is none of them: the drain may have come second, and counts.
func CheckTogether(fleet *pops.Fleet, list []Request) error {
	for i := range list {
		r := &list[i]
		if bad := r.checkTargets(fleet); bad != nil {
			return bad
		}
		if bad := r.checkBy(); bad != nil {
			return bad
		}
		for j := range list[:i] {
			if o := &list[j]; r.Kind == pops.Shift && o.Kind == pops.Shift && chained(r.Target, r.To, o.Target, o.To) {
				return &Refusal{Code: Conflict, Message: fmt.Sprintf("a shift from %s to %s makes a chain with that from %s to %s", r.Target, r.To, o.Target, o.To)}
			}
		}
	}
	return nil
}

// chained says that one of two shifts leads to where the other leaves.
func chained(target, to, otherTarget, otherTo pops.Target) bool {
	return otherTarget != target && (to.Touches(otherTarget) || otherTo.Touches(target))
}
