package config

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// check is what can be told from the file alone, past types and ranges: names, addresses, secrets, duplicates, and references
// between things that are no DNS. The problems are those of the decoder: what they are about is not asked again.
func (c *Config) check(problems []Problem) []Problem {
	k := checker{c: c, reported: map[string]bool{}}
	for _, p := range problems {
		k.reported[p.Field] = true
	}
	k.server()
	k.admin()
	k.cluster()
	k.automation()
	k.bindings()
	k.fleet()
	k.zones()
	files := places{}
	for i, path := range c.Geo.Databases {
		k.once(files, "database", path, "geo", "databases", i)
	}
	return k.problems
}

type checker struct {
	c        *Config
	reported map[string]bool // fields that the decoder could not make sense of
	problems []Problem
}

// places says where things of a name are.
type places map[string][]any

func (k *checker) fail(path []any, hint, format string, args ...any) {
	k.problems = append(k.problems, k.c.Problem(fmt.Sprintf(format, args...), hint, path...))
}

func at(path ...any) []any { return path }

// once reports the second thing of a name and where the first is. An empty name has been reported.
func (k *checker) once(seen places, kind, name string, path ...any) bool {
	if name == "" {
		return true
	}
	if first, ok := seen[name]; ok {
		k.fail(path, fmt.Sprintf("the first is in line %d", k.c.Line(first...)), "duplicate %s %q", kind, name)
		return false
	}
	seen[name] = path
	return true
}

// name holds a name to what targets like POP/SERVICE can be made of.
func (k *checker) name(kind, name string, path ...any) {
	if strings.ContainsFunc(name, func(r rune) bool { return !isBare(r) && r != '.' }) {
		k.fail(path, `letters, digits, "-", "_" and "." only`, "%q cannot be the name of a %s", name, kind)
	}
}

// known reports a reference to nothing.
func (k *checker) known(kind, name string, names []string, path ...any) {
	if name != "" && !slices.Contains(names, name) {
		k.fail(path, DidYouMean(name, names), "unknown %s %q", kind, name)
	}
}

func names[T any](list []T, name func(T) string) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = name(v)
	}
	return out
}

func (k *checker) popNames() []string { return names(k.c.PoPs, func(p PoP) string { return p.Name }) }

func (k *checker) serviceNames() []string {
	return names(k.c.Services, func(s Service) string { return s.Name })
}

// maxNode is the longest name of a node that class CH can tell.
const maxNode = 254

func (k *checker) server() {
	if t, h := k.c.Server.TLS, k.c.Server.HTTPS; t != nil && h != nil && (t.Certificate != h.Certificate || t.Key != h.Key) {
		k.fail(at("server", "https", "certificate"), "give both the same files", "server.tls and server.https share one certificate")
	}
	s := k.c.Server
	k.name("node", s.Node, "server", "node")
	if len(s.Node) > maxNode {
		k.fail(at("server", "node"), "class CH can tell no more", "the name has %d octets, %d are allowed", len(s.Node), maxNode)
	}
	if s.Node == "" {
		k.fail(at("server"), "", "node is missing, and the host has no name")
	}
	k.known("PoP", s.PoP, k.popNames(), "server", "pop")
	tcp := places{}
	k.listen(tcp, s.Listen, "server", "listen")
	if s.TLS != nil {
		k.listen(tcp, s.TLS.Listen, "server", "tls", "listen")
	}
	if s.HTTPS != nil {
		k.listen(tcp, s.HTTPS.Listen, "server", "https", "listen")
		if !strings.HasPrefix(s.HTTPS.Path, "/") || strings.ContainsAny(s.HTTPS.Path, "?#{} ") {
			k.fail(at("server", "https", "path"), `for example "/dns-query"`, "%q is not a path", s.HTTPS.Path)
		}
	}
	seen := places{}
	for i, secret := range s.CookieSecrets {
		if b, err := hex.DecodeString(secret); err != nil || len(b) != 16 {
			k.fail(at("server", "cookie_secrets", i), "make one with: openssl rand -hex 16", "want 32 hex digits")
		}
		k.once(seen, "secret", strings.ToLower(secret), "server", "cookie_secrets", i)
	}
}

func (k *checker) listen(seen places, list []netip.AddrPort, path ...any) {
	if len(list) == 0 {
		k.fail(path, `for example ["127.0.0.1:5300", "[::1]:5300"]`, "no address to listen on")
	}
	for i, a := range list {
		if a.IsValid() && a.Port() != 0 { // port 0 is a new one each time
			k.once(seen, "address", a.String(), append(slices.Clip(path), i)...)
		}
	}
}

