package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/api"
)

// theDemo is `edgesteer demo`, a process of its own.
type theDemo struct {
	*node
	operator, viewer string // addresses of the page
}

// startDemo runs the demo and returns when it has said what to try.
func startDemo(t *testing.T, args ...string) *theDemo {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	d := &theDemo{node: &node{t: t, dir: t.TempDir(), addr: netip.AddrPortFrom(loopback(), 5300).String()}}
	page := netip.AddrPortFrom(loopback(), 8053).String()
	d.cmd = exec.Command(path, append([]string{"demo", "--listen", d.addr, "--admin", page}, args...)...)
	d.cmd.Env = append(os.Environ(), "TMPDIR="+d.dir)
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs := new(journal)
	d.cmd.Stderr = errs
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	d.done = done
	t.Cleanup(func() {
		d.cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			d.kill()
		}
	})
	said := make(chan string)
	go func() {
		defer close(done)
		var text strings.Builder
		buf := make([]byte, 4096)
		for {
			n, err := out.Read(buf)
			text.Write(buf[:n])
			if strings.Contains(text.String(), "Ctrl-C stops it") || err != nil {
				break
			}
		}
		said <- text.String()
		_, _ = io.Copy(io.Discard, out)
		_ = d.cmd.Wait() // it was told to stop
	}()
	text := <-said
	links := regexp.MustCompile(`http://\S+/#\S+`).FindAllString(text, -1)
	if len(links) != 2 {
		t.Fatalf("the demo said\n%s%s", text, errs)
	}
	d.operator, d.viewer = links[0], links[1]
	socket, err := findSocket(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	if d.api, err = api.New("unix:"+socket, ""); err != nil {
		t.Fatal(err)
	}
	return d
}

// findSocket is the admin socket of the only demo below a folder for temporary files.
func findSocket(dir string) (string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), "edgesteer-demo-") {
			return dir + "/" + e.Name() + "/state/admin.sock", nil
		}
	}
	return "", fmt.Errorf("no demo below %s", dir)
}

// browser is a Chromium with a profile of its own, and one tab.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string // errors and exceptions of its console
}

// openBrowser starts Chromium with a window of some width.
func openBrowser(t *testing.T, width int64, scheme string) *browser {
	t.Helper()
	path := need(t, "chromium")
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(patience), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until it is gone, and its profile with it
		end()
	})
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	b.do("starting", chromedp.Navigate("about:blank"), chromedp.EmulateViewport(width, 900))
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
		t.Fatal(err)
	}
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == "error" || m.Type == chromedp.ConsoleException {
				b.mu.Lock()
				b.faults = append(b.faults, string(m.Type)+": "+m.Text)
				b.mu.Unlock()
			}
		}
	}()
	return b
}

func (b *browser) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatalf("%s: %v\n%s", what, err, b.body())
	}
}

// body is the text of the page, for messages.
func (b *browser) body() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), 5*time.Second)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	return text
}

// until waits until an expression of the page is true.
func (b *browser) until(what, expression string) {
	b.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && ok { // an error: the page is just going away for another
			return
		}
		<-tick.C
	}
	b.t.Fatalf("waiting in vain until %s\n%s", what, b.body())
}

// value is that of an expression of the page, which may be a promise.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// open opens the page and waits until it lives.
func (b *browser) open(url string) {
	b.t.Helper()
	b.do("opening the page", chromedp.Navigate(url))
	b.until("the page lives", `document.querySelector("#link")?.dataset.state == "live"`)
}

// quiet fails the test if the console had an error: a script's, or something that the content policy forbids.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		b.t.Errorf("console: %s", f)
	}
}

