package config

import (
	"fmt"
	"strings"
	"time"
)

// Window is a time of the week, "Tue 10:00-11:00 UTC": days (a list with commas, ranges with "-", or left out for every day), a time
// from and to on the same day, and a time zone (left out: UTC).
type Window struct {
	Days     [7]bool        // by time.Weekday
	From, To time.Duration  // since midnight; From < To
	Zone     *time.Location // never nil after UnmarshalText
	text     string
}

// String is the window as written.
func (w Window) String() string { return w.text }

// UnmarshalText reads a window.
func (w *Window) UnmarshalText(b []byte) error {
	out := Window{Zone: time.UTC, text: string(b)}
	words := strings.Fields(out.text)
	if len(words) > 0 && !strings.Contains(words[0], ":") {
		if err := out.days(words[0]); err != nil {
			return err
		}
		words = words[1:]
	} else {
		out.Days = [7]bool{true, true, true, true, true, true, true}
	}
	if len(words) == 0 || len(words) > 2 {
		return fmt.Errorf("want days, a time from and to, and a time zone")
	}
	from, to, _ := strings.Cut(words[0], "-")
	var err error
	if out.From, err = clock(from); err != nil {
		return err
	}
	if out.To, err = clock(to); err != nil {
		return err
	}
	if out.From >= out.To {
		return fmt.Errorf("it ends before it starts")
	}
	if len(words) == 2 {
		if out.Zone, err = time.LoadLocation(words[1]); err != nil {
			return fmt.Errorf("unknown time zone %q", words[1])
		}
	}
	*w = out
	return nil
}

func (w *Window) days(list string) error {
	for item := range strings.SplitSeq(list, ",") {
		first, last, ranged := strings.Cut(item, "-")
		a, err := weekday(first)
		if err != nil {
			return err
		}
		b := a
		if ranged {
			if b, err = weekday(last); err != nil {
				return err
			}
		}
		for d := a; ; d = (d + 1) % 7 {
			w.Days[d] = true
			if d == b {
				break
			}
		}
	}
	return nil
}

func weekday(s string) (time.Weekday, error) {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.EqualFold(s, d.String()) || strings.EqualFold(s, d.String()[:3]) {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%q is no day of the week", s)
}

// clock is a time of day; 24:00 ends it.
func clock(s string) (time.Duration, error) {
	if s == "24:00" {
		return 24 * time.Hour, nil
	}
	t, err := time.Parse("15:04", s)
	if err != nil {
		return 0, fmt.Errorf("%q is no time of day", s)
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, nil
}

// Contains tells whether the window is open.
func (w Window) Contains(t time.Time) bool {
	t = t.In(w.Zone)
	since := time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second
	return w.Days[t.Weekday()] && since >= w.From && since < w.To
}

// Opening is when the window that is open at t has opened and will close; false if none is.
func (w Window) Opening(t time.Time) (from, to time.Time, open bool) {
	if !w.Contains(t) {
		return time.Time{}, time.Time{}, false
	}
	from, to = w.on(t.In(w.Zone))
	return from, to, true
}

// Next is when the window opens for the first time after t, on a day for which ok says yes; zero if it does not within two years.
func (w Window) Next(t time.Time, ok func(day time.Time) bool) time.Time {
	day := t.In(w.Zone)
	for range 2 * 366 {
		if from, _ := w.on(day); w.Days[day.Weekday()] && from.After(t) && ok(from) {
			return from
		}
		day = time.Date(day.Year(), day.Month(), day.Day()+1, 12, 0, 0, 0, w.Zone)
	}
	return time.Time{}
}

// Length is for how long the window is open, on days on which no clock is changed.
func (w Window) Length() time.Duration { return w.To - w.From }

// on is the window of a day.
func (w Window) on(day time.Time) (from, to time.Time) {
	y, m, d := day.Date()
	return time.Date(y, m, d, 0, int(w.From/time.Minute), 0, 0, w.Zone), time.Date(y, m, d, 0, int(w.To/time.Minute), 0, 0, w.Zone)
}

// Dates are days from first to last, "2026-12-24" or "2026-12-20..2027-01-02".
type Dates struct{ First, Last string } // "2006-01-02", so that they compare as text

// UnmarshalText reads a day or days.
func (d *Dates) UnmarshalText(b []byte) error {
	first, last, ranged := strings.Cut(string(b), "..")
	if !ranged {
		last = first
	}
	for _, s := range []string{first, last} {
		if _, err := time.Parse(time.DateOnly, s); err != nil {
			return fmt.Errorf("%q is no date", s)
		}
	}
	if last < first {
		return fmt.Errorf("it ends before it starts")
	}
	*d = Dates{first, last}
	return nil
}

// String is the days as written.
func (d Dates) String() string {
	if d.First == d.Last {
		return d.First
	}
	return d.First + ".." + d.Last
}

// Contains tells whether a moment is on one of the days, by the clock of its location.
func (d Dates) Contains(t time.Time) bool {
	day := t.Format(time.DateOnly)
	return d.First <= day && day <= d.Last
}
