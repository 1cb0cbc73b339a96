package zonefile

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// maxErrors is how many syntax errors of one file are reported.
const maxErrors = 20

// maxRR is room for any packed record, and for what the packer would write past it.
const maxRR = 1 << 17

// place is where a record stands.
type place struct {
	file string
	line int
}

// master reads a master file (RFC 1035 section 5) into a builder.
type master struct {
	b        *zones.Builder
	places   []place // of the builder's rows
	files    files
	problems []config.Problem
	errors   int

	apex  string // in text form
	ttl   uint32 // of the last record
	owner string // of the last record
	lost  bool   // an error has come since, and nothing is known of the owner of records that begin with a blank
	buf   []byte // maxRR
}

// What is said of escapes that say nothing.
const (
	badEscapes     = `a backslash stands before digits that are not three, 000 to 255`
	badEscapesHint = `for example \032 for a blank, \\ for a backslash`
)

// read reads the text of a master file into b, whose apex is origin. The places are those of b's rows, which start with this file's. The contents are those of the file and of what it
// includes, even if reading fails. buf has maxRR octets, and is free again afterwards.
func read(path string, text []byte, origin string, b *zones.Builder, buf []byte) ([]place, []content, []config.Problem) {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	m := master{b: b, apex: origin, buf: buf, files: files{dir: filepath.Dir(abs), shownDir: filepath.Dir(path)}}
	m.files.open = []*source{newSource(path, abs, origin, text)}
	m.files.all = slices.Clone(m.files.open)
	m.files.contents = []content{{path, sha256.Sum256(text)}}
	for m.parse() {
	}
	for _, s := range m.files.all {
		for _, line := range s.bad {
			m.errors++
			m.problems = append(m.problems, config.Problem{File: s.file, Line: line, Message: badEscapes, Hint: badEscapesHint})
		}
	}
	return m.places, m.files.contents, m.problems
}

// parse takes records until the end or an error. It reports whether to go on behind the error. Then nothing is known of the owner of a record that begins with a blank: it is left
// out.
func (m *master) parse() bool {
	main := m.files.open[0]
	first := main.line
	zp := dns.NewZoneParser(main, main.origin, main.path)
	zp.SetIncludeAllowed(true)
	zp.SetIncludeFS(&m.files)
	if m.errors > 0 {
		zp.SetDefaultTTL(m.ttl) // it may have been said before the error
		m.lost = true
	}
	for rr, ok := zp.Next(); ok; rr, ok = zp.Next() {
		m.add(rr)
	}
	err := zp.Err()
	if err == nil {
		return false
	}
	message, hint := reason(err)
	m.errors++
	p := m.where(err.Error(), first)
	if d, h := m.directive(p); d != "" {
		message, hint = d, h
	}
	m.problems = append(m.problems, config.Problem{File: p.file, Line: p.line, Message: message, Hint: hint})
	if m.errors == maxErrors {
		m.fail("mend the first ones", "further errors are not shown")
		return false
	}
	m.files.closeTo(1) // the rest of an included file is left out
	line := 0          // of the main file
	if p.file == main.file {
		line = p.line
	}
	return main.skip(line) == nil
}

// where is the place of a parser's error. The parser counts lines itself, in the main file from where it was set to work; it may have read into the next entry, and of what
// $GENERATE made it counts the lines of that.
func (m *master) where(err string, first int) place {
	s := m.files.open[0]
	if path, _, ok := strings.Cut(err, ": dns: "); ok && path != s.path && m.files.last != nil {
		s, first = m.files.last, 1
	}
	line := s.entry
	if i := strings.LastIndex(err, " at line: "); i >= 0 {
		var n int
		if _, e := fmt.Sscanf(err[i:], " at line: %d:", &n); e == nil && n+first-1 >= s.before && n+first-1 <= s.line {
			line = n + first - 1
		}
	}
	return place{s.file, line}
}

// directives are those that master files have (RFC 1035 section 5.1, RFC 2308 section 4, and BIND's).
var directives = []string{"$ORIGIN", "$TTL", "$INCLUDE", "$GENERATE"}

// directive says what is wrong with the entry at a place if that looks like a directive and is none. The parser takes it for a record.
func (m *master) directive(p place) (message, hint string) {
	s := m.files.at()
	f := strings.Fields(string(s.head))
	if p.file != s.file || p.line != s.entry || len(f) == 0 || f[0][0] != '$' {
		return "", ""
	}
	name := strings.ToUpper(f[0])
	switch {
	case !slices.Contains(directives, name):
		return fmt.Sprintf("unknown directive %q", f[0]), config.DidYouMean(name, directives)
	case s.head[0] != '$':
		return name + " does not begin its line", "a line that begins with a blank is a record of the last owner"
	case len(f) == 1:
		return name + " needs a value behind it", ""
	}
	return "", ""
}

