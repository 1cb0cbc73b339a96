package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxEvent bounds one event, in octets.
const maxEvent = 1 << 20

// Events calls each for every event after the one with that id (0: from now on), in order, until the context ends or each returns an error, which it returns. A broken stream is taken
// up again where it broke; while the server cannot be reached at all, down is called with the error before each new attempt, if it is not nil.
func (c *Client) Events(ctx context.Context, after uint64, each func(Event) error, down func(error)) error {
	return c.follow(ctx, "/v1/events", after, each, down)
}

// EventsAndRates is Events from now on, with an event each second that tells what was answered in it.
func (c *Client) EventsAndRates(ctx context.Context, each func(Event) error, down func(error)) error {
	return c.follow(ctx, "/v1/events?rates=true", 0, each, down)
}

func (c *Client) follow(ctx context.Context, path string, after uint64, each func(Event) error, down func(error)) error {
	wait := pause
	for {
		err := c.stream(ctx, path, &after, func(e Event) error {
			wait = pause
			return each(e)
		})
		var stop *stopError
		var problem *Problem
		switch {
		case errors.As(err, &stop):
			return stop.err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &problem) && problem.Status < 500:
			return problem
		}
		if err != nil && down != nil {
			down(err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// stopError carries what the caller's function returned through the reading of the stream.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }

// stream reads one connection's worth of events and moves after along.
func (c *Client) stream(ctx context.Context, path string, after *uint64, each func(Event) error) error {
	r, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/event-stream")
	if *after != 0 {
		r.Header.Set("Last-Event-ID", strconv.FormatUint(*after, 10))
	}
	res, err := c.http.Do(r)
	if err != nil {
		return c.unreachable(ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // what matters of it was read
	if res.StatusCode != http.StatusOK {
		data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		if err != nil {
			return c.unreachable(ctx, err)
		}
		return c.problem(res, data)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxEvent)
	var data strings.Builder
	for lines.Scan() {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, "data:"); ok {
			data.WriteString(strings.TrimPrefix(text, " "))
			data.WriteByte('\n')
			continue
		}
		if line != "" || data.Len() == 0 { // the other fields repeat what is in the data
			continue
		}
		var e Event
		if err := json.Unmarshal([]byte(data.String()), &e); err != nil {
			return fmt.Errorf("%s: event is not of this API: %w", c.server, err)
		}
		data.Reset()
		*after = e.ID
		if err := each(e); err != nil {
			return &stopError{err}
		}
	}
	if err := lines.Err(); err != nil {
		return c.unreachable(ctx, err)
	}
	return nil
}
