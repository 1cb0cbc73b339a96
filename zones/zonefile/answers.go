package zonefile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/filters"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// answers fills the pool, and the rdata of each type.
func (d *draft) answers() {
	record := d.meta(d.Record.Meta, "meta")
	if d.Service != "" {
		d.endpoints(record)
		return
	}
	d.explicit(record)
}

// meta reads metadata that this record says, and notes what is there.
func (d *draft) meta(m config.Meta, path ...any) metadata {
	for key := range m {
		if _, ok := d.said[key]; !ok {
			d.said[key] = d.at(append(slices.Clip(path), key)...)
		}
	}
	return d.builder.reader.read(m, d.at(path...)...)
}

// endpoints makes the answers of a service: one for each endpoint.
func (d *draft) endpoints(record metadata) {
	b := d.builder
	service := b.fleet.FindService(d.Service)
	if service < 0 {
		var known []string
		for _, s := range b.fleet.Services {
			known = append(known, s.Name)
		}
		d.fail(fmt.Sprintf("unknown service %q", d.Service), config.DidYouMean(d.Service, known), "service")
		return
	}
	if len(d.Groups) > 0 {
		d.fail("a service's endpoints are in no group", "give answers instead of a service", "group")
	}
	for _, key := range [...]string{"low_watermark", "high_watermark"} {
		if record[key] != nil {
			d.fail(key+" of a service is the same in all its records", "set it where the service or the endpoint is", "meta", key)
		}
	}
	var names, hosts int
	pool := &filters.Pool{}
	for i := range b.fleet.Endpoints {
		e := &b.fleet.Endpoints[i]
		if e.Service != service {
			continue
		}
		m := maps.Clone(record)
		m.under(b.levels.endpoint(e.Service, e.PoP))
		a := answer(m)
		a.Label, a.PoP, a.Unit = b.fleet.PoPs[e.PoP].Name, e.PoP, b.fleet.EndpointUnit(i)
		for j, addr := range e.Addresses {
			if addr.Is4() {
				a.Has4 |= 1 << j
			} else {
				a.Has6 |= 1 << j
			}
		}
		if e.CNAME != "" {
			names++
		} else {
			hosts++
		}
		pool.Answers = append(pool.Answers, a)
		d.addEndpoint(e)
	}
	switch {
	case len(pool.Answers) == 0:
		d.fail(fmt.Sprintf("service %q has no endpoints", d.Service), fmt.Sprintf("add [service.at.POP] to service %q", d.Service), "service")
		return
	case names > 0 && hosts > 0:
		d.fail(fmt.Sprintf("service %q mixes names and addresses: a name has a CNAME record or addresses", d.Service), "give every endpoint a cname, or every one addresses", "service")
		return
	}
	d.pool = pool
	d.serviceTypes(names > 0)
}

// addEndpoint enters the records that an endpoint has, type by type.
func (d *draft) addEndpoint(e *pops.Endpoint) {
	var four, six, name []zones.RData
	for i, a := range e.Addresses {
		rd := zones.RData{Octets: a.AsSlice(), Address: i}
		if a.Is4() {
			four = append(four, rd)
		} else {
			six = append(six, rd)
		}
	}
	if e.CNAME != "" {
		if n, err := wire.ParseName(e.CNAME); err == nil {
			name = []zones.RData{{Octets: n, Address: -1}}
		}
	}
	d.rdata[dns.TypeA] = append(d.rdata[dns.TypeA], four)
	d.rdata[dns.TypeAAAA] = append(d.rdata[dns.TypeAAAA], six)
	d.rdata[dns.TypeCNAME] = append(d.rdata[dns.TypeCNAME], name)
}

// serviceTypes keeps the types that the service has records of.
func (d *draft) serviceTypes(names bool) {
	if names && d.Type == "" {
		d.types = []uint16{dns.TypeCNAME}
	}
	d.types = slices.DeleteFunc(d.types, func(typ uint16) bool {
		return !slices.ContainsFunc(d.rdata[typ], func(list []zones.RData) bool { return len(list) > 0 })
	})
	if len(d.types) == 0 && !d.failed {
		d.fail(fmt.Sprintf("service %q has nothing for records of type %s", d.Service, strings.ToUpper(d.Type)), "", "type")
	}
}

// group is a group of the configuration, read.
type group struct {
	meta metadata
	pop  int
}

// explicit makes the answers that the record itself has.
func (d *draft) explicit(record metadata) {
	groups := map[string]group{}
	used := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(d.Groups)) {
		g := d.Groups[name]
		groups[name] = group{d.meta(g.Meta, "group", name, "meta"), d.pop(g.PoP, "group", name, "pop")}
	}
	if len(d.types) != 1 {
		return
	}
	typ := d.types[0]
	pool := &filters.Pool{}
	for i := range d.Answers {
		c := &d.Answers[i]
		m := d.meta(c.Meta, "answer", i, "meta")
		pop := d.pop(c.PoP, "answer", i, "pop")
		if c.Group != "" {
			g, ok := groups[c.Group]
			if !ok {
				d.fail(fmt.Sprintf("unknown group %q", c.Group), config.DidYouMean(c.Group, slices.Collect(maps.Keys(d.Groups))), "answer", i, "group")
				g.pop = -1
			}
			used[c.Group] = true
			m.under(g.meta)
			if pop < 0 {
				pop = g.pop
			}
		}
		m.under(record)
		if pop >= 0 {
			m.under(d.builder.levels.pops[pop])
		}
		d.checkAnswer(m, "answer", i)
		a := answer(m)
		a.Group, a.PoP, a.Unit = c.Group, pop, pops.NoUnit
		if pop >= 0 {
			a.Unit = d.builder.fleet.PoPUnit(pop)
		}
		var rdata []zones.RData
		rdata, a.Label = d.parseRData(typ, c.RData, i)
		pool.Answers = append(pool.Answers, a)
		d.rdata[typ] = append(d.rdata[typ], rdata)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Groups)) {
		if !used[name] {
			d.warn(fmt.Sprintf("no answer is in group %q", name), "", "group", name)
		}
	}
	if len(pool.Answers) > 0 {
		d.pool = pool
	}
}

