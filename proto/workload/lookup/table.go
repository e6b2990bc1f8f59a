package lookup

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Schema names the JSON of a Table.
const Schema = "drtmd.lookup/1"

// Table is Table VI beside our figures: average READs per look-up.
type Table struct {
	Schema string `json:"schema"`
	Slots  int    `json:"slots"` // main slots of each structure
	Seed   uint64 `json:"seed"`
	Rows   []Row  `json:"rows"`
}

// Row is one structure under one distribution.
type Row struct {
	Structure    string `json:"structure"`
	Distribution string `json:"distribution"`
	Reading      string `json:"reading"` // under which ours compares to the paper's
	Fitted       bool   `json:"fitted"`  // the paper does not state the reading
	Cells        []Cell `json:"cells"`
}

// Cell is one figure.
type Cell struct {
	OccupancyPercent int     `json:"occupancy_percent"`
	Paper            string  `json:"paper"` // as printed; "" if the paper has no such figure
	Ours             float64 `json:"ours"`  // reads per look-up
	// Deviation is Ours less the paper's figure; nil if it has none.
	Deviation *float64 `json:"deviation,omitempty"`
	// Mean over many scramblings, of which ours is one, and standard deviation of one: Zipf rows
	// without a cache only.
	Mean  float64 `json:"mean,omitempty"`
	Sigma float64 `json:"sigma,omitempty"`
}

// WriteJSON writes the table as JSON.
func (t *Table) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(t)
}

// WriteText writes the table for people: paper, ours and the deviation side by side, readings below.
func (t *Table) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "READs per look-up (DrTM Table VI), %d slots, seed %d\n\n", t.Slots, t.Seed)
	fmt.Fprintf(&b, "%-32s %-7s", "", "keys")
	for _, o := range occupancies {
		fmt.Fprintf(&b, "%20s", fmt.Sprintf("%d %% full", o))
	}
	fmt.Fprintf(&b, "\n%-40s%s\n", "", strings.Repeat("  paper  ours   dev.", len(occupancies)))
	for i := range t.Rows {
		t.writeRow(&b, i)
	}
	b.WriteString("\ndev. is ours less the paper's; drtmd reproduce drtm/table-6 judges it by bounds.\n\n")
	for i, r := range t.Rows {
		label := ""
		if r.Fitted {
			label = "fitted: "
		}
		fmt.Fprintf(&b, "[%d] %s%s\n", i+1, label, r.Reading)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) writeRow(b *strings.Builder, i int) {
	r := &t.Rows[i]
	fmt.Fprintf(b, "%-32s %-7s", fmt.Sprintf("%s [%d]", r.Structure, i+1), r.Distribution)
	spread := false
	for _, o := range occupancies {
		c, ok := r.cell(o)
		if !ok {
			fmt.Fprintf(b, "%20s", "")
			continue
		}
		paper := c.Paper
		if paper == "" {
			paper = "-"
		}
		fmt.Fprintf(b, "%7s%6.3f%7s", paper, c.Ours, c.deviation(c.Ours))
		spread = spread || c.Sigma > 0
	}
	b.WriteString("\n")
	if !spread {
		return
	}
	fmt.Fprintf(b, "%40s", "mean, sigma of one run")
	for _, o := range occupancies {
		c, _ := r.cell(o)
		fmt.Fprintf(b, "%7.3f%6.3f%7s", c.Mean, c.Sigma, c.deviation(c.Mean))
	}
	b.WriteString("\n")
}

// printed is the paper's figure; false: it has none.
func (c *Cell) printed() (float64, bool) {
	v, err := strconv.ParseFloat(strings.TrimPrefix(c.Paper, "~"), 64)
	return v, err == nil
}

// compare fills in the deviation.
func (c *Cell) compare() {
	if v, ok := c.printed(); ok {
		d := c.Ours - v
		c.Deviation = &d
	}
}

// deviation is that of a number from the paper's, as text.
func (c *Cell) deviation(ours float64) string {
	if v, ok := c.printed(); ok {
		return fmt.Sprintf("%+.3f", ours-v)
	}
	return "-"
}

// cell is the figure at an occupancy.
func (r *Row) cell(occupancy int) (Cell, bool) {
	for _, c := range r.Cells {
		if c.OccupancyPercent == occupancy {
			return c, true
		}
	}
	return Cell{}, false
}
