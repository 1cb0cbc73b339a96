package ns1

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxText is the longest character-string, in octets (RFC 1035 section 3.3).
const maxText = 255

// form tells what the fields of a type's data are, a letter each: n is a domain name, which NS1 writes without the dot at its end; t is text that master files have in quotes;
// - is written as it is. The last letter counts for all that follow.
func form(typ string) string {
	switch typ {
	case "CNAME", "NS", "PTR", "DNAME":
		return "n"
	case "MX", "AFSDB", "KX", "LP":
		return "-n"
	case "SRV":
		return "---n"
	case "RP":
		return "nn"
	case "SVCB", "HTTPS":
		return "-n-"
	case "SOA":
		return "nn-----"
	case "TXT", "SPF":
		return "t"
	case "HINFO":
		return "tt"
	case "CAA", "URI":
		return "--t"
	case "NAPTR":
		return "--tttn"
	}
	return "-"
}

// rdata is the data of an answer in master file form. NS1 has a list of fields, or a text.
func rdata(typ string, answer any) (string, error) {
	list, ok := answer.([]any)
	if text, single := answer.(string); single {
		list, ok = []any{text}, true
	}
	if ok && len(list) == 0 {
		return "", errors.New("the list of the record's fields is empty")
	}
	if !ok {
		return "", fmt.Errorf("want a list of the record's fields, got %s", kind(answer))
	}
	fields := make([]string, len(list))
	for i, item := range list {
		switch item := item.(type) {
		case string:
			fields[i] = item
		case json.Number:
			fields[i] = item.String()
		default:
			return "", fmt.Errorf("want texts and numbers, got %s", kind(item))
		}
	}
	form := form(typ)
	if len(fields) == 1 && len(form) > 1 { // all in one text
		if strings.Contains(form, "t") {
			fields = words(fields[0], len(form))
		} else {
			fields = strings.Fields(fields[0])
		}
	}
	out := make([]string, 0, len(fields))
	for i, f := range fields {
		switch form[min(i, len(form)-1)] {
		case 'n':
			f = strings.TrimSpace(f)
			if f == "" {
				return "", errors.New("a name is empty")
			}
			if !strings.HasSuffix(f, ".") {
				f += "."
			}
		case 't':
			if len(form) > 1 {
				f = strings.Trim(f, `"`)
			}
			f = texts(f)
		}
		out = append(out, f)
	}
	return strings.Join(out, " "), nil
}

// words are up to n fields of a text; the last has the rest.
func words(s string, n int) (fields []string) {
	for s = strings.TrimSpace(s); len(fields) < n-1; s = strings.TrimSpace(s) {
		i := strings.IndexAny(s, " \t")
		if i < 0 {
			break
		}
		fields = append(fields, s[:i])
		s = s[i:]
	}
	return append(fields, s)
}

// texts are character-strings, as many as the text needs.
func texts(s string) string {
	var b strings.Builder
	for {
		n := min(len(s), maxText)
		b.WriteByte('"')
		for _, c := range []byte(s[:n]) {
			switch {
			case c == '"' || c == '\\':
				b.WriteByte('\\')
				b.WriteByte(c)
			case c < ' ' || c > '~':
				fmt.Fprintf(&b, "\\%03d", c)
			default:
				b.WriteByte(c)
			}
		}
		b.WriteByte('"')
		if s = s[n:]; s == "" {
			return b.String()
		}
		b.WriteByte(' ')
	}
}
