//go:build browser

package reproduce

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"drtmd/cmd/drtmd/internal/report"
)

// pictures is where screenshots go, for people to look at.
const pictures = "../../../../.cache/browser"

// TestPaperPageInABrowser opens the page of a quick run as a file, on a wide screen and on a phone:
// it asks for nothing, complains of nothing, and nothing runs off to the side.
func TestPaperPageInABrowser(t *testing.T) {
	file := writePaperPage(t)
	ctx := openBrowser(t)
	var mu sync.Mutex // guards what follows
	var complaints, asked []string
	must(t, chromedp.Listen(ctx, func(e any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := e.(type) {
		case *cdplog.EventEntryAdded:
			complaints = append(complaints, e.Entry.Text)
		case *network.EventRequestWillBeSent:
			asked = append(asked, e.Request.URL)
		}
	}))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	must(t, err)
	_, err = chromedp.Call(ctx, cdplog.Enable, cdp.Empty{})
	must(t, err)
	for _, width := range []int64{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			must(t, err)
			var options []chromedp.EmulateViewportOption
			if width < 600 {
				options = append(options, chromedp.EmulateMobile)
			}
			must(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, 900, options...)))
			must(t, chromedp.Do(ctx, chromedp.Navigate("file://"+file)))
			holds(t, ctx, fmt.Sprintf(`window.innerWidth === %d &&
				document.documentElement.scrollWidth <= %[1]d`, width))
			// Plots are as wide as the column, and their texts stay inside and can be read.
			const outside = `[...document.querySelectorAll("figure svg")].flatMap((e) => {
				const at = e.getBoundingClientRect();
				if (at.width < 300 || at.right > window.innerWidth) return ["a plot of " + at.width];
				return [...e.querySelectorAll("text")].filter((x) => {
					const b = x.getBoundingClientRect();
					return b.left < at.left - 4 || b.right > at.right + 1 || b.height < 6;
				}).map((x) => x.textContent); }).join(", ")`
			found, err := chromedp.Run(ctx, chromedp.Evaluate[string](outside))
			must(t, err)
			if found != "" {
				t.Errorf("at %d pixels, outside or too small: %s", width, found)
			}
			holds(t, ctx, `document.querySelectorAll("figure svg").length >= 4 &&
				document.body.innerText.includes("no deviation exceeds its bound")`)
			png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
			must(t, err)
			must(t, os.MkdirAll(pictures, 0o755))
			name := fmt.Sprintf("paper-%d-%s.png", width, scheme)
			must(t, os.WriteFile(filepath.Join(pictures, name), png, 0o644))
		}
	}
	mu.Lock()
	defer mu.Unlock()
	asked = slices.DeleteFunc(asked, func(u string) bool { return u == "file://"+file })
	if len(complaints) > 0 || len(asked) > 0 {
		t.Errorf("the page complains %q and asks for %q", complaints, asked)
	}
}

// writePaperPage runs the items that take no time, and writes their page.
func writePaperPage(t *testing.T) string {
	t.Helper()
	r := report.Reproduction{Machine: report.ThisMachine(), Seeds: QuickSeeds, Quick: true,
		Command: strings.Fields("reproduce drtm --quick")}
	for _, name := range []string{"table-3", "table-4", "table-6", "table-7", "figure-2", "figure-3"} {
		r.Items = append(r.Items, runQuick(t, drtmName+"/"+name))
	}
	s := drtm()
	list := s.List()
	file := filepath.Join(t.TempDir(), "drtm.html")
	must(t, report.Replace(file, func(w io.Writer) error { return r.WriteHTML(w, &list) }))
	return file
}

func openBrowser(t *testing.T) context.Context {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		p, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		ctx, cancel := chromedp.NewExecAllocator(context.Background(),
			append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(p), chromedp.NoSandbox,
				chromedp.UserDataDir(t.TempDir()), chromedp.DisableGPU)...)
		t.Cleanup(cancel)
		ctx, cancel = chromedp.NewContext(ctx)
		t.Cleanup(cancel)
		return ctx
	}
	t.Fatal("there is no Chromium: make test-browser installs it")
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// holds fails if an expression of the page is not true.
func holds(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
	must(t, err)
	if !ok {
		t.Errorf("does not hold: %s", expression)
	}
}
