package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/edgesteer/edgesteer"

// layer is a row of the house: its packages import only from rows before it, and not each other.
type layer struct {
	row      string
	packages []string
	not      []string // of what it depends on, directly or not
	why      string
}

func layers() []layer {
	return []layer{
		{row: "0", packages: []string{"geo", "zones/wire", "server/api", "server/config"},
			why: "each can be understood alone"},
		{row: "0T", packages: []string{"geo/geotest", "pops/gossip/gossiptest"},
			why: "the slow twin of geo's maps and a network in memory, for tests of any row"},
		{row: "1", packages: []string{"pops"},
			why: "who wins is a pure function of the fleet and what is known of it"},
		{row: "2", packages: []string{"filters"},
			why: "a filter sees candidates, a client's place and a view; nothing of DNS data"},
		{row: "3", packages: []string{"zones"}, not: []string{"server/config", "server/api"},
			why: "what is served is packed data; it does not know where it came from"},
		{row: "F", packages: []string{"zones/zonefile", "zones/transfer", "geo/mmdb", "pops/drain", "pops/health", "pops/load", "pops/gossip"},
			why: "feeders make what is served and do not know each other; server/app joins them"},
		{row: "F2", packages: []string{"zones/ns1"},
			why: "a translator: it writes what zonefile reads, and has zonefile check it"},
		{row: "4a", packages: []string{"server/dnstap"}, not: []string{"github.com/miekg/dns", "github.com/dnstap", "github.com/farsightsec"},
			why: "the query log is octets; a library would allocate for each message"},
		{row: "4", packages: []string{"server"},
			not: []string{"zones/zonefile", "zones/ns1", "zones/transfer", "geo/mmdb", "pops/drain", "pops/health", "pops/load", "pops/gossip", "server/config", "server/api",
				"github.com/BurntSushi/toml", "github.com/hashicorp/memberlist", "github.com/oschwald", "github.com/miekg/dns"},
			why: "the data path answers from one snapshot: no feeder, no TOML, no HTTP API, no membership, no database reader"},
		{row: "5a", packages: []string{"server/admin/dash"}, not: []string{"server"},
			why: "the page speaks only the admin API"},
		{row: "5", packages: []string{"server/admin"},
			why: "the API calls the ledger and reads snapshots"},
		{row: "6", packages: []string{"server/app"},
			why: "the one place that knows all parts"},
		{row: "6a", packages: []string{"server/app/demo"},
			why: "the demo is servers, their backends and their clients in one process"},
		{row: "7", packages: []string{"cmd/edgesteer/cli"},
			why: "a command starts the app or is a client of it"},
		{row: "8", packages: []string{"cmd/edgesteer", "integration", "integration/bench", "geo/gen", "packaging", "packaging/man"},
			why: "programs and tests; nothing imports them"},
	}
}

// library says in which packages a module may be imported by code that is not a test.
type library struct {
	path string
	in   []string // packages; with "*", any
	file string   // if set, only in files whose names end so
	why  string
}