// band is an expression: how many pixels of a part of the chart, from left to right in percent, have the colour of a PoP.
func band(pop string, from, to int) string {
	return fmt.Sprintf(`(() => {
		const c = document.querySelector("#chart canvas"), g = c.getContext("2d");
		const want = getComputedStyle(document.querySelector("tr[data-pop='%s'] .swatch")).backgroundColor.match(/\d+/g).map(Number);
		const x = Math.floor(c.width * %d / 100), w = Math.max(1, Math.floor(c.width * %d / 100) - x);
		const d = g.getImageData(x, 0, w, c.height).data;
		let n = 0;
		for (let i = 0; i < d.length; i += 4) if (Math.abs(d[i] - want[0]) + Math.abs(d[i + 1] - want[1]) + Math.abs(d[i + 2] - want[2]) < 8) n++;
		return n;
	})()`, pop, from, to)
}

const (
	drainButton = `document.getElementById("drain-eu-west-3-envoy-wss")`
	pullLive    = `document.getElementById("pull-button") && !document.getElementById("pull-button").disabled`
)

// row is an expression: the state of a PoP in the table.
func row(pop string) string {
	return fmt.Sprintf(`document.querySelector("tr[data-pop='%s'] .state").textContent`, pop)
}

// paris tells whether a client in France is sent to the PoP there.
func (d *theDemo) paris() bool {
	d.t.Helper()
	a := addresses(d.ask("wss-primary.example.com", dns.TypeA, "90.0.0.0/24"))
	return len(a) > 0 && regexp.MustCompile(`^127\.\d+\.6\.`).MatchString(a[0])
}

// pull clicks the button of a preview where it is at that moment: a pointer, which goes by coordinates, could meet what a new preview has moved under it.
func (b *browser) pull() {
	b.t.Helper()
	if !value[bool](b, `(() => { const p = document.getElementById("pull-button"); const live = !p.disabled; p.click(); return live; })()`) {
		b.t.Error("the button is off")
	}
}

// press clicks what htmx has taken over, where it is at that moment: what the page fetches anew may move it, and before htmx has it a click does nothing.
func (b *browser) press(selector string) {
	b.t.Helper()
	b.until(selector+" is pressed", fmt.Sprintf(`(() => { const e = document.querySelector(%q); const ready = e && e["htmx-internal-data"]?.initHash !== undefined; if (ready) e.click(); return ready; })()`, selector))
}

