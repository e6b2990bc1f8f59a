package report

import (
	_ "embed"
	"html/template"
	"io"
)

// page is an HTML document: headline, notices, sections. It holds all that it shows, and neither
// needs a script nor another host.
type page struct {
	Title, Subtitle string
	Modelled        bool // there are numbers that a cost model made; each is marked
	Measured        bool // there are numbers of a real clock
	Stats           []stat
	Notices         []notice
	Sections        []section
}

// stat is a number of the headline.
type stat struct {
	Label, Value, Unit string
	Modelled           bool
}

// notice is what a reader must know before the numbers.
type notice struct {
	Level string // "good", "bad" or "note": the word in front says it too
	Word  string
	Text  string
}

// section of a page.
type section struct {
	ID, Title, Note string
	Figure          template.HTML // an SVG of package report's own making, or ""
	Nature          string        // of what Figure shows: measured or modelled, on what
	Tables          []htmlTable
	Text            []string // each shown as it was printed
}

// htmlTable has as many cells in each row as heads.
type htmlTable struct {
	Caption string
	Heads   []cell
	Rows    [][]cell
}

// cell of a table.
type cell struct {
	Text     string
	Number   bool // set to the right
	Modelled bool // a number that a cost model made
}

//go:embed page.html
var pageSource string

// writePage prints it.
func writePage(w io.Writer, p *page) error {
	t, err := template.New("page").Parse(pageSource)
	if err != nil {
		return err
	}
	return t.Execute(w, p)
}

// words are cells of text.
func words(all ...string) []cell {
	var row []cell
	for _, s := range all {
		row = append(row, cell{Text: s})
	}
	return row
}

// heads of a table; as in a table of text, one that begins with ">" is set to the right.
func heads(all ...string) []cell {
	row := words(all...)
	for i := range row {
		if s := row[i].Text; s != "" && s[0] == '>' {
			row[i] = cell{Text: s[1:], Number: true}
		}
	}
	return row
}

// figure makes a drawn plot part of a section. It was made by svg, which escapes what it is given.
func figure(drawn string) template.HTML { return template.HTML(drawn) }
