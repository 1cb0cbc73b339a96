package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
)

// route is one endpoint of the API.
type route struct {
	method  string
	path    string // a pattern of http.ServeMux
	allow   role   // who may; nobody: everybody, without credentials
	summary string
	query   []param
	op      operation
}

// param is a parameter of a route's query.
type param struct{ name, about string }

// name is the label of the route in metrics; what matches no route is "other".
func (r *route) name() string {
	switch {
	case r.path == pagePath:
		return "page"
	case r.method == "":
		return "other"
	}
	return r.method + " " + r.path
}

// routes is the whole API. To add an endpoint: its types in server/api, its operation in a file of its noun here, and a row.
func routes() []route {
	return []route{
		{"GET", "/v1/status", readers, "This node's view of everything, at one moment.", []param{{"answers", "false: without queries and shares of answers, which cost most of it"}}, bare((*Server).status)},
		{"GET", "/v1/caller", readers, "Who asks, as the server knows them.", nil, bare((*Server).whoami)},
		{"GET", "/v1/rates", readers, "Queries and answers of each PoP in the last seconds.", []param{{"seconds", "at most so many of the last, 1 to 900; left out: 900"}}, bare((*Server).listRates)},
		{"GET", "/v1/pops", readers, "All PoPs, what state they are in, and why.", nil, bare((*Server).pops)},
		{"GET", "/v1/pops/{pop}", readers, "One PoP, and the statements that touch it.", nil, bare((*Server).pop)},
		{"GET", "/v1/statements", readers, "Statements that have not ended, newest first.", []param{{"all", "true: those too that have ended, as far as they are remembered"}}, bare((*Server).statements)},
		{"GET", "/v1/history", readers, "What was done, refused and ended, newest first.", []param{
			{"target", "only what touches this target"},
			{"id", "only of this statement"},
			{"limit", "at most so many entries, 1 to 1000; left out: 100"},
			{"before", "only entries before this number"},
		}, bare((*Server).history)},
		{"GET", "/v1/explain", readers, "Why a client gets an answer, told by the code that answers.", []param{
			{"name", "the question, a domain name; required"},
			{"type", "its type; left out: A"},
			{"client", "network or address that asks, sent as client subnet; required"},
			{"sender", "address that sends the query; left out: the client's"},
		}, bare((*Server).explain)},
		{"GET", "/v1/zones", readers, "The zones that are served.", nil, bare((*Server).zones)},
		{"POST", "/v1/zones/reload", operator, "Read the zones anew. A zone that is broken keeps its old version.", nil, bare((*Server).reload)},
		{"GET", "/v1/health", readers, "What the nodes believe of the endpoints that are checked, and why.", []param{{"target", "only what this target covers"}}, bare((*Server).health)},
		{"POST", "/v1/health/run", actors, "Check an endpoint now, from all nodes or from one. It counts towards no verdict.", nil, act(decode, (*Server).runHealth)},
		{"GET", "/v1/peers", readers, "The nodes of the fleet, as the one that answers knows them.", nil, bare((*Server).peers)},
		{"GET", "/v1/peers/{peer}", readers, "One node of the fleet.", nil, bare((*Server).peer)},
		{"GET", "/v1/loads", readers, "The newest loads of endpoints and values of feeds.", nil, bare((*Server).loads)},
		{"POST", "/v1/loads", actors, "Report loads of endpoints. All are taken in or none.", nil, act(decode, (*Server).pushLoads)},
		{"POST", "/v1/feeds/{name}", actors, "Report a value of the metadata that is bound to a feed.", nil, act(decode, (*Server).pushFeed)},
		{"POST", "/v1/drains", actors, "Take a part of the fleet out of the answers.", nil, order(func(r *api.DrainRequest) *api.Order { return &r.Order }, (*Server).drain)},
		{"POST", "/v1/shifts", operator, "Send the networks of one PoP to another.", nil, order(func(r *api.ShiftRequest) *api.Order { return &r.Order }, (*Server).shift)},
		{"POST", "/v1/pins", operator, "Keep a target in the answers whatever health and automation say.", nil, order(func(r *api.PinRequest) *api.Order { return &r.Order }, (*Server).pin)},
		{"POST", "/v1/renewals", actors, "Move the expiry of statements.", nil, order(func(r *api.RenewRequest) *api.Order { return &r.Order }, (*Server).renew)},
		{"POST", "/v1/restores", actors, "Take statements back.", nil, order(func(r *api.RestoreRequest) *api.Order { return &r.Order }, (*Server).restore)},
		{"POST", "/v1/webhooks/alertmanager", actors, "Turn firing alerts with labels pop and service into automation drains, and resolved ones into lifts.", nil, act(lenient, (*Server).alertmanager)},
		{"GET", "/v1/drills", readers, "The practice drains that are configured: when they run, and what became of the last.", nil, bare((*Server).drills)},
		{"POST", "/v1/drills", operator, "Run a configured practice drain now.", nil, order(func(r *api.DrillRequest) *api.Order { return &r.Order }, (*Server).drill)},
		{"GET", "/v1/events", readers, "A stream of what happens, as server-sent events. The header Last-Event-ID takes it up where it broke.", []param{{"rates", "true: once a second, too, what was answered in it"}}, operation{out: new(api.Event), answer: "text/event-stream", stream: true, serve: (*Server).events}},
		{"POST", "/v1/sessions", nobody, "Take a token from a browser, and give it a cookie that stands for it for 12 hours.", nil, act(decode, (*Server).beginSession)},
		{"POST", "/v1/sessions/end", nobody, "Forget the browser's session.", nil, bare((*Server).endSession)},
		{"GET", "/v1/openapi.json", nobody, "This description.", nil, raw(jsonType, (*Server).openapi)},
		{"GET", "/metrics", readers, "Metrics for Prometheus.", nil, raw("text/plain", (*Server).scrape)},
		{"GET", "/healthz", nobody, "The process runs.", nil, bare((*Server).healthz)},
		{"GET", "/readyz", nobody, "It serves what it should; if not, the answer is a problem that says what is missing.", nil, bare((*Server).readyz)},
	}
}

// handler is the routes and the page behind one mux, with problems for all that is not there.
func (s *Server) handler(routes []route) (http.Handler, error) {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for i := range routes {
		rt := &routes[i]
		mux.HandleFunc(rt.method+" "+rt.path, s.serveRoute(rt))
		methods[rt.path] = append(methods[rt.path], rt.method)
	}
	for path, allowed := range methods {
		allow := strings.Join(allowed, ", ")
		mux.HandleFunc(path, s.serveRoute(&route{path: path, op: raw(jsonType, func(s *Server, c *call) {
			c.w.Header().Set("Allow", allow)
			s.fail(c, problem(http.StatusMethodNotAllowed, api.ProblemMethod, c.r.Method+" is not offered here", "use "+allow))
		})}))
	}
	paths := make([]string, 0, len(methods))
	for p := range methods {
		paths = append(paths, p)
	}
	mux.HandleFunc("/", s.serveRoute(&route{path: "/", op: raw(jsonType, func(s *Server, c *call) {
		s.fail(c, problem(http.StatusNotFound, api.ProblemNotFound, c.r.URL.Path+" is not there", config.DidYouMean(c.r.URL.Path, paths)))
	})}))
	return mux, s.addPage(mux)
}

func didYouMean(name string, known []param) string {
	names := make([]string, len(known))
	for i := range known {
		names[i] = known[i].name
	}
	slices.Sort(names)
	return config.DidYouMean(name, names)
}
