package config

import (
	"encoding"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test -run ^TestReference$ . -update

const begin, end = "<!-- keys: made by go generate from the types -->\n", "<!-- end of keys -->\n"

// TestReference holds the README's tables of keys to the types and their comments; -update writes them.
func TestReference(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(readme), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("README.md has no place for the keys")
	}
	r := reference{comments: comments(t)}
	r.table(reflect.TypeFor[Config](), "", false)
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile("README.md", []byte(before+begin+r.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(r.String(), old); diff != "" {
		t.Errorf("README.md is not what the types say; run: go generate ./server/config\n(-types +README):\n%s", diff)
	}
	for _, m := range r.missing {
		t.Errorf("%s has no comment", m)
	}
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the tables of keys in README.md")
	flag.Parse()
	os.Exit(m.Run())
}

// comments are those of struct types and their fields, by "Type" and "Type.Field".
func comments(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE {
				continue
			}
			spec, ok := d.Specs[0].(*ast.TypeSpec)
			if !ok {
				continue
			}
			out[spec.Name.Name] = strings.Join(strings.Fields(d.Doc.Text()), " ")
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					for _, n := range field.Names {
						out[spec.Name.Name+"."+n.Name] = strings.TrimSpace(field.Comment.Text())
					}
				}
			}
		}
	}
	return out
}

type reference struct {
	strings.Builder
	comments map[string]string
	missing  []string
}

// table writes a struct and then the tables in it.
func (r *reference) table(t reflect.Type, name string, array bool) {
	var inner []reflect.StructField
	var rows strings.Builder
	for f := range t.Fields() {
		key := f.Tag.Get("toml")
		if key == "" || key == "-" {
			continue
		}
		if r.comments[t.Name()+"."+f.Name] == "" {
			r.missing = append(r.missing, t.Name()+"."+f.Name)
		}
		if tableType(f.Type) != nil {
			inner = append(inner, f)
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s | %s |\n", key, typeText(f.Type), defaultText(f), allowedText(f), r.comments[t.Name()+"."+f.Name])
	}
	heading := "the file"
	switch {
	case array:
		heading = "`[[" + name + "]]`"
	case name != "":
		heading = "`[" + name + "]`"
	}
	doc := strings.TrimPrefix(r.comments[t.Name()], t.Name()+" ")
	doc = strings.TrimPrefix(strings.TrimPrefix(doc, "is "), "says ")
	fmt.Fprintf(r, "### %s\n\n%s\n\n| key | type | default | allowed | meaning |\n|---|---|---|---|---|\n%s\n", heading, strings.ToUpper(doc[:1])+doc[1:], rows.String())
	for _, f := range inner {
		inName := strings.TrimPrefix(name+"."+f.Tag.Get("toml"), ".")
		if f.Type.Kind() == reflect.Map {
			inName += ".NAME"
		}
		r.table(tableType(f.Type), inName, f.Type.Kind() == reflect.Slice)
	}
}

// tableType is the struct that a key's value is, or is a list, map or pointer of; nil for scalars.
func tableType(t reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return tableType(t.Elem())
	case reflect.Struct:
		if !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			return t
		}
	}
	return nil
}

func typeText(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Percent]():
		return "percentage"
	case reflect.TypeFor[netip.Prefix]():
		return "address or prefix"
	case reflect.TypeFor[netip.AddrPort]():
		return "address and port"
	case reflect.TypeFor[Window]():
		return "window"
	case reflect.TypeFor[Dates]():
		return "day or days"
	case reflect.TypeFor[Meta]():
		return "metadata"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeText(t.Elem())
	case reflect.Slice:
		if tableType(t) != nil {
			return "tables"
		}
		return "list of " + typeText(t.Elem())
	case reflect.Map:
		if tableType(t) != nil {
			return "tables by name"
		}
		return "table of " + typeText(t.Elem())
	case reflect.Struct:
		return "table"
	case reflect.Interface:
		return "value"
	case reflect.Float64:
		return "number"
	case reflect.Bool, reflect.String:
		return t.Kind().String()
	}
	return "whole number"
}

func defaultText(f reflect.StructField) string {
	if text, ok := f.Tag.Lookup("default"); ok {
		return "`" + text + "`"
	}
	if f.Tag.Get("need") != "" {
		return "needed"
	}
	if f.Type.Kind() == reflect.Bool {
		return "`false`"
	}
	return ""
}

func allowedText(f reflect.StructField) string {
	if text := f.Tag.Get("range"); text != "" {
		low, high, _ := strings.Cut(text, "..")
		return low + " to " + high
	}
	return f.Tag.Get("oneof")
}

// TestTags: every range can be read, every default is allowed, and every number and duration without a range is on purpose.
func TestTags(t *testing.T) {
	free := []string{"Metric.Low", "Metric.High"}
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		var d decoder
		d.config = &Config{}
		d.table(reflect.New(typ).Elem(), nil, nil)
		for _, p := range d.problems {
			t.Errorf("default of %s: %v", typ.Name(), p)
		}
		for f := range typ.Fields() {
			if inner := tableType(f.Type); inner != nil && f.Tag.Get("toml") != "-" {
				walk(inner)
			}
			field := typ.Name() + "." + f.Name
			kind := strings.TrimPrefix(typeText(f.Type), "list of ")
			low, high, ranged := strings.Cut(f.Tag.Get("range"), "..")
			for _, s := range []string{low, high} {
				_, numErr := strconv.ParseFloat(s, 64)
				if _, err := time.ParseDuration(s); ranged && kind == "duration" && err != nil || ranged && kind != "duration" && numErr != nil {
					t.Errorf("%s: %q in its range", field, s)
				}
			}
			if !ranged && !slices.Contains(free, field) && f.Tag.Get("toml") != "" && (strings.HasSuffix(kind, "number") || kind == "duration") {
				t.Errorf("%s has no range", field)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
}