// TestPageDrain: somebody opens the page, takes Paris out of the answers and gives it back; the preview comes first, then answers, table, history and chart change, the chart with a knee.
func TestPageDrain(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser")
	}
	d := startDemo(t)
	b := openBrowser(t, 1280, "light")
	b.open(d.operator)
	if hash := value[string](b, "location.href"); strings.Contains(hash, "#") {
		t.Errorf("the token is still in the address: %s", hash)
	}
	if script := value[string](b, "document.cookie"); script != "" {
		t.Errorf("scripts can read the cookie %q", script)
	}
	b.until("the chart shows Paris", band("eu-west-3", 0, 100)+" > 500")
	if !d.paris() {
		t.Fatal("a client in France is not sent to Paris before the drain")
	}
	b.press("#drain-eu-west-3-envoy-wss")
	b.until("the effect is shown", `/eu-west-3[^]*share 100 % → 0 %/.test(document.querySelector("#effect table")?.innerText)`)
	if over := value[float64](b, `document.querySelector("#effect table").getBoundingClientRect().right - document.getElementById("effect").getBoundingClientRect().right`); over > 0.5 {
		t.Errorf("the effect is %.1f pixels wider than its card", over)
	}
	if value[bool](b, pullLive) || !d.paris() {
		t.Error("the button is live without a reason, or a preview has done something")
	}
	b.do("saying why", chromedp.SendKeys(chromedp.CSS("#reason"), "fibre works"), chromedp.SendKeys(chromedp.CSS("#ticket"), "OPS-12"))
	b.until("the button is live", pullLive)
	b.pull()
	b.until("it is done", `document.querySelector("#act .done")`)
	if d.paris() {
		t.Error("a client in France is still sent to Paris after the page has said that it is done")
	}
	b.until("the table says so", row("eu-west-3")+` == "drained"`)
	b.until("the history says so", `/accepted drain of eu-west-3 by 100 % by you: fibre works \(OPS-12\)/.test(document.querySelector("#history").innerText)`)
	b.until("the statement is there", `/drain of eu-west-3 by 100 %/.test(document.querySelector("#said").innerText)`)
	b.until("the chart has a knee", band("eu-west-3", 0, 90)+" > 100 && "+band("eu-west-3", 96, 99)+" == 0")
	b.until("its answers end", `document.querySelector("tr[data-pop='eu-west-3'] .rate").textContent == "0"`)

	b.press("#said [id^=lift-]")
	b.until("the form is there", `document.querySelector("#lever [name=kind]").value == "lift"`)
	b.do("saying why", chromedp.SendKeys(chromedp.CSS("#reason"), "fibre is back"))
	b.until("the button is live", pullLive)
	b.pull()
	b.until("it is done", `document.querySelector("#act .done")`)
	if !d.paris() {
		t.Error("a client in France is not sent to Paris again")
	}
	b.until("the table says so", row("eu-west-3")+` == "serves"`)

	// What was typed later than the preview is not what the button does: it is off at once.
	b.press("#drain-eu-west-3-envoy-wss")
	b.until("the form is there", `document.querySelector("#lever [name=kind]").value == "drain"`)
	b.do("saying why", chromedp.SendKeys(chromedp.CSS("#reason"), "again"))
	b.until("the button is live", pullLive)
	if live := value[bool](b, `(() => { const by = document.getElementById("by"); by.value = "10"; by.dispatchEvent(new Event("input", { bubbles: true })); return !document.getElementById("pull-button").disabled; })()`); live {
		t.Error("the button is live although the form has changed")
	}
	b.until("the preview is of the new form", `document.getElementById("pull-button").textContent == "Drain eu-west-3 by 10 %"`)

	// A guard rail keeps the button off until it is overridden by name.
	b.do("choosing everything", chromedp.SetValue(chromedp.CSS("#target"), "*/envoy-wss"), chromedp.SetValue(chromedp.CSS("#by"), "100"))
	value[bool](b, `document.getElementById("target").dispatchEvent(new Event("input", { bubbles: true }))`)
	b.until("the guard rails are shown", `document.querySelectorAll("#effect [name=override]").length > 0 && document.getElementById("effect").getAttribute("aria-busy") == "false"`)
	if value[bool](b, pullLive) {
		t.Error("the button is live although a guard rail says no")
	}
	b.until("every guard rail is overridden", `(() => { const off = document.querySelector("#effect [name=override]:not(:checked)"); if (off && document.getElementById("effect").getAttribute("aria-busy") == "false") off.click(); return `+pullLive+`; })()`)
	b.quiet()
}

// TestPageAutomation: a PoP of the demo falls ill, the page shows it, and it comes back when it is well.
func TestPageAutomation(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser")
	}
	d := startDemo(t, "--nodes", "3")
	b := openBrowser(t, 1280, "dark")
	b.open(d.operator)
	b.until("the fleet is whole", `document.querySelector("#summary").innerText.includes("3 of 3")`)
	if out, errs, code := d.run("demo", "break", "eu-west-1"); code != 0 {
		t.Fatalf("%s%s", out, errs)
	}
	b.until("the page shows it", row("eu-west-1")+` == "down"`)
	b.until("automation says so", `/drain of eu-west-1 by 100 %\s+automation: /.test(document.querySelector("#said").innerText)`)
	b.until("all nodes voted", `/3 of 3 down/.test(document.querySelector("tr[data-pop='eu-west-1']").innerText)`)
	if out, errs, code := d.run("demo", "heal", "eu-west-1"); code != 0 {
		t.Fatalf("%s%s", out, errs)
	}
	b.until("it is back", row("eu-west-1")+` == "serves"`)
	b.until("the history has both", `/merged|accepted/.test(document.querySelector("#history").innerText) && /lifted/.test(document.querySelector("#history").innerText)`)
	b.quiet()
}