func libraries() []library {
	return []library{
		{path: "github.com/miekg/dns", in: []string{"zones/zonefile", "zones/transfer", "pops/health", "server/app/demo", "cmd/edgesteer/cli"},
			why: "in maintenance, and it allocates: never on the query path"},
		{path: "github.com/oschwald/", in: []string{"geo/mmdb"}, why: "one package reads location databases"},
		{path: "github.com/gaissmai/bart", in: []string{"geo"}, why: "prefix tables are geo's own matter"},
		{path: "github.com/prometheus/client_golang/api", in: []string{"pops/load"}, why: "one package asks Prometheus"},
		{path: "github.com/prometheus/common/model", in: []string{"pops/load"}, why: "what Prometheus answers"},
		{path: "github.com/prometheus/", in: []string{"server/app", "server/admin"}, why: "the registry and its endpoint"},
		{path: "github.com/prometheus/", in: []string{"*"}, file: "metrics.go", why: "a package's metrics are in one file; others may only pass a registerer on"},
		{path: "github.com/hashicorp/memberlist", in: []string{"pops/gossip", "pops/gossip/gossiptest"}, why: "membership knows nothing of drains, drains nothing of membership"},
		{path: "github.com/BurntSushi/toml", in: []string{"server/config", "zones/zonefile"}, why: "configuration is read once, at the edge"},
		{path: "github.com/spf13/cobra", in: []string{"cmd/edgesteer/cli"}, why: "commands are the CLI's"},
		{path: "github.com/spf13/pflag", in: []string{"cmd/edgesteer/cli"}, why: "commands are the CLI's"},
		{path: "golang.org/x/sys", in: []string{"server", "pops/drain", "server/app"}, why: "sockets, the lock on the ledger's folder, and handing sockets over"},
		{path: "golang.org/x/net/idna", in: []string{"zones/zonefile"}, why: "what a name that is not ASCII is on the wire"},
		{path: "golang.org/x/net", in: []string{"server"}, why: "sockets and HTTP/2"},
		{path: "golang.org/x/net/icmp", in: []string{"pops/health"}, why: "the icmp check"},
		{path: "golang.org/x/net/ipv4", in: []string{"pops/health"}, why: "the icmp check"},
		{path: "golang.org/x/net/ipv6", in: []string{"pops/health"}, why: "the icmp check"},
		{path: "github.com/coder/websocket", in: []string{"pops/health", "server/app/demo"}, why: "the websocket check: a full handshake by a library's client; the demo's backends"},
		{path: "google.golang.org/grpc", in: []string{"pops/health"}, why: "the grpc check"},
		{path: "golang.org/x/net/netutil", in: []string{"server/admin"}, why: "a listener with a limit"},
		{path: "golang.org/x/term", in: []string{"cmd/edgesteer/cli"}, why: "whether output is a terminal"},
		{path: "github.com/cespare/xxhash/v2", in: []string{"pops", "filters", "pops/drain", "server/admin"}, why: "the stable hash of draws, checksums, keys"},
		{path: "github.com/dchest/siphash", in: []string{"server"}, why: "the MAC of server cookies (RFC 9018)"},
	}
}

// folders are the only ones at the root; those of the module's packages are among them.
func folders() []string {
	return []string{".ci", ".git", "cmd", "filters", "geo", "integration", "pops", "server", "zones", "packaging"}
}

type pkg struct {
	ImportPath, Dir, Name, Doc        string
	GoFiles, CgoFiles, IgnoredGoFiles []string
	TestGoFiles, XTestGoFiles         []string
	Imports, Deps                     []string
	TestImports, XTestImports         []string
	rel                               string // import path below the module
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		p.rel = strings.TrimPrefix(p.ImportPath, module+"/")
		list = append(list, p)
	}
	if len(list) == 0 {
		t.Fatal("go list found no packages")
	}
	return list
}

// files are the parsed sources of a package, those for other systems too, tests not.
func (p pkg) files(t *testing.T, fset *token.FileSet) map[string]*ast.File {
	t.Helper()
	out := map[string]*ast.File{}
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		out[name] = f
	}
	return out
}

func matches(importPath, rule string) bool {
	if !strings.Contains(rule, ".") { // a package of ours
		rule = module + "/" + rule
	}
	return importPath == rule || strings.HasPrefix(importPath, strings.TrimSuffix(rule, "/")+"/") && !strings.HasPrefix(rule, module)
}

func TestLayers(t *testing.T) {
	rank, why := map[string]int{}, map[string]layer{}
	for i, l := range layers() {
		for _, p := range l.packages {
			rank[p], why[p] = i, l
		}
	}
	for _, p := range packages(t) {
		l, ok := why[p.rel]
		if !ok {
			t.Errorf("%s is in no row of the layer table", p.rel)
			continue
		}
		for _, imported := range slices.Concat(p.Imports, p.TestImports) {
			rel, ours := strings.CutPrefix(imported, module+"/")
			if ours && rank[rel] >= rank[p.rel] && !(p.rel == "cmd/edgesteer" && rel == "cmd/edgesteer/cli") {
				t.Errorf("%s (row %s) imports %s (row %s): %s", p.rel, l.row, rel, why[rel].row, l.why)
			}
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, module) && strings.HasSuffix(dep, "test") {
				t.Errorf("%s depends on %s, which is for tests", p.rel, dep)
			}
			if i := slices.IndexFunc(l.not, func(rule string) bool { return matches(dep, rule) }); i >= 0 {
				t.Errorf("%s (row %s) depends on %s: %s", p.rel, l.row, dep, l.why)
			}
		}
	}
}

