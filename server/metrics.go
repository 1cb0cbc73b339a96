package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgesteer/edgesteer/pops"
)

// totals are the counters of all handlers, summed.
type totals [statsFixed]uint64

func (hs *Handlers) totals() *totals {
	sum := new(totals)
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, s := range hs.all {
		for i := range sum {
			sum[i] += s.total[i].Load()
		}
	}
	for rung, n := range hs.rungAnswers() {
		sum[int(statRung)+rung] += n
	}
	return sum
}

// table is how one table of cells is shown: a counter with a label for some of its dimensions, summed over the others.
type table struct {
	desc   *prometheus.Desc
	first  stat
	dims   []int // the last one varies fastest
	labels []dim
}

// dim is a dimension that is shown, and the values of the labels that stand for it.
type dim struct {
	at     int
	values [][]string
}

func (t *table) collect(sum *totals, ch chan<- prometheus.Metric) {
	shown := 1
	for _, d := range t.labels {
		shown *= len(d.values)
	}
	out := make([]uint64, shown)
	cells := 1
	for _, n := range t.dims {
		cells *= n
	}
	index := make([]int, len(t.dims))
	for cell := range cells {
		rest := cell
		for i := len(t.dims) - 1; i >= 0; i-- {
			index[i], rest = rest%t.dims[i], rest/t.dims[i]
		}
		to := 0
		for _, d := range t.labels {
			to = to*len(d.values) + index[d.at]
		}
		out[to] += sum[int(t.first)+cell]
	}
	for i, n := range out {
		var values []string
		for j, rest := len(t.labels)-1, i; j >= 0; j-- {
			d := &t.labels[j]
			values = append(append([]string(nil), d.values[rest%len(d.values)]...), values...)
			rest /= len(d.values)
		}
		ch <- prometheus.MustNewConstMetric(t.desc, prometheus.CounterValue, float64(n), values...)
	}
}

// column makes label values of names.
func column(names []string) (out [][]string) {
	for _, n := range names {
		out = append(out, []string{n})
	}
	return out
}

// tables are the metrics of what was asked and answered.
func tables() []table {
	var senderValues [][]string
	for _, t := range transportNames {
		senderValues = append(senderValues, []string{t, "ipv4"}, []string{t, "ipv6"})
	}
	asked, answered := []int{typeClasses, subnets, cookieKinds}, []int{senders, int(kinds), rcodeClasses}
	sender := dim{0, senderValues}
	line := func(name, help string, first stat, label string, values ...string) table {
		return table{desc(name, help, label), first, []int{len(values)}, []dim{{0, column(values)}}}
	}
	one := func(name, help string, s stat) table {
		return table{desc(name, help), s, nil, nil}
	}
	return []table{
		{desc("queries_total", "Messages answered, by transport and family of the sender.", "transport", "family"), statAnswer, answered, []dim{sender}},
		{desc("query_types_total", "Messages by type of the question; other: also those without a question that could be read.", "type"), statAsked, asked, []dim{{0, column(typeNames[:])}}},
		{desc("answers_total", "Answers by what they were.", "kind"), statAnswer, answered, []dim{{1, column(kindNames[:])}}},
		{desc("responses_total", "Answers by response code, and by transport and family of who got them.", "transport", "family", "rcode"), statAnswer, answered, []dim{sender, {2, column(rcodeNames[:])}}},
		{desc("client_subnet_total", "Messages by the client subnet that they carried.", "client_subnet"), statAsked, asked, []dim{{1, column(subnetNames[:])}}},
		{desc("cookies_total", "Messages by the DNS cookie that they carried; ignored: cookies are not offered.", "cookie"), statAsked, asked, []dim{{2, column(cookieNames[:])}}},
		one("ignored_total", "Messages that are no queries and get no answer: shorter than a header, or themselves a response.", statDropped),
		one("truncated_total", "Answers with TC set.", statTruncated),
		line("rate_limited_total", "Answers over the rate limit: dropped, or sent without content.", statSlipped, "action", "slip", "drop"),
		one("client_subnet_unlocated_total", "Steered answers whose client subnet has no location, so that the sender was located instead.", statECSUnlocated),
		one("shed_ignored_total", "Steered answers for which shed_load would have removed every candidate, and so removed none.", statShedIgnored),
		one("transfers_total", "Zone transfers begun.", statTransfer),
		line("ladder_rung_total", "Steered answers by the rung of the last-resort ladder that they came from: 0 chain without up, 1 available, 2 draw ignored, 3 health ignored, 4 everything ignored.",
			statRung, "rung", "0", "1", "2", "3", "4"),
	}
}

// collector shows what all handlers counted (prometheus.Collector).
type collector struct {
	handlers     *Handlers
	tables       []table
	time, answer *prometheus.Desc
}

// Rungs counts the steered answers of all handlers since the start by the rung of the last-resort ladder that they came from; 0: their chain has no up.
func (hs *Handlers) Rungs() (out [pops.RungAll + 1]uint64) {
	copy(out[:], hs.totals()[statRung:])
	return out
}

// Register registers the counters of all handlers that hs made and will make.
func (hs *Handlers) Register(r prometheus.Registerer) error {
	return r.Register(&collector{
		handlers: hs, tables: tables(),
		time:   desc("handle_seconds", "Time from a message to its answer, in the handler; one message of 1021 of each worker is timed."),
		answer: desc("pop_answers_total", "Steered answers by the endpoint that they named; one that names n endpoints counts 1/n for each. No service: answers that are tied to a PoP. No pop: answers that are tied to none.", "pop", "service"),
	})
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for i := range c.tables {
		ch <- c.tables[i].desc
	}
	ch <- c.time
	ch <- c.answer
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	sum := c.handlers.totals()
	for i := range c.tables {
		c.tables[i].collect(sum, ch)
	}
	buckets, count := map[float64]uint64{}, uint64(0)
	for i, bound := range timeBounds {
		count += sum[int(statTime)+i]
		buckets[bound.Seconds()] = count
	}
	count += sum[statTime+timeBuckets-1]
	ch <- prometheus.MustNewConstHistogram(c.time, count, float64(sum[statSpent])/1e9, buckets)
	f := c.handlers.cfg.Publisher.Snapshot().View.Fleet
	for _, u := range c.handlers.UnitAnswers(f) {
		t := f.UnitTarget(u.Unit)
		ch <- prometheus.MustNewConstMetric(c.answer, prometheus.CounterValue, u.Answers, t.PoP, t.Service)
	}
}