func (k *checker) admin() {
	a := k.c.Admin
	seen := places{}
	for i, listen := range a.Listen {
		p := at("admin", "listen", i)
		k.once(seen, "address", listen, p...)
		if strings.HasPrefix(listen, "unix:") {
			if listen == "unix:" {
				k.fail(p, `for example "unix:state/admin.sock"`, "no path after unix:")
			}
			continue
		}
		ap, err := netip.ParseAddrPort(listen)
		switch {
		case err != nil:
			k.fail(p, `for example "unix:state/admin.sock" or "127.0.0.1:8053"`, "%q is not an address", listen)
		case a.TLS == nil && !ap.Addr().IsLoopback():
			k.fail(p, "add [admin.tls], or listen on loopback", "%s can be reached from outside, but there is no TLS", listen)
		}
	}
	if m, err := strconv.ParseUint(a.Mode, 8, 32); err != nil || m > 0o777 {
		k.fail(at("admin", "socket_mode"), `for example "0660"`, "%q is not a file mode", a.Mode)
	}
	tokens, hashes := places{}, places{}
	for i, t := range a.Tokens {
		if b, err := hex.DecodeString(t.SHA256); t.SHA256 != "" && (err != nil || len(b) != 32) {
			k.fail(at("admin", "token", i, "sha256"), "make it with: printf %s TOKEN | sha256sum", "want 64 hex digits")
		}
		k.once(tokens, "token", t.Name, "admin", "token", i, "name")
		k.once(hashes, "hash", strings.ToLower(t.SHA256), "admin", "token", i, "sha256")
	}
	clients := places{}
	for i, t := range a.Clients {
		k.once(clients, "client", t.Name, "admin", "client", i, "name")
	}
	if len(a.Clients) > 0 && (a.TLS == nil || a.TLS.ClientCA == "") {
		k.fail(at("admin", "client", 0), "set client_ca in [admin.tls]", "client certificates are not asked for")
	}
}

func (k *checker) cluster() {
	c := k.c.Cluster
	if c == nil {
		return
	}
	if c.KeyFile == "" && c.Listen.IsValid() && !c.Listen.Addr().IsLoopback() {
		k.fail(at("cluster"), "make one with: openssl rand -base64 32 > cluster.key; and set key_file", "without a key the other nodes must be on loopback")
	}
	if a := c.Advertise; a != nil && a.IsValid() && (a.Addr().IsUnspecified() || a.Port() == 0) {
		k.fail(at("cluster", "advertise"), `for example "192.0.2.1:7946"`, "nobody can be reached at %s", a)
	}
	seen := places{}
	for i, s := range c.Seeds {
		k.hostPort(s, "cluster", "seeds", i)
		k.once(seen, "seed", s, "cluster", "seeds", i)
	}
}

func (k *checker) hostPort(s string, path ...any) {
	i := strings.LastIndexByte(s, ':')
	port, err := strconv.ParseUint(s[i+1:], 10, 16)
	host := strings.Trim(s[:max(i, 0)], "[]")
	if _, addrErr := netip.ParseAddr(host); err != nil || port == 0 || host == "" || strings.Contains(host, ":") && addrErr != nil {
		k.fail(path, `for example "192.0.2.1:7946" or "dns-b.example.net:7946"`, "%q is not HOST:PORT", s)
	}
}

func (k *checker) automation() {
	last := Percent(0)
	for i, p := range k.c.Automation.Ramp {
		if p <= last {
			k.fail(at("automation", "ramp", i), "", "%g%% does not rise above %g%%", p, last)
		}
		last = p
	}
	if last != 100 {
		k.fail(at("automation", "ramp"), "", "the last step must be 100%%")
	}
	for i, d := range k.c.Drills {
		pop, service, both := strings.Cut(d.Target, "/")
		if both && (pop == "" || service == "") {
			k.fail(at("drill", i, "target"), "POP, POP/SERVICE or */SERVICE", "%q names no target", d.Target)
		} else if pop != "*" || !both {
			k.known("PoP", pop, k.popNames(), "drill", i, "target")
		}
		k.known("service", service, k.serviceNames(), "drill", i, "target")
		if d.By < 1 || d.By != Percent(int(d.By)) {
			k.fail(at("drill", i, "by"), "whole percents, 1% to 100%", "a drill by %g%% cannot be made", float64(d.By))
		}
		if length := d.Window.Length(); length > 0 && 2*d.Over+DrillLeast > length {
			k.fail(at("drill", i, "over"), fmt.Sprintf("at most half of the window, less %s", DrillLeast/2), "twice %s does not fit into a window of %s", d.Over, length)
		}
		if d.Abort != "" && k.c.Prometheus.URL == "" {
			k.fail(at("drill", i, "abort"), "set url in [prometheus]", "no Prometheus to ask")
		}
	}
	if u := k.c.Prometheus.URL; u != "" {
		k.url(u, "prometheus", "url")
	}
	feeds := places{}
	for i, f := range k.c.Feeds {
		k.name("feed", f.Name, "feed", i, "name")
		k.once(feeds, "feed", f.Name, "feed", i, "name")
	}
}

