package health

import (
	"context"
	"net/netip"
)

// Check is one kind of check with its settings. It is used for many addresses at the same time.
type Check interface {
	// Probe checks an address once. nil is good; so is a *Warning, which is shown. Any other error is short and made for people: it is the evidence. The context ends with the
	// timeout of the check.
	Probe(ctx context.Context, address netip.Addr) error
}

// Warning is the error of a probe that is good, but not for long.
type Warning struct{ Text string }

func (w *Warning) Error() string { return w.Text }

// localError is the error of a probe that says nothing of the address, because this machine could not even try.
type localError struct{ text string }

func (e *localError) Error() string { return e.text }
