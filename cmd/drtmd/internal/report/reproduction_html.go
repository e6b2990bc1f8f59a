package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// PrepareReproduction makes the folder that WritePages is going to write to, and says why it could
// not.
func PrepareReproduction(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("folder for the pages: %w; name one that you may write to", err)
	}
	if err := mayWrite(dir); err != nil {
		return fmt.Errorf("folder for the pages: %w; name one that you may write to", err)
	}
	return nil
}

// WritePages writes a page for each of the systems of which something was run, and says which files
// these are.
func (r *Reproduction) WritePages(dir string, systems []PaperSystem) (files []string, err error) {
	for i := range systems {
		s := &systems[i]
		if len(r.of(s)) == 0 {
			continue
		}
		file := filepath.Join(dir, s.Name+".html")
		write := func(w io.Writer) error { return r.WriteHTML(w, s) }
		if failed := errors.Join(MayReplace(file), Replace(file, write)); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		files = append(files, file)
	}
	return files, err
}

// of are the items of a system.
func (r *Reproduction) of(s *PaperSystem) (found []*Reproduced) {
	for i := range r.Items {
		if strings.HasPrefix(r.Items[i].Name, s.Name+"/") {
			found = append(found, &r.Items[i])
		}
	}
	return found
}

// WriteHTML prints what was run of a system as one self-contained page, with the list of all its
// tables and figures.
func (r *Reproduction) WriteHTML(w io.Writer, s *PaperSystem) error {
	items := r.of(s)
	p := &page{Title: s.Title + ", reproduced", Subtitle: s.Paper, Notices: r.pageNotices(items)}
	rows, compared := 0, 0
	for _, i := range items {
		p.Modelled = p.Modelled || i.Kind == KindModelled
		p.Measured = p.Measured || i.Kind == KindMeasured
		rows += len(i.Rows)
		for j := range i.Rows {
			if i.Rows[j].Bound != "" {
				compared++
			}
		}
		sections, err := r.itemSections(i)
		if err != nil {
			return err
		}
		p.Sections = append(p.Sections, sections...)
	}
	p.Stats = []stat{{Label: "tables and figures", Value: fmt.Sprint(len(s.Items))},
		{Label: "run", Value: fmt.Sprint(len(items))}, {Label: "rows", Value: fmt.Sprint(rows)},
		{Label: "with a bound", Value: fmt.Sprint(compared)}}
	p.Sections = append(p.Sections, s.listSection(), r.machineSection())
	return writePage(w, p)
}

// pageNotices say the verdict, and what a reader must know before the numbers.
func (r *Reproduction) pageNotices(items []*Reproduced) (all []notice) {
	over := 0
	for _, i := range items {
		for j := range i.Rows {
			if row := &i.Rows[j]; row.Exceeds {
				over++
				all = append(all, notice{"bad", "exceeds", fmt.Sprintf("%s, %s: paper %s, ours %s, "+
					"deviation %s, bound %s", i.Label, row.label(i.Label), row.Paper, row.Ours, row.Deviation,
					row.Bound)})
			}
		}
	}
	if over == 0 {
		all = append(all, notice{"good", "within bounds", "no deviation exceeds its bound"})
	}
	if r.Interrupted {
		all = append(all, notice{"bad", "interrupted", "items are missing"})
	}
	if r.Quick {
		all = append(all, notice{"note", "quick", "smaller sizes and wider bounds: not the numbers to " +
			"quote"})
	}
	return all
}

// itemSections are one with the table, and one for each chart.
func (r *Reproduction) itemSections(i *Reproduced) ([]section, error) {
	_, id, _ := strings.Cut(i.Name, "/")
	modelled := i.Kind == KindModelled
	first := section{ID: id, Title: i.Label + ": " + i.Title, Note: i.Kind + ": " + i.Conditions,
		Tables: []htmlTable{i.comparison(modelled)}, Text: []string{r.commandOf(i)}}
	if notes := readings(i.Rows); len(notes.all) > 0 {
		t := htmlTable{Caption: "Readings", Heads: heads("", "how the paper's number is read")}
		for n, text := range notes.all {
			t.Rows = append(t.Rows, words(fmt.Sprintf("[%d]", n+1), text))
		}
		first.Tables = append(first.Tables, t)
	}
	if i.Note != "" {
		first.Text = append(first.Text, "not here: "+i.Note)
	}
	all := []section{first}
	for n := range i.Charts {
		c := &i.Charts[n]
		drawn, err := c.drawn()
		if err != nil {
			return nil, err
		}
		all = append(all, section{ID: fmt.Sprintf("%s-%c", id, 'a'+n), Title: i.Label + " " + c.Title,
			Figure: figure(drawn), Nature: i.Kind + ": " + i.Conditions,
			Tables: []htmlTable{c.table(modelled)}})
	}
	return all, nil
}

// commandOf makes an item again.
func (r *Reproduction) commandOf(i *Reproduced) string {
	s := fmt.Sprintf("drtmd reproduce %s --seeds %d", i.Name, r.Seeds)
	if r.Quick {
		s += " --quick"
	}
	return s
}

// comparison is the table of paper and ours.
func (r *Reproduced) comparison(modelled bool) htmlTable {
	t := htmlTable{Caption: r.Label + ", the paper's beside ours",
		Heads: heads("what", ">paper", ">ours", ">range", ">deviation", ">bound", "", "reading")}
	const rangeAt = 3
	if !r.ranged() {
		t.Heads = slices.Delete(t.Heads, rangeAt, rangeAt+1)
	}
	notes := readings(r.Rows)
	for i := range r.Rows {
		row := &r.Rows[i]
		number := func(s string, ours bool) cell {
			return cell{Text: s, Number: true, Modelled: modelled && ours && s != ""}
		}
		cells := []cell{{Text: row.label(r.Label)}, number(dash(row.Paper), false),
			number(row.Ours, true), number(row.Range, true), number(row.Deviation, false),
			number(dash(row.Bound), false), {Text: row.Verdict()}, {Text: notes.mark(row)}}
		if !r.ranged() {
			cells = slices.Delete(cells, rangeAt, rangeAt+1)
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// listSection lists the tables and figures of the paper, whether run or not.
func (s *PaperSystem) listSection() section {
	t := htmlTable{Caption: "Tables and figures of the paper",
		Heads: heads("name", "kind", "state", "what")}
	for _, i := range s.Items {
		t.Rows = append(t.Rows, words(i.Name, i.Kind, i.stateText(), i.what()))
	}
	return section{ID: "list", Title: "All tables and figures", Tables: []htmlTable{t}}
}

// machineSection says what ran, when, on what.
func (r *Reproduction) machineSection() section {
	t := htmlTable{Caption: "Machine and software", Heads: heads("what", "value")}
	for _, s := range []setting{{"date", r.Date.UTC().Format(time.RFC3339)},
		{"CPU", r.Machine.CPU}, {"kernel", r.Machine.Kernel}, {"software", r.Machine.Build.String()},
		{"seeds", fmt.Sprintf("1 to %d", r.Seeds)}} {
		t.Rows = append(t.Rows, words(s.name, s.value))
	}
	return section{ID: "environment", Title: "Environment", Tables: []htmlTable{t},
		Text: []string{shellLine(r.Command)}}
}
