package admin

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
)

// decode reads a JSON object into a struct, strictly: every field is known, spelled exactly so and given once, and nothing follows. Whatever is wrong is a problem that names the field.
func decode(data []byte, into any) *api.Problem {
	if !utf8.Valid(data) {
		return badRequest("the body is not UTF-8", "")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return badRequest("the body is empty", "send a JSON object")
	}
	s := strict{tokens: json.NewDecoder(bytes.NewReader(data))}
	if p := s.value(reflect.TypeOf(into).Elem(), ""); p != nil {
		return p
	}
	if _, err := s.tokens.Token(); !errors.Is(err, io.EOF) {
		return badRequest("something follows the JSON object", "")
	}
	if err := json.Unmarshal(data, into); err != nil { // a number that no float64 can be
		return badRequest(err.Error(), "")
	}
	return nil
}

// strict walks a JSON value beside the type that it is for: structs, lists, texts, numbers and booleans, and what reads itself from text.
type strict struct{ tokens *json.Decoder }

func (s *strict) value(t reflect.Type, path string) *api.Problem {
	token, err := s.tokens.Token()
	if err != nil {
		return syntax(err)
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if p := fits(token, t, path); p != nil {
		return p
	}
	switch token {
	case json.Delim('{'):
		return s.object(t, path)
	case json.Delim('['):
		for i := 0; s.tokens.More(); i++ {
			if p := s.value(t.Elem(), fmt.Sprintf("%s[%d]", path, i)); p != nil {
				return p
			}
		}
		return s.end()
	}
	return nil
}

// fits tells whether a value that begins with this token can be one of the type.
func fits(token json.Token, t reflect.Type, path string) *api.Problem {
	if path == "" && token != json.Delim('{') {
		return badRequest("the body is not a JSON object", "")
	}
	if token == nil { // null: left out
		return nil
	}
	text, isText := token.(string)
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](reflect.New(t)); ok && isText {
		if err := u.UnmarshalText([]byte(text)); err != nil {
			return invalid(path, err.Error(), "")
		}
		return nil
	} else if ok {
		return invalid(path, "want text", "")
	}
	_, isBool := token.(bool)
	_, isNumber := token.(float64)
	var ok bool
	var want string
	switch t.Kind() {
	case reflect.String:
		ok, want = isText, "want text"
	case reflect.Bool:
		ok, want = isBool, "want true or false"
	case reflect.Slice:
		ok, want = token == json.Delim('['), "want a list"
	case reflect.Struct:
		ok, want = token == json.Delim('{'), "want an object"
	default:
		ok, want = isNumber, "want a number"
	}
	if !ok {
		return invalid(path, want, "")
	}
	return nil
}

func (s *strict) object(t reflect.Type, path string) *api.Problem {
	known := map[string]reflect.Type{}
	jsonFields(t, known)
	seen := map[string]bool{}
	for s.tokens.More() {
		token, err := s.tokens.Token()
		if err != nil {
			return syntax(err)
		}
		key := token.(string)
		field := strings.TrimPrefix(path+"."+key, ".")
		if seen[key] {
			return invalid(field, "given twice", "")
		}
		seen[key] = true
		of, ok := known[key]
		if !ok {
			return invalid(field, "unknown field", config.DidYouMean(key, slices.Collect(maps.Keys(known))))
		}
		if p := s.value(of, field); p != nil {
			return p
		}
	}
	return s.end()
}

func (s *strict) end() *api.Problem {
	if _, err := s.tokens.Token(); err != nil {
		return syntax(err)
	}
	return nil
}

func syntax(err error) *api.Problem {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return badRequest("the JSON ends too early", "")
	}
	return badRequest("this is not JSON: "+err.Error(), "")
}

// jsonFields collects the fields of a struct by their names in JSON, those of embedded structs too.
func jsonFields(t reflect.Type, into map[string]reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			jsonFields(f.Type, into)
		case name != "-" && f.IsExported():
			into[name] = f.Type
		}
	}
}
