package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table lays out columns: the first ones to the left, numbers to the right.
type table struct {
	right []bool
	rows  [][]string
}

// newTable takes the heads of the columns; one that begins with ">" is set to the right.
func newTable(heads ...string) *table {
	t := &table{}
	for i, h := range heads {
		t.right = append(t.right, strings.HasPrefix(h, ">"))
		heads[i] = strings.TrimPrefix(h, ">")
	}
	t.row(heads...)
	return t
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer, indent string) error {
	widths := make([]int, len(t.right))
	for _, r := range t.rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, r := range t.rows {
		var b strings.Builder
		b.WriteString(indent)
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if t.right[i] {
				b.WriteString(pad + c + "  ")
			} else {
				b.WriteString(c + pad + "  ")
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}
