package zonefile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// readFile reads a regular file. Others, like a named pipe, may never come to an end.
func readFile(path string) ([]byte, error) {
	if err := checkRegular(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func checkRegular(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	return err
}

// content is what a file held.
type content struct {
	path string
	sum  [sha256.Size]byte
}

// lasts reports whether the file still holds the same. It is read to the end: times and sizes of files can stay the same when what they hold does not. buf is what it is read through.
func (c content) lasts(buf []byte) bool {
	if checkRegular(c.path) != nil {
		return false
	}
	f, err := os.Open(c.path)
	if err != nil {
		return false
	}
	defer f.Close()
	h := sha256.New()
	for {
		n, err := f.Read(buf)
		h.Write(buf[:n])
		if err == io.EOF {
			return [sha256.Size]byte(h.Sum(buf[:0])) == c.sum
		}
		if err != nil {
			return false
		}
	}
}

// source is a master file that the parser takes octet by octet. The parser does not tell where a record stood, so the source follows along: it knows on which line the entry
// begins that is being read. An entry is a record or a directive, with the lines that parentheses and quotes join.
type source struct {
	file   string // for people
	path   string // as the parser calls it
	text   []byte // what is still to be read
	origin string // as the last $ORIGIN said

	line    int    // of the octet that comes next
	entry   int    // where the entry began that was begun last
	before  int    // where the one before it began
	head    []byte // of that entry
	from    []byte // the text from where that entry began
	under   string // the origin there
	fresh   bool   // that entry has ended
	depth   int    // of parentheses
	quote   bool
	comment bool
	escape  bool
	bad     []int // lines with escapes that say nothing
}

func newSource(file, path, origin string, text []byte) *source {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // a byte order mark, as some editors write
	return &source{file: file, path: path, text: text, origin: origin, line: 1, entry: 1, before: 1, fresh: true}
}

// ReadByte is what the parser calls.
func (s *source) ReadByte() (byte, error) {
	if len(s.text) == 0 {
		return 0, io.EOF
	}
	c := s.text[0]
	if s.fresh && c != '\n' && c != '\r' {
		s.before, s.entry, s.head, s.fresh = s.entry, s.line, s.head[:0], false
		s.from, s.under = s.text, s.origin
	}
	s.text = s.text[1:]
	if len(s.head) < 2*maxDirective {
		s.head = append(s.head, c)
	}
	s.step(c)
	return c, nil
}

// maxDirective is about the length of "$ORIGIN " and the longest name, escaped.
const maxDirective = 1024

func (s *source) step(c byte) {
	if c == '\n' {
		s.line++
	}
	switch {
	case s.escape:
		s.escape = false
	case s.comment:
		s.comment = c != '\n'
	case c == '\\':
		s.escape = true
		if badEscape(s.text) && (len(s.bad) == 0 || s.bad[len(s.bad)-1] < s.line) {
			s.bad = append(s.bad, s.line)
		}
	case c == '"':
		s.quote = !s.quote
	case s.quote:
	case c == ';':
		s.comment = true
	case c == '(':
		s.depth++
	case c == ')':
		s.depth = max(0, s.depth-1)
	}
	if c == '\n' && s.depth == 0 && !s.quote && !s.fresh {
		s.fresh = true
		s.directive()
	}
}

// badEscape reports whether what follows a backslash is neither \DDD up to 255 nor a character that is no digit (RFC 1035 section 5.1). The parser takes it for something.
func badEscape(text []byte) bool {
	if len(text) == 0 || text[0] < '0' || text[0] > '9' {
		return false
	}
	if len(text) < 3 {
		return true
	}
	_, err := strconv.ParseUint(string(text[:3]), 10, 8)
	return err != nil
}

// directive follows $ORIGIN.
func (s *source) directive() {
	f := strings.Fields(string(s.head))
	if len(f) < 2 || !strings.EqualFold(f[0], "$ORIGIN") {
		return
	}
	origin := f[1]
	if !strings.HasSuffix(origin, ".") {
		origin += "." + strings.TrimPrefix(s.origin, ".")
	}
	if _, ok := dns.IsDomainName(origin); ok { // with another the parser would not start again behind an error
		s.origin = origin
	}
}

// skip reads to the end of the entry that has been begun, or if the error on a line was in the entry before it, goes back to where it began.
func (s *source) skip(line int) error {
	if line == s.before && s.before < s.entry {
		s.text, s.line, s.origin = s.from, s.entry, s.under
		s.depth, s.quote, s.escape, s.comment, s.fresh = 0, false, false, false, true
		return nil
	}
	s.depth, s.quote, s.escape = 0, false, false // one line, if that is where it went wrong
	for !s.fresh {
		if _, err := s.ReadByte(); err != nil {
			return err
		}
	}
	return nil
}

// Read is never called: the parser takes octets.
func (s *source) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// Stat is never called either; it makes the source a fs.File.
func (s *source) Stat() (fs.FileInfo, error) { return nil, errors.ErrUnsupported }

// Close is nothing to do: the file was read at once.
func (s *source) Close() error { return nil }

// files opens included files for the parser, and keeps those that are open: the innermost is the last.
type files struct {
	open     []*source
	all      []*source // that were ever open
	contents []content // of all that were opened
	last     *source   // included last, open or not
	dir      string    // of the main file, absolute
	shownDir string    // the same as problems show it
}

// Open opens an included file. The parser has made its path absolute and taken the first slash away.
func (l *files) Open(name string) (fs.File, error) {
	path := string(filepath.Separator) + name
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	l.contents = append(l.contents, content{path, sha256.Sum256(text)})
	shown := path
	if rest, ok := strings.CutPrefix(path, l.dir+string(filepath.Separator)); ok {
		shown = filepath.Join(l.shownDir, rest)
	}
	s := newSource(shown, name, "", text)
	l.open, l.all = append(l.open, s), append(l.all, s)
	l.last = s
	return &included{s, l}, nil
}

// at is the source that is being read.
func (l *files) at() *source { return l.open[len(l.open)-1] }

// closeTo closes the files that are open but for the first n.
func (l *files) closeTo(n int) { l.open = l.open[:min(n, len(l.open))] }

// included is a source that leaves the list when it is closed.
type included struct {
	*source
	files *files
}

// Close closes the file.
func (i *included) Close() error {
	i.files.open = i.files.open[:len(i.files.open)-1]
	i.text = nil
	return nil
}
