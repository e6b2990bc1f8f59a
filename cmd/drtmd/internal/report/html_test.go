package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/proto"
	"drtmd/proto/check"
)

// document is a parsed page.
type document struct {
	root *html.Node
	all  []*html.Node
	size int
}

func parsed(t *testing.T, write func(io.Writer) error) *document {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	d := &document{size: b.Len()}
	var err error
	if d.root, err = html.Parse(&b); err != nil {
		t.Fatal(err)
	}
	for n := range d.root.Descendants() {
		d.all = append(d.all, n)
	}
	return d
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// text of a node, spaces as one.
func textOf(n *html.Node) string {
	var s strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode && c.Parent.Data != "style" {
			s.WriteString(c.Data + " ")
		}
	}
	return strings.Join(strings.Fields(s.String()), " ")
}

func (d *document) elements(name string) []*html.Node {
	var found []*html.Node
	for _, n := range d.all {
		if n.Type == html.ElementNode && n.Data == name {
			found = append(found, n)
		}
	}
	return found
}

// row of a section's table that begins with a word.
func (d *document) row(t *testing.T, id, begins string) string {
	t.Helper()
	for _, s := range d.elements("section") {
		if attr(s, "id") != id {
			continue
		}
		for n := range s.Descendants() {
			if n.Data == "tr" && strings.HasPrefix(textOf(n), begins+" ") {
				return textOf(n)
			}
		}
	}
	t.Errorf("section %s has no row %s", id, begins)
	return ""
}

// selfContained fails if a page needs a script or anything from elsewhere.
func (d *document) selfContained(t *testing.T) {
	t.Helper()
	for _, n := range d.all {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "script", "link", "img", "iframe", "object", "embed", "image", "use", "a", "base":
			t.Errorf("there is a %s", n.Data)
		}
		for _, a := range n.Attr {
			switch {
			case a.Key == "xmlns" || strings.HasPrefix(a.Key, "xmlns:"):
			case a.Key == "src" || a.Key == "href" || strings.HasPrefix(a.Key, "on"),
				strings.Contains(a.Val, "://"), strings.Contains(a.Val, "url("):
				t.Errorf("%s has %s=%q", n.Data, a.Key, a.Val)
			}
		}
	}
	for _, s := range d.elements("style") {
		if css := s.FirstChild.Data; strings.Contains(css, "url(") || strings.Contains(css, "@import") {
			t.Error("the style refers to something")
		}
	}
}

