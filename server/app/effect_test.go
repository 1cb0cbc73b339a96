package app

import (
	"slices"
	"testing"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/server/api"
)

// fourEndpoints is a service at four PoPs with these shares.
func fourEndpoints(shares ...pops.Share) *pops.View {
	f := &pops.Fleet{Services: []pops.Service{{Name: "wss", Metric: pops.Connections}}}
	v := &pops.View{Fleet: f}
	for i, s := range shares {
		f.PoPs = append(f.PoPs, pops.PoP{Name: string(rune('a' + i))})
		f.Endpoints = append(f.Endpoints, pops.Endpoint{PoP: i, Capacity: 100})
		v.States = append(v.States, pops.State{Share: s, HasLoad: true, Load: 50})
	}
	return v
}

// More than half of a service may not leave, as the sum of what does, to the percent.
func TestGuardHalf(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after []pops.Share
		want          string
	}{
		{"half", []pops.Share{100, 100, 100, 100}, []pops.Share{0, 0, 100, 100}, ""},
		{"half, in parts", []pops.Share{100, 100, 100, 100}, []pops.Share{18, 62, 61, 59}, ""},
		{"half, in other parts", []pops.Share{100, 100, 100, 100}, []pops.Share{25, 57, 59, 59}, ""},
		{"half, in fractions", []pops.Share{100, 100, 100, 100}, []pops.Share{33.3, 33.3, 33.4, 100}, ""},
		{"a percent more", []pops.Share{100, 100, 100, 100}, []pops.Share{17, 62, 61, 59}, "2.01 of the 4 endpoints of wss would be gone"},
		{"it was more before", []pops.Share{0, 0, 0, 100}, []pops.Share{0, 0, 10, 100}, ""},
		{"no more than before", []pops.Share{0, 0, 70, 30}, []pops.Share{0, 0, 30, 70}, ""},
		{"a percent more than before", []pops.Share{0, 0, 0, 100}, []pops.Share{0, 0, 0, 99}, "3.01 of the 4 endpoints of wss would be gone"},
	} {
		got := ""
		if broken := half(fourEndpoints(tt.before...), fourEndpoints(tt.after...)); len(broken) > 0 {
			got = broken[0].Detail
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// An endpoint may be filled to its capacity, at each step of a ramp; without a capacity or a load the lever works, and it is told.
func TestGuardCapacity(t *testing.T) {
	moves := func(part float64) *server.Prediction {
		return &server.Prediction{Moves: map[int]map[int]float64{0: {0: 1 - part, 1: part}, 1: {1: 1}}}
	}
	for _, tt := range []struct {
		name    string
		steps   []*server.Prediction
		change  func(*pops.View)
		broken  string
		unknown []string
	}{
		{"to the capacity", []*server.Prediction{moves(1)}, nil, "", nil},
		{"above it", []*server.Prediction{moves(1)}, func(v *pops.View) { v.States[0].Load = 51 }, "b/wss would have connections 101, its capacity is 100", nil},
		{"above it on the way", []*server.Prediction{moves(1), moves(0.5)}, func(v *pops.View) { v.States[0].Load = 60 }, "b/wss would have connections 110, its capacity is 100", nil},
		{"no load", []*server.Prediction{moves(1)}, func(v *pops.View) { v.States[1].HasLoad = false }, "", []string{"b/wss"}},
		{"no load of what moves", []*server.Prediction{moves(1)}, func(v *pops.View) { v.States[0].HasLoad = false }, "", []string{"b/wss"}},
		{"no capacity", []*server.Prediction{moves(1)}, func(v *pops.View) { v.Fleet.Endpoints[1].Capacity = 0 }, "", []string{"b/wss"}},
		{"what loses may be full", []*server.Prediction{moves(0.1)}, func(v *pops.View) { v.States[0].Load = 300 }, "", nil},
	} {
		before := fourEndpoints(100, 100)
		for i := range before.Fleet.Endpoints {
			before.States[i].Metric = pops.Connections
		}
		if tt.change != nil {
			tt.change(before)
		}
		var report drain.Report
		unknown := new(effect).loads(&report, new(api.Effect), tt.steps, before)
		got := ""
		if len(report.Broken) > 0 {
			got = report.Broken[0].Detail
		}
		if got != tt.broken || !slices.Equal(unknown, tt.unknown) {
			t.Errorf("%s: %q, unknown %v, want %q, %v", tt.name, got, unknown, tt.broken, tt.unknown)
		}
	}
}
