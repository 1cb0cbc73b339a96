package zonefile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/filters"
	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// warnTTL is the longest TTL, in seconds, with which a drain is felt in good time.
const warnTTL = 60

// records builds the steered records of a zone. Those that have errors are left out.
func (r *run) records(zone int, apex []byte) ([]steered, []use, []placed) {
	z := &r.cfg.Zones[zone]
	b := &zoneRecords{run: r, zone: zone, apex: apex, made: make([]made, len(z.Records))}
	b.reader = metaReader{cfg: r.cfg, feeds: r.fleet.Feeds}
	var out []steered
	var uses []use
	for i := range z.Records {
		m := b.record(i)
		for _, rec := range m.records {
			out = append(out, steered{rec, []any{"zone", zone, "record", i, "name"}})
		}
		if m.share != nil {
			uses = append(uses, use{i, m.share})
		}
	}
	return out, uses, b.reader.problems
}

// share is what records have in common that differ in nothing but their names, see likeness.
type share struct {
	key      string
	chain    *filters.Chain
	pool     *filters.Pool
	records  []*zones.Record
	warnings []note // said once for all of them, of the first
}

// use says that a record of a zone, by its index, is one of a share.
type use struct {
	record int
	*share
}

// note is a warning about steered records of a zone, to be said again for as long as they are taken over. Its path begins within the zone.
type note struct {
	path          []any
	message, hint string
}

func noteOf(p placed) note { return note{p.path[2:], p.Message, p.Hint} }

// warnings says what there is to warn of in a share, at one of its records, unless it has been said.
func (r *run) warnings(s *share, zone, record int) (out []placed) {
	if r.said[s] {
		return nil
	}
	r.said[s] = true
	for _, n := range s.warnings {
		p := warning(r.cfg, n.message, n.hint, append([]any{"zone", zone, "record", record}, n.path[2:]...))
		p.shared = true
		out = append(out, p)
	}
	return out
}

// zoneRecords builds the steered records of one zone.
type zoneRecords struct {
	*run
	zone   int
	apex   []byte
	reader metaReader // gathers the problems
	made   []made     // by index in the configuration
	stack  []int      // records under construction: each avoids the next
}

// made is what became of one record of the configuration.
type made struct {
	done    bool
	ok      bool // chain and pool may be used
	chain   *filters.Chain
	pool    *filters.Pool
	records []*zones.Record
	share   *share // nil: none
}

// draft is a record under construction.
type draft struct {
	*config.Record
	path    []any
	owner   []byte
	types   []uint16
	pool    *filters.Pool
	rdata   map[uint16][][]zones.RData // by type, then answer
	said    map[string][]any           // metadata said by the record, its groups and answers, and where
	plans   []int
	failed  bool
	builder *zoneRecords
}

func (d *draft) at(path ...any) []any { return append(slices.Clip(d.path), path...) }

func (d *draft) fail(message, hint string, path ...any) {
	d.failed = true
	d.builder.reader.fail(message, hint, d.at(path...)...)
}

func (d *draft) warn(message, hint string, path ...any) {
	d.builder.reader.warn(message, hint, d.at(path...)...)
}

// record builds record i, once.
func (b *zoneRecords) record(i int) *made {
	m := &b.made[i]
	if m.done {
		return m
	}
	m.done = true
	d := &draft{Record: &b.cfg.Zones[b.zone].Records[i], path: []any{"zone", b.zone, "record", i}, rdata: map[uint16][][]zones.RData{}, said: map[string][]any{}, builder: b}
	before := failures(b.reader.problems)
	d.name()
	key := d.likeness()
	if s := b.alike[key]; s != nil {
		m.become(s, d.owner)
		b.reader.problems = append(b.reader.problems, b.warnings(s, b.zone, i)...)
		return m
	}
	mine := len(b.reader.problems)
	d.readTypes()
	d.answers()
	if d.pool == nil || len(d.types) == 0 {
		return m
	}
	b.stack = append(b.stack, i)
	chain := d.chain()
	b.stack = b.stack[:len(b.stack)-1]
	if d.failed || failures(b.reader.problems) > before {
		return m
	}
	d.review(chain)
	m.ok, m.chain, m.pool = true, chain, d.pool
	for _, typ := range d.types {
		r, err := zones.NewRecord(zones.RecordConfig{
			Name: d.owner, Type: typ, TTL: d.ttl(), TTLMin: d.ttlMin(), AllDown: allDown(d.AllDown), Sender: d.UseClientSubnet != nil && !*d.UseClientSubnet,
			Chain: chain, Pool: d.pool, Plans: d.plans, Answers: d.rdata[typ],
		})
		if err != nil {
			d.fail(err.Error(), "")
			continue
		}
		m.records = append(m.records, r)
	}
	if key != "" && !d.failed {
		m.share = &share{key: key, chain: m.chain, pool: m.pool, records: m.records}
		for j := range b.reader.problems[mine:] {
			p := &b.reader.problems[mine+j]
			p.shared = true
			m.share.warnings = append(m.share.warnings, noteOf(*p))
		}
		b.alike[key], b.said[m.share] = m.share, true
	}
	return m
}

