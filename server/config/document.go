package config

import (
	"os"
	"reflect"

	"github.com/BurntSushi/toml"
)

// Document is a TOML file other than the configuration, read in the same way: unknown keys, wrong types and values out of range are problems, each with its line.
type Document struct {
	c Config // for file and positions
}

// ReadDocument reads a file into a struct with the tags that the types of this package have (toml, default, range, oneof, need). The document is nil when the file cannot be read
// or is not TOML; otherwise what could be understood is in the struct.
func ReadDocument(path string, into any) (*Document, []Problem) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, []Problem{{File: path, Message: "reading: " + err.Error()}}
	}
	var tree map[string]any
	if _, err := toml.Decode(string(data), &tree); err != nil {
		return nil, []Problem{syntaxProblem(path, err)}
	}
	doc := &Document{c: Config{File: path, positions: &lines{text: string(data)}}}
	d := decoder{config: &doc.c}
	d.table(reflect.ValueOf(into).Elem(), tree, nil)
	d.problems = Tidy(d.problems)
	return doc, d.problems
}

// Line is the line of a key or value, as Config.Line has it.
func (d *Document) Line(path ...any) int { return d.c.Line(path...) }

// Problem is an error about a value, with its position.
func (d *Document) Problem(message, hint string, path ...any) Problem {
	return d.c.Problem(message, hint, path...)
}
