package zonefile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// maxAddresses is how many addresses an endpoint can have: State.Dead has a bit for each.
const maxAddresses = 64

// Fleet makes the fleet of a configuration: its PoPs, services and endpoints in the order of the file (endpoints by service, then PoP), and the feeds that any metadata is bound
// to, by name. The problems are those of the metadata of PoPs, services and endpoints, and of addresses; the fleet may be used only if none is an error.
func Fleet(cfg *config.Config) (*pops.Fleet, []config.Problem) {
	f := &pops.Fleet{Feeds: feeds(cfg)}
	r := &metaReader{cfg: cfg, feeds: f.Feeds}
	levels := readFleet(r, cfg)
	for i := range cfg.PoPs {
		f.PoPs = append(f.PoPs, pops.PoP{Name: strings.Clone(cfg.PoPs[i].Name)}) // zones that are taken over must not hold the text of the file
	}
	for i := range cfg.Services {
		s := &cfg.Services[i]
		f.Services = append(f.Services, pops.Service{Name: s.Name, Metric: metricOf(s)})
		for p := range cfg.PoPs {
			at, ok := s.At[cfg.PoPs[p].Name]
			if !ok {
				continue
			}
			path := []any{"service", i, "at", cfg.PoPs[p].Name}
			e := pops.Endpoint{PoP: p, Service: i, Capacity: at.Capacity}
			e.Addresses, e.CNAME = hosts(r, at, path)
			m := levels.endpoint(i, p)
			e.Low, e.High = m.value("low_watermark"), m.value("high_watermark")
			checkWatermarks(r, m, path)
			f.Endpoints = append(f.Endpoints, e)
		}
	}
	return f, problemsOf(r.problems)
}

func metricOf(s *config.Service) pops.Metric {
	if s.Load != nil {
		for m := range pops.Metric(pops.Metrics) {
			if m.String() == s.Load.Metric {
				return m
			}
		}
	}
	return pops.LoadAvg
}

// hosts reads the addresses or the name of an endpoint.
func hosts(r *metaReader, at config.Endpoint, path []any) (addresses []netip.Addr, cname string) {
	for i, s := range at.Addresses {
		a, err := netip.ParseAddr(s)
		if err != nil { // package config has reported it
			continue
		}
		if a.IsUnspecified() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			r.warn(fmt.Sprintf("%s is no address of a host", a), "", append(slices.Clip(path), "addresses", i)...)
		}
		addresses = append(addresses, a)
	}
	if len(addresses) > maxAddresses {
		r.fail(fmt.Sprintf("%d addresses, %d is the most", len(addresses), maxAddresses), "make a second PoP of some", append(slices.Clip(path), "addresses")...)
		addresses = addresses[:maxAddresses]
	}
	if at.CNAME == "" {
		return addresses, ""
	}
	name, err := wire.ParseName(at.CNAME)
	switch {
	case err != nil:
		r.fail(err.Error(), "", append(slices.Clip(path), "cname")...)
		return addresses, ""
	case !strings.HasSuffix(at.CNAME, "."):
		r.fail(fmt.Sprintf("%q is not absolute", at.CNAME), fmt.Sprintf("did you mean %q?", at.CNAME+"."), append(slices.Clip(path), "cname")...)
	}
	return addresses, wire.NameString(wire.ToLower(nil, name))
}

// checkWatermarks refuses a pair that is not low < high. Feeds are compared when they have values.
func checkWatermarks(r *metaReader, m metadata, path []any) {
	low, high := m.value("low_watermark"), m.value("high_watermark")
	if low.Set && high.Set && low.Feed == 0 && high.Feed == 0 && !(low.Const < high.Const) {
		r.fail(fmt.Sprintf("low_watermark %g is not below high_watermark %g", low.Const, high.Const), "", path...)
	}
}

// fleetLevels is the metadata that PoPs, services and endpoints give to answers.
type fleetLevels struct {
	pops, services []metadata
	endpoints      map[[2]int]metadata // by service and PoP
}

// readFleet reads it all.
func readFleet(r *metaReader, cfg *config.Config) fleetLevels {
	l := fleetLevels{endpoints: map[[2]int]metadata{}}
	for i := range cfg.PoPs {
		p := &cfg.PoPs[i]
		m := r.read(p.Meta, "pop", i, "meta")
		m.under(placeKeys(r, p, i))
		l.pops = append(l.pops, m)
	}
	for i := range cfg.Services {
		s := &cfg.Services[i]
		m := r.read(s.Meta, "service", i, "meta")
		if s.Load != nil && s.Load.Low != nil && s.Load.High != nil {
			m.under(metadata{"low_watermark": constant(*s.Load.Low), "high_watermark": constant(*s.Load.High)})
		}
		l.services = append(l.services, m)
		for p := range cfg.PoPs {
			if at, ok := s.At[cfg.PoPs[p].Name]; ok {
				l.endpoints[[2]int{i, p}] = r.read(at.Meta, "service", i, "at", cfg.PoPs[p].Name, "meta")
			}
		}
	}
	return l
}

func constant(f float64) pops.Value { return pops.Value{Set: true, Const: f} }

// placeKeys is what a PoP says outside of its meta, as metadata.
func placeKeys(r *metaReader, p *config.PoP, i int) metadata {
	m := metadata{}
	add := func(key, meta string, v any) {
		if _, both := p.Meta[meta]; both {
			r.fail(fmt.Sprintf("%s is in meta, too", meta), "say it once", "pop", i, key)
			return
		}
		r.one(m, meta, v, "pop", i, key)
	}
	if p.Country != nil {
		add("country", "country", p.Country)
	}
	if p.Subdivision != nil {
		add("subdivision", "subdivisions", p.Subdivision)
	}
	if p.Georegion != nil {
		add("georegion", "georegion", p.Georegion)
	}
	if p.Latitude != nil && p.Longitude != nil {
		add("latitude", "latitude", *p.Latitude)
		add("longitude", "longitude", *p.Longitude)
	}
	return m
}

// endpoint is what the endpoint, the service and the PoP give, in this order.
func (l *fleetLevels) endpoint(service, pop int) metadata {
	m := maps.Clone(l.endpoints[[2]int{service, pop}])
	if m == nil {
		m = metadata{}
	}
	m.under(l.services[service])
	m.under(l.pops[pop])
	return m
}

// feeds are the names of all feeds that metadata is bound to, sorted.
func feeds(cfg *config.Config) []string {
	var names []string
	add := func(m config.Meta) {
		for _, v := range m {
			if table, ok := v.(map[string]any); ok {
				if name, _ := table["feed"].(string); name != "" {
					names = append(names, name)
				}
			}
		}
	}
	for _, p := range cfg.PoPs {
		add(p.Meta)
	}
	for _, s := range cfg.Services {
		add(s.Meta)
		for _, e := range s.At {
			add(e.Meta)
		}
	}
	for _, z := range cfg.Zones {
		for _, r := range z.Records {
			add(r.Meta)
			for _, g := range r.Groups {
				add(g.Meta)
			}
			for _, a := range r.Answers {
				add(a.Meta)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
