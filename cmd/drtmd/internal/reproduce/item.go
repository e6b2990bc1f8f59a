package reproduce

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"drtmd/cmd/drtmd/internal/report"
)

// Kind says where an item's numbers come from.
type Kind uint8

const (
	Exact    Kind = iota + 1 // arithmetic, counting
	Measured                 // ratios of wall-clock times
	Modelled                 // virtual time
	NotHere                  // not reproducible here
)

func (k Kind) String() string {
	return [...]string{"?", "exact", "measured", "modelled", "not reproducible here"}[k]
}

// State says whether an item can be run.
type State uint8

const (
	Done    State = iota + 1
	Waiting       // for a system that is not built yet
	Never         // not reproducible here
)

func (s State) String() string { return [...]string{"?", "done", "waits", "never"}[s] }

// System is a paper with its items.
type System struct {
	Name  string // on the command line
	Title string // as people call it
	Paper string // who, what, where
	Items []Item
}

// Item is a table or a figure of a paper.
type Item struct {
	System string // System.Name
	Table  bool   // otherwise a figure
	Number int
	Roman  bool // the paper writes the numbers of its tables in Roman digits
	// Wall says that it is a modelled figure, measured by the wall clock: an item of its own, since the two kinds of
	// numbers share no table.
	Wall bool
	// Split is the letter of a figure's part that is an item of its own; "": the item is the whole figure.
	Split string
	// Named is the name of an item that is of no table and no figure: numbers that the paper's text has, or that follow
	// from its tables.
	Named string
	Title string // what it shows
	Kind  Kind
	// Waits names the system that a run needs and that is not built yet; "" if there is none.
	Waits string
	// Why it is not reproducible here, of kind NotHere; otherwise what of it is missing, or "".
	Note string

	run  func(r *Run) (*Outcome, error)
	cost cost
	// protocol is the one that the run is of; "" if it runs none.
	protocol string
}

// cost is the CPU time of a run on the development machine, with the start of the program, for estimates only:
// quick, and for each seed.
type cost struct{ quick, seed time.Duration }

// Outcome is what a run of an item gives.
type Outcome struct {
	Conditions string // what it ran with
	Rows       []report.ComparedRow
	Charts     []report.Chart
}

// State of the item.
func (i *Item) State() State {
	switch {
	case i.Kind == NotHere:
		return Never
	case i.run == nil:
		return Waiting
	}
	return Done
}

// Name is that of the command line: drtm/table-6.
func (i *Item) Name() string { return i.System + "/" + i.Part() }

// Part is the name within the paper: table-6.
func (i *Item) Part() string {
	if i.Named != "" {
		return i.Named
	}
	what := "figure"
	if i.Table {
		what = "table"
	}
	part := fmt.Sprintf("%s-%d%s", what, i.Number, i.Split)
	if i.Wall {
		part += "-wall"
	}
	return part
}

// Whole is the name of the figure that the item is a part of; that of the item if it is none.
func (i *Item) Whole() string { return strings.TrimSuffix(i.Name(), i.Split) }

// Label is what the paper calls it: Table VI, Figure 3.
func (i *Item) Label() string {
	switch {
	case i.Named != "":
		return strings.ToUpper(i.Named[:1]) + i.Named[1:]
	case i.Wall:
		return fmt.Sprintf("Figure %d by the wall clock", i.Number)
	case i.Split != "":
		return fmt.Sprintf("Figure %d(%s)", i.Number, i.Split)
	case !i.Table:
		return fmt.Sprintf("Figure %d", i.Number)
	case i.Roman:
		return "Table " + roman(i.Number)
	}
	return fmt.Sprintf("Table %d", i.Number)
}

// roman writes 1 to 39.
func roman(n int) string {
	s := strings.Repeat("X", n/10)
	return s + [...]string{"", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"}[n%10]
}

// Entry is the item as lists and pages show it.
func (i *Item) Entry() report.PaperItem {
	return report.PaperItem{Name: i.Name(), Label: i.Label(), Title: i.Title, Kind: i.Kind.String(),
		State: i.State().String(), WaitsFor: i.Waits, Note: i.Note}
}

// notReproducible makes an item that cannot be reproduced here.
func notReproducible(title, why string) Item { return Item{Title: title, Kind: NotHere, Note: why} }

// numbered puts tables and figures of a paper together, each in the order of their numbers.
func numbered(system string, roman bool, tables, figures []Item) []Item {
	var all []Item
	for n := range tables {
		tables[n].Table, tables[n].Roman = true, roman
	}
	for _, list := range [][]Item{tables, figures} {
		for n, i := range list {
			i.System, i.Number = system, n+1
			all = append(all, i)
		}
	}
	return all
}

// inParts puts the parts of a figure, (a) and so on, in its place.
func inParts(items []Item, number int, parts ...Item) []Item {
	at := slices.IndexFunc(items, func(i Item) bool { return !i.Table && i.Number == number })
	for n := range parts {
		parts[n].System, parts[n].Number, parts[n].Split = items[at].System, number, string(rune('a'+n))
	}
	return slices.Replace(items, at, at+1, parts...)
}

// byTheWallClock adds figures that are measured beside those that are modelled, by their numbers.
func byTheWallClock(system string, items []Item, figures map[int]Item) []Item {
	for _, n := range slices.Sorted(maps.Keys(figures)) {
		i := figures[n]
		i.System, i.Number, i.Wall, i.Kind = system, n, true, Measured
		items = append(items, i)
	}
	return items
}

// Reasons that several items share.
const (
	drawing  = "a drawing of the design, without numbers"
	program  = "pseudo-code, without numbers"
	inWords  = "a table of words, without numbers"
	settings = "the authors' cluster: input of the model, not a result"
)