func TestPageHasTheNumbersOfTheJSON(t *testing.T) {
	b := saved(t, fixedRun()).Bench
	d := parsed(t, b.WriteHTML)
	d.selfContained(t)
	for _, c := range []struct{ id, begins, want string }{
		{"latency", "50 %", fmt.Sprintf("50 %% (p50) %.2f", float64(b.All.Latency.P50Ns)/1e3)},
		{"latency", "99.9 %", "99.9 % (p99.9) 31.00"},
		{"latency", "mean", "mean 2.50"},
		{"aborts", "locked", "locked 30 0.0075 75.0 %"},
		{"types", "balance", "balance 2000 2.00 4.00 9.00 31.00 1000 0 0.0100 0 0"},
		{"throughput", "1s", "1s 1s 1900 0.0104"},
		{"throughput", "0s", "0s (warm-up) 1s 1000 0.0099"},
		{"verbs", "RDMA_READ", "RDMA_READ 2000 0.500"},
		{"verbs", "payload", "payload 12.5 B"},
		{"configuration", "seed", "seed 7"},
		{"environment", "CPU governor", "CPU governor performance"},
		{"environment", "load average", "load average of a minute, when the run began 0.25"},
		{"nature", "verbs", "verbs emulated carried out by the initiator's CPU on shared memory: " +
			"there is no network, and latencies say nothing about one"},
	} {
		if got := d.row(t, c.id, c.begins); got != c.want {
			t.Errorf("%s: %q, want %q", c.id, got, c.want)
		}
	}
	all := textOf(d.root)
	for _, want := range []string{"committed/s 2000", "drtmd bench --report 'my folder'",
		"the history was not recorded", "sums conserved: yes", "Test CPU"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(all, "modelled: it follows") {
		t.Error("a measured run is called modelled")
	}
	if d.size > 500_000 {
		t.Errorf("%d bytes", d.size)
	}
}

func TestPlotsSayTheirNumbersInWords(t *testing.T) {
	plots := parsed(t, fixedRun().WriteHTML).elements("svg")
	if len(plots) != 3 {
		t.Fatalf("%d plots", len(plots))
	}
	for i, want := range []string{"2000 on average, 1900 to 2100", "half within 2.00 us, 90 % 4.00",
		"locked: 0.0075. smallbank, leased: 0.0025"} {
		if label := attr(plots[i], "aria-label"); !strings.Contains(label, want) ||
			attr(plots[i], "role") != "img" {
			t.Errorf("plot %d: %q", i, label)
		}
		if textOf(plots[i]) == "" {
			t.Errorf("plot %d has no text", i)
		}
	}
}

func TestPlotsSayWhatTheirNumbersAre(t *testing.T) {
	ibv := fixedRun()
	ibv.Transport, ibv.Device = "ibv", "mlx5_0"
	for want, b := range map[string]*Bench{
		"Measured in real time; verbs emulated on shared memory.": fixedRun(),
		"Measured in real time, transport ibv, device mlx5_0.":    ibv,
		"Modelled in virtual time, cost model cx5-100g.":          fixedModel()} {
		d := parsed(t, b.WriteHTML)
		all := d.elements("figcaption")
		for _, n := range all {
			if textOf(n) != want {
				t.Errorf("a plot says %q, want %q", textOf(n), want)
			}
		}
		measured := strings.Contains(textOf(d.root), "without a mark are measured")
		if len(all) != 3 || measured == b.Virtual {
			t.Errorf("%d plots say what they are, and the page says measured: %v", len(all), measured)
		}
	}
	d := parsed(t, NewCompare([]*Read{saved(t, fixedRun()), saved(t, ibv)}, 0).WriteHTML)
	if s := textOf(d.elements("figcaption")[0]); s != "A: Measured in real time; verbs emulated on "+
		"shared memory. B: Measured in real time, transport ibv, device mlx5_0." {
		t.Errorf("a plot of two transports says %q", s)
	}
}

func TestFewAbortsAreNotCalledNone(t *testing.T) {
	b := fixedRun()
	b.All.Committed, b.All.Aborts = 10_000_000, []AbortRow{{"locked", 9}}
	b.Paths.Fallback = 2e-6
	var text bytes.Buffer
	if err := b.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	page := textOf(parsed(t, b.WriteHTML).root)
	for _, want := range []string{"aborts/commit 9.00e-07", "fallbacks per attempt 2.00e-06"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, want := range []string{"locked 9.00e-07", "2.00e-06 on the fallback path"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text does not say %q", want)
		}
	}
}

func TestRecordsThatStayLockedAreNamed(t *testing.T) {
	b := fixedRun()
	b.Orphans = &load.Orphans{Count: 40}
	for k := range proto.Key(20) {
		b.Orphans.List = append(b.Orphans.List, load.Orphan{Node: 1, Table: "savings", Key: k, Owner: 2})
	}
	var text, json bytes.Buffer
	if err := errors.Join(b.WriteText(&text), b.WriteJSON(&json)); err != nil {
		t.Fatal(err)
	}
	page := textOf(parsed(t, b.WriteHTML).root)
	for _, want := range []string{"records that stay locked: 40", "and 32 more",
		"node 1, table savings, key 0, locked by node 2"} {
		if !strings.Contains(page, want) || !strings.Contains(text.String(), want) {
			t.Errorf("page or text do not say %q:\n%s", want, text.String())
		}
	}
	if want := `"orphans": {
    "count": 40,`; !strings.Contains(json.String(), want) {
		t.Errorf("the JSON does not have %s", want)
	}
}

func TestModelledNumbersSaySoBesideEach(t *testing.T) {
	d := parsed(t, fixedModel().WriteHTML)
	cells := 0
	for _, n := range d.elements("td") {
		if attr(n, "class") != "n" || textOf(n) == "" {
			continue
		}
		if cells++; !strings.HasSuffix(textOf(n), " m") {
			t.Errorf("number %q is not marked", textOf(n))
		}
	}
	if cells < 20 {
		t.Errorf("%d numbers", cells)
	}
	for _, p := range d.elements("svg") {
		if !strings.Contains(attr(p, "aria-label"), "modelled") || !strings.Contains(textOf(p),
			"modelled") {
			t.Errorf("plot %q does not say modelled", attr(p, "aria-label"))
		}
	}
	if s := textOf(d.root); !strings.Contains(s, "strictly serializable: yes (4000 transactions)") {
		t.Error("no verdict")
	}
}

func TestPageOfUnusualRuns(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b *Bench)
		says   []string
		plots  int
	}{
		{"no series", func(b *Bench) { b.Series = nil }, []string{"The run has no series."}, 2},
		{"one point", func(b *Bench) {
			b.Series, b.Quantiles = b.Series[1:2], b.Quantiles[1:2]
		}, nil, 3},
		{"one quantile of no time", func(b *Bench) { b.Quantiles = []load.Quantile{{P: 1}} }, nil, 3},
		{"points without time", func(b *Bench) {
			b.Series = []load.Point{{At: 0, Span: 0}, {At: 0, Span: 0}}
		}, []string{"The run has no series."}, 2},
		{"nothing committed", func(b *Bench) {
			*b = Bench{Workload: "micro", Protocol: "drtm", Transport: "shm", Conserved: "yes",
				Series: []load.Point{{At: time.Second, Span: time.Second}}}
			b.All.Aborts = []AbortRow{{"locked", 5}}
		}, []string{"No latency was measured.", "committed/s 0"}, 2},
		{"interrupted", func(b *Bench) { b.Interrupted = true },
			[]string{"shorter than was asked for"}, 3},
		{"lost", func(b *Bench) { b.Lost = "node 2 is gone"; b.Conserved = "unknown: node 2 is gone" },
			[]string{"lost node 2 is gone", "what the lost nodes recorded is gone"}, 3},
		{"violated", func(b *Bench) {
			b.Check = &check.Result{Verdict: check.Violated, Checked: 9,
				Violations: []check.Violation{{Text: "T1 must come before T2"}}}
		}, []string{"strictly serializable: NO (9 transactions)", "T1 must come before T2"}, 3},
		{"bug", func(b *Bench) { b.Mutation = "no-locks" }, []string{"no-locks was switched on"}, 3},
		{"busy", func(b *Bench) { *b.Environment.LoadAverage = 3 }, []string{"load average 3.00"}, 3},
		{"device", func(b *Bench) { b.Transport, b.Device = "ibv", "rxe0" },
			[]string{"carried out by device rxe0"}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := fixedRun()
			c.change(b)
			d := parsed(t, b.WriteHTML)
			d.selfContained(t)
			for _, want := range c.says {
				if !strings.Contains(textOf(d.root), want) {
					t.Errorf("no %q", want)
				}
			}
			if n := len(d.elements("svg")); n != c.plots {
				t.Errorf("%d plots, want %d", n, c.plots)
			}
			if bad := regexp.MustCompile(`NaN|[+-]Inf`).FindString(textOf(d.root)); bad != "" {
				t.Errorf("there is a %s", bad)
			}
		})
	}
}

