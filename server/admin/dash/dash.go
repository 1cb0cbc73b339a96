// Package dash is the page: what an operator sees of the fleet in a browser, and the levers.
//
// It is rendered here with html/template; htmx brings changed parts of it, uPlot draws the chart. Everything that it knows and does goes through the admin API, in the name of whoever looks:
// each request of a browser becomes requests of server/api's client with the browser's credentials, which stay in the process (inner.go).
//
// What it is not: it decides nothing, remembers nothing and has no door of its own.
package dash

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/edgesteer/edgesteer/server/api"
)

//go:embed templates assets vendored
var files embed.FS

// policy lets the page have what this server gives, and nothing from inside the page itself: neither scripts nor styles stand in the markup (Content Security Policy Level 3).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Page serves the page. It is safe for concurrent use.
type Page struct {
	api       http.Handler
	mux       *http.ServeMux
	templates *template.Template
	assets    map[string]asset // by name
}

// asset is a file that browsers may keep for ever: its name has its hash.
type asset struct {
	path string // /page/assets/page.css?v=...
	mime string
	data []byte
}

// New makes the page of an admin API in the same process: api answers requests for /v1/.
func New(apiHandler http.Handler) (*Page, error) {
	p := &Page{api: apiHandler, mux: http.NewServeMux(), assets: map[string]asset{}}
	if err := p.loadAssets(); err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	t, err := template.New("").Funcs(p.functions()).ParseFS(files, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	p.templates = t
	p.mux.HandleFunc("GET /{$}", p.page)
	p.mux.HandleFunc("GET /login", p.loginForm)
	p.mux.HandleFunc("POST /login", p.login)
	p.mux.HandleFunc("POST /logout", p.logout)
	p.mux.HandleFunc("GET /page/live", p.live)
	p.mux.HandleFunc("GET /page/form", p.form)
	p.mux.HandleFunc("POST /page/preview", p.preview)
	p.mux.HandleFunc("POST /page/act", p.act)
	p.mux.HandleFunc("GET /page/history", p.history)
	p.mux.HandleFunc("GET /page/explain", p.explain)
	p.mux.HandleFunc("GET /page/assets/{name}", p.asset)
	return p, nil
}

// Paths are the patterns of http.ServeMux that ServeHTTP is for.
func Paths() []string { return []string{"/{$}", "/login", "/logout", "/page/"} }

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", policy)
	p.mux.ServeHTTP(w, r)
}

func (p *Page) loadAssets() error {
	for _, dir := range []string{"assets", "vendored"} {
		list, err := files.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, f := range list {
			mime := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}[path.Ext(f.Name())]
			if mime == "" {
				continue
			}
			data, err := fs.ReadFile(files, dir+"/"+f.Name())
			if err != nil {
				return err
			}
			p.addAsset(f.Name(), mime, data)
		}
	}
	topology, err := files.ReadFile("vendored/land-110m.json")
	if err != nil {
		return err
	}
	land, err := drawLand(topology)
	if err != nil {
		return err
	}
	p.addAsset("land.svg", "image/svg+xml", land)
	return nil
}

func (p *Page) addAsset(name, mime string, data []byte) {
	hash := sha256.Sum256(data)
	p.assets[name] = asset{"/page/assets/" + name + "?v=" + hex.EncodeToString(hash[:6]), mime, data}
}

func (p *Page) asset(w http.ResponseWriter, r *http.Request) {
	a, ok := p.assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.mime)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(a.data) // a browser that leaves is no error
}

// functions are what templates may call.
func (p *Page) functions() template.FuncMap {
	return template.FuncMap{
		"mapHeight": mapHeight,
		"asset":     func(name string) string { return p.assets[name].path },
		"percent":   api.Percent,
		"figure":    api.Short,
		"amount":    api.Amount,
		"span":      api.Span,
		"join":      strings.Join,
		"deref":     func(f *float64) float64 { return *f },
	}
}

// render answers with a template. Nothing is sent if it fails.
func (p *Page) render(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := p.templates.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, "the page has a fault: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a browser that leaves is no error
}

// fail shows what went wrong: who is not known is sent to the form for that, everything else stands where the answer would.
func (p *Page) fail(w http.ResponseWriter, r *http.Request, err error) {
	problem, ok := errors.AsType[*api.Problem](err)
	if !ok {
		problem = &api.Problem{Status: http.StatusBadGateway, Title: "The server does not answer", Detail: err.Error()}
	}
	switch {
	case problem.Status == http.StatusUnauthorized && r.Header.Get("HX-Request") != "":
		w.Header().Set("HX-Redirect", "/login")
		w.WriteHeader(http.StatusNoContent)
	case problem.Status == http.StatusUnauthorized:
		http.Redirect(w, r, "/login", http.StatusSeeOther)
	case r.Header.Get("HX-Request") != "":
		p.render(w, problem.Status, "problem", problem)
	default:
		p.render(w, problem.Status, "failed", problem)
	}
}