func (k *checker) url(s string, path ...any) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		k.fail(path, `for example "http://127.0.0.1:9090"`, "%q is not an HTTP URL", s)
	}
}

func (k *checker) fleet() {
	seen := places{}
	for i, p := range k.c.PoPs {
		k.name("PoP", p.Name, "pop", i, "name")
		k.once(seen, "PoP", p.Name, "pop", i, "name")
		if (p.Latitude == nil) != (p.Longitude == nil) {
			k.fail(at("pop", i), "", "latitude and longitude go together")
		}
	}
	pops := k.popNames()
	services := places{}
	for i, s := range k.c.Services {
		k.name("service", s.Name, "service", i, "name")
		k.once(services, "service", s.Name, "service", i, "name")
		if s.Load != nil {
			k.load(s.Load, "service", i, "load")
		}
		if s.Check != nil {
			k.healthCheck(s.Check, "service", i, "check")
		}
		for _, pop := range slices.Sorted(maps.Keys(s.At)) {
			k.known("PoP", pop, pops, "service", i, "at", pop)
			k.endpoint(s.At[pop], "service", i, "at", pop)
		}
	}
}

func (k *checker) load(l *Metric, path ...any) {
	switch {
	case (l.Low == nil) != (l.High == nil):
		k.fail(path, "", "low_watermark and high_watermark go together")
	case l.Low != nil && !(*l.Low < *l.High) && !k.wrong(path, "low_watermark", "high_watermark"):
		k.fail(append(slices.Clip(path), "low_watermark"), "", "low_watermark %g is not below high_watermark %g", *l.Low, *l.High)
	}
	if l.URL != "" {
		k.url(l.URL, append(slices.Clip(path), "url")...)
	}
	if l.URL != "" && l.Query != "" {
		k.fail(append(slices.Clip(path), "query"), "", "a load is polled by url or asked by query, not both")
	}
	if l.Query != "" && k.c.Prometheus.URL == "" {
		k.fail(append(slices.Clip(path), "query"), "set url in [prometheus]", "no Prometheus to ask")
	}
}

// healthCheck leaves to pops/health which kinds there are and what each needs.
func (k *checker) healthCheck(c *Check, path ...any) {
	if c.Timeout > c.Interval {
		k.fail(append(slices.Clip(path), "timeout"), "", "timeout %s is longer than interval %s", c.Timeout, c.Interval)
	}
	if _, err := regexp.Compile(c.Body); err != nil {
		k.fail(append(slices.Clip(path), "body"), "", "%v", err)
	}
	for _, header := range slices.Sorted(maps.Keys(c.Expect)) {
		if _, err := regexp.Compile(c.Expect[header]); err != nil {
			k.fail(append(slices.Clip(path), "expect_headers", header), "", "%v", err)
		}
	}
	families := map[bool]bool{}
	for i, s := range c.Source {
		a, err := netip.ParseAddr(s)
		if err != nil {
			k.fail(append(slices.Clip(path), "source", i), "", "%q is not an address", s)
			continue
		}
		if families[a.Is4()] {
			k.fail(append(slices.Clip(path), "source", i), "", "a second address of one family")
		}
		families[a.Is4()] = true
	}
}

func (k *checker) endpoint(e Endpoint, path ...any) {
	switch {
	case len(e.Addresses) == 0 && e.CNAME == "":
		if !k.wrong(path, "addresses", "cname") {
			k.fail(path, "", "neither addresses nor cname")
		}
	case len(e.Addresses) > 0 && e.CNAME != "":
		k.fail(append(slices.Clip(path), "cname"), "", "both addresses and cname")
	case len(e.Addresses) > 0 && e.MinUp > len(e.Addresses):
		k.fail(append(slices.Clip(path), "min_up"), "", "min_up %d can never be reached with %d addresses", e.MinUp, len(e.Addresses))
	}
	seen := places{}
	for i, s := range e.Addresses {
		p := append(slices.Clip(path), "addresses", i)
		a, err := netip.ParseAddr(s)
		switch {
		case err != nil || a.Zone() != "":
			k.fail(p, `for example "192.0.2.1" or "2001:db8::1"`, "%q is not an address", s)
		case a.Is4In6():
			k.fail(p, fmt.Sprintf("did you mean %q?", a.Unmap()), "%q is an IPv4 address in IPv6's clothes", s)
		default:
			k.once(seen, "address", a.String(), p...)
		}
	}
}

