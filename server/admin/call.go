package admin

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

// call is one request on its way.
type call struct {
	w     http.ResponseWriter
	r     *http.Request
	route *route
	by    caller
	whole context.Context // of the connection's request, without the limit of time
}

// maxWait is the longest that a request may wait for other nodes.
const maxWait = 5 * time.Minute

// slack is what an answer may take to be written, beside the time that it may take to be made.
const slack = time.Second

// serveRoute is what every request passes, in this order: is it for this server, is it from a page of somebody else, who is it, may they, is there room. The route's operation follows.
func (s *Server) serveRoute(rt *route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		counted := &counter{ResponseWriter: w, status: http.StatusOK}
		c := &call{w: counted, r: r, route: rt, whole: r.Context()}
		defer func() {
			if fault := recover(); fault != nil {
				s.cfg.Log.Error("admin request panicked", "method", r.Method, "route", rt.path, "panic", fault, "stack", string(debug.Stack()))
				s.fail(c, problem(http.StatusInternalServerError, api.ProblemInternal, "what happened is in the server's log", ""))
			}
			s.finish(c, counted.status, time.Since(start))
		}()
		secure(w.Header())
		if p := s.admit(c); p != nil {
			s.fail(c, p)
			return
		}
		if rt.op.stream {
			rt.op.serve(s, c)
			return
		}
		if rt.allow != nobody {
			select {
			case s.room <- struct{}{}:
				defer func() { <-s.room }()
			default:
				s.fail(c, problem(http.StatusServiceUnavailable, api.ProblemBusy, "admin.requests are being served already", "try again"))
				return
			}
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Settings.Timeout)
		defer cancel()
		c.r = r.WithContext(ctx)
		c.deadline(s.cfg.Settings.Timeout + slack)
		rt.op.serve(s, c)
	}
}

// admit finds out who calls and whether they may.
func (s *Server) admit(c *call) *api.Problem {
	_, local := c.r.Context().Value(peerKey{}).(peer)
	if !local {
		if p := s.strangers(c.r); p != nil {
			return p
		}
	}
	if c.route.allow == nobody {
		return nil
	}
	var p *api.Problem
	if c.by, p = s.identify(c.r); p != nil {
		s.metrics.denied.WithLabelValues("credentials").Inc()
		return p
	}
	if c.by.role&c.route.allow == 0 {
		return s.forbid(c, fmt.Sprintf("%s has the role %s; this needs %s", c.by.name, c.by.role, c.route.allow))
	}
	return nil
}

// forbid refuses what the caller's role does not allow, and has it in the history.
func (s *Server) forbid(c *call, why string) *api.Problem {
	s.metrics.denied.WithLabelValues("role").Inc()
	s.cfg.Ledger.Deny(c.by.name, c.r.Method+" "+c.r.URL.Path+": "+why)
	return forbidden(why, "")
}

// finish counts and logs a request.
func (s *Server) finish(c *call, status int, took time.Duration) {
	s.metrics.requests.WithLabelValues(c.route.name(), strconv.Itoa(status/100)+"xx").Inc()
	if !c.route.op.stream {
		s.metrics.seconds.Observe(took.Seconds())
	}
	log := s.cfg.Log.Debug
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		log = s.cfg.Log.Info
	}
	log("admin request", "method", c.r.Method, "route", c.route.path, "author", c.by.name, "status", status, "took", took)
}

// counter remembers the status of an answer.
type counter struct {
	http.ResponseWriter
	status int
}

func (c *counter) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController through.
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// deadline gives the call so long from now on, instead of what it had.
func (c *call) deadline(d time.Duration) {
	rc := http.NewResponseController(c.w)
	t := time.Now().Add(d)
	_ = rc.SetReadDeadline(t) // it would end the request's context
	_ = rc.SetWriteDeadline(t)
}

// operation is what a route does, with the types of its body and answer for the description of the API.
type operation struct {
	in, out any    // values of the types; nil: none
	answer  string // media type of the answer
	order   bool   // takes Idempotency-Key and If-Match
	stream  bool   // goes on until the client leaves; it has no limits of time
	serve   func(*Server, *call)
}

const jsonType = "application/json"

// bare is an operation whose request has no body.
func bare[Out any](f func(*Server, *call) (*Out, error)) operation {
	return operation{out: new(Out), answer: jsonType, serve: func(s *Server, c *call) {
		out, err := f(s, c)
		s.answer(c, out, err)
	}}
}

