package config

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
)

// Positions are the lines of the keys and values of a TOML text.
//
// The TOML library tells no positions of what it has accepted, so scan walks the text a second time. It expects valid TOML; in
// any other text it loses its way, but never stops or fails.
type Positions struct {
	lines map[string]int // by place
}

// place makes one string of a path: names and indices cannot be confused, whatever the names contain.
func place(base string, part any) string {
	switch part := part.(type) {
	case int:
		return base + "\x00[" + strconv.Itoa(part)
	case string:
		return base + "\x00." + part
	}
	return base
}

func (p *Positions) line(path []any) int {
	at, line := "", 0
	for _, part := range path {
		at = place(at, part)
		n, ok := p.lines[at]
		if !ok {
			break
		}
		line = n
	}
	return line
}

func (p *Positions) given(path []any) bool {
	at := ""
	for _, part := range path {
		at = place(at, part)
	}
	_, ok := p.lines[at]
	return ok
}

// lines are the lines of a text. What is never asked for is never scanned: most of a large configuration has nothing that a line has to be told of.
type lines struct {
	text  string
	zones []part // nil where the zones were not decoded one by one

	mu      sync.Mutex
	scanned map[int]*Positions // by zone, -1 for what lies between them
}

// part is where a part of a text lies.
type part struct {
	from, to int
	line     int // of from
}

// line is Config.Line.
func (l *lines) line(path []any) int {
	p, path := l.locate(path)
	if p == nil {
		return l.zones[0].line
	}
	return p.line(path)
}

