// Package config is the TOML file that operators write: its types, defaults and syntax, with positions for whoever checks the meaning.
//
// It knows no DNS and no filters; zones/zonefile turns zones and records into what is served, server/app the rest.
// Load reports everything that is wrong at once. Every key, its range and its default are in the package's README, made from the types here.
package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/BurntSushi/toml"
)

// Config is the whole file. Defaults are applied by Load.
type Config struct {
	Server     Server     `toml:"server"`     // the DNS server itself
	Log        Log        `toml:"log"`        // what is written to standard error
	Dnstap     *Dnstap    `toml:"dnstap"`     // the query log; left out: none
	Admin      Admin      `toml:"admin"`      // the HTTP API, metrics and the page
	Geo        Geo        `toml:"geo"`        // where clients are
	Cluster    *Cluster   `toml:"cluster"`    // the fleet; left out: a single node
	Automation Automation `toml:"automation"` // what is done about sick endpoints without an operator
	Prometheus Prometheus `toml:"prometheus"` // where load queries and the abort conditions of drills are asked
	Drills     []Drill    `toml:"drill"`      // practice drains
	TSIG       []TSIG     `toml:"tsig"`       // keys of zone transfers
	Feeds      []Feed     `toml:"feed"`       // metadata that is pushed through the API; a feed needs an entry only to differ from the defaults
	PoPs       []PoP      `toml:"pop"`        // places with traffic capacity
	Services   []Service  `toml:"service"`    // what is served at PoPs
	Zones      []Zone     `toml:"zone"`       // what is answered

	File      string               `toml:"-"` // as given to Load
	Dir       string               `toml:"-"` // relative paths in the file start here
	positions *lines               // see Config.Line; nil: none
	hash      string               // see Config.Hash
	known     map[string]*zoneText // see Config.Reload
}

// Load reads a configuration and fills in the defaults. The problems are all that syntax can tell, in the order of the file.
//
// The configuration is nil when the file cannot be read or is not TOML. Otherwise it holds what could be understood, so that the
// meaning can be checked too before all is reported; it may be served only if no problem is an error (see Failed).
func Load(path string) (*Config, []Problem) { return load(path, nil) }

// Reload is Load of the same file. Zones whose text is the same as before are not decoded again: the two configurations share them.
func (c *Config) Reload() (*Config, []Problem) { return load(c.File, c.known) }

func load(path string, known map[string]*zoneText) (*Config, []Problem) {
	data, err := os.ReadFile(path)
	if err != nil {
		p := Problem{File: path, Message: "reading configuration: " + err.Error()}
		if errors.Is(err, fs.ErrNotExist) {
			p.Hint = "give the path of the configuration with --config"
		}
		return nil, []Problem{p}
	}
	return parse(path, string(data), known)
}

// Parse is Load for a file already read; name stands for its path.
func Parse(name string, data []byte) (*Config, []Problem) { return parse(name, string(data), nil) }

func parse(name, text string, known map[string]*zoneText) (*Config, []Problem) {
	t, ok := decodeParts(text, known)
	if !ok {
		t = tree{}
		if _, err := toml.Decode(text, &t.rest); err != nil {
			return nil, []Problem{syntaxProblem(name, err)}
		}
	}
	return build(name, text, t)
}

// build makes a configuration of a decoded text.
func build(name, text string, t tree) (*Config, []Problem) {
	c := &Config{File: name, Dir: filepath.Dir(name), positions: &lines{text: text, zones: t.parts}, hash: t.hash()}
	d := decoder{config: c}
	c.known = d.decode(c, t)
	c.derive()
	d.problems = append(d.problems, c.check(d.problems)...)
	return c, Tidy(d.problems)
}

func syntaxProblem(name string, err error) Problem {
	p := Problem{File: name, Message: err.Error()}
	if pe, ok := errors.AsType[toml.ParseError](err); ok {
		p.Line, p.Message, p.Field = pe.Position.Line, pe.Message, pe.LastKey
	}
	return p
}

// derive fills in the defaults that follow from other keys.
func (c *Config) derive() {
	if c.Server.Node == "" {
		c.Server.Node, _ = os.Hostname() // no name: "" and check says so
	}
	if c.Admin.Listen == nil {
		c.Admin.Listen = []string{"unix:" + filepath.ToSlash(filepath.Join(c.Server.State, "admin.sock"))}
	}
}

// Hash stands for what must be the same on all nodes of a fleet: 12 hex digits of all that the file says, but for the tables that are about
// one node (server, log, dnstap, admin, cluster). Layout and comments do not enter it.
func (c *Config) Hash() string { return c.hash }

// Path is a path of the file made usable from here: relative ones start at the configuration's folder.
func (c *Config) Path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.Dir, p)
}

// Line is the line of a key or value, from 1: ("zone", 0, "record", 3, "filters", 1) is the second filter of the fourth record of the
// first zone. For what is not in the file it is the line of the nearest thing around it, or 0 if there is none.
func (c *Config) Line(path ...any) int {
	if c.positions == nil {
		return 0
	}
	return c.positions.line(path)
}

// Given tells whether the file itself has a key or value: not whether it has a default.
func (c *Config) Given(path ...any) bool {
	if c.positions == nil {
		return false
	}
	p, path := c.positions.locate(path)
	return p != nil && p.given(path)
}

// Problem is an error about a value, with its position.
func (c *Config) Problem(message, hint string, path ...any) Problem {
	return Problem{File: c.File, Line: c.Line(path...), Field: Field(path...), Message: message, Hint: hint}
}
