package config

import (
	"testing"
	"time"
)

// Where clocks are changed a window opens by the clock on the wall, and blocked days are those of its place.
func TestDrillOpens(t *testing.T) {
	var w Window
	if err := w.UnmarshalText([]byte("Sat-Sun 10:00-11:30 Europe/Berlin")); err != nil {
		t.Skip(err) // no time zones on this machine
	}
	d := Drill{Window: w, Blocked: []Dates{{"2026-03-22", "2026-03-28"}, {"2026-12-24", "2027-01-03"}}}
	at := func(s string) time.Time {
		t.Helper()
		m, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, tt := range []struct{ now, next, from, to string }{
		{"2026-03-20T12:00:00Z", "2026-03-21T09:00:00Z", "", ""},
		{"2026-03-21T09:00:00Z", "2026-03-29T08:00:00Z", "2026-03-21T09:00:00Z", "2026-03-21T10:30:00Z"}, // the next days are blocked, then the clocks are changed
		{"2026-03-22T09:30:00Z", "2026-03-29T08:00:00Z", "", ""},                                         // blocked
		{"2026-03-29T08:59:00Z", "2026-04-04T08:00:00Z", "2026-03-29T08:00:00Z", "2026-03-29T09:30:00Z"},
		{"2026-03-29T09:30:00Z", "2026-04-04T08:00:00Z", "", ""},
		{"2026-12-21T00:00:00Z", "2027-01-09T09:00:00Z", "", ""},
	} {
		if next := d.Next(at(tt.now)); !next.Equal(at(tt.next)) {
			t.Errorf("after %s the next is %s, want %s", tt.now, next.UTC().Format(time.RFC3339), tt.next)
		}
		from, to, open := d.Open(at(tt.now))
		if open != (tt.from != "") || open && (!from.Equal(at(tt.from)) || !to.Equal(at(tt.to))) {
			t.Errorf("at %s open %v, %s to %s", tt.now, open, from, to)
		}
	}
	d.Blocked = []Dates{{"2026-01-01", "2099-12-31"}}
	if next := d.Next(at("2026-03-20T12:00:00Z")); !next.IsZero() {
		t.Errorf("blocked for ever, and next on %s", next)
	}
}

func TestWindow(t *testing.T) {
	tests := []struct {
		text   string
		inside []string
		out    []string
	}{
		{"Tue 10:00-11:00 UTC", []string{"2026-12-01T10:00:00Z", "2026-12-01T10:59:59Z"}, []string{"2026-12-01T09:59:59Z", "2026-12-01T11:00:00Z", "2026-12-02T10:30:00Z"}},
		{"10:00-11:00", []string{"2026-12-01T10:00:00Z", "2026-12-06T10:00:00Z"}, []string{"2026-12-06T11:00:00Z"}},
		{"sat-mon,wednesday 22:00-24:00", []string{"2026-12-05T23:59:00Z", "2026-12-06T22:00:00Z", "2026-12-07T22:00:00Z", "2026-12-02T22:00:00Z"}, []string{"2026-12-01T22:00:00Z", "2026-12-03T23:00:00Z", "2026-12-06T00:00:00Z"}},
	}
	for _, tt := range tests {
		var w Window
		if err := w.UnmarshalText([]byte(tt.text)); err != nil {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		if w.String() != tt.text {
			t.Errorf("String() = %q, want %q", w, tt.text)
		}
		check := func(list []string, want bool) {
			for _, s := range list {
				at, err := time.Parse(time.RFC3339, s)
				if err != nil {
					t.Fatal(err)
				}
				if w.Contains(at) != want {
					t.Errorf("%q contains %s = %v", tt.text, s, !want)
				}
			}
		}
		check(tt.inside, true)
		check(tt.out, false)
	}
	for _, bad := range []string{"", "Tue", "Tue 10-11", "Tue 10:00", "10:00-25:00", "11:00-10:00", "10:00-10:00", "Die 10:00-11:00", "10:00-11:00 Mars/Olympus", "Tue 10:00-11:00 UTC more", "Tue-Dim 10:00-11:00"} {
		var w Window
		if err := w.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestDates(t *testing.T) {
	var d Dates
	if err := d.UnmarshalText([]byte("2026-12-20..2027-01-02")); err != nil {
		t.Fatal(err)
	}
	for day, want := range map[string]bool{"2026-12-19": false, "2026-12-20": true, "2027-01-01": true, "2027-01-02": true, "2027-01-03": false} {
		at, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		if d.Contains(at.Add(23*time.Hour)) != want {
			t.Errorf("contains %s = %v, want %v", day, !want, want)
		}
	}
	for _, bad := range []string{"", "2026-13-01", "2026-12-02..2026-12-01", "24.12.2026"} {
		if err := d.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
