package health

import "time"

// mood is what this node believes of one address.
type mood uint8

const (
	unknown mood = iota // never checked
	up
	down
)

func (m mood) String() string { return [...]string{"unknown", "up", "down"}[m] }

// tally is what this node has seen of one address.
type tally struct {
	mood    mood
	settled bool      // not only a first impression
	since   time.Time // of the mood; fleet time
	last    time.Time // end of the last probe; fleet time
	took    time.Duration
	fault   string // of the last probe, "" if it was good
	warning string // of the last probe
	failed  string // the last fault there was
	run     int    // probes in a row like the last one
	good    bool   // the last one was
	checks  uint64
	faults  uint64
}

// record takes in a probe. The first one decides at once, since something must be believed; from then on fall faults in a row make an address down, and rise good probes up. A first impression of
// down ends with the first good probe.
func (t *tally) record(err error, now time.Time, fall, rise int) (changed bool) {
	good := err == nil
	if good == t.good && t.run > 0 {
		t.run++
	} else {
		t.good, t.run = good, 1
	}
	t.checks++
	t.fault = ""
	if !good {
		t.faults++
		t.fault = err.Error()
		t.failed = t.fault
	}
	turn := unknown
	switch {
	case good && (t.mood == unknown || t.mood == down && (!t.settled || t.run >= rise)):
		turn = up
	case !good && (t.mood == unknown || t.mood == up && t.run >= fall):
		turn = down
	}
	if turn == unknown {
		t.settled = t.settled || !good && t.run >= fall
		return false
	}
	t.settled = t.mood != unknown || t.run >= fall
	t.mood, t.since = turn, now
	return true
}

// wavers says whether the last probes of an address were other than what is believed of it.
func (t *tally) wavers() bool { return t.run > 0 && t.mood != unknown && t.good != (t.mood == up) }

// count says what an endpoint is: up while min_up of its addresses are. Addresses of which nothing is known do not count, but for making a verdict harder to reach than can be.
func count(tallies []*tally, minUp int) mood {
	known, alive := 0, 0
	for _, t := range tallies {
		if t.mood != unknown {
			known++
		}
		if t.mood == up {
			alive++
		}
	}
	switch {
	case known == 0:
		return unknown
	case alive >= min(minUp, known):
		return up
	}
	return down
}
