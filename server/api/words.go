package api

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Percent is a percentage for people: 37 %, 8.3 %, <0.1 %.
func Percent(f float64) string {
	switch {
	case f > 0 && f < 0.05:
		return "<0.1 %"
	case f < 100 && f > 99.95:
		return ">99.9 %"
	}
	return strconv.FormatFloat(math.Round(10*f)/10, 'f', -1, 64) + " %"
}

// Short is a figure for people: at most three digits, of which nobody misses the rest.
func Short(f float64) string {
	digits := 2
	switch {
	case f >= 100:
		digits = 0
	case f >= 10:
		digits = 1
	}
	s := strconv.FormatFloat(f, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// Amount is a load or a capacity for people: 950, 81.2k, 1.25M.
func Amount(f float64) string {
	switch {
	case f >= 999_950:
		return Short(f/1e6) + "M"
	case f >= 1000:
		return Short(f/1e3) + "k"
	}
	return Short(f)
}

// Span is a length of time in its two largest units: 7h59m, 3m10s, 2d4h.
func Span(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d < time.Minute:
		return d.String()
	case d < time.Hour:
		return cutZero(fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second), "0s", 'm')
	}
	d = d.Round(time.Minute)
	if d < 48*time.Hour {
		return cutZero(fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute), "0m", 'h')
	}
	d = d.Round(time.Hour)
	return cutZero(fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour), "0h", 'd')
}

// cutZero takes the smaller unit off if it is zero: 8h0m becomes 8h, 8h10m stays.
func cutZero(s, zero string, unit byte) string {
	if cut, ok := strings.CutSuffix(s, zero); ok && cut[len(cut)-1] == unit {
		return cut
	}
	return s
}
