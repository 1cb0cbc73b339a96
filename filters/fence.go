package filters

import "github.com/edgesteer/edgesteer/geo"

// fence keeps the candidates whose place metadata of one kind matches the client, and those without any (unless told to remove them) when some match; when none does, those
// without. Nothing may be left. What matches is the plan's kind: see geofence_country.go, geofence_regional.go, netfence_asn.go and netfence_prefix.go.
type fence struct {
	plan   int    // number in the atlas
	tagged []bool // by answer
	strict bool   // untagged answers go when some match
}

func (b *build) fence(kind geo.Kind, flag string) Filter {
	f := &fence{plan: b.plan(kind), tagged: make([]bool, len(b.pool.Answers)), strict: b.boolean(flag)}
	for i := range f.tagged {
		f.tagged[i] = tagged(&b.pool.Answers[i].Place, kind)
	}
	b.fences = append(b.fences, fenced{step: b.step, fence: f})
	return f
}

// tagged reports whether a target has metadata that a kind of fence looks at.
func tagged(t *geo.Target, kind geo.Kind) bool {
	switch kind {
	case geo.MatchCountry:
		return len(t.Countries)+len(t.Subdivisions) > 0
	case geo.MatchRegion:
		return len(t.Regions) > 0
	case geo.MatchASN:
		return len(t.ASNs) > 0
	default:
		return len(t.Prefixes) > 0
	}
}

func (f *fence) Run(x *Exec) {
	leaf := x.Atlas.Map(f.plan).Lookup(x.Client)
	x.BySender = x.BySender || leaf.Sender
	x.Rely(leaf.BitsAt(whole))
	match := leaf.Outcome.Match
	some, sure, untagged := false, false, false
	for _, c := range x.List {
		switch {
		case f.matches(match, c):
			some = true
			sure = sure || c.flags&drawn == 0
		case !f.tagged[c.Answer]:
			untagged = true
		}
	}
	if some && !sure && untagged && f.strict { // whether those without tags go is a matter of draws
		x.relyDraw()
	}
	kept := x.List[:0]
	for _, c := range x.List {
		var in bool
		why := "matches"
		switch {
		case f.matches(match, c):
			in = true
		case f.tagged[c.Answer]:
			why = "does not match"
		case some && f.strict:
			why = "has no tag, and others match"
		default:
			in, why = true, "has no tag"
		}
		if x.Trace != nil {
			x.Trace.note(int(c.Answer), "%s", why)
		}
		if in {
			kept = append(kept, c)
		}
	}
	x.List = kept
}

func (f *fence) matches(set []uint64, c Candidate) bool {
	return f.tagged[c.Answer] && set[c.Answer/64]&(1<<(c.Answer%64)) != 0
}
