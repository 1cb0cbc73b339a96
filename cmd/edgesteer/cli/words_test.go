package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

func TestWords(t *testing.T) {
	person, program := &streams{terminal: true}, &streams{}
	now := at("2026-03-29T23:10:00Z")
	tests := []struct{ got, want string }{
		{api.Percent(37), "37 %"}, {api.Percent(8.31), "8.3 %"}, {api.Percent(0), "0 %"}, {api.Percent(0.04), "<0.1 %"}, {api.Percent(99.96), ">99.9 %"}, {api.Percent(99.94), "99.9 %"}, {api.Percent(100), "100 %"},
		{person.share(62.5), "62.5 %"}, {program.share(62.5), "62.5"},
		{person.part(new(8.0)), "8.0 %"}, {program.part(new(8.0)), "8.000"}, {person.part(nil), "unknown"},
		{person.amount(new(950.0)), "950"}, {person.amount(new(1000.0)), "1k"}, {person.amount(new(81_234.0)), "81.2k"}, {person.amount(new(999_900.0)), "1000k"},
		{person.amount(new(999_951.0)), "1M"}, {person.amount(new(1_250_000.0)), "1.25M"}, {person.amount(new(0.5)), "0.5"}, {person.amount(new(0.0)), "0"}, {person.amount(nil), "unknown"},
		{person.amount(new(100.0)), "100"}, {program.amount(new(81_234.0)), "81234"},
		{api.Span(0), "0s"}, {api.Span(59 * time.Second), "59s"}, {api.Span(10 * time.Minute), "10m"}, {api.Span(190 * time.Second), "3m10s"}, {api.Span(8 * time.Hour), "8h"}, {api.Span(8*time.Hour - time.Minute), "7h59m"},
		{api.Span(8*time.Hour - time.Second), "8h"}, {api.Span(10 * time.Hour), "10h"}, {api.Span(52 * time.Hour), "2d4h"}, {api.Span(72 * time.Hour), "3d"},
		{person.until(moments("2026-03-29T23:40:00Z"), now), "23:40 UTC, in 30m"}, {person.until(moments("2026-03-30T00:10:00Z"), now), "2026-03-30 00:10 UTC, in 1h"},
		{program.until(moments("2026-03-30T00:10:00.7Z"), now), "2026-03-30T00:10:00Z"}, {person.until(nil, now), "never"},
		{who("\x1b[31mroot\nbob\u202e", "person"), "[31mroot bob"}, {object("f\x1bra", "", api.KindDrain, 37), "f ra by 37 %"}, {why("a\x1b]0;b\x07\u009bc", "T\t1"), "a ]0;b c (T 1)"},
		{why("two\nlines", "T-1"), "two lines (T-1)"}, {why("", "T-1"), "T-1"}, {why("x", ""), "x"},
		{quoted("unix:/run/s"), "unix:/run/s"}, {quoted("it's"), `'it'\''s'`}, {quoted(""), "''"},
		{who("bob", "person"), "bob"}, {who("prometheus", "automation"), "prometheus (automation)"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestWrapped(t *testing.T) {
	s := &streams{terminal: true, width: 30}
	got := s.wrapped(4, "warning: this is a line that is longer than thirty columns, twice")
	want := "warning: this is a line that\n    is longer than thirty\n    columns, twice"
	if got != want {
		t.Errorf("got\n%s", got)
	}
	for line := range strings.SplitSeq(got, "\n") {
		if len(line) > 30 {
			t.Errorf("%q is too long", line)
		}
	}
	if got := s.cut(strings.Repeat("ä", 31)); got != strings.Repeat("ä", 29)+"…" {
		t.Errorf("cut: %q", got)
	}
}

// What is bold is as wide as what is not, and stays whole where a line is cut.
func TestBoldWidth(t *testing.T) {
	s := &streams{terminal: true, colour: true, width: 30}
	plain := "dns-a, up 9d, 2 statements now"
	if line := strings.Replace(plain, "dns-a", s.bold("dns-a"), 1); s.cut(line) != line {
		t.Errorf("a line of 30 columns is cut: %q", s.cut(line))
	}
	for width, want := range map[int]string{4: "\x1b[1mdns…\x1b[0m", 8: "\x1b[1mdns-a\x1b[0m, …\x1b[0m"} {
		s.width = width
		if got := s.cut(s.bold("dns-a") + ", up 9d"); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
	s.width = 30
	if got, want := s.wrapped(2, s.bold("warning:")+" the disk is full, I say"), s.bold("warning:")+" the disk is full, I\n  say"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := s.cut("\xff\xfe"); got != "\xff\xfe" {
		t.Errorf("%q", got)
	}
}