// add packs a record and hands it to the builder.
func (m *master) add(rr dns.RR) {
	h := rr.Header()
	switch {
	case h.Name != "":
		m.lost = false
	case m.lost:
		return
	case m.owner == "":
		m.fail("a line that begins with a blank has the name of the record before it", "the first record has no name")
		return
	default:
		h.Name = m.owner // an included file begins with a blank
	}
	m.foreign(h.Name)
	m.ttl = h.Ttl
	if h.Class != dns.ClassINET {
		m.fail("zones are of class IN", "class %s is not served", dns.Class(h.Class))
		return
	}
	n, err := dns.PackRR(rr, m.buf, 0, nil, false)
	if err != nil {
		m.fail("", "packing %s %s: %s", h.Name, TypeText(h.Rrtype), strings.TrimPrefix(err.Error(), "dns: "))
		return
	}
	owner, rdata := split(m.buf[:n])
	if len(owner) > wire.MaxName {
		m.fail(longName, "name %s has %d octets", h.Name, len(owner))
		return
	}
	if hasLongName(m.buf[:n], len(rdata)) {
		m.fail(longName, "a name in the data of %s %s has more than %d octets", h.Name, TypeText(h.Rrtype), wire.MaxName)
		return
	}
	if len(rdata) == 0 && !mayBeEmpty(h.Rrtype) {
		m.fail("", "%s %s has no record data", h.Name, TypeText(h.Rrtype))
		return
	}
	if err := checkSVCB(h.Rrtype, rdata); err != nil {
		m.fail("", "%s %s: clients leave it out: %s", h.Name, TypeText(h.Rrtype), err)
		return
	}
	m.b.Add(owner, h.Rrtype, h.Ttl, rdata)
	s := m.files.at()
	m.places = append(m.places, place{s.file, s.entry})
}

// foreign warns of a name that is not ASCII, as the parser writes it, once if it stands on several records in a row.
func (m *master) foreign(name string) {
	if name == m.owner {
		return
	}
	m.owner = name
	if foreign(strings.TrimSuffix(name, m.apex)) == "" { // what the zone's own name is has been said
		return
	}
	if hint := foreign(name); hint != "" {
		s := m.files.at()
		m.problems = append(m.problems, config.Problem{File: s.file, Line: s.entry, Message: fmt.Sprintf("name %s is not ASCII: nobody asks for it so", name), Hint: hint, Warning: true})
	}
}

// longName is the hint for a name that is too long. The parser holds only what is written to the limit, not what the origin makes of it.
const longName = "up to 255 octets, with the origin (RFC 1035 section 2.3.4)"

// hasLongName reports whether there is a name in a packed record's data that is longer than names may be.
func hasLongName(rr []byte, rdata int) bool {
	if rdata <= wire.MaxName {
		return false
	}
	_, _, err := dns.UnpackRR(rr, 0)
	return errors.Is(err, dns.ErrLongDomain)
}

// checkSVCB is zones.CheckSVCB for the types that it is about.
func checkSVCB(typ uint16, rdata []byte) error {
	if typ != dns.TypeSVCB && typ != dns.TypeHTTPS {
		return nil
	}
	return zones.CheckSVCB(rdata)
}

// split takes a packed record apart.
func split(rr []byte) (owner, rdata []byte) {
	end := 0
	for rr[end] != 0 {
		end += 1 + int(rr[end])
	}
	end++
	return rr[:end], rr[end+10:]
}

// mayBeEmpty reports whether record data of no octets makes sense: in types that we do not know, and in few that we do.
func mayBeEmpty(typ uint16) bool {
	_, known := dns.TypeToRR[typ]
	return !known || typ == dns.TypeNULL || typ == dns.TypeAPL
}

func (m *master) fail(hint, format string, args ...any) {
	s := m.files.at()
	m.errors++
	m.problems = append(m.problems, config.Problem{File: s.file, Line: s.entry, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// reason is a parser's error without its own idea of the place.
func reason(err error) (message, hint string) {
	s := err.Error()
	if _, after, ok := strings.Cut(s, "dns: "); ok {
		s = after
	}
	if i := strings.LastIndex(s, " at line: "); i >= 0 {
		s = s[:i]
	}
	if s == `unexpected newline: "\n"` {
		return "the line ends in the middle of a record", "a record is NAME TTL TYPE DATA"
	}
	if rest, ok := strings.CutPrefix(s, "failed to open `"); ok { // the path that follows lacks its first slash
		if name, why, ok := strings.Cut(rest, "' as `"); ok {
			_, why, _ = strings.Cut(why, "': ")
			return fmt.Sprintf("including %q: %s", name, strings.TrimSuffix(why, fmt.Sprintf(": %q", name))), "relative paths start at the folder of the file that includes"
		}
	}
	if word, ok := strings.CutPrefix(s, `not a TTL: "`); ok {
		word = strings.TrimSuffix(word, `"`)
		hint = config.DidYouMean(strings.ToUpper(word), slices.Collect(maps.Keys(dns.StringToType)))
		if hint == "" {
			hint = `types without a name here are written TYPE65400 \# 4 0a000001 (RFC 3597)`
		}
		return fmt.Sprintf("%q is neither a TTL nor a class nor a type", word), hint
	}
	return s, ""
}
