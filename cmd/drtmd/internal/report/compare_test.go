package report

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCompareGolden(t *testing.T) {
	fast := fixedRun()
	fast.Protocol, fast.All.PerSecond, fast.Seed = "twopl", 3000, 8
	fast.All.Aborts = []AbortRow{{"locked", 60}, {"validation", 4}}
	c := NewCompare([]*Read{saved(t, fixedRun()), saved(t, fast)}, 0)
	var text, json bytes.Buffer
	if err := errors.Join(c.WriteText(&text), c.WriteJSON(&json)); err != nil {
		t.Fatal(err)
	}
	golden(t, "compare.txt", text.Bytes())
	golden(t, "compare.json", json.Bytes())
	d := parsed(t, c.WriteHTML)
	d.selfContained(t)
	for _, want := range []struct{ id, begins, row string }{
		{"throughput", "committed 1/s", "committed 1/s 2000 3000 1.5x"},
		{"aborts", "aborts: locked", "aborts: locked per commit 0.0075 0.0150 2x"},
		{"aborts", "aborts: leased", "aborts: leased per commit 0.0025 0.0000 0x"},
		{"aborts", "aborts: validation", "aborts: validation per commit 0.0000 0.0010 -"},
		{"settings", "protocol", "protocol drtm twopl"},
	} {
		if got := d.row(t, want.id, want.begins); got != want.row {
			t.Errorf("%s: %q, want %q", want.id, got, want.row)
		}
	}
}

// metric by its name.
func (c *Compare) metric(t *testing.T, name string) *Metric {
	t.Helper()
	for i := range c.Metrics {
		if c.Metrics[i].Name == name {
			return &c.Metrics[i]
		}
	}
	t.Fatalf("no metric %s", name)
	return nil
}

func TestCompareKeepsMeasuredAndModelledApart(t *testing.T) {
	c := NewCompare([]*Read{saved(t, fixedRun()), saved(t, fixedModel()), saved(t, fixedRun())}, 0)
	m := c.metric(t, "committed")
	if m.Ratios[1] != nil || m.Ratios[2] == nil || *m.Ratios[2] != 1 {
		t.Errorf("ratios of committed/s: %v", m.Ratios)
	}
	if c.metric(t, "verbs: RDMA_READ").Ratios[1] == nil {
		t.Error("counts have no ratio")
	}
	if len(c.Warnings) == 0 || !strings.Contains(c.Warnings[0], "virtual time and some real time") {
		t.Errorf("warnings %q", c.Warnings)
	}
	d := parsed(t, c.WriteHTML)
	for _, table := range d.elements("table") {
		for n := range table.Descendants() {
			if n.Data == "thead" && strings.Contains(textOf(n), "A ") && strings.Contains(textOf(n),
				"B (modelled)") && !strings.HasPrefix(textOf(n), "run") {
				t.Errorf("one table has both: %s", textOf(n))
			}
		}
	}
	if n := len(d.elements("svg")); n != 6 {
		t.Errorf("%d plots, want 3 for each kind of time", n)
	}
}

func TestCompareLeavesOutWhatOnlyTheOtherKindOfTimeHas(t *testing.T) {
	modelled := fixedModel()
	modelled.Kinds[0].Name, modelled.Verbs[0].Opcode = "only-modelled", "ONLY_MODELLED"
	modelled.All.Aborts = []AbortRow{{"leased", 1}}
	c := NewCompare([]*Read{saved(t, fixedRun()), saved(t, modelled)}, 0)
	var text bytes.Buffer
	if err := c.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	html := textOf(parsed(t, c.WriteHTML).root)
	for name, want := range map[string]int{"committed: balance": 1, "committed: only-modelled": 1,
		"verbs: RDMA_READ": 1, "verbs: ONLY_MODELLED": 1, "aborts: locked": 1, "aborts: leased": 2} {
		if n := strings.Count(text.String(), "\n"+name+" "); n != want {
			t.Errorf("the text has %q %d times, want %d", name, n, want)
		}
		if n := strings.Count(html, " "+name+" "); n != want {
			t.Errorf("the page has %q %d times, want %d", name, n, want)
		}
	}
}

func TestCompareWarns(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b *Bench)
		want   string // "" is no warning
	}{
		{"same", func(*Bench) {}, ""},
		{"protocol", func(b *Bench) { b.Protocol = "twopl" }, ""},
		{"seed", func(b *Bench) { b.Seed++ }, ""},
		{"machine", func(b *Bench) { b.Machine.CPU = "other" }, "different machines"},
		{"kernel", func(b *Bench) { b.Machine.Kernel = "other" }, "different machines"},
		{"workload", func(b *Bench) { b.Settings = "other" }, "different workloads"},
		{"recorded", func(b *Bench) { b.Recorded = true }, "recorded their history"},
		{"transport", func(b *Bench) { b.Transport = "ibv" }, "different transports"},
		{"interrupted", func(b *Bench) { b.Interrupted = true }, "run B was interrupted"},
		{"lost", func(b *Bench) { b.Lost = "node 1" }, "run B lost nodes: node 1"},
		{"bug", func(b *Bench) { b.Mutation = "bug" }, "run B had the deliberate bug bug"},
		{"race", func(b *Bench) { b.Machine.Build.Race = true }, "race detector"},
		{"busy", func(b *Bench) { b.Environment.LoadAverage = value(float64(b.Machine.CPUs)) },
			"run B had a busy machine: load average"},
		{"idle", func(b *Bench) { b.Environment.LoadAverage = value(0.1) }, ""},
		{"nothing", func(b *Bench) { b.All.Committed = 0 }, "run B committed nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := fixedRun()
			c.change(b)
			got := NewCompare([]*Read{saved(t, fixedRun()), saved(t, b)}, 0).Warnings
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 ||
				!strings.Contains(got[0], c.want)) {
				t.Errorf("warnings %q, want %q", got, c.want)
			}
		})
	}
}

