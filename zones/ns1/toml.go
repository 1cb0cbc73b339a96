package ns1

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/edgesteer/edgesteer/server/config"
)

// perLine is how many items of a long list stand on a line.
const perLine = 8

// value writes a JSON value as TOML.
func value(v any) (string, error) {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v), nil
	case json.Number:
		return number(v)
	case string:
		return quote(v), nil
	case []any:
		return array(v)
	case map[string]any:
		fields := make([]string, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			text, err := value(v[name])
			if err != nil {
				return "", err
			}
			fields = append(fields, key(name)+" = "+text)
		}
		if len(fields) == 0 {
			return "{}", nil
		}
		return "{ " + strings.Join(fields, ", ") + " }", nil
	}
	return "", errors.New("null is no value")
}

func array(list []any) (string, error) {
	var b strings.Builder
	b.WriteByte('[')
	for i, item := range list {
		text, err := value(item)
		if err != nil {
			return "", err
		}
		switch {
		case len(list) > perLine && i%perLine == 0:
			b.WriteString("\n    ")
		case i > 0:
			b.WriteByte(' ')
		}
		b.WriteString(text)
		if i < len(list)-1 {
			b.WriteByte(',')
		}
	}
	if len(list) > perLine {
		b.WriteByte('\n')
	}
	b.WriteByte(']')
	return b.String(), nil
}

func number(n json.Number) (string, error) {
	if i, err := n.Int64(); err == nil {
		return strconv.FormatInt(i, 10), nil
	}
	f, err := n.Float64()
	if err != nil || math.IsInf(f, 0) {
		return "", fmt.Errorf("%s is out of range", n)
	}
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0" // beyond the whole numbers of TOML
	}
	return text, nil
}

// key is a key, in quotes if it needs them.
func key(s string) string {
	if f := config.Field(s); f == s && s != "" {
		return s
	}
	return quote(s)
}

// quote is a basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, "\\u%04X", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