// act is an operation that does something which may safely be done twice. decode reads its body.
func act[In, Out any](decode func([]byte, any) *api.Problem, f func(*Server, *call, *In) (*Out, error)) operation {
	return operation{in: new(In), out: new(Out), answer: jsonType, serve: func(s *Server, c *call) {
		in := new(In)
		if err := s.body(c, in, decode); err != nil {
			s.fail(c, err)
			return
		}
		out, err := f(s, c, in)
		s.answer(c, out, err)
	}}
}

// order is an operation that changes traffic. The ledger does it once for each Idempotency-Key. The answer may wait until other nodes obey.
func order[In any](of func(*In) *api.Order, f func(*Server, *call, *In) (*api.Change, error)) operation {
	return operation{in: new(In), out: new(api.Change), answer: jsonType, order: true, serve: func(s *Server, c *call) {
		in := new(In)
		err := s.body(c, in, decode)
		o := of(in)
		if err == nil {
			err = c.checkOrder(o)
		}
		if err != nil {
			s.fail(c, err)
			return
		}
		change, err := f(s, c, in)
		if err == nil && o.Wait > 0 && !o.DryRun {
			s.wait(c, change, time.Duration(o.Wait))
		}
		s.answer(c, change, err)
	}}
}

// wait lets the answer wait until every reachable node obeys, and tells which do.
func (s *Server) wait(c *call, change *api.Change, d time.Duration) {
	c.deadline(d + slack)
	ctx, cancel := context.WithTimeout(c.whole, d)
	defer cancel()
	change.Nodes = s.cfg.Wait(ctx)
}

// raw is an operation that writes its own answer.
func raw(answer string, f func(*Server, *call)) operation {
	return operation{answer: answer, serve: f}
}

func (s *Server) answer(c *call, out any, err error) {
	if err != nil {
		s.fail(c, err)
		return
	}
	write(c.w, http.StatusOK, jsonType, out)
}

// body reads the request into a value.
func (s *Server) body(c *call, into any, decode func([]byte, any) *api.Problem) error {
	if t, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || t != jsonType {
		return problem(http.StatusUnsupportedMediaType, api.ProblemMediaType, "", "send Content-Type: application/json")
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, int64(s.cfg.Settings.MaxBody)))
	if err != nil {
		return err
	}
	if p := decode(data, into); p != nil {
		return p
	}
	return nil
}

// checkOrder takes over the headers of an order and settles who its author is. What it says is checked by the ledger.
func (c *call) checkOrder(o *api.Order) error {
	if o.Author != "" {
		if !c.by.local {
			return invalid("author", "only requests through the unix socket name their author; this one is known as "+c.by.name, "leave it out")
		}
		if o.Author != c.by.name {
			c.by.name = o.Author + " (" + c.by.name + ")"
		}
	}
	if o.Wait > api.Duration(maxWait) {
		return invalid("wait", "longer than "+api.Duration(maxWait).String(), "")
	}
	o.Key = c.r.Header.Get("Idempotency-Key")
	switch match := c.r.Header.Values("If-Match"); {
	case len(match) == 0 || match[0] == "*":
	case len(match) > 1 || len(match[0]) < 2 || match[0][0] != '"' || match[0][len(match[0])-1] != '"':
		return invalid("If-Match", "want one version of the ledger in quotes", "")
	default:
		o.If = match[0][1 : len(match[0])-1]
	}
	return nil
}

// query checks that only known parameters are asked, each once.
func (c *call) query() (url.Values, error) {
	q, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("the query cannot be read: "+err.Error(), "")
	}
	for name, values := range q {
		known := slices.ContainsFunc(c.route.query, func(p param) bool { return p.name == name })
		if !known {
			return nil, invalid(name, "unknown parameter", didYouMean(name, c.route.query))
		}
		if len(values) > 1 {
			return nil, invalid(name, "given twice", "")
		}
	}
	return q, nil
}

// number reads a parameter that is a whole number from least to most; left out it is otherwise.
func number(q url.Values, name string, least, most, otherwise uint64) (uint64, error) {
	if !q.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(q.Get(name), 10, 64)
	if err != nil || n < least || n > most {
		return 0, invalid(name, fmt.Sprintf("want a whole number from %d to %d", least, most), "")
	}
	return n, nil
}
