package reproduce

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto/workload/lookup"
)

const (
	lookupSlots      = lookup.DefaultSlots
	lookupSlotsQuick = 100_000
	sixFour          = "§6.4"
)

// lookupLimit is the bound on a row of Table VI at lookupSlots; none where the paper has no number,
// or where no reading gives it. Rows with a sigma have another one: see lookupRow.
func lookupLimit(r *lookup.Row) limit {
	switch {
	case strings.HasPrefix(r.Structure, sixFour):
		return within(0.0015)
	case r.Structure == "cluster with cache, warm":
		return within(0.03)
	case r.Distribution != "uniform":
		return limit{}
	}
	size, ok := map[string]float64{"cuckoo": 0.003, "hopscotch": 0.001,
		"cluster, 8 keys and link": 0.002, "cluster with cache": 0.004}[r.Structure]
	if !ok {
		return limit{}
	}
	return within(size)
}

// tableVI counts READs with the structures of package lookup.
func tableVI(r *Run) (*Outcome, error) {
	slots := pick(r, lookupSlots, lookupSlotsQuick)
	var tables []lookup.Table
	for seed := range r.Seeds {
		t, err := lookup.Run(lookup.Options{Slots: slots, Seed: uint64(seed + 1),
			Progress: func(done, total int) { r.progress(seed*total+done, r.Seeds*total) },
			Stop:     func() bool { return r.ctx.Err() != nil }})
		switch {
		case errors.Is(err, lookup.ErrStopped):
			return nil, r.ctx.Err()
		case err != nil:
			return nil, err
		}
		tables = append(tables, t)
	}
	o := &Outcome{Conditions: fmt.Sprintf("%d main slots in each structure (the paper: 20 million; "+
		"averages do not depend on it), %s", slots, r.seedsText())}
	for i := range tables[0].Rows {
		for j := range tables[0].Rows[i].Cells {
			row, err := lookupRow(tables, i, j, math.Sqrt(float64(lookupSlots)/float64(slots)))
			if err != nil {
				return nil, err
			}
			o.Rows = append(o.Rows, row)
		}
	}
	return o, nil
}

// lookupRow is a cell of the table, in all runs. Averages err by chance, which widen says how much
// more they do than at lookupSlots: it grows as the root of the slots falls.
func lookupRow(tables []lookup.Table, i, j int, widen float64) (report.ComparedRow, error) {
	r := &tables[0].Rows[i]
	c := r.Cells[j]
	n := number{what: fmt.Sprintf("%s, %s, %d %%", r.Structure, r.Distribution, c.OccupancyPercent),
		unit: "READs", digits: 3, printed: c.Paper, reading: r.Reading, fitted: r.Fitted}
	if c.Paper != "" {
		n.section = "Table VI"
		if strings.HasPrefix(r.Structure, sixFour) {
			n.section = sixFour
		}
		v, err := strconv.ParseFloat(strings.TrimPrefix(c.Paper, "~"), 64)
		if err != nil {
			return report.ComparedRow{}, fmt.Errorf("table VI has %q: %w", c.Paper, err)
		}
		n.paper = v
	}
	n.limit = lookupLimit(r)
	n.limit.size *= widen
	var values []float64
	for _, t := range tables {
		cell := t.Rows[i].Cells[j]
		if cell.Sigma == 0 {
			values = append(values, cell.Ours)
			continue
		}
		// The paper's cell is one run: it fits if it is a likely one.
		values = append(values, cell.Mean)
		n.limit = within(3 * cell.Sigma).because("3 sigma of one run")
		n.reading = "expectation over scramblings; which keys are hot is chance in one run"
	}
	return n.seen(values...), nil
}