// locate gives the lines of the part of the text where a path leads, and the path in there; nil if it is of no zone.
func (l *lines) locate(path []any) (*Positions, []any) {
	zone := -1
	if len(path) > 0 && path[0] == "zone" && len(l.zones) > 0 {
		n, ok := 0, false
		if len(path) > 1 {
			n, ok = path[1].(int)
		}
		if !ok || n < 0 || n >= len(l.zones) {
			return nil, nil
		}
		zone, path = n, slices.Concat([]any{"zone", 0}, path[2:]) // in its own text it is the first
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.scanned[zone]
	if p == nil {
		if l.scanned == nil {
			l.scanned = map[int]*Positions{}
		}
		if zone < 0 {
			p = scan(l.text, 1, l.zones)
		} else {
			p = scan(l.text[l.zones[zone].from:l.zones[zone].to], l.zones[zone].line, nil)
		}
		l.scanned[zone] = p
	}
	return p, path
}

type scanner struct {
	text  string
	blind bool // walk only, note nothing
	pos   int
	line  int
	lines map[string]int
	count map[string]int // tables of each array of tables
}

// scan walks a text that begins in a line. Some parts can be left out.
func scan(text string, line int, without []part) *Positions {
	s := scanner{text: text, line: line, lines: map[string]int{}, count: map[string]int{}}
	s.skip("\ufeff")
	table := "" // the place that keys belong to
	for s.space(true); s.pos < len(s.text); s.space(true) {
		if len(without) > 0 && s.pos == without[0].from {
			s.line += strings.Count(text[s.pos:without[0].to], "\n")
			s.pos, without = without[0].to, without[1:]
			continue
		}
		switch {
		case s.skip("[["):
			key := s.key()
			table = s.mark(s.walk("", key[:len(key)-1]), key[len(key)-1])
			s.count[table]++
			table = s.last(table)
			s.skip("]]")
		case s.skip("["):
			table = s.walk("", s.key())
			s.skip("]")
		default:
			s.pair(table)
		}
	}
	return &Positions{s.lines}
}

// walk is the place of a key below another.
func (s *scanner) walk(at string, key []string) string {
	if s.blind {
		return at
	}
	for _, name := range key {
		at = s.last(s.mark(at, name))
	}
	return at
}

// last is the last table of an array of tables, which its name stands for; other places are themselves.
func (s *scanner) last(at string) string {
	if n := s.count[at]; n > 0 {
		return s.mark(at, n-1)
	}
	return at
}

// mark notes the line of a part where it is first seen.
func (s *scanner) mark(base string, part any) string {
	if s.blind {
		return base
	}
	at := place(base, part)
	if _, ok := s.lines[at]; !ok {
		s.lines[at] = s.line
	}
	return at
}

// pair reads key = value.
func (s *scanner) pair(table string) {
	start := s.pos
	at := s.walk(table, s.key())
	s.space(false)
	if s.skip("=") {
		s.space(false)
		s.value(at)
	} else if s.pos == start {
		s.step() // not TOML
	}
}

// key reads a dotted key.
func (s *scanner) key() (parts []string) {
	for {
		s.space(false)
		parts = append(parts, s.name())
		s.space(false)
		if !s.skip(".") {
			return parts
		}
	}
}

func (s *scanner) name() string {
	start := s.pos
	if s.peek() == '"' || s.peek() == '\'' {
		s.str()
		quoted := s.text[start:s.pos]
		if len(quoted) < 2 || !strings.Contains(quoted, `\`) || quoted[0] == '\'' {
			return strings.Trim(quoted, quoted[:1])
		}
		var v struct{ K string }
		_, _ = toml.Decode("K = "+quoted, &v) // the library has accepted it before
		return v.K
	}
	for s.pos < len(s.text) && isBare(rune(s.text[s.pos])) {
		s.pos++
	}
	return s.text[start:s.pos]
}

func isBare(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

func (s *scanner) value(at string) {
	switch {
	case s.peek() == '"' || s.peek() == '\'':
		s.str()
	case s.skip("["):
		for i := 0; s.inside(']'); i++ {
			s.value(s.mark(at, i))
			s.comma(']')
		}
	case s.skip("{"):
		for s.inside('}') {
			s.pair(at)
			s.comma('}')
		}
	default:
		for s.pos < len(s.text) && !strings.ContainsRune(",]}#\n", rune(s.text[s.pos])) {
			s.pos++
		}
	}
}

// inside stands at the next item of a list or table, or takes its end.
func (s *scanner) inside(end byte) bool {
	s.space(true)
	return s.pos < len(s.text) && !s.skip(string(end))
}

// comma takes what stands between two items; the end of all is left.
func (s *scanner) comma(end byte) {
	s.space(true)
	if !s.skip(",") && s.peek() != end {
		s.step() // not TOML
	}
}

// str takes a string of any of the four kinds.
func (s *scanner) str() {
	quote := s.text[s.pos : s.pos+1]
	if s.skip(quote + quote + quote) {
		for s.pos < len(s.text) && !s.skip(quote+quote+quote) {
			s.escaped(quote)
		}
		for s.skip(quote) { // up to two quotes may stand before the end
		}
		return
	}
	for s.pos++; s.pos < len(s.text) && s.peek() != '\n' && !s.skip(quote); {
		s.escaped(quote)
	}
}

// escaped takes a character, with its backslash in strings that have such.
func (s *scanner) escaped(quote string) {
	if s.step() == '\\' && quote == `"` {
		s.step()
	}
}

// space takes blanks and comments, and lines if told to.
func (s *scanner) space(lines bool) {
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == ' ' || c == '\t' || c == '\r', c == '\n' && lines:
			s.step()
		case c == '#' && lines:
			for s.pos < len(s.text) && s.text[s.pos] != '\n' {
				s.pos++
			}
		default:
			return
		}
	}
}

func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

// step takes one octet.
func (s *scanner) step() byte {
	c := s.peek()
	if c == '\n' {
		s.line++
	}
	s.pos = min(s.pos+1, len(s.text))
	return c
}

func (s *scanner) skip(word string) bool {
	if !strings.HasPrefix(s.text[s.pos:], word) {
		return false
	}
	s.pos += len(word)
	return true
}