// likeness is the same for records of a service that differ in nothing but their names; "" for others. Thousands of names may have one service, and one of them holds an answer for each
// PoP. What is to be warned of is said once, of the first.
func (d *draft) likeness() string {
	r := d.Record
	if r.Service == "" || len(r.Meta)+len(r.Groups)+len(r.Answers) > 0 {
		return ""
	}
	filters := fmt.Sprintf("%#v", r.Filters)       // maps are printed in the order of their keys
	if strings.Contains(filters, "avoid_record") { // the name of another record is relative to the zone
		return ""
	}
	return fmt.Sprintf("%q %q %d %d %q %v %s", r.Service, r.Type, d.ttl(), d.ttlMin(), r.AllDown, sender(r), filters)
}

// become makes m one of a share, at its own name.
func (m *made) become(s *share, owner []byte) {
	m.ok, m.chain, m.pool, m.share = true, s.chain, s.pool, s
	for _, r := range s.records {
		m.records = append(m.records, r.As(owner))
	}
}

func failures(problems []placed) (n int) {
	for _, p := range problems {
		if !p.Warning {
			n++
		}
	}
	return n
}

// allDown reads what is answered when nothing is available; package config knows the words.
func allDown(word string) zones.AllDown {
	switch word {
	case "nodata":
		return zones.GiveNoData
	case "servfail":
		return zones.GiveServFail
	}
	return zones.Serve
}

func (d *draft) ttl() uint32 {
	if d.TTL == nil {
		return 60
	}
	return *d.TTL
}

func (d *draft) ttlMin() uint32 {
	if d.TTLMin == nil {
		return d.ttl()
	}
	return *d.TTLMin
}

// name finds the owner: relative to the zone, unless a dot ends it.
func (d *draft) name() {
	owner, err := d.builder.absolute(d.Record.Name)
	if err != nil {
		d.failed = true
		if d.Record.Name != "" { // else it has been reported
			d.fail(err.Error(), "", "name")
		}
		owner = d.builder.apex
	}
	d.owner = owner
	if hint := foreign(d.Record.Name); hint != "" {
		d.warn(fmt.Sprintf("name %q is not ASCII: nobody asks for it so", d.Record.Name), hint, "name")
	}
	zone := strings.TrimSuffix(wire.NameString(d.builder.apex), ".")
	if n := strings.ToLower(d.Record.Name); n == zone || strings.HasSuffix(n, "."+zone) {
		d.warn(fmt.Sprintf("names are relative to the zone: this one is %s", wire.NameString(owner)), fmt.Sprintf("did you mean %q?", d.Record.Name+"."), "name")
	}
}

// absolute is a name of the configuration in wire form, lower case.
func (b *zoneRecords) absolute(text string) ([]byte, error) {
	if text == "@" {
		return b.apex, nil
	}
	name, err := wire.ParseName(text)
	if err != nil {
		return nil, err
	}
	name = wire.ToLower(nil, name)
	if dns.IsFqdn(text) {
		return name, nil
	}
	name = append(name[:len(name)-1], b.apex...)
	if len(name) > wire.MaxName {
		return nil, fmt.Errorf("name %q is too long in zone %s", text, wire.NameString(b.apex))
	}
	return name, nil
}

// readTypes finds the types: a service without a type has A and AAAA, or CNAME if its endpoints are names.
func (d *draft) readTypes() {
	if d.Type == "" {
		if d.Service != "" {
			d.types = []uint16{dns.TypeA, dns.TypeAAAA}
		}
		return
	}
	typ, ok := TypeNumber(d.Type)
	switch {
	case !ok:
		d.fail(fmt.Sprintf("unknown type %q", d.Type), config.DidYouMean(strings.ToUpper(d.Type), slices.Collect(maps.Keys(dns.StringToType))), "type")
	case !steerable(typ):
		d.fail("records of type "+TypeText(typ)+" cannot be steered", "put them into the zone file", "type")
	case d.Service != "" && typ != dns.TypeA && typ != dns.TypeAAAA && typ != dns.TypeCNAME:
		d.fail("a service has A and AAAA records, or CNAME records, none of type "+TypeText(typ), "leave the type out", "type")
	default:
		d.types = []uint16{typ}
	}
}

// steerable reports whether clients can get different records of a type: not those that shape the zone.
func steerable(typ uint16) bool {
	switch typ {
	case dns.TypeSOA, dns.TypeNS, dns.TypeDNAME, dns.TypeDS, dns.TypeDNSKEY, dns.TypeRRSIG, dns.TypeNSEC, dns.TypeNSEC3, dns.TypeNSEC3PARAM, dns.TypeCDS, dns.TypeCDNSKEY, dns.TypeOPT:
		return false
	}
	return typ != 0 && (typ < 128 || typ > 255)
}

