package report

import (
	"io"
	"time"
)

// ReproduceSchema of the JSON documents of drtmd reproduce.
const ReproduceSchema = "drtmd.reproduce/1"

// PaperItem is a table or a figure of a paper, and whether it can be reproduced.
type PaperItem struct {
	Name  string `json:"name"`  // on the command line: drtm/table-6
	Label string `json:"label"` // in the paper: Table VI
	Title string `json:"title"`
	// Kind is exact, measured, modelled or not reproducible here; State is done, waits or never.
	Kind     string `json:"kind"`
	State    string `json:"state"`
	WaitsFor string `json:"waits_for,omitempty"`
	Note     string `json:"note,omitempty"` // why not, or what is missing
}

// The kinds of items whose numbers are marked.
const (
	KindModelled = "modelled"
	KindMeasured = "measured"
)

// PaperSystem is a paper with its tables and figures.
type PaperSystem struct {
	Name  string      `json:"name"`
	Title string      `json:"title"`
	Paper string      `json:"paper"`
	Items []PaperItem `json:"items"`
}

// PaperList is what drtmd reproduce --list gives.
type PaperList struct {
	Schema  string        `json:"schema"`
	Systems []PaperSystem `json:"systems"`
}

// WriteJSON prints the list for programs.
func (l *PaperList) WriteJSON(w io.Writer) error {
	l.Schema = ReproduceSchema
	return writeJSON(w, l)
}

// ComparedRow is a number, or a word, of a paper beside ours.
type ComparedRow struct {
	What    string `json:"what"`
	Unit    string `json:"unit,omitempty"`
	Section string `json:"section,omitempty"` // where the paper has it
	Paper   string `json:"paper"`             // as printed; "" if it has none
	Ours    string `json:"ours"`
	// OursValue is Ours as a number, and Range the least and the most of several seeds.
	OursValue *float64 `json:"ours_value,omitempty"`
	Range     string   `json:"range,omitempty"`
	Deviation string   `json:"deviation,omitempty"`
	Bound     string   `json:"bound,omitempty"` // on the deviation; "" if there is none
	Exceeds   bool     `json:"exceeds_bound"`
	Missed    string   `json:"missed,omitempty"`  // why it exceeds the bound, if that is known
	Reading   string   `json:"reading,omitempty"` // under which the two are compared
	Fitted    bool     `json:"fitted,omitempty"`  // the paper does not state the reading
}

// Verdict is "ok", "exceeds", or "-" where nothing is compared.
func (r *ComparedRow) Verdict() string {
	switch {
	case r.Bound == "":
		return "-"
	case r.Exceeds:
		return "exceeds"
	}
	return "ok"
}

// Chart is a plot with the axes of the paper's.
type Chart struct {
	Title  string       `json:"title"`
	X      string       `json:"x"` // what the axis shows, with the unit
	Y      string       `json:"y"`
	LogX   bool         `json:"log_x,omitempty"`
	LogY   bool         `json:"log_y,omitempty"`
	Curves []ChartCurve `json:"curves"`
	Marks  []ChartMark  `json:"marks,omitempty"`
}

// ChartMark is a moment of a chart over time: something happens there.
type ChartMark struct {
	X    float64 `json:"x"`
	Text string  `json:"text"`
}

// ChartCurve is one of its curves.
type ChartCurve struct {
	Name   string       `json:"name"`
	Paper  bool         `json:"paper"` // points that the paper prints, drawn without a line
	Points [][2]float64 `json:"points"`
}

// Reproduced is an item with what a run of it gave.
type Reproduced struct {
	PaperItem
	Conditions string        `json:"conditions"`
	ElapsedNs  int64         `json:"elapsed_ns"`
	Rows       []ComparedRow `json:"rows"`
	Charts     []Chart       `json:"charts,omitempty"`
}

// Exceeding are the rows whose deviation is over the bound.
func (r *Reproduced) Exceeding() (n int) {
	for i := range r.Rows {
		if r.Rows[i].Exceeds {
			n++
		}
	}
	return n
}

// Reproduction is a run of drtmd reproduce.
type Reproduction struct {
	Schema      string       `json:"schema"`
	Date        time.Time    `json:"date"` // UTC, of the start
	Machine     Machine      `json:"machine"`
	Command     []string     `json:"command"`
	Quick       bool         `json:"quick"`
	Seeds       int          `json:"seeds"`
	Interrupted bool         `json:"interrupted"` // items are missing
	Items       []Reproduced `json:"items"`
}

// WriteJSON prints the run for programs.
func (r *Reproduction) WriteJSON(w io.Writer) error {
	r.Schema = ReproduceSchema
	if r.Items == nil {
		r.Items = []Reproduced{}
	}
	return writeJSON(w, r)
}

// Exceeding is the number of rows whose deviation is over the bound.
func (r *Reproduction) Exceeding() (n int) {
	for i := range r.Items {
		n += r.Items[i].Exceeding()
	}
	return n
}
