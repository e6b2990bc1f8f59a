//go:build browser

package admin

import (
	"context"
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

	mu     sync.Mutex
	errors []string
	hosts  map[string]bool
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
	err := chromedp.Listen(ctx, func(e any) {
		x.mu.Lock()
		defer x.mu.Unlock()
		switch e := e.(type) {
		case *cdpruntime.EventExceptionThrown:
			x.errors = append(x.errors, e.ExceptionDetails.Text)
		case *cdplog.EventEntryAdded:
			x.errors = append(x.errors, e.Entry.Text)
		case *network.EventRequestWillBeSent:
			if u := e.Request.URL; !strings.HasPrefix(u, "data:") {
				x.hosts[strings.Split(strings.SplitN(u, "//", 2)[1], "/")[0]] = true
			}
		}
	})
	check(t, err)
	_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
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

// picture takes a screenshot of a width.
func (x *tab) picture(t *testing.T, name string, width int64, dark bool) {
	t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(x.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	check(t, err)
	check(t, chromedp.Do(x.ctx, chromedp.EmulateViewport(width, 900)))
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
	for _, chart := range []string{"rate", "latency"} {
		for _, curve := range []string{"a", "b"} {
			x.holds(t, `Number(document.getElementById("`+chart+`").getAttribute("data-points-`+curve+
				`")) >= 3`)
		}
	}
	x.holds(t, `document.querySelector("#aborts [data-cause]") !== null`)
	x.holds(t, `document.getElementById("run").innerText.includes("run 3")`)
	x.holds(t, `document.getElementById("bar").value > 0`)
	x.holds(t, `document.getElementById("events").innerText.includes("is a member of epoch 7")`)
	x.picture(t, "desktop", 1200, false)
	x.picture(t, "dark", 1200, true)

	// A node is lost: in words and signs, not in colour alone; and what it says stays text.
	f.change(func() {
		f.status.Problem = "node 2 (lab-3) is gone"
		n := &f.status.Nodes[2]
		n.Phase, n.Reason, n.Load = status.Gone, `<img src=x onerror="document.title='hacked'">`, nil
		f.status.Nodes[0].Links[1].State = "error"
	})
	x.holds(t, `document.getElementById("problem").innerText.includes("lab-3")`)
	x.holds(t, `document.getElementById("nodes").innerText.includes("✖ gone")`)
	x.holds(t, `document.querySelectorAll("#links [data-link].bad").length >= 1`)
	x.holds(t, `document.getElementById("nodes").innerText.includes("<img src=x") &&
		document.title !== "hacked"`)
	check(t, chromedp.Do(x.ctx, chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile)))
	x.holds(t, `window.innerWidth === 360 && document.documentElement.scrollWidth <= 360`)
	x.picture(t, "phone", 360, false)

	x.mu.Lock()
	if len(x.errors) > 0 {
		t.Errorf("the page complains: %q", x.errors)
	}
	for h := range x.hosts {
		if h != address {
			t.Errorf("the page asks %s", h)
		}
	}
	x.mu.Unlock()

	// The daemon ends, and comes back.
	stop()
	x.holds(t, `!document.getElementById("offline").hidden`)
	x.picture(t, "offline", 1200, false)
	if l, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	serveOn(t, optionsFor(f), l)
	x.holds(t, `document.getElementById("offline").hidden`)
}
