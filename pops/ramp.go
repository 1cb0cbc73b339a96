package pops

import (
	"errors"
	"math"
	"time"
)

// Share is what a unit gets, in percent of networks, 0..100, fractional.
type Share float64

// Ramp is a share as a function of time: From before Start, To from the end of the ramp on, in between on a straight line or by listed steps. Every node that evaluates it at
// one moment gets the same share, so a ramp needs no messages. It never turns back: a network changes sides at most once. The zero Ramp is share 0 at all times.
type Ramp struct {
	Start time.Time     `json:"start,omitzero"`  // zero: the ramp is over and the share is To
	From  Share         `json:"from"`            // 0..100
	To    Share         `json:"to"`              // 0..100
	Over  time.Duration `json:"over,omitzero"`   // 0: To from Start on
	Steps []float64     `json:"steps,omitempty"` // percent of the way, rising, the last is 100, evenly spaced: the first at Start, the last after Over; nil: linear
}

// Check says what is wrong with a ramp.
func (r Ramp) Check() error {
	bad := func(p float64) bool { return !(p >= 0 && p <= 100) }
	switch {
	case bad(float64(r.From)) || bad(float64(r.To)):
		return errors.New("a ramp's shares are 0 to 100")
	case r.Over < 0:
		return errors.New("a ramp cannot take less than no time")
	case len(r.Steps) > 1 && r.Over == 0:
		return errors.New("a ramp with steps needs a time to take them in")
	case len(r.Steps) > 0 && r.Steps[len(r.Steps)-1] != 100:
		return errors.New("the last step of a ramp is 100%")
	}
	last := 0.0
	for _, s := range r.Steps {
		if !(s > last) || s > 100 {
			return errors.New("the steps of a ramp rise from above 0% to 100%")
		}
		last = s
	}
	return nil
}

// stride is the time between two changes of the share: a linear ramp moves when a share has moved by 1 % or a second has passed, whichever is later, counted from Start, so that
// all nodes move at the same moments.
func (r Ramp) stride() time.Duration {
	if n := len(r.Steps); n > 0 {
		return max(1, r.Over/time.Duration(max(1, n-1)))
	}
	return max(time.Second, time.Duration(float64(r.Over)/max(1, math.Abs(float64(r.To-r.From)))))
}

// Share is the share at t.
func (r Ramp) Share(t time.Time) Share {
	past := t.Sub(r.Start)
	switch {
	case r.Start.IsZero() || past >= r.Over && past >= 0:
		return r.To
	case past < 0:
		return r.From
	}
	stride, whole := r.stride(), r.To-r.From
	n := int(past / stride)
	switch {
	case len(r.Steps) > 0:
		return r.From + whole*Share(r.Steps[min(n, len(r.Steps)-1)]/100)
	case stride > time.Second: // whole percents
		return r.From + min(1, max(-1, whole))*Share(n)
	}
	return r.From + whole*Share(float64(n)*float64(stride)/float64(r.Over))
}

// Next is the first moment after t at which the share may change; the zero time if it does not change any more.
func (r Ramp) Next(t time.Time) time.Time {
	past := t.Sub(r.Start)
	switch {
	case r.Start.IsZero() || past >= r.Over && past >= 0 || r.From == r.To:
		return time.Time{}
	case past < 0:
		return r.Start
	}
	stride := r.stride()
	return r.Start.Add(min(r.Over, (past/stride+1)*stride))
}

// End is when the ramp has arrived; the zero time if it always had.
func (r Ramp) End() time.Time {
	if r.Start.IsZero() {
		return time.Time{}
	}
	return r.Start.Add(r.Over)
}
