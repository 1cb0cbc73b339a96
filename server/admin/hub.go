package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

// Limits of the event stream.
const (
	maxEvents  = 1024 // kept for readers that come back
	maxStreams = 256
	heartbeat  = 15 * time.Second // so that both ends notice when the other is gone
	writeTime  = 10 * time.Second // for one event to be taken
)

// hub keeps the last events and wakes who reads them. A reader is never waited for: one that falls behind is told that it missed some.
type hub struct {
	mu    sync.Mutex
	ring  []api.Event // oldest first, at most maxEvents, with ids that count up by one
	last  uint64      // id of the newest
	wake  chan struct{}
	ended bool
}

// newHub starts counting at the time, in microseconds, so that ids keep rising when the process is started again.
func newHub(now time.Time) *hub {
	return &hub{last: uint64(now.UnixMicro()), wake: make(chan struct{})}
}

// publish gives an event its id and hands it to all readers.
func (h *hub) publish(e api.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	e.Schema, e.ID = api.Schema, h.last
	if len(h.ring) == maxEvents {
		h.ring = append(h.ring[:0], h.ring[1:]...)
	}
	h.ring = append(h.ring, e)
	close(h.wake)
	h.wake = make(chan struct{})
}

// end makes all readers leave.
func (h *hub) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.ended = true
		close(h.wake)
		h.wake = make(chan struct{})
	}
}

// after gives the events since the one with that id, and what to wait for when there is nothing more. If some are no longer known there is one that says so, with the id to go on from.
func (h *hub) after(id uint64, now time.Time) (events []api.Event, wake <-chan struct{}, ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	oldest := h.last - uint64(len(h.ring)) // id before the oldest event that is kept
	switch {
	case id == h.last:
	case id < oldest || id > h.last:
		events = []api.Event{{Schema: api.Schema, ID: h.last, Time: now, Kind: api.EventMissed, Text: "some events were missed"}}
	default:
		events = append(events, h.ring[id-oldest:]...)
	}
	return events, h.wake, h.ended
}

// newest is the id of the newest event.
func (h *hub) newest() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// Publish tells everybody who reads GET /v1/events. It never blocks; the id and the schema are set here.
func (s *Server) Publish(e api.Event) { s.hub.publish(e) }

// events is GET /v1/events: server-sent events (HTML standard, section 9.2).
func (s *Server) events(c *call) {
	id := s.hub.newest()
	if header := c.r.Header.Get("Last-Event-ID"); header != "" {
		var err error
		if id, err = strconv.ParseUint(header, 10, 64); err != nil {
			s.fail(c, invalid("Last-Event-ID", "want the id of an event", ""))
			return
		}
	}
	q, err := c.query()
	if err != nil {
		s.fail(c, err)
		return
	}
	rated := rateReader{server: s, on: q.Get("rates") == "true", seen: s.cfg.Ledger.Now()}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		s.fail(c, problem(http.StatusServiceUnavailable, api.ProblemBusy, fmt.Sprintf("%d event streams are open already", maxStreams), "try again later"))
		return
	}
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	rc := http.NewResponseController(c.w)
	_ = rc.SetReadDeadline(time.Time{})
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set("X-Accel-Buffering", "no") // proxies that would hold events back
	if !s.send(c.w, rc, "retry: 2000\n\n") {
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		events, wake, ended := s.hub.after(id, s.cfg.Ledger.Now())
		for _, e := range events {
			data, err := json.Marshal(e)
			if err != nil || !s.send(c.w, rc, fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", e.ID, e.Kind, data)) {
				return
			}
			id = e.ID
		}
		if ended {
			return
		}
		if len(events) > 0 {
			continue
		}
		rate, more := rated.next(id)
		if rate != "" && !s.send(c.w, rc, rate) {
			return
		}
		select {
		case <-c.r.Context().Done():
			return
		case <-wake:
		case <-more:
		case <-beat.C:
			if !s.send(c.w, rc, ": still here\n\n") {
				return
			}
		}
	}
}

// send writes a part of the stream; false: the reader left, or does not take it.
func (s *Server) send(w http.ResponseWriter, rc *http.ResponseController, text string) bool {
	_ = rc.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := w.Write([]byte(text))
	return err == nil && rc.Flush() == nil
}