func (d *draft) checkAnswer(m metadata, path ...any) {
	before := len(d.builder.reader.problems)
	checkWatermarks(&d.builder.reader, m, d.at(path...))
	d.failed = d.failed || len(d.builder.reader.problems) > before
}

// pop finds a PoP by name; -1 for none.
func (d *draft) pop(name string, path ...any) int {
	if name == "" {
		return -1
	}
	i := d.builder.fleet.FindPoP(name)
	if i < 0 {
		var known []string
		for _, p := range d.builder.fleet.PoPs {
			known = append(known, p.Name)
		}
		d.fail(fmt.Sprintf("unknown PoP %q", name), config.DidYouMean(name, known), path...)
	}
	return i
}

// answer is an answer with what its metadata says.
func answer(m metadata) filters.Answer {
	a := filters.Answer{Place: m.place(), Up: m.value("up"), Weight: m.value("weight"), Priority: m.value("priority"), Cost: m.value("cost")}
	a.Note, _ = m["note"].(string)
	for metric := range pops.Metric(pops.Metrics) {
		if load := m.value(metric.String()); load.Set {
			a.Load[metric] = filters.Load{Load: load, Low: m.value("low_watermark"), High: m.value("high_watermark")}
		}
	}
	return a
}

// parseRData reads the records of one answer: a text in master file form, or a list of them.
func (d *draft) parseRData(typ uint16, v any, i int) (rdata []zones.RData, label string) {
	if v == nil { // package config has reported it
		d.failed = true
		return nil, ""
	}
	items, ok := v.([]any)
	if !ok {
		items = []any{v}
	}
	if len(items) == 0 {
		d.fail("an answer has at least one record", "", "answer", i, "rdata")
	}
	if typ == dns.TypeCNAME && len(items) > 1 {
		d.fail("an answer to a CNAME record is one CNAME", "make answers of them", "answer", i, "rdata")
	}
	var labels []string
	for _, item := range items {
		text, ok := item.(string)
		if !ok {
			d.fail(fmt.Sprintf("want record data in quotes, got %v", item), "", "answer", i, "rdata")
			continue
		}
		octets, label, err := d.builder.parseText(typ, text)
		if err != nil {
			d.fail(err.Error(), "", "answer", i, "rdata")
			continue
		}
		rdata = append(rdata, zones.RData{Octets: octets, Address: -1})
		labels = append(labels, label)
	}
	return rdata, strings.Join(labels, ", ")
}

// parseText packs record data in master file form; names in it are relative to the zone. label is its usual text.
func (b *zoneRecords) parseText(typ uint16, text string) (octets []byte, label string, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, "", fmt.Errorf("record data is empty")
	}
	line := fmt.Sprintf("@ 60 IN %s %s\n", TypeText(typ), text)
	s := newSource("", "", "", []byte(line))
	zp := dns.NewZoneParser(s, wire.NameString(b.apex), "")
	rr, ok := zp.Next()
	if !ok || zp.Err() != nil {
		if err = zp.Err(); err == nil {
			err = fmt.Errorf("no record data")
		}
		why, _ := reason(err)
		return nil, "", fmt.Errorf("%q is not the data of a record of type %s: %s", text, TypeText(typ), why)
	}
	if _, more := zp.Next(); more || zp.Err() != nil {
		return nil, "", fmt.Errorf("%q is more than one record", text)
	}
	if len(s.bad) > 0 {
		return nil, "", fmt.Errorf("%q: %s (%s)", text, badEscapes, badEscapesHint)
	}
	if b.buf == nil {
		b.buf = make([]byte, maxRR)
	}
	n, err := dns.PackRR(rr, b.buf, 0, nil, false)
	if err != nil {
		return nil, "", fmt.Errorf("packing %q: %s", text, strings.TrimPrefix(err.Error(), "dns: "))
	}
	_, octets = split(b.buf[:n])
	if hasLongName(b.buf[:n], len(octets)) {
		return nil, "", fmt.Errorf("%q has a name of more than %d octets (%s)", text, wire.MaxName, longName)
	}
	octets = slices.Clone(octets)
	if err := checkSVCB(typ, octets); err != nil {
		return nil, "", fmt.Errorf("clients leave %q out: %w", text, err)
	}
	if len(octets) == 0 && !mayBeEmpty(typ) {
		return nil, "", fmt.Errorf("%q has no record data", text)
	}
	return octets, strings.TrimPrefix(rr.String(), rr.Header().String()), nil
}
