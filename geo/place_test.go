package geo

import (
	"math"
	"math/rand/v2"
	"testing"
)

// haversine is the textbook formula.
func haversine(a, b Point) float64 {
	rad := func(d float64) float64 { return d * math.Pi / 180 }
	s := math.Pow(math.Sin(rad(b.Lat-a.Lat)/2), 2) + math.Cos(rad(a.Lat))*math.Cos(rad(b.Lat))*math.Pow(math.Sin(rad(b.Lon-a.Lon)/2), 2)
	return 2 * earth * math.Asin(math.Sqrt(min(s, 1)))
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		name   string
		a, b   Point
		metres float64
		within float64
	}{
		{"same place", Point{50, 8.6}, Point{50, 8.6}, 0, 0},
		{"London to Paris", Point{51.5, -0.12}, Point{48.86, 2.35}, 343_500, 1500},
		{"over the date line", Point{0, 179.5}, Point{0, -179.5}, 111_195, 2},
		{"pole to pole", Point{90, 0}, Point{-90, 77}, math.Pi * earth, 1},
		{"a metre", Point{0, 0}, Point{0, 0.000009}, 1, 0},
	} {
		if got := float64(Distance(c.a, c.b)); math.Abs(got-c.metres) > c.within {
			t.Errorf("%s: %.0f m, want %.0f", c.name, got, c.metres)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		p := func() Point { return Point{r.Float64()*180 - 90, r.Float64()*360 - 180} }
		a, b := p(), p()
		if got, want := float64(Distance(a, b)), haversine(a, b); math.Abs(got-want) > 1 {
			t.Errorf("%v to %v: %.0f m, haversine %.1f", a, b, got, want)
		}
		if Distance(a, b) != Distance(b, a) {
			t.Errorf("%v to %v is not as far as back", a, b)
		}
	}
}

func TestLocationPoint(t *testing.T) {
	us, _ := ParseCountry("US")
	ca, _ := ParseSubdivision("US-CA")
	country, _ := us.Point()
	state, _ := ca.Point()
	for _, c := range []struct {
		name string
		l    Location
		want Point
		ok   bool
	}{
		{"coordinates win", Location{Country: us, Subdivision: ca, Lat: 1, Lon: 2, Coords: true}, Point{1, 2}, true},
		{"then the subdivision", Location{Country: us, Subdivision: ca}, state, true},
		{"then the country", Location{Country: us}, country, true},
		{"a subdivision that the table does not know lies in its country", Location{Country: us, Subdivision: MakeSubdivision(us, "ZZ")}, country, true},
		{"an AS number is no place", Location{ASN: 1}, Point{}, false},
	} {
		if got, ok := c.l.Point(); got != c.want || ok != c.ok {
			t.Errorf("%s: %v %v, want %v", c.name, got, ok, c.want)
		}
	}
	if state.Lat < 33 || state.Lat > 41 || country.Lon > -90 || country.Lon < -110 {
		t.Errorf("California at %v, US at %v", state, country)
	}
}
