package config

import (
	"slices"
	"time"
)

// Meta is metadata in NS1's terms, as written: numbers (int64, float64), booleans, strings, lists ([]any), or { feed = "name" } (map[string]any).
type Meta map[string]any

// Percent is a share, 0..100, written "37%".
type Percent float64

// PoP is a place with traffic capacity. Its keys but the name are metadata of every endpoint there.
type PoP struct {
	Name        string   `toml:"name" need:"true"`            // letters, digits, "-", "_", "."
	Country     any      `toml:"country"`                     // an ISO 3166-1 code or a list of codes
	Subdivision any      `toml:"subdivision"`                 // an ISO 3166-2 code or a list of codes
	Georegion   any      `toml:"georegion"`                   // NS1's region or a list of regions
	Latitude    *float64 `toml:"latitude" range:"-90..90"`    // degrees north
	Longitude   *float64 `toml:"longitude" range:"-180..180"` // degrees east
	Meta        Meta     `toml:"meta"`                        // further metadata
}

// Service is something served at PoPs.
type Service struct {
	Name  string              `toml:"name" need:"true"` // letters, digits, "-", "_", "."
	Load  *Metric             `toml:"load"`             // how load is measured
	Check *Check              `toml:"check"`            // how health is checked; left out: endpoints are up
	Meta  Meta                `toml:"meta"`             // metadata of every endpoint
	At    map[string]Endpoint `toml:"at"`               // endpoints by PoP
}

// Endpoint is a service at a PoP.
type Endpoint struct {
	Addresses []string `toml:"addresses"`                            // IPv4 and IPv6
	CNAME     string   `toml:"cname"`                                // a name instead of addresses
	Capacity  float64  `toml:"capacity" default:"0" range:"0..1e15"` // in the unit of the load metric; 0: unknown
	MinUp     int      `toml:"min_up" default:"1" range:"1..1000"`   // addresses that must be up for the endpoint to be
	Meta      Meta     `toml:"meta"`                                 // adds to or replaces what PoP and service say, key by key
}

// Metric says what load is, when it is too much, and where it is learned: pushed through the API, polled by url, or asked of Prometheus by query.
type Metric struct {
	Metric   string        `toml:"metric" default:"loadavg" oneof:"loadavg, connections, requests"` // NS1's name of the metric
	Low      *float64      `toml:"low_watermark"`                                                   // up to here nothing is shed
	High     *float64      `toml:"high_watermark"`                                                  // from here everything is
	MaxAge   time.Duration `toml:"max_age" default:"60s" range:"1s..24h"`                           // older values are stale: shown, and not acted on
	URL      string        `toml:"url"`                                                             // JSON object of loads by PoP, polled
	Query    string        `toml:"query"`                                                           // PromQL: one sample for each PoP, in the label pop
	Interval time.Duration `toml:"interval" default:"10s" range:"1s..1h"`                           // between polls or queries
}

// Check is a health check: of each address of each endpoint, once an interval from each node.
type Check struct {
	Kind     string            `toml:"kind" need:"true"`                                // tcp, http, https, websocket, grpc, dns, icmp or exec
	Port     int               `toml:"port" range:"0..65535"`                           // port at the endpoint's addresses
	TLS      bool              `toml:"tls"`                                             // speak TLS
	Verify   bool              `toml:"verify" default:"true"`                           // verify the certificate
	SNI      string            `toml:"sni"`                                             // server name in the handshake; left out: host
	Expiry   time.Duration     `toml:"expiry_warning" default:"336h" range:"0s..8760h"` // warn when the certificate ends sooner
	Host     string            `toml:"host"`                                            // host of an HTTP request
	Method   string            `toml:"method" default:"GET"`                            // method of an HTTP request
	Path     string            `toml:"path" default:"/"`                                // path of an HTTP request
	Headers  map[string]string `toml:"headers"`                                         // sent with an HTTP request
	Status   []int             `toml:"status" default:"200" range:"100..599"`           // HTTP status codes that are good
	Body     string            `toml:"body"`                                            // regular expression that the start of the body must match
	Expect   map[string]string `toml:"expect_headers"`                                  // regular expressions that headers of the response must match
	Service  string            `toml:"service"`                                         // service asked of grpc.health.v1
	Name     string            `toml:"name"`                                            // name of a DNS query
	Type     string            `toml:"type" default:"A"`                                // type of a DNS query
	Rcode    string            `toml:"rcode" default:"NOERROR"`                         // RCODE that is good
	Command  []string          `toml:"command"`                                         // program and arguments; {address} and {port} are replaced; exit code 0 is good
	Source   []string          `toml:"source"`                                          // addresses to check from, at most one of each family
	Interval time.Duration     `toml:"interval" default:"10s" range:"1s..1h"`           // between checks
	Timeout  time.Duration     `toml:"timeout" default:"5s" range:"10ms..5m"`           // for one check
	Fall     int               `toml:"fall" default:"3" range:"1..100"`                 // consecutive failures that make a vote down
	Rise     int               `toml:"rise" default:"5" range:"1..100"`                 // consecutive successes that make it up again
}

