package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/edgesteer/edgesteer/server/config"
)

// doorSocket is where the demo is told to make a PoP sick or well, in its folder.
const doorSocket = "backends.sock"

// Health is which PoPs of the demo are sick.
type Health struct {
	Sick []string `json:"sick"`
}

// doorProblem is an answer that is not one.
type doorProblem struct {
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
}

// openDoor serves the door.
func openDoor(dir string, b *backends) (*http.Server, error) {
	l, err := net.Listen("unix", filepath.Join(dir, doorSocket))
	if err != nil {
		return nil, fmt.Errorf("opening the door to the backends: %w", err)
	}
	s := &http.Server{ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := json.NewEncoder(w)
		if r.Method == http.MethodPost {
			pop := r.FormValue("pop")
			if err := b.set(pop, Sickness(r.FormValue("sickness"))); err != nil {
				w.WriteHeader(http.StatusNotFound)
				_ = answer.Encode(doorProblem{err.Error(), config.DidYouMean(pop, b.names)}) // a caller that leaves is no error
				return
			}
		}
		_ = answer.Encode(Health{Sick: b.sick()}) // the same
	})}
	go func() { _ = s.Serve(l) }() // it ends when it is closed
	return s, nil
}

// DoorError is why a PoP was not made sick or well.
type DoorError struct{ detail, hint string }

func (e *DoorError) Error() string { return e.detail }

// Advice is what to do about it.
func (e *DoorError) Advice() string { return e.hint }

// Set makes a PoP of the demo in a folder sick or well, and gives those that are sick then. With pop "" nothing is changed.
func Set(ctx context.Context, dir, pop string, s Sickness) (*Health, error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, doorSocket))
	}}}
	method, where := http.MethodGet, "http://demo/"
	if pop != "" {
		method, where = http.MethodPost, where+"?"+url.Values{"pop": {pop}, "sickness": {string(s)}}.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, where, nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &DoorError{"no demo runs on this machine: there is no " + filepath.Join(dir, doorSocket), "edgesteer demo starts one"}
	case err != nil:
		return nil, &DoorError{"asking the demo: " + err.Error(), "edgesteer demo starts one"}
	}
	defer func() { _ = res.Body.Close() }() // what matters of it was read
	if res.StatusCode != http.StatusOK {
		var p doorProblem
		if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
			return nil, fmt.Errorf("the demo answers %s", res.Status)
		}
		return nil, &DoorError{p.Detail, p.Hint}
	}
	h := new(Health)
	return h, json.NewDecoder(res.Body).Decode(h)
}