func TestPageEscapesWhatItShows(t *testing.T) {
	const evil = `<script>alert(1)</script>"'><img src=x onerror=alert(2)>`
	b := fixedRun()
	b.Workload, b.Settings, b.Protocol, b.Mutation = evil, evil, evil, evil
	b.Device, b.Conserved = evil, evil
	b.Lost, b.Command, b.Machine.CPU, b.AtomicScope = evil, []string{evil}, evil, evil
	b.Kinds[0].Name = evil
	b.All.Aborts = []AbortRow{{evil, 3}}
	b.Verbs[0].Opcode = evil
	b.Environment.Governor = evil
	d := parsed(t, b.WriteHTML)
	d.selfContained(t)
	if !strings.Contains(textOf(d.root), "<script>alert(1)</script>") {
		t.Error("the text is gone")
	}
	r := saved(t, b)
	r.File = evil
	parsed(t, NewCompare([]*Read{r, saved(t, fixedRun())}, 0).WriteHTML).selfContained(t)
}

func TestFolderIsWrittenWhole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := PrepareFolder(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second replaces the first
		if err := errors.Join(PrepareFolder(dir), fixedRun().WriteFolder(dir)); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "mine report.html report.json" {
		t.Errorf("the folder has %s", got)
	}
	name := filepath.Join(dir, HTMLFile)
	broken := errors.New("broken")
	before, _ := os.ReadFile(name)
	if err := Replace(name, func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, broken)
	}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if after, _ := os.ReadFile(name); !bytes.Equal(before, after) {
		t.Error("a broken report replaced a whole one")
	}
}

func TestFolderThatCannotBeWrittenIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, HTMLFile), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{file, filepath.Join(file, "below"), dir, "/proc/none"} {
		if err := PrepareFolder(d); err == nil {
			t.Errorf("%s is taken", d)
		}
	}
}