func (k *checker) zones() {
	keys := places{}
	for i, t := range k.c.TSIG {
		k.once(keys, "key", domain(t.Name), "tsig", i, "name")
		if (t.Secret == "") == (t.SecretFile == "") {
			k.fail(at("tsig", i), "", "want one of secret and secret_file")
		}
		if _, err := base64.StdEncoding.DecodeString(t.Secret); err != nil {
			k.fail(at("tsig", i, "secret"), "make one with: openssl rand -base64 32", "want base64")
		}
	}
	seen := places{}
	for i, z := range k.c.Zones {
		k.once(seen, "zone", domain(z.Name), "zone", i, "name")
		if z.File == "" && len(z.Primaries) == 0 && !k.wrong(at("zone", i), "file", "primary") {
			k.fail(at("zone", i), "", "neither file nor primary")
		}
		if z.File != "" && len(z.Primaries) > 0 {
			k.fail(at("zone", i, "file"), "", "a zone with primaries has no file")
		}
		primaries := places{}
		for j, p := range z.Primaries {
			k.target(primaries, "primary", p.Address, "zone", i, "primary", j, "address")
			k.key(p.Key, "zone", i, "primary", j, "key")
		}
		if z.Transfer != nil {
			notified := places{}
			for j, a := range z.Transfer.Notify {
				k.target(notified, "secondary", a, "zone", i, "transfer", "notify", j)
			}
			for j, key := range z.Transfer.Keys {
				k.key(key, "zone", i, "transfer", "keys", j)
			}
		}
		records := places{}
		for j, r := range z.Records {
			k.record(records, z, r, i, j)
		}
	}
}

// target checks an address that messages are sent to.
func (k *checker) target(seen places, kind string, a netip.AddrPort, path ...any) {
	switch {
	case !a.IsValid(): // it has been reported
	case a.Port() == 0 || a.Addr().IsUnspecified() || a.Addr().IsMulticast():
		k.fail(path, `for example "192.0.2.1:53"`, "nobody can be asked at %s", a)
	default:
		k.once(seen, kind, a.String(), path...)
	}
}

// wrong reports whether the value of one of these keys has been reported: what it would have been is not known.
func (k *checker) wrong(path []any, keys ...string) bool {
	return k.reported[Field(path...)] || slices.ContainsFunc(keys, func(key string) bool { return k.reported[Field(append(slices.Clip(path), key)...)] })
}

func (k *checker) key(name string, path ...any) {
	if name != "" && !slices.ContainsFunc(k.c.TSIG, func(t TSIG) bool { return domain(t.Name) == domain(name) }) {
		k.fail(path, DidYouMean(name, names(k.c.TSIG, func(t TSIG) string { return t.Name })), "unknown key %q", name)
	}
}

func (k *checker) record(seen places, z Zone, r Record, i, j int) {
	if r.Name == "" {
		return
	}
	types := []string{strings.ToUpper(r.Type)}
	if r.Type == "" {
		types = []string{"A", "AAAA"}
	}
	owner := owner(r.Name, z.Name)
	for _, t := range types {
		if !k.once(seen, "record", owner+" "+t, "zone", i, "record", j, "name") {
			break
		}
	}
	switch {
	case r.Service == "" && len(r.Answers) == 0:
		if !k.wrong(at("zone", i, "record", j), "service", "answer") {
			k.fail(at("zone", i, "record", j), "", "neither service nor answers")
		}
	case r.Service != "" && len(r.Answers) > 0:
		k.fail(at("zone", i, "record", j, "service"), "", "both service and answers")
	case r.Service == "" && r.Type == "" && !k.wrong(at("zone", i, "record", j), "service", "type"):
		k.fail(at("zone", i, "record", j), `for example type = "A"`, "type is missing")
	}
	if r.TTL != nil && r.TTLMin != nil && *r.TTLMin > *r.TTL {
		k.fail(at("zone", i, "record", j, "ttl_min"), "", "ttl_min %d is above ttl %d", *r.TTLMin, *r.TTL)
	}
}

// domain makes names comparable as text: lower case, no dot at the end.
func domain(name string) string {
	return strings.TrimSuffix(strings.ToLower(name), ".")
}

// owner is the whole name of a record.
func owner(name, zone string) string {
	switch {
	case name == "@":
		return domain(zone)
	case strings.HasSuffix(name, "."):
		return domain(name)
	}
	return domain(name) + "." + domain(zone)
}

// FileMode is the file mode of the admin socket.
func (a Admin) FileMode() os.FileMode {
	m, _ := strconv.ParseUint(a.Mode, 8, 32) // checked
	return os.FileMode(m)
}
