package server

import (
	"cmp"
	"slices"

	"github.com/edgesteer/edgesteer/zones"
)

// heavies finds the single networks that would move, in the mix that has been added.
func (r *predictor) heavies(mix []RecordMix) {
	for k, v := range r.after {
		traffic := max(r.targets(r.given), r.targets(r.gives[k]))
		p := r.predictions[k]
		if p.Assumed || traffic == 0 {
			continue
		}
		for i := range mix {
			m := &mix[i]
			rec := r.find(m)
			if rec == nil {
				continue
			}
			for j := range m.Heavy {
				h := &m.Heavy[j]
				asks := h.Share * m.Rate
				if asks <= 0.01*traffic { // heaviest first
					break
				}
				times := r.times(rec, asks)
				r.run(&r.was, rec, &h.Client, r.before, times)
				r.run(&r.is, rec, &h.Client, v, times)
				r.compare()
				if share := asks * max(r.moved(r.lost), r.moved(r.more)) / traffic; share > 0.01 {
					p.Heavy = append(p.Heavy, HeavyMove{rec.String(), h.Client, share, r.most(rec, r.lost), r.most(rec, r.more)})
				}
			}
		}
		slices.SortStableFunc(p.Heavy, func(a, b HeavyMove) int { return cmp.Compare(b.Share, a.Share) })
	}
}

// targets is what the target has of some answers, by unit.
func (r *predictor) targets(units []float64) (sum float64) {
	for u, n := range units {
		if r.target[u] {
			sum += n
		}
	}
	return sum
}

// moved is what the target has of parts.
func (r *predictor) moved(parts []part) (sum float64) {
	for _, p := range parts {
		if u := p.slot - unitSlots; u >= 0 && u < len(r.target) && r.target[u] {
			sum += p.amount
		}
	}
	return sum
}

// most is what people call the largest of some parts, "" if that is nothing.
func (r *predictor) most(rec *zones.Record, parts []part) string {
	if len(parts) == 0 {
		return ""
	}
	p := slices.MaxFunc(parts, func(a, b part) int { return cmp.Compare(a.amount, b.amount) })
	for i := range rec.Pool.Answers {
		if r.slot(rec, i) == p.slot {
			return rec.Pool.Answers[i].Label
		}
	}
	return ""
}
