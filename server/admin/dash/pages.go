package dash

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

// The history is shown in steps; the API gives no more than historyMost entries at a time.
const (
	historyStep = 12
	historyMost = 1000
)

// firstRows is how many endpoints the page comes with. The others follow with its first refresh, a moment later, so that a large fleet is seen as soon as a small one.
const firstRows = 30

// historyPart is the newest part of the history.
type historyPart struct {
	Entries []deed
	Rows    int // at most so many
	Next    int // how many to ask for to see more; 0: these are all, or too many already
}

// deed is an entry of the history, for people.
type deed struct {
	api.HistoryEntry
	What, Who, Clock string
}

// look asks the API for all that the live part of the page shows.
func (p *Page) look(ctx context.Context, c *api.Client, rows int) (*picture, error) {
	who, err := c.Caller(ctx)
	if err != nil {
		return nil, err
	}
	st, err := c.State(ctx)
	if err != nil {
		return nil, err
	}
	health, err := c.Health(ctx, "")
	if err != nil {
		return nil, err
	}
	peers, err := c.Peers(ctx)
	if err != nil {
		return nil, err
	}
	out := newPicture(who, st, health, peers)
	out.History, err = newest(ctx, c, rows, st.Time)
	return out, err
}

// newest is the history, as far as it is to be shown.
func newest(ctx context.Context, c *api.Client, rows int, now time.Time) (historyPart, error) {
	h, err := c.History(ctx, api.HistoryQuery{Limit: rows})
	if err != nil {
		return historyPart{}, err
	}
	part := historyPart{Rows: rows}
	if h.Before != 0 && rows < historyMost {
		part.Next = min(historyMost, rows+2*historyStep)
	}
	for _, e := range h.Entries {
		d := deed{HistoryEntry: e, Who: author(e.Author, e.Class), Clock: clock(e.Time, now)}
		if e.Kind != "" {
			by := 0.0
			if e.After != nil {
				by = e.After.By
			}
			d.What = what(e.Kind, e.Target, e.To, by)
		}
		part.Entries = append(part.Entries, d)
	}
	return part, nil
}

// rowsOf is how much of the history a request wants to see.
func rowsOf(r *http.Request) int {
	n, err := strconv.Atoi(r.FormValue("rows"))
	if err != nil {
		return historyStep
	}
	return max(historyStep, min(n, historyMost))
}

// page is the whole page.
func (p *Page) page(w http.ResponseWriter, r *http.Request) {
	c := p.client(r)
	pic, err := p.look(r.Context(), c, rowsOf(r))
	if err != nil {
		p.fail(w, r, err)
		return
	}
	zones, err := c.Zones(r.Context())
	if err != nil {
		p.fail(w, r, err)
		return
	}
	for i := range zones.Zones {
		for _, name := range zones.Zones[i].Names {
			pic.Names = append(pic.Names, strings.TrimSuffix(name, "."))
		}
	}
	if len(pic.Rows) > firstRows {
		pic.Rows, pic.More = pic.Rows[:firstRows], len(pic.Rows)-firstRows
	}
	p.render(w, http.StatusOK, "page", pic)
}

// live is the part of the page that changes by itself.
func (p *Page) live(w http.ResponseWriter, r *http.Request) {
	pic, err := p.look(r.Context(), p.client(r), rowsOf(r))
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.render(w, http.StatusOK, "live", pic)
}

// history is more of the history.
func (p *Page) history(w http.ResponseWriter, r *http.Request) {
	part, err := newest(r.Context(), p.client(r), rowsOf(r), time.Now())
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.render(w, http.StatusOK, "history", part)
}

// explained is an explanation, or why there is none.
type explained struct {
	*api.Explanation
	Problem *api.Problem
	Query   api.ExplainQuery
	X, Y    float64 // where the client is on the map
	Placed  bool
}

// GoodFor is whom resolvers may give the answer to: its scope.
func (e *explained) GoodFor() string {
	client, err := netip.ParsePrefix(e.Client.Prefix)
	if e.Scope == 0 || err != nil {
		return "everybody"
	}
	network, err := client.Addr().Prefix(min(e.Scope, client.Addr().BitLen()))
	if err != nil {
		return "the client alone"
	}
	return "everybody in " + network.String()
}

// explain tells why a client gets an answer.
func (p *Page) explain(w http.ResponseWriter, r *http.Request) {
	q := api.ExplainQuery{Name: r.FormValue("name"), Type: r.FormValue("type"), Client: r.FormValue("client")}
	e, err := p.client(r).Explain(r.Context(), q)
	out := explained{Explanation: e, Query: q}
	if problem, ok := asProblem(err); ok && problem.Status == http.StatusUnprocessableEntity {
		out.Problem, out.Explanation = problem, nil
	} else if err != nil {
		p.fail(w, r, err)
		return
	}
	if e != nil && e.Client.Latitude != nil && e.Client.Longitude != nil {
		out.X, out.Y = project(*e.Client.Latitude, *e.Client.Longitude)
		out.Placed = true
	}
	p.render(w, http.StatusOK, "explained", &out)
}
