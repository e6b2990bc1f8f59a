//go:build browser

package admin

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"drtmd/cmd/drtmd/internal/status"
)

// pictures is where screenshots go.
const pictures = "../../../../.cache/browser"

// tab is a page of a real browser, with what it complained of and where it asked.
type tab struct {
	ctx context.Context

	mu      sync.Mutex // guards what follows
	errors  []string   // exceptions, and errors and warnings on the console
	network []string   // requests that failed, or were answered with an error
	hosts   map[string]bool
}

// hear is told of events of the browser.
func (x *tab) hear(e any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch e := e.(type) {
	case *cdpruntime.EventExceptionThrown:
		x.errors = append(x.errors, e.ExceptionDetails.Text)
	case *cdpruntime.EventConsoleAPICalled:
		switch e.Type {
		case cdpruntime.ConsoleAPICalledTypeError, cdpruntime.ConsoleAPICalledTypeWarning:
			for _, a := range e.Args {
				x.errors = append(x.errors, fmt.Sprint("console: ", string(a.Value), a.Description))
			}
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Source == cdplog.EntrySourceNetwork {
			x.network = append(x.network, e.Entry.Text)
			return
		}
		x.errors = append(x.errors, e.Entry.Text)
	case *network.EventLoadingFailed:
		x.network = append(x.network, e.ErrorText)
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			x.network = append(x.network, fmt.Sprint(e.Response.URL, " ", e.Response.Status))
		}
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, "data:") {
			x.hosts[strings.Split(strings.SplitN(u, "//", 2)[1], "/")[0]] = true
		}
	}
}

// quiet fails if the page complained since the last call. Failed requests are expected while the
// daemon is away: then there must be some.
func (x *tab) quiet(t *testing.T, away bool) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.errors) > 0 {
		t.Errorf("the page complains: %q", x.errors)
	}
	if failed := len(x.network) > 0; failed != away {
		t.Errorf("failed requests: %q, while the daemon was away: %v", x.network, away)
	}
	x.errors, x.network = nil, nil
}

func openTab(t *testing.T) *tab {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			program = p
			break
		}
	}
	if program == "" {
		t.Fatal("there is no Chromium: make test-browser installs it")
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(),
		append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
			chromedp.UserDataDir(t.TempDir()), chromedp.DisableGPU,
			chromedp.Flag("disable-background-networking", true),
			chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	x := &tab{ctx: ctx, hosts: map[string]bool{}}
	check(t, chromedp.Listen(ctx, x.hear))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	check(t, err)
	_, err = chromedp.Call(ctx, cdpruntime.Enable, cdp.Empty{})
	check(t, err)
	_, err = chromedp.Call(ctx, cdplog.Enable, cdp.Empty{})
	check(t, err)
	return x
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// holds waits until an expression of the page is true.
func (x *tab) holds(t *testing.T, expression string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		ok, err := chromedp.Run(x.ctx, chromedp.Evaluate[bool](expression))
		check(t, err)
		if ok {
			return
		}
		if time.Now().After(end) {
			body, err := chromedp.Run(x.ctx, chromedp.Evaluate[string](`document.body.innerText`))
			check(t, err)
			t.Fatalf("does not come to hold: %s\n%s", expression, body)
		}
	}
}

