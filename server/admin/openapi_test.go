package admin

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/server/api"
)

var update = flag.Bool("update", false, "write openapi.json")

// TestOpenAPI makes the document from the routes, the types of server/api and their comments, and compares.
func TestOpenAPI(t *testing.T) {
	d := newDescriber(t)
	data, err := json.MarshalIndent(d.document(routes()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, '\n')
	if *update {
		if err := os.WriteFile("openapi.json", data, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(string(description), "\n"), strings.Split(string(data), "\n")); diff != "" {
		t.Errorf("openapi.json is not what routes and types say; write it with -update (-file +code):\n%s", diff)
	}
}

// TestOpenAPIRefs checks the document as a reader without the generator would: references lead somewhere, every field has a description, operations have unique names.
func TestOpenAPIRefs(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		}
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Description string
					Ref         string `json:"$ref"`
				}
			}
		}
	}
	if err := json.Unmarshal(description, &doc); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"#/components/schemas/(\w+)"`).FindAllSubmatch(description, -1) {
		if _, ok := doc.Components.Schemas[string(m[1])]; !ok {
			t.Errorf("reference to %s, which is not there", m[1])
		}
	}
	for name, s := range doc.Components.Schemas {
		for field, p := range s.Properties {
			if p.Description == "" {
				t.Errorf("%s.%s is not described", name, field)
			}
		}
	}
	ids := map[string]bool{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if op.OperationID == "" || ids[op.OperationID] {
				t.Errorf("%s %s: operation id %q is missing or not unique", method, path, op.OperationID)
			}
			ids[op.OperationID] = true
		}
	}
}

// TestSchema checks that every top-level answer carries the version of its types.
func TestSchema(t *testing.T) {
	for _, r := range routes() {
		if r.op.out == nil {
			continue
		}
		typ := reflect.TypeOf(r.op.out).Elem()
		f, ok := typ.FieldByName("Schema")
		if !ok || f.Tag.Get("json") != "schema" {
			t.Errorf("%s: %v has no schema", r.name(), typ)
		}
	}
}

type object = map[string]any

// describer knows the comments and constants of server/api.
type describer struct {
	t       *testing.T
	types   map[string]string            // comment by type
	fields  map[string]map[string]string // comment by type and field
	values  map[string][]string          // string constants by their type
	schemas object
}

func newDescriber(t *testing.T) *describer {
	d := &describer{t: t, types: map[string]string{}, fields: map[string]map[string]string{}, values: map[string][]string{}, schemas: object{}}
	names, err := filepath.Glob("../api/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			if g, ok := decl.(*ast.GenDecl); ok {
				for _, spec := range g.Specs {
					d.add(g, spec)
				}
			}
		}
	}
	return d
}

func (d *describer) add(g *ast.GenDecl, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		d.types[spec.Name.Name] = text(g.Doc)
		s, ok := spec.Type.(*ast.StructType)
		if !ok {
			return
		}
		of := map[string]string{}
		d.fields[spec.Name.Name] = of
		for _, f := range s.Fields.List {
			for _, n := range f.Names {
				of[n.Name] = strings.TrimSpace(text(f.Doc) + " " + text(f.Comment))
			}
		}
	case *ast.ValueSpec:
		typ, ok := spec.Type.(*ast.Ident)
		if !ok || len(spec.Values) != 1 {
			return
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			v, _ := strconv.Unquote(lit.Value)
			d.values[typ.Name] = append(d.values[typ.Name], v)
		}
	}
}

func text(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }

func (d *describer) document(routes []route) object {
	paths := object{}
	for i := range routes {
		r := &routes[i]
		path, _ := paths[r.path].(object)
		if path == nil {
			path = object{}
			paths[r.path] = path
		}
		path[strings.ToLower(r.method)] = d.operation(r)
	}
	problem := d.schema(reflect.TypeFor[api.Problem]())
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title":       "edgesteer admin API",
			"version":     strconv.Itoa(api.Schema),
			"description": "Through the unix socket no credentials are needed; elsewhere a bearer token or a client certificate. New fields may appear, none changes its meaning.",
		},
		"paths": paths,
		"components": object{
			"schemas":         d.schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}, "certificate": object{"type": "mutualTLS"}},
			"responses": object{"Problem": object{
				"description": "A problem document (RFC 9457).",
				"content":     object{"application/problem+json": object{"schema": problem}},
			}},
		},
	}
}

func (d *describer) operation(r *route) object {
	op := object{
		"operationId": regexp.MustCompile(`\W+`).ReplaceAllString(strings.ToLower(r.method)+r.path, "_"),
		"summary":     r.summary,
		"security":    []object{},
	}
	if r.allow != nobody {
		op["description"] = "For the roles " + r.allow.String() + "."
		op["security"] = []object{{"token": []string{}}, {"certificate": []string{}}}
	}
	var params []object
	for _, m := range regexp.MustCompile(`{(\w+)}`).FindAllStringSubmatch(r.path, -1) {
		params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range r.query {
		params = append(params, object{"name": p.name, "in": "query", "description": p.about, "required": strings.HasSuffix(p.about, "; required"), "schema": object{"type": "string"}})
	}
	if r.op.order {
		params = append(params,
			object{"name": "Idempotency-Key", "in": "header", "description": "A retry with the same key is the same request.", "schema": object{"type": "string"}},
			object{"name": "If-Match", "in": "header", "description": "Version of the ledger, in quotes: the request is refused if it has changed since.", "schema": object{"type": "string"}})
	}
	if params != nil {
		op["parameters"] = params
	}
	if r.op.in != nil {
		op["requestBody"] = object{"required": true, "content": object{jsonType: object{"schema": d.schema(reflect.TypeOf(r.op.in).Elem())}}}
	}
	schema := object{"type": "string"}
	if r.op.out != nil {
		schema = d.schema(reflect.TypeOf(r.op.out).Elem())
	} else if r.op.answer == jsonType {
		schema = object{"type": "object"}
	}
	op["responses"] = object{
		"200":     object{"description": "Done.", "content": object{r.op.answer: object{"schema": schema}}},
		"default": object{"$ref": "#/components/responses/Problem"},
	}
	return op
}

// schema describes a type; structs and types with constants are named components.
func (d *describer) schema(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[api.Duration]():
		return object{"type": "string", "examples": []string{"8h", "10m", "forever"}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.schema(t.Elem())
	case reflect.Slice:
		return object{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": d.schema(t.Elem())}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Uint64, reflect.Uint32:
		return object{"type": "integer"}
	case reflect.String:
		if t.PkgPath() == "" {
			return object{"type": "string"}
		}
		return d.component(t, func() object { return object{"type": "string", "enum": d.values[t.Name()]} })
	case reflect.Struct:
		return d.component(t, func() object {
			properties, required := object{}, []string{}
			d.properties(t, properties, &required)
			o := object{"type": "object", "properties": properties}
			if len(required) > 0 {
				o["required"] = required
			}
			return o
		})
	}
	d.t.Fatalf("type %v cannot be described", t)
	return nil
}

func (d *describer) component(t reflect.Type, describe func() object) object {
	if _, ok := d.schemas[t.Name()]; !ok {
		d.schemas[t.Name()] = nil // types may hold themselves
		o := describe()
		o["description"] = d.types[t.Name()]
		if o["description"] == "" {
			d.t.Errorf("type %v has no comment", t)
		}
		d.schemas[t.Name()] = o
	}
	return object{"$ref": "#/components/schemas/" + t.Name()}
}

func (d *describer) properties(t reflect.Type, into object, required *[]string) {
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && name == "":
			d.properties(f.Type, into, required)
			continue
		case name == "-":
			continue
		case name == "":
			d.t.Errorf("%v.%s has no name in JSON", t, f.Name)
		}
		o := d.schema(f.Type)
		o["description"] = d.fields[t.Name()][f.Name]
		if o["description"] == "" {
			d.t.Errorf("%v.%s has no comment", t, f.Name)
		}
		into[name] = o
		if !strings.Contains(options, "omit") {
			*required = append(*required, name)
		}
	}
}

// TestOpenAPIIsServed reads it as anybody may.
func TestOpenAPIIsServed(t *testing.T) {
	f := newFixture(t)
	res := f.do(t, f.tcp, "GET", "/v1/openapi.json", "", nil)
	if res.status != 200 || !bytes.Equal(res.body, description) {
		t.Errorf("status %d, %d octets", res.status, len(res.body))
	}
}
