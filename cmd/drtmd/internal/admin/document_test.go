package admin

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write the table of docs/METRICS.md anew")

// docs is the folder of documents.
var docs = filepath.Join("..", "..", "..", "..", "docs")

// metricTable is the table of docs/METRICS.md.
func metricTable() string {
	var b strings.Builder
	b.WriteString("| metric | kind | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, s := range append(specs(), latencySpec()) {
		kind := map[prometheus.ValueType]string{counter: "counter", gauge: "gauge"}[s.kind]
		if kind == "" {
			kind = "histogram"
		}
		fmt.Fprintf(&b, "| `%s%s` | %s | %s | %s |\n", prefix, s.name, kind,
			strings.Join(s.labels, ", "), s.help)
	}
	return b.String()
}

func TestDocumentListsTheMetrics(t *testing.T) {
	name := filepath.Join(docs, "METRICS.md")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- table -->\n", "<!-- end of table -->\n"
	head, rest, ok := strings.Cut(string(b), begin)
	have, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no %q and %q", name, begin, end)
	}
	if want := metricTable(); have != want {
		if *update {
			text := head + begin + want + end + tail
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("%s is not what is sent: go test ./cmd/drtmd/internal/admin -run Document -update",
			name)
	}
}

// nameOf finds names of metrics in an expression: identifiers with the prefixes that are sent.
var nameOf = regexp.MustCompile(`\b(?:drtmd|go|process)_[a-z0-9_]+`)

// sentNames are the names that series of a scrape have.
func sentNames(t *testing.T) map[string][]string {
	names := map[string][]string{}
	for name, x := range gather(t, newFake()) {
		labels := []string{"job", "instance", "le"}
		for _, l := range x.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		names[name] = labels
		if x.GetMetric()[0].GetHistogram() != nil {
			delete(names, name)
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[name+suffix] = labels
			}
		}
	}
	return names
}

// dashboard is what this test reads of one.
type dashboard struct {
	Title  string
	UID    string
	Panels []panel
}

type panel struct {
	ID      int
	Type    string
	Title   string
	Targets []struct{ Expr, LegendFormat string }
	GridPos struct{ X, Y, W, H int }
}

// Every expression of the dashboard, and every label that a legend or a grouping names.
func TestDashboardUsesMetricsThatExist(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(docs, "grafana", "drtmd.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" {
		t.Error("no title or no uid")
	}
	sent, ids, queried := sentNames(t), map[int]bool{}, 0
	grouped := regexp.MustCompile(`\b(?:by|without) ?\(([^)]*)\)`)
	legend := regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s: id %d or place %+v", p.Title, p.ID, p.GridPos)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			names := nameOf.FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("%s: no metric in %q", p.Title, target.Expr)
			}
			labels := map[string]bool{}
			for _, n := range names {
				queried++
				if sent[n] == nil {
					t.Errorf("%s: no metric %s", p.Title, n)
				}
				for _, l := range sent[n] {
					labels[l] = true
				}
			}
			var used []string
			for _, m := range grouped.FindAllStringSubmatch(target.Expr, -1) {
				used = append(used, strings.Split(m[1], ",")...)
			}
			for _, m := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				used = append(used, m[1])
			}
			for _, l := range used {
				if l = strings.TrimSpace(l); !labels[l] {
					t.Errorf("%s: no label %s in %q", p.Title, l, target.Expr)
				}
			}
		}
	}
	if queried < 20 {
		t.Errorf("only %d metrics are asked for", queried)
	}
}
