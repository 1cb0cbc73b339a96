package geo

import (
	"math"
	"slices"
)

// Tiers of an order, best first. geotarget_latlong knows only the last two, geotarget_regional has no subdivisions.
const (
	tierSubdivision = iota
	tierListed
	tierDistance
	tierUnplaced
)

// judge ranks or matches the targets of a plan for a location. It is immutable after newJudge; at query time only Map.Full uses it.
type judge struct {
	kind    Kind
	targets []judged
	needs   Fields // a location with any of these can be told apart
}

// judged is a target prepared for comparison.
type judged struct {
	countries    []Country
	subdivisions []Subdivision
	regions      Regions
	asns         []uint32
	points       []vec // its own coordinates, or the centres of what it lists
	tagged       bool
}

func newJudge(p Plan) *judge {
	j := &judge{kind: p.Kind, targets: make([]judged, len(p.Targets))}
	for i := range p.Targets {
		t, g := &p.Targets[i], &j.targets[i]
		var centres []vec
		centre := func(p Point, ok bool) {
			if ok {
				centres = append(centres, p.vec())
			}
		}
		switch p.Kind {
		case SortCountry, MatchCountry:
			g.countries, g.subdivisions = t.Countries, t.Subdivisions
			g.tagged = len(t.Countries)+len(t.Subdivisions) > 0
			for _, c := range t.Countries {
				centre(c.Point())
			}
			for _, d := range t.Subdivisions {
				centre(d.Point())
			}
			if len(t.Countries) > 0 {
				j.needs |= FieldCountry
			}
			if len(t.Subdivisions) > 0 {
				j.needs |= FieldSubdivision
			}
		case SortRegion, MatchRegion:
			g.tagged = len(t.Regions) > 0
			for _, r := range t.Regions {
				g.regions |= 1 << r
				centre(r.Point())
				j.needs |= FieldCountry | FieldSubdivision
			}
		case MatchASN:
			g.asns, g.tagged = t.ASNs, len(t.ASNs) > 0
			if g.tagged {
				j.needs |= FieldASN
			}
		case MatchPrefix:
			g.tagged = len(t.Prefixes) > 0
		}
		if p.Kind.Sorts() {
			g.points = centres
			if t.Coords {
				g.points = []vec{Point{Lat: t.Lat, Lon: t.Lon}.vec()}
				g.tagged = true
			}
			if g.tagged {
				j.needs |= FieldCountry | FieldSubdivision | FieldCoords
			}
		}
	}
	return j
}

// tagged reports whether any target has a tag that the plan's kind looks at.
func (j *judge) tagged() bool {
	return slices.ContainsFunc(j.targets, func(t judged) bool { return t.tagged })
}

// reduce drops from l what the plan does not look at, so that locations which cannot differ in outcome are judged once.
func (j *judge) reduce(l Location) Location {
	switch j.kind {
	case SortDistance:
		if l.Coords {
			return Location{Lat: l.Lat, Lon: l.Lon, Coords: true}
		}
		return Location{Country: l.Country, Subdivision: l.Subdivision}
	case SortCountry, SortRegion:
		l.ASN = 0
	case MatchCountry, MatchRegion:
		if l.Country == 0 && l.Subdivision == 0 {
			return Location{Coords: l.Coords}
		}
		return Location{Country: l.Country, Subdivision: l.Subdivision}
	case MatchASN:
		return Location{ASN: l.ASN}
	}
	return l
}

// A rank is a target's place in an order: the tier, the distance in metres, the number. Ranks without their number compare equal when they tie.
type rank uint64

func makeRank(tier int, metres uint32, target int) rank {
	return rank(tier)<<48 | rank(metres)<<16 | rank(target)
}

func (r rank) target() uint16   { return uint16(r) }
func (r rank) tied(s rank) bool { return r>>16 == s>>16 }

// ranks appends the targets to buf as seen from l, best first; ok is false if l has no point to measure from.
func (j *judge) ranks(buf []rank, l Location) (_ []rank, ok bool) {
	p, ok := l.Point()
	if !ok {
		return buf, false
	}
	from := p.vec()
	home, state := l.Country, l.Subdivision
	if home == 0 {
		home = state.Country()
	}
	var in Regions
	if j.kind == SortRegion {
		in = RegionsOf(home, state)
	}
	for i := range j.targets {
		t := &j.targets[i]
		tier := tierDistance
		switch {
		case !t.tagged:
			buf = append(buf, makeRank(tierUnplaced, 0, i))
			continue
		case j.kind == SortRegion:
			if in&t.regions != 0 {
				tier = tierListed
			}
		case state != 0 && slices.Contains(t.subdivisions, state):
			tier = tierSubdivision
		case home != 0 && slices.Contains(t.countries, home):
			tier = tierListed
		}
		near := uint32(math.MaxUint32)
		for _, p := range t.points {
			near = min(near, from.distance(p))
		}
		buf = append(buf, makeRank(tier, near, i))
	}
	slices.Sort(buf)
	return buf, true
}

// matches sets the bits of the targets that l matches.
func (j *judge) matches(set []uint64, l Location) {
	home := l.Country
	if home == 0 {
		home = l.Subdivision.Country()
	}
	var in Regions
	if j.kind == MatchRegion {
		in = RegionsOf(home, l.Subdivision)
	}
	for i := range j.targets {
		t := &j.targets[i]
		var hit bool
		switch j.kind {
		case MatchCountry:
			hit = home != 0 && slices.Contains(t.countries, home) || l.Subdivision != 0 && slices.Contains(t.subdivisions, l.Subdivision)
		case MatchRegion:
			hit = in&t.regions != 0
		case MatchASN:
			hit = l.ASN != 0 && slices.Contains(t.asns, l.ASN)
		}
		if hit {
			set[i/64] |= 1 << (i % 64)
		}
	}
}

// prefixRules lists the prefixes of a MatchPrefix plan for one family, an embedded IPv4 prefix taken out of its IPv6 form.
func prefixRules(p Plan, family6 bool) (rules []rule) {
	for i := range p.Targets {
		for _, q := range p.Targets[i].Prefixes {
			if !q.IsValid() {
				continue
			}
			q = unwrapPrefix(q.Masked())
			if q.Addr().Is6() == family6 {
				rules = append(rules, rule{at: u128of(q.Addr()), bits: uint8(q.Bits()), value: uint32(i)})
			}
		}
	}
	return rules
}
