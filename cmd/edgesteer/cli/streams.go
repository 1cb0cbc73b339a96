package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// streams are where a command reads and writes, and what is known of the terminal.
type streams struct {
	in       io.Reader
	out      io.Writer
	err      io.Writer
	asks     bool     // in is a terminal: somebody can answer
	terminal bool     // out is one
	colour   bool     // out may have escape sequences
	moves    bool     // out's cursor can be moved
	width    int      // columns of out; 0: unknown
	tty      *os.File // out, if it is a terminal
	ordered  bool     // an order was carried out
	told     bool     // JSON was written
}

// sink is standard output that remembers what could not be written.
type sink struct {
	io.Writer
	err error // the first
}

func (s *sink) Write(b []byte) (int, error) {
	n, err := s.Writer.Write(b)
	if s.err == nil {
		s.err = err
	}
	return n, err
}

func newStreams(in io.Reader, out, err io.Writer) *streams {
	s := &streams{in: in, out: &sink{Writer: out}, err: err}
	if f, ok := in.(*os.File); ok {
		s.asks = term.IsTerminal(int(f.Fd()))
	}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.terminal, s.tty = true, f
	}
	s.moves = s.terminal && os.Getenv("TERM") != "dumb"
	s.colour = s.moves && os.Getenv("NO_COLOR") == ""
	s.width, _ = s.size()
	return s
}

// size is that of the terminal, 0 if there is none.
func (s *streams) size() (width, height int) {
	if s.tty == nil {
		return 0, 0
	}
	width, height, err := term.GetSize(int(s.tty.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}

func (s *streams) bold(text string) string { return s.escape("1", text) }
func (s *streams) dim(text string) string  { return s.escape("2", text) }

func (s *streams) escape(code, text string) string {
	if !s.colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// table writes rows: aligned under a heading on a terminal, separated by tabs and without heading for programs. A heading that begins with ">" stands over figures, which are
// aligned right. On a terminal a column without content is left out, and the last one is cut where the line ends.
func (s *streams) table(heading []string, rows [][]string) {
	if !s.terminal {
		for _, row := range rows {
			fmt.Fprintln(s.out, strings.Join(row, "\t"))
		}
		return
	}
	width := make([]int, len(heading))
	right := make([]bool, len(heading))
	names := make([]string, len(heading))
	for i, name := range heading {
		names[i], right[i] = strings.CutPrefix(name, ">")
		for _, row := range rows {
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
		if width[i] > 0 {
			width[i] = max(width[i], len(names[i]))
		}
	}
	fmt.Fprintln(s.out, s.dim(s.line(names, width, right)))
	for _, row := range rows {
		fmt.Fprintln(s.out, s.line(row, width, right))
	}
}

// tableOr is a table of all there is; without rows it says so, beside the result.
func (s *streams) tableOr(nothing string, heading []string, rows [][]string) {
	if len(rows) == 0 {
		fmt.Fprintln(s.err, nothing)
		return
	}
	s.table(heading, rows)
}

// section is a table; for programs each of its rows begins with a word, so that they can tell one table from another.
func (s *streams) section(word string, heading []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	if !s.terminal {
		for i := range rows {
			rows[i] = append([]string{word}, rows[i]...)
		}
	}
	s.table(heading, rows)
}

// line puts the cells of a row below each other's.
func (s *streams) line(row []string, width []int, right []bool) string {
	var b strings.Builder
	for i, cell := range row {
		if width[i] == 0 {
			continue
		}
		space := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
		if right[i] {
			cell = space + cell
		} else {
			cell += space
		}
		if b.Len() > 0 {
			b.WriteString("  ")
		}
		b.WriteString(cell)
	}
	return s.cut(strings.TrimRight(b.String(), " "))
}

// visible splits a text into runes, each with the escape sequences before it, which take no room on a terminal.
func visible(text string) (runes []string) {
	begin, escaped := 0, false
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		i += n
		switch {
		case escaped:
			escaped = r != 'm'
		case r == '\x1b':
			escaped = true
		default:
			runes, begin = append(runes, text[begin:i]), i
		}
	}
	return runes
}

// cut shortens a line to the width of the terminal.
func (s *streams) cut(line string) string {
	if s.width == 0 {
		return line
	}
	runes := visible(line)
	if len(runes) <= s.width {
		return line
	}
	short := strings.Join(runes[:s.width-1], "") + "…"
	if s.colour && strings.Contains(short, "\x1b") {
		short += "\x1b[0m"
	}
	return short
}

// wrapped breaks a text into lines of the terminal's width; all but the first are indented.
func (s *streams) wrapped(indent int, text string) string {
	if s.width <= indent+20 {
		return text
	}
	var b strings.Builder
	column := 0
	for i, word := range strings.Split(text, " ") {
		n := len(visible(word))
		switch {
		case i == 0:
		case column+1+n > s.width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// fields writes names and values, a line each; those without value are left out.
func (s *streams) fields(pairs ...string) {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		width = max(width, len(pairs[i]))
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, value := pairs[i], pairs[i+1]
		switch {
		case value == "":
		case s.terminal:
			fmt.Fprintf(s.out, "%-*s  %s\n", width, name, value)
		default:
			fmt.Fprintf(s.out, "%s\t%s\n", name, value)
		}
	}
}

// json writes a value for programs. It has a schema version and documented fields (server/api, or the type beside the command).
func (s *streams) json(v any) error {
	s.told = true
	e := json.NewEncoder(s.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// jsonLine writes a value on a line of its own.
func (s *streams) jsonLine(v any) error {
	s.told = true
	e := json.NewEncoder(s.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