// TestPageKeyboard: a drain without a pointer, in a window of 360 pixels.
func TestPageKeyboard(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser")
	}
	d := startDemo(t, "--queries", "50")
	b := openBrowser(t, 360, "light")
	b.open(d.operator)
	if wide := value[int](b, "document.documentElement.scrollWidth"); wide > 360 {
		t.Errorf("the page is %d pixels wide in a window of 360", wide)
	}
	tabTo := func(what, expression string) {
		t.Helper()
		for range 300 {
			if value[bool](b, "Boolean("+expression+")") {
				return
			}
			b.do("pressing tab", chromedp.KeyEvent("\t"))
		}
		t.Fatalf("the tabulator does not lead to %s\n%s", what, value[string](b, "document.activeElement.outerHTML"))
	}
	b.do("pressing tab", chromedp.KeyEvent("\t"))
	if first := value[string](b, "document.activeElement.className"); first != "skip" {
		t.Errorf("the first thing with the focus is %q, not the way around the map", first)
	}
	// The table is brought anew when something in it changes, and before htmx has its buttons enter does nothing: then it is pressed again.
	for try := 0; !value[bool](b, `document.activeElement.id == "reason"`); try++ {
		if try == 10 {
			t.Fatalf("enter on the button of Paris does not lead to where to say why\n%s", b.body())
		}
		tabTo("the button of Paris", drainButton+" == document.activeElement")
		b.do("pressing enter", chromedp.KeyEvent("\r"))
		value[bool](b, `new Promise((done) => { const end = Date.now() + 5000; const look = () => document.activeElement.id == "reason" || Date.now() > end ? done(true) : setTimeout(look, 50); look(); })`)
	}
	b.do("typing", chromedp.KeyEvent("by keyboard"))
	b.until("the button is live", pullLive)
	tabTo("the button", `document.activeElement.id == "pull-button"`)
	if outline := value[string](b, "getComputedStyle(document.activeElement).outlineStyle"); outline != "solid" {
		t.Errorf("the focus cannot be seen: outline %s", outline)
	}
	b.do("pressing enter", chromedp.KeyEvent("\r"))
	b.until("the focus is on what was done", `document.activeElement.id == "done"`)
	if d.paris() {
		t.Error("a client in France is still sent to Paris")
	}
	if wide := value[int](b, "document.documentElement.scrollWidth"); wide > 360 {
		t.Errorf("the page is %d pixels wide in a window of 360", wide)
	}
	b.quiet()
}

// pastLater holds the answer with the past of the chart back until late() is called, and makes it 240 seconds longer.
const pastLater = `(() => {
	const real = window.fetch;
	window.fetch = (url, ...rest) => url !== "/v1/rates" ? real(url, ...rest) : new Promise((done) => {
		window.late = () => real(url).then((r) => r.json()).then((rates) => {
			const first = Date.parse(rates.samples[0].time);
			for (let i = 1; i <= 240; i++) rates.samples.unshift({ time: new Date(first - 1000 * i).toISOString(), seconds: 1, queries: 300, answers: rates.pops.map(() => 20) });
			done(new Response(JSON.stringify(rates)));
		});
	});
})()`

// TestPageLatePast: over a slow line the stream brings the present before the past has come; the chart has both.
func TestPageLatePast(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser")
	}
	d := startDemo(t, "--queries", "0")
	b := openBrowser(t, 1280, "light")
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: pastLater}); err != nil {
		t.Fatal(err)
	}
	b.open(d.operator)
	b.until("the past is asked for, and the present is there", `window.late && document.querySelector("#queries").textContent == "0" && document.querySelector("#chart canvas")`)
	value[bool](b, "(window.late(), true)")
	b.until("the chart has the past", band("eu-west-3", 10, 60)+" > 100")
	b.quiet()
}

