package reproduce

import (
	"fmt"
	"math"
	"strconv"

	"drtmd/cmd/drtmd/internal/report"
)

// limit bounds a deviation. The zero value bounds nothing.
type limit struct {
	bounds   bool
	size     float64
	relative bool // size is a share of the paper's number
	times    bool // size is a factor that neither is larger by
	why      string
}

// within bounds by a difference, share by a share of the paper's number.
func within(size float64) limit { return limit{bounds: true, size: size} }
func share(size float64) limit  { return limit{bounds: true, size: size, relative: true} }

// withinTimes bounds by how many times one number may be the other.
func withinTimes(size float64) limit {
	return limit{bounds: true, size: size, relative: true, times: true}
}

// because says where the size of a limit comes from.
func (l limit) because(why string) limit {
	l.why = why
	return l
}

// number is a number of a paper beside ours.
type number struct {
	what, unit, section string
	printed             string // the paper's; "" if it has none
	paper               float64
	digits              int // behind the point
	limit               limit
	reading             string
	fitted              bool
	// missed is why the bound is exceeded, where that is known; it changes nothing in the verdict.
	missed string
}

// seen are our values, one for each seed.
func (n number) seen(values ...float64) report.ComparedRow {
	sum, low, high := 0.0, math.Inf(1), math.Inf(-1)
	for _, v := range values {
		sum, low, high = sum+v, min(low, v), max(high, v)
	}
	mean := sum / float64(len(values))
	row := report.ComparedRow{What: n.what, Unit: n.unit, Section: n.section, Paper: n.printed,
		Ours: fixed(mean, n.digits), OursValue: &mean, Reading: n.reading, Fitted: n.fitted}
	if len(values) > 1 {
		row.Range = fixed(low, n.digits) + " to " + fixed(high, n.digits)
	}
	if n.printed == "" {
		return row
	}
	n.judge(&row, mean)
	return row
}

// judge sets deviation and bound of a row that the paper has a number for.
func (n *number) judge(row *report.ComparedRow, mean float64) {
	off := mean - n.paper
	share := n.limit.relative || !n.limit.bounds && n.paper != 0
	if share {
		off /= n.paper
		row.Deviation = fmt.Sprintf("%+.1f %%", 100*off)
	} else {
		row.Deviation = fmt.Sprintf("%+.*f", n.digits, off)
	}
	if !n.limit.bounds {
		return
	}
	row.Bound = strconv.FormatFloat(n.limit.size, 'g', 2, 64)
	if share {
		row.Bound = fmt.Sprintf("%g %%", 100*n.limit.size)
	}
	if n.limit.times {
		row.Bound = fmt.Sprintf("%g times", n.limit.size)
	}
	if n.limit.why != "" {
		row.Bound += " (" + n.limit.why + ")"
	}
	// Where the numbers are binary fractions the last bit must not decide.
	const rounding = 1e-9
	row.Exceeds = !(math.Abs(off) <= n.limit.size+rounding) // NaN exceeds
	if n.limit.times {
		row.Exceeds = !(mean <= n.paper*n.limit.size && n.paper <= mean*n.limit.size)
	}
	if row.Exceeds {
		row.Missed = n.missed
	}
}

func fixed(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// word is a word of the paper beside ours, which must be the same.
func word(what, section, paper, ours, reading string) report.ComparedRow {
	r := report.ComparedRow{What: what, Section: section, Paper: paper, Ours: ours, Bound: "equal",
		Deviation: "none", Reading: reading}
	if paper != ours {
		r.Deviation, r.Exceeds = "differs", true
	}
	return r
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
