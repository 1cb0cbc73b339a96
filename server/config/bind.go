package config

import (
	"crypto/sha256"
	"maps"
	"slices"
)

// Metadata may be bound to a feed: country = { feed = "x" }, or with a value for as long as the feed says nothing: { feed = "x", value = "DE" }. Numbers and `up` are looked up at each moment by whoever
// computes the view. Everything else (places, notes) is compiled when a configuration is loaded, so what feeds say of it is put into the configuration before that: Bind.

// changing are the keys of metadata that are looked up at each moment.
func changing() []string {
	return []string{"up", "connections", "requests", "loadavg", "low_watermark", "high_watermark", "weight", "priority", "cost"}
}

// bound gives the feed that the value of a key of metadata is bound to, if it is one that Bind deals with; "" if not.
func bound(key string, v any) (feed string, table map[string]any) {
	table, ok := v.(map[string]any)
	if !ok || slices.Contains(changing(), key) {
		return "", nil
	}
	feed, _ = table["feed"].(string)
	return feed, table
}

// Bindings are the keys of metadata, by feed, for which Bind puts in what the feed says.
func (c *Config) Bindings() map[string][]string {
	out := map[string][]string{}
	c.each(func(m Meta, _ []any) Meta {
		for key, v := range m {
			if feed, _ := bound(key, v); feed != "" && !slices.Contains(out[feed], key) {
				out[feed] = append(out[feed], key)
			}
		}
		return nil
	})
	for _, keys := range out {
		slices.Sort(keys)
	}
	return out
}

// Bind gives the configuration with what feeds say in the place of what is bound to them; where a feed says nothing the value beside it, or nothing. c stays as it is.
//
// Its Hash is another for each set of what they say.
func (c *Config) Bind(says map[string]any) *Config {
	out := c.bind(says)
	if len(says) > 0 {
		h := sha256.New()
		add(h, digest(map[string]any{"config": c.hash, "says": says}))
		out.hash = short(h)
	}
	return out
}

func (c *Config) bind(says map[string]any) *Config {
	return c.each(func(m Meta, _ []any) (out Meta) {
		for key, v := range m {
			feed, table := bound(key, v)
			if feed == "" {
				continue
			}
			if out == nil {
				out = maps.Clone(m)
			}
			if said, ok := says[feed]; ok {
				out[key] = said
			} else if value, ok := table["value"]; ok {
				out[key] = value
			} else {
				delete(out, key)
			}
		}
		for _, pair := range [...][2]string{{"latitude", "longitude"}, {"longitude", "latitude"}} { // one of them alone is nowhere
			if feed, _ := bound(pair[0], m[pair[0]]); feed != "" && out[pair[0]] == nil && out[pair[1]] != nil {
				delete(out, pair[1])
			}
		}
		return out
	})
}

// each gives the configuration with other metadata: f gives what to put in the place of what it gets, which it must not change, or nil to leave it. What a PoP says of its place beside
// its meta is metadata, too. Lists in which nothing is replaced are those of c.
func (c *Config) each(f func(m Meta, path []any) Meta) *Config {
	out := *c
	replace := func(m *Meta, path ...any) bool {
		if len(*m) == 0 {
			return false
		}
		other := f(*m, path)
		if other != nil {
			*m = other
		}
		return other != nil
	}
	out.PoPs = slices.Clone(c.PoPs)
	for i := range out.PoPs {
		p := &out.PoPs[i]
		replace(&p.Meta, "pop", i, "meta")
		for _, own := range [...]struct {
			meta string
			v    *any
		}{{"country", &p.Country}, {"subdivisions", &p.Subdivision}, {"georegion", &p.Georegion}} {
			if _, table := (*own.v).(map[string]any); table {
				if m := (Meta{own.meta: *own.v}); replace(&m, "pop", i) {
					*own.v = m[own.meta]
				}
			}
		}
	}
	out.Services = slices.Clone(c.Services)
	for i := range out.Services {
		s := &out.Services[i]
		replace(&s.Meta, "service", i, "meta")
		s.At = maps.Clone(s.At)
		for pop, e := range s.At {
			if replace(&e.Meta, "service", i, "at", pop, "meta") {
				s.At[pop] = e
			}
		}
	}
	for i := range c.Zones {
		own := false // the records of the zone are out's
		for j := range c.Zones[i].Records {
			r := c.Zones[i].Records[j]
			if len(r.Meta)+len(r.Groups)+len(r.Answers) == 0 {
				continue
			}
			changed := replace(&r.Meta, "zone", i, "record", j, "meta")
			r.Groups, r.Answers = maps.Clone(r.Groups), slices.Clone(r.Answers)
			for name, g := range r.Groups {
				if replace(&g.Meta, "zone", i, "record", j, "group", name, "meta") {
					r.Groups[name], changed = g, true
				}
			}
			for k := range r.Answers {
				changed = replace(&r.Answers[k].Meta, "zone", i, "record", j, "answer", k, "meta") || changed
			}
			if !changed {
				continue
			}
			if &out.Zones[0] == &c.Zones[0] {
				out.Zones = slices.Clone(c.Zones)
			}
			if !own {
				out.Zones[i].Records, own = slices.Clone(c.Zones[i].Records), true
			}
			out.Zones[i].Records[j] = r
		}
	}
	return &out
}

// bindings checks the tables that bind places and notes to feeds; those of numbers are checked with the numbers.
func (k *checker) bindings() {
	k.c.each(func(m Meta, path []any) Meta {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			feed, table := bound(key, m[key])
			if feed == "" {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(table)) {
				if name != "feed" && name != "value" {
					k.fail(append(slices.Clip(path), key), DidYouMean(name, []string{"feed", "value"}), "unknown key %q beside feed", name)
				}
			}
		}
		return nil
	})
}