// TestPageViewer: a viewer sees everything, and has no lever; what they try all the same is refused and in the history.
func TestPageViewer(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser")
	}
	d := startDemo(t, "--queries", "50")
	b := openBrowser(t, 768, "dark")
	b.open(d.viewer)
	if levers := value[int](b, `document.querySelectorAll("[id^=drain-], [id^=lever-], [id^=lift-]").length`); levers != 0 {
		t.Errorf("a viewer has %d levers", levers)
	}
	for _, try := range []string{
		`fetch("/page/act", { method: "POST", body: new URLSearchParams({ kind: "drain", target: "eu-west-3", reason: "mine" }) }).then((r) => r.status)`,
		`fetch("/page/preview", { method: "POST", body: new URLSearchParams({ kind: "drain", target: "eu-west-3", reason: "mine" }) }).then((r) => r.status)`,
		`fetch("/v1/drains", { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"target":"eu-west-3","reason":"mine"}' }).then((r) => r.status)`,
	} {
		if status := value[int](b, try); status != http.StatusForbidden {
			t.Errorf("status %d, want 403: %s", status, try)
		}
	}
	b.until("the history has it", `/refused by viewer: POST .v1.drains/.test(document.querySelector("#history").innerText)`)
	if !d.paris() {
		t.Error("a viewer has drained Paris")
	}
	value[bool](b, `(document.querySelector(".who button").click(), true)`)
	b.until("the token is asked for", `location.pathname == "/login"`)
	if status := value[int](b, `fetch("/v1/status").then((r) => r.status)`); status != http.StatusUnauthorized {
		t.Errorf("status %d after signing out", status)
	}
}

// TestPageOthers: a page of another origin, on the same host or not, cannot make the browser of an operator act or read.
func TestPageOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser")
	}
	d := startDemo(t, "--queries", "0")
	b := openBrowser(t, 1280, "light")
	b.open(d.operator)
	own := strings.TrimSuffix(value[string](b, "location.href"), "/")
	host, _, err := net.SplitHostPort(strings.TrimPrefix(own, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for name, listen := range map[string]string{"another port of the same host": host + ":0", "another host": "127.0.0.1:0"} {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		evil := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<!doctype html><title>evil</title><form id="f" method="post" action="%s/page/act" target="in"><input name="kind" value="drain"><input name="target" value="eu-west-3"><input name="reason" value="mischief"></form><iframe name="in"></iframe>`, own)
		})}
		go evil.Serve(l)
		t.Cleanup(func() { evil.Close() })
		b.do("opening the other page", chromedp.Navigate("http://"+l.Addr().String()+"/"))
		for _, try := range []string{
			`new Promise((done) => { document.querySelector("iframe").onload = () => done("sent"); document.getElementById("f").submit(); })`,
			fmt.Sprintf(`fetch("%s/page/act", { method: "POST", mode: "no-cors", credentials: "include", body: new URLSearchParams({ kind: "drain", target: "eu-west-3", reason: "mischief" }) }).then((r) => r.type, () => "refused")`, own),
			fmt.Sprintf(`fetch("%s/v1/drains", { method: "POST", credentials: "include", headers: { "Content-Type": "application/json" }, body: "{}" }).then(() => "read", () => "refused")`, own),
		} {
			if out := value[string](b, try); out == "read" {
				t.Errorf("%s: %s", name, try)
			}
		}
		if out := value[string](b, fmt.Sprintf(`fetch("%s/v1/status", { credentials: "include" }).then((r) => r.text(), () => "refused")`, own)); out != "refused" {
			t.Errorf("%s reads %.100s", name, out)
		}
	}
	st, err := d.api.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(st.Statements, func(s api.Statement) bool { return s.Class == api.ClassPerson }) || !d.paris() {
		t.Errorf("another page has made %+v", st.Statements)
	}
	// The browser's own page may: what was refused was the origin.
	b.open(own + "/")
	if status := value[int](b, `fetch("/page/act", { method: "POST", body: new URLSearchParams({ kind: "drain", target: "eu-west-3", reason: "mine" }) }).then((r) => r.status)`); status != http.StatusOK || d.paris() {
		t.Errorf("status %d for the own page", status)
	}
}
