package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"reflect"
	"strings"

	"github.com/BurntSushi/toml"
)

// Zones are the bulk of a large configuration, and most changes are about one of them. So the text is cut where a zone begins, and every zone is decoded by itself, or taken over from
// the configuration before if that had a zone of the same text. What lies between the zones is decoded as one text.
//
// Cut like that the parts mean what the whole means: a part ends where the library, had it read the whole, would begin a table at the start of a line, and only zones define the key
// "zone". Where this does not hold, and whenever the library refuses a part, the whole is decoded.

// zoneText is a zone of the file, decoded by itself and without problems.
type zoneText struct {
	text string // from [[zone]] on; the strings of zone are parts of it
	zone Zone
	sum  [sha256.Size]byte // see digest
}

// cut takes the zones out of a text. A zone goes from [[zone]] to the next table that is no part of it.
func cut(text string) (rest string, zones []part) {
	var others strings.Builder
	s := scanner{text: text, line: 1, blind: true}
	s.skip("\ufeff")
	last, within := part{line: 1}, false
	end := func(at, line int) {
		if last.to = at; within {
			zones = append(zones, last)
		} else {
			others.WriteString(text[last.from:at])
		}
		last = part{from: at, line: line}
	}
	for s.space(true); s.pos < len(text); s.space(true) {
		at, line := s.pos, s.line
		var list bool
		switch {
		case s.skip("[["):
			list = true
		case s.skip("["):
		default:
			s.pair("")
			continue
		}
		key := s.key()
		s.skip("]")
		s.skip("]")
		switch first := strings.TrimRight(text[:at], " \t"); {
		case first != "" && !strings.HasSuffix(first, "\n"): // not TOML: it stays where it is, and the library will say so
		case list && len(key) == 1 && key[0] == "zone":
			end(at, line)
			within = true
		case within && key[0] != "zone":
			end(at, line)
			within = false
		}
	}
	end(len(text), 0)
	return others.String(), zones
}

// tree is a decoded file: everything but its zones, and those.
type tree struct {
	rest  map[string]any
	parts []part // where the zones are; nil where rest has them
	zones []*zoneText
	trees []map[string]any
}

// decodeParts decodes a text part by part; false if it cannot be decoded like that. trees are those of zones that are not known.
func decodeParts(text string, known map[string]*zoneText) (t tree, ok bool) {
	rest, zones := cut(text)
	if _, err := toml.Decode(rest, &t.rest); err != nil || t.rest["zone"] != nil {
		return t, false
	}
	t.parts, t.zones, t.trees = zones, make([]*zoneText, len(zones)), make([]map[string]any, len(zones))
	for i, p := range zones {
		zone := text[p.from:p.to]
		if z := known[zone]; z != nil {
			t.zones[i] = z
			continue
		}
		zone = strings.Clone(zone) // strings of a zone that is taken over must not hold the whole file
		var one map[string]any
		if _, err := toml.Decode(zone, &one); err != nil {
			return t, false
		}
		list, _ := one["zone"].([]map[string]any)
		if len(list) != 1 || len(one) != 1 {
			return t, false
		}
		t.zones[i], t.trees[i] = &zoneText{text: zone, sum: digest(list[0])}, list[0]
	}
	return t, true
}

// decode fills c and gives the zones that can be taken over by the configuration after it.
func (d *decoder) decode(c *Config, t tree) (known map[string]*zoneText) {
	d.table(reflect.ValueOf(c).Elem(), t.rest, nil)
	if len(t.zones) == 0 {
		return nil
	}
	known = make(map[string]*zoneText, len(t.zones))
	c.Zones = make([]Zone, len(t.zones))
	for i, z := range t.zones {
		if t.trees[i] != nil {
			before := len(d.problems)
			d.table(reflect.ValueOf(&z.zone).Elem(), t.trees[i], []any{"zone", i})
			if len(d.problems) > before { // they are to be said again
				c.Zones[i] = z.zone
				continue
			}
		}
		c.Zones[i], known[z.text] = z.zone, z
	}
	return known
}

// digest stands for what a tree says.
func digest(tree any) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%#v", plain(tree))) // maps are printed in the order of their keys
}

// hash is Config.Hash.
func (t tree) hash() string {
	shared := maps.Clone(t.rest)
	for _, own := range []string{"server", "log", "dnstap", "admin", "cluster"} {
		delete(shared, own)
	}
	var zones [][sha256.Size]byte
	for _, z := range t.zones {
		zones = append(zones, z.sum)
	}
	if list, ok := plain(shared["zone"]).([]any); ok {
		delete(shared, "zone")
		for _, zone := range list {
			zones = append(zones, digest(zone))
		}
	}
	all := sha256.New()
	add(all, digest(shared))
	for _, sum := range zones {
		add(all, sum)
	}
	return short(all)
}

func add(h hash.Hash, sum [sha256.Size]byte) { h.Write(sum[:]) }

// short is a digest for people.
func short(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:6]) }
