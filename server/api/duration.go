package api

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time. In JSON it is text: "8h", "10m", "1h30m", or "forever".
type Duration time.Duration

// Forever is the length of what has no end.
const Forever Duration = math.MaxInt64

// ParseDuration reads what String writes, and whatever else time.ParseDuration accepts that is not below zero; whole days may come first: 3d, 1d12h.
func ParseDuration(s string) (Duration, error) {
	if s == "forever" {
		return Forever, nil
	}
	d, err := withDays(s)
	if err != nil {
		return 0, fmt.Errorf(`%q is not a length of time such as "10m", "8h" or "forever"`, s)
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is below zero", s)
	}
	return Duration(d), nil
}

// withDays is time.ParseDuration of what may begin with days of 24 hours.
func withDays(s string) (time.Duration, error) {
	before, rest, found := strings.Cut(s, "d")
	if !found {
		return time.ParseDuration(s)
	}
	days, err := strconv.ParseUint(before, 10, 16)
	if err != nil || rest == "" {
		return time.Duration(days) * 24 * time.Hour, err
	}
	d, err := time.ParseDuration(rest)
	if d < 0 {
		return 0, strconv.ErrRange
	}
	return time.Duration(days)*24*time.Hour + d, err
}

// String is the short form: 8h, not 8h0m0s.
func (d Duration) String() string {
	if d == Forever {
		return "forever"
	}
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDuration(string(text))
	return err
}