func TestLibraries(t *testing.T) {
	fset := token.NewFileSet()
	for _, p := range packages(t) {
		if p.Name == "main" && p.rel != "cmd/edgesteer" {
			continue // a generator
		}
		for name, f := range p.files(t, fset) {
			for _, spec := range f.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(imported, ".") || imported == module || strings.HasPrefix(imported, module+"/") {
					continue
				}
				if strings.HasPrefix(imported, "github.com/prometheus/client_golang/prometheus") && passesOn(f) {
					continue
				}
				if reason := refused(p.rel, name, imported); reason != "" {
					t.Errorf("%s/%s imports %s: %s", p.rel, name, imported, reason)
				}
			}
		}
	}
}

// passesOn tells whether a file only passes a registry on to those that make metrics.
func passesOn(f *ast.File) bool {
	ok := true
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, isSel := n.(*ast.SelectorExpr); isSel {
			if x, isIdent := sel.X.(*ast.Ident); isIdent && x.Name == "prometheus" {
				ok = ok && slices.Contains([]string{"Registerer", "Registry", "NewRegistry", "Gatherer"}, sel.Sel.Name)
			}
		}
		return true
	})
	return ok
}

func refused(rel, file, imported string) string {
	reason := "it has no row in the library table"
	for _, l := range libraries() {
		if !matches(imported, l.path) {
			continue
		}
		if (slices.Contains(l.in, rel) || slices.Contains(l.in, "*")) && (l.file == "" || strings.HasSuffix(file, l.file)) {
			return ""
		}
		reason = l.why
	}
	return reason
}

// In the data path one file knows HTTP.
func TestServerHTTP(t *testing.T) {
	fset := token.NewFileSet()
	for _, p := range packages(t) {
		if p.rel != "server" {
			continue
		}
		for name, f := range p.files(t, fset) {
			for _, spec := range f.Imports {
				if spec.Path.Value == `"net/http"` && name != "doh.go" {
					t.Errorf("server/%s imports net/http; only doh.go may", name)
				}
			}
		}
	}
}

// No init functions; package variables are errors and tables that nobody writes to.
func TestGlobals(t *testing.T) {
	for _, p := range packages(t) {
		fset := token.NewFileSet()
		files := p.files(t, fset)
		var list []*ast.File
		for name, f := range files {
			if slices.Contains(p.IgnoredGoFiles, name) {
				report(t, globals(fset, []*ast.File{f}))
				continue
			}
			list = append(list, f)
		}
		report(t, globals(fset, list))
	}
}

func report(t *testing.T, faults []string) {
	t.Helper()
	for _, f := range faults {
		t.Error(f)
	}
}

// What TestGlobals sees, and what it lets pass.
func TestGlobalsSees(t *testing.T) {
	tests := []struct{ code, want string }{
		{`func init() {}`, "x.go:2: an init function"},
		{`var mu sync.Mutex`, "x.go:2: package variable mu is shared state"},
		{`var p atomic.Pointer[int]`, "x.go:2: package variable p is shared state"},
		{`var pool = sync.Pool{}`, "x.go:2: package variable pool is shared state"},
		{`var n int; func f() { n = 1 }`, "x.go:2: package variable n is written to"},
		{`var n int; func f() { n++ }`, "x.go:2: package variable n is written to"},
		{`var m = map[int]int{}; func f() { m[1] = 2 }`, "x.go:2: package variable m is written to"},
		{`var s struct{ a []int }; func f() { s.a[0] = 2 }`, "x.go:2: package variable s is written to"},
		{`var n int; func f() *int { return &n }`, "x.go:2: the address of package variable n is taken"},
		{`var n int; func f() { n := 1; n = 2; _ = n }`, ""},
		{`var ErrX = errors.New("x"); var table = [2]int{1, 2}; var none netip.Addr; func f() int { return table[0] }`, ""},
	}
	for _, tt := range tests {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "x.go", "package x; import (\"errors\"; \"net/netip\"; \"sync\"; \"sync/atomic\")\n"+tt.code, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(globals(fset, []*ast.File{f}), "\n"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.code, got, tt.want)
		}
	}
}

