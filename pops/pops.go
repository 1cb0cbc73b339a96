// Package pops knows the fleet of points of presence and what state each part of it is in.
//
// [Fleet] is what the configuration says exists; [View] is what is in use at one moment, computed by the pure function [NewView] from the fleet, the statements that people
// and automation made, the verdicts of health checks, the loads and the time. A View is immutable; the answer path reads nothing else about state.
//
// What it is not: it makes no statement, checks no health and reads no clock. The ledger (pops/drain), the checks (pops/health) and the load feeds (pops/load) hand in what
// they know, and whoever holds a View decides nothing more: filters only ask it.
package pops

import "net/netip"

// Unit numbers everything that can be drained: the endpoints of a fleet first, then its PoPs (for explicit answers that are tied to a PoP).
type Unit int32

// NoUnit is the unit of an explicit answer that is tied to nothing.
const NoUnit Unit = -1

// PoP is a place with traffic capacity.
type PoP struct {
	Name string // see CheckName
}

// Metric is one of NS1's load metrics.
type Metric uint8

// The load metrics.
const (
	LoadAvg Metric = iota
	Connections
	Requests
	Metrics = 3
)

// String is the metric's name in a configuration.
func (m Metric) String() string {
	return [...]string{"loadavg", "connections", "requests"}[m]
}

// Service is something served at PoPs.
type Service struct {
	Name   string // see CheckName
	Metric Metric // of its load, watermarks and capacity
}

// Endpoint is a service at a PoP.
type Endpoint struct {
	PoP, Service int          // indexes into Fleet
	Addresses    []netip.Addr // both families, in configured order; at most 64
	CNAME        string       // instead of addresses: an absolute name
	Capacity     float64      // in the unit of the service's metric; 0 unknown
	Low, High    Value        // watermarks in the unit of the service's metric, Low < High; both must be set to shed
}

// Fleet is everything that exists, as configured. It is immutable; its slices are sorted as configured and indexes are stable for its life. Names are unique among PoPs and
// among services, and a PoP has at most one endpoint of a service.
type Fleet struct {
	PoPs      []PoP
	Services  []Service
	Endpoints []Endpoint
	Feeds     []string // names of feeds that some metadata is bound to
}

// EndpointUnit is the unit of an endpoint.
func (f *Fleet) EndpointUnit(endpoint int) Unit { return Unit(endpoint) }

// PoPUnit is the unit of a whole PoP.
func (f *Fleet) PoPUnit(pop int) Unit { return Unit(len(f.Endpoints) + pop) }

// Units is how many units there are.
func (f *Fleet) Units() int { return len(f.Endpoints) + len(f.PoPs) }

// Endpoint gives the index of the endpoint that u is; false if u is a PoP or NoUnit.
func (f *Fleet) Endpoint(u Unit) (int, bool) {
	return int(u), u >= 0 && int(u) < len(f.Endpoints)
}

// PoPOf gives the index of the PoP that u is or stands in; -1 for NoUnit.
func (f *Fleet) PoPOf(u Unit) int {
	switch {
	case u < 0:
		return -1
	case int(u) < len(f.Endpoints):
		return f.Endpoints[u].PoP
	default:
		return int(u) - len(f.Endpoints)
	}
}

// FindPoP gives the index of a PoP by name, -1 if there is none.
func (f *Fleet) FindPoP(name string) int {
	for i := range f.PoPs {
		if f.PoPs[i].Name == name {
			return i
		}
	}
	return -1
}

// FindService gives the index of a service by name, -1 if there is none.
func (f *Fleet) FindService(name string) int {
	for i := range f.Services {
		if f.Services[i].Name == name {
			return i
		}
	}
	return -1
}

// FindEndpoint gives the index of a service's endpoint at a PoP, -1 if there is none.
func (f *Fleet) FindEndpoint(pop, service int) int {
	for i := range f.Endpoints {
		if f.Endpoints[i].PoP == pop && f.Endpoints[i].Service == service {
			return i
		}
	}
	return -1
}

// UnitTarget names a unit as people do: POP/SERVICE for an endpoint, POP for a PoP. NoUnit gives the zero Target.
func (f *Fleet) UnitTarget(u Unit) Target {
	pop := f.PoPOf(u)
	if pop < 0 {
		return Target{}
	}
	t := Target{PoP: f.PoPs[pop].Name}
	if e, ok := f.Endpoint(u); ok {
		t.Service = f.Services[f.Endpoints[e].Service].Name
	}
	return t
}

// Value is a number of metadata that may change while the server runs: a constant, or a feed with the constant as its last configured value. Booleans are 0 and 1.
type Value struct {
	Set   bool    // false: the key is missing
	Const float64 // the configured value; NaN: bound to a feed, and none was configured
	Feed  int32   // number of the feed + 1; 0: none
}
