package zones

import (
	"slices"

	"github.com/edgesteer/edgesteer/geo"
)

// PlanTable gives numbers to the questions about places that chains ask. Equal questions get one number, and a question keeps its number from set to set as long as a record
// asks it, so that zones can be taken over from one set to the next and only new questions are compiled.
//
// A table serves for building one set: filters register plans with Number, then New or With takes the table.
type PlanTable struct {
	list   []geo.Plan
	number map[string]int
	free   []int
}

// NewPlanTable starts from the numbers of a set; nil for none.
func NewPlanTable(prev *Set) *PlanTable {
	t := &PlanTable{number: map[string]int{}}
	if prev == nil {
		return t
	}
	t.list = append(t.list, prev.plans...)
	for i, v := range slices.Backward(t.list) { // so that the lowest free number comes first
		if v.Targets == nil {
			t.free = append(t.free, i)
		} else {
			t.number[v.Key()] = i
		}
	}
	return t
}

// Number is the number of a plan. A plan has at least one target.
func (t *PlanTable) Number(p geo.Plan) int {
	key := p.Key()
	if i, ok := t.number[key]; ok {
		return i
	}
	i := len(t.list)
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
		t.list[i] = p
	} else {
		t.list = append(t.list, p)
	}
	t.number[key] = i
	return i
}

// used are the plans of the table that records of these zones ask, the others left empty.
func (t *PlanTable) used(zones []*Zone) []geo.Plan {
	if t == nil {
		return nil
	}
	plans := make([]geo.Plan, len(t.list))
	for _, z := range zones {
		for _, r := range z.records {
			for _, i := range r.Plans {
				plans[i] = t.list[i]
			}
		}
	}
	for len(plans) > 0 && plans[len(plans)-1].Targets == nil {
		plans = plans[:len(plans)-1]
	}
	return plans
}