func TestCompareTakesAnotherBaseAndOneRun(t *testing.T) {
	half := fixedRun()
	half.All.PerSecond = 1000
	c := NewCompare([]*Read{saved(t, half), saved(t, fixedRun())}, 1)
	if r := c.metric(t, "committed").Ratios; *r[0] != .5 || *r[1] != 1 {
		t.Errorf("ratios %v %v", *r[0], *r[1])
	}
	none := fixedRun()
	none.All, none.Series, none.Quantiles, none.Verbs = KindRow{}, nil, nil, nil
	one := NewCompare([]*Read{saved(t, none)}, 0)
	var b bytes.Buffer
	if err := errors.Join(one.WriteText(&b), one.WriteJSON(&b), one.WriteHTML(&b)); err != nil {
		t.Fatal(err)
	}
}

func TestReadRefusesWhatIsNoReport(t *testing.T) {
	var whole bytes.Buffer
	if err := fixedRun().WriteJSON(&whole); err != nil {
		t.Fatal(err)
	}
	edit := func(old, replacement string) string {
		if !strings.Contains(whole.String(), old) {
			t.Fatalf("no %s in the report", old)
		}
		return strings.Replace(whole.String(), old, replacement, 1)
	}
	for _, c := range []struct{ name, content, why string }{
		{"empty", " \n", "it is empty"},
		{"cut", whole.String()[:whole.Len()/2], "it is cut off"},
		{"text", "workload smallbank", "it is no JSON at byte 1"},
		{"two", whole.String() + whole.String(), "it is no JSON at byte"},
		{"list", "[]", "array"},
		{"no schema", "{}", "it has no schema"},
		{"other schema", edit(BenchSchema, "drtmd.check/1"), `its schema is "drtmd.check/1"`},
		{"version", edit(BenchSchema, "drtmd.bench/2"), `version "2", this program reads 1`},
		{"type", edit(`"nodes": 3`, `"nodes": "3"`), "nodes is string"},
		{"negative", edit(`"elapsed_ns": 2000000000`, `"elapsed_ns": -2`), "negative"},
		{"workload", edit(`"smallbank"`, `""`), "no workload"},
		{"huge", edit(`"smallbank"`, `"`+strings.Repeat("x", maxFileBytes)+`"`), "longer than 32 MiB"},
		{"back in time", edit(`"at_ns": 2000000000`, `"at_ns": -5`), "goes back in time"},
		{"quantiles", edit(`"p": 0.9,`, `"p": 1.9,`), "not in order"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.json")
			if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := ReadBench(file)
			var wrong *FileError
			if !errors.As(err, &wrong) || wrong.File != file || !strings.Contains(wrong.Why, c.why) {
				t.Errorf("error %v, want one with %q", err, c.why)
			}
		})
	}
	if _, err := ReadBench(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func FuzzReadBench(f *testing.F) {
	var whole bytes.Buffer
	if err := fixedRun().WriteJSON(&whole); err != nil {
		f.Fatal(err)
	}
	f.Add(whole.Bytes())
	f.Add([]byte(`{"schema":"drtmd.bench/1","workload":"a","protocol":"b","series":[{"at_ns":1}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		b, _, why := parseBench(content)
		if why != "" {
			return
		}
		var out bytes.Buffer
		c := NewCompare([]*Read{{Bench: b}, {Bench: b}}, 0)
		if err := errors.Join(b.WriteHTML(&out), c.WriteText(&out), c.WriteJSON(&out),
			c.WriteHTML(&out)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestEnvironmentIsWhatTheSystemTells(t *testing.T) {
	dir := t.TempDir()
	write := func(name, s string) string {
		f := filepath.Join(dir, name)
		if err := os.WriteFile(f, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	e := environmentOf(write("governor", "powersave\n"), write("load", "0.50 0.1 0.1 1/2 3\n"))
	if e.Governor != "powersave" || e.LoadAverage == nil || *e.LoadAverage != .5 {
		t.Errorf("%+v", e)
	}
	none := environmentOf(filepath.Join(dir, "none"), write("bad", "x"))
	if none.Governor != "" || none.LoadAverage != nil {
		t.Errorf("%+v", none)
	}
}