// Feed is metadata that comes through the API: up = { feed = "lb-eu" }.
type Feed struct {
	Name   string        `toml:"name" need:"true"`                      // as in the metadata and in POST /v1/feeds/NAME
	MaxAge time.Duration `toml:"max_age" default:"60s" range:"1s..24h"` // older values are stale: shown, and the last configured value is used
}

// Automation is what is done about sick endpoints without an operator. A down verdict takes an endpoint out by itself; this is about more than that.
type Automation struct {
	Enabled      bool          `toml:"enabled" default:"true"`                     // whether whole PoPs are drained and outside alerts are acted on
	MaxDrained   Percent       `toml:"max_drained" default:"34%"`                  // of a service's capacity; past it there is only an alert
	RestoreAfter time.Duration `toml:"restore_after" default:"5m" range:"0s..24h"` // up for so long before restoring starts; longer after each flap
	RestoreMax   time.Duration `toml:"restore_max" default:"1h" range:"0s..72h"`   // longest wait that flaps lead to
	Ramp         []Percent     `toml:"ramp" default:"1%, 10%, 25%, 50%, 100%"`     // shares on the way back, rising
	RampStep     time.Duration `toml:"ramp_step" default:"1m" range:"1s..1h"`      // time at each share
	PoPDown      Percent       `toml:"pop_down" default:"50%"`                     // of a PoP's services down: the whole PoP is drained
	Panic        Percent       `toml:"panic" default:"50%"`                        // of a service's capacity removed by health: further verdicts are only shown
	Agree        Percent       `toml:"agree" default:"75%" range:"51..100"`        // of fresh votes make a verdict
}

// Prometheus is the server that load queries and drill conditions are asked of.
type Prometheus struct {
	URL       string        `toml:"url"`                                    // left out: none
	TokenFile string        `toml:"token_file"`                             // bearer token
	Timeout   time.Duration `toml:"timeout" default:"5s" range:"100ms..5m"` // for one query
}

// Drill is a practice drain: it begins when its window opens, and has given everything back when the window closes.
type Drill struct {
	Target  string        `toml:"target" need:"true"`                // POP, POP/SERVICE or */SERVICE
	By      Percent       `toml:"by" default:"100%"`                 // share of the target's networks that leaves
	Over    time.Duration `toml:"over" default:"0s" range:"0s..24h"` // ramp, both ways
	Window  Window        `toml:"window" need:"true"`                // when, for example "Tue 10:00-11:00 UTC"
	Blocked []Dates       `toml:"blocked"`                           // days without drills: "2026-12-24" or "2026-12-20..2027-01-02"
	Abort   string        `toml:"abort"`                             // PromQL: the drill ends when it gives anything
	Alert   string        `toml:"abort_alert"`                       // the drill ends when this alert comes to the webhook
}

// DrillLeast is how long a drill leaves its target drained at least, ramps apart.
const DrillLeast = time.Minute

// Open is when the window that is open at t has opened and will close; false if there is none, or its day is blocked.
func (d *Drill) Open(t time.Time) (from, to time.Time, open bool) {
	from, to, open = d.Window.Opening(t)
	return from, to, open && d.mayOn(from)
}

// Next is the next opening after t on a day that is not blocked; zero if there is none within two years.
func (d *Drill) Next(t time.Time) time.Time { return d.Window.Next(t, d.mayOn) }

func (d *Drill) mayOn(day time.Time) bool {
	return !slices.ContainsFunc(d.Blocked, func(b Dates) bool { return b.Contains(day) })
}
