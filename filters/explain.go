package filters

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/edgesteer/edgesteer/geo"
)

// explainPlaces notes why each candidate stands where a geotarget puts it. It looks into the location database, as nothing but people wait for it.
func (x *Exec) explainPlaces(m *geo.Map, leaf *geo.Leaf) {
	if leaf.Outcome.Order == nil {
		x.Trace.note(-1, "the client has no place: the order is left alone")
		return
	}
	at := x.Client.Addr
	if leaf.Sender {
		at = x.Client.Sender
		x.Trace.note(-1, "the client has no place: that of the sender %s counts", at)
	}
	here, _ := x.Atlas.Source().Lookup(at)
	plan := m.Plan()
	for _, c := range x.List {
		x.Trace.note(int(c.Answer), "%s", placeText(here, &plan.Targets[c.Answer], plan.Kind))
	}
}

// placeText says how a target stands to a location.
func placeText(here geo.Location, t *geo.Target, kind geo.Kind) string {
	home := here.Country
	if home == 0 {
		home = here.Subdivision.Country()
	}
	var places []geo.Point
	add := func(p geo.Point, ok bool) {
		if ok {
			places = append(places, p)
		}
	}
	lists := ""
	switch kind {
	case geo.SortCountry:
		switch {
		case here.Subdivision != 0 && slices.Contains(t.Subdivisions, here.Subdivision):
			lists = here.Subdivision.String()
		case home != 0 && slices.Contains(t.Countries, home):
			lists = home.String()
		}
		for _, s := range t.Subdivisions {
			add(s.Point())
		}
		for _, c := range t.Countries {
			add(c.Point())
		}
	case geo.SortRegion:
		for _, r := range t.Regions {
			if geo.RegionsOf(home, here.Subdivision).Has(r) {
				lists = r.String()
			}
			add(r.Point())
		}
	}
	if t.Coords {
		places = []geo.Point{{Lat: t.Lat, Lon: t.Lon}}
	}
	from, ok := here.Point()
	near := uint32(math.MaxUint32)
	for _, p := range places {
		near = min(near, geo.Distance(from, p))
	}
	switch {
	case !ok || len(places) == 0:
		return "no place"
	case lists != "":
		return fmt.Sprintf("lists %s, %s km", lists, thousands(near))
	default:
		return thousands(near) + " km"
	}
}

// thousands writes metres as kilometres with a comma at the thousands.
func thousands(metres uint32) string {
	km := strconv.Itoa(int(math.Round(float64(metres) / 1000)))
	if len(km) > 3 {
		km = km[:len(km)-3] + "," + km[len(km)-3:]
	}
	return km
}

// loadText says what load and watermarks shed_load judged an answer by.
func (f *shedLoad) loadText(x *Exec, a *shedAnswer) string {
	if !a.own {
		return fmt.Sprintf("load %.6g", x.View.States[a.unit].Load)
	}
	load, low, high, _ := f.numbers(x, a)
	return fmt.Sprintf("load %.6g between %.6g and %.6g", load, low, high)
}

// numbers gives an answer's own load and watermarks now; false if one of them is missing.
func (f *shedLoad) numbers(x *Exec, a *shedAnswer) (load, low, high float64, ok bool) {
	load, ok1 := x.View.Number(a.load.Load)
	low, ok2 := x.View.Number(a.load.Low)
	high, ok3 := x.View.Number(a.load.High)
	return load, low, high, ok1 && ok2 && ok3
}