// chain builds the chain of the record.
func (d *draft) chain() *filters.Chain {
	var cfgs []filters.Config
	for i, f := range d.Filters {
		c, ok := d.filter(f, i)
		if !ok {
			continue
		}
		cfgs = append(cfgs, c)
	}
	if len(cfgs) < len(d.Filters) {
		return nil
	}
	chain, problems := filters.New(cfgs, filters.Env{
		Pool: d.pool, Fleet: d.builder.fleet, Record: d.avoided, Withholds: allDown(d.AllDown) != zones.Serve, Single: slices.Equal(d.types, []uint16{dns.TypeCNAME}),
		Plan: func(p geo.Plan) int {
			n := d.builder.plans.Number(p)
			if !slices.Contains(d.plans, n) {
				d.plans = append(d.plans, n)
			}
			return n
		},
	})
	for _, p := range problems {
		path := []any{"filters"}
		if p.Step >= 0 {
			path = append(path, p.Step)
			if p.Key != "" {
				path = append(path, p.Key)
			}
		}
		if p.Warning {
			d.warn(p.Message, p.Hint, path...)
		} else {
			d.fail(p.Message, p.Hint, path...)
		}
	}
	return chain
}

// filter reads one filter: a name, or a table of the name, disabled, and the filter's own keys.
func (d *draft) filter(f any, i int) (c filters.Config, ok bool) {
	switch f := f.(type) {
	case string:
		return filters.Config{Name: f}, true
	case map[string]any:
		c.Args = maps.Clone(f)
		c.Name, ok = f["filter"].(string)
		if !ok {
			d.fail(`a filter is a name, or a table with the key "filter"`, `for example { filter = "select_first_n", N = 1 }`, "filters", i)
			return c, false
		}
		if v, has := f["disabled"]; has {
			on, err := truth(v)
			if err != nil {
				d.fail(err.Error(), "", "filters", i, "disabled")
				return c, false
			}
			c.Disabled = on
		}
		delete(c.Args, "filter")
		delete(c.Args, "disabled")
		return c, true
	}
	d.fail(fmt.Sprintf("a filter is a name or a table, not %v", f), "", "filters", i)
	return c, false
}

// avoided finds the record that avoid_record names, and builds it first.
func (d *draft) avoided(text string) (*filters.Chain, *filters.Pool, error) {
	b := d.builder
	name, err := b.absolute(text)
	if err != nil {
		return nil, nil, err
	}
	records := b.cfg.Zones[b.zone].Records
	found := -1
	var known []string
	for i := range records {
		known = append(known, records[i].Name)
		owner, err := b.absolute(records[i].Name)
		if err != nil || string(owner) != string(name) {
			continue
		}
		if found < 0 || d.sharesType(&records[i]) {
			found = i
		}
	}
	if found < 0 {
		err := fmt.Errorf("unknown record %q in zone %s", text, wire.NameString(b.apex))
		if hint := config.DidYouMean(text, known); hint != "" {
			err = fmt.Errorf("%w (%s)", err, hint)
		}
		return nil, nil, err
	}
	if slices.Contains(b.stack, found) {
		return nil, nil, fmt.Errorf("records avoid each other in a loop: %s", b.loop(found))
	}
	m := b.record(found)
	if !m.ok {
		return nil, nil, fmt.Errorf("record %q has problems of its own", text)
	}
	if sender(&records[found]) != sender(d.Record) { // what it gives "this client" would be asked of another client
		return nil, nil, fmt.Errorf("record %q looks at another client: both must have the same use_client_subnet", text)
	}
	return m.chain, m.pool, nil
}

// sender reports whether a record looks at who sent the query only.
func sender(r *config.Record) bool { return r.UseClientSubnet != nil && !*r.UseClientSubnet }

// sharesType reports whether another record has a type of this one.
func (d *draft) sharesType(other *config.Record) bool {
	typ, ok := TypeNumber(other.Type)
	return !ok || slices.Contains(d.types, typ)
}

func (b *zoneRecords) loop(found int) string {
	records := b.cfg.Zones[b.zone].Records
	var names []string
	for _, i := range b.stack[slices.Index(b.stack, found):] {
		names = append(names, records[i].Name)
	}
	return strings.Join(append(names, records[found].Name), ", ")
}

// review warns of what can be served, but hardly be meant.
func (d *draft) review(chain *filters.Chain) {
	if d.ttl() > warnTTL && slices.ContainsFunc(d.pool.Answers, func(a filters.Answer) bool { return a.Unit != pops.NoUnit }) {
		d.warn(fmt.Sprintf("with a TTL of %d s drains are felt late", d.ttl()), fmt.Sprintf("%d s or less", warnTTL), "ttl")
	}
	for _, key := range slices.Sorted(maps.Keys(d.said)) {
		if !readBy(chain, key) {
			d.builder.reader.warn(key+" has no effect: no filter of the chain reads it", "", d.said[key]...)
		}
	}
}

// readBy reports whether a filter of the chain looks at a key of metadata.
func readBy(chain *filters.Chain, key string) bool {
	if key == "note" {
		return true
	}
	for _, e := range filters.Registry() {
		if slices.Contains(e.Reads, key) && slices.ContainsFunc(chain.Steps, func(s filters.Step) bool { return s.Name == e.Name }) {
			return true
		}
	}
	return false
}
