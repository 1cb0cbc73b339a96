package dash

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// The map is in the Equal Earth projection (Savric, Patterson and Jenny 2018): areas are true, and the formulas are short. It ends above Antarctica.
const (
	mapWidth  = 1000.0
	mapNorth  = 84.0
	mapSouth  = -57.0
	equalA1   = 1.340264
	equalA2   = -0.081106
	equalA3   = 0.000893
	equalA4   = 0.003796
	mapDetail = 1.2 // units of the map: points closer together than that are one
)

// project gives where a place is on the map, in units of which the map is mapWidth wide. Degrees north and east.
func project(latitude, longitude float64) (x, y float64) {
	x, y = equalEarth(latitude, longitude)
	edge, _ := equalEarth(0, 180)
	_, top := equalEarth(mapNorth, 0)
	scale := mapWidth / (2 * edge)
	return (x + edge) * scale, (top - y) * scale
}

func equalEarth(latitude, longitude float64) (x, y float64) {
	t := math.Asin(math.Sqrt(3) / 2 * math.Sin(latitude*math.Pi/180))
	t2 := t * t
	t6 := t2 * t2 * t2
	x = 2 * math.Sqrt(3) * longitude * math.Pi / 180 * math.Cos(t) / (3 * (9*equalA4*t6*t2 + 7*equalA3*t6 + 3*equalA2*t2 + equalA1))
	y = t * (equalA4*t6*t2 + equalA3*t6 + equalA2*t2 + equalA1)
	return x, y
}

// mapHeight is the height of the map in its units.
func mapHeight() float64 {
	_, y := project(mapSouth, 0)
	return math.Ceil(y)
}

// topology is the part of the TopoJSON format that the outlines of land need.
type topology struct {
	Objects struct {
		Land struct {
			Geometries []struct {
				Type string    `json:"type"`
				Arcs [][][]int `json:"arcs"`
			} `json:"geometries"`
		} `json:"land"`
	} `json:"objects"`
	Arcs      [][][2]float64 `json:"arcs"`
	Transform struct {
		Scale     [2]float64 `json:"scale"`
		Translate [2]float64 `json:"translate"`
	} `json:"transform"`
}

// drawLand makes a picture of the outlines of land.
func drawLand(data []byte) ([]byte, error) {
	var t topology
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("outlines of land: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g"><path fill="#8fa3b8" fill-opacity=".34" fill-rule="evenodd" d="`, mapWidth, mapHeight())
	n := 0
	for _, g := range t.Objects.Land.Geometries {
		if g.Type != "MultiPolygon" {
			return nil, fmt.Errorf("outlines of land: a %s, not a MultiPolygon", g.Type)
		}
		for _, polygon := range g.Arcs {
			for _, ring := range polygon {
				drawn, err := t.draw(&b, ring)
				if err != nil {
					return nil, err
				}
				n += drawn
			}
		}
	}
	if n == 0 {
		return nil, errors.New("outlines of land: there are none")
	}
	b.WriteString(`"/></svg>`)
	return b.Bytes(), nil
}

// draw writes a ring as a path, unless it is beyond the map or too small to be seen.
func (t *topology) draw(b *bytes.Buffer, ring []int) (int, error) {
	var points [][2]float64
	for _, arc := range ring {
		list, err := t.arc(arc)
		if err != nil {
			return 0, err
		}
		for _, p := range list {
			x, y := project(max(mapSouth-3, p[1]), p[0])
			if n := len(points); n > 0 && math.Hypot(points[n-1][0]-x, points[n-1][1]-y) < mapDetail {
				continue
			}
			points = append(points, [2]float64{x, y})
		}
	}
	low := math.Inf(1)
	for _, p := range points {
		low = min(low, p[1])
	}
	if len(points) < 3 || low > mapHeight() {
		return 0, nil
	}
	for i, p := range points {
		verb := 'L'
		if i == 0 || math.Abs(p[0]-points[i-1][0]) > mapWidth/2 { // what lies on both sides of 180 degrees is two pieces
			verb = 'M'
		}
		fmt.Fprintf(b, "%c%.1f %.1f", verb, p[0], p[1])
	}
	b.WriteByte('Z')
	return len(points), nil
}

// arc gives the points of an arc, in degrees east and north. Arcs are differences in whole steps; one with a negative number is walked backwards.
func (t *topology) arc(number int) ([][2]float64, error) {
	i := number
	if i < 0 {
		i = ^i
	}
	if i >= len(t.Arcs) {
		return nil, fmt.Errorf("outlines of land: there is no arc %d", i)
	}
	out := make([][2]float64, len(t.Arcs[i]))
	var x, y float64
	for k, d := range t.Arcs[i] {
		x, y = x+d[0], y+d[1]
		at := k
		if number < 0 {
			at = len(out) - 1 - k
		}
		out[at] = [2]float64{x*t.Transform.Scale[0] + t.Transform.Translate[0], y*t.Transform.Scale[1] + t.Transform.Translate[1]}
	}
	return out, nil
}
