package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// WriteText prints the list for people: a line for each table and figure.
func (l *PaperList) WriteText(w io.Writer) error {
	var b strings.Builder
	for n, s := range l.Systems {
		if n > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s: %s\n\n", s.Title, s.Paper)
		t := newTable("NAME", "KIND", "STATE", "WHAT")
		for _, i := range s.Items {
			t.row(i.Name, i.Kind, i.stateText(), i.what())
		}
		if err := t.write(&b, "  "); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// what is the title, with why the item is not reproducible, or what of it is missing.
func (i *PaperItem) what() string {
	switch {
	case i.Note == "":
		return i.Title
	case i.State == "done":
		return i.Title + "; not here: " + i.Note
	}
	return i.Title + "; " + i.Note
}

// stateText says what an item waits for.
func (i *PaperItem) stateText() string {
	switch {
	case i.WaitsFor != "":
		return "waits for " + i.WaitsFor
	case i.State == "never":
		return "-"
	}
	return i.State
}

// WriteText prints an item with paper and ours beside each other, and the readings below.
func (r *Reproduced) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s: %s\n", r.Name, r.Label, r.Title)
	fmt.Fprintf(&b, "  %s: %s; took %s\n\n", r.Kind, r.Conditions, roughly(time.Duration(r.ElapsedNs)))
	if err := r.table().write(&b, "  "); err != nil {
		return err
	}
	b.WriteString("\n")
	for n, text := range readings(r.Rows).all {
		fmt.Fprintf(&b, "  [%d] %s\n", n+1, text)
	}
	if r.Note != "" {
		fmt.Fprintf(&b, "  not here: %s\n", r.Note)
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// table has the rows; the column of ranges only where there are several seeds.
func (r *Reproduced) table() *table {
	notes := readings(r.Rows)
	if !r.ranged() {
		t := newTable("", ">paper", ">ours", ">deviation", ">bound", "", "")
		for i := range r.Rows {
			row := &r.Rows[i]
			t.row(row.label(r.Label), dash(row.Paper), row.Ours, row.Deviation, dash(row.Bound),
				row.Verdict(), notes.mark(row))
		}
		return t
	}
	t := newTable("", ">paper", ">ours", ">range", ">deviation", ">bound", "", "")
	for i := range r.Rows {
		row := &r.Rows[i]
		t.row(row.label(r.Label), dash(row.Paper), row.Ours, row.Range, row.Deviation, dash(row.Bound),
			row.Verdict(), notes.mark(row))
	}
	return t
}

// ranged reports whether a row is of several seeds.
func (r *Reproduced) ranged() bool {
	return slices.ContainsFunc(r.Rows, func(x ComparedRow) bool { return x.Range != "" })
}

// label of a row, with unit, and with the section unless that is where the whole item is.
func (r *ComparedRow) label(item string) string {
	s := r.What
	if r.Unit != "" {
		s += " [" + r.Unit + "]"
	}
	if r.Section != "" && r.Section != item {
		s += ", " + r.Section
	}
	return s
}

// dash stands for what a paper does not have.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// noteList are the readings and reasons of an item, each once.
type noteList struct {
	all   []string
	index map[string]int
}

func readings(rows []ComparedRow) *noteList {
	n := &noteList{index: map[string]int{}}
	for i := range rows {
		for _, text := range rows[i].notes() {
			if _, seen := n.index[text]; !seen {
				n.all = append(n.all, text)
				n.index[text] = len(n.all)
			}
		}
	}
	return n
}

// mark has the numbers of a row's notes.
func (n *noteList) mark(r *ComparedRow) string {
	var marks []string
	for _, text := range r.notes() {
		marks = append(marks, fmt.Sprintf("[%d]", n.index[text]))
	}
	return strings.Join(marks, " ")
}

// notes of a row: its reading, and why it exceeds its bound.
func (r *ComparedRow) notes() (all []string) {
	switch {
	case r.Fitted:
		all = append(all, "fitted, the paper does not state it: "+r.Reading)
	case r.Reading != "":
		all = append(all, r.Reading)
	}
	if r.Missed != "" {
		all = append(all, "exceeds its bound: "+r.Missed)
	}
	return all
}

// roughly is a time in three digits or so.
func roughly(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// WriteSummary prints how many rows were compared and which are over their bounds.
func (r *Reproduction) WriteSummary(w io.Writer) error {
	rows, compared := 0, 0
	var b strings.Builder
	for i := range r.Items {
		for j := range r.Items[i].Rows {
			row := &r.Items[i].Rows[j]
			rows++
			if row.Bound != "" {
				compared++
			}
			if row.Exceeds {
				known := ""
				if row.Missed != "" {
					known = ", for a known reason"
				}
				fmt.Fprintf(&b, "EXCEEDS its bound%s: %s, %s: paper %s, ours %s, deviation %s, bound %s\n", known,
					r.Items[i].Name, row.label(r.Items[i].Label), row.Paper, row.Ours, row.Deviation, row.Bound)
			}
		}
	}
	fmt.Fprintf(&b, "%s, %d rows, %d with a bound, %d over it\n", count(len(r.Items), "item"), rows,
		compared, r.Exceeding())
	for i := range r.Items {
		if r.Items[i].Kind == KindMeasured {
			fmt.Fprintf(&b, "measured items are ratios of wall-clock times on %s\n", r.Machine)
			break
		}
	}
	if r.Interrupted {
		b.WriteString("interrupted: items are missing\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
