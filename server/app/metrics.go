package app

import (
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/edgesteer/edgesteer/pops/gossip"
	"github.com/edgesteer/edgesteer/server/config"
)

// Results of reloads.
const (
	reloadDone    = "done"
	reloadPartial = "partial" // something keeps its old version: a broken zone file, certificate or key
	reloadRefused = "refused" // everything does
)

// What reachable nodes may differ in.
const (
	differConfig = "config"
	differZones  = "zones"
	differLedger = "ledger" // their answers do not obey what this node's obey
)

// metrics of the whole: what is counted here, and what is read from the parts when somebody scrapes (prometheus.Collector). Labels are names of the configuration and of this file.
type metrics struct {
	app *App

	reloads     *prometheus.CounterVec
	reloadTime  prometheus.Histogram
	reloadGood  prometheus.Gauge
	reloadAt    prometheus.Gauge
	problems    *prometheus.GaugeVec
	build       *prometheus.GaugeVec
	serial      *prometheus.Desc
	loaded      *prometheus.Desc
	database    *prometheus.Desc
	clockOffset *prometheus.Desc
	clockAhead  *prometheus.Desc
	peersDiffer *prometheus.Desc
	peersLag    *prometheus.Desc
	held        *prometheus.Desc
}

func newMetrics(a *App) *metrics {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("edgesteer_"+name, help, labels, nil)
	}
	m := &metrics{
		app: a,
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edgesteer_reloads_total", Help: "Reloads, by result; partial: something keeps its old version, refused: everything does.",
		}, []string{"result"}),
		reloadTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "edgesteer_reload_seconds", Help: "Time that reloads took.", Buckets: []float64{.01, .05, .25, 1, 5, 20, 60, 300},
		}),
		reloadGood: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "edgesteer_reload_last_successful", Help: "1 if the last reload took over everything, or there was none; else 0.",
		}),
		reloadAt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "edgesteer_reload_last_success_timestamp_seconds", Help: "When the configuration in use was loaded, Unix time.",
		}),
		problems: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "edgesteer_config_problems", Help: "Problems that the last load of the configuration found.",
		}, []string{"severity"}),
		build: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "edgesteer_build_info", Help: "1, with the version of the program and of Go.",
		}, []string{"version", "goversion"}),
		serial:      d("zone_serial", "Serial of a zone that is served.", "zone"),
		loaded:      d("zone_loaded_timestamp_seconds", "When the version of a zone that is served was loaded, in fleet time.", "zone"),
		database:    d("location_database_built_timestamp_seconds", "When a location database in use was built, Unix time.", "database"),
		clockOffset: d("clock_offset_seconds", "Fleet time less this machine's clock, as the median of the peers has it."),
		clockAhead:  d("clock_ahead_seconds", "How far fleet time waits for this machine's clock, which has jumped back."),
		peersDiffer: d("peers_differing", "Other nodes within reach that differ from this one.", "what"),
		peersLag:    d("peers_lag_seconds", "Longest time for which the answers of a node within reach have not obeyed what this node's obey."),
		held:        d("automation_held", "1 while automation would drain a PoP or something there, and may not: a person has to look.", "pop"),
	}
	for _, result := range []string{reloadDone, reloadPartial, reloadRefused} {
		m.reloads.WithLabelValues(result)
	}
	m.build.WithLabelValues(a.opts.Version, runtime.Version()).Set(1)
	return m
}

// register shows the metrics, and those of the runtime and the process.
func (m *metrics) register(r *prometheus.Registry) error {
	for _, c := range []prometheus.Collector{
		m, m.reloads, m.reloadTime, m.reloadGood, m.reloadAt, m.problems, m.build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// load takes note of a configuration that was loaded: at the start, or by a reload.
func (m *metrics) load(problems []config.Problem, taken bool, now time.Time) {
	warnings := 0
	for i := range problems {
		if problems[i].Warning {
			warnings++
		}
	}
	m.problems.WithLabelValues("error").Set(float64(len(problems) - warnings))
	m.problems.WithLabelValues("warning").Set(float64(warnings))
	if taken {
		m.reloadAt.Set(float64(now.Unix()))
	}
	good := 0.0
	if taken && !kept(problems) {
		good = 1
	}
	m.reloadGood.Set(good)
}

// kept tells whether something keeps its old version.
func kept(problems []config.Problem) bool {
	return slices.ContainsFunc(problems, func(p config.Problem) bool { return p.Kept || !p.Warning })
}

// reload takes note of a reload.
func (m *metrics) reload(problems []config.Problem, taken bool, began time.Time) {
	m.load(problems, taken, time.Now())
	m.reloadTime.Observe(time.Since(began).Seconds())
	result := reloadDone
	switch {
	case !taken:
		result = reloadRefused
	case kept(problems):
		result = reloadPartial
	}
	m.reloads.WithLabelValues(result).Inc()
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.serial, m.loaded, m.database, m.clockOffset, m.clockAhead, m.peersDiffer, m.peersLag, m.held} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	a := m.app
	for _, z := range a.zoneList() {
		gauge(m.serial, float64(z.Serial), z.Name)
		gauge(m.loaded, float64(z.Loaded.Unix()), z.Name)
	}
	parts := a.present()
	for _, db := range parts.databases {
		name := db.Path
		if name == "" {
			name = "built-in"
		}
		gauge(m.database, float64(db.Built.Unix()), name)
	}
	var offset, ahead time.Duration
	if a.clock != nil {
		offset, ahead = a.clock.Offset()
	}
	gauge(m.clockOffset, offset.Seconds())
	gauge(m.clockAhead, ahead.Seconds())
	m.peers(gauge)
	held := map[string]bool{} // PoPs
	if targets := a.held.Load(); targets != nil {
		for target := range *targets {
			pop, _, _ := strings.Cut(target, "/")
			held[pop] = true
		}
	}
	for i := range parts.fleet.PoPs {
		name := parts.fleet.PoPs[i].Name
		gauge(m.held, map[bool]float64{true: 1}[held[name]], name)
	}
}

// peers shows what other nodes within reach differ in.
func (m *metrics) peers(gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	differ, lag := map[string]int{}, time.Duration(0)
	if f := m.app.fleet.Load(); f != nil {
		reachable := []string{string(gossip.Alive), string(gossip.Suspect)}
		for _, p := range m.app.peers() {
			if p.Self || !slices.Contains(reachable, p.State) {
				continue
			}
			for what, does := range map[string]bool{differConfig: p.ConfigDiffers, differZones: p.ZonesDiffer, differLedger: p.Behind} {
				if does {
					differ[what]++
				}
			}
			lag = max(lag, time.Duration(p.Lag))
		}
	}
	for _, what := range []string{differConfig, differZones, differLedger} {
		gauge(m.peersDiffer, float64(differ[what]), what)
	}
	gauge(m.peersLag, lag.Seconds())
}
