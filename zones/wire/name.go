package wire

import (
	"cmp"
	"fmt"
	"strings"
)

// ParseName turns the text of a master file (RFC 1035 section 5.1) into a name: \X is the character X, \DDD the
// octet with that decimal number. The name is taken as absolute, with or without a dot at its end; "." is the root. Case is kept.
func ParseName(text string) ([]byte, error) {
	if text == "" {
		return nil, fmt.Errorf("name is empty (the root is written %q)", ".")
	}
	if text == "." {
		return []byte{0}, nil
	}
	name := make([]byte, 1, len(text)+2)
	start := 0 // of the open label: its length octet
	end := func() error {
		n := len(name) - start - 1
		if n == 0 {
			return fmt.Errorf("name %q has an empty label", text)
		}
		if n > MaxLabel {
			return fmt.Errorf("name %q has a label of %d octets, %d are allowed", text, n, MaxLabel)
		}
		name[start] = byte(n)
		start = len(name)
		name = append(name, 0)
		return nil
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch c {
		case '.':
			if err := end(); err != nil {
				return nil, err
			}
			continue
		case '\\':
			n, used := unescape(text[i+1:])
			if used == 0 {
				return nil, fmt.Errorf("name %q: %q is neither \\DDD up to 255 nor \\ and a character", text, text[i:min(i+4, len(text))])
			}
			c = n
			i += used
		}
		name = append(name, c)
	}
	if len(name) > start+1 { // no dot at the end
		if err := end(); err != nil {
			return nil, err
		}
	}
	if len(name) > MaxName {
		return nil, fmt.Errorf("name %q has %d octets, %d are allowed", text, len(name), MaxName)
	}
	return name, nil
}

// unescape reads what follows a backslash: the octet, and how many characters it took (0: not an escape).
func unescape(s string) (octet byte, used int) {
	if s == "" {
		return 0, 0
	}
	if !digit(s[0]) {
		return s[0], 1
	}
	if len(s) < 3 || !digit(s[1]) || !digit(s[2]) {
		return 0, 0
	}
	n := int(s[0]-'0')*100 + int(s[1]-'0')*10 + int(s[2]-'0')
	if n > 255 {
		return 0, 0
	}
	return byte(n), 3
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// NameString is the text of a name, with a dot at its end: what ParseName reads back as the same octets. It is for
// logs and messages; octets that are no name give "<bad name>".
func NameString(name []byte) string {
	if nameLen(name) != len(name) {
		return "<bad name>"
	}
	if len(name) == 1 {
		return "."
	}
	var s strings.Builder
	s.Grow(len(name))
	for name[0] != 0 {
		end := 1 + int(name[0])
		for _, c := range name[1:end] {
			switch {
			case strings.IndexByte(`.\"();@$`, c) >= 0:
				s.WriteByte('\\')
				s.WriteByte(c)
			case c <= ' ' || c > '~':
				fmt.Fprintf(&s, "\\%03d", c)
			default:
				s.WriteByte(c)
			}
		}
		s.WriteByte('.')
		name = name[end:]
	}
	return s.String()
}

// ToLower appends the lower-cased name to dst. Only the letters of ASCII have case (RFC 4343 section 3).
// dst must not overlap name, except that ToLower(name[:0], name) works in place.
func ToLower(dst, name []byte) []byte {
	for _, c := range name {
		dst = append(dst, lower(c))
	}
	return dst
}

// EqualFold reports whether two names are the same, whatever the case of their letters (RFC 4343).
func EqualFold(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	if string(a) == string(b) {
		return true
	}
	for i, c := range a {
		if c != b[i] && lower(c) != lower(b[i]) {
			return false
		}
	}
	return true
}

// lower folds an octet. Length octets are at most 63 and so below 'A': a whole name can be folded octet by octet.
func lower(c byte) byte {
	if c-'A' < 26 {
		c |= 0x20
	}
	return c
}

// lower8 folds eight octets at once.
func lower8(x uint64) uint64 {
	const each = 0x0101010101010101
	low7 := x & (0x7f * each)
	fromA := low7 + (0x80-'A')*each   // bit 7 of an octet: at least 'A'
	pastZ := low7 + (0x7f-'Z')*each   // bit 7: more than 'Z'
	ascii := ^x & (0x80 * each)       // bit 7: below 128
	upper := ascii & (fromA &^ pastZ) // bit 7: a capital letter
	return x | upper>>2
}

// CountLabels is the number of labels of a name without the root: 0 for the root, 3 for www.example.com.
func CountLabels(name []byte) int {
	n := 0
	for i := 0; i < len(name) && name[i] != 0; i += 1 + int(name[i]) {
		n++
	}
	return n
}

// IsSubdomain reports whether name is parent or lies below it, whatever the case. Everything lies below the root.
func IsSubdomain(name, parent []byte) bool {
	for len(name) > len(parent) && name[0] != 0 {
		name = name[min(1+int(name[0]), len(name)):]
	}
	return EqualFold(name, parent)
}

// Compare orders two names canonically (RFC 4034 section 6.1): label by label from the root, as lower-cased octets.
// It returns -1, 0 or 1.
func Compare(a, b []byte) int {
	var la, lb [MaxLabels + 1]uint8
	na, _ := labels(a, &la)
	nb, _ := labels(b, &lb)
	for na > 0 && nb > 0 {
		na--
		nb--
		x, y := a[int(la[na])+1:la[na+1]], b[int(lb[nb])+1:lb[nb+1]]
		for i := 0; i < len(x) && i < len(y); i++ {
			if cx, cy := lower(x[i]), lower(y[i]); cx != cy {
				return cmp.Compare(cx, cy)
			}
		}
		if len(x) != len(y) {
			return cmp.Compare(len(x), len(y))
		}
	}
	return cmp.Compare(na, nb)
}

// labels writes the offset of each label of a name, and behind them that of the root, to at. It returns the number of
// labels without the root; ok is false when name is not exactly one whole name.
func labels(name []byte, at *[MaxLabels + 1]uint8) (n int, ok bool) {
	i := 0
	for i < len(name) && i < MaxName {
		at[n] = uint8(i)
		l := int(name[i])
		if l == 0 {
			return n, i+1 == len(name)
		}
		if l > MaxLabel {
			return n, false
		}
		i += 1 + l
		n++
	}
	return n, false
}

// nameLen is the length of the name at the start of b, or -1 when there is none.
func nameLen(b []byte) int {
	for i := 0; i < len(b) && i < MaxName; i += 1 + int(b[i]) {
		if b[i] == 0 {
			return i + 1
		}
		if b[i] > MaxLabel {
			return -1
		}
	}
	return -1
}
