package app

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/edgesteer/edgesteer/filters"
	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
	"github.com/edgesteer/edgesteer/zones/zonefile"
)

// Explain answers a question with what is served now, by the code of the data path, and says why. share and load assume a state other than that of now, by target: a share
// in percent (0 is down) and a load in the unit of the service's metric; nil for none.
func (a *App) Explain(q api.ExplainQuery, share, load map[string]float64) (*api.Explanation, error) {
	if len(share)+len(load) > 0 {
		return a.Suppose(q, Assumptions{Share: share, Load: load})
	}
	return explain(q, a.publisher.Snapshot())
}

func explain(q api.ExplainQuery, snap *server.Snapshot) (*api.Explanation, error) {
	question, err := question(q)
	if err != nil {
		return nil, err
	}
	return explanation(question, server.Explain(snap, question)), nil
}

// question turns what somebody typed into a question.
func question(q api.ExplainQuery) (server.Question, error) {
	name, err := wire.ParseName(q.Name)
	if err != nil {
		return server.Question{}, err // it names the name
	}
	typ, ok := zonefile.TypeNumber(q.Type)
	if !ok {
		return server.Question{}, fmt.Errorf("unknown type %q", q.Type)
	}
	out := server.Question{Name: name, Type: typ}
	if q.Client != "" {
		if out.Subnet, err = clientPrefix(q.Client); err != nil {
			return out, err
		}
	}
	switch {
	case q.Sender != "":
		if out.Sender, err = netip.ParseAddr(q.Sender); err != nil {
			return out, fmt.Errorf("sender %q is no address", q.Sender)
		}
		out.Sender = out.Sender.Unmap().WithZone("")
	case out.Subnet.IsValid():
		out.Sender = out.Subnet.Addr()
	default:
		return out, errors.New("who asks? give a client network or a sender")
	}
	return out, nil
}

// clientPrefix reads a network; an address stands for the network that resolvers usually tell of it: /24 or /56. A mapped address, which is how logs of
// dual-stack servers write IPv4, is an IPv4 address.
func clientPrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap()
		bits := 24
		if a.Is6() {
			bits = 56
		}
		return a.WithZone("").Prefix(bits)
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("client %q is neither a network nor an address", s)
	}
	return p.Masked(), nil
}

// explanation puts an explanation into the words of the API.
func explanation(q server.Question, e *server.Explanation) *api.Explanation {
	out := &api.Explanation{
		Schema: api.Schema, Name: wire.NameString(q.Name), Type: zonefile.TypeText(q.Type), Version: e.Snapshot.Version,
		Client: asker(e), Scope: int(e.Scope), Possible: []string{}, Answer: []string{},
	}
	out.RCode, out.Answer = zonefile.AnswerText(e.Message)
	for i := range e.Links {
		out.Links = append(out.Links, link(&e.Links[i]))
	}
	if len(e.Links) > 0 {
		last := &e.Links[len(e.Links)-1]
		for _, a := range last.Possible {
			out.Possible = append(out.Possible, last.Result.Record.Pool.Answers[a].Label)
		}
		if out.PossibleAtMost = last.AtMost; last.AtMost {
			out.Warnings = append(out.Warnings, "the chain leaves too much to chance to follow all of it: not all that is listed as possible need be")
		}
	}
	out.Database = database(e.Snapshot.Atlas.Databases())
	return out
}

func database(files []geo.Database) *api.Database {
	d := &api.Database{}
	for _, f := range files {
		name := f.Path
		if name == "" {
			name = f.Type
		}
		if !f.Built.IsZero() {
			name += " of " + f.Built.UTC().Format("2006-01-02")
		}
		d.Names = append(d.Names, name)
		if f.Attribution != "" {
			d.Attribution = f.Attribution
		}
	}
	return d
}

// asker says who asked and where that is, as the map saw it.
func asker(e *server.Explanation) api.Asker {
	c := &e.Client
	out := api.Asker{Source: "resolver", Sender: c.Sender.String(), LocatedBy: "nothing", Prefix: netip.PrefixFrom(c.Addr, int(c.Bits)).String()}
	if c.ECS {
		out.Source = "ecs"
	}
	if c.Offset > 0 {
		out.Embedded = fmt.Sprintf("an IPv6 prefix of %d bits", c.Offset)
	}
	src := e.Snapshot.Atlas.Source()
	at := c.Addr
	place, bits := src.Lookup(at)
	switch {
	case place.Located() && c.ECS:
		out.LocatedBy = "ecs"
	case place.Located():
		out.LocatedBy = "resolver"
	case c.ECS:
		at = c.Sender
		if place, bits = src.Lookup(at); place.Located() {
			out.LocatedBy = "resolver"
		}
	}
	if !place.Located() {
		return out
	}
	if row, err := at.Prefix(bits); err == nil {
		out.Row = row.String()
	}
	out.ASN = place.ASN
	if place.Country != 0 {
		out.Country = place.Country.String()
	}
	if place.Subdivision != 0 {
		out.Subdivision = place.Subdivision.String()
	}
	out.Georegion = strings.Join(regions(place), ", ")
	if p, ok := place.Point(); ok {
		out.Latitude, out.Longitude = &p.Lat, &p.Lon
		switch {
		case place.Coords:
		case place.Subdivision != 0:
			out.Centre = out.Subdivision
		default:
			out.Centre = out.Country
		}
	}
	return out
}

func regions(l geo.Location) (names []string) {
	set := geo.RegionsOf(l.Country, l.Subdivision)
	for r := geo.Region(1); r.String() != ""; r++ {
		if set.Has(r) {
			names = append(names, r.String())
		}
	}
	return names
}

func link(l *server.Link) api.Link {
	r := &l.Result
	out := api.Link{Owner: wire.NameString(l.Owner), Kind: r.Kind.String(), Bits: int(l.Bits), Rung: int(l.Rung)}
	if r.Zone != nil {
		out.Zone = r.Zone.String()
	}
	if r.Record == nil {
		if r.RRset.Count > 0 {
			out.Type, out.TTL = zonefile.TypeText(r.RRset.Type), r.RRset.TTL
			if r.Kind == zones.Answer {
				out.Kind = "static"
			}
		}
		return out
	}
	out.Kind, out.Type, out.TTL = "steered", zonefile.TypeText(r.Record.Type), r.Record.TTL
	if l.Ignored {
		out.Shed = "ignored"
	}
	pool := r.Record.Pool
	for _, s := range l.Steps {
		step := api.Step{Filter: s.Name, Config: s.Args, Before: candidates(pool, s.Before), After: candidates(pool, s.After), Bits: int(s.Bits)}
		for _, n := range s.Notes {
			note := api.Note{Text: n.Text}
			if n.Answer >= 0 {
				note.Answer = pool.Answers[n.Answer].Label
			}
			step.Notes = append(step.Notes, note)
		}
		out.Steps = append(out.Steps, step)
	}
	return out
}

func candidates(pool *filters.Pool, list []filters.Candidate) []api.Candidate {
	out := make([]api.Candidate, len(list))
	for i, c := range list {
		out[i].Answer = pool.Answers[c.Answer].Label
		if c.Serve != c.Answer {
			out[i].Serves = pool.Answers[c.Serve].Label
		}
	}
	return out
}
