package geo

import "math"

// Point is a place on the Earth, in degrees.
type Point struct{ Lat, Lon float64 }

// earth is the mean radius of the Earth in metres (IUGG).
const earth = 6371008.8

// vec is a point on the unit sphere.
type vec struct{ x, y, z float64 }

func (p Point) vec() vec {
	lat, lon := p.Lat*math.Pi/180, p.Lon*math.Pi/180
	return vec{math.Cos(lat) * math.Cos(lon), math.Cos(lat) * math.Sin(lon), math.Sin(lat)}
}

// Distance is the great-circle distance in whole metres. Two places within the same metre are equally far: a tie, so that rounding decides nothing.
func Distance(a, b Point) uint32 { return a.vec().distance(b.vec()) }

// distance goes by the chord, which is exact for near points where the dot product is not.
func (a vec) distance(b vec) uint32 {
	x, y, z := float64(a.x-b.x), float64(a.y-b.y), float64(a.z-b.z)
	chord := math.Sqrt(float64(x*x) + float64(y*y) + float64(z*z))
	return uint32(math.Round(2 * earth * math.Asin(min(chord/2, 1))))
}

// Point is where the network is for the purpose of distances: the database's coordinates, else the centre of its subdivision, else of its country (steering.md section 2).
func (l Location) Point() (p Point, ok bool) {
	if l.Coords {
		return Point{Lat: float64(l.Lat), Lon: float64(l.Lon)}, true
	}
	if l.Subdivision != 0 {
		if p, ok := l.Subdivision.Point(); ok {
			return p, true
		}
	}
	return l.Country.Point()
}
