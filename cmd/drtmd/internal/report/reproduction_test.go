package report

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// paperSystem has an item of each state.
func paperSystem() PaperSystem {
	return PaperSystem{Name: "toy", Title: "Toy", Paper: "Somebody, A Toy, 2026", Items: []PaperItem{
		{Name: "toy/table-6", Label: "Table VI", Title: "READs per look-up", Kind: "exact",
			State: "done"},
		{Name: "toy/figure-3", Label: "Figure 3", Title: "READs by payload", Kind: KindModelled,
			State: "done", Note: "TCP is not modelled"},
		{Name: "toy/figure-4", Label: "Figure 4", Title: "architecture", Kind: "not reproducible here",
			State: "never", Note: "a drawing"},
		{Name: "toy/figure-9", Label: "Figure 9", Title: "TPC-C", Kind: KindMeasured, State: "waits",
			WaitsFor: "tpcc"}}}
}

// fixedReproduction has a row of each verdict, one of several seeds, and charts with either axis.
func fixedReproduction() *Reproduction {
	s, v := paperSystem(), 1.347
	return &Reproduction{Date: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC),
		Machine: fixedRun().Machine,
		Command: []string{"reproduce", "toy", "--report", "my folder"}, Seeds: 2, Items: []Reproduced{
			{PaperItem: s.Items[0], Conditions: "1000 slots, means over seeds 1 to 2", Rows: []ComparedRow{
				{What: "cuckoo", Unit: "READs", Section: "Table VI", Paper: "1.348", Ours: "1.347",
					OursValue: &v, Range: "1.346 to 1.348", Deviation: "-0.001", Bound: "0.003",
					Reading: "three hashes"},
				{What: "cluster", Section: "§6.4", Paper: "0.178", Ours: "0.190", Deviation: "+0.012",
					Bound: "0.002", Exceeds: true, Reading: "cold cache", Fitted: true},
				{What: "own", Ours: "0.634", Reading: "three hashes"}}},
			{PaperItem: s.Items[1], Conditions: "preset cx3-56g", Rows: []ComparedRow{
				{What: "READs of 8 B", Unit: "M/s", Section: "§6.4", Paper: "26.3", Ours: "26.30",
					Deviation: "+0.0 %", Bound: "1 %"}},
				Charts: []Chart{{Title: "(a) throughput", X: "payload [B]", Y: "READs [M/s]", LogX: true,
					LogY: true, Curves: []ChartCurve{
						{Name: "READ", Points: [][2]float64{{8, 26.3}, {2048, 2.08}, {8192, 0.52}}},
						{Name: "paper", Paper: true, Points: [][2]float64{{8, 26.3}}}}},
					{Title: "(b) latency", X: "payload [B]", Y: "latency [us]", Curves: []ChartCurve{
						{Name: "READ", Points: [][2]float64{{0, 2}, {8192, 5}}}}}}}}}
}

func TestReproductionPageHasRowsChartsAndTheList(t *testing.T) {
	r, s := fixedReproduction(), paperSystem()
	d := parsed(t, func(w io.Writer) error { return r.WriteHTML(w, &s) })
	d.selfContained(t)
	for _, c := range []struct{ id, begins, want string }{
		{"table-6", "cuckoo", "cuckoo [READs] 1.348 1.347 1.346 to 1.348 -0.001 0.003 ok [1]"},
		{"table-6", "cluster, §6.4", "cluster, §6.4 0.178 0.190 +0.012 0.002 exceeds [2]"},
		{"table-6", "own", "own - 0.634 - - [1]"},
		{"table-6", "[2]", "[2] fitted, the paper does not state it: cold cache"},
		{"figure-3", "READs of 8 B", "READs of 8 B [M/s], §6.4 26.3 26.30 m +0.0 % 1 % ok"},
		{"figure-3-a", "paper", "paper 8 26.3"},
		{"figure-3-a", "READ", "READ 8 26.3 m"},
		{"list", "toy/figure-4", "toy/figure-4 not reproducible here - architecture; a drawing"},
		{"list", "toy/figure-9", "toy/figure-9 measured waits for tpcc TPC-C"},
	} {
		if got := d.row(t, c.id, c.begins); got != c.want {
			t.Errorf("%s: %q, want %q", c.id, got, c.want)
		}
	}
	all := textOf(d.root)
	for _, want := range []string{"exceeds Table VI, cluster, §6.4: paper 0.178, ours 0.190",
		"drtmd reproduce toy/table-6 --seeds 2", "drtmd reproduce toy --report 'my folder'",
		"modelled: preset cx3-56g", "not here: TCP is not modelled", "A number with m is modelled"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(all, "without a mark are measured") {
		t.Error("a page of nothing measured says that its numbers are")
	}
	plots := d.elements("svg")
	if len(plots) != 2 {
		t.Fatalf("%d plots", len(plots))
	}
	want := "(a) throughput: READs [M/s] by payload [B]. READ: 26.3 at 8, 2.08 at 2.048k, " +
		"0.52 at 8.192k, paper: 26.3 at 8."
	if got := attr(plots[0], "aria-label"); got != want {
		t.Errorf("a plot says %q, want %q", got, want)
	}
	for _, label := range []string{"payload [B]", "READs [M/s]", "paper", "10", "100"} {
		if !strings.Contains(textOf(plots[0]), label) {
			t.Errorf("the plot has no %q: %s", label, textOf(plots[0]))
		}
	}
}

func TestReproductionPagesAreOfWhatWasRun(t *testing.T) {
	r, dir := fixedReproduction(), t.TempDir()
	other := PaperSystem{Name: "other", Title: "Other"}
	files, err := r.WritePages(dir, []PaperSystem{other, paperSystem()})
	if want := []string{filepath.Join(dir, "toy.html")}; err != nil || !slices.Equal(files, want) {
		t.Errorf("wrote %q, %v, want %q", files, err, want)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(files[0], 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := r.WritePages(dir, []PaperSystem{paperSystem()}); err == nil {
		t.Error("a page took the place of a folder")
	}
}

func TestReproductionText(t *testing.T) {
	r := fixedReproduction()
	var b bytes.Buffer
	for i := range r.Items {
		if err := r.Items[i].WriteText(&b); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.WriteSummary(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"toy/table-6  Table VI: READs per look-up\n",
		"\n  exact: 1000 slots, means over seeds 1 to 2; took 0s\n",
		"  cuckoo [READs]  1.348  1.347  1.346 to 1.348     -0.001  0.003  ok       [1]\n",
		"  cluster, §6.4   0.178  0.190                     +0.012  0.002  exceeds  [2]\n",
		"  [1] three hashes\n  [2] fitted, the paper does not state it: cold cache\n",
		"  not here: TCP is not modelled\n",
		"EXCEEDS its bound: toy/table-6, cluster, §6.4: paper 0.178, ours 0.190, deviation +0.012, " +
			"bound 0.002\n",
		"2 items, 4 rows, 3 with a bound, 1 over it\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "wall-clock") {
		t.Error("nothing was measured")
	}
	r.Items[0].Kind, r.Interrupted = KindMeasured, true
	b.Reset()
	if err := r.WriteSummary(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ratios of wall-clock times on Test CPU", "interrupted: items are missing"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestReproductionJSONIsWhole(t *testing.T) {
	r := fixedReproduction()
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var back Reproduction
	if err := json.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(*r, back); d != "" || back.Schema != ReproduceSchema {
		t.Errorf("schema %s, %s", back.Schema, d)
	}
}