// emptyImporter is enough to tell which names are the package's own.
type emptyImporter struct{}

func (emptyImporter) Import(p string) (*types.Package, error) {
	return types.NewPackage(p, path.Base(p)), nil
}

// globals lists the init functions and the package variables that are more than errors and tables.
func globals(fset *token.FileSet, files []*ast.File) (faults []string) {
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: emptyImporter{}, Error: func(error) {}}
	p, _ := conf.Check("p", fset, files, info) // with errors: the imports are empty
	complain := func(n ast.Node, format string, args ...any) {
		pos := fset.Position(n.Pos())
		faults = append(faults, fmt.Sprintf("%s:%d: %s", pos.Filename, pos.Line, fmt.Sprintf(format, args...)))
	}
	global := func(e ast.Expr) *ast.Ident {
		id := root(e)
		if id == nil {
			return nil
		}
		if v, ok := info.Uses[id].(*types.Var); ok && v.Parent() == p.Scope() {
			return id
		}
		return nil
	}
	for _, f := range files {
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					complain(d, "an init function")
				}
			case *ast.GenDecl:
				if d.Tok == token.VAR {
					checkVars(d, complain)
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, e := range n.Lhs {
					if id := global(e); id != nil && n.Tok != token.DEFINE {
						complain(e, "package variable %s is written to", id.Name)
					}
				}
			case *ast.IncDecStmt:
				if id := global(n.X); id != nil {
					complain(n, "package variable %s is written to", id.Name)
				}
			case *ast.UnaryExpr:
				if id := global(n.X); id != nil && n.Op == token.AND {
					if _, direct := n.X.(*ast.Ident); direct {
						complain(n, "the address of package variable %s is taken", id.Name)
					}
				}
			}
			return true
		})
	}
	return faults
}

// checkVars refuses what has state of its own. That nothing else is written to is seen where it would be.
func checkVars(d *ast.GenDecl, complain func(ast.Node, string, ...any)) {
	shared := func(e ast.Expr) bool {
		if lit, ok := e.(*ast.CompositeLit); ok {
			e = lit.Type
		}
		if index, ok := e.(*ast.IndexExpr); ok { // atomic.Pointer[T]
			e = index.X
		}
		sel, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, ok := sel.X.(*ast.Ident)
		return ok && (x.Name == "sync" || x.Name == "atomic")
	}
	for _, spec := range d.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if ok && (shared(v.Type) || slices.ContainsFunc(v.Values, shared)) {
			complain(v, "package variable %s is shared state", v.Names[0].Name)
		}
	}
}

// root is the variable that an expression is a part of.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// Every package says what it is, in a comment and a README.
func TestDocs(t *testing.T) {
	for _, p := range packages(t) {
		if p.Name == "main" || len(p.GoFiles) == 0 {
			continue
		}
		if !strings.HasPrefix(p.Doc, "Package "+p.Name+" ") {
			t.Errorf("%s has no package comment", p.rel)
		}
		if _, err := os.Stat(filepath.Join(p.Dir, "README.md")); errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s has no README.md", p.rel)
		}
	}
}

func TestFolders(t *testing.T) {
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(folders(), e.Name()) && !ignored(t, e.Name()) {
			t.Errorf("folder %s at the root", e.Name())
		}
	}
	for _, p := range packages(t) {
		for part := range strings.SplitSeq(p.rel, "/") {
			if slices.Contains([]string{"internal", "pkg", "util", "utils", "common", "types", "helpers"}, part) {
				t.Errorf("%s: %q says nothing", p.rel, part)
			}
		}
	}
}

// ignored tells whether git leaves a folder of the root out, as it does with what builds make.
func ignored(t *testing.T, name string) bool {
	t.Helper()
	return exec.Command("git", "-C", "..", "check-ignore", "-q", name).Run() == nil
}
