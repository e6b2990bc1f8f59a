package report

import (
	"io"
	"strings"
	"time"
)

// WriteHTML prints the comparison as one self-contained page with the runs' curves on each other.
func (c *Compare) WriteHTML(w io.Writer) error {
	p := &page{Title: "Comparison of " + count(len(c.Runs), "run"),
		Subtitle: "ratios are to run " + c.Runs[c.Base].Name}
	for _, warning := range c.Warnings {
		p.Notices = append(p.Notices, notice{"note", "warning", warning})
	}
	for _, r := range c.Runs {
		p.Modelled = p.Modelled || r.Virtual
		p.Measured = p.Measured || !r.Virtual
	}
	p.Sections = []section{{ID: "runs", Title: "Runs", Tables: []htmlTable{c.runTable()}}}
	for _, group := range c.groups() {
		more, err := c.sections(group)
		if err != nil {
			return err
		}
		p.Sections = append(p.Sections, more...)
	}
	settings := section{ID: "settings", Title: "Settings that differ"}
	if settings.Tables = c.differenceTable(); settings.Tables == nil {
		settings.Note = "None."
	}
	commands := section{ID: "command", Title: "Command lines"}
	for i, r := range c.Runs {
		commands.Text = append(commands.Text, r.Name+"  "+c.benches[i].CommandLine())
	}
	p.Sections = append(p.Sections, settings, commands)
	return writePage(w, p)
}

// sections with the numbers of a group.
func (c *Compare) sections(group []int) ([]section, error) {
	clock := ""
	if len(c.groups()) > 1 || c.Runs[group[0]].Virtual {
		clock = map[bool]string{true: ", modelled in virtual time", false: ", in real time"}[c.
			Runs[group[0]].Virtual]
	}
	id := map[bool]string{true: "-modelled"}[c.Runs[group[0]].Virtual]
	var all []section
	for _, f := range []struct {
		id, title, none string
		draw            func([]named) (string, error)
		metrics         string // beginnings of the names of those beside the plot
	}{
		{"throughput", "Throughput over time", "No run has a series.", throughputPlot,
			"committed|rolled back"},
		{"latency", "Latency", "No run has quantiles.", latencyPlot, "latency"},
		{"aborts", "Aborts by cause", "No attempt was aborted.", abortPlot, "abort|given up|unknown"},
		{"verbs", "Verbs and paths", "", nil, "verbs|payload|fallback"},
	} {
		s := section{ID: f.id + id, Title: f.title + clock,
			Tables: []htmlTable{c.metricTable(f.title+clock, f.metrics, group)}}
		if f.draw != nil {
			drawn, err := f.draw(c.named(group))
			if err != nil {
				return nil, err
			}
			s.Figure, s.Note = figure(drawn), missing(drawn, f.none)
			s.Nature = c.natureLine(group)
		}
		all = append(all, s)
	}
	return all, nil
}

// natureLine is what the numbers of a group are; runs that differ in it are named.
func (c *Compare) natureLine(group []int) string {
	line := c.benches[group[0]].natureLine()
	for _, i := range group {
		if c.benches[i].natureLine() == line {
			continue
		}
		var all []string
		for _, j := range group {
			all = append(all, c.Runs[j].Name+": "+c.benches[j].natureLine())
		}
		return strings.Join(all, " ")
	}
	return line
}

func (c *Compare) runTable() htmlTable {
	t := htmlTable{Caption: "Runs and their verdicts", Heads: heads("run", "file", "workload",
		"protocol", "transport", "date", "time", "strictly serializable", "sums conserved")}
	for i, r := range c.Runs {
		b := c.benches[i]
		clock := "real"
		if r.Virtual {
			clock = "virtual: modelled"
		}
		t.Rows = append(t.Rows, words(r.Name, r.File, b.Workload, b.Protocol, b.Transport,
			r.Date.UTC().Format(time.RFC3339), clock, r.Verdict, r.Conserved))
	}
	return t
}

// metricTable has the metrics whose names begin with one of the words, which | separates.
func (c *Compare) metricTable(caption, begins string, group []int) htmlTable {
	t := htmlTable{Caption: caption + ": runs and their ratios", Heads: heads(c.columns(group)...)}
	for _, m := range c.Metrics {
		wanted := false
		for _, b := range strings.Split(begins, "|") {
			wanted = wanted || strings.HasPrefix(m.Name, b)
		}
		if !wanted || !m.anyOf(group) {
			continue
		}
		row := words(m.Name, m.Unit)
		for _, i := range group {
			r := c.Runs[i]
			number, times := m.text(i, c.Base)
			row = append(row, cell{number, true, r.Virtual && number != "-"})
			if i != c.Base {
				row = append(row, cell{times, true,
					(r.Virtual || c.Runs[c.Base].Virtual) && times != "-"})
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (c *Compare) differenceTable() []htmlTable {
	if len(c.Differences) == 0 {
		return nil
	}
	t := htmlTable{Caption: "Settings that are not the same in all runs", Heads: words("setting")}
	for _, r := range c.Runs {
		t.Heads = append(t.Heads, cell{Text: r.Name})
	}
	for _, d := range c.Differences {
		t.Rows = append(t.Rows, words(append([]string{d.Setting}, d.Values...)...))
	}
	return []htmlTable{t}
}