// picture takes a screenshot of a width, at which nothing may run off to the side.
func (x *tab) picture(t *testing.T, name string, width int64, dark bool) {
	t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(x.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	check(t, err)
	var options []chromedp.EmulateViewportOption
	if width < 600 {
		options = append(options, chromedp.EmulateMobile)
	}
	check(t, chromedp.Do(x.ctx, chromedp.EmulateViewport(width, 900, options...)))
	x.holds(t, fmt.Sprintf(`window.innerWidth === %d &&
		document.documentElement.scrollWidth <= %[1]d`, width))
	// Charts are drawn anew for the width; their texts stay inside, and on none of the others.
	x.holds(t, `["rate", "latency", "whole"].every((id) => { const e = document.getElementById(id);
		return Math.abs(e.viewBox.baseVal.width - Math.max(e.clientWidth, 200)) < 1; })`)
	x.holds(t, `["rate", "latency", "whole", "links"].every((id) => {
		const e = document.getElementById(id), at = e.getBoundingClientRect();
		const all = [...e.querySelectorAll("text")].map((x) => x.getBoundingClientRect());
		return all.every((b, i) => b.left >= at.left - 1 && b.right <= at.right + 1 &&
			all.every((c, j) => j <= i || b.right < c.left || c.right < b.left ||
				b.bottom - 3 < c.top || c.bottom - 3 < b.top)); })`)
	png, err := chromedp.Run(x.ctx, chromedp.FullScreenshot(100))
	check(t, err)
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(pictures, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestLivePage in a real browser: what it shows, on a phone, without its daemon, and afterwards.
func TestLivePage(t *testing.T) {
	f := newFake()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	stop := serveOn(t, optionsFor(f), l)
	x := openTab(t)
	check(t, chromedp.Do(x.ctx, chromedp.Navigate("http://"+address+"/")))
	x.holds(t, `document.querySelectorAll("#nodes tr").length === 3`)
	x.holds(t, `document.querySelectorAll("#links [data-link].ok").length === 3`)
	x.holds(t, `document.querySelectorAll("#links [data-node]").length === 3`)
	for _, chart := range []string{"rate", "latency", "whole"} {
		for _, curve := range []string{"a", "b"} {
			x.holds(t, `Number(document.getElementById("`+chart+`").getAttribute("data-points-`+curve+
				`")) >= 3`)
		}
	}
	x.holds(t, `document.querySelector("#aborts [data-cause]") !== null`)
	// The other nodes, and what is for programs, are one step away.
	x.holds(t, `[...document.querySelectorAll("#nodes a")].map((e) => e.innerText + " " + e.href)
		.join(", ") === "lab-2 http://127.0.0.1:7442/, lab-3 http://127.0.0.1:7443/"`)
	x.holds(t, `["metrics", "status.json"].every((e) =>
		document.querySelector('header a[href="' + e + '"]') !== null)`)
	x.holds(t, `document.getElementById("run").innerText.includes("run 3")`)
	x.holds(t, `document.getElementById("bar").value > 0`)
	x.holds(t, `document.getElementById("events").innerText.includes("is a member of epoch 7")`)
	x.holds(t, `document.getElementById("plane").innerText.includes("150 k of 600 k entries")`)
	x.holds(t, `document.getElementById("nature").innerText.includes("measured")`)
	x.holds(t, `document.getElementById("state").textContent.includes("node 2 running; run 3 meas")`)
	// Screen readers: tables have heads, sections names, and nothing is spoken each second.
	x.holds(t, `[...document.querySelectorAll("table")].every((e) =>
		e.querySelector("thead th[scope=col]") && e.querySelector("tbody th[scope=row]"))`)
	x.holds(t, `[...document.querySelectorAll("section, [role=region]")].every((e) =>
		document.getElementById(e.getAttribute("aria-labelledby")).innerText !== "")`)
	x.picture(t, "desktop", 1280, false)
	x.picture(t, "dark", 1280, true)
	// A selection outlives what is drawn anew each second.
	x.holds(t, `getSelection().selectAllChildren(document.querySelector("#nodes b")),
		window.drawn = document.getElementById("summary").textContent, true`)
	x.holds(t, `document.getElementById("summary").textContent !== drawn`)
	x.holds(t, `getSelection().toString() === "0"`)

	// A node is lost, another refuses: in words and signs, not in colour alone; and what they say
	// stays text, however long.
	long := strings.Repeat("a-very-long-name.", 9)
	f.change(func() {
		f.status.Problem = "node 2 (lab-3) is gone: " + long
		n := &f.status.Nodes[2]
		n.Phase, n.Reason, n.Load = status.Gone, `<img src=x onerror="document.title='hacked'">`, nil
		n.LeaseLeft = 0
		n = &f.status.Nodes[1]
		n.Member.Name, n.Phase, n.Reason, n.Load = long, status.Refusing, "its lease ended: "+long, nil
		n.Degraded = []string{"records are locked by node 2: " + long}
		n.Events = append(n.Events, status.Event{Time: time.Now().UTC(), Level: status.Error,
			Text: "lost the registry: " + long})
		f.status.Nodes[0].Links[1].State = "error"
	})
	x.holds(t, `document.getElementById("problem").innerText.includes("lab-3")`)
	x.holds(t, `document.title.startsWith("⚠ ")`)
	x.holds(t, `document.getElementById("nodes").innerText.includes("✖ gone")`)
	x.holds(t, `document.getElementById("nodes").innerText.includes("✖ refusing: its lease")`)
	x.holds(t, `document.querySelectorAll("#links [data-link].bad").length >= 1`)
	x.holds(t, `document.getElementById("linktext").innerText.includes("dashed")`)
	x.holds(t, `document.getElementById("state").textContent.includes("node 1 refusing, node 2 gone")`)
	x.holds(t, `document.getElementById("nodes").innerText.includes("<img src=x") &&
		document.title.includes("drtmd lab")`)
	x.picture(t, "trouble", 1280, false)
	x.picture(t, "phone", 390, false)
	x.picture(t, "phone-dark", 360, true)

	// Nothing runs, and nothing did.
	f.change(func() {
		f.metrics = nil
		for i := range f.status.Nodes {
			f.status.Nodes[i].Load = nil
		}
	})
	x.holds(t, `document.getElementById("run").innerText === "none under way"`)
	x.holds(t, `document.getElementById("bar").hidden`)
	x.quiet(t, false)

	// The daemon ends, and comes back: the page says since when it is old, and goes on by itself.
	stop()
	x.holds(t, `!document.getElementById("offline").hidden`)
	x.holds(t, `(() => { const said = document.getElementById("summary").innerText;
		return document.getElementById("why").innerText.includes("no connection") &&
			document.getElementById("why").innerText.includes(said.match(/[0-9:]{8} UTC/)[0]); })()`)
	x.holds(t, `document.getElementById("ago").innerText.match(/[1-9][0-9]* s ago/) !== null`)
	x.holds(t, `document.title.startsWith("✖ ") &&
		document.getElementById("main").classList.contains("stale")`)
	x.holds(t, `window.old = document.getElementById("summary").innerText, true`)
	x.picture(t, "offline", 1280, false)
	x.quiet(t, true)
	if l, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	serveOn(t, optionsFor(f), l)
	x.holds(t, `document.getElementById("offline").hidden &&
		!document.getElementById("main").classList.contains("stale") &&
		document.title.startsWith("⚠ ") && document.getElementById("summary").innerText !== old`)
	x.mu.Lock()
	x.network = nil // requests until it was back
	x.mu.Unlock()
	x.holds(t, `window.old = document.getElementById("summary").innerText, true`)
	x.holds(t, `document.getElementById("summary").innerText !== old`)
	x.quiet(t, false)
	for h := range x.hosts {
		if h != address {
			t.Errorf("the page asks %s", h)
		}
	}
}
